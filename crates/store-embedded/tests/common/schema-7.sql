-- The tables of the embedded store, version 7. `user_version` counts changes of this file;
-- `migrate.rs` makes it of the versions before.
-- `sum` is a checksum over a row's other columns, because pages of the database have none;
-- records have their chain and values their digest instead.

-- A run: its head (the fence), and its row for lists, whose columns are NULL until the
-- first append that carries one. Runs are numbered so that records have integer keys.
-- `aside` is no part of the row's checksum: it changes alone, and an index knows it too.
CREATE TABLE run (
  number INTEGER PRIMARY KEY,
  run BLOB NOT NULL UNIQUE,
  sequence INTEGER NOT NULL,
  append_id INTEGER NOT NULL,
  chain BLOB NOT NULL,
  status INTEGER,
  version INTEGER,
  priority INTEGER,
  created_at INTEGER,
  started_at INTEGER,
  ended_at INTEGER,
  wake_at INTEGER,
  tenant TEXT,
  workflow TEXT,
  request_id TEXT,
  error_code TEXT,
  parent BLOB,
  labels TEXT,
  sum INTEGER,
  asleep INTEGER NOT NULL DEFAULT 0,
  gate TEXT,
  gate_limit INTEGER NOT NULL DEFAULT 0,
  dead INTEGER NOT NULL DEFAULT 0,
  aside INTEGER NOT NULL DEFAULT 0,
  error_message TEXT,
  cause_codes TEXT,
  origin BLOB
);
-- Those that sleep lie apart, so that the others are found without passing them.
CREATE INDEX run_by_status ON run (status, asleep, run) WHERE status IS NOT NULL;
CREATE INDEX run_by_workflow ON run (workflow, tenant, status, run) WHERE status IS NOT NULL;
CREATE INDEX run_by_tenant ON run (tenant, status, run) WHERE status IS NOT NULL;
-- Only runs that sleep, and that have not ended (statuses from 3 on are final).
CREATE INDEX run_by_wake ON run (wake_at, run) WHERE asleep = 1 AND status < 3 AND dead = 0;
CREATE INDEX run_by_parent ON run (parent, tenant, status, run) WHERE parent IS NOT NULL;
-- Only runs that wait to begin (status 0), in the order in which they do.
CREATE INDEX run_waiting ON run (tenant, priority DESC, run) WHERE status = 0 AND aside = 0 AND dead = 0;
-- Only runs that were put aside: those are pending, and not dead.
CREATE INDEX run_aside ON run (gate, priority DESC, run) WHERE aside = 1;
-- Only runs that go at a gate: begun, and not ended.
CREATE INDEX run_at_gate ON run (gate) WHERE gate IS NOT NULL AND status > 0 AND status < 3 AND dead = 0;
CREATE INDEX run_by_end ON run (ended_at, run) WHERE status >= 3;
-- Only runs that no other run started.
CREATE INDEX run_roots ON run (run) WHERE parent IS NULL AND status IS NOT NULL;

-- The labels of the rows, to find runs by, and under keys that no label has the codes of their
-- errors and the runs they were forked from. `tenant` is '' for none.
CREATE TABLE label (
  key TEXT NOT NULL,
  value TEXT NOT NULL,
  tenant TEXT NOT NULL,
  status INTEGER NOT NULL,
  run BLOB NOT NULL,
  PRIMARY KEY (key, value, tenant, status, run)
) WITHOUT ROWID;

-- What is known of all rows together: `lag`, see `clock.rs`; `old_runs` and `old_values`,
-- the last numbers of those from before `blob_use` was kept.
CREATE TABLE fact (
  name TEXT PRIMARY KEY,
  value INTEGER NOT NULL
) WITHOUT ROWID;

-- The log. The key is the run's number << 32 | sequence: the records of a run lie side by
-- side, and a rowid table keeps its inner pages free of payload.
CREATE TABLE record (
  id INTEGER PRIMARY KEY,
  writer INTEGER NOT NULL,
  append_id INTEGER NOT NULL,
  chain BLOB NOT NULL,
  bytes BLOB NOT NULL
);

-- Records that were packed: those from `first` to the sequence number in the key, which is
-- built like a record's. The columns beside `bytes` are the checksum before the first, and
-- the head after the last. The segments of a run cover a prefix of its log, without gaps.
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

-- The newest checkpoint of a run; `bytes` is NULL for one that is kept as a file.
CREATE TABLE checkpoint (
  number INTEGER PRIMARY KEY,
  run BLOB NOT NULL UNIQUE,
  sequence INTEGER NOT NULL,
  append_id INTEGER NOT NULL,
  chain BLOB NOT NULL,
  sum INTEGER NOT NULL,
  bytes BLOB
);

CREATE TABLE claim (
  namespace TEXT NOT NULL,
  key TEXT NOT NULL,
  value BLOB NOT NULL,
  sum INTEGER NOT NULL,
  PRIMARY KEY (namespace, key)
) WITHOUT ROWID;

CREATE TABLE inbox (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  run BLOB NOT NULL,
  key TEXT NOT NULL,
  bytes BLOB NOT NULL,
  sum INTEGER NOT NULL,
  UNIQUE (run, key)
);

-- Values; `bytes` is NULL for one that is kept as a file.
CREATE TABLE blob (
  number INTEGER PRIMARY KEY,
  digest BLOB NOT NULL UNIQUE,
  length INTEGER NOT NULL,
  bytes BLOB
);

-- `tenant` is '' for none: in a unique index, NULLs would all be different.
CREATE TABLE resource (
  number INTEGER PRIMARY KEY,
  run BLOB NOT NULL,
  tenant TEXT NOT NULL,
  system TEXT NOT NULL,
  kind TEXT NOT NULL,
  id TEXT NOT NULL,
  url TEXT,
  node TEXT NOT NULL,
  sum INTEGER NOT NULL,
  UNIQUE (tenant, system, kind, id)
);
CREATE INDEX resource_by_run ON resource (run);

-- `tenant` is '' for none, as above.
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

-- Dead letters: runs that no process may carry on.
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

-- Who changed what. A number is never used twice; `ordinal` counts the entries of a tenant,
-- which sees that number and not the other.
CREATE TABLE audit (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  at INTEGER NOT NULL,
  tenant TEXT,
  actor TEXT NOT NULL,
  origin TEXT NOT NULL,
  what TEXT NOT NULL,
  target TEXT NOT NULL,
  detail TEXT NOT NULL,
  sum INTEGER NOT NULL,
  ordinal INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX audit_by_tenant ON audit (tenant, ordinal);

-- Secrets, sealed: the key is elsewhere. `tenant` is '' for none, as above.
CREATE TABLE secret (
  name TEXT NOT NULL,
  tenant TEXT NOT NULL,
  updated_at INTEGER NOT NULL,
  sealed BLOB NOT NULL,
  sum INTEGER NOT NULL,
  PRIMARY KEY (tenant, name)
);

-- Which values a run's log refers to; `run` is the run's number.
CREATE TABLE blob_use (
  run INTEGER NOT NULL,
  digest BLOB NOT NULL,
  PRIMARY KEY (run, digest)
) WITHOUT ROWID;
CREATE INDEX blob_use_by_digest ON blob_use (digest);

-- When runs are started; `tenant` is '' for none, as above.
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
-- Only those that are enabled have a next time.
CREATE INDEX schedule_by_time ON schedule (next_at, id, tenant) WHERE next_at IS NOT NULL;

-- What signed requests start. The token is kept as its digest, the secret as it is.
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

-- Notes: small records that a process writes for itself or for the next one; see `notes.rs`.
CREATE TABLE note (
  kind TEXT NOT NULL,
  key TEXT NOT NULL,
  sum INTEGER NOT NULL,
  bytes BLOB NOT NULL,
  PRIMARY KEY (kind, key)
) WITHOUT ROWID;
