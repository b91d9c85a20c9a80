//! Moving everything into or out of the database; the mark of a schema that is not complete stands
//! in `windlass_meta`, and opening the schema looks for it (`migrate.rs`).

use windlass_store::{Error, Pending, StoredClaim, Transfer};

use crate::codec::{Columns as _, limit, text};
use crate::store::PostgresStore;

/// The key of the mark.
pub(crate) const MARK: &str = "migration";

const CLAIMS: &str = "select namespace, key, value from claim \
     where $1::text is null or (namespace, key) > ($1, $2) order by namespace, key limit $3";
const PUT: &str = "insert into claim (namespace, key, value) \
     select * from unnest($1::text[], $2::text[], $3::bytea[]) as c(namespace, key, value) \
     order by namespace collate \"C\", key collate \"C\" on conflict do nothing";
const KINDS: &str = "select distinct kind from note order by kind";
const READ: &str = "select value from windlass_meta where key = $1";
const BEGIN: &str = "insert into windlass_meta values ($1, $2) \
     on conflict (key) do update set value = excluded.value";
const END: &str = "delete from windlass_meta where key = $1";

impl Transfer for PostgresStore {
    fn partitions(&self) -> u32 {
        self.inner.opened.partitions
    }

    fn claims(
        &self,
        after: Option<(&str, &str)>,
        count: usize,
    ) -> Pending<'_, Result<Vec<StoredClaim>, Error>> {
        let owned = |it: &str| text(it).into_owned();
        let (namespace, key) = (after.map(|it| owned(it.0)), after.map(|it| owned(it.1)));
        self.call_long(move |session| async move {
            let rows = session
                .rows(CLAIMS, &[&namespace, &key, &limit(count)])
                .await?;
            let claims = rows.iter().map(|row| {
                Ok(StoredClaim {
                    namespace: row.text(0)?,
                    key: row.text(1)?,
                    value: row.try_get(2)?,
                })
            });
            claims.collect()
        })
    }

    fn put_claims(&self, claims: Vec<StoredClaim>) -> Pending<'_, Result<(), Error>> {
        self.call_long(move |session| async move {
            let words = |of: fn(&StoredClaim) -> &str| -> Vec<String> {
                claims.iter().map(|it| text(of(it)).into_owned()).collect()
            };
            let (namespaces, keys) = (words(|it| &it.namespace), words(|it| &it.key));
            let values: Vec<&[u8]> = claims.iter().map(|it| &it.value[..]).collect();
            session.execute(PUT, &[&namespaces, &keys, &values]).await?;
            Ok(())
        })
    }

    fn note_kinds(&self) -> Pending<'_, Result<Vec<Box<str>>, Error>> {
        self.call_long(move |session| async move {
            let rows = session.rows(KINDS, &[]).await?;
            rows.iter().map(|row| row.text(0)).collect()
        })
    }

    fn migration(&self) -> Pending<'_, Result<Option<String>, Error>> {
        self.call_long(move |session| async move {
            let row = session.first(READ, &[&MARK]).await?;
            Ok(row.map(|row| row.try_get(0)).transpose()?)
        })
    }

    fn begin_migration(&self, mark: &str) -> Pending<'_, Result<(), Error>> {
        let mark = mark.to_owned();
        self.call_long(move |session| async move {
            session.execute(BEGIN, &[&MARK, &mark]).await?;
            Ok(())
        })
    }

    fn end_migration(&self) -> Pending<'_, Result<(), Error>> {
        self.call_long(move |session| async move {
            session.execute(END, &[&MARK]).await?;
            Ok(())
        })
    }
}
