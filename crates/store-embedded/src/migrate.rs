//! Older schemas become the present one, in one transaction: whole, or not at all.

use rusqlite::Connection;
use windlass_store::crash;

use crate::connect::SCHEMA_VERSION;
use crate::error::Fault;
use crate::{catalogue, clock};

/// What makes version 2 of version 1: room for packed records, checkpoints and sleeping
/// runs. Nothing that was stored changes.
const FROM_1: &str = "
ALTER TABLE run ADD COLUMN asleep INTEGER NOT NULL DEFAULT 0;
DROP INDEX run_by_status;
CREATE INDEX run_by_status ON run (status, asleep, run) WHERE status IS NOT NULL;
CREATE INDEX run_by_wake ON run (wake_at, run) WHERE asleep = 1 AND status < 3;
CREATE INDEX run_by_parent ON run (parent, run) WHERE parent IS NOT NULL;
CREATE TABLE segment (
  id INTEGER PRIMARY KEY,
  first INTEGER NOT NULL,
  previous BLOB NOT NULL,
  append_id INTEGER NOT NULL,
  chain BLOB NOT NULL,
  length INTEGER NOT NULL,
  sum INTEGER NOT NULL,
  bytes BLOB NOT NULL
);
CREATE TABLE checkpoint (
  number INTEGER PRIMARY KEY,
  run BLOB NOT NULL UNIQUE,
  sequence INTEGER NOT NULL,
  append_id INTEGER NOT NULL,
  chain BLOB NOT NULL,
  sum INTEGER NOT NULL,
  bytes BLOB
);
";

/// What makes version 3 of version 2: workflows belong to tenants, runs wait at gates, and
/// there are tables for dead letters, the audit log, schedules, hooks, sealed secrets, and the
/// uses of values.
const FROM_2: &str = "
ALTER TABLE run ADD COLUMN gate TEXT;
ALTER TABLE run ADD COLUMN gate_limit INTEGER NOT NULL DEFAULT 0;
ALTER TABLE run ADD COLUMN dead INTEGER NOT NULL DEFAULT 0;
ALTER TABLE run ADD COLUMN aside INTEGER NOT NULL DEFAULT 0;
DROP INDEX run_by_tenant;
DROP INDEX run_by_wake;
DROP INDEX run_by_workflow;
DROP INDEX run_by_parent;
DROP INDEX run_by_created;
CREATE INDEX run_by_workflow ON run (workflow, tenant, status, run) WHERE status IS NOT NULL;
CREATE INDEX run_by_tenant ON run (tenant, status, run) WHERE status IS NOT NULL;
CREATE INDEX run_by_parent ON run (parent, tenant, status, run) WHERE parent IS NOT NULL;
CREATE INDEX run_by_wake ON run (wake_at, run) WHERE asleep = 1 AND status < 3 AND dead = 0;
CREATE INDEX run_waiting ON run (tenant, priority DESC, run) WHERE status = 0 AND aside = 0 AND dead = 0;
CREATE INDEX run_aside ON run (gate, priority DESC, run) WHERE aside = 1;
CREATE INDEX run_at_gate ON run (gate) WHERE gate IS NOT NULL AND status > 0 AND status < 3 AND dead = 0;
CREATE INDEX run_by_end ON run (ended_at, run) WHERE status >= 3;
ALTER TABLE label RENAME TO old_label;
CREATE TABLE label (
  key TEXT NOT NULL,
  value TEXT NOT NULL,
  tenant TEXT NOT NULL,
  status INTEGER NOT NULL,
  run BLOB NOT NULL,
  PRIMARY KEY (key, value, tenant, status, run)
) WITHOUT ROWID;
INSERT INTO label (key, value, tenant, status, run)
  SELECT key, value, coalesce(tenant, ''), status, run.run FROM old_label
  CROSS JOIN run ON run.run = old_label.run WHERE status IS NOT NULL;
DROP TABLE old_label;
CREATE TABLE fact (
  name TEXT PRIMARY KEY,
  value INTEGER NOT NULL
) WITHOUT ROWID;
ALTER TABLE workflow RENAME TO old_workflow;
ALTER TABLE definition RENAME TO old_definition;
CREATE TABLE workflow (
  workflow TEXT NOT NULL,
  tenant TEXT NOT NULL,
  display_name TEXT,
  version INTEGER NOT NULL,
  enabled INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  sum INTEGER NOT NULL,
  PRIMARY KEY (workflow, tenant)
) WITHOUT ROWID;
CREATE INDEX workflow_by_tenant ON workflow (tenant, workflow);
CREATE TABLE definition (
  workflow TEXT NOT NULL,
  tenant TEXT NOT NULL,
  version INTEGER NOT NULL,
  digest BLOB NOT NULL,
  signature BLOB NOT NULL,
  at INTEGER NOT NULL,
  text BLOB NOT NULL,
  sum INTEGER NOT NULL,
  PRIMARY KEY (tenant, workflow, version)
);
INSERT INTO workflow (workflow, tenant, display_name, version, enabled, updated_at, sum)
  SELECT workflow, '', display_name, version, enabled, updated_at, sum FROM old_workflow;
INSERT INTO definition (workflow, tenant, version, digest, signature, at, text, sum)
  SELECT workflow, '', version, digest, signature, at, text, sum FROM old_definition;
DROP TABLE old_workflow;
DROP TABLE old_definition;
CREATE TABLE dead_letter (
  number INTEGER PRIMARY KEY,
  run BLOB NOT NULL UNIQUE,
  tenant TEXT,
  workflow TEXT NOT NULL,
  reason TEXT NOT NULL,
  deliveries INTEGER NOT NULL,
  at INTEGER NOT NULL,
  sum INTEGER NOT NULL,
  payload BLOB NOT NULL
);
CREATE INDEX dead_letter_by_tenant ON dead_letter (tenant, run);
CREATE TABLE audit (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  at INTEGER NOT NULL,
  tenant TEXT,
  actor TEXT NOT NULL,
  origin TEXT NOT NULL,
  what TEXT NOT NULL,
  target TEXT NOT NULL,
  detail TEXT NOT NULL,
  sum INTEGER NOT NULL
);
CREATE INDEX audit_by_tenant ON audit (tenant, number);
CREATE TABLE secret (
  name TEXT NOT NULL,
  tenant TEXT NOT NULL,
  updated_at INTEGER NOT NULL,
  sealed BLOB NOT NULL,
  sum INTEGER NOT NULL,
  PRIMARY KEY (tenant, name)
);
CREATE TABLE blob_use (
  run INTEGER NOT NULL,
  digest BLOB NOT NULL,
  PRIMARY KEY (run, digest)
) WITHOUT ROWID;
CREATE INDEX blob_use_by_digest ON blob_use (digest);
CREATE TABLE schedule (
  number INTEGER PRIMARY KEY,
  id TEXT NOT NULL,
  tenant TEXT NOT NULL,
  workflow TEXT NOT NULL,
  cron TEXT,
  every_ms INTEGER,
  timezone TEXT NOT NULL,
  labels TEXT,
  priority INTEGER NOT NULL,
  enabled INTEGER NOT NULL,
  catch_up TEXT NOT NULL,
  overlap TEXT NOT NULL,
  changed_at INTEGER NOT NULL,
  next_at INTEGER,
  last_at INTEGER,
  last_run BLOB,
  last_error TEXT,
  revision INTEGER NOT NULL,
  sum INTEGER NOT NULL,
  payload TEXT NOT NULL,
  UNIQUE (id, tenant)
);
CREATE INDEX schedule_by_tenant ON schedule (tenant, id);
CREATE INDEX schedule_by_time ON schedule (next_at, id, tenant) WHERE next_at IS NOT NULL;
CREATE TABLE hook (
  number INTEGER PRIMARY KEY,
  id TEXT NOT NULL,
  tenant TEXT NOT NULL,
  workflow TEXT NOT NULL,
  token BLOB NOT NULL UNIQUE,
  secret TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  sum INTEGER NOT NULL,
  UNIQUE (id, tenant)
);
CREATE INDEX hook_by_tenant ON hook (tenant, id);
INSERT OR IGNORE INTO blob_use (run, digest)
  SELECT 0, digest FROM definition WHERE digest IN (SELECT digest FROM blob);
INSERT INTO fact (name, value) SELECT 'old_runs', max(number) FROM run HAVING count(*) > 0;
INSERT INTO fact (name, value) SELECT 'old_values', max(number) FROM blob HAVING count(*) > 0;
";

/// What makes version 4 of version 3: a table for the notes of processes.
const FROM_3: &str = "
CREATE TABLE note (
  kind TEXT NOT NULL,
  key TEXT NOT NULL,
  sum INTEGER NOT NULL,
  bytes BLOB NOT NULL,
  PRIMARY KEY (kind, key)
) WITHOUT ROWID;
";

/// What makes version 5 of version 4: entries of the audit are counted for each tenant.
const FROM_4: &str = "
ALTER TABLE audit ADD COLUMN ordinal INTEGER NOT NULL DEFAULT 0;
UPDATE audit SET ordinal = counted.ordinal FROM
  (SELECT number AS n, row_number() OVER (PARTITION BY tenant ORDER BY number) AS ordinal
   FROM audit) AS counted
  WHERE counted.n = audit.number;
DROP INDEX audit_by_tenant;
CREATE INDEX audit_by_tenant ON audit (tenant, ordinal);
";

/// What makes version 6 of version 5: lists show the message of a run's error. Rows that are
/// there have none, because it stands in their logs.
const FROM_5: &str = "
ALTER TABLE run ADD COLUMN error_message TEXT;
";

/// What makes version 7 of version 6: runs are found by the codes of their errors and by the run
/// they were forked from, and those that no other run started have an index. Rows that are there
/// have the code of their error alone, because the rest stands in their logs.
const FROM_6: &str = "
ALTER TABLE run ADD COLUMN cause_codes TEXT;
ALTER TABLE run ADD COLUMN origin BLOB;
CREATE INDEX run_roots ON run (run) WHERE parent IS NULL AND status IS NOT NULL;
INSERT OR IGNORE INTO label (key, value, tenant, status, run)
  SELECT char(1) || 'error', error_code, coalesce(tenant, ''), status, run FROM run
  WHERE error_code IS NOT NULL AND status IS NOT NULL;
";

/// What makes version 8 of version 7: values and definitions say which form their bytes are in.
const FROM_7: &str = "
ALTER TABLE blob ADD COLUMN envelope INTEGER NOT NULL DEFAULT 1;
ALTER TABLE definition ADD COLUMN envelope INTEGER NOT NULL DEFAULT 1;
";

/// The steps from each version to the next, from version 1 on.
const STEPS: [&str; 7] = [FROM_1, FROM_2, FROM_3, FROM_4, FROM_5, FROM_6, FROM_7];

/// Which version a database has.
pub(crate) fn version(connection: &Connection) -> rusqlite::Result<u32> {
    let number: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    Ok(u32::try_from(number).unwrap_or(u32::MAX))
}

/// Brings a database to the present version. Only the holder of the lock may call this.
pub(crate) fn migrate(connection: &Connection) -> Result<(), Fault> {
    let present = version(connection)?;
    if present >= SCHEMA_VERSION {
        return Ok(());
    }
    let done = usize::try_from(present.saturating_sub(1)).unwrap_or(usize::MAX);
    let steps = STEPS.iter().skip(done).copied().collect::<String>();
    let sql = format!("BEGIN IMMEDIATE; {steps} PRAGMA user_version = {SCHEMA_VERSION};");
    let migrated = apply(connection, present, &sql);
    if migrated.is_err() && !connection.is_autocommit() {
        // Return the first error; the transaction ends with the connection anyway.
        let _ = connection.execute_batch("ROLLBACK");
    }
    migrated
}

fn apply(connection: &Connection, present: u32, steps: &str) -> Result<(), Fault> {
    connection.execute_batch(steps)?;
    if present < 3 {
        catalogue::give_to_tenants(connection)?;
        clock::note_all(connection)?;
    }
    crash::point("in-migration");
    Ok(connection.execute_batch("COMMIT")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The schemas of the versions before, from version 1 on.
    const OLD: [&str; 7] = [
        include_str!("../tests/common/schema-1.sql"),
        include_str!("../tests/common/schema-2.sql"),
        include_str!("../tests/common/schema-3.sql"),
        include_str!("../tests/common/schema-4.sql"),
        include_str!("../tests/common/schema-5.sql"),
        include_str!("../tests/common/schema-6.sql"),
        include_str!("../tests/common/schema-7.sql"),
    ];

    /// Every table and index with its text, less its spaces.
    fn objects(connection: &Connection) -> Vec<(String, String)> {
        let sql = "SELECT name, coalesce(sql, '') FROM sqlite_schema ORDER BY name";
        let mut statement = connection.prepare(sql).unwrap();
        let rows = statement
            .query_map([], |row| Ok((row.get(0)?, row.get::<_, String>(1)?)))
            .unwrap();
        let plain = |text: String| text.split_whitespace().collect::<String>();
        rows.map(|row| row.map(|(name, sql)| (name, plain(sql))).unwrap())
            .collect()
    }

    #[test]
    fn an_old_schema_becomes_the_present_one() {
        let fresh = Connection::open_in_memory().unwrap();
        fresh.execute_batch(include_str!("schema.sql")).unwrap();
        for (number, schema) in (1..).zip(OLD) {
            let old = Connection::open_in_memory().unwrap();
            old.execute_batch(schema).unwrap();
            old.execute_batch(&format!("PRAGMA user_version = {number}"))
                .unwrap();
            assert_ne!(objects(&old), objects(&fresh));
            for _ in 0..2 {
                migrate(&old).unwrap();
                assert_eq!(objects(&old), objects(&fresh));
                assert_eq!(version(&old).unwrap(), SCHEMA_VERSION);
            }
        }
    }

    #[test]
    fn old_entries_of_the_audit_are_counted_for_each_tenant() {
        let old = Connection::open_in_memory().unwrap();
        old.execute_batch(OLD[3]).unwrap();
        old.execute_batch("PRAGMA user_version = 4").unwrap();
        for tenant in [None, Some("a"), None, Some("b"), Some("a"), None] {
            old.execute(
                "INSERT INTO audit (at, tenant, actor, origin, what, target, detail, sum) \
                 VALUES (1, ?, '', '', '', '', '', 0)",
                [tenant],
            )
            .unwrap();
        }
        migrate(&old).unwrap();
        let mut statement = old
            .prepare("SELECT ordinal FROM audit ORDER BY number")
            .unwrap();
        let rows = statement.query_map([], |row| row.get(0)).unwrap();
        let ordinals: Vec<i64> = rows.map(Result::unwrap).collect();
        assert_eq!(ordinals, [1, 1, 2, 1, 2, 3]);
    }

    #[test]
    fn a_step_that_fails_changes_nothing() {
        for (number, schema, obstacle) in [
            (1, OLD[0], "checkpoint"),
            (2, OLD[1], "audit"),
            (3, OLD[2], "note"),
        ] {
            let old = Connection::open_in_memory().unwrap();
            old.execute_batch(schema).unwrap();
            old.execute_batch(&format!(
                "PRAGMA user_version = {number}; CREATE TABLE {obstacle} (x)"
            ))
            .unwrap();
            let before = objects(&old);
            assert!(migrate(&old).is_err());
            assert_eq!(objects(&old), before);
            assert_eq!(version(&old).unwrap(), number);
        }
    }
}
