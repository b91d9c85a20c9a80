//! The oracle skips comparisons that it has made before; these tests show that it misses
//! nothing.

use std::sync::Arc;

use windlass_core::event::{Actor, Event, Queued, RULES, Transition};
use windlass_core::run::Run;
use windlass_core::value::Payload;
use windlass_core::{Millis, RunId};
use windlass_orchestrator::row;
use windlass_sim::catalogue::WorkflowCatalogue;
use windlass_sim::oracle::Oracle;

const PROCESS: u64 = 1;

/// A run that one process holds, and that the oracle has seen begin.
struct Held {
    oracle: Oracle,
    live: Run,
}

impl Held {
    fn new() -> Self {
        let text = r#"{"id":"w","nodes":[{"id":"a","actionType":"act"}]}"#;
        let mut catalogue = WorkflowCatalogue::default();
        catalogue.add(text);
        let version = catalogue.version("w", 1).expect("it was added").clone();
        let queued = Queued {
            rules: RULES,
            workflow: "w".into(),
            version: 1,
            definition: version.digest,
            request_id: "r".into(),
            tenant: None,
            correlation_id: "r".into(),
            priority: 5,
            labels: Default::default(),
            trigger: Payload::new("null").stored(),
            vars: Default::default(),
            parent: None,
            depth: 0,
            origin: None,
            frozen: false,
            gate: None,
            traceparent: None,
            partition: 0,
            defaults: None,
        };
        let run = RunId::from_bytes([7; 16]);
        let live = Run::new(run, version.plan, queued.clone(), Millis(1)).expect("known rules");
        let mut oracle = Oracle::new(6, Arc::new(catalogue), true);
        oracle.held(PROCESS, run, 0);
        let mut held = Self { oracle, live };
        held.record(Event::Queued(Box::new(queued)));
        held.record(Event::Started {});
        held
    }

    /// Something happens and is recorded.
    fn record(&mut self, event: Event) {
        self.fold(&event);
        self.live.finish_record();
        let (run, at, records) = (self.live.id(), Millis(1), self.live.records());
        let transition = Transition {
            at,
            events: vec![event],
        };
        let shown = row(&self.live, (false, None));
        self.oracle.durable(run, &transition, at, Some(&shown));
        self.oracle.answered(PROCESS, run, records);
    }

    fn fold(&mut self, event: &Event) {
        let applied = self.live.apply(event, Millis(1), &mut Vec::new());
        applied.expect("a legal event");
    }

    /// What the oracle says when the process shows its state.
    fn quiet(&mut self) -> Option<&str> {
        self.oracle.quiet(PROCESS, &self.live);
        self.oracle.violation()
    }
}

#[test]
fn a_state_that_is_shown_again_is_good_as_long_as_it_stays() {
    let mut held = Held::new();
    assert_eq!(held.quiet(), None);
    assert_eq!(held.quiet(), None);
    held.record(Event::Paused(Actor::default()));
    assert_eq!(held.quiet(), None);
}

#[test]
fn what_happens_without_a_record_is_noticed_though_the_state_was_seen() {
    let mut held = Held::new();
    assert_eq!(held.quiet(), None);
    held.fold(&Event::Paused(Actor::default()));
    let violation = held.quiet().unwrap_or_default();
    assert!(violation.contains("status: live Paused"), "{violation}");
}

#[test]
fn a_state_that_is_exchanged_is_looked_at_anew() {
    let mut held = Held::new();
    let wrong = {
        let mut other = Held::new();
        other.live = Run::new(
            other.live.id(),
            Arc::clone(other.live.plan()),
            other.live.queued().clone(),
            Millis(2),
        )
        .expect("known rules");
        other.fold(&Event::Warning {
            node: None,
            code: "W".into(),
            message: "w".into(),
        });
        other.fold(&Event::Started {});
        other.live.finish_record();
        other.live.finish_record();
        other.live
    };
    assert_eq!(held.quiet(), None);
    assert_eq!(wrong.event_count(), held.live.event_count());
    held.live = wrong;
    held.oracle.acquired(PROCESS, held.live.id());
    let violation = held.quiet().unwrap_or_default();
    assert!(violation.contains("created: live"), "{violation}");
}
