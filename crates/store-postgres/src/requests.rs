//! Requests for runs that came by SQL (`sp_start_workflow_execution`): the function has claimed the
//! request id, and a process starts the run or refuses it.

use windlass_core::RunId;
use windlass_store::{Error, Pending, RequestedRun};

use crate::codec::{Columns as _, limit, signed, uuid};
use crate::store::{PostgresStore, Work};

const WAITING: &str = "select id, tenant_id, workflow, workflow_request_id, trigger_json::text \
     from start_request where refused_at is null \
     and requested_at <= now() - $1 * interval '1 millisecond' order by requested_at, id limit $2";
const STARTED: &str = "with r as (delete from start_request where id = $1 \
     returning id, tenant_id, workflow, workflow_request_id) \
     update claim k set value = $2 from r where k.namespace = 'request' \
     and k.key = r.tenant_id || chr(10) || r.workflow || chr(10) || r.workflow_request_id \
     and k.value = convert_to(r.id::text || ' *', 'UTF8')";
const REFUSED: &str = "update start_request set refused_at = now() where id = $1";
const AGAIN: &str = "update start_request set refused_at = null where id = $1";
const PURGE: &str = "with r as (delete from start_request where id = $1 \
     returning id, tenant_id, workflow, workflow_request_id) \
     delete from claim k using r where k.namespace = 'request' \
     and k.key = r.tenant_id || chr(10) || r.workflow || chr(10) || r.workflow_request_id \
     and k.value = convert_to(r.id::text || ' *', 'UTF8')";

/// Lets a refused request wait again, with its dead letter gone.
pub(crate) async fn again(work: &Work<'_>, run: RunId) -> Result<bool, crate::error::Fault> {
    Ok(work.execute(AGAIN, &[&uuid(run)]).await? > 0)
}

/// Forgets a refused request, and frees its request id.
pub(crate) async fn purge(work: &Work<'_>, run: RunId) -> Result<(), crate::error::Fault> {
    work.execute(PURGE, &[&uuid(run)]).await?;
    Ok(())
}

impl PostgresStore {
    pub(crate) fn waiting_requests(
        &self,
        age_ms: u64,
        count: usize,
    ) -> Pending<'_, Result<Vec<RequestedRun>, Error>> {
        self.call(move |session| async move {
            let age = signed(age_ms.min(86_400_000)) as f64;
            let rows = session.rows(WAITING, &[&age, &limit(count)]).await?;
            let requests = rows.iter().map(|row| {
                Ok(RequestedRun {
                    run: row.run(0)?,
                    tenant: row.tenant(1)?,
                    workflow: row.text(2)?,
                    request_id: row.text(3)?,
                    trigger: row.try_get(4)?,
                })
            });
            requests.collect()
        })
    }

    pub(crate) fn note_started(
        &self,
        run: RunId,
        claim: Vec<u8>,
    ) -> Pending<'_, Result<(), Error>> {
        self.call(move |session| async move {
            session.execute(STARTED, &[&uuid(run), &claim]).await?;
            Ok(())
        })
    }

    pub(crate) fn note_refused(&self, run: RunId) -> Pending<'_, Result<(), Error>> {
        self.call(move |session| async move {
            session.execute(REFUSED, &[&uuid(run)]).await?;
            Ok(())
        })
    }
}
