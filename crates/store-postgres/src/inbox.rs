//! What was offered to runs. The append that records an item removes it (`append.rs`).

use windlass_core::RunId;
use windlass_store::{Error, Inbox, InboxItem, Pending};

use crate::codec::{Columns as _, limit, text, uuid};
use crate::store::PostgresStore;

const OFFER: &str = "insert into inbox (run, key, body) values ($1, $2, $3) on conflict do nothing";
const ITEMS: &str = "select key, body from inbox where run = $1 order by number";
const OFFERED: &str = "select distinct run from inbox \
     where $1::uuid is null or run > $1 order by run limit $2";

impl Inbox for PostgresStore {
    fn offer(&self, run: RunId, key: &str, bytes: &[u8]) -> Pending<'_, Result<bool, Error>> {
        let (key, bytes) = (text(key).into_owned(), bytes.to_vec());
        self.call(move |session| async move {
            let added = session.execute(OFFER, &[&uuid(run), &key, &bytes]).await?;
            Ok(added > 0)
        })
    }

    fn inbox(&self, run: RunId) -> Pending<'_, Result<Vec<InboxItem>, Error>> {
        self.call(move |session| async move {
            let rows = session.rows(ITEMS, &[&uuid(run)]).await?;
            let items = rows.iter().map(|row| {
                Ok(InboxItem {
                    key: row.text(0)?,
                    bytes: row.try_get(1)?,
                })
            });
            items.collect()
        })
    }

    fn offered(
        &self,
        after: Option<RunId>,
        count: usize,
    ) -> Pending<'_, Result<Vec<RunId>, Error>> {
        self.call(move |session| async move {
            let after = after.map(uuid);
            let rows = session.rows(OFFERED, &[&after, &limit(count)]).await?;
            rows.iter().map(|row| row.run(0)).collect()
        })
    }
}
