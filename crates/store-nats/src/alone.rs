//! A rebuild needs the installation for itself: it makes streams again that processes which serve
//! still hold for the old ones. Sessions say who serves.
//!
//! A process that was killed leaves a session that no process renews. It counts until it has not been
//! renewed for its whole duration, by this process's own clock.

use std::time::{Duration, Instant};

use windlass_store::Error;

use crate::OpenError;
use crate::error::unreadable;
use crate::lease_state::{LeaseState, Observations};
use crate::leases::KEY;
use crate::names::{Names, bucket_key};
use crate::table::Table;

/// How often the sessions are looked at.
const LOOK: Duration = Duration::from_millis(200);

/// A process whose session was deleted joins again within this time, with its next renewal.
const JOINS_AGAIN: Duration = Duration::from_secs(4);

/// Waits until no session is live; refuses if one is renewed meanwhile. `was_there` says whether
/// the bucket with the sessions was.
pub(crate) async fn alone(names: &Names, leases: &Table, was_there: bool) -> Result<(), OpenError> {
    let subject = bucket_key(&names.lease_bucket(), KEY);
    let begun = Instant::now();
    let least = match was_there {
        true => Duration::ZERO,
        false => JOINS_AGAIN,
    };
    let mut observed = Observations::default();
    let mut first: Option<LeaseState> = None;
    loop {
        let mut state = sessions(leases, &subject).await.map_err(OpenError::Away)?;
        let now = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        observed.look(&state, now);
        state.expire(&observed, now);
        let before = first.get_or_insert_with(|| state.clone());
        let serving = state.renewed_since(before);
        if !serving.is_empty() {
            return Err(OpenError::refused(format!(
                "{} still serves this installation; stop all servers, then run `windlass rebuild \
                 --from postgres` again",
                serving.join(", ")
            )));
        }
        if !state.has_live() && begun.elapsed() >= least {
            return Ok(());
        }
        tokio::time::sleep(LOOK).await;
    }
}

async fn sessions(leases: &Table, subject: &str) -> Result<LeaseState, Error> {
    let Some(row) = leases.row(subject).await? else {
        return Ok(LeaseState::default());
    };
    serde_json::from_slice(&row.payload).map_err(|error| unreadable(subject, &error))
}
