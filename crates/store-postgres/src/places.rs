//! Which runs count for a concurrency key, over all processes. The append that ends a run frees
//! its places (`append.rs`).

use windlass_core::RunId;
use windlass_store::{
    Error, GatePlace, HeldPlace, Partition, Partitions, Pending, Places, TakePlace,
};

use crate::codec::{Columns as _, limit, numbers, text, uuid, version};
use crate::error::Fault;
use crate::store::PostgresStore;

/// Holds the gate until the transaction ends, so that no other process counts meanwhile. A lock
/// of its own leaves no row behind for a gate that is never used again.
const LOCK: &str =
    "select pg_advisory_xact_lock(hashtextextended(current_schema() || '/gate/' || $1, 0))";
const TAKE: &str = "insert into gate_place (gate, run, partition) \
     select $1::text, $2::uuid, $3::int4 where $4::int8 is null \
     or exists (select from gate_place where gate = $1 and run = $2) \
     or (select count(*) from gate_place where gate = $1) < $4 \
     on conflict (gate, run) do update set partition = excluded.partition, \
     takes = gate_place.takes + 1 returning takes";
const GIVE: &str = "delete from gate_place \
     using unnest($1::text[], $2::uuid[], $3::int8[]) as t(gate, run, takes) \
     where gate_place.gate = t.gate and gate_place.run = t.run and gate_place.takes = t.takes";
const LIST: &str = "select gate, run, partition, takes from gate_place \
     where ($1::int4[] is null or partition = any($1)) \
     and ($2::text is null or (gate, run) > ($2 collate \"C\", $3::uuid)) \
     order by gate, run limit $4";

impl Places for PostgresStore {
    fn take_places(&self, places: Vec<TakePlace>) -> Pending<'_, Result<Vec<Option<u64>>, Error>> {
        let places = std::sync::Arc::new(places);
        self.call_again(move |mut session| {
            let places = std::sync::Arc::clone(&places);
            async move {
                // In the order of the gates, so that processes do not deadlock.
                let mut order: Vec<usize> = (0..places.len()).collect();
                order.sort_by_key(|&at| &places[at].place.gate);
                let mut answers = vec![None; places.len()];
                let work = session.transaction().await?;
                for at in order {
                    let TakePlace { place, limit } = &places[at];
                    let gate = text(&place.gate);
                    work.rows(LOCK, &[&gate]).await?;
                    let (run, partition) = (uuid(place.run), version(place.partition.0));
                    let most = limit.map(i64::from);
                    let taken = work.rows(TAKE, &[&gate, &run, &partition, &most]).await?;
                    answers[at] = taken.first().map(|row| row.number(0)).transpose()?;
                }
                work.commit().await?;
                Ok(answers)
            }
        })
    }

    fn give_places(&self, places: Vec<HeldPlace>) -> Pending<'_, Result<(), Error>> {
        self.call(move |session| async move {
            let gates: Vec<_> = places.iter().map(|it| text(&it.place.gate)).collect();
            let runs: Vec<_> = places.iter().map(|it| uuid(it.place.run)).collect();
            let takes = places.iter().map(|it| i64::try_from(it.takes).unwrap_or(0));
            let takes: Vec<i64> = takes.collect();
            session.execute(GIVE, &[&gates, &runs, &takes]).await?;
            Ok(())
        })
    }

    fn places(
        &self,
        partitions: &Partitions,
        after: Option<&GatePlace>,
        count: usize,
    ) -> Pending<'_, Result<Vec<HeldPlace>, Error>> {
        let partitions = numbers(partitions);
        let gate = after.map(|place| text(&place.gate).into_owned());
        let run: Option<RunId> = after.map(|place| place.run);
        self.call(move |session| async move {
            let run = run.map(uuid);
            let rows = session
                .rows(LIST, &[&partitions, &gate, &run, &limit(count)])
                .await?;
            let places = rows.iter().map(|row| {
                let place = GatePlace {
                    gate: row.text(0)?,
                    run: row.run(1)?,
                    partition: Partition(u32::try_from(row.try_get::<_, i32>(2)?).unwrap_or(0)),
                };
                let takes = row.number(3)?;
                Ok::<_, Fault>(HeldPlace { place, takes })
            });
            places.collect()
        })
    }
}
