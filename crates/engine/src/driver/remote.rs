//! Attempts that workers outside the process take: the driver puts them into the work queue,
//! says whether one may be handed out, records what workers report, and takes back what has
//! ended.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use windlass_core::RunId;
use windlass_core::run::{Dispatch, Input as RunInput, Instance, Outcome};
use windlass_core::{Millis, NodeStatus};
use windlass_orchestrator::{HandOut, ShardInput};
use windlass_store::WorkKey;

use super::commands::{CommandReply, PendingCommand, Request};
use super::{Driver, Message};
use crate::remote::{Closed, RecordedReport, key_of, offer, stop_shared, withdraw};

/// The caller to answer once a report is recorded, or refused.
pub(super) type Reply = oneshot::Sender<CommandReply>;

impl Driver {
    /// Puts an attempt into the work queue: its action is not one of this process.
    pub(super) fn offer(&mut self, dispatch: Arc<Dispatch>) {
        let hold = Duration::from_millis(self.workers.options.work_lease_ms);
        let hold = (!self.shared.owned.is_shared()).then_some(hold);
        let open = &self.shared.remote.open;
        open.insert(Arc::clone(&dispatch), hold);
        self.shared.waits_for_worker();
        let (workers, shared) = (Arc::clone(&self.workers), Arc::clone(&self.shared));
        let (outbox, key) = (self.outbox.clone(), key_of(&dispatch));
        tokio::spawn(async move {
            offer(workers, Arc::clone(&shared), outbox, dispatch).await;
            shared.remote.open.offered(key);
        });
    }

    /// Whether a worker may take these attempts now.
    pub(super) fn may_hand_out(
        &mut self,
        keys: &[WorkKey],
        (worker, resumes): (&str, bool),
        now: Millis,
    ) -> Vec<bool> {
        let mut may = Vec::with_capacity(keys.len());
        for key in keys {
            let taken = HandOut {
                run: key.run,
                node: key.instance,
                attempt: key.attempt,
                worker,
                resumes,
                asks: worker.is_empty(),
                since: self.shared.remote.open.since(*key),
            };
            may.push(self.may_work(key.run) && self.shard.hand_out(&taken, now));
        }
        may
    }

    /// An attempt that an earlier owner had open is neither in the queue nor has it ended: it is
    /// called here, unless it has ended meanwhile.
    pub(super) fn call_reopened(&mut self, dispatch: Arc<Dispatch>, now: Millis) {
        let key = key_of(&dispatch);
        let may = self.may_hand_out(&[key], ("", false), now);
        if may == [true] && self.shared.remote.open.remove(key).is_some() {
            self.call(dispatch);
        }
    }

    /// A worker's report: it is answered once it is recorded.
    pub(super) fn handle_report(
        &mut self,
        report: RecordedReport,
        input: RunInput,
        reply: Reply,
        now: Millis,
    ) {
        let run = report.key.run;
        if !self.shard.holds(run) {
            let _ = reply.send(CommandReply::NotHere);
            return;
        }
        if let RunInput::Ended {
            node,
            attempt,
            report,
        } = &input
        {
            self.note_end((run, *node), *attempt, report);
        }
        self.next_command += 1;
        let id = self.next_command;
        let asked = PendingCommand {
            run,
            request: Request::Report(report),
            reply,
        };
        self.commands.insert(id, asked);
        let item = None;
        let input = ShardInput::Command {
            run,
            id,
            input,
            item,
        };
        self.shard.handle(input, now);
    }

    /// A worker outside the process is to stop, or its work is given up.
    pub(super) fn stop_remote(&self, run: RunId, node: Instance, attempt: u32, give_up: bool) {
        let open = &self.shared.remote.open;
        let key = WorkKey {
            run,
            instance: node,
            attempt,
        };
        if give_up {
            withdraw(&self.workers, open.remove(key).as_slice(), true);
            return;
        }
        if self.shared.owned.is_shared() {
            stop_shared(&self.workers, &self.shared, self.outbox.clone(), key);
            return;
        }
        let Some(Closed { handed, .. }) = open.stop(key) else {
            return;
        };
        let (store, outbox) = (Arc::clone(&self.workers.store), self.outbox.clone());
        let report = Box::new(self.workers.report(Outcome::Stopped));
        tokio::spawn(async move {
            // What waits is removed; a worker that has it hears of it with its next heartbeat.
            let _ = store.stop(&[key]).await;
            if !handed {
                let ended = ShardInput::Ended {
                    run,
                    node,
                    attempt,
                    report,
                };
                let _ = outbox.send(Message::Input(ended)).await;
            }
        });
    }

    /// Attempts that these changes, now durable, have ended.
    pub(super) fn close_remote(&self, run: RunId, nodes: &[(Instance, NodeStatus)]) {
        let open = &self.shared.remote.open;
        if !open.is_empty() {
            withdraw(&self.workers, &open.ended(run, nodes), true);
        }
    }

    /// The run is not here any more: its attempts are no task's of this process.
    pub(super) fn forget_remote(&self, run: RunId) {
        let open = &self.shared.remote.open;
        if open.is_empty() {
            return;
        }
        let closed = open.remove_run(run);
        // Where the queue outlives processes, the next owner goes on with what is there.
        if !self.shared.owned.is_shared() {
            withdraw(&self.workers, &closed, false);
        }
    }
}
