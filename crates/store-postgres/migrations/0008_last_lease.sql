-- The last worker whose lease ran out, and that lease: reports under older ones come too late.
alter table work add column last_lease bigint;
alter table work add column last_worker text collate "C";
