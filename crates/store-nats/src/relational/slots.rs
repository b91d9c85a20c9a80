//! Places at gates and slots of pools. They are freed when the record that frees them reaches the
//! database: late, never early. Also moving everything into or out of the store.

use windlass_store::{
    Error, GatePlace, GivenSlots, HeldPlace, Partitions, Pending, Places, PoolKey, PoolRemoval,
    PoolRow, PoolUse, Pools, SlotRequest, SlotsTaken, StoredClaim, TakePlace, TenantFilter,
    Transfer, WorkKey,
};

use crate::store::NatsStore;

impl Places for NatsStore {
    fn take_places(&self, places: Vec<TakePlace>) -> Pending<'_, Result<Vec<Option<u64>>, Error>> {
        self.after_own(move |postgres| async move { postgres.take_places(places).await })
    }

    fn give_places(&self, places: Vec<HeldPlace>) -> Pending<'_, Result<(), Error>> {
        Places::give_places(&self.inner.postgres, places)
    }

    fn places(
        &self,
        partitions: &Partitions,
        after: Option<&GatePlace>,
        limit: usize,
    ) -> Pending<'_, Result<Vec<HeldPlace>, Error>> {
        let partitions = partitions.clone();
        let after = after.cloned();
        self.after_own(move |postgres| async move {
            postgres.places(&partitions, after.as_ref(), limit).await
        })
    }
}

impl Pools for NatsStore {
    fn put_pool(&self, pool: PoolRow) -> Pending<'_, Result<Option<u32>, Error>> {
        Pools::put_pool(&self.inner.postgres, pool)
    }

    fn pool(&self, pool: &PoolKey) -> Pending<'_, Result<Option<PoolRow>, Error>> {
        Pools::pool(&self.inner.postgres, pool)
    }

    fn pools(
        &self,
        tenant: &TenantFilter,
        after: Option<&PoolKey>,
        limit: usize,
    ) -> Pending<'_, Result<Vec<PoolRow>, Error>> {
        Pools::pools(&self.inner.postgres, tenant, after, limit)
    }

    fn remove_pool(&self, pool: &PoolKey) -> Pending<'_, Result<PoolRemoval, Error>> {
        Pools::remove_pool(&self.inner.postgres, pool)
    }

    fn take_slots(&self, requests: Vec<SlotRequest>) -> Pending<'_, Result<SlotsTaken, Error>> {
        self.after_own(move |postgres| async move { postgres.take_slots(requests).await })
    }

    fn give_slots(&self, given: &[GivenSlots]) -> Pending<'_, Result<Vec<PoolKey>, Error>> {
        let given = given.to_vec();
        self.after_own(move |postgres| async move { postgres.give_slots(&given).await })
    }

    fn next_in_line(&self, pool: &PoolKey) -> Pending<'_, Result<Option<SlotRequest>, Error>> {
        let pool = pool.clone();
        self.after_own(move |postgres| async move { postgres.next_in_line(&pool).await })
    }

    fn pool_use(&self, pool: &PoolKey, most: usize) -> Pending<'_, Result<PoolUse, Error>> {
        let pool = pool.clone();
        self.after_own(move |postgres| async move { postgres.pool_use(&pool, most).await })
    }

    fn slots(
        &self,
        partitions: &Partitions,
        after: Option<WorkKey>,
        limit: usize,
    ) -> Pending<'_, Result<Vec<SlotRequest>, Error>> {
        let partitions = partitions.clone();
        self.after_own(
            move |postgres| async move { postgres.slots(&partitions, after, limit).await },
        )
    }
}

impl Transfer for NatsStore {
    fn partitions(&self) -> u32 {
        self.inner.partitions
    }

    fn claims(
        &self,
        after: Option<(&str, &str)>,
        limit: usize,
    ) -> Pending<'_, Result<Vec<StoredClaim>, Error>> {
        let after = after.map(|(namespace, key)| (namespace.to_owned(), key.to_owned()));
        self.after_own(move |postgres| async move {
            let after = after
                .as_ref()
                .map(|(namespace, key)| (&**namespace, &**key));
            postgres.claims(after, limit).await
        })
    }

    fn put_claims(&self, claims: Vec<StoredClaim>) -> Pending<'_, Result<(), Error>> {
        let inner = std::sync::Arc::clone(&self.inner);
        self.answer(async move {
            inner.postgres.put_claims(claims.clone()).await?;
            inner.keep_claims(&claims).await
        })
    }

    fn note_kinds(&self) -> Pending<'_, Result<Vec<Box<str>>, Error>> {
        self.inner.postgres.note_kinds()
    }

    fn migration(&self) -> Pending<'_, Result<Option<String>, Error>> {
        self.inner.postgres.migration()
    }

    fn begin_migration(&self, text: &str) -> Pending<'_, Result<(), Error>> {
        self.inner.postgres.begin_migration(text)
    }

    fn end_migration(&self) -> Pending<'_, Result<(), Error>> {
        self.inner.postgres.end_migration()
    }
}
