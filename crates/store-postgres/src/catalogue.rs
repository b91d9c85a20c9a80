//! Published definitions. The bytes stand as they were published; `definition_json` shows them
//! to readers of the table.

use tokio_postgres::Row;
use windlass_store::{
    Catalogue, DefinitionRow, Error, NewDefinition, Pending, Published, TenantFilter, WorkflowRow,
    check_stored_form,
};

use crate::codec::{Columns as _, Moment, STORED_FORM, tenant, text, unreadable, version};
use crate::error::Fault;
use crate::json;
use crate::store::PostgresStore;

const MAKE: &str = "insert into workflows (tenant_id, id, current_version, created_at, updated_at) \
     values ($1, $2, 0, $3, $3) on conflict do nothing";
/// Publishers of one workflow take turns.
const NEWEST: &str = "select w.current_version, d.checksum from workflows w \
     left join workflow_definitions d on d.tenant_id = w.tenant_id and d.workflow = w.id \
     and d.version = w.current_version where w.tenant_id = $1 and w.id = $2 for update of w";
const ADD: &str = "insert into workflow_definitions (tenant_id, workflow, version, \
     definition_json, checksum, created_at, signature, envelope, definition) \
     values ($1, $2, $3, $4::text::jsonb, $5, $6, $7, $8, $9)";
const ADVANCE: &str = "update workflows set current_version = $3, display_name = $4, \
     description = $5, updated_at = $6 where tenant_id = $1 and id = $2";

const DEFINITION: &str = "select d.tenant_id, d.workflow, d.version, d.checksum, d.signature, \
     d.created_at, d.definition, d.envelope from workflow_definitions d \
     where d.tenant_id = $1 and d.workflow = $2 and ($3::int4 is null or d.version = $3) \
     order by d.version desc limit 1";
/// Reads no text, so the form of the texts does not matter.
const VERSIONS: &str = "select tenant_id, workflow, version, checksum, signature, created_at, \
     ''::bytea, 1::int2 from workflow_definitions where tenant_id = $1 and workflow = $2 \
     order by version desc";

const WORKFLOWS: &str = "select tenant_id, id, display_name, current_version, is_enabled, \
     updated_at from workflows where ($1::text is null or tenant_id = $1) \
     and current_version > 0 order by id, tenant_id";
const WORKFLOW: &str = "select tenant_id, id, display_name, current_version, is_enabled, \
     updated_at from workflows where tenant_id = $1 and id = $2 and current_version > 0";
const ENABLE: &str = "update workflows set is_enabled = $3 \
     where tenant_id = $1 and id = $2 and current_version > 0";

/// A filter as a parameter: null is all tenants.
pub(crate) fn only(filter: &TenantFilter) -> Option<String> {
    match filter {
        TenantFilter::Any => None,
        TenantFilter::Only(one) => Some(tenant(one.as_deref()).into_owned()),
    }
}

fn number(row: &Row, at: usize) -> Result<u32, Fault> {
    u32::try_from(row.try_get::<_, i32>(at)?).map_err(|_| unreadable("a version"))
}

pub(crate) fn definition(row: &Row) -> Result<DefinitionRow, Fault> {
    let (workflow, version) = (row.text(1)?, number(row, 2)?);
    let envelope = i64::from(row.try_get::<_, i16>(7)?);
    check_stored_form(envelope, || format!("'{workflow}' version {version}"))?;
    let digest: &str = row.try_get(3)?;
    Ok(DefinitionRow {
        tenant: row.tenant(0)?,
        workflow,
        version,
        digest: digest.parse().map_err(|_| unreadable("a checksum"))?,
        signature: row.digest(4)?,
        at: row.millis(5)?,
        text: row.try_get(6)?,
    })
}

fn workflow(row: &Row) -> Result<WorkflowRow, Fault> {
    Ok(WorkflowRow {
        tenant: row.tenant(0)?,
        workflow: row.text(1)?,
        display_name: row.optional_text(2)?,
        version: number(row, 3)?,
        enabled: row.try_get(4)?,
        updated_at: row.millis(5)?,
        damage: None,
    })
}

impl Catalogue for PostgresStore {
    fn publish(&self, definition: NewDefinition) -> Pending<'_, Result<Published, Error>> {
        self.call(move |mut session| async move {
            let owner = tenant(definition.tenant.as_deref()).into_owned();
            let id = text(&definition.workflow).into_owned();
            let at = Moment(definition.at);
            let checksum = definition.digest.to_string();
            let work = session.transaction().await?;
            work.execute(MAKE, &[&owner, &id, &at]).await?;
            let newest = work.rows(NEWEST, &[&owner, &id]).await?;
            let newest = newest.first().ok_or_else(|| unreadable("a workflow"))?;
            let (old, known) = (number(newest, 0)?, newest.try_get::<_, Option<&str>>(1)?);
            if known == Some(&checksum) {
                return Ok(Published {
                    version: old,
                    created: false,
                });
            }
            let next = version(old + 1);
            let shown = json::shown(&definition.text, &checksum);
            let signature = &definition.signature.0[..];
            let bytes = &*definition.text;
            work.execute(
                ADD,
                &[
                    &owner,
                    &id,
                    &next,
                    &shown,
                    &checksum,
                    &at,
                    &signature,
                    &STORED_FORM,
                    &bytes,
                ],
            )
            .await?;
            let name = definition.display_name.as_deref().map(text);
            let description = json::description(&definition.text);
            let description = description.as_deref().map(text);
            work.execute(ADVANCE, &[&owner, &id, &next, &name, &description, &at])
                .await?;
            work.commit().await?;
            Ok(Published {
                version: old + 1,
                created: true,
            })
        })
    }

    fn definition(
        &self,
        owner: Option<&str>,
        id: &str,
        number: Option<u32>,
    ) -> Pending<'_, Result<Option<DefinitionRow>, Error>> {
        let (owner, id) = (tenant(owner).into_owned(), text(id).into_owned());
        self.call(move |session| async move {
            let number = number.map(version);
            let row = session.first(DEFINITION, &[&owner, &id, &number]).await?;
            row.as_ref().map(definition).transpose()
        })
    }

    fn versions(
        &self,
        owner: Option<&str>,
        id: &str,
    ) -> Pending<'_, Result<Vec<DefinitionRow>, Error>> {
        let (owner, id) = (tenant(owner).into_owned(), text(id).into_owned());
        self.call(move |session| async move {
            let rows = session.rows(VERSIONS, &[&owner, &id]).await?;
            rows.iter().map(definition).collect()
        })
    }

    fn workflows(&self, filter: &TenantFilter) -> Pending<'_, Result<Vec<WorkflowRow>, Error>> {
        let only = only(filter);
        self.call(move |session| async move {
            let rows = session.rows(WORKFLOWS, &[&only]).await?;
            rows.iter().map(workflow).collect()
        })
    }

    fn workflow(
        &self,
        owner: Option<&str>,
        id: &str,
    ) -> Pending<'_, Result<Option<WorkflowRow>, Error>> {
        let (owner, id) = (tenant(owner).into_owned(), text(id).into_owned());
        self.call(move |session| async move {
            let row = session.first(WORKFLOW, &[&owner, &id]).await?;
            row.as_ref().map(workflow).transpose()
        })
    }

    fn set_enabled(
        &self,
        owner: Option<&str>,
        id: &str,
        enabled: bool,
    ) -> Pending<'_, Result<bool, Error>> {
        let (owner, id) = (tenant(owner).into_owned(), text(id).into_owned());
        self.call(move |session| async move {
            Ok(session.execute(ENABLE, &[&owner, &id, &enabled]).await? > 0)
        })
    }
}
