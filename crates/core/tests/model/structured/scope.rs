//! One running of a graph: the run's own, or an iteration of a body. What is known of
//! each node stands here; the rules that change it stand in `route` and `rounds`.

use std::collections::BTreeMap;
use std::rc::Rc;

use serde_json::{Map, Value, json};

use super::error;
use super::expression::{Erred, Sight, render};
use super::read::{Body, Kind, Node};
use crate::model::derive::Fate;
use crate::model::{After, Names};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Status {
    #[default]
    Pending,
    /// Queued or running; a loop, while its iterations go on.
    Open,
    /// Between attempts or iterations, or waiting for a time or a signal.
    Waiting,
    Succeeded,
    Failed,
    Skipped,
    Blocked,
    Cancelled,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Instance {
    pub(crate) status: Status,
    pub(crate) blocked_by: Names,
    /// Its join has decided that it may run, having recovered these.
    pub(crate) joined: Option<Names>,
    /// The number of the last attempt.
    pub(crate) attempt: u32,
    /// A loop or wait that is open has begun.
    pub(crate) begun: bool,
    pub(crate) told_to_stop: bool,
    /// Cancelled because a join that it served had enough.
    pub(crate) let_go: bool,
    /// It failed while its scope was stopping fast, outside what is exempt.
    pub(crate) failed_in_grace: bool,
    /// Its failure has been looked at for `failFast`.
    pub(crate) asked: bool,
    /// Its output, or its error.
    pub(crate) value: Option<Value>,
    /// The items of a `forEach`, once evaluated.
    pub(crate) items: Option<Vec<Value>>,
    /// The time before a `retryUntil`'s next iteration has passed.
    pub(crate) waited: bool,
    pub(crate) rounds: Vec<Round>,
}

/// One iteration of a loop.
#[derive(Clone, Debug)]
pub(crate) struct Round {
    pub(crate) scope: Scope,
    pub(crate) outcome: Option<Outcome>,
}

/// How an iteration ended.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Outcome {
    Good(Value),
    Bad(Value),
    /// It was stopped from outside before it was done.
    Cut,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    FailFast,
    /// With everything around it.
    Outside,
}

#[derive(Clone, Debug)]
pub(crate) struct Scope {
    pub(crate) body: Rc<Body>,
    /// In which order scopes were opened.
    pub(crate) number: usize,
    /// What stands before the ids in paths: nothing, or `loop[2]/`.
    pub(crate) at: String,
    /// What the loop around it lets its expressions see.
    pub(crate) names: BTreeMap<String, Value>,
    pub(crate) nodes: BTreeMap<String, Instance>,
    /// One for each edge of the body.
    pub(crate) fates: Vec<Fate>,
    pub(crate) stop: Option<Stop>,
    /// It stops because something failed, in it or around it.
    pub(crate) stops_fast: bool,
    pub(crate) exempt: Names,
}

impl Status {
    pub(crate) fn has_ended(self) -> bool {
        !matches!(self, Self::Pending | Self::Open | Self::Waiting)
    }
}

impl Instance {
    /// A loop that was cut ends at once if nothing open is left in it to wait for.
    fn end_if_cut(&mut self) {
        let is_lost = |node: &Self| node.status == Status::Cancelled && !node.let_go;
        let open = self
            .rounds
            .iter()
            .filter(|round| round.outcome.is_none())
            .map(|round| &round.scope);
        let all_ended = open.clone().all(Scope::has_ended);
        let is_cut = open.clone().any(|scope| scope.nodes.values().any(is_lost));
        if !all_ended || !is_cut {
            return;
        }
        self.status = Status::Cancelled;
        self.told_to_stop = false;
        for round in self.rounds.iter_mut() {
            if round.outcome.is_none() {
                round.scope.route(&Sight::default());
                round.outcome = Some(Outcome::Cut);
            }
        }
    }
}

impl Scope {
    pub(crate) fn new(body: &Rc<Body>, at: String, names: BTreeMap<String, Value>) -> Self {
        let nodes = body.nodes.iter();
        Self {
            nodes: nodes
                .map(|node| (node.id.clone(), Instance::default()))
                .collect(),
            fates: vec![Fate::Open; body.arrows.len()],
            body: Rc::clone(body),
            number: 0,
            at,
            names,
            stop: None,
            stops_fast: false,
            exempt: Names::new(),
        }
    }

    pub(crate) fn ids(&self) -> Vec<String> {
        self.body.nodes.iter().map(|node| node.id.clone()).collect()
    }

    pub(crate) fn definition(&self, id: &str) -> &Node {
        let node = self.body.nodes.iter().find(|node| node.id == id);
        node.expect("a node of the body")
    }

    pub(crate) fn path(&self, id: &str) -> String {
        format!("{}{id}", self.at)
    }

    pub(crate) fn node(&mut self, id: &str) -> &mut Instance {
        self.nodes.get_mut(id).expect("a node of the body")
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.nodes.values().all(|node| node.status.has_ended())
    }

    /// The scope with this instance, and the instance's id there.
    pub(crate) fn find(&self, path: &str) -> Option<(&Self, String)> {
        let Some((first, rest)) = path.split_once('/') else {
            return self
                .nodes
                .contains_key(path)
                .then(|| (self, path.to_owned()));
        };
        let (id, number) = first.strip_suffix(']')?.split_once('[')?;
        let number: usize = number.parse().ok()?;
        self.nodes.get(id)?.rounds.get(number)?.scope.find(rest)
    }

    pub(crate) fn find_mut(&mut self, path: &str) -> Option<(&mut Self, String)> {
        let Some((first, rest)) = path.split_once('/') else {
            let known = self.nodes.contains_key(path);
            return known.then(|| (self, path.to_owned()));
        };
        let (id, number) = first.strip_suffix(']')?.split_once('[')?;
        let number: usize = number.parse().ok()?;
        let round = self.nodes.get_mut(id)?.rounds.get_mut(number)?;
        round.scope.find_mut(rest)
    }

    /// This scope and every one inside it, outer ones first.
    pub(crate) fn all(&self) -> Vec<&Self> {
        let mut scopes = vec![self];
        for id in self.ids() {
            for round in &self.nodes[&id].rounds {
                scopes.extend(round.scope.all());
            }
        }
        scopes
    }

    /// What expressions see here: the names and nodes of this scope over those outside.
    pub(crate) fn sight(&self, outside: &Sight) -> Sight {
        let mut sight = outside.clone();
        sight.names.extend(self.names.clone());
        for (id, node) in &self.nodes {
            let value = match node.status {
                Status::Succeeded => node.value.clone(),
                Status::Failed => Some(json!({ "error": node.value, "errorNode": id })),
                _ => None,
            };
            sight.data.insert(id.clone(), value);
        }
        sight
    }

    /// Semantics §4: one of its failure edges was taken, and that edge's target did not end
    /// Blocked or Cancelled.
    pub(crate) fn is_handled(&self, id: &str) -> bool {
        let arrows = self.body.arrows.iter().zip(&self.fates);
        arrows.into_iter().any(|(arrow, fate)| {
            let target = self.nodes[&arrow.to].status;
            let refused = matches!(target, Status::Blocked | Status::Cancelled);
            arrow.from == id && arrow.after == After::Failure && fate.is_taken() && !refused
        })
    }

    /// Failed and not handled, in definition order.
    pub(crate) fn unhandled(&self) -> Vec<String> {
        let mut ids = self.ids();
        ids.retain(|id| self.nodes[id].status == Status::Failed && !self.is_handled(id));
        ids
    }

    /// Semantics §7: the `output` template; else the only sink's output, null if it did not
    /// succeed; else an object of the sinks that succeeded.
    pub(crate) fn output(&self, outside: &Sight) -> Result<Value, Erred> {
        if let Some(template) = &self.body.output {
            return render(template, &self.sight(outside));
        }
        let leads_on = |id: &String| self.body.arrows.iter().any(|arrow| arrow.from == *id);
        let sinks: Vec<String> = self.ids().into_iter().filter(|id| !leads_on(id)).collect();
        let output = |id: &String| {
            let node = &self.nodes[id];
            node.value
                .clone()
                .filter(|_| node.status == Status::Succeeded)
        };
        if let [only] = &sinks[..] {
            return Ok(output(only).unwrap_or_default());
        }
        let succeeded = sinks
            .iter()
            .filter_map(|id| Some((id.clone(), output(id)?)));
        Ok(Value::Object(succeeded.collect::<Map<_, _>>()))
    }

    /// The outcome of an iteration that has ended.
    pub(crate) fn outcome(&self, outside: &Sight) -> Outcome {
        let cut = |node: &Instance| node.status == Status::Cancelled && !node.let_go;
        if self.stop == Some(Stop::Outside) && self.nodes.values().any(cut) {
            return Outcome::Cut;
        }
        match self.unhandled().first() {
            Some(id) => Outcome::Bad(self.nodes[id].value.clone().expect("an error")),
            None => match self.output(outside) {
                Ok(output) => Outcome::Good(output),
                Err(Erred) => Outcome::Bad(error("OUTPUT_INVALID", false, Value::Null)),
            },
        }
    }

    /// Stops what has not ended: work that is with a worker is asked to stop, the rest is
    /// Cancelled.
    pub(crate) fn stop_for(&mut self, stop: Stop, running: &Names) {
        self.stop_with(stop, stop == Stop::FailFast, running);
    }

    fn stop_with(&mut self, stop: Stop, fast: bool, running: &Names) {
        self.stop = Some(stop);
        self.stops_fast = fast;
        self.exempt = match stop {
            Stop::FailFast => self.reached_through_always(),
            Stop::Outside => Names::new(),
        };
        for id in self.ids() {
            if self.nodes[&id].status.has_ended() || self.exempt.contains(&id) {
                continue;
            }
            let is_running = running.contains(&self.path(&id));
            let goes_on =
                !self.nodes[&id].rounds.is_empty() && self.nodes[&id].status == Status::Open;
            if is_running || goes_on {
                let node = self.node(&id);
                node.told_to_stop = true;
                for round in node.rounds.iter_mut() {
                    if round.outcome.is_none() {
                        round.scope.stop_with(Stop::Outside, fast, running);
                    }
                }
                if goes_on {
                    node.end_if_cut();
                }
            } else {
                self.cancel(&id, running);
            }
        }
    }

    /// Ends a node as Cancelled, with all that is inside it, because its scope stops.
    pub(crate) fn cancel(&mut self, id: &str, running: &Names) {
        self.drop_node(id, Some(running));
    }

    /// Ends a node as Cancelled, with all that is inside it. Where it is not known what is
    /// with a worker, an open attempt counts as begun.
    pub(crate) fn drop_node(&mut self, id: &str, running: Option<&Names>) {
        let path = self.path(id);
        let is_running = running.is_none_or(|running| running.contains(&path));
        let node = self.node(id);
        let is_open = matches!(node.status, Status::Open | Status::Waiting);
        if is_open && !node.begun && !is_running && !node.told_to_stop {
            // No worker began the open attempt, so its number is not used up.
            node.attempt -= 1;
        }
        node.status = Status::Cancelled;
        node.told_to_stop = false;
        for round in node
            .rounds
            .iter_mut()
            .filter(|round| round.outcome.is_none())
        {
            for id in round.scope.ids() {
                if !round.scope.nodes[&id].status.has_ended() {
                    round.scope.drop_node(&id, running);
                }
            }
            // All have ended, so nothing is left to evaluate: what was cancelled is lost.
            round.scope.route(&Sight::default());
            round.outcome = Some(Outcome::Cut);
        }
    }

    fn reached_through_always(&self) -> Names {
        let arrows = self.body.arrows.iter().zip(&self.fates);
        let taken = arrows.filter(|(arrow, fate)| arrow.after == After::Always && fate.is_taken());
        let mut reached: Names = taken.map(|(arrow, _)| arrow.to.clone()).collect();
        loop {
            let before = reached.len();
            for arrow in &self.body.arrows {
                if reached.contains(&arrow.from) {
                    reached.insert(arrow.to.clone());
                }
            }
            if reached.len() == before {
                return reached;
            }
        }
    }
}
