-- Bells that bring what was offered: any user of the database may listen to a channel whose name is
-- known, so the name is known to those alone who may read the tables.
insert into windlass_meta (key, value)
    values ('items_channel', 'windlass_' || replace(gen_random_uuid()::text, '-', ''));
