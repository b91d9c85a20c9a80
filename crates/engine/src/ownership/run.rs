//! The task that carries out what [`Ownership`](windlass_orchestrator::supervisor::Ownership)
//! decides: calls of the leases, bells, recovery of what was taken, release of what is handed
//! over. Calls are made beside it, so that a slow answer holds up nothing else.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use windlass_core::RunId;
use windlass_orchestrator::supervisor::{OwnershipEffect, OwnershipInput};
use windlass_store::{
    Backend, Bell, Error, InboxItem, Leases, LiveSession, Partition, Partitions, Role,
};

use super::outage::Outage;
use super::{Cluster, Owned};
use crate::driver::Message;
use crate::engine::{Engine, Inner};
use crate::shared::Shared;
use crate::watched::ring_always;

/// How long a call of the leases may take before it counts as failed.
const CALL: Duration = Duration::from_secs(5);

/// How soon a listener is asked for again after an error.
const LISTEN_AGAIN: Duration = Duration::from_secs(1);

/// Works on what the leases give, until everything is handed over or the engine is gone.
pub(crate) async fn own_always(engine: Weak<Inner>) {
    let Some(shared) = engine.upgrade().map(|it| Engine::of(it).shared().clone()) else {
        return;
    };
    let Some(cluster) = &shared.owned.cluster else {
        return;
    };
    cluster.over.send_replace(false);
    let (answers, mut answered) = mpsc::unbounded_channel();
    let owner = Owner {
        engine,
        answers,
        lists: Arc::default(),
    };
    let hearing = tokio::spawn(hear_always(owner.clone(), shared.clone()));
    let ringing = tokio::spawn(ring_always(owner.engine.clone(), shared.clone()));
    cluster
        .machine()
        .handle(OwnershipInput::Start, cluster.now());
    let mut outage = Outage::default();
    while owner.execute(cluster).await {
        let deadline = cluster.machine().next_deadline();
        let wait = deadline.map(|at| Duration::from_millis(at.saturating_sub(cluster.now())));
        let input = tokio::select! {
            Some(input) = answered.recv() => Some(input),
            () = cluster.stop.notified() => Some(OwnershipInput::Stop),
            () = cluster.leave.notified() => Some(OwnershipInput::HandOver),
            () = tokio::time::sleep(wait.unwrap_or_default()), if wait.is_some() => None,
        };
        if let Some(input) = &input {
            outage.note(input, |event| shared.observe(event));
        }
        let now = cluster.now();
        match input {
            Some(input) => cluster.machine().handle(input, now),
            None => cluster.machine().handle_deadline(now),
        }
        let known = cluster.machine().partitions();
        cluster.partitions.send_if_modified(|partitions| {
            known.is_some() && std::mem::replace(partitions, known) != known
        });
        let handed_over = cluster.machine().has_handed_over();
        cluster
            .handed_over
            .send_if_modified(|it| std::mem::replace(it, handed_over) != handed_over);
        owner.look().await;
    }
    hearing.abort();
    ringing.abort();
    cluster.handed_over.send_replace(true);
    cluster.over.send_replace(true);
}

/// Hears bells for as long as the engine works.
async fn hear_always(owner: Owner, shared: Arc<Shared>) {
    loop {
        let Some(store) = owner.store() else { return };
        let mut listener = match store.listen().await {
            Ok(listener) => listener,
            Err(_) => {
                tokio::time::sleep(LISTEN_AGAIN).await;
                continue;
            }
        };
        drop(store);
        // What was rung while nothing listened is looked for.
        owner.heard_anything(&shared);
        while let Ok(bells) = listener.hear().await {
            let brought = listener.brought();
            for bell in bells {
                owner.heard(bell, &brought, &shared);
            }
        }
        owner.heard_anything(&shared);
        tokio::time::sleep(LISTEN_AGAIN).await;
    }
}

/// What the task needs to act.
#[derive(Clone)]
struct Owner {
    engine: Weak<Inner>,
    answers: mpsc::UnboundedSender<OwnershipInput>,
    lists: Arc<SessionLists>,
}

/// The list of sessions that came with a renewal: the look that follows it needs no other. It
/// counts only if this process has taken and given nothing since the renewal was sent.
#[derive(Default)]
struct SessionLists {
    changes: AtomicU64,
    listed: Mutex<Option<(u64, Vec<LiveSession>)>>,
}

impl SessionLists {
    fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    fn change(&self) {
        self.changes.fetch_add(1, Ordering::AcqRel);
    }

    fn listed(&self) -> MutexGuard<'_, Option<(u64, Vec<LiveSession>)>> {
        self.listed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a list that was asked for when so much had changed; always true.
    fn keep(&self, since: u64, listed: Vec<LiveSession>) -> bool {
        *self.listed() = Some((since, listed));
        true
    }

    fn take(&self) -> Option<Vec<LiveSession>> {
        let (since, listed) = self.listed().take()?;
        (since == self.changes()).then_some(listed)
    }
}

impl Owner {
    fn store(&self) -> Option<Arc<dyn Backend>> {
        let engine = Engine::of(self.engine.upgrade()?);
        Some(Arc::clone(engine.store()))
    }

    /// `brought` has what came with the bells.
    fn heard(&self, bell: Bell, brought: &[(RunId, InboxItem)], shared: &Shared) {
        match bell {
            Bell::Sessions => {
                self.lists.change();
                drop(self.answers.send(OwnershipInput::Rung));
            }
            Bell::Partition(partition) if shared.owned.holds(partition) => {
                shared.look_at_all();
                self.look_at_pools();
                self.consume(partition);
            }
            Bell::Offered(partition, run) if shared.owned.holds(partition) => {
                if let Some(inner) = self.engine.upgrade() {
                    let brought = brought.iter().filter(|(of, _)| *of == run);
                    let brought = brought.map(|(_, item)| item.clone()).collect();
                    Engine::of(inner).consume_run_beside(run, brought);
                }
            }
            Bell::Run(run) => {
                shared.owned.ring_elsewhere();
                shared.event_streams.rung(run);
                shared.waiters.changed(run, true);
            }
            Bell::Watch(partition, run) => {
                shared.watched.watch(run, shared.owned.holds(partition));
            }
            Bell::Definitions => {
                if let Some(inner) = self.engine.upgrade() {
                    Engine::of(inner).forget_catalogue();
                }
            }
            Bell::Work => shared.remote.shared.ring(),
            Bell::Requests => {
                shared.projecting.wake();
                shared.schedules.notify_one();
                shared.jobs.notify_one();
            }
            Bell::Partition(_) | Bell::Offered(..) => {}
        }
    }

    /// There may be room in a pool that runs of this process wait for.
    fn look_at_pools(&self) {
        if let Some(engine) = self.engine.upgrade().map(Engine::of) {
            tokio::spawn(async move { engine.tell(Message::LookAtPools).await });
        }
    }

    fn heard_anything(&self, shared: &Shared) {
        self.lists.change();
        let _ = self.answers.send(OwnershipInput::Rung);
        self.look_at_pools();
        shared.look_at_all();
        shared.owned.ring_elsewhere();
        shared.look_at_watched();
        shared.remote.shared.ring();
        if let Partitions::Only(partitions) = shared.owned.partitions() {
            partitions.into_iter().for_each(|it| self.consume(it));
        }
    }

    /// Decides on what was offered to runs of a partition.
    fn consume(&self, partition: Partition) {
        if let Some(inner) = self.engine.upgrade() {
            Engine::of(inner).consume_inbox_beside(partition);
        }
    }

    /// Tells the driver that what it may append has changed.
    async fn look(&self) {
        if let Some(inner) = self.engine.upgrade() {
            Engine::of(inner).tell(Message::Poke).await;
        }
    }

    /// Carries out what was decided; `false` once everything is over.
    async fn execute(&self, cluster: &Cluster) -> bool {
        let mut sweeps = BTreeSet::new();
        loop {
            let effect = cluster.machine().poll_effect();
            let Some(effect) = effect else {
                break;
            };
            let Some(engine) = self.engine.upgrade().map(Engine::of) else {
                return false;
            };
            match effect {
                OwnershipEffect::Sweep(partition) => drop(sweeps.insert(partition)),
                effect => self.execute_effect(&engine, effect).await,
            }
        }
        if let Some(engine) = self.engine.upgrade().map(Engine::of)
            && !sweeps.is_empty()
        {
            tokio::spawn(async move { engine.sweep(sweeps).await });
        }
        !cluster.machine().is_over() && self.engine.strong_count() > 0
    }

    async fn execute_effect(&self, engine: &Engine, effect: OwnershipEffect) {
        let store = Arc::clone(engine.store());
        match effect {
            OwnershipEffect::Join { duration_ms } => {
                let process = engine.process_info();
                self.call(OwnershipInput::Joined, async move {
                    store.join(&process, duration_ms).await
                });
            }
            OwnershipEffect::Renew(session) if engine.has_role(Role::Orchestrator) => {
                let (lists, since) = (Arc::clone(&self.lists), self.lists.changes());
                self.call(OwnershipInput::Renewed, async move {
                    let listed = store.renew_and_list(session).await?;
                    Ok(listed.is_some_and(|listed| lists.keep(since, listed)))
                });
            }
            OwnershipEffect::Renew(session) => {
                self.call(OwnershipInput::Renewed, async move {
                    store.renew(session).await
                });
            }
            OwnershipEffect::ListSessions(session) => {
                if let Some(live) = self.lists.take() {
                    engine.shared().remote.shared.note_live(&live);
                    let _ = self.answers.send(OwnershipInput::Listed(session, Ok(live)));
                    return;
                }
                let shared = Arc::clone(engine.shared());
                self.call(
                    move |listed| OwnershipInput::Listed(session, listed),
                    async move {
                        let live = Leases::sessions(&*store).await?;
                        shared.remote.shared.note_live(&live);
                        Ok(live)
                    },
                );
            }
            OwnershipEffect::Take(session, partitions) => {
                let lists = Arc::clone(&self.lists);
                lists.change();
                self.call(
                    move |taken| {
                        lists.change();
                        OwnershipInput::Taken(session, taken)
                    },
                    async move { store.take(session, &partitions).await },
                );
            }
            OwnershipEffect::Give(session, partitions) => {
                let lists = Arc::clone(&self.lists);
                lists.change();
                // What is recorded elsewhere from now on needs a bell.
                engine.shared().look_at_watched();
                self.call(
                    move |given| {
                        lists.change();
                        OwnershipInput::Given(session, given)
                    },
                    async move { store.give(session, &partitions).await },
                );
            }
            OwnershipEffect::Leave(session) => {
                self.call(
                    OwnershipInput::Left,
                    async move { store.leave(session).await },
                );
            }
            OwnershipEffect::Ring => ring(store, Bell::Sessions),
            OwnershipEffect::Recover(partition, _) | OwnershipEffect::Sweep(partition) => {
                let engine = engine.clone();
                tokio::spawn(async move { engine.recover_partition(partition).await });
            }
            OwnershipEffect::Release(partition) => self.release(engine.clone(), partition),
            // Before the next session begins: the runs that it acquires must stay.
            OwnershipEffect::Forfeit => {
                engine.tell(Message::Forfeit).await;
                engine.shared().look_at_watched();
            }
        }
    }

    /// Makes a call of the leases, and gives its answer back.
    fn call<T: Send + 'static>(
        &self,
        input: impl FnOnce(Result<T, Error>) -> OwnershipInput + Send + 'static,
        call: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) {
        let answers = self.answers.clone();
        tokio::spawn(async move {
            let late = |_| Err(Error::Timeout("the leases do not answer".to_owned()));
            let answer = tokio::time::timeout(CALL, call).await.unwrap_or_else(late);
            // It is gone only when the engine is.
            let _ = answers.send(input(answer));
        });
    }

    /// Lets the driver drop the runs of a partition, once nothing of them is in flight.
    fn release(&self, engine: Engine, partition: Partition) {
        let answers = self.answers.clone();
        tokio::spawn(async move {
            let (reply, released) = oneshot::channel();
            engine.tell(Message::Release(partition, reply)).await;
            // A driver that is gone has nothing in flight.
            let _ = released.await;
            let _ = answers.send(OwnershipInput::Released(partition));
        });
    }
}

/// Rings a bell beside everything else: it is a hint.
pub(crate) fn ring(store: Arc<dyn Backend>, bell: Bell) {
    tokio::spawn(async move { store.ring(&[bell]).await });
}

impl Owned {
    fn ring_elsewhere(&self) {
        if let Some(cluster) = &self.cluster {
            cluster.elsewhere.notify_waiters();
        }
    }
}
