-- Links have an id, the same however often they are made again from the log, and those that SQL
-- made name the attempt.
alter table workflow_resource_links add column id uuid not null generated always as (
    md5(md5(tenant_id) || md5(system_name) || md5(resource_type) || md5(resource_id))::uuid) stored;
alter table workflow_resource_links add column action_execution uuid;

create or replace function sp_link_external_resource(
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
    insert into workflow_resource_links (tenant_id, execution, action, action_execution,
        system_name, resource_type, resource_id, external_url, seq, ordinal)
        values (owner, execution_id, node, action_execution_id, system, type,
            sp_link_external_resource.resource_id, sp_link_external_resource.external_url, -1, 0)
        on conflict do nothing;
    return found;
end $$;

-- Allows more than before, so the rows that are there need no check.
alter table execution_events drop constraint execution_events_level_check;
alter table execution_events add constraint execution_events_level_check
    check (level in ('debug', 'info', 'warn', 'error')) not valid;

-- Also finds the attempts of a node by their status.
create index action_executions_node_status on action_executions (execution, node_id, status);
drop index action_executions_node;
