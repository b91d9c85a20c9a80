-- What one process does for all (schedules, retention, a job over many runs), and which session
-- does it. A holder that is not live holds nothing.
create table named_lease (
    name text collate "C" primary key,
    holder bigint
);
