-- Runs are found by the codes of their root causes, by the run they were forked from, and apart from
-- child runs. Rows that are there have the code of their error alone, because the rest stands in
-- their logs.
alter table workflow_executions add column cause_codes jsonb;
alter table workflow_executions add column origin uuid;
create index workflow_executions_error on workflow_executions (error_code, id desc)
    where error_code is not null;
create index workflow_executions_causes
    on workflow_executions using gin (cause_codes jsonb_path_ops) where cause_codes is not null;
create index workflow_executions_origin on workflow_executions (origin, id)
    where origin is not null;
create index workflow_executions_roots on workflow_executions (id desc) where parent is null;
create index workflow_executions_asleep on workflow_executions (id desc)
    where status = 'Running' and asleep;
create index workflow_executions_dead on workflow_executions (id desc) where dead;
