//! Edges and joins within one scope, by the letter of semantics §2 and §3.

use serde_json::Value;

use super::expression::{Sight, evaluate, holds};
use super::read::{Arrow, Sort};
use super::scope::{Scope, Status, Stop};
use crate::model::derive::Fate;
use crate::model::{After, Names};

impl Scope {
    /// Resolves edges and joins that wait for all; says whether anything changed.
    pub(crate) fn route(&mut self, sight: &Sight) -> bool {
        let body = self.body.clone();
        let mut changed = false;
        for (place, arrow) in body.arrows.iter().enumerate() {
            if self.fates[place] == Fate::Open {
                self.fates[place] = self.fate(arrow, sight);
                changed |= self.fates[place] != Fate::Open;
            }
        }
        for node in &body.nodes {
            let incoming = self.incoming(&node.id);
            let undecided = self.is_undecided(&node.id);
            let waits_for_all = node.enough.is_none() || incoming.is_empty();
            if undecided && waits_for_all && !incoming.contains(&Fate::Open) {
                self.join_all(&node.id, &incoming);
                changed = true;
            }
        }
        changed
    }

    /// Decides the first join in definition order that need not wait for all its edges
    /// and can be decided.
    pub(crate) fn join_early(&mut self) -> bool {
        let body = self.body.clone();
        for node in &body.nodes {
            let (Some(enough), true) = (node.enough, self.is_undecided(&node.id)) else {
                continue;
            };
            let incoming = self.incoming(&node.id);
            let taken = incoming.iter().filter(|fate| fate.is_taken()).count();
            let open = incoming.iter().filter(|fate| **fate == Fate::Open).count();
            if taken >= enough {
                self.node(&node.id).joined = Some(recovered(&incoming));
                self.let_go(&node.id);
                return true;
            }
            if taken + open < enough {
                self.refuse(&node.id, lost(&incoming));
                return true;
            }
        }
        false
    }

    fn is_undecided(&self, id: &str) -> bool {
        let node = &self.nodes[id];
        node.status == Status::Pending && node.joined.is_none()
    }

    fn incoming(&self, id: &str) -> Vec<Fate> {
        let arrows = self.body.arrows.iter().zip(&self.fates);
        arrows
            .filter(|(arrow, _)| arrow.to == id)
            .map(|(_, fate)| fate.clone())
            .collect()
    }

    fn join_all(&mut self, id: &str, incoming: &[Fate]) {
        let (lost, recovered) = (lost(incoming), recovered(incoming));
        let any_taken = incoming.iter().any(Fate::is_taken);
        let is_entry = incoming.is_empty();
        if lost.is_subset(&recovered) && (any_taken || is_entry) {
            self.node(id).joined = Some(recovered);
        } else {
            self.refuse(id, lost.difference(&recovered).cloned().collect());
        }
    }

    fn refuse(&mut self, id: &str, by: Names) {
        let node = self.node(id);
        node.status = if by.is_empty() {
            Status::Skipped
        } else {
            Status::Blocked
        };
        node.blocked_by = by;
    }

    /// Upstream work of a join that has enough is cancelled where it leads only into joins that
    /// have enough, into what has ended, or into cancelled work.
    fn let_go(&mut self, join: &str) {
        let before = self.unended_before(join);
        loop {
            let needless = |id: &&String| {
                let mut outgoing = self.body.arrows.iter().filter(|arrow| arrow.from == **id);
                let serves_nothing = |arrow: &Arrow| {
                    self.nodes[&arrow.to].status.has_ended() || self.has_enough(&arrow.to)
                };
                !self.nodes[*id].status.has_ended() && outgoing.all(serves_nothing)
            };
            let Some(id) = before.iter().find(needless) else {
                return;
            };
            self.drop_node(id, None);
            self.node(id).let_go = true;
        }
    }

    fn has_enough(&self, id: &str) -> bool {
        let incoming = self.incoming(id);
        let taken = incoming.iter().filter(|fate| fate.is_taken()).count();
        let enough = self.definition(id).enough;
        enough.is_some_and(|enough| taken >= enough)
    }

    /// What leads to a node and has not ended.
    fn unended_before(&self, id: &str) -> Names {
        let mut before = Names::from([id.to_owned()]);
        loop {
            let arrows = self.body.arrows.iter();
            let leads_in = arrows.filter(|arrow| before.contains(&arrow.to));
            let sources = leads_in.map(|arrow| arrow.from.clone());
            let found: Names = sources
                .filter(|id| !self.nodes[id].status.has_ended())
                .collect();
            if found.is_subset(&before) {
                before.remove(id);
                return before;
            }
            before.extend(found);
        }
    }

    /// The table of semantics §2.
    fn fate(&self, arrow: &Arrow, sight: &Sight) -> Fate {
        let parent = &self.nodes[&arrow.from];
        let itself = Names::from([arrow.from.clone()]);
        let carried = parent.joined.clone().unwrap_or_default();
        let if_it_holds = |carried: Names| {
            if self.arrow_holds(arrow, sight) {
                Fate::Taken(carried)
            } else {
                Fate::NotTaken
            }
        };
        match (parent.status, arrow.after) {
            (Status::Pending | Status::Open | Status::Waiting, _) => Fate::Open,
            (Status::Succeeded, After::Success | After::Always) => if_it_holds(carried),
            (Status::Succeeded, After::Failure) => Fate::NotTaken,
            (Status::Failed, After::Failure) if parent.failed_in_grace => Fate::Lost(itself),
            (Status::Failed, After::Failure) => if_it_holds(&carried | &itself),
            (Status::Failed, After::Success) => Fate::Lost(itself),
            (Status::Failed, After::Always) => if_it_holds(carried),
            (Status::Blocked, After::Always) => if_it_holds(Names::new()),
            (Status::Blocked, _) => Fate::Lost(parent.blocked_by.clone()),
            (Status::Skipped, _) => Fate::NotTaken,
            (Status::Cancelled, _) => Fate::Lost(itself),
        }
    }

    fn arrow_holds(&self, arrow: &Arrow, sight: &Sight) -> bool {
        let sight = self.sight_after(&arrow.from, sight);
        match &arrow.sort {
            Sort::Plain(None) => true,
            Sort::Plain(Some(condition)) => holds(condition, &sight),
            Sort::Switch(switch) => chosen(switch, &sight).as_deref() == Some(&*arrow.to),
            Sort::OnFailure => {
                let explicit = |other: &&Arrow| {
                    let is_explicit = !matches!(other.sort, Sort::OnFailure);
                    other.from == arrow.from && other.after == After::Failure && is_explicit
                };
                let mut others = self.body.arrows.iter().filter(explicit);
                !others.any(|other| self.arrow_holds(other, &sight))
            }
        }
    }

    /// On edges also `output` and `error` of the parent.
    fn sight_after(&self, id: &str, sight: &Sight) -> Sight {
        let node = &self.nodes[id];
        let name = match node.status {
            Status::Succeeded => "output",
            Status::Failed => "error",
            _ => return sight.clone(),
        };
        sight.with(name, node.value.clone().unwrap_or_default())
    }

    /// Semantics §4: a failure that no failure edge took stops the scope.
    pub(crate) fn fail_fast(&mut self, running: &Names) -> bool {
        let failed = |id: &String| {
            let node = &self.nodes[id];
            node.status == Status::Failed && !node.asked
        };
        let Some(id) = self.ids().into_iter().find(failed) else {
            return false;
        };
        self.node(&id).asked = true;
        let arrows = self.body.arrows.iter().zip(&self.fates);
        let mut routes =
            arrows.filter(|(arrow, _)| arrow.from == id && arrow.after == After::Failure);
        if self.stop.is_none() && !routes.any(|(_, fate)| fate.is_taken()) {
            self.stop_for(Stop::FailFast, running);
        }
        true
    }

    /// Decided nodes that are not open and whose level has begun.
    pub(crate) fn ready(&self, by_level: bool) -> Vec<String> {
        let levels = self.levels();
        let mut ids = self.ids();
        ids.retain(|id| {
            let node = &self.nodes[id];
            let level = levels[id];
            let mut earlier = levels.iter().filter(|(_, other)| **other < level);
            let begun = earlier.all(|(id, _)| self.nodes[id].status.has_ended());
            node.status == Status::Pending && node.joined.is_some() && (begun || !by_level)
        });
        ids
    }

    /// The longest path from an entry, by raising until nothing rises.
    fn levels(&self) -> std::collections::BTreeMap<String, usize> {
        let ids = self.ids().into_iter();
        let mut levels: std::collections::BTreeMap<String, usize> = ids.map(|id| (id, 0)).collect();
        loop {
            let before = levels.clone();
            for arrow in &self.body.arrows {
                let level = levels[&arrow.to].max(levels[&arrow.from] + 1);
                levels.insert(arrow.to.clone(), level);
            }
            if levels == before {
                return levels;
            }
        }
    }
}

/// The target of a switch: the case equal to `String(on)`, or the default.
fn chosen(switch: &Value, sight: &Sight) -> Option<String> {
    let on = evaluate(switch["on"].as_str().expect("an expression"), sight);
    let case = on
        .ok()
        .map(|on| on.map_or_else(|| "undefined".to_owned(), |on| string(&on)));
    let target = case.and_then(|case| switch["cases"].get(case));
    let target = target.or_else(|| switch.get("default"))?;
    target.as_str().map(str::to_owned)
}

/// JavaScript's `String(value)`.
fn string(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(list) => {
            let parts = list.iter().map(|part| match part {
                Value::Null => String::new(),
                part => string(part),
            });
            parts.collect::<Vec<_>>().join(",")
        }
        Value::Object(_) => "[object Object]".to_owned(),
        plain => plain.to_string(),
    }
}

fn recovered(incoming: &[Fate]) -> Names {
    let carried = incoming.iter().filter_map(|fate| match fate {
        Fate::Taken(carried) => Some(carried.clone()),
        _ => None,
    });
    carried.flatten().collect()
}

fn lost(incoming: &[Fate]) -> Names {
    let lost = incoming.iter().filter_map(|fate| match fate {
        Fate::Lost(to) => Some(to.clone()),
        _ => None,
    });
    lost.flatten().collect()
}
