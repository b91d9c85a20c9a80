//! Outcomes of the queue: an offer to the owner of a run that takes the item with it, in one
//! statement. A worker that lost the item to another offers nothing.

use std::sync::Arc;

use windlass_core::RunId;
use windlass_store::{Bell, Error, ItemOutcome, Partition, Pending, SettleAnswer};

use crate::codec::{signed, text, uuid, version};
use crate::error::Fault;
use crate::notify;
use crate::store::{PostgresStore, Session, blockable};

/// Items are locked in the order of their keys, as those that are completed; offers go in the order
/// of theirs.
const SETTLE: &str = "with i as (select * from unnest($1::uuid[], $2::text[], $3::int4[], \
     $4::bytea[], $5::int8[], $6::int8[], $7::int8[], $8::text[]) with ordinality \
     as t(run, key, partition, body, instance, attempt, lease, worker, n)), \
     l as materialized (select i.n, w.run, w.instance, w.attempt, \
     (coalesce(w.lease, w.last_lease) <> i.lease \
     and coalesce(w.worker, w.last_worker) <> i.worker) is true as lost \
     from i join work w on w.run = i.run and w.instance = i.instance and w.attempt = i.attempt \
     order by w.run, w.instance, w.attempt for update of w), \
     d as (delete from work w using l where w.run = l.run and w.instance = l.instance \
     and w.attempt = l.attempt and not l.lost), \
     k as materialized (select i.* from i where not exists \
     (select from l where l.n = i.n and l.lost)), \
     o as (insert into inbox (run, key, partition, body) select run, key, partition, body from k \
     order by run, key collate \"C\" on conflict do nothing) \
     select k.n";

/// One outcome, with its bell, which brings it.
const ALONE: &str = ", pg_notify((select value from windlass_meta where key = 'items_channel'), $9) \
     from k";
const TOGETHER: &str = " from k";

/// What became of an outcome.
#[derive(Clone, Copy)]
pub(crate) struct Settled {
    is_offered: bool,
    is_rung: bool,
}

/// Offers outcomes.
pub(crate) fn send(
    session: Session,
    outcomes: Arc<Vec<ItemOutcome>>,
) -> Pending<'static, Result<Vec<Settled>, Fault>> {
    Box::pin(async move {
        let offers = || outcomes.iter().map(|it| &it.offer);
        let runs: Vec<_> = offers().map(|offer| uuid(offer.run)).collect();
        let keys: Vec<_> = offers().map(|offer| text(&offer.key)).collect();
        let partitions: Vec<_> = offers().map(|it| version(it.partition.0)).collect();
        let bodies: Vec<&[u8]> = offers().map(|offer| &offer.bytes[..]).collect();
        let instances: Vec<i64> = outcomes.iter().map(|it| it.key.instance.into()).collect();
        let attempts: Vec<i64> = outcomes.iter().map(|it| it.key.attempt.into()).collect();
        let leases: Vec<i64> = outcomes.iter().map(|it| signed(it.lease.0)).collect();
        let workers: Vec<_> = outcomes.iter().map(|it| text(&it.worker)).collect();
        let mut parameters: Vec<&(dyn tokio_postgres::types::ToSql + Sync)> = vec![
            &runs,
            &keys,
            &partitions,
            &bodies,
            &instances,
            &attempts,
            &leases,
            &workers,
        ];
        let alone = match &outcomes[..] {
            [one] => Some(notify::with_item(&one.offer)),
            _ => None,
        };
        let end = if alone.is_some() { ALONE } else { TOGETHER };
        if let Some(payload) = &alone {
            parameters.push(payload);
        }
        let rows = session.rows(&format!("{SETTLE}{end}"), &parameters).await?;
        let mut settled = vec![
            Settled {
                is_offered: false,
                is_rung: alone.is_some(),
            };
            outcomes.len()
        ];
        for row in rows {
            let place = usize::try_from(row.try_get::<_, i64>(0)? - 1).ok();
            if let Some(one) = place.and_then(|place| settled.get_mut(place)) {
                one.is_offered = true;
            }
        }
        Ok(settled)
    })
}

impl PostgresStore {
    pub(crate) fn settle_outcome(
        &self,
        outcome: ItemOutcome,
    ) -> Pending<'_, Result<SettleAnswer, Error>> {
        let (partition, run): (Partition, RunId) = (outcome.offer.partition, outcome.offer.run);
        let settled = self.one_together(|lines| &lines.outcomes, outcome);
        let inner = Arc::clone(&self.inner);
        blockable(async move {
            let settled = settled.await?;
            if settled.is_offered && !settled.is_rung {
                inner.bells.ring_beside(vec![Bell::Offered(partition, run)]);
            }
            Ok(match settled.is_offered {
                true => SettleAnswer::Offered,
                false => SettleAnswer::Lost,
            })
        })
    }
}
