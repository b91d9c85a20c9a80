//! Which pending run begins next, by partial indexes over the rows. The cost of a question does
//! not depend on how many runs wait: tenants and gates are found by jumping from one to the next.

use windlass_core::RunId;
use windlass_store::{Admission, Error, GateCount, Partitions, Pending, RunRow, TenantGate};

use crate::codec::{Columns as _, limit, numbers, tenant, text, uuid};
use crate::store::PostgresStore;

const WAITING: &str = "e.status = 'Pending' and not e.dead and not e.parked";
const PARKED: &str = "e.status = 'Pending' and not e.dead and e.parked";

/// Each tenant that has waiting runs, found by one look into the index.
fn waiting_tenants() -> String {
    let here = "($1::int4[] is null or e.partition = any($1))";
    format!(
        "with recursive t as ((select e.tenant_id from workflow_executions e \
         where {WAITING} and {here} order by e.tenant_id limit 1) \
         union all select (select e.tenant_id from workflow_executions e \
         where {WAITING} and {here} and e.tenant_id > t.tenant_id \
         order by e.tenant_id limit 1) from t where t.tenant_id is not null) \
         select tenant_id from t where tenant_id is not null order by tenant_id"
    )
}

/// Each gate that has parked runs. A gate's name holds its tenant, so one run tells both.
fn parked_gates() -> String {
    let here = "($1::int4[] is null or e.partition = any($1))";
    format!(
        "with recursive g as ((select e.concurrency_key, e.tenant_id from workflow_executions e \
         where {PARKED} and {here} order by e.concurrency_key limit 1) \
         union all select n.concurrency_key, n.tenant_id from g cross join lateral \
         (select e.concurrency_key, e.tenant_id from workflow_executions e \
         where {PARKED} and {here} and e.concurrency_key > g.concurrency_key \
         order by e.concurrency_key limit 1) n) \
         select tenant_id, concurrency_key from g order by tenant_id, concurrency_key"
    )
}

const PARK: &str = "update workflow_executions set parked = true where id = any($1) \
     and status = 'Pending' and not dead and not parked and concurrency_key is not null";
const UNPARK: &str = "update workflow_executions set parked = false where id = any($1) and parked";
const COUNTS: &str = "select e.concurrency_key, count(*) from workflow_executions e \
     where e.status in ('Running', 'Paused') and not e.dead and e.concurrency_key is not null \
     group by e.concurrency_key order by e.concurrency_key";
const DEPTH: &str = "select count(*) from (select from workflow_executions e \
     where e.status = 'Pending' and not e.dead limit $1) d";

const HAS_WORK: &str = "select exists (select from workflow_executions e \
     where e.status in ('Running', 'Paused') and not e.asleep and not e.dead \
     and ($1::int4[] is null or e.partition = any($1))) \
     or exists (select from workflow_executions e where e.status = 'Pending' and not e.dead \
     and ($1::int4[] is null or e.partition = any($1))) \
     or exists (select from workflow_executions e \
     where e.status in ('Pending', 'Running', 'Paused') and e.asleep and not e.dead \
     and e.wake_at is not null and e.wake_at <= clock_ms() \
     and ($1::int4[] is null or e.partition = any($1))) \
     or exists (select from inbox i where i.refusal is null \
     and ($1::int4[] is null or i.partition = any($1))) \
     or exists (select from gate_place g where $1::int4[] is null or g.partition = any($1)) \
     or exists (select from pool_slots s where $1::int4[] is null or s.partition = any($1))";

impl PostgresStore {
    /// Executes a statement for these runs, in the order in which others lock them.
    fn mark_runs(
        &self,
        statement: &'static str,
        runs: Vec<RunId>,
    ) -> Pending<'_, Result<(), Error>> {
        let mut runs: Vec<_> = runs.into_iter().map(uuid).collect();
        runs.sort_unstable();
        self.call_again(move |session| {
            let runs = runs.clone();
            async move {
                session.execute(statement, &[&runs]).await?;
                Ok(())
            }
        })
    }

    /// Rows of runs that meet a condition, by their ids.
    fn page_of_runs(
        &self,
        condition: &str,
        partitions: &Partitions,
        after: Option<RunId>,
        count: usize,
    ) -> Pending<'static, Result<Vec<RunRow>, Error>> {
        let rest = format!(
            "{condition} and ($1::uuid is null or e.id > $1) \
             and ($2::int4[] is null or e.partition = any($2)) order by e.id limit $3"
        );
        self.runs_where(
            &rest,
            vec![
                Box::new(after.map(uuid)),
                Box::new(numbers(partitions)),
                Box::new(limit(count)),
            ],
        )
    }
}

impl Admission for PostgresStore {
    fn has_work(&self, partitions: &Partitions) -> Pending<'_, Result<bool, Error>> {
        let partitions = numbers(partitions);
        self.call(move |session| async move {
            let row = session.first(HAS_WORK, &[&partitions]).await?;
            Ok(row.map_or(Ok(true), |row| row.try_get(0))?)
        })
    }

    fn waiting_tenants(
        &self,
        partitions: &Partitions,
    ) -> Pending<'_, Result<Vec<Option<Box<str>>>, Error>> {
        let partitions = numbers(partitions);
        self.call(move |session| async move {
            let rows = session.rows(&waiting_tenants(), &[&partitions]).await?;
            rows.iter().map(|row| row.tenant(0)).collect()
        })
    }

    fn waiting(
        &self,
        partitions: &Partitions,
        owner: Option<&str>,
        count: usize,
    ) -> Pending<'_, Result<Vec<RunRow>, Error>> {
        let rest = format!(
            "{WAITING} and e.tenant_id = $1 and ($2::int4[] is null or e.partition = any($2)) \
             order by e.priority desc, e.id limit $3"
        );
        let owner = tenant(owner).into_owned();
        let partitions = numbers(partitions);
        self.runs_where(
            &rest,
            vec![
                Box::new(owner),
                Box::new(partitions),
                Box::new(limit(count)),
            ],
        )
    }

    fn park(&self, runs: Vec<RunId>) -> Pending<'_, Result<(), Error>> {
        self.mark_runs(PARK, runs)
    }

    fn unpark(&self, runs: Vec<RunId>) -> Pending<'_, Result<(), Error>> {
        self.mark_runs(UNPARK, runs)
    }

    fn parked(
        &self,
        partitions: &Partitions,
        gate: &str,
        count: usize,
    ) -> Pending<'_, Result<Vec<RunRow>, Error>> {
        let rest = format!(
            "{PARKED} and e.concurrency_key = $1 \
             and ($2::int4[] is null or e.partition = any($2)) \
             order by e.priority desc, e.id limit $3"
        );
        let gate = text(gate).into_owned();
        let partitions = numbers(partitions);
        self.runs_where(
            &rest,
            vec![Box::new(gate), Box::new(partitions), Box::new(limit(count))],
        )
    }

    fn parked_gates(&self, partitions: &Partitions) -> Pending<'_, Result<Vec<TenantGate>, Error>> {
        let partitions = numbers(partitions);
        self.call(move |session| async move {
            let rows = session.rows(&parked_gates(), &[&partitions]).await?;
            rows.iter()
                .map(|row| Ok((row.tenant(0)?, row.text(1)?)))
                .collect()
        })
    }

    fn begun(
        &self,
        partitions: &Partitions,
        after: Option<RunId>,
        count: usize,
    ) -> Pending<'_, Result<Vec<RunRow>, Error>> {
        let begun = "e.status in ('Running', 'Paused') and not e.asleep";
        self.page_of_runs(begun, partitions, after, count)
    }

    fn gates(&self) -> Pending<'_, Result<Vec<GateCount>, Error>> {
        self.call(move |session| async move {
            let rows = session.rows(COUNTS, &[]).await?;
            let counts = rows.iter().map(|row| {
                let count = u32::try_from(row.try_get::<_, i64>(1)?).unwrap_or(u32::MAX);
                Ok((row.text(0)?, count))
            });
            counts.collect()
        })
    }

    fn without_place(
        &self,
        partitions: &Partitions,
        after: Option<RunId>,
        count: usize,
    ) -> Pending<'_, Result<Vec<RunRow>, Error>> {
        // The first line is the condition of the index `workflow_executions_gated`.
        let gated = "e.status in ('Running', 'Paused') and not e.dead and e.concurrency_key is not null \
                     and not exists (select from gate_place g \
                     where g.gate = e.concurrency_key and g.run = e.id)";
        self.page_of_runs(gated, partitions, after, count)
    }

    fn at_gate(&self, gate: &str, count: usize) -> Pending<'_, Result<Vec<RunRow>, Error>> {
        let rest = "e.status in ('Running', 'Paused') and not e.dead \
                    and e.concurrency_key = $1 order by e.id limit $2";
        let gate = text(gate).into_owned();
        self.runs_where(rest, vec![Box::new(gate), Box::new(limit(count))])
    }

    fn depth(&self, most: u64) -> Pending<'_, Result<u64, Error>> {
        self.call(move |session| async move {
            let most = i64::try_from(most).unwrap_or(i64::MAX);
            let row = session.first(DEPTH, &[&most]).await?;
            row.map_or(Ok(0), |row| row.number(0))
        })
    }
}
