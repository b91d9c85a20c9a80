//! What follows from the facts, by the letter of semantics §2, §3 and §4.

use std::collections::{BTreeMap, BTreeSet};

use super::{After, Arrow, End, Model, Names, Sort};

/// The state of an edge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Open,
    /// With what it carries.
    Taken(Names),
    NotTaken,
    Lost(Names),
}

impl Fate {
    pub(crate) fn is_taken(&self) -> bool {
        matches!(self, Self::Taken(_))
    }

    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Taken(_) => "taken",
            Self::NotTaken => "not taken",
            Self::Lost(_) => "lost",
        }
    }
}

/// How a node ended without running, or that it is ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Lot {
    Skipped,
    Blocked(Names),
    /// Ready, having recovered these.
    Ready(Names),
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Derived {
    /// One for each edge of the graph.
    pub(crate) arrows: Vec<Fate>,
    pub(crate) lots: BTreeMap<String, Lot>,
    ended: Names,
    pub(crate) handled: Names,
    /// Ready nodes that are not open and whose level has begun.
    pub(crate) may_open: Names,
}

impl Derived {
    pub(crate) fn has_ended(&self, name: &str) -> bool {
        self.ended.contains(name)
    }
}

pub(crate) fn derive(model: &Model) -> Derived {
    let mut derived = Derived {
        arrows: vec![Fate::Open; model.graph.arrows.len()],
        ..Derived::default()
    };
    loop {
        let before = (derived.arrows.clone(), derived.lots.clone());
        for name in &model.graph.names {
            if let Some(lot) = lot(model, &derived, name) {
                derived.lots.insert(name.clone(), lot);
            }
        }
        for (place, arrow) in model.graph.arrows.iter().enumerate() {
            derived.arrows[place] = fate(model, &derived, arrow);
        }
        if before == (derived.arrows.clone(), derived.lots.clone()) {
            break;
        }
    }
    for name in &model.graph.names {
        let without_running =
            matches!(derived.lots.get(name), Some(Lot::Skipped | Lot::Blocked(_)));
        if model.facts[name].end.is_some() || without_running {
            derived.ended.insert(name.clone());
        }
    }
    derived.handled = handled(model, &derived);
    derived.may_open = may_open(model, &derived);
    derived
}

/// Semantics §3. A node that was cancelled as not needed has no lot.
fn lot(model: &Model, derived: &Derived, name: &str) -> Option<Lot> {
    if model.facts[name].end == Some(End::Cancelled) {
        return None;
    }
    let arrows = model.graph.arrows.iter().zip(&derived.arrows);
    let incoming: Vec<&Fate> = arrows
        .filter(|(arrow, _)| arrow.to == name)
        .map(|(_, fate)| fate)
        .collect();
    if incoming.is_empty() {
        return Some(Lot::Ready(Names::new()));
    }
    if incoming.contains(&&Fate::Open) {
        return None;
    }
    Some(joined(&incoming))
}

fn joined(incoming: &[&Fate]) -> Lot {
    let (mut taken, mut lost, mut recovered) = (0, Names::new(), Names::new());
    for fate in incoming {
        match fate {
            Fate::Taken(carried) => {
                taken += 1;
                recovered.extend(carried.iter().cloned());
            }
            Fate::Lost(to) => lost.extend(to.iter().cloned()),
            Fate::NotTaken | Fate::Open => {}
        }
    }
    if taken == 0 && lost.is_empty() {
        Lot::Skipped
    } else if !lost.is_subset(&recovered) {
        Lot::Blocked(lost.difference(&recovered).cloned().collect())
    } else {
        Lot::Ready(recovered)
    }
}

/// The table of semantics §2.
fn fate(model: &Model, derived: &Derived, arrow: &Arrow) -> Fate {
    let facts = &model.facts[&arrow.from];
    let lot = derived.lots.get(&arrow.from);
    let recovered = match lot {
        Some(Lot::Ready(recovered)) => recovered.clone(),
        _ => Names::new(),
    };
    let itself = Names::from([arrow.from.clone()]);
    let holds = match arrow.sort {
        Sort::Plain(holds) | Sort::Switch(holds) => holds,
        Sort::OnFailure => !explicit_failure_taken(model, arrow),
    };
    let if_it_holds = |carried: Names| {
        if holds {
            Fate::Taken(carried)
        } else {
            Fate::NotTaken
        }
    };
    match (facts.end, lot, arrow.after) {
        // It ran, so it was ready, but what it recovered has not been derived yet.
        (Some(End::Succeeded | End::Failed | End::Skipped), None, _) => Fate::Open,
        (Some(End::Succeeded), _, After::Success | After::Always) => if_it_holds(recovered),
        (Some(End::Succeeded), _, After::Failure) => Fate::NotTaken,
        (Some(End::Failed), _, After::Failure) if facts.failed_in_grace => Fate::Lost(itself),
        (Some(End::Failed), _, After::Failure) => {
            if_it_holds(recovered.union(&itself).cloned().collect())
        }
        (Some(End::Failed), _, After::Success) => Fate::Lost(itself),
        (Some(End::Failed), _, After::Always) => if_it_holds(recovered),
        (Some(End::Skipped), _, _) => Fate::NotTaken,
        (Some(End::Cancelled), _, _) => Fate::Lost(itself),
        (None, Some(Lot::Blocked(_)), After::Always) => if_it_holds(Names::new()),
        (None, Some(Lot::Blocked(by)), _) => Fate::Lost(by.clone()),
        (None, Some(Lot::Skipped), _) => Fate::NotTaken,
        (None, Some(Lot::Ready(_)) | None, _) => Fate::Open,
    }
}

fn explicit_failure_taken(model: &Model, arrow: &Arrow) -> bool {
    model.graph.arrows.iter().any(|other| {
        other.from == arrow.from
            && other.after == After::Failure
            && matches!(other.sort, Sort::Plain(true) | Sort::Switch(true))
    })
}

/// Semantics §4: one of its failure edges was taken, and that edge's target did not end Blocked
/// or Cancelled.
fn handled(model: &Model, derived: &Derived) -> Names {
    let arrows = model.graph.arrows.iter().zip(&derived.arrows);
    let handling = arrows.filter(|(arrow, fate)| {
        let blocked = matches!(derived.lots.get(&arrow.to), Some(Lot::Blocked(_)));
        let cancelled = model.facts[&arrow.to].end == Some(End::Cancelled);
        arrow.after == After::Failure && fate.is_taken() && !blocked && !cancelled
    });
    handling.map(|(arrow, _)| arrow.from.clone()).collect()
}

fn may_open(model: &Model, derived: &Derived) -> Names {
    let levels = levels(model);
    let is_open_level = |name: &String| {
        !model.graph.by_level
            || model
                .graph
                .names
                .iter()
                .all(|other| levels[other] >= levels[name] || derived.ended.contains(other))
    };
    let ready = model.graph.names.iter().filter(|name| {
        let facts = &model.facts[*name];
        let is_ready = matches!(derived.lots.get(*name), Some(Lot::Ready(_)));
        is_ready && facts.end.is_none() && !facts.open
    });
    ready.filter(|name| is_open_level(name)).cloned().collect()
}

/// The longest path from an entry, by raising until nothing rises.
fn levels(model: &Model) -> BTreeMap<String, usize> {
    let names = model.graph.names.iter();
    let mut levels: BTreeMap<String, usize> = names.map(|name| (name.clone(), 0)).collect();
    loop {
        let before = levels.clone();
        for arrow in &model.graph.arrows {
            let level = levels[&arrow.to].max(levels[&arrow.from] + 1);
            levels.insert(arrow.to.clone(), level);
        }
        if levels == before {
            return levels;
        }
    }
}

/// Failures that would block one of these again, if only `again` is tried again.
pub(crate) fn held_back(model: &Model, names: &Names, again: &Names) -> BTreeSet<String> {
    let mut holding = Names::new();
    for name in names {
        let arrows = model.graph.arrows.iter().zip(&model.now.arrows);
        let incoming: Vec<_> = arrows.filter(|(arrow, _)| arrow.to == *name).collect();
        let kept: Vec<&Fate> = incoming
            .iter()
            .filter(|(arrow, _)| !again.contains(&arrow.from))
            .map(|(_, fate)| *fate)
            .collect();
        let may_recover = kept.len() < incoming.len();
        if let Lot::Blocked(by) = joined(&kept) {
            holding.extend(by.into_iter().filter(|failure| {
                !may_recover || model.facts[failure].end == Some(End::Cancelled)
            }));
        }
    }
    holding
}
