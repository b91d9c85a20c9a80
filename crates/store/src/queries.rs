//! Lists of runs.

use windlass_core::{Millis, RunId};

use crate::{
    Damage, Error, Health, Partitions, Pending, Relatives, ResourceRow, RunFilter, RunPage, RunRow,
    StatusCounts, TenantFilter,
};

/// Lists over rows that derive from the log, read on connections of their own. A damaged row
/// is left out of every list, and the other rows are still listed.
pub trait Queries: Send + Sync + 'static {
    /// Runs that lists left out since the last call, because their rows are damaged; dead runs
    /// are not named.
    fn damaged_rows(&self) -> Vec<Damage> {
        Vec::new()
    }

    /// One run's row.
    fn run(&self, run: RunId) -> Pending<'_, Result<Option<RunRow>, Error>>;

    /// A page of runs, newest first.
    fn runs(&self, filter: &RunFilter) -> Pending<'_, Result<RunPage, Error>>;

    /// How many runs there are by status, for each pair of neighbouring moments: runs whose ids
    /// were made at or after the first and before the second. The moments ascend. A backend
    /// that can count without reading rows does.
    fn count_runs(
        &self,
        tenant: &TenantFilter,
        moments: &[Millis],
    ) -> Pending<'_, Result<Vec<StatusCounts>, Error>> {
        let edges: Vec<RunId> = moments.iter().copied().map(RunId::first_of).collect();
        let mut filter = RunFilter {
            tenant: tenant.clone(),
            before: edges.last().copied(),
            limit: 1000,
            ..RunFilter::default()
        };
        Box::pin(async move {
            let mut counts = vec![StatusCounts::default(); edges.len().saturating_sub(1)];
            while filter.before.is_some() {
                let page = self.runs(&filter).await?;
                for row in &page.rows {
                    let span = edges.partition_point(|edge| *edge <= row.run);
                    let Some(span) = span.checked_sub(1) else {
                        return Ok(counts);
                    };
                    if let Some(counts) = counts.get_mut(span) {
                        counts.add(row.status, 1);
                    }
                }
                filter.before = page.next;
            }
            Ok(counts)
        })
    }

    /// Up to `limit` runs whose id, as text, begins with `prefix` (hyphens are optional).
    fn runs_with_prefix(
        &self,
        prefix: &str,
        limit: usize,
    ) -> Pending<'_, Result<Vec<RunId>, Error>>;

    /// Runs that have not ended, oldest first, after the given one: what recovery walks.
    fn unfinished(
        &self,
        after: Option<RunId>,
        limit: usize,
    ) -> Pending<'_, Result<Vec<RunRow>, Error>>;

    /// Runs that have not ended and do not sleep, oldest first, after the given one. The
    /// cost does not depend on how many sleep.
    fn awake(&self, after: Option<RunId>, limit: usize) -> Pending<'_, Result<Vec<RunRow>, Error>>;

    /// Sleeping runs whose wake-up time is at or before `until`, earliest first, at most
    /// `limit`, after the given one; those of the same time by id. Dead ones are left out.
    fn due(
        &self,
        partitions: &Partitions,
        after: Option<(Millis, RunId)>,
        until: Millis,
        limit: usize,
    ) -> Pending<'_, Result<Vec<(RunId, Millis)>, Error>>;

    /// The runs that a run started, oldest first.
    fn children(&self, parent: RunId) -> Pending<'_, Result<Vec<RunRow>, Error>>;

    /// Which other runs belong to these: an answer for each, in their order.
    fn relatives(&self, runs: &[RunId]) -> Pending<'_, Result<Vec<Relatives>, Error>>;

    /// A run's resource links.
    fn resources(&self, run: RunId) -> Pending<'_, Result<Vec<ResourceRow>, Error>>;

    /// One resource link: the first that was made wins.
    fn resource(
        &self,
        tenant: Option<&str>,
        system: &str,
        kind: &str,
        id: &str,
    ) -> Pending<'_, Result<Option<ResourceRow>, Error>>;

    /// Replaces rows that derive from the log (for `rebuild`): the rows of these runs and
    /// their resource links. Dead runs stay dead. A partition that the store does not have becomes
    /// one that it has. Durable on return.
    fn replace_rows(&self, rows: Vec<(RunRow, Vec<ResourceRow>)>)
    -> Pending<'_, Result<(), Error>>;

    /// Every run that has a log, oldest first, after the given one, whether or not it has
    /// a row: what `rebuild` walks.
    fn logged_runs(
        &self,
        after: Option<RunId>,
        limit: usize,
    ) -> Pending<'_, Result<Vec<RunId>, Error>>;

    /// How long the oldest record waits that the rows lack, in milliseconds; 0 where rows are
    /// written with the records that they come from.
    fn behind_log_ms(&self) -> Pending<'_, Result<u64, Error>> {
        Box::pin(std::future::ready(Ok(0)))
    }

    /// Checks that the store can be read and written.
    fn health(&self) -> Pending<'_, Result<Health, Error>>;
}
