//! Asking the conditions and switches of an ended node's edges, once. What was
//! decided is recorded and never evaluated again. A condition that errs counts as
//! false, and a warning says so.

use windlass_expr::Expression;

use super::{Decision, Facts};
use crate::event::{Event, StopCause};
use crate::plan::{EdgeKind, NodeIndex};
use crate::routing::EdgeState;
use crate::run::environment::EvaluationSite;
use crate::run::{Instance, Run};
use crate::status::NodeStatus;
use crate::value::ValueRef;

/// The warning that a switch chose nothing.
pub const SWITCH_UNMATCHED: &str = "SWITCH_UNMATCHED";

/// How much of a switch's value a warning has.
const SHOWN_BYTES: usize = 200;

impl Run {
    pub(super) fn require_for_routing(&self, node: Instance, required: &mut Vec<ValueRef>) {
        let frame = self.frame_of(node);
        let references = frame.plan.routing_references(frame.node(node));
        self.require(frame.base, None, references, required);
        required.extend(self.value(node));
    }

    pub(super) fn decide_route(&self, node: Instance, facts: &Facts<'_>) -> Decision {
        let value = self
            .value(node)
            .and_then(|value| facts.values.get(&value.digest));
        let failed = self.node_status(node) == NodeStatus::Failed;
        let place = EvaluationSite {
            output: value.filter(|_| !failed),
            error: value.filter(|_| failed),
            ..EvaluationSite::of(self, node, facts.now)
        };
        let frame = self.frame_of(node);
        let plan = &frame.plan;
        let mut decision = Decision::default();
        let mut switched = None;
        let mut taken = Vec::new();
        if matches!(
            self.stop_cause(),
            Some(StopCause::Cancel | StopCause::Timeout)
        ) {
            facts.evaluations.hurry();
        }
        for (ordinal, index) in plan.outgoing(frame.node(node)).enumerate() {
            let edge = plan.edge(index);
            if frame.edge(index) != EdgeState::Unresolved {
                continue;
            }
            let is_taken = match edge.kind {
                EdgeKind::OnFailure => false,
                EdgeKind::Switch => {
                    let chosen = switched
                        .get_or_insert_with(|| self.choose(node, &place, facts, &mut decision));
                    *chosen == Some(edge.target)
                }
                EdgeKind::Plain => plan.condition(edge).is_some_and(|condition| {
                    self.holds(node, edge.target, condition, &place, facts, &mut decision)
                }),
            };
            if is_taken {
                taken.push(ordinal as u32);
            }
        }
        decision.events.push(Event::Routed {
            node: self.path(node),
            taken,
        });
        decision
    }

    fn holds(
        &self,
        node: Instance,
        target: NodeIndex,
        condition: &Expression,
        place: &EvaluationSite<'_>,
        facts: &Facts<'_>,
        decision: &mut Decision,
    ) -> bool {
        match self.truth(condition, place, facts) {
            Ok(holds) => holds,
            Err(error) => {
                let message = format!(
                    "the condition of the edge to '{}' erred and counts as false: {}",
                    self.frame_of(node).plan.id(target),
                    error.message
                );
                decision.warn(Some(&self.path(node)), error.code, message);
                false
            }
        }
    }

    /// The one case equal to `String(on)`; the default if none is, or `on` errs.
    fn choose(
        &self,
        node: Instance,
        place: &EvaluationSite<'_>,
        facts: &Facts<'_>,
        decision: &mut Decision,
    ) -> Option<NodeIndex> {
        let frame = self.frame_of(node);
        let switch = frame.plan.rare(frame.node(node))?.switch.as_ref()?;
        match self.display(&switch.on, place, facts) {
            Ok(text) => {
                let chosen = switch.cases.get(&*text).copied().or(switch.default);
                if chosen.is_none() {
                    let value = &*text;
                    let shown = crate::name::cut(value, SHOWN_BYTES);
                    let more = if shown.len() < value.len() { "…" } else { "" };
                    let message =
                        format!("no case of the switch is '{shown}{more}', and it has no default");
                    decision.warn(Some(&self.path(node)), SWITCH_UNMATCHED, message);
                }
                chosen
            }
            Err(error) => {
                let message = format!("the switch erred and takes its default: {}", error.message);
                decision.warn(Some(&self.path(node)), error.code, message);
                switch.default
            }
        }
    }
}
