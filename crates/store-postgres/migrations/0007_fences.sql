-- How many records the run had when its owner asked for the slots. A process that lost the run
-- frees nothing that a later owner asked for.
alter table pool_slots add column fence bigint not null default 0;

-- Active runs with a concurrency key, asleep or not: each has a place, or is given one.
create index workflow_executions_gated on workflow_executions (partition, id)
    where status in ('Running', 'Paused') and not dead and concurrency_key is not null;

-- How often a place was taken. A process that saw it before another took it frees nothing.
alter table gate_place add column takes bigint not null default 1;
