//! Whether an action may be called now.
//!
//! An attempt is handed out under a session. Until its action is called, time passes: for a place
//! among the actions under way, for values and parameters, or because the process stands still.
//! Another process may have the attempt by then, and its slots of a pool, so the session is looked
//! at again immediately before the call.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use windlass_store::SessionId;

use crate::shared::Shared;

/// How often a session that is in doubt is looked at.
const LOOK: Duration = Duration::from_millis(50);

/// The right to call the action of an attempt.
#[derive(Clone)]
pub(crate) struct Permit {
    shared: Arc<Shared>,
    session: Option<SessionId>,
}

impl Permit {
    /// For an attempt that is handed out now.
    pub(crate) fn now(shared: &Arc<Shared>) -> Self {
        Self {
            session: shared.owned.joined(),
            shared: Arc::clone(shared),
        }
    }

    /// For an attempt that is leased to a session.
    pub(crate) fn of(shared: &Arc<Shared>, session: SessionId) -> Self {
        Self {
            session: Some(session),
            shared: Arc::clone(shared),
        }
    }

    /// Whether the session has ended, so that the attempt is no longer this process's.
    pub(crate) fn is_over(&self) -> bool {
        let owned = &self.shared.owned;
        owned.is_shared() && (self.session.is_none() || owned.joined() != self.session)
    }

    /// Whether the action may be called at this moment. While the session is in doubt this waits:
    /// it is renewed, or the backend says that it has ended. An attempt that is asked to stop
    /// meanwhile does not begin.
    pub(crate) async fn is_granted(&self, stop: &CancellationToken) -> bool {
        let owned = &self.shared.owned;
        loop {
            if !owned.is_shared() || self.session.is_some() && owned.session() == self.session {
                return true;
            }
            if self.is_over() {
                return false;
            }
            tokio::select! {
                () = stop.cancelled() => return false,
                () = tokio::time::sleep(LOOK) => {}
            }
        }
    }
}
