-- Tables that derive from the log and are written behind it, and the functions that programs call.

-- What appends have changed and the projector has not read. It is read behind a watermark: rows of
-- transactions that are over, in the order of their transactions.
create table projection_queue (
    xid xid8 not null default pg_current_xact_id(),
    run uuid not null,
    seq bigint not null,
    at timestamptz not null default now()
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500,
        autovacuum_vacuum_cost_delay = 0);
create index projection_queue_order on projection_queue (xid);

-- How far each run is projected: the last record, and the last event.
create table projection (
    run uuid primary key references workflow_executions (id) on delete cascade,
    seq bigint not null,
    position bigint not null,
    -- Why the run cannot be projected; null if it can.
    problem text
) with (fillfactor = 70);

-- The one process that projects, until its lease is over by clock_ms.
create table projector (
    one boolean primary key default true check (one),
    holder text,
    until_ms bigint not null default 0
);
insert into projector default values;

-- Nothing was ever written to the two tables, so they are made anew.
drop view step_executions;
drop table action_executions;
drop table execution_events;

-- One row per attempt. `node_id` is the path of the node instance.
create table action_executions (
    id uuid primary key,
    tenant_id text collate "C" not null default '',
    execution uuid not null references workflow_executions (id) on delete cascade,
    node_id text collate "C" not null,
    instance bigint not null,
    action_type text not null,
    status text not null check (status in
        ('Running', 'Succeeded', 'Failed', 'RetriableFailure', 'Skipped', 'Cancelled')),
    attempt integer not null,
    retry_count integer not null default 0,
    -- Whether the attempt undoes the node.
    compensation boolean not null default false,
    ancestry_hash text,
    worker text,
    parameters_json jsonb,
    outputs_json jsonb,
    error_json jsonb,
    start_time timestamptz,
    end_time timestamptz,
    unique (execution, instance, attempt)
);
create index action_executions_node on action_executions (execution, node_id);

create view step_executions as
    select id, tenant_id, execution, node_id, instance, action_type, attempt as attempt_number,
        case status when 'Running' then 'running' when 'Succeeded' then 'completed'
            when 'Skipped' then 'completed' when 'Cancelled' then 'canceled' else 'failed' end
            as state,
        status as outcome, ancestry_hash, outputs_json as outputs, error_json as error,
        start_time as started_at, end_time as completed_at
    from action_executions;

-- `position` counts the events of an execution from 1.
create table execution_events (
    id bigint generated always as identity primary key,
    tenant_id text collate "C" not null default '',
    execution uuid not null references workflow_executions (id) on delete cascade,
    position bigint not null,
    ts timestamptz not null,
    level text not null check (level in ('info', 'warn', 'error')),
    category text not null,
    data jsonb not null,
    unique (execution, position)
);

-- The text of a value that a column shows, or names by a reference.
create function value_text(shown jsonb) returns text
language sql stable set search_path from current as $$
    select case when shown ? '$reference' then
        (select convert_from(bytes, 'UTF8') from blob
         where digest = decode(substr(shown ->> '$reference', 8), 'hex'))
        else shown::text end
$$;

-- Runs that SQL has asked for and no process has begun to look at; refused ones are dead letters.
create table start_request (
    id uuid primary key,
    tenant_id text collate "C" not null default '',
    workflow text collate "C" not null,
    workflow_request_id text collate "C" not null,
    trigger_json jsonb not null,
    requested_at timestamptz not null default now(),
    refused_at timestamptz
);
create index start_request_waiting on start_request (requested_at) where refused_at is null;

-- An id as the program makes them: the time in milliseconds, then random bits.
create function new_execution_id() returns uuid language plpgsql volatile as $$
declare
    bytes bytea := uuid_send(gen_random_uuid());
    moment bytea := int8send((extract(epoch from clock_timestamp()) * 1000)::bigint);
begin
    bytes := overlay(bytes placing substring(moment from 3) from 1 for 6);
    bytes := set_byte(bytes, 6, (get_byte(bytes, 6) & 15) | 112);
    return encode(bytes, 'hex')::uuid;
end $$;

-- Asks for a run. The request id is taken at once; a process checks the request and starts the
-- run, or puts it among the dead letters with the reason. A request id that is taken gives the run
-- that holds it.
create function sp_start_workflow_execution(
    workflow_id text, workflow_request_id text, trigger_json jsonb default '{}',
    tenant text default '')
returns table (execution_id uuid, was_existing boolean)
language plpgsql volatile set search_path from current as $$
declare
    sign text := chr(9216);
    found_value bytea;
    claim_key text;
begin
    if workflow_id is null or workflow_id = '' then
        raise exception 'the workflow id is missing' using errcode = '22023';
    end if;
    if workflow_request_id is null or workflow_request_id = ''
        or octet_length(workflow_request_id) > 256 then
        raise exception 'the request id must have 1 to 256 bytes' using errcode = '22023';
    end if;
    claim_key := replace(coalesce(tenant, '') || chr(10) || workflow_id || chr(10)
        || workflow_request_id, sign, sign || sign);
    loop
        execution_id := new_execution_id();
        insert into claim (namespace, key, value)
            values ('request', claim_key, convert_to(execution_id::text || ' *', 'UTF8'))
            on conflict do nothing;
        if found then
            insert into start_request (id, tenant_id, workflow, workflow_request_id, trigger_json)
                values (execution_id, replace(coalesce(tenant, ''), sign, sign || sign),
                    replace(workflow_id, sign, sign || sign),
                    replace(workflow_request_id, sign, sign || sign),
                    coalesce(trigger_json, '{}'));
            perform pg_notify('windlass_' || current_schema(), 'q');
            was_existing := false;
            return next;
            return;
        end if;
        select value into found_value from claim
            where namespace = 'request' and key = claim_key;
        if found then
            execution_id := convert_from(substring(found_value from 1 for 36), 'UTF8')::uuid;
            was_existing := true;
            return next;
            return;
        end if;
    end loop;
end $$;

-- Links something in another system to an execution. A link that exists, of any execution of the
-- tenant, stays as it is. Answers whether the link was made.
create function sp_link_external_resource(
    execution_id uuid, action_execution_id uuid, system text, type text, resource_id text,
    external_url text default null)
returns boolean
language plpgsql volatile set search_path from current as $$
declare
    owner text;
    node text := '';
begin
    select e.tenant_id into owner from workflow_executions e where e.id = execution_id;
    if not found then
        raise exception 'there is no execution %', execution_id using errcode = '02000';
    end if;
    if action_execution_id is not null then
        select a.node_id into node from action_executions a
            where a.id = action_execution_id and a.execution = execution_id;
        if not found then
            raise exception 'execution % has no action execution %', execution_id,
                action_execution_id using errcode = '02000';
        end if;
    end if;
    insert into workflow_resource_links (tenant_id, execution, action, system_name,
        resource_type, resource_id, external_url, seq, ordinal)
        values (owner, execution_id, node, system, type,
            sp_link_external_resource.resource_id, sp_link_external_resource.external_url, -1, 0)
        on conflict do nothing;
    return found;
end $$;
