-- The text of a plan that `plan_json` only names; null where that column has it. Plans without
-- their texts are made again.
alter table workflow_plans add column plan bytea;
delete from workflow_plans where plan_json ? '$reference';

create function plan_text(tenant text, workflow_id text, number integer) returns text
language sql stable set search_path from current as $$
    select coalesce(convert_from(plan, 'UTF8'), plan_json::text) from workflow_plans
    where tenant_id = tenant and workflow = workflow_id and version = number
$$;
