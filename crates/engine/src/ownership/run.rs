//! The task that carries out what [`Ownership`](windlass_orchestrator::supervisor::Ownership)
//! decides: calls of the leases, bells, recovery of what was taken, release of what is handed
//! over. Calls are made beside it, so that a slow answer holds up nothing else.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use windlass_orchestrator::supervisor::{OwnershipEffect, OwnershipInput};
use windlass_store::{Backend, Bell, Error, Leases, Partition, Partitions};

use super::{Cluster, Owned};
use crate::driver::Message;
use crate::engine::{Engine, Inner};
use crate::shared::Shared;

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
    let owner = Owner { engine, answers };
    let hearing = tokio::spawn(hear_always(owner.clone(), shared.clone()));
    cluster
        .machine()
        .handle(OwnershipInput::Start, cluster.now());
    while owner.execute(cluster).await {
        let deadline = cluster.machine().next_deadline();
        let wait = deadline.map(|at| Duration::from_millis(at.saturating_sub(cluster.now())));
        let input = tokio::select! {
            Some(input) = answered.recv() => Some(input),
            () = cluster.stop.notified() => Some(OwnershipInput::Stop),
            () = tokio::time::sleep(wait.unwrap_or_default()), if wait.is_some() => None,
        };
        let now = cluster.now();
        match input {
            Some(input) => cluster.machine().handle(input, now),
            None => cluster.machine().handle_deadline(now),
        }
        let known = cluster.machine().partitions();
        cluster.partitions.send_if_modified(|partitions| {
            known.is_some() && std::mem::replace(partitions, known) != known
        });
        owner.look().await;
    }
    hearing.abort();
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
            for bell in bells {
                owner.heard(bell, &shared);
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
}

impl Owner {
    fn store(&self) -> Option<Arc<dyn Backend>> {
        let engine = Engine::of(self.engine.upgrade()?);
        Some(Arc::clone(engine.store()))
    }

    fn heard(&self, bell: Bell, shared: &Shared) {
        match bell {
            Bell::Sessions => drop(self.answers.send(OwnershipInput::Rung)),
            Bell::Partition(partition) if shared.owned.holds(partition) => {
                shared.look_at_all();
                self.consume(partition);
            }
            Bell::Run(_) => shared.owned.ring_elsewhere(),
            Bell::Definitions => {
                if let Some(inner) = self.engine.upgrade() {
                    Engine::of(inner).forget_catalogue();
                }
            }
            Bell::Partition(_) | Bell::Work => {}
        }
    }

    fn heard_anything(&self, shared: &Shared) {
        let _ = self.answers.send(OwnershipInput::Rung);
        shared.look_at_all();
        shared.owned.ring_elsewhere();
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
        loop {
            let effect = cluster.machine().poll_effect();
            let Some(effect) = effect else {
                break;
            };
            let Some(engine) = self.engine.upgrade().map(Engine::of) else {
                return false;
            };
            self.execute_effect(&engine, effect).await;
        }
        !cluster.machine().is_over() && self.engine.strong_count() > 0
    }

    async fn execute_effect(&self, engine: &Engine, effect: OwnershipEffect) {
        let store = Arc::clone(engine.store());
        match effect {
            OwnershipEffect::Join { duration_ms } => {
                let name = engine.session_name();
                self.call(OwnershipInput::Joined, async move {
                    store.join(&name, duration_ms).await
                });
            }
            OwnershipEffect::Renew(session) => {
                self.call(OwnershipInput::Renewed, async move {
                    store.renew(session).await
                });
            }
            OwnershipEffect::ListSessions(session) => self.call(
                move |listed| OwnershipInput::Listed(session, listed),
                async move { Leases::sessions(&*store).await },
            ),
            OwnershipEffect::Take(session, partitions) => self.call(
                move |taken| OwnershipInput::Taken(session, taken),
                async move { store.take(session, &partitions).await },
            ),
            OwnershipEffect::Give(session, partitions) => self.call(
                move |given| OwnershipInput::Given(session, given),
                async move { store.give(session, &partitions).await },
            ),
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
            OwnershipEffect::Forfeit => engine.tell(Message::Forfeit).await,
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
