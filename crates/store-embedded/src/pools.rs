//! Pools of a data directory: their sizes are notes, read when a pool is first needed; what
//! attempts hold of them is in this process's memory.

use std::sync::atomic::Ordering;

use windlass_core::Millis;
use windlass_store::{
    Error, GivenSlots, KeyValue as _, Partitions, Pending, PoolKey, PoolRemoval, PoolRow, PoolUse,
    Pools, SlotRequest, SlotsTaken, TenantFilter, WorkKey,
};

use crate::EmbeddedStore;

/// The kind of the notes that have the sizes of pools.
const POOL: &str = "pool";

/// Between a pool's name and its tenant: in neither.
const BETWEEN: char = '\n';

/// How many notes are read together.
const PAGE: usize = 1000;

fn key_of(pool: &PoolKey) -> String {
    let tenant = pool.tenant.as_deref().unwrap_or_default();
    format!("{}{BETWEEN}{tenant}", pool.name)
}

fn text_of(row: &PoolRow) -> Vec<u8> {
    format!("{} {}", row.slots, row.updated_at.0).into_bytes()
}

/// A pool of its note; none if another program wrote it.
fn row_of(key: &str, bytes: &[u8]) -> Option<PoolRow> {
    let (name, tenant) = key.split_once(BETWEEN)?;
    let (slots, at) = std::str::from_utf8(bytes).ok()?.split_once(' ')?;
    Some(PoolRow {
        pool: PoolKey::new((!tenant.is_empty()).then_some(tenant), name),
        slots: slots.parse().ok()?,
        updated_at: Millis(at.parse().ok()?),
    })
}

impl EmbeddedStore {
    /// Reads the sizes, once.
    async fn read_pools(&self) -> Result<(), Error> {
        if self.pools_read().load(Ordering::Acquire) {
            return Ok(());
        }
        let mut after: Option<Box<str>> = None;
        loop {
            let page = self.notes(POOL, after.as_deref(), PAGE).await?;
            for (key, bytes) in &page {
                if let Some(row) = row_of(key, bytes) {
                    self.coordinator().put_pool(row).await?;
                }
            }
            match page.into_iter().last() {
                Some((key, _)) => after = Some(key),
                None => break,
            }
        }
        self.pools_read().store(true, Ordering::Release);
        Ok(())
    }
}

impl Pools for EmbeddedStore {
    fn put_pool(&self, pool: PoolRow) -> Pending<'_, Result<Option<u32>, Error>> {
        Box::pin(async move {
            self.read_pools().await?;
            self.keep_note(POOL, &key_of(&pool.pool), text_of(&pool))
                .await?;
            self.coordinator().put_pool(pool).await
        })
    }

    fn pool(&self, pool: &PoolKey) -> Pending<'_, Result<Option<PoolRow>, Error>> {
        let key = key_of(pool);
        Box::pin(async move {
            // Another process may hold the directory and have changed it.
            let note = self.note_at(POOL, &key).await?;
            Ok(note.and_then(|bytes| row_of(&key, &bytes)))
        })
    }

    fn pools(
        &self,
        tenant: &TenantFilter,
        after: Option<&PoolKey>,
        limit: usize,
    ) -> Pending<'_, Result<Vec<PoolRow>, Error>> {
        let tenant = tenant.clone();
        let mut after = after.map(|pool| Box::from(key_of(pool)));
        Box::pin(async move {
            let mut rows = Vec::new();
            loop {
                let page = self.notes(POOL, after.as_deref(), PAGE).await?;
                let all = page.iter().filter_map(|(key, bytes)| row_of(key, bytes));
                rows.extend(all.filter(|row| tenant.matches(row.pool.tenant.as_deref())));
                match page.into_iter().last() {
                    Some((key, _)) if rows.len() < limit => after = Some(key),
                    _ => break,
                }
            }
            rows.truncate(limit);
            Ok(rows)
        })
    }

    fn remove_pool(&self, pool: &PoolKey) -> Pending<'_, Result<PoolRemoval, Error>> {
        let pool = pool.clone();
        Box::pin(async move {
            self.read_pools().await?;
            let removal = self.coordinator().remove_pool(&pool).await?;
            if removal == PoolRemoval::Removed {
                self.forget_note(POOL, &key_of(&pool)).await?;
            }
            Ok(removal)
        })
    }

    fn take_slots(&self, requests: Vec<SlotRequest>) -> Pending<'_, Result<SlotsTaken, Error>> {
        Box::pin(async move {
            self.read_pools().await?;
            self.coordinator().take_slots(requests).await
        })
    }

    fn give_slots(&self, given: &[GivenSlots]) -> Pending<'_, Result<Vec<PoolKey>, Error>> {
        self.coordinator().give_slots(given)
    }

    fn next_in_line(&self, pool: &PoolKey) -> Pending<'_, Result<Option<SlotRequest>, Error>> {
        self.coordinator().next_in_line(pool)
    }

    fn pool_use(&self, pool: &PoolKey, most: usize) -> Pending<'_, Result<PoolUse, Error>> {
        self.coordinator().pool_use(pool, most)
    }

    fn slots(
        &self,
        partitions: &Partitions,
        after: Option<WorkKey>,
        limit: usize,
    ) -> Pending<'_, Result<Vec<SlotRequest>, Error>> {
        self.coordinator().slots(partitions, after, limit)
    }
}
