//! Slots of pools: one task carries out what the shard asks of the store, in order, so that an
//! attempt that gives its slots back and asks again is not answered the other way round. The
//! owner of a partition mends what a crash left.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use windlass_core::RunId;
use windlass_orchestrator::supervisor::{PoolCalls, RoomHint, frees_slots};
use windlass_store::{
    Backend, Bell, Error, GivenSlots, Partitions, PoolKey, PoolRemoval, PoolRow, SlotRequest,
    WorkKey,
};

use crate::clock::Clock;
use crate::driver::Message;
use crate::engine::Engine;
use crate::ownership::ring;
use crate::shared::Shared;

/// How many rows are read together.
const PAGE: usize = 256;

/// How much of a pool's line is looked at for runs that are set aside.
const MOST_IN_LINE: usize = 10_000;

/// How soon the store is asked again after an error.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// What the driver asks of the store.
pub(crate) enum SlotWork {
    Take(Vec<SlotRequest>),
    Give(Vec<GivenSlots>),
    /// Slots of a pool are free, or it has more of them.
    Look(PoolKey),
}

/// The task's side.
pub(crate) struct SlotKeeper {
    store: Arc<dyn Backend>,
    shared: Arc<Shared>,
    outbox: mpsc::Sender<Message>,
    clock: Arc<dyn Clock>,
    calls: PoolCalls,
}

impl SlotKeeper {
    /// Starts the task; it ends with the last sender.
    pub(crate) fn start(
        store: &Arc<dyn Backend>,
        shared: &Arc<Shared>,
        outbox: &mpsc::Sender<Message>,
        clock: &Arc<dyn Clock>,
    ) -> mpsc::UnboundedSender<SlotWork> {
        let keeper = Self {
            store: Arc::clone(store),
            shared: Arc::clone(shared),
            outbox: outbox.clone(),
            clock: Arc::clone(clock),
            calls: PoolCalls::default(),
        };
        let (sender, receiver) = mpsc::unbounded_channel();
        tokio::spawn(keeper.work(receiver));
        sender
    }

    async fn work(mut self, mut receiver: mpsc::UnboundedReceiver<SlotWork>) {
        while let Some(work) = receiver.recv().await {
            let done = match work {
                SlotWork::Take(requests) => self.take(requests).await,
                SlotWork::Give(given) => self.give(&given).await,
                SlotWork::Look(pool) => self.look(pool).await,
            };
            if done.is_err() {
                self.look_again();
            }
        }
    }

    async fn take(&mut self, requests: Vec<SlotRequest>) -> Result<(), Error> {
        let keys: Vec<WorkKey> = requests.iter().map(|it| it.attempt).collect();
        let taken = self.store.take_slots(requests).await;
        // Without an answer they wait, and ask again soon.
        let granted = match &taken {
            Ok(taken) => taken.granted.clone(),
            Err(_) => vec![false; keys.len()],
        };
        let answers = keys.into_iter().zip(granted).collect();
        self.tell(Message::SlotsAnswered(answers)).await;
        for next in taken?.next {
            let is_here = self.shared.owned.holds(next.partition);
            if is_here || self.calls.tells(&next, self.clock.now()) {
                self.call(next).await;
            }
        }
        Ok(())
    }

    async fn give(&self, given: &[GivenSlots]) -> Result<(), Error> {
        for pool in self.store.give_slots(given).await? {
            self.look(pool).await?;
        }
        Ok(())
    }

    /// Tells the first of a pool's line, if there is room for it.
    async fn look(&self, pool: PoolKey) -> Result<(), Error> {
        if let Some(next) = self.store.next_in_line(&pool).await? {
            self.call(next).await;
        }
        Ok(())
    }

    /// Tells the owner of an attempt's run that it may ask. A hint: owners also look by themselves.
    async fn call(&self, next: SlotRequest) {
        match RoomHint::of(Some(next.partition), |it| self.shared.owned.holds(it)) {
            RoomHint::Here => self.tell(Message::LookAtPool(Box::new(next))).await,
            RoomHint::Ring(partition) => {
                ring(Arc::clone(&self.store), Bell::Partition(partition));
            }
        }
    }

    async fn tell(&self, message: Message) {
        // The driver is gone only when the engine is.
        let _ = self.outbox.send(message).await;
    }

    fn look_again(&self) {
        let outbox = self.outbox.clone();
        tokio::spawn(async move {
            tokio::time::sleep(ASK_AGAIN).await;
            let _ = outbox.send(Message::LookAtPools).await;
        });
    }
}

impl Engine {
    /// Makes a pool, or changes its size; gives the size that it had. Those that wait and fit now
    /// go at once; those that hold slots keep them.
    ///
    /// # Errors
    /// The store failed.
    pub async fn put_pool(&self, pool: PoolKey, slots: u32) -> Result<Option<u32>, Error> {
        let row = PoolRow {
            pool: pool.clone(),
            slots,
            updated_at: self.now(),
        };
        let before = self.store().put_pool(row).await?;
        self.tell(Message::PoolChanged(pool)).await;
        Ok(before)
    }

    /// Removes a pool that no attempt uses.
    ///
    /// # Errors
    /// The store failed.
    pub async fn remove_pool(&self, pool: &PoolKey) -> Result<PoolRemoval, Error> {
        self.store().remove_pool(pool).await
    }

    /// Takes attempts of runs that are set aside out of the lines in which they wait: they ask for
    /// nothing until their run is tried, and nothing behind them would go. Slots that they hold
    /// stay theirs.
    async fn leave_lines(&self, page: &[SlotRequest]) -> Result<(), Error> {
        let aside = |it: &&SlotRequest| self.suspended(it.attempt.run).is_some();
        let pools: BTreeSet<PoolKey> = page
            .iter()
            .filter(aside)
            .map(|it| it.pool.clone())
            .collect();
        for pool in pools {
            let line = self.store().pool_use(&pool, MOST_IN_LINE).await?.waiters;
            let given = line.iter().filter(aside).map(|it| GivenSlots {
                attempt: it.attempt,
                fence: it.fence,
            });
            let given: Vec<GivenSlots> = given.collect();
            if !given.is_empty() {
                self.store().give_slots(&given).await?;
                self.tell(Message::PoolChanged(pool)).await;
            }
        }
        Ok(())
    }

    /// Compares what attempts of a partition's runs hold of pools with the runs themselves.
    pub(crate) async fn audit_slots(&self, only: &Partitions) -> Result<(), Error> {
        let mut after = None;
        loop {
            let page = self.store().slots(only, after, PAGE).await?;
            let Some(last) = page.last() else {
                return Ok(());
            };
            after = Some(last.attempt);
            let runs: BTreeSet<RunId> = page.iter().map(|it| it.attempt.run).collect();
            self.leave_lines(&page).await?;
            let mut over = BTreeSet::new();
            for run in runs {
                let row = self.store().run(run).await?;
                if frees_slots(row.as_ref(), self.now()) {
                    over.insert(run);
                }
            }
            let seen = page.into_iter().map(|it| {
                let is_over = over.contains(&it.attempt.run);
                let SlotRequest { attempt, fence, .. } = it;
                (GivenSlots { attempt, fence }, is_over)
            });
            // The driver decides: it alone asks for slots, and knows what it asked for since.
            self.tell(Message::AuditSlots(seen.collect())).await;
        }
    }
}
