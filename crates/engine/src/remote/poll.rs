//! A worker polls for work: the engine leases tasks to it, renders their parameters, and hands
//! them out.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::time::{Instant, timeout_at};
use windlass_core::Millis;
use windlass_core::name::cut;
use windlass_core::run::{Dispatch, Failure, Outcome, Report};
use windlass_core::trace::TraceParent;
use windlass_core::value::Payload;
use windlass_store::{LeaseTerm, LeasedItem, Pull, TenantFilter, WorkKey, crash};

use super::declared::Declaration;
use super::generation::sweep;
use super::offer::{ended, enqueue};
use super::open::AssignedWorker;
use super::pollers::Asking;
use super::task_id::{LeaseKey, LeaseTerms, TaskId};
use super::{MISSED_HEARTBEATS, WorkError, is_reserved};
use crate::driver::Message;
use crate::engine::Engine;
use crate::payload::{PayloadError, check_payload_off_thread};
use crate::render::Rendered;

/// The longest that a worker may wait for work.
pub const POLL_WAIT_LIMIT_MS: u64 = 30_000;

/// The most tasks that a worker may ask for at once.
pub const SLOT_LIMIT: usize = 1_000;

/// The most bytes of parameters in one answer, but for a single task.
pub(super) const ANSWER_BYTES: usize = 16 * 1024 * 1024;

/// What a task takes in an answer beside its parameters, at most, about.
pub(super) const TASK_BYTES: usize = 4 * 1024;

/// What a worker asks for.
#[derive(Clone, Debug)]
pub struct Poll {
    /// The worker's tenant.
    pub tenant: Option<Box<str>>,
    /// The worker's name, unique per process.
    pub worker: Box<str>,
    /// What it can do.
    pub actions: Vec<Declaration>,
    /// Its labels, for nodes that require them.
    pub labels: Vec<Box<str>>,
    /// How many tasks it can take.
    pub slots: usize,
    /// How long it waits for the first.
    pub wait: Duration,
    /// The tasks that the worker holds, if it says so: a task that it was given and does not
    /// name is handed out again.
    pub holding: Option<Vec<TaskId>>,
}

/// An attempt, for a worker.
#[derive(Clone, Debug)]
pub struct WorkerTask {
    /// Its name.
    pub task: TaskId,
    /// The lease, by which the worker proves that the task is its own.
    pub lease: Box<str>,
    /// What it is about.
    pub dispatch: Arc<Dispatch>,
    /// The parameters, rendered with secrets, as JSON.
    pub parameters: Arc<str>,
    /// What remains of the attempt's time.
    pub timeout: Duration,
    /// When that is over, by this machine's clock.
    pub deadline: Millis,
    /// How often the worker must send a heartbeat.
    pub heartbeat: Duration,
    /// The trace context to hand on.
    pub traceparent: Option<String>,
}

/// What one look at the queue gave.
#[derive(Default)]
pub(super) struct Look {
    pub(super) tasks: Vec<WorkerTask>,
    /// Attempts that were to be handed out have ended instead: others may wait behind them.
    pub(super) ended_some: bool,
}

impl WorkerTask {
    /// Its attempt in the work queue.
    pub fn dispatch_key(&self) -> WorkKey {
        self.task.0
    }
}

impl Engine {
    /// Waits for work. An empty list means that nothing came in time. Dropping the future
    /// gives back what was not given out.
    ///
    /// # Errors
    /// What the worker declares is refused, or the store failed.
    pub async fn poll_work(
        &self,
        poll: Poll,
        stop: impl Future<Output = ()>,
    ) -> Result<Vec<WorkerTask>, WorkError> {
        let until = Instant::now() + poll.wait;
        let remote = &self.shared().remote;
        self.declare_work(&poll).await?;
        let actions: Arc<[Box<str>]> = poll.actions.iter().map(|it| it.action.clone()).collect();
        let asking = Asking {
            tenant: poll.tenant.clone(),
            worker: poll.worker.clone(),
            actions,
            labels: poll.labels.clone().into(),
        };
        // Before the first look: what comes after it rings.
        let waiting = remote.pollers.wait(asking.clone(), self.now());
        let waiting = waiting.ok_or(WorkError::TooManyPollers)?;
        self.tell_pollers(&asking);
        let slots = poll.slots.min(SLOT_LIMIT);
        let mut holding = poll.holding;
        // What is not needed while it waits does not stay in memory.
        drop(poll.actions);
        let mut stop = std::pin::pin!(stop);
        let mut is_over = false;
        loop {
            waiting.looks();
            let look = self.hand_out(&asking, slots, holding.take()).await?;
            waiting.looked(look.tasks.iter().map(|task| &*task.dispatch));
            let has_time = !is_over || look.ended_some;
            if !look.tasks.is_empty() || slots == 0 || !has_time {
                return Ok(look.tasks);
            }
            tokio::select! {
                biased;
                () = &mut stop => return Ok(Vec::new()),
                () = self.stopped() => return Ok(Vec::new()),
                // What it took has ended, and rang for no other worker: there may be more.
                () = std::future::ready(()), if look.ended_some => {}
                // When the wait is over, what came at the last moment is taken along.
                rung = timeout_at(until, waiting.rung()) => is_over = rung.is_err(),
            }
        }
    }

    async fn declare_work(&self, poll: &Poll) -> Result<(), WorkError> {
        let is_own = |action: &str| self.calls(action) || is_reserved(action);
        let own = poll.actions.iter().find(|it| is_own(&it.action));
        if let Some(own) = own {
            return Err(WorkError::Reserved(own.action.clone()));
        }
        let declared = &self.shared().remote.declared;
        let tenant = poll.tenant.as_deref();
        declared
            .declare(&**self.store(), tenant, &poll.actions, self.now())
            .await
    }

    pub(super) async fn lease_key(&self) -> Result<&LeaseKey, WorkError> {
        let (store, clock) = (self.store(), &self.options().clock);
        let shared = self.shared().owned.is_shared();
        let made = || async {
            // What a process before could not forget, while no hand-out waits for it.
            let swept = Arc::clone(store);
            tokio::spawn(async move { sweep(&*swept).await });
            LeaseKey::of(&**store, &**clock, shared).await
        };
        let key = self.shared().remote.lease_key.get_or_try_init(made);
        Ok(key.await?)
    }

    /// Leases what there is, and renders it.
    async fn hand_out(
        &self,
        asking: &Asking,
        slots: usize,
        holding: Option<Vec<TaskId>>,
    ) -> Result<Look, WorkError> {
        if self.shared().owned.is_shared() {
            return self.hand_out_shared(asking, slots, holding).await;
        }
        if let Some(named) = &holding {
            self.note_holding(asking, named).await?;
        }
        let pull = Pull {
            worker: asking.worker.clone(),
            tenant: TenantFilter::Only(asking.tenant.clone()),
            actions: asking.actions.to_vec(),
            labels: asking.labels.to_vec(),
            slots,
            max_bytes: ANSWER_BYTES,
            term: LeaseTerm::Millis(self.options().work_lease_ms),
            holding: holding.map(|tasks| tasks.into_iter().map(|task| task.0).collect()),
        };
        let leased = self.store().pull(pull).await?;
        if leased.is_empty() {
            return Ok(Look::default());
        }
        crash::point("after-work-pull");
        let mut back = GiveBack::new(self, leased);
        let keys: Vec<WorkKey> = back.items.iter().map(|leased| leased.item.key).collect();
        let worker = asking.worker.clone();
        let question = |reply| Message::HandOut {
            worker,
            resumes: false,
            keys,
            reply,
        };
        let may = self.ask(question).await.ok_or(WorkError::Stopped)?;
        let lease_key = self.lease_key().await?;
        let (mut tasks, mut bytes) = (Vec::new(), 0);
        for may in may {
            let Some(leased) = back.first() else {
                break;
            };
            if may {
                let rendered = self.render_task(&leased, &asking.worker).await;
                if let Some((dispatch, rendered)) = rendered {
                    bytes += rendered.text.len() + TASK_BYTES;
                    if bytes > ANSWER_BYTES && !tasks.is_empty() {
                        break;
                    }
                    let given = (dispatch, rendered);
                    let task = self.give(asking, &leased, given, lease_key).await?;
                    tasks.extend(task);
                }
            } else {
                self.store().withdraw(&[leased.item.key]).await?;
            }
            back.given();
        }
        Ok(Look {
            ended_some: tasks.is_empty(),
            tasks,
        })
    }

    /// Attempts that the queue does not have and that were this worker's go into it, unless the
    /// worker says that it has them.
    async fn note_holding(&self, asking: &Asking, named: &[TaskId]) -> Result<(), WorkError> {
        let remote = &self.shared().remote;
        for key in remote.open.unread(asking.tenant.as_deref()) {
            self.read_generation(key).await?;
        }
        let named: Vec<WorkKey> = named.iter().map(|task| task.0).collect();
        let worker = (asking.tenant.as_deref(), &*asking.worker);
        for key in remote.open.named(worker, &named, self.work_lease()) {
            let dispatch = remote.open.with(key, |open| Arc::clone(&open.dispatch));
            if let Some(dispatch) = dispatch
                && remote.open.release(key)
            {
                enqueue(&**self.store(), remote, &dispatch).await;
            }
        }
        Ok(())
    }

    /// Renders what a worker is about to get. An attempt whose parameters cannot be rendered,
    /// or do not fit, ends here.
    async fn render_task(
        &self,
        leased: &LeasedItem,
        worker: &str,
    ) -> Option<(Arc<Dispatch>, Rendered)> {
        let key = leased.item.key;
        let remote = &self.shared().remote;
        let dispatch = remote.open.with(key, |open| Arc::clone(&open.dispatch))?;
        let workers = self.workers();
        let started = self.now();
        match self.render_checked(&dispatch).await {
            Ok(rendered) => Some((dispatch, rendered)),
            Err((failure, parameters)) => {
                let report = Report {
                    started,
                    parameters,
                    worker: worker.into(),
                    ..workers.report(Outcome::Failed(failure))
                };
                self.tell(ended(key, Box::new(report))).await;
                None
            }
        }
    }

    /// The parameters of an attempt; or why it fails, with those that can be recorded.
    pub(super) async fn render_checked(
        &self,
        dispatch: &Arc<Dispatch>,
    ) -> Result<Rendered, (Failure, Option<Payload>)> {
        let rendered = self.workers().render(dispatch).await;
        let rendered = rendered.map_err(|failure| (failure, None))?;
        self.check_parameters(dispatch, &rendered).await?;
        Ok(rendered)
    }

    /// Parameters must fit the schema that workers declared last.
    async fn check_parameters(
        &self,
        dispatch: &Dispatch,
        rendered: &Rendered,
    ) -> Result<(), (Failure, Option<Payload>)> {
        let remote = &self.shared().remote;
        let (tenant, action) = (dispatch.tenant.as_deref(), &*dispatch.action);
        let declared = remote.declared.find(tenant, action, self.now());
        let Some(schema) = declared.and_then(|declared| declared.parameters) else {
            return Ok(());
        };
        let text = Arc::clone(&rendered.text);
        let checked = check_payload_off_thread(tenant, text, vec![schema.to_string()]).await;
        let Err(error) = checked else {
            return Ok(());
        };
        let error = without_secrets(error, &rendered.text, &rendered.secrets);
        let message = format!("the parameters do not fit {action}: {error}");
        let message = crate::scrub::scrub_text(&message, &rendered.secrets);
        let failure = Failure {
            retriable: error == PayloadError::Busy,
            ..Failure::permanent("PARAMETERS_INVALID", message)
        };
        Err((failure, rendered.recorded.clone()))
    }

    /// Notes that a worker has an attempt; nothing if it must not have it any more.
    async fn give(
        &self,
        asking: &Asking,
        leased: &LeasedItem,
        (dispatch, rendered): (Arc<Dispatch>, Rendered),
        lease_key: &LeaseKey,
    ) -> Result<Option<WorkerTask>, WorkError> {
        let task = TaskId(leased.item.key);
        let generation = self.next_generation(task.0, &asking.worker).await?;
        let Some(generation) = generation else {
            return Ok(None);
        };
        let (term, now) = (self.work_lease(), self.now());
        let open = &self.shared().remote.open;
        let terms = LeaseTerms {
            generation,
            since: Some(open.since(task.0).unwrap_or(now)),
            worker: asking.worker.clone(),
        };
        let lease = lease_key.lease(task, leased.lease.0, &terms);
        let assigned = AssignedWorker {
            lease: lease.clone(),
            number: Some(leased.lease),
            worker: asking.worker.clone(),
            recorded: rendered.recorded,
            secrets: rendered.secrets,
        };
        let Some((begun, timeout)) = open.assign(task.0, assigned, now, term) else {
            return Ok(None);
        };
        let traceparent = self.traceparent_of(&dispatch);
        Ok(Some(WorkerTask {
            task,
            lease,
            parameters: rendered.text,
            timeout,
            deadline: begun.at.plus(dispatch.timeout_ms),
            heartbeat: term / u32::try_from(MISSED_HEARTBEATS).unwrap_or(1),
            traceparent,
            dispatch,
        }))
    }

    /// The trace context that a worker hands on.
    pub(super) fn traceparent_of(&self, dispatch: &Dispatch) -> Option<String> {
        let run = TraceParent::of_run(dispatch.run, dispatch.traceparent.as_deref());
        match self.workers().span(dispatch) {
            Some(span) => Some(run.at(span).to_string()),
            None => dispatch.traceparent.as_deref().map(str::to_owned),
        }
    }

    pub(super) fn work_lease(&self) -> Duration {
        Duration::from_millis(self.options().work_lease_ms)
    }
}

/// By so many of its first bytes a quoted value is recognised.
const QUOTED_BYTES: usize = 8;

/// What does not fit quotes values: none that has a secret in it, in whatever form the quote
/// would have it.
fn without_secrets(error: PayloadError, parameters: &str, secrets: &[String]) -> PayloadError {
    let PayloadError::Invalid(problems) = error else {
        return error;
    };
    if secrets.is_empty() {
        return PayloadError::Invalid(problems);
    }
    let value: Value = serde_json::from_str(parameters).unwrap_or_default();
    let clean = |(pointer, message): (String, String)| {
        let part = value.pointer(&pointer).map(Value::to_string);
        // The beginning is enough: a long quote is cut.
        let quotes = |part: &String| message.contains(cut(part, QUOTED_BYTES));
        let tells = |part: &String| crate::scrub::scrub(part, secrets) != *part;
        match part.filter(quotes).filter(tells) {
            None => (pointer, message),
            Some(_) => (
                pointer,
                "the value, which has a secret in it, does not fit".to_owned(),
            ),
        }
    };
    PayloadError::Invalid(problems.into_iter().map(clean).collect())
}

/// Items that were leased and are not given out yet. What is left when this is dropped waits
/// for a worker again, at once.
pub(super) struct GiveBack<'a> {
    engine: &'a Engine,
    items: std::collections::VecDeque<LeasedItem>,
}

impl<'a> GiveBack<'a> {
    pub(super) fn new(engine: &'a Engine, items: Vec<LeasedItem>) -> Self {
        let items = items.into();
        Self { engine, items }
    }

    /// The next item.
    pub(super) fn first(&self) -> Option<LeasedItem> {
        self.items.front().cloned()
    }

    /// It was given out, or is over.
    pub(super) fn given(&mut self) {
        self.items.pop_front();
    }
}

impl Drop for GiveBack<'_> {
    fn drop(&mut self) {
        let items = std::mem::take(&mut self.items);
        if items.is_empty() {
            return;
        }
        let engine = self.engine.clone();
        tokio::spawn(async move {
            for leased in items {
                let tenant = leased.item.tenant.as_deref();
                let key = leased.item.key;
                let _ = engine.store().return_item(tenant, key, leased.lease).await;
                let remote = &engine.shared().remote;
                let dispatch = remote.open.with(key, |open| Arc::clone(&open.dispatch));
                if let Some(dispatch) = dispatch {
                    remote.pollers.wake_for(&dispatch);
                }
            }
            engine.rings_for_work();
        });
    }
}
