-- The first schema. Names and columns of the readable tables are those that people query with
-- psql; docs/postgres.md describes them. An empty tenant_id means a run without a tenant.

-- Leases expire by this clock alone. Tests replace it by one that they move.
create function clock_ms() returns bigint language sql volatile as
$$ select (extract(epoch from clock_timestamp()) * 1000)::bigint $$;

-- Where each log ends. Narrow, without a second index, half filled: updates stay in their page.
create table head (
    run uuid primary key,
    seq bigint not null,
    append_id bigint not null,
    chain bytea not null,
    dead boolean not null default false
) with (fillfactor = 50);

create table record (
    run uuid not null,
    seq bigint not null,
    writer bigint not null,
    append_id bigint not null,
    chain bytea not null,
    body bytea not null,
    primary key (run, seq)
);

-- Packed records: the same bytes, many in a row.
create table segment (
    run uuid not null,
    first_seq bigint not null,
    last_seq bigint not null,
    body bytea not null,
    primary key (run, last_seq)
);

create table checkpoint (
    run uuid primary key,
    seq bigint not null,
    append_id bigint not null,
    chain bytea not null,
    body bytea not null
);

create table claim (
    namespace text collate "C" not null,
    key text collate "C" not null,
    value bytea not null,
    primary key (namespace, key)
);

-- `envelope` is the version of the form that the bytes are in; the digest is over the bytes.
create table blob (
    digest bytea primary key,
    envelope smallint not null default 1,
    created_at timestamptz not null default now(),
    bytes bytea not null
);

create table blob_use (
    run uuid not null,
    digest bytea not null references blob (digest),
    primary key (run, digest)
);
create index blob_use_digest on blob_use (digest);

create table inbox (
    run uuid not null,
    key text collate "C" not null,
    number bigint generated always as identity,
    offered_at timestamptz not null default now(),
    partition integer not null,
    body bytea not null,
    -- Why the owner refused the item; null while it waits.
    refusal bytea,
    primary key (run, key)
);
create index inbox_waiting on inbox (partition, run) where refusal is null;

-- Which runs count for a concurrency key, over all processes.
create table gate_place (
    gate text collate "C" not null,
    run uuid not null,
    partition integer not null,
    primary key (gate, run)
);
create index gate_place_partition on gate_place (partition, gate, run);

create table workflows (
    tenant_id text collate "C" not null default '',
    id text collate "C" not null,
    display_name text,
    description text,
    current_version integer not null,
    is_enabled boolean not null default true,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    primary key (tenant_id, id)
);

-- `definition` has the bytes that were published; `definition_json` shows them, or names them
-- if jsonb cannot hold them (function `definition_text`).
create table workflow_definitions (
    tenant_id text collate "C" not null default '',
    workflow text collate "C" not null,
    version integer not null,
    definition_json jsonb not null,
    checksum text not null,
    created_at timestamptz not null,
    signature bytea not null,
    envelope smallint not null default 1,
    definition bytea not null,
    primary key (tenant_id, workflow, version),
    foreign key (tenant_id, workflow) references workflows (tenant_id, id) on delete cascade
);

create function definition_text(tenant text, workflow_id text, number integer) returns text
language sql stable set search_path from current as $$
    select convert_from(definition, 'UTF8') from workflow_definitions
    where tenant_id = tenant and workflow = workflow_id and version = number
$$;

create table workflow_plans (
    tenant_id text collate "C" not null default '',
    workflow text collate "C" not null,
    version integer not null,
    plan_json jsonb not null,
    created_at timestamptz not null default now(),
    primary key (tenant_id, workflow, version),
    foreign key (tenant_id, workflow, version)
        references workflow_definitions (tenant_id, workflow, version) on delete cascade
);

create table workflow_executions (
    id uuid primary key,
    tenant_id text collate "C" not null default '',
    workflow text collate "C" not null,
    version integer not null,
    workflow_request_id text collate "C" not null,
    status text not null check (status in
        ('Pending', 'Running', 'Paused', 'Succeeded', 'Failed', 'Cancelled')),
    priority smallint not null,
    trigger_payload_json jsonb,
    context_snapshot_json jsonb,
    created_at timestamptz not null,
    start_time timestamptz,
    end_time timestamptz,
    correlation_id text,
    labels jsonb,
    error_code text,
    error_message text,
    parent uuid,
    wake_at bigint,
    asleep boolean not null,
    concurrency_key text collate "C",
    concurrency_limit bigint not null,
    -- Whether the run waits because no place of its concurrency key is free.
    parked boolean not null default false,
    dead boolean not null default false,
    -- Whether the run holds the claim on its request id.
    owns_request boolean not null default false,
    partition integer not null
);
-- One run holds a request id, per tenant and workflow.
create unique index workflow_executions_request
    on workflow_executions (tenant_id, workflow, workflow_request_id) where owns_request;
create index workflow_executions_active on workflow_executions (status, start_time desc)
    where status in ('Pending', 'Running', 'Paused');
create index workflow_executions_open on workflow_executions (id)
    where status in ('Pending', 'Running', 'Paused');
create index workflow_executions_begun on workflow_executions (partition, id)
    where status in ('Running', 'Paused') and not asleep;
create index workflow_executions_waiting on workflow_executions (tenant_id, priority desc, id)
    where status = 'Pending' and not dead and not parked;
create index workflow_executions_parked
    on workflow_executions (concurrency_key, priority desc, id)
    where status = 'Pending' and not dead and parked;
create index workflow_executions_due on workflow_executions (wake_at, id)
    where status in ('Pending', 'Running', 'Paused') and asleep and not dead
        and wake_at is not null;
create index workflow_executions_concurrency on workflow_executions (concurrency_key)
    where status in ('Running', 'Paused') and not dead and concurrency_key is not null;
create index workflow_executions_children on workflow_executions (parent, id)
    where parent is not null;
create index workflow_executions_ended on workflow_executions (end_time, id)
    where status in ('Succeeded', 'Failed', 'Cancelled');
create index workflow_executions_workflow on workflow_executions (workflow, id desc);
create index workflow_executions_tenant on workflow_executions (tenant_id, id desc);
create index workflow_executions_labels on workflow_executions using gin (labels jsonb_path_ops)
    where labels is not null;

-- One row per attempt. Written behind the log, never in its way.
create table action_executions (
    id bigint generated always as identity primary key,
    tenant_id text collate "C" not null default '',
    execution uuid not null,
    node_id text collate "C" not null,
    instance bigint not null,
    action_type text not null,
    status text not null,
    attempt integer not null,
    retry_count integer not null default 0,
    ancestry_hash text,
    parameters_json jsonb,
    outputs_json jsonb,
    error_json jsonb,
    start_time timestamptz,
    end_time timestamptz,
    unique (execution, instance, attempt)
);
create index action_executions_node on action_executions (execution, node_id);

create view step_executions as
    select id, tenant_id, execution, node_id, instance, action_type, attempt, ancestry_hash,
        case when end_time is null then 'active' else 'ended' end as state,
        status as outcome, outputs_json, error_json, start_time, end_time
    from action_executions;

create table execution_events (
    id bigint generated always as identity primary key,
    tenant_id text collate "C" not null default '',
    execution uuid not null,
    seq bigint not null,
    ordinal integer not null,
    ts timestamptz not null,
    level text not null,
    category text not null,
    data jsonb not null,
    unique (execution, seq, ordinal)
);

create table workflow_resource_links (
    tenant_id text collate "C" not null default '',
    execution uuid not null,
    action text not null,
    system_name text collate "C" not null,
    resource_type text collate "C" not null,
    resource_id text collate "C" not null,
    external_url text,
    created_at timestamptz not null default now(),
    -- The record that made the link, and its place in it.
    seq bigint not null,
    ordinal integer not null,
    primary key (tenant_id, system_name, resource_type, resource_id)
);
create index workflow_resource_links_execution
    on workflow_resource_links (execution, seq, ordinal);

-- `payload` has the bytes; `payload_json` shows them, or names them if jsonb cannot hold them.
create table dead_letters (
    id uuid primary key,
    tenant_id text collate "C" not null default '',
    workflow text collate "C" not null,
    enqueued_at timestamptz not null,
    reason text not null,
    payload_json jsonb not null,
    attempts bigint not null,
    last_error text,
    payload bytea not null
);

create table audit (
    number bigint primary key,
    tenant_id text collate "C" not null default '',
    tenant_number bigint not null,
    at timestamptz not null,
    actor text not null,
    origin text not null,
    action text not null,
    target text not null,
    detail text not null,
    unique (tenant_id, tenant_number)
);

create table schedules (
    tenant_id text collate "C" not null default '',
    id text collate "C" not null,
    workflow text collate "C" not null,
    cron text,
    every_ms bigint,
    timezone text not null,
    trigger text not null,
    labels jsonb,
    priority smallint not null,
    is_enabled boolean not null,
    catch_up text not null,
    overlap text not null,
    changed_at timestamptz not null,
    next_at timestamptz,
    last_at timestamptz,
    last_run uuid,
    last_error text,
    revision bigint not null,
    primary key (tenant_id, id)
);
create index schedules_next on schedules (next_at) where next_at is not null;

create table hooks (
    tenant_id text collate "C" not null default '',
    id text collate "C" not null,
    workflow text collate "C" not null,
    token bytea not null unique,
    secret text not null,
    created_at timestamptz not null,
    primary key (tenant_id, id)
);

create table secrets (
    tenant_id text collate "C" not null default '',
    name text collate "C" not null,
    sealed bytea not null,
    updated_at timestamptz not null,
    primary key (tenant_id, name)
);

create table note (
    kind text collate "C" not null,
    key text collate "C" not null,
    body bytea not null,
    primary key (kind, key)
);

create table session (
    id bigint generated always as identity primary key,
    name text not null,
    duration_ms bigint not null,
    -- The first moment, by clock_ms, at which the session is not live.
    until_ms bigint not null
);

create table partition_lease (
    number integer primary key,
    holder bigint
);

-- The queue may lose its items: the log knows which attempts are open.
create sequence work_age;
create sequence work_lease;
create unlogged table work (
    run uuid not null,
    instance bigint not null,
    attempt bigint not null,
    tenant_id text collate "C" not null,
    action text collate "C" not null,
    requires text[] not null,
    priority smallint not null,
    age bigint not null,
    payload bytea not null,
    deliveries bigint not null default 0,
    stop boolean not null default false,
    lease bigint,
    worker text collate "C",
    session bigint,
    term_ms bigint,
    until_ms bigint,
    primary key (run, instance, attempt)
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500,
        autovacuum_vacuum_cost_delay = 0);
create index work_waiting on work (tenant_id, action, priority desc, age) where lease is null;
create index work_leased on work (tenant_id, worker) where lease is not null;
