//! Notes: small records by kind and key.

use windlass_store::{Error, KeyValue, Note, Pending};

use crate::codec::{Columns as _, limit, text};
use crate::store::PostgresStore;

const KEEP: &str = "insert into note (kind, key, body) values ($1, $2, $3) \
     on conflict (kind, key) do update set body = excluded.body";
const GET: &str = "select body from note where kind = $1 and key = $2";
const LIST: &str = "select key, body from note where kind = $1 \
     and ($2::text is null or key > $2) order by key limit $3";
const FORGET: &str = "delete from note where kind = $1 and key = $2";

impl KeyValue for PostgresStore {
    fn keep_note(&self, kind: &str, key: &str, bytes: Vec<u8>) -> Pending<'_, Result<(), Error>> {
        let (kind, key) = (text(kind).into_owned(), text(key).into_owned());
        self.call(move |session| async move {
            session.execute(KEEP, &[&kind, &key, &bytes]).await?;
            Ok(())
        })
    }

    fn note_at(&self, kind: &str, key: &str) -> Pending<'_, Result<Option<Vec<u8>>, Error>> {
        let (kind, key) = (text(kind).into_owned(), text(key).into_owned());
        self.call(move |session| async move {
            let row = session.first(GET, &[&kind, &key]).await?;
            Ok(row.map(|row| row.try_get(0)).transpose()?)
        })
    }

    fn notes(
        &self,
        kind: &str,
        after: Option<&str>,
        count: usize,
    ) -> Pending<'_, Result<Vec<Note>, Error>> {
        let kind = text(kind).into_owned();
        let after = after.map(|after| text(after).into_owned());
        self.call(move |session| async move {
            let rows = session.rows(LIST, &[&kind, &after, &limit(count)]).await?;
            rows.iter()
                .map(|row| Ok((row.text(0)?, row.try_get(1)?)))
                .collect()
        })
    }

    fn forget_note(&self, kind: &str, key: &str) -> Pending<'_, Result<bool, Error>> {
        let (kind, key) = (text(kind).into_owned(), text(key).into_owned());
        self.call(
            move |session| async move { Ok(session.execute(FORGET, &[&kind, &key]).await? > 0) },
        )
    }
}
