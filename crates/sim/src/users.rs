//! What people ask of a world, and how its owner finds the runs they mean: by loading
//! them from the log when no shard holds them.

use std::collections::BTreeMap;
use std::sync::Arc;

use windlass_core::event::{Hand, Queued, RULES};
use windlass_core::value::{Payload, Stored};
use windlass_core::{Digest, RunId, RunStatus};
use windlass_orchestrator::{Adoption, Command, Input, Start};
use windlass_store::Claim;

use crate::workload::Wish;
use crate::world::World;

impl World {
    /// The owner carries on what nobody does. A paused run may stay a row.
    pub(crate) fn scan(&mut self) {
        for run in self.store.unfinished() {
            if self.processes[&self.current].shard.holds(run) {
                continue;
            }
            let paused = self.oracle.history(run).and_then(|history| history.last());
            let paused = paused.is_some_and(|state| state.status() == RunStatus::Paused);
            if !(paused && self.random.chance(50)) {
                self.adopt(run, true);
            }
        }
    }

    fn adopt(&mut self, run: RunId, recover: bool) {
        let request = &self.requests[self.request_of[&run]];
        let plan = Arc::clone(&request.plan);
        match self.store.replay(run, Arc::clone(&plan)) {
            Ok((state, head)) => {
                self.trace
                    .say(self.now, || format!("adopt {run}, recover {recover}"));
                self.oracle.held(self.current, run, &plan, head.sequence);
                let state = Box::new(state);
                let input = Input::Adopt {
                    run: state,
                    head,
                    adoption: if recover {
                        Adoption::Recover
                    } else {
                        Adoption::Hold
                    },
                };
                self.handle(self.current, input);
            }
            Err(reason) => self.oracle.judge(run, Err(reason)),
        }
    }

    pub(crate) fn start(&mut self, index: usize) {
        let request = self.requests[index].clone();
        let mut bytes = [0; 10];
        bytes[..8].copy_from_slice(&self.random.number().to_le_bytes());
        let run = RunId::new(self.now, bytes);
        self.request_of.insert(run, index);
        self.starting.insert(run, self.current);
        self.trace
            .say(self.now, || format!("start w{index} as {run}"));
        let trigger = Payload::new(request.trigger.as_str());
        let stored = trigger.stored();
        let is_blob = matches!(stored, Stored::Blob { .. });
        let claim = Claim {
            namespace: "request",
            key: format!("r{index}").into(),
            value: run.as_bytes().to_vec(),
        };
        let start = Start {
            run,
            plan: Arc::clone(&request.plan),
            queued: queued(index, stored),
            blobs: if is_blob { vec![trigger] } else { Vec::new() },
            claims: vec![claim],
            begin: request.begin,
            reused: Vec::new(),
        };
        self.oracle.held(self.current, run, &request.plan, 0);
        self.handle(self.current, Input::Start(Box::new(start)));
    }

    pub(crate) fn wish(&mut self, index: usize, wish: Wish) {
        let run = self
            .request_of
            .iter()
            .find(|&(&run, &of)| of == index && self.oracle.history(run).is_some())
            .map(|(&run, _)| run);
        if let Some(run) = run.filter(|_| !self.calm) {
            self.command(run, wish);
        }
    }

    /// Gives a command to the owner, which loads the run first if it must.
    pub(crate) fn command(&mut self, run: RunId, wish: Wish) {
        if !self.processes[&self.current].shard.holds(run) {
            let state = self.oracle.history(run).and_then(|history| history.last());
            let recover = match state.map(|state| state.status()) {
                Some(RunStatus::Paused) => self.random.chance(50),
                Some(RunStatus::Running) => true,
                _ => false,
            };
            self.adopt(run, recover);
        }
        self.next_command += 1;
        let id = self.next_command;
        let hand = Hand {
            by: Some(format!("c{id}").into()),
            reason: None,
        };
        let nodes = self.requests[self.request_of[&run]].plan.len() as u32;
        let command = match wish {
            Wish::Cancel => Command::Cancel {
                hand,
                compensate: false,
            },
            Wish::Pause => Command::Pause(hand),
            Wish::Resume => Command::Resume(hand),
            Wish::ReattemptOne(node) => Command::Reattempt(vec![node % nodes], hand),
            Wish::ReattemptAll => Command::Reattempt(Vec::new(), hand),
        };
        self.trace
            .say(self.now, || format!("command {id} to {run}: {wish:?}"));
        self.oracle.commanded(self.current, run, id);
        self.handle(self.current, Input::Command { run, id, command });
    }
}

fn queued(index: usize, trigger: Stored) -> Queued {
    Queued {
        rules: RULES,
        workflow: format!("w{index}").into(),
        version: 1,
        definition: Digest([0; 32]),
        request_id: format!("r{index}").into(),
        tenant: None,
        correlation_id: format!("r{index}").into(),
        priority: 5,
        labels: BTreeMap::new(),
        trigger,
        vars: BTreeMap::new(),
        parent: None,
        depth: 0,
        origin: None,
        frozen: false,
    }
}
