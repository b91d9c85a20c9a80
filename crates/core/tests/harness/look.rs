//! Commands of fixtures that only look at the run.

use windlass_core::NodeStatus;
use windlass_core::event::Compensation;
use windlass_core::routing::EdgeState;
use windlass_core::run::Instance;

use crate::script::Script;

impl Script {
    /// Every instance that a path leads to.
    fn reachable(&self) -> Vec<Instance> {
        let run = &self.harness.run;
        let mut nodes: Vec<Instance> = run.instances().collect();
        nodes.retain(|&node| run.resolve(&run.path(node)) == Some(node));
        nodes
    }

    /// The outputs or errors of nodes, without the messages of errors.
    pub(crate) fn values(&self, nodes: &str) -> Vec<String> {
        let run = &self.harness.run;
        let lines = nodes.split_whitespace().map(|id| {
            let value = run.value(self.harness.index(id));
            let text = value.map(|value| self.harness.values[&value.digest].text().to_string());
            format!("{id} = {}", text.as_deref().unwrap_or("(none)"))
        });
        lines.collect()
    }

    /// Why the run failed: its root causes, and whose they are.
    pub(crate) fn causes(&self) -> Vec<String> {
        let run = &self.harness.run;
        let error = run.finished().and_then(|finished| finished.error.as_ref());
        let causes = error.map(|error| &*error.causes).unwrap_or_default();
        let lines = causes.iter().map(|cause| {
            let whose = match cause.execution_id == run.id() {
                true => "",
                false => "child ",
            };
            format!("{whose}{} {}: {}", cause.node, cause.code, cause.message)
        });
        match causes {
            [] => vec!["no causes".to_owned()],
            _ => lines.collect(),
        }
    }

    /// What is undone, in order, and how far it is.
    pub(crate) fn undoing(&self) -> Vec<String> {
        let run = &self.harness.run;
        let Some(undo) = run.undo() else {
            let would = run.would_undo().map(|node| self.harness.id(node));
            return vec![format!(
                "would undo [{}]",
                would.collect::<Vec<_>>().join(", ")
            )];
        };
        let word = match run.finished().and_then(|finished| finished.compensation) {
            None => "running",
            Some(Compensation::Complete) => "complete",
            Some(Compensation::Incomplete) => "incomplete",
        };
        let mut lines = vec![format!("compensation {word}")];
        for (node, status) in undo.steps() {
            let undoing = run.undoing_of(node).expect("a step has an instance");
            let attempts = run.attempts(undoing);
            lines.push(format!(
                "{} {status}, attempts {attempts}",
                self.harness.id(node)
            ));
        }
        lines
    }

    /// Signals that nobody has taken.
    pub(crate) fn signals(&self) -> Vec<String> {
        let kept = self.harness.run.kept_signals();
        kept.map(|(name, count)| format!("{name}: {count} kept"))
            .collect()
    }

    pub(crate) fn nodes(&self) -> Vec<String> {
        let run = &self.harness.run;
        let mut lines = vec![format!("run {}", run.status())];
        for node in self.reachable() {
            let status = run.node_status(node);
            let mut line = format!("{} {status}", self.harness.id(node));
            if status == NodeStatus::Blocked {
                line.push_str(&format!(" by {}", self.names(run.blocked_by(node))));
            }
            if status == NodeStatus::Failed && run.is_handled(node) {
                line.push_str(", handled");
            }
            if run.attempts(node) != 0 {
                line.push_str(&format!(", attempts {}", run.attempts(node)));
            }
            lines.push(line);
        }
        lines
    }

    pub(crate) fn edges(&self) -> Vec<String> {
        let run = &self.harness.run;
        let mut lines = Vec::new();
        for node in self.reachable() {
            for (when, target, state) in run.edges_from(node) {
                let state = match state {
                    EdgeState::Unresolved => "unresolved",
                    EdgeState::Taken => "taken",
                    EdgeState::NotTaken => "not taken",
                    EdgeState::Lost => "lost",
                };
                let (from, to) = (self.harness.id(node), self.harness.id(target));
                let when = format!("{when:?}").to_lowercase();
                lines.push(format!("{from} -{when}-> {to}: {state}"));
            }
        }
        lines
    }

    pub(crate) fn vars(&self) -> Vec<String> {
        let vars = self.harness.run.vars().iter();
        let lines = vars.map(|(name, value)| {
            format!("{name} = {}", value.text().map_or("(a blob)", |text| text))
        });
        lines.collect()
    }

    /// Idempotency keys without the run's id.
    pub(crate) fn keys(&self, nodes: &str) -> Vec<String> {
        let run = &self.harness.run;
        let prefix = run.id().to_string();
        let keys = nodes.split_whitespace().map(|id| {
            let key = run.idempotency_key(self.harness.index(id));
            key.replace(&prefix, "RUN")
        });
        keys.collect()
    }

    pub(crate) fn hashes(&self) -> Vec<String> {
        let run = &self.harness.run;
        let lines = self.reachable().into_iter().map(|node| {
            let hash = run.ancestry(node).map(|hash| hash.to_string());
            format!(
                "{} {}",
                self.harness.id(node),
                hash.as_deref().unwrap_or("-")
            )
        });
        lines.collect()
    }
}
