-- Pools: named limits on attempts, and who holds or wants their slots.

create table pools (
    tenant_id text collate "C" not null default '',
    name text collate "C" not null,
    slots integer not null check (slots > 0),
    updated_at timestamptz not null,
    primary key (tenant_id, name)
);

-- One row for each attempt that holds slots (held) or waits for them.
create table pool_slots (
    run uuid not null,
    instance bigint not null,
    attempt bigint not null,
    tenant_id text collate "C" not null,
    pool text collate "C" not null,
    node text not null,
    slots integer not null,
    held boolean not null default false,
    rank smallint not null,
    priority smallint not null,
    since bigint not null,
    partition integer not null,
    primary key (run, instance, attempt)
);
create index pool_slots_line on pool_slots
    (tenant_id, pool, held, rank, priority desc, since, run, instance, attempt);
create index pool_slots_partition on pool_slots (partition, run, instance, attempt);
