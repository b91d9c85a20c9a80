-- What a process says of itself, as JSON, and when its session began. A process of an older
-- version says nothing: it has every role.
alter table session add column process text not null default '{}';
alter table session add column began_ms bigint not null default clock_ms();

-- When a worker first got the item; an attempt's time counts from there.
alter table work add column begun_ms bigint;
create index work_waiting_any on work (action, priority desc, age) where lease is null;
