//! What was offered to runs, and what owners refused. The append that records an item removes it
//! and fails if it does not wait (`append.rs`).

use std::collections::HashSet;
use std::sync::Arc;

use windlass_core::RunId;
use windlass_store::{
    Error, Inbox, InboxBounds, InboxItem, Offer, OfferAnswer, Partition, Partitions, Pending,
    offered_bells,
};

use crate::codec::{Columns as _, limit, numbers, text, uuid, version};
use crate::error::Fault;
use crate::store::{PostgresStore, Session, blockable};

/// In the order of the keys, so that offers of different processes do not deadlock.
const OFFER: &str = "insert into inbox (run, key, partition, body) \
     select * from unnest($1::uuid[], $2::text[], $3::int4[], $4::bytea[]) as t(run, key, partition, body) \
     order by run, key collate \"C\" on conflict do nothing returning run, key";
/// One offer, with its bell: a notification of its own would be one more way to the database.
const OFFER_ALONE: &str = "with o as (insert into inbox (run, key, partition, body) \
     select * from unnest($1::uuid[], $2::text[], $3::int4[], $4::bytea[]) \
     on conflict do nothing returning run, key, partition) \
     select o.run, o.key, pg_notify('windlass_' || current_schema(), \
     'o' || o.partition || '.' || o.run) from o";
/// The first item, and those after it that keep within the bytes.
const PAGE: &str = "select key, body, number from (select key, body, number, \
     sum(octet_length(body)) over o as total, row_number() over o as n from \
     (select key, body, number from inbox where run = $1 and refusal is null and number > $2 \
     order by number limit $3) i window o as (order by number)) p \
     where n = 1 or total <= $4 order by number";
const COUNT: &str = "select count(*) from (select from inbox where run = $1 and refusal is null \
     limit $2) c";
const OFFERED: &str = "select distinct run from inbox where refusal is null \
     and ($1::int4[] is null or partition = any($1)) \
     and ($2::uuid is null or run > $2) order by run limit $3";
const REFUSE: &str =
    "update inbox set refusal = $3 where run = $1 and key = $2 and refusal is null";
const ANSWER: &str = "select refusal from inbox where run = $1 and key = $2";
const DISCARD: &str = "delete from inbox where run = $1 and key = $2";

/// What became of an offer.
#[derive(Clone, Copy)]
pub(crate) struct Offered {
    is_first: bool,
    is_rung: bool,
}

/// Keeps offers.
pub(crate) fn send(
    session: Session,
    offers: Arc<Vec<Offer>>,
) -> Pending<'static, Result<Vec<Offered>, Fault>> {
    Box::pin(async move {
        let runs: Vec<_> = offers.iter().map(|offer| uuid(offer.run)).collect();
        let keys: Vec<_> = offers.iter().map(|offer| text(&offer.key)).collect();
        let partitions: Vec<_> = offers.iter().map(|it| version(it.partition.0)).collect();
        let bodies: Vec<&[u8]> = offers.iter().map(|offer| &offer.bytes[..]).collect();
        let is_alone = offers.len() == 1;
        let sql = if is_alone { OFFER_ALONE } else { OFFER };
        let rows = session
            .rows(sql, &[&runs, &keys, &partitions, &bodies])
            .await?;
        let mut added: HashSet<(RunId, Box<str>)> = HashSet::with_capacity(rows.len());
        for row in &rows {
            added.insert((row.run(0)?, row.text(1)?));
        }
        // Of two offers under one key the first wins.
        let answers = offers.iter().map(|offer| Offered {
            is_first: added.remove(&(offer.run, offer.key.clone())),
            is_rung: is_alone,
        });
        Ok(answers.collect())
    })
}

impl Inbox for PostgresStore {
    fn offer(&self, offers: Vec<Offer>) -> Pending<'_, Result<Vec<bool>, Error>> {
        let runs: Vec<(Partition, RunId)> =
            offers.iter().map(|it| (it.partition, it.run)).collect();
        let offered = self.together(|lines| &lines.offers, offers);
        let inner = Arc::clone(&self.inner);
        blockable(async move {
            let offered = offered.await?;
            let firsts: Vec<bool> = offered.iter().map(|it| it.is_first).collect();
            if offered.iter().any(|it| !it.is_rung) {
                inner.bells.ring_beside(offered_bells(&runs, &firsts));
            }
            Ok(firsts)
        })
    }

    fn inbox_page(
        &self,
        run: RunId,
        after: u64,
        most: InboxBounds,
    ) -> Pending<'_, Result<Vec<InboxItem>, Error>> {
        self.call_queue(move |session| async move {
            let after = i64::try_from(after).unwrap_or(i64::MAX);
            let (items, bytes) = (limit(most.items), limit(most.bytes));
            let rows = session
                .rows(PAGE, &[&uuid(run), &after, &items, &bytes])
                .await?;
            let items = rows.iter().map(|row| {
                Ok(InboxItem {
                    key: row.text(0)?,
                    bytes: row.try_get(1)?,
                    number: row.number(2)?,
                })
            });
            items.collect()
        })
    }

    fn waiting_items(&self, run: RunId, most: usize) -> Pending<'_, Result<usize, Error>> {
        self.call(move |session| async move {
            let row = session.first(COUNT, &[&uuid(run), &limit(most)]).await?;
            let count = row.map_or(Ok(0), |row| row.try_get::<_, i64>(0))?;
            Ok(usize::try_from(count).unwrap_or(most))
        })
    }

    fn offered(
        &self,
        partitions: &Partitions,
        after: Option<RunId>,
        count: usize,
    ) -> Pending<'_, Result<Vec<RunId>, Error>> {
        let partitions = numbers(partitions);
        self.call(move |session| async move {
            let after = after.map(uuid);
            let rows = session
                .rows(OFFERED, &[&partitions, &after, &limit(count)])
                .await?;
            rows.iter().map(|row| row.run(0)).collect()
        })
    }

    fn refuse(&self, run: RunId, key: &str, reason: &[u8]) -> Pending<'_, Result<bool, Error>> {
        let (key, reason) = (text(key).into_owned(), reason.to_vec());
        self.call(move |session| async move {
            let refused = session
                .execute(REFUSE, &[&uuid(run), &key, &reason])
                .await?;
            Ok(refused > 0)
        })
    }

    fn answer(&self, run: RunId, key: &str) -> Pending<'_, Result<Option<OfferAnswer>, Error>> {
        let key = text(key).into_owned();
        self.call_queue(move |session| async move {
            let row = session.first(ANSWER, &[&uuid(run), &key]).await?;
            let answer = row.map(|row| {
                let refusal: Option<Vec<u8>> = row.try_get(0)?;
                Ok(refusal.map_or(OfferAnswer::Waiting, OfferAnswer::Refused))
            });
            answer.transpose()
        })
    }

    fn discard(&self, run: RunId, key: &str) -> Pending<'_, Result<bool, Error>> {
        let key = text(key).into_owned();
        self.call(move |session| async move {
            let removed = session.execute(DISCARD, &[&uuid(run), &key]).await?;
            Ok(removed > 0)
        })
    }
}
