//! The tables that are written behind the log: attempts, events, plans and what the row of a run
//! shows of its trigger and variables. Each run is fenced by how far it is projected, so a process
//! that lost its lease writes nothing that is older than what is there.

use std::collections::HashMap;

use tokio_postgres::types::ToSql;
use uuid::Uuid;
use windlass_core::value::object_text;
use windlass_core::{Digest, RunId};
use windlass_store::{
    AttemptRow, DefinitionRow, Error, EventRow, Pending, ProjectedRun, ProjectedValue,
    ProjectionBatch, ProjectionLag, ProjectionLook, Projections, RequestedRun, UnprojectedRun,
};

use crate::append::Parameter;
use crate::catalogue::definition;
use crate::codec::{Columns as _, Moment, STORED_FORM, limit, signed, tenant, text, uuid, version};
use crate::error::Fault;
use crate::json;
use crate::store::{PostgresStore, Session, Work};

const LOOK: &str = "with l as (update projector set holder = $1, until_ms = clock_ms() + $2 \
     where holder = $1 or holder is null or until_ms <= clock_ms() returning 1) \
     select exists (select from l), exists (select from projection_queue), \
     exists (select from workflow_definitions d where d.envelope <= 1 and not exists (select \
     from workflow_plans p where p.tenant_id = d.tenant_id and p.workflow = d.workflow \
     and p.version = d.version)), \
     exists (select from start_request where refused_at is null), \
     coalesce((select (extract(epoch from clock_timestamp() - at) * 1000)::int8 \
     from projection_queue order by xid limit 1), 0)";
const LEAVE: &str = "update projector set holder = null, until_ms = 0 where holder = $1";
/// Rows of transactions that began before every one that is still open: no other row can appear
/// among them. All rows of a transaction are taken together.
const CHANGES: &str = "with c as (select xid, run, seq from projection_queue \
     where xid < pg_snapshot_xmin(pg_current_snapshot()) order by xid \
     fetch first 1000 rows with ties) \
     select c.run, max(c.seq), coalesce(max(p.seq), 0), \
     (select xid::text from c order by xid desc limit 1) \
     from c left join projection p on p.run = c.run group by c.run order by c.run";
const PROJECTED: &str = "delete from projection_queue where xid <= $1::text::xid8";
const UNPROJECTED: &str = "select h.run, coalesce(p.seq, 0), h.seq from head h \
     join workflow_executions e on e.id = h.run left join projection p on p.run = h.run \
     where h.seq > coalesce(p.seq, 0) and ($1::uuid is null or h.run > $1) \
     order by h.run limit $2";
const LAG: &str = "select (select count(*) from (select from projection_queue limit 100000) q), \
     coalesce((select (extract(epoch from clock_timestamp() - at) * 1000)::int8 \
     from projection_queue order by xid limit 1), 0), \
     (select holder from projector where until_ms > clock_ms()), \
     (select count(*) from (select from projection where problem is not null limit 1000) q)";

const EXISTING: &str = "select id, tenant_id from workflow_executions where id = any($1) \
     order by id for key share";
const BEGIN: &str = "insert into projection (run, seq, position) \
     select id, 0, 0 from unnest($1::uuid[]) id order by id on conflict do nothing";
const POSITIONS: &str =
    "select run, seq from projection where run = any($1) order by run for update";
const ADVANCE: &str = "update projection p set seq = n.seq, position = n.position, \
     problem = n.problem from unnest($1::uuid[], $2::int8[], $3::int8[], $4::text[]) \
     as n(run, seq, position, problem) where p.run = n.run";
const ATTEMPTS: &str = "insert into action_executions (id, execution, tenant_id, node_id, instance, \
     action_type, status, attempt, retry_count, compensation, ancestry_hash, worker, \
     parameters_json, outputs_json, error_json, start_time, end_time) \
     select md5(a.execution::text || '/' || a.instance || '/' || a.attempt)::uuid, a.execution, \
     a.tenant_id, a.node_id, a.instance, a.action_type, a.status, a.attempt, a.attempt - 1, \
     a.compensation, a.ancestry_hash, a.worker, a.parameters::jsonb, a.outputs::jsonb, \
     a.error::jsonb, a.start_time, a.end_time from unnest($1::uuid[], $2::text[], $3::text[], \
     $4::int8[], $5::text[], $6::text[], $7::int4[], $8::bool[], $9::text[], $10::text[], \
     $11::text[], $12::text[], $13::text[], $14::timestamptz[], $15::timestamptz[]) \
     as a(execution, tenant_id, node_id, instance, action_type, status, attempt, compensation, \
     ancestry_hash, worker, parameters, outputs, error, start_time, end_time) \
     on conflict (execution, instance, attempt) do update set node_id = excluded.node_id, \
     action_type = excluded.action_type, status = excluded.status, \
     compensation = excluded.compensation, ancestry_hash = excluded.ancestry_hash, \
     worker = excluded.worker, parameters_json = excluded.parameters_json, \
     outputs_json = excluded.outputs_json, error_json = excluded.error_json, \
     start_time = excluded.start_time, end_time = excluded.end_time";
const EVENTS: &str = "insert into execution_events (execution, tenant_id, position, ts, level, \
     category, data) select e.execution, e.tenant_id, e.position, e.ts, e.level, e.category, \
     e.data::jsonb from unnest($1::uuid[], $2::text[], $3::int8[], $4::timestamptz[], \
     $5::text[], $6::text[], $7::text[]) \
     as e(execution, tenant_id, position, ts, level, category, data) \
     on conflict (execution, position) do nothing";
const BLOBS: &str = "with b as (select * from unnest($1::uuid[], $2::bytea[], $3::bytea[]) \
     as b(run, digest, bytes)), stored as (insert into blob (digest, envelope, bytes) \
     select distinct on (digest) digest, $4::int2, bytes from b order by digest \
     on conflict do nothing) \
     select run, digest from b";
const USES: &str = "insert into blob_use (run, digest) \
     select distinct run, digest from unnest($1::uuid[], $2::bytea[]) as u(run, digest) \
     order by run, digest on conflict do nothing";
const DETAILS: &str = "update workflow_executions e set trigger_payload_json = d.trigger::jsonb, \
     correlation_id = d.correlation_id, \
     context_snapshot_json = coalesce(d.context::jsonb, e.context_snapshot_json) \
     from unnest($1::uuid[], $2::text[], $3::text[], $4::text[]) \
     as d(id, trigger, correlation_id, context) where e.id = d.id \
     and (e.trigger_payload_json is null or d.context is not null)";

/// Definitions of a newer form wait for a newer program.
const UNPLANNED: &str = "select d.tenant_id, d.workflow, d.version, d.checksum, d.signature, \
     d.created_at, d.definition, d.envelope from workflow_definitions d where d.envelope <= 1 \
     and not exists (select from workflow_plans p where p.tenant_id = d.tenant_id \
     and p.workflow = d.workflow and p.version = d.version) order by d.tenant_id, d.workflow, d.version limit $1";
const PLAN: &str = "insert into workflow_plans (tenant_id, workflow, version, plan_json, plan) \
     values ($1, $2, $3, $4::text::jsonb, $5) on conflict do nothing";

/// Values that `jsonb` refuses, by run: they are kept as blobs, and columns name them.
#[derive(Default)]
struct Refused {
    runs: Vec<Uuid>,
    digests: Vec<Vec<u8>>,
    bytes: Vec<Vec<u8>>,
}

impl Refused {
    /// What a column shows for a text.
    fn shown(&mut self, run: Uuid, value: &str) -> String {
        if json::fits(value) {
            return value.to_owned();
        }
        let digest = Digest::of(value.as_bytes());
        self.runs.push(run);
        self.digests.push(digest.0.to_vec());
        self.bytes.push(value.as_bytes().to_vec());
        json::shown(value.as_bytes(), &digest.to_string())
    }

    fn value(&mut self, run: Uuid, value: &ProjectedValue) -> String {
        match value {
            ProjectedValue::Text(value) => self.shown(run, value),
            ProjectedValue::Blob { digest, bytes } => json::reference(&digest.to_string(), *bytes),
        }
    }

    fn optional(&mut self, run: Uuid, value: Option<&ProjectedValue>) -> Option<String> {
        value.map(|value| self.value(run, value))
    }

    async fn keep(self, work: &Work<'_>) -> Result<(), Fault> {
        if self.runs.is_empty() {
            return Ok(());
        }
        let bound: [&(dyn ToSql + Sync); 4] =
            [&self.runs, &self.digests, &self.bytes, &STORED_FORM];
        work.rows(BLOBS, &bound).await?;
        work.execute(USES, &[&self.runs, &self.digests]).await?;
        Ok(())
    }
}

/// The runs of a batch that may be written, with their tenants as they are stored.
type Winners<'a> = Vec<(&'a ProjectedRun, Uuid, String)>;

async fn winners<'a>(work: &Work<'_>, runs: &'a [ProjectedRun]) -> Result<Winners<'a>, Fault> {
    let ids: Vec<Uuid> = runs.iter().map(|it| uuid(it.run)).collect();
    let mut tenants = HashMap::new();
    for row in work.rows(EXISTING, &[&ids]).await? {
        tenants.insert(row.try_get::<_, Uuid>(0)?, row.try_get::<_, String>(1)?);
    }
    let there: Vec<Uuid> = tenants.keys().copied().collect();
    work.execute(BEGIN, &[&there]).await?;
    let mut positions = HashMap::new();
    for row in work.rows(POSITIONS, &[&there]).await? {
        positions.insert(row.try_get::<_, Uuid>(0)?, row.number(1)?);
    }
    let mut winners = Winners::new();
    for run in runs {
        let id = uuid(run.run);
        if positions.get(&id) == Some(&run.from)
            && let Some(tenant) = tenants.remove(&id)
        {
            winners.push((run, id, tenant));
        }
    }
    winners.sort_by_key(|it| it.1);
    Ok(winners)
}

/// Columns of a statement's `unnest`.
fn borrowed<'a>(parameters: &'a [Parameter<'static>]) -> Vec<&'a (dyn ToSql + Sync)> {
    let all = parameters.iter().map(|it| &**it as &(dyn ToSql + Sync));
    all.collect()
}

fn column<T: ToSql + Sync + Send + 'static>(values: impl Iterator<Item = T>) -> Parameter<'static> {
    Box::new(values.collect::<Vec<T>>())
}

fn attempts(winners: &Winners<'_>, refused: &mut Refused) -> Vec<Parameter<'static>> {
    let all: Vec<(Uuid, &str, &AttemptRow)> = winners
        .iter()
        .flat_map(|(run, id, tenant)| run.attempts.iter().map(move |it| (*id, &**tenant, it)))
        .collect();
    let owned = |value: &str| text(value).into_owned();
    let mut value = |of: fn(&AttemptRow) -> Option<&ProjectedValue>| {
        let shown = all.iter().map(|it| refused.optional(it.0, of(it.2)));
        Box::new(shown.collect::<Vec<Option<String>>>()) as Parameter<'static>
    };
    let values = [
        value(|it| it.parameters.as_ref()),
        value(|it| it.output.as_ref()),
        value(|it| it.error.as_ref()),
    ];
    let mut columns = vec![
        column(all.iter().map(|it| it.0)),
        column(all.iter().map(|it| it.1.to_owned())),
        column(all.iter().map(|it| owned(&it.2.node))),
        column(all.iter().map(|it| i64::from(it.2.instance))),
        column(all.iter().map(|it| owned(&it.2.action))),
        column(all.iter().map(|it| it.2.status.as_str())),
        column(all.iter().map(|it| version(it.2.attempt))),
        column(all.iter().map(|it| it.2.compensation)),
        column(all.iter().map(|it| it.2.ancestry.map(|it| it.to_string()))),
        column(all.iter().map(|it| owned(&it.2.worker))),
    ];
    columns.extend(values);
    columns.push(column(all.iter().map(|it| Moment(it.2.started))));
    columns.push(column(all.iter().map(|it| it.2.ended.map(Moment))));
    columns
}

fn events(winners: &Winners<'_>, refused: &mut Refused) -> Vec<Parameter<'static>> {
    let all: Vec<(Uuid, &str, &EventRow)> = winners
        .iter()
        .flat_map(|(run, id, tenant)| run.events.iter().map(move |it| (*id, &**tenant, it)))
        .collect();
    let data = all.iter().map(|it| refused.shown(it.0, &it.2.data));
    let data = column(data);
    vec![
        column(all.iter().map(|it| it.0)),
        column(all.iter().map(|it| it.1.to_owned())),
        column(all.iter().map(|it| signed(it.2.position))),
        column(all.iter().map(|it| Moment(it.2.at))),
        column(all.iter().map(|it| it.2.level)),
        column(all.iter().map(|it| text(&it.2.category).into_owned())),
        data,
    ]
}

fn details(winners: &Winners<'_>, refused: &mut Refused) -> Vec<Parameter<'static>> {
    let all: Vec<_> = winners
        .iter()
        .filter_map(|(run, id, _)| Some((*id, run.details.as_ref()?)))
        .collect();
    let triggers = all
        .iter()
        .map(|(id, details)| refused.value(*id, &details.trigger));
    let triggers = column(triggers);
    let contexts = all.iter().map(|(id, details)| {
        let context = details.context.as_ref()?;
        let vars: Vec<(&str, String)> = context
            .vars
            .iter()
            .map(|(name, value)| (&**name, refused.value(*id, value)))
            .collect();
        let vars = object_text(vars.iter().map(|(name, value)| (*name, value.as_str())));
        let output = refused.optional(*id, context.output.as_ref());
        let output = output.as_deref().unwrap_or("null");
        Some(refused.shown(*id, &object_text([("vars", &*vars), ("output", output)])))
    });
    let contexts = column(contexts);
    vec![
        column(all.iter().map(|it| it.0)),
        triggers,
        column(all.iter().map(|it| text(&it.1.correlation_id).into_owned())),
        contexts,
    ]
}

async fn write(mut session: Session, runs: &[ProjectedRun]) -> Result<Vec<bool>, Fault> {
    let work = session.transaction().await?;
    let winners = winners(&work, runs).await?;
    let mut refused = Refused::default();
    let attempts = attempts(&winners, &mut refused);
    let events = events(&winners, &mut refused);
    let details = details(&winners, &mut refused);
    refused.keep(&work).await?;
    work.execute(ATTEMPTS, &borrowed(&attempts)).await?;
    work.execute(EVENTS, &borrowed(&events)).await?;
    let problems = winners.iter().map(|(run, ..)| {
        let problem = run.problem.as_deref();
        problem.map(|problem| text(problem).into_owned())
    });
    let advanced = [
        column(winners.iter().map(|it| it.1)),
        column(winners.iter().map(|it| signed(it.0.through))),
        column(winners.iter().map(|it| signed(it.0.position))),
        column(problems),
    ];
    work.execute(ADVANCE, &borrowed(&advanced)).await?;
    // Last: it may wait for an append of the same run, and an append may wait for it.
    work.execute(DETAILS, &borrowed(&details)).await?;
    work.commit().await?;
    let won: std::collections::HashSet<RunId> = winners.iter().map(|it| it.0.run).collect();
    Ok(runs.iter().map(|run| won.contains(&run.run)).collect())
}

impl Projections for PostgresStore {
    fn look(&self, holder: &str, term_ms: u64) -> Pending<'_, Result<ProjectionLook, Error>> {
        let (holder, term) = (text(holder).into_owned(), signed(term_ms));
        self.call_long(move |session| async move {
            let row = session.first(LOOK, &[&holder, &term]).await?;
            let Some(row) = row else {
                return Ok(ProjectionLook::default());
            };
            Ok(ProjectionLook {
                holds: row.try_get(0)?,
                changes: row.try_get(1)?,
                definitions: row.try_get(2)?,
                requests: row.try_get(3)?,
                age_ms: row.number(4)?,
            })
        })
    }

    fn leave_projection(&self, holder: &str) -> Pending<'_, Result<(), Error>> {
        let holder = text(holder).into_owned();
        self.call_long(move |session| async move {
            session.execute(LEAVE, &[&holder]).await?;
            Ok(())
        })
    }

    fn changes(&self) -> Pending<'_, Result<ProjectionBatch, Error>> {
        self.call_long(move |session| async move {
            let mut batch = ProjectionBatch::default();
            for row in session.rows(CHANGES, &[]).await? {
                batch.watermark = row.try_get(3)?;
                let (end, through) = (row.number(1)?, row.number(2)?);
                if end > through {
                    let run = row.run(0)?;
                    batch.runs.push(UnprojectedRun { run, through, end });
                }
            }
            Ok(batch)
        })
    }

    fn projected(&self, watermark: &str) -> Pending<'_, Result<(), Error>> {
        let watermark = watermark.to_owned();
        self.call_long(move |session| async move {
            session.execute(PROJECTED, &[&watermark]).await?;
            Ok(())
        })
    }

    fn unprojected(
        &self,
        after: Option<RunId>,
        count: usize,
    ) -> Pending<'_, Result<Vec<UnprojectedRun>, Error>> {
        self.call_long(move |session| async move {
            let after = after.map(uuid);
            let rows = session.rows(UNPROJECTED, &[&after, &limit(count)]).await?;
            let runs = rows.iter().map(|row| {
                Ok(UnprojectedRun {
                    run: row.run(0)?,
                    through: row.number(1)?,
                    end: row.number(2)?,
                })
            });
            runs.collect()
        })
    }

    fn project(&self, runs: Vec<ProjectedRun>) -> Pending<'_, Result<Vec<bool>, Error>> {
        let runs = std::sync::Arc::new(runs);
        self.call_again(move |session| {
            let runs = std::sync::Arc::clone(&runs);
            async move { write(session, &runs).await }
        })
    }

    fn unplanned(&self, count: usize) -> Pending<'_, Result<Vec<DefinitionRow>, Error>> {
        self.call_long(move |session| async move {
            let rows = session.rows(UNPLANNED, &[&limit(count)]).await?;
            rows.iter().map(definition).collect()
        })
    }

    fn put_plan(&self, definition: &DefinitionRow, plan: String) -> Pending<'_, Result<(), Error>> {
        let owner = tenant(definition.tenant.as_deref()).into_owned();
        let workflow = text(&definition.workflow).into_owned();
        let number = version(definition.version);
        self.call_long(move |session| async move {
            let shown = json::shown(plan.as_bytes(), &Digest::of(plan.as_bytes()).to_string());
            // The bytes are kept where the column only names them.
            let bytes = (shown != plan).then_some(plan.as_bytes());
            session
                .execute(PLAN, &[&owner, &workflow, &number, &shown, &bytes])
                .await?;
            Ok(())
        })
    }

    fn requested_runs(
        &self,
        age_ms: u64,
        count: usize,
    ) -> Pending<'_, Result<Vec<RequestedRun>, Error>> {
        self.waiting_requests(age_ms, count)
    }

    fn request_started(&self, run: RunId, claim: Vec<u8>) -> Pending<'_, Result<(), Error>> {
        self.note_started(run, claim)
    }

    fn request_refused(&self, run: RunId) -> Pending<'_, Result<(), Error>> {
        self.note_refused(run)
    }

    fn projection_lag(&self) -> Pending<'_, Result<ProjectionLag, Error>> {
        self.call_long(move |session| async move {
            let Some(row) = session.first(LAG, &[]).await? else {
                return Ok(ProjectionLag::default());
            };
            Ok(ProjectionLag {
                waiting: row.number(0)?,
                age_ms: row.number(1)?,
                holder: row.optional_text(2)?.map(Into::into),
                problems: row.number(3)?,
            })
        })
    }
}
