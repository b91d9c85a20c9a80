-- What workflows are for, as their newest versions say. A definition that its column only names is
-- read from its bytes, if jsonb takes it; else the next version that is published sets it.
update workflows w
    set description = replace(d.definition_json ->> 'description', chr(9216), repeat(chr(9216), 2))
    from workflow_definitions d
    where d.tenant_id = w.tenant_id and d.workflow = w.id and d.version = w.current_version
        and not d.definition_json ? '$reference';

do $$
declare
    named record;
begin
    for named in
        select d.tenant_id, d.workflow, d.definition from workflows w
        join workflow_definitions d on d.tenant_id = w.tenant_id and d.workflow = w.id
            and d.version = w.current_version
        where d.definition_json ? '$reference'
    loop
        begin
            update workflows w
                set description = replace(
                    convert_from(named.definition, 'UTF8')::jsonb ->> 'description',
                    chr(9216), repeat(chr(9216), 2))
                where w.tenant_id = named.tenant_id and w.id = named.workflow;
        exception when others then
            null;
        end;
    end loop;
end $$;
