//! Checkpoints: one per run, answered only while it lies on the run's chain.

use windlass_core::RunId;
use windlass_store::{Checkpoint, Head};

use crate::codec::{Columns as _, signed, uuid};
use crate::error::Fault;
use crate::read;
use crate::store::Session;

const PUT: &str = "insert into checkpoint (run, seq, append_id, chain, body) \
     values ($1, $2, $3, $4, $5) on conflict (run) do update set seq = excluded.seq, \
     append_id = excluded.append_id, chain = excluded.chain, body = excluded.body";

const GET: &str = "select seq, append_id, chain, body from checkpoint where run = $1";

pub(crate) async fn put(
    session: &Session,
    run: RunId,
    checkpoint: &Checkpoint,
) -> Result<(), Fault> {
    let Head {
        sequence,
        append_id,
        chain,
    } = checkpoint.head;
    let (sequence, append_id) = (signed(sequence), signed(append_id));
    let chain = &chain[..];
    session
        .execute(
            PUT,
            &[&uuid(run), &sequence, &append_id, &chain, &checkpoint.bytes],
        )
        .await?;
    Ok(())
}

pub(crate) async fn get(session: &Session, run: RunId) -> Result<Option<Checkpoint>, Fault> {
    let Some(row) = session.first(GET, &[&uuid(run)]).await? else {
        return Ok(None);
    };
    let Ok(head) = row.head(0) else {
        return Ok(None);
    };
    if head.sequence == 0 {
        return Ok(None);
    }
    // A damaged log is named when it is read; a checkpoint on it is none.
    let page = read::page(session, run, head.sequence, 1).await;
    let there = page.is_ok_and(|page| page.first().is_some_and(|record| record.head() == head));
    match there {
        true => Ok(Some(Checkpoint {
            head,
            bytes: row.try_get(3)?,
        })),
        false => Ok(None),
    }
}
