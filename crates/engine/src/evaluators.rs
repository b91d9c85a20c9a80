//! Threads for long evaluations, so that they do not block the runtime's tasks. Tenants take
//! turns, within a tenant its runs, within a run what came first.
//!
//! Knows nothing of expressions: a job says after each pass whether it wants another.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use tokio::runtime::Handle;
use tokio::sync::oneshot;
use windlass_core::RunId;
use windlass_core::run::Interrupt;

use crate::parsed;
use crate::turns::Turns;

/// The tenant and run whose turn a job takes.
#[derive(Clone, Debug)]
pub(crate) struct Turn {
    pub(crate) tenant: Option<Box<str>>,
    pub(crate) run: RunId,
}

/// One pass of a job; what it returns waits for the run's next turn.
pub(crate) type EvaluationPass = Box<dyn FnOnce() -> Next + Send>;

/// What follows a pass.
pub(crate) enum Next {
    Done,
    Again(EvaluationPass),
}

/// The threads, and what waits for them.
pub(crate) struct Evaluators {
    shared: Arc<Shared>,
    threads: usize,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    wake: Condvar,
}

/// What waits, in the order of turns.
#[derive(Default)]
struct Queue {
    turns: Turns<RunId, EvaluationPass>,
    /// Threads that were started, and those of them that wait for a job.
    started: usize,
    idle: usize,
    closed: bool,
}

impl Queue {
    fn push(&mut self, turn: Turn, job: EvaluationPass) {
        self.turns.push(turn.tenant, turn.run, job);
    }

    fn pop(&mut self) -> Option<(Turn, EvaluationPass)> {
        let (tenant, run, job) = self.turns.pop()?;
        Some((Turn { tenant, run }, job))
    }
}

impl Evaluators {
    /// At most this many threads; each is started when there is first work for it.
    pub(crate) fn new(threads: usize) -> Self {
        Self {
            shared: Arc::default(),
            threads: threads.max(1),
        }
    }

    /// Queues a job.
    pub(crate) fn submit(&self, turn: Turn, job: EvaluationPass) {
        let mut queue = self.shared.lock();
        queue.push(turn, job);
        if queue.idle == 0 && queue.started < self.threads {
            queue.started += 1;
            let shared = Arc::clone(&self.shared);
            // What a job reads may need the runtime.
            let runtime = Handle::try_current().ok();
            let name = format!("evaluator-{}", queue.started);
            let thread = std::thread::Builder::new().name(name);
            if thread
                .spawn(move || {
                    let _entered = runtime.as_ref().map(Handle::enter);
                    shared.work();
                })
                .is_err()
            {
                // If a thread cannot be started, the existing threads take the work; without
                // any, the next job tries again.
                queue.started -= 1;
            }
        }
        drop(queue);
        self.shared.wake.notify_one();
    }

    /// Computes something on an evaluator's thread. Dropping the future interrupts it.
    /// Nothing comes back from work that panicked.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        turn: Turn,
        work: impl FnOnce(&Interrupt) -> T + Send + 'static,
    ) -> Option<T> {
        let interrupt = Interrupt::new();
        let _guard = InterruptOnDrop(interrupt.clone());
        let (reply, answer) = oneshot::channel();
        let job = Box::new(move || {
            if !interrupt.is_interrupted() {
                let _ = reply.send(work(&interrupt));
            }
            Next::Done
        });
        self.submit(turn, job);
        answer.await.ok()
    }
}

impl Drop for Evaluators {
    /// Drops the jobs that wait. Jobs that run end by their own limits; nothing waits for them.
    fn drop(&mut self) {
        let mut queue = self.shared.lock();
        queue.closed = true;
        let waiting = std::mem::take(&mut queue.turns);
        drop(queue);
        drop(waiting);
        self.shared.wake.notify_all();
    }
}

impl Shared {
    /// The life of a thread.
    fn work(&self) {
        while let Some((turn, job)) = self.next() {
            // An evaluation that panics is lost; the others go on.
            let next = std::panic::catch_unwind(AssertUnwindSafe(job));
            if let Ok(Next::Again(job)) = next {
                let mut queue = self.lock();
                if !queue.closed {
                    queue.push(turn, job);
                }
            }
        }
    }

    fn next(&self) -> Option<(Turn, EvaluationPass)> {
        let mut queue = self.lock();
        loop {
            if queue.closed {
                return None;
            }
            if let Some(next) = queue.pop() {
                return Some(next);
            }
            queue.idle += 1;
            parsed::forget();
            queue = self
                .wake
                .wait(queue)
                .expect("nothing panics while it holds the queue");
            queue.idle -= 1;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue
            .lock()
            .expect("nothing panics while it holds the queue")
    }
}

struct InterruptOnDrop(Interrupt);

impl Drop for InterruptOnDrop {
    fn drop(&mut self) {
        self.0.interrupt();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    fn turn(tenant: &str, run: u128) -> Turn {
        Turn {
            tenant: Some(tenant.into()),
            run: RunId::from_bytes(run.to_be_bytes()),
        }
    }

    /// The order in which jobs with these turns are taken.
    fn order(turns: &[(&'static str, u128)]) -> Vec<(String, u128)> {
        let mut queue = Queue::default();
        for &(tenant, run) in turns {
            queue.push(turn(tenant, run), Box::new(|| Next::Done));
        }
        let taken = std::iter::from_fn(|| queue.pop());
        taken
            .map(|(turn, _)| {
                let run = u128::from_be_bytes(*turn.run.as_bytes());
                (turn.tenant.unwrap_or_default().into(), run)
            })
            .collect()
    }

    #[test]
    fn a_run_with_many_jobs_takes_turns_with_one_that_has_few() {
        let mut turns = vec![("a", 1); 100];
        turns.push(("a", 2));
        let order = order(&turns);
        assert_eq!(order[1], ("a".to_owned(), 2));
        assert_eq!(order.len(), 101);
    }

    #[test]
    fn a_tenant_with_many_runs_takes_turns_with_one_that_has_few() {
        let mut turns: Vec<_> = (0..100).map(|run| ("a", run)).collect();
        turns.push(("b", 100));
        turns.push(("b", 101));
        let order = order(&turns);
        assert_eq!(order[1], ("b".to_owned(), 100));
        assert_eq!(order[3], ("b".to_owned(), 101));
    }

    #[test]
    fn a_job_that_wants_another_pass_lets_others_go_first() {
        let evaluators = Evaluators::new(1);
        let (sender, seen) = mpsc::channel();
        let (begun, begin) = mpsc::channel::<()>();
        let (first, again) = (sender.clone(), sender.clone());
        let job = move || {
            let _ = begin.recv();
            let _ = first.send("first pass");
            let second = move || {
                let _ = again.send("second pass");
                Next::Done
            };
            Next::Again(Box::new(second) as EvaluationPass)
        };
        evaluators.submit(turn("a", 1), Box::new(job));
        let other = move || {
            let _ = sender.send("other");
            Next::Done
        };
        evaluators.submit(turn("a", 2), Box::new(other));
        begun.send(()).expect("the job waits");
        let order: Vec<_> = seen.iter().take(3).collect();
        assert_eq!(order, ["first pass", "other", "second pass"]);
    }

    #[tokio::test]
    async fn a_dropped_future_interrupts_its_work() {
        let evaluators = Evaluators::new(1);
        let (began, begin) = oneshot::channel();
        let (ended, end) = oneshot::channel();
        let work = evaluators.run(turn("a", 1), move |interrupt| {
            let _ = began.send(());
            while !interrupt.is_interrupted() {
                std::thread::yield_now();
            }
            let _ = ended.send(());
        });
        tokio::select! {
            _ = work => unreachable!("the work ends when it is interrupted"),
            _ = begin => {}
        }
        end.await.expect("the work was interrupted");
    }

    #[tokio::test]
    async fn a_panic_loses_its_own_work_alone() {
        let evaluators = Evaluators::new(1);
        let lost = evaluators.run(turn("a", 1), |_| panic!("on purpose"));
        assert!(lost.await.is_none());
        assert_eq!(evaluators.run(turn("a", 1), |_| 7).await, Some(7));
    }
}
