//! Definitions: immutable versions, and the workflows they belong to.

use std::path::Path;

use rusqlite::{Connection, OptionalExtension, Row, params};
use windlass_core::Digest;
use windlass_store::{DefinitionRow, NewDefinition, Published, WorkflowRow};

use crate::blob;
use crate::codec::{self, Sum};
use crate::error::Fault;

/// See `Catalogue::publish`.
/// The text of a large definition is a file, named by its digest.
pub(crate) fn publish(
    connection: &Connection,
    definition: &NewDefinition,
    text_is_file: bool,
) -> Result<Published, Fault> {
    let text: &[u8] = if text_is_file { b"" } else { &definition.text };
    let newest = connection
        .prepare_cached(
            "SELECT version, digest FROM definition WHERE workflow = ? \
             ORDER BY version DESC LIMIT 1",
        )?
        .query_row([&definition.workflow], |row| {
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
    connection
        .prepare_cached(
            "INSERT INTO definition (workflow, version, digest, signature, at, text, sum) \
             VALUES (?, ?, ?, ?, ?, ?, ?)",
        )?
        .execute(params![
            definition.workflow,
            version,
            definition.digest.0,
            definition.signature.0,
            definition.at.0,
            text,
            definition_sum(&definition.workflow, version, &definition.signature, text).value(),
        ])?;
    connection
        .prepare_cached(
            "INSERT INTO workflow (workflow, display_name, version, enabled, updated_at, sum) \
             VALUES (?, ?, ?, 1, ?, ?) ON CONFLICT (workflow) DO UPDATE SET \
             display_name = excluded.display_name, version = excluded.version, \
             updated_at = excluded.updated_at, sum = excluded.sum",
        )?
        .execute(params![
            definition.workflow,
            definition.display_name,
            version,
            definition.at.0,
            workflow_sum(
                &definition.workflow,
                definition.display_name.as_deref(),
                version,
                definition.at.0
            )
            .value(),
        ])?;
    Ok(Published {
        version,
        created: true,
    })
}

/// See `Catalogue::definition`.
pub(crate) fn definition(
    connection: &Connection,
    directory: &Path,
    workflow: &str,
    version: Option<u32>,
) -> Result<Option<DefinitionRow>, Fault> {
    let mut statement = connection.prepare_cached(
        "SELECT workflow, version, digest, signature, at, text, sum FROM definition \
         WHERE workflow = ?1 AND (?2 IS NULL OR version = ?2) ORDER BY version DESC LIMIT 1",
    )?;
    let row = statement.query_row(params![workflow, version], |row| {
        let found = definition_row(row, row.get(5)?)?;
        definition_sum(
            &found.workflow,
            found.version,
            &found.signature,
            &found.text,
        )
        .check(row, 6)?;
        Ok(found)
    });
    let Some(mut found) = row.optional()? else {
        return Ok(None);
    };
    if found.text.is_empty() {
        found.text = blob::read(connection, directory, &found.digest)?
            .ok_or_else(|| blob::damaged(&found.digest, "a definition's text is missing"))?;
    }
    Ok(Some(found))
}

/// See `Catalogue::versions`.
pub(crate) fn versions(
    connection: &Connection,
    workflow: &str,
) -> Result<Vec<DefinitionRow>, Fault> {
    let mut statement = connection.prepare_cached(
        "SELECT workflow, version, digest, signature, at FROM definition \
         WHERE workflow = ? ORDER BY version DESC",
    )?;
    let rows = statement.query_map([workflow], |row| definition_row(row, Vec::new()))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn definition_row(row: &Row<'_>, text: Vec<u8>) -> rusqlite::Result<DefinitionRow> {
    Ok(DefinitionRow {
        workflow: row.get(0)?,
        version: row.get(1)?,
        digest: codec::digest(row, 2)?,
        signature: codec::digest(row, 3)?,
        at: codec::millis(row, 4)?,
        text,
    })
}

/// See `Catalogue::workflows`.
pub(crate) fn workflows(connection: &Connection) -> Result<Vec<WorkflowRow>, Fault> {
    let mut statement = connection.prepare_cached(
        "SELECT workflow, display_name, version, enabled, updated_at, sum FROM workflow \
         ORDER BY workflow",
    )?;
    let rows = statement.query_map([], |row| {
        let found = WorkflowRow {
            workflow: row.get(0)?,
            display_name: row.get(1)?,
            version: row.get(2)?,
            enabled: row.get(3)?,
            updated_at: codec::millis(row, 4)?,
        };
        let name = found.display_name.as_deref();
        workflow_sum(&found.workflow, name, found.version, found.updated_at.0).check(row, 5)?;
        Ok(found)
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// See `Catalogue::set_enabled`.
pub(crate) fn set_enabled(
    connection: &Connection,
    workflow: &str,
    enabled: bool,
) -> Result<bool, Fault> {
    let changed = connection
        .prepare_cached("UPDATE workflow SET enabled = ? WHERE workflow = ?")?
        .execute(params![enabled, workflow])?;
    Ok(changed == 1)
}

fn definition_sum(workflow: &str, version: u32, signature: &Digest, text: &[u8]) -> Sum {
    Sum::default()
        .text(workflow)
        .number(version.into())
        .bytes(&signature.0)
        .bytes(text)
}

/// `enabled` is left out: it changes alone, and both of its values are possible.
fn workflow_sum(workflow: &str, name: Option<&str>, version: u32, updated_at: i64) -> Sum {
    Sum::default()
        .text(workflow)
        .optional_text(name)
        .number(version.into())
        .number(updated_at)
}

/// Reads every workflow and definition, checking it.
pub(crate) fn check(connection: &Connection, directory: &Path) -> Result<(), Fault> {
    for workflow in workflows(connection)? {
        for version in versions(connection, &workflow.workflow)? {
            definition(
                connection,
                directory,
                &workflow.workflow,
                Some(version.version),
            )?;
        }
    }
    Ok(())
}
