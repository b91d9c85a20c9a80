//! Definitions: immutable versions, and the workflows they belong to.
//!
//! The tables store "no tenant" as an empty text.

use std::path::Path;
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, Row, params};
use windlass_core::Millis;
use windlass_store::{
    Blob, Catalogue, DefinitionRow, Error, NewDefinition, Pending, Published, STORED_FORM,
    TenantFilter, WorkflowRow, check_stored_form,
};

use crate::EmbeddedStore;
use crate::blob;
use crate::codec::{self, Sum};
use crate::damaged;
use crate::error::{self, Fault};
use crate::store::answer;
use crate::store::write_large;

impl Catalogue for EmbeddedStore {
    fn publish(&self, definition: NewDefinition) -> Pending<'_, Result<Published, Error>> {
        let text = Blob {
            digest: definition.digest,
            bytes: Arc::clone(&definition.text),
        };
        // A large text is a file, so that the database need not hold it in memory.
        let large = blob::is_large(&text).then_some(text);
        let first = write_large(Vec::from_iter(large.clone()));
        self.task(first, move |session| {
            blob::insert(session, large.as_slice())?;
            let used = large.iter().map(|text| &text.digest);
            blob::note_uses(session.connection, blob::CATALOGUE, used)?;
            publish(session.connection, &definition, large.is_some())
        })
    }

    fn definition(
        &self,
        tenant: Option<&str>,
        workflow: &str,
        version: Option<u32>,
    ) -> Pending<'_, Result<Option<DefinitionRow>, Error>> {
        answer(|| {
            let id = (tenant.unwrap_or_default(), workflow);
            self.readers()
                .read(|connection| definition(connection, self.directory(), id, version))
                .map_err(Fault::into_error)
        })
    }

    fn versions(
        &self,
        tenant: Option<&str>,
        workflow: &str,
    ) -> Pending<'_, Result<Vec<DefinitionRow>, Error>> {
        let (tenant, workflow) = (tenant.unwrap_or_default().to_owned(), workflow.to_owned());
        self.list(move |connection, _| versions(connection, &tenant, &workflow))
    }

    fn workflows(&self, tenant: &TenantFilter) -> Pending<'_, Result<Vec<WorkflowRow>, Error>> {
        let tenant = tenant.clone();
        self.list(move |connection, _| workflows(connection, &tenant))
    }

    fn workflow(
        &self,
        tenant: Option<&str>,
        id: &str,
    ) -> Pending<'_, Result<Option<WorkflowRow>, Error>> {
        answer(|| {
            self.readers()
                .read(|connection| workflow(connection, tenant.unwrap_or_default(), id))
                .map_err(Fault::into_error)
        })
    }

    fn set_enabled(
        &self,
        tenant: Option<&str>,
        workflow: &str,
        enabled: bool,
    ) -> Pending<'_, Result<bool, Error>> {
        const SQL: &str = "UPDATE workflow SET enabled = ? WHERE workflow = ? AND tenant = ?";
        let (tenant, workflow) = (tenant.unwrap_or_default().to_owned(), workflow.to_owned());
        self.task(None, move |session| {
            let mut statement = session.connection.prepare_cached(SQL)?;
            Ok(statement.execute(params![enabled, workflow, tenant])? == 1)
        })
    }
}

/// The text of a large definition is a file, named by its digest.
fn publish(
    connection: &Connection,
    definition: &NewDefinition,
    text_is_file: bool,
) -> Result<Published, Fault> {
    const NEWEST: &str = "SELECT version, digest FROM definition \
         WHERE tenant = ? AND workflow = ? ORDER BY version DESC LIMIT 1";
    let tenant = definition.tenant.as_deref().unwrap_or_default();
    let newest = connection
        .prepare_cached(NEWEST)?
        .query_row([tenant, &definition.workflow], |row| {
            Ok((row.get::<_, u32>(0)?, codec::digest(row, 1)?))
        })
        .optional()?;
    let version = match newest {
        Some((version, digest)) if digest == definition.digest => {
            return Ok(Published {
                version,
                created: false,
            });
        }
        Some((version, _)) => version + 1,
        None => 1,
    };
    let text = match text_is_file {
        true => Vec::new(),
        false => definition.text.to_vec(),
    };
    let new = DefinitionRow {
        tenant: definition.tenant.clone(),
        workflow: definition.workflow.clone(),
        version,
        digest: definition.digest,
        signature: definition.signature,
        at: definition.at,
        text,
    };
    insert_definition(connection, &new)?;
    let workflow = WorkflowRow {
        tenant: definition.tenant.clone(),
        workflow: definition.workflow.clone(),
        display_name: definition.display_name.clone(),
        version,
        enabled: true,
        updated_at: definition.at,
        damage: None,
    };
    put_workflow(connection, &workflow)?;
    Ok(Published {
        version,
        created: true,
    })
}

fn insert_definition(connection: &Connection, row: &DefinitionRow) -> Result<(), Fault> {
    const SQL: &str = "INSERT INTO definition \
         (tenant, workflow, version, digest, signature, at, text, sum, envelope) \
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)";
    connection.prepare_cached(SQL)?.execute(params![
        row.tenant.as_deref().unwrap_or_default(),
        row.workflow,
        row.version,
        row.digest.0,
        row.signature.0,
        row.at.0,
        row.text,
        definition_sum(row).value(),
        STORED_FORM,
    ])?;
    Ok(())
}

/// A new version of a workflow that is there does not enable it.
fn put_workflow(connection: &Connection, row: &WorkflowRow) -> Result<(), Fault> {
    const SQL: &str = "INSERT INTO workflow \
         (tenant, workflow, display_name, version, enabled, updated_at, sum) \
         VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (workflow, tenant) DO UPDATE SET \
         display_name = excluded.display_name, version = excluded.version, \
         updated_at = excluded.updated_at, sum = excluded.sum";
    connection.prepare_cached(SQL)?.execute(params![
        row.tenant.as_deref().unwrap_or_default(),
        row.workflow,
        row.display_name,
        row.version,
        row.enabled,
        row.updated_at.0,
        workflow_sum(row).value(),
    ])?;
    Ok(())
}

const DEFINITION_COLUMNS: &str = "tenant, workflow, version, digest, signature, at";

fn definition(
    connection: &Connection,
    directory: &Path,
    (tenant, workflow): (&str, &str),
    version: Option<u32>,
) -> Result<Option<DefinitionRow>, Fault> {
    let which = match version {
        Some(_) => "version = ?3",
        None => "?3 IS NULL ORDER BY version DESC LIMIT 1",
    };
    let mut statement = connection.prepare_cached(&format!(
        "SELECT {DEFINITION_COLUMNS}, text, sum, envelope FROM definition \
         WHERE tenant = ?1 AND workflow = ?2 AND {which}"
    ))?;
    let row = statement.query_row(params![tenant, workflow, version], whole_definition);
    let Some(mut found) = row.optional()?.transpose()? else {
        return Ok(None);
    };
    if found.text.is_empty() {
        found.text = blob::read(connection, directory, &found.digest)?
            .ok_or_else(|| blob::damaged(&found.digest, "a definition's text is missing"))?;
    }
    Ok(Some(found))
}

/// With the text that is in the table, and checked. One of a newer form is refused before its
/// checksum is looked at, which may be another one in that form.
fn whole_definition(row: &Row<'_>) -> rusqlite::Result<Result<DefinitionRow, Error>> {
    let found = definition_row(row, row.get(6)?)?;
    let name = || format!("'{}' version {}", found.workflow, found.version);
    if let Err(error) = check_stored_form(row.get(8)?, name) {
        return Ok(Err(error));
    }
    definition_sum(&found).check(row, 7)?;
    Ok(Ok(found))
}

fn versions(
    connection: &Connection,
    tenant: &str,
    workflow: &str,
) -> Result<Vec<DefinitionRow>, Fault> {
    let mut statement = connection.prepare_cached(&format!(
        "SELECT {DEFINITION_COLUMNS} FROM definition \
         WHERE tenant = ? AND workflow = ? ORDER BY version DESC"
    ))?;
    let rows = statement.query_map([tenant, workflow], |row| definition_row(row, Vec::new()))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn definition_row(row: &Row<'_>, text: Vec<u8>) -> rusqlite::Result<DefinitionRow> {
    Ok(DefinitionRow {
        tenant: tenant(row, 0)?,
        workflow: row.get(1)?,
        version: row.get(2)?,
        digest: codec::digest(row, 3)?,
        signature: codec::digest(row, 4)?,
        at: codec::millis(row, 5)?,
        text,
    })
}

fn tenant(row: &Row<'_>, at: usize) -> rusqlite::Result<Option<Box<str>>> {
    let tenant: Box<str> = row.get(at)?;
    Ok((!tenant.is_empty()).then_some(tenant))
}

const WORKFLOWS: &str = "SELECT tenant, workflow, display_name, version, enabled, updated_at, sum \
     FROM workflow";

fn workflows(connection: &Connection, of: &TenantFilter) -> Result<Vec<WorkflowRow>, Fault> {
    Ok(match of {
        TenantFilter::Any => damaged::given(
            connection
                .prepare_cached(&format!("{WORKFLOWS} ORDER BY workflow, tenant"))?
                .query_map([], listed)?,
        ),
        TenantFilter::Only(tenant) => damaged::given(
            connection
                .prepare_cached(&format!("{WORKFLOWS} WHERE tenant = ? ORDER BY workflow"))?
                .query_map([tenant.as_deref().unwrap_or_default()], listed)?,
        ),
    }?)
}

fn workflow(connection: &Connection, tenant: &str, id: &str) -> Result<Option<WorkflowRow>, Fault> {
    let sql = format!("{WORKFLOWS} WHERE workflow = ? AND tenant = ?");
    let mut statement = connection.prepare_cached(&sql)?;
    Ok(statement.query_row([id, tenant], workflow_row).optional()?)
}

fn workflow_row(row: &Row<'_>) -> rusqlite::Result<WorkflowRow> {
    let found = WorkflowRow {
        tenant: tenant(row, 0)?,
        workflow: row.get(1)?,
        display_name: row.get(2)?,
        version: row.get(3)?,
        enabled: row.get(4)?,
        updated_at: codec::millis(row, 5)?,
        damage: None,
    };
    workflow_sum(&found).check(row, 6)?;
    Ok(found)
}

/// A workflow in a list: of a damaged one, only the name is returned.
fn listed(row: &Row<'_>) -> rusqlite::Result<Option<WorkflowRow>> {
    let error = match workflow_row(row) {
        Ok(workflow) => return Ok(Some(workflow)),
        Err(error) => error,
    };
    let damage = Some(damaged::reason(error)?);
    Ok(
        damaged::name(row, (1, 0)).map(|(workflow, tenant)| WorkflowRow {
            tenant,
            workflow,
            display_name: None,
            version: 0,
            enabled: false,
            updated_at: Millis(0),
            damage,
        }),
    )
}

fn definition_sum(row: &DefinitionRow) -> Sum {
    let sum = Sum::default()
        .text(&row.workflow)
        .number(row.version.into())
        .bytes(&row.signature.0)
        .bytes(&row.text);
    with_tenant(sum, row.tenant.as_deref())
}

/// `enabled` is left out: it changes alone, and both of its values are possible.
fn workflow_sum(row: &WorkflowRow) -> Sum {
    let sum = Sum::default()
        .text(&row.workflow)
        .optional_text(row.display_name.as_deref())
        .number(row.version.into())
        .number(row.updated_at.0);
    with_tenant(sum, row.tenant.as_deref())
}

/// Rows from before there were tenants keep their checksum.
fn with_tenant(sum: Sum, tenant: Option<&str>) -> Sum {
    match tenant {
        None => sum,
        Some(tenant) => sum.text(tenant),
    }
}

/// Workflows once had no tenant, but runs did: gives each tenant that has runs the workflows
/// of these, so that the runs can be recovered and inspected. For `migrate`.
pub(crate) fn give_to_tenants(connection: &Connection) -> Result<(), Fault> {
    let mut statement = connection.prepare(
        "SELECT DISTINCT tenant, workflow FROM run \
         WHERE tenant <> '' AND workflow IS NOT NULL",
    )?;
    let owners = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let owners: Vec<(Box<str>, Box<str>)> = owners.collect::<Result<_, _>>()?;
    for (tenant, id) in owners {
        give(connection, &tenant, &id)?;
    }
    Ok(())
}

/// Copies a workflow without a tenant, with its versions, to a tenant. A damaged row is not
/// copied: it stays damaged where it is.
fn give(connection: &Connection, tenant: &str, id: &str) -> Result<(), Fault> {
    let Ok(Some(found)) = workflow(connection, "", id) else {
        return Ok(());
    };
    let tenant: Box<str> = tenant.into();
    let copy = WorkflowRow {
        tenant: Some(tenant.clone()),
        ..found
    };
    put_workflow(connection, &copy)?;
    let mut statement = connection.prepare_cached(&format!(
        "SELECT {DEFINITION_COLUMNS}, text, sum, envelope FROM definition \
         WHERE tenant = '' AND workflow = ?"
    ))?;
    let rows = statement.query_map([id], whole_definition)?;
    for row in rows.flatten().flatten().collect::<Vec<_>>() {
        let copy = DefinitionRow {
            tenant: Some(tenant.clone()),
            ..row
        };
        insert_definition(connection, &copy)?;
    }
    Ok(())
}

/// Reads every workflow and definition, checking it.
pub(crate) fn check(connection: &Connection, directory: &Path) -> Result<(), Fault> {
    let mut statement = connection.prepare(WORKFLOWS)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        workflow_row(row)?;
    }
    for workflow in workflows(connection, &TenantFilter::Any)? {
        if let Some(reason) = workflow.damage {
            return Err(error::damage(format!("'{}': {reason}", workflow.workflow)).into());
        }
        let tenant = workflow.tenant.as_deref().unwrap_or_default();
        let id = (tenant, &*workflow.workflow);
        for version in versions(connection, tenant, &workflow.workflow)? {
            definition(connection, directory, id, Some(version.version))?;
        }
    }
    Ok(())
}
