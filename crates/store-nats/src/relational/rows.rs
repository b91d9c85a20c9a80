//! Rows of runs: lists, the queue of pending runs, dead letters.

use windlass_core::{Millis, RunId};
use windlass_store::{
    Admission, Damage, DeadLetter, DeadLetters, Error, GateCount, Health, Partitions, Pending,
    Queries, Relatives, ResourceRow, RunFilter, RunPage, RunRow, StatusCounts, TenantFilter,
    TenantGate,
};

use crate::store::NatsStore;

impl Queries for NatsStore {
    fn damaged_rows(&self) -> Vec<Damage> {
        self.inner.postgres.damaged_rows()
    }

    fn run(&self, run: RunId) -> Pending<'_, Result<Option<RunRow>, Error>> {
        self.task(move |inner| async move {
            match inner.settle_row(run).await {
                // The row still says how far the run was.
                Ok(_) | Err(Error::Damaged(_)) => inner.postgres.run(run).await,
                Err(error) => Err(error),
            }
        })
    }

    fn runs(&self, filter: &RunFilter) -> Pending<'_, Result<RunPage, Error>> {
        let filter = filter.clone();
        self.after_own(move |postgres| async move { postgres.runs(&filter).await })
    }

    fn count_runs(
        &self,
        tenant: &TenantFilter,
        moments: &[Millis],
    ) -> Pending<'_, Result<Vec<StatusCounts>, Error>> {
        let tenant = tenant.clone();
        let moments = moments.to_vec();
        self.after_own(move |postgres| async move { postgres.count_runs(&tenant, &moments).await })
    }

    fn runs_with_prefix(
        &self,
        prefix: &str,
        limit: usize,
    ) -> Pending<'_, Result<Vec<RunId>, Error>> {
        let prefix = prefix.to_owned();
        self.after_own(
            move |postgres| async move { postgres.runs_with_prefix(&prefix, limit).await },
        )
    }

    fn unfinished(
        &self,
        after: Option<RunId>,
        limit: usize,
    ) -> Pending<'_, Result<Vec<RunRow>, Error>> {
        self.after_own(move |postgres| async move { postgres.unfinished(after, limit).await })
    }

    fn awake(&self, after: Option<RunId>, limit: usize) -> Pending<'_, Result<Vec<RunRow>, Error>> {
        self.after_own(move |postgres| async move { postgres.awake(after, limit).await })
    }

    fn due(
        &self,
        partitions: &Partitions,
        after: Option<(Millis, RunId)>,
        until: Millis,
        limit: usize,
    ) -> Pending<'_, Result<Vec<(RunId, Millis)>, Error>> {
        let partitions = partitions.clone();
        self.after_own(move |postgres| async move {
            postgres.due(&partitions, after, until, limit).await
        })
    }

    fn children(&self, parent: RunId) -> Pending<'_, Result<Vec<RunRow>, Error>> {
        self.after_own(move |postgres| async move { postgres.children(parent).await })
    }

    fn relatives(&self, runs: &[RunId]) -> Pending<'_, Result<Vec<Relatives>, Error>> {
        let runs = runs.to_vec();
        self.after_own(move |postgres| async move { postgres.relatives(&runs).await })
    }

    fn resources(&self, run: RunId) -> Pending<'_, Result<Vec<ResourceRow>, Error>> {
        self.after_own(move |postgres| async move { postgres.resources(run).await })
    }

    fn resource(
        &self,
        tenant: Option<&str>,
        system: &str,
        kind: &str,
        id: &str,
    ) -> Pending<'_, Result<Option<ResourceRow>, Error>> {
        let tenant = tenant.map(str::to_owned);
        let system = system.to_owned();
        let kind = kind.to_owned();
        let id = id.to_owned();
        self.after_own(move |postgres| async move {
            postgres
                .resource(tenant.as_deref(), &system, &kind, &id)
                .await
        })
    }

    fn replace_rows(
        &self,
        mut rows: Vec<(RunRow, Vec<ResourceRow>)>,
    ) -> Pending<'_, Result<(), Error>> {
        for (row, _) in &mut rows {
            row.partition = row.partition.within(self.inner.partitions);
        }
        self.after_own(move |postgres| async move { postgres.replace_rows(rows).await })
    }

    fn logged_runs(
        &self,
        after: Option<RunId>,
        limit: usize,
    ) -> Pending<'_, Result<Vec<RunId>, Error>> {
        self.after_own(move |postgres| async move { postgres.logged_runs(after, limit).await })
    }

    fn behind_log_ms(&self) -> Pending<'_, Result<u64, Error>> {
        self.task(move |inner| async move { inner.behind_ms().await })
    }

    fn health(&self) -> Pending<'_, Result<Health, Error>> {
        self.task(move |inner| async move {
            let mut health = inner.postgres.health().await?;
            health.facts.extend(inner.facts().await?);
            Ok(health)
        })
    }
}

impl Admission for NatsStore {
    fn waiting_tenants(
        &self,
        partitions: &Partitions,
    ) -> Pending<'_, Result<Vec<Option<Box<str>>>, Error>> {
        let partitions = partitions.clone();
        self.after_own(move |postgres| async move { postgres.waiting_tenants(&partitions).await })
    }

    fn waiting(
        &self,
        partitions: &Partitions,
        tenant: Option<&str>,
        limit: usize,
    ) -> Pending<'_, Result<Vec<RunRow>, Error>> {
        let partitions = partitions.clone();
        let tenant = tenant.map(str::to_owned);
        self.after_own(move |postgres| async move {
            postgres
                .waiting(&partitions, tenant.as_deref(), limit)
                .await
        })
    }

    fn park(&self, runs: Vec<RunId>) -> Pending<'_, Result<(), Error>> {
        self.after_own(move |postgres| async move { postgres.park(runs).await })
    }

    fn unpark(&self, runs: Vec<RunId>) -> Pending<'_, Result<(), Error>> {
        self.after_own(move |postgres| async move { postgres.unpark(runs).await })
    }

    fn parked(
        &self,
        partitions: &Partitions,
        gate: &str,
        limit: usize,
    ) -> Pending<'_, Result<Vec<RunRow>, Error>> {
        let partitions = partitions.clone();
        let gate = gate.to_owned();
        self.after_own(
            move |postgres| async move { postgres.parked(&partitions, &gate, limit).await },
        )
    }

    fn parked_gates(&self, partitions: &Partitions) -> Pending<'_, Result<Vec<TenantGate>, Error>> {
        let partitions = partitions.clone();
        self.after_own(move |postgres| async move { postgres.parked_gates(&partitions).await })
    }

    fn begun(
        &self,
        partitions: &Partitions,
        after: Option<RunId>,
        limit: usize,
    ) -> Pending<'_, Result<Vec<RunRow>, Error>> {
        let partitions = partitions.clone();
        self.after_own(
            move |postgres| async move { postgres.begun(&partitions, after, limit).await },
        )
    }

    fn without_place(
        &self,
        partitions: &Partitions,
        after: Option<RunId>,
        limit: usize,
    ) -> Pending<'_, Result<Vec<RunRow>, Error>> {
        let partitions = partitions.clone();
        self.after_own(move |postgres| async move {
            postgres.without_place(&partitions, after, limit).await
        })
    }

    fn gates(&self) -> Pending<'_, Result<Vec<GateCount>, Error>> {
        self.after_own(move |postgres| async move { postgres.gates().await })
    }

    fn at_gate(&self, gate: &str, limit: usize) -> Pending<'_, Result<Vec<RunRow>, Error>> {
        let gate = gate.to_owned();
        self.after_own(move |postgres| async move { postgres.at_gate(&gate, limit).await })
    }

    fn has_work(&self, partitions: &Partitions) -> Pending<'_, Result<bool, Error>> {
        let partitions = partitions.clone();
        self.task(move |inner| async move {
            inner.barrier().await?;
            Ok(
                inner.postgres.has_work(&partitions).await?
                    || inner.has_offers(&partitions).await?,
            )
        })
    }

    fn depth(&self, most: u64) -> Pending<'_, Result<u64, Error>> {
        self.after_own(move |postgres| async move { postgres.depth(most).await })
    }
}

impl DeadLetters for NatsStore {
    fn add_dead_letter(&self, letter: DeadLetter) -> Pending<'_, Result<(), Error>> {
        self.task(move |inner| async move {
            match inner.settle(letter.run).await {
                Ok(_) | Err(Error::Damaged(_)) => inner.postgres.add_dead_letter(letter).await,
                Err(error) => Err(error),
            }
        })
    }

    fn dead_letters(
        &self,
        tenant: &TenantFilter,
        before: Option<RunId>,
        limit: usize,
    ) -> Pending<'_, Result<Vec<DeadLetter>, Error>> {
        let tenant = tenant.clone();
        self.after_own(move |postgres| async move {
            postgres.dead_letters(&tenant, before, limit).await
        })
    }

    fn dead_letter(&self, run: RunId) -> Pending<'_, Result<Option<DeadLetter>, Error>> {
        self.after_own(move |postgres| async move { postgres.dead_letter(run).await })
    }

    fn requeue(&self, run: RunId) -> Pending<'_, Result<bool, Error>> {
        self.after_own(move |postgres| async move { postgres.requeue(run).await })
    }

    fn purge(&self, run: RunId) -> Pending<'_, Result<bool, Error>> {
        self.after_own(move |postgres| async move { postgres.purge(run).await })
    }
}
