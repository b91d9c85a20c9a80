//! How an engine leaves the processes that share its store: it hands its partitions over within
//! a second, and finishes the attempts that its workers have begun under its session.

use std::time::Duration;

use tokio::time::Instant;
use windlass_store::{Leases, ProcessInfo, Role, Roles};

use crate::engine::Engine;

/// How long the store may take to answer one question.
const ANSWER: Duration = Duration::from_secs(1);

/// How long handing over may take: the time of a hand-over, and the answers of the store.
const HAND_OVER: Duration = Duration::from_secs(3);

impl Engine {
    /// Begins to stop beside what the process still does for its callers: it pulls no more work
    /// and, if another process can take them, hands its partitions over at once. Without another
    /// one they stay until [`Self::shutdown`], so that callers who wait for a run get its end.
    pub async fn begin_shutdown(&self) {
        if !self.shared().owned.is_shared() {
            return;
        }
        self.leaves_since();
        let owns = self.options().roles.has(Role::Orchestrator);
        if !owns || self.has_heir().await {
            self.begin_leaving();
            self.hand_over_partitions().await;
        }
    }

    /// When the engine began to leave: now, if it has not before.
    fn leaves_since(&self) -> Instant {
        *self.shared().leaving.get_or_init(Instant::now)
    }

    /// Pulls no more work; when the engine began to leave.
    pub(crate) fn begin_leaving(&self) -> Instant {
        let since = self.leaves_since();
        self.shared().remote.shared.pull_no_more();
        // The task gives its lease up.
        self.shared().schedules.notify_one();
        since
    }

    /// Whether another live process can own runs.
    async fn has_heir(&self) -> bool {
        let mine = self.shared().owned.session();
        let live = Leases::sessions(&**self.store());
        let Ok(Ok(live)) = tokio::time::timeout(ANSWER, live).await else {
            return false;
        };
        let mut others = live.iter().filter(|it| Some(it.session) != mine);
        others.any(|it| it.process.roles.has(Role::Orchestrator))
    }

    /// Says that this process takes part no more, and hands every partition over.
    pub(crate) async fn hand_over_partitions(&self) {
        let owned = &self.shared().owned;
        if let Some(session) = owned.session() {
            let process = self.process_info();
            let goes_on = |role: &Role| !matches!(role, Role::Orchestrator | Role::Scheduler);
            let roles: Roles = process.roles.iter().filter(goes_on).collect();
            let process = ProcessInfo {
                roles,
                slots: 0,
                actions: Vec::new(),
                ..process
            };
            // Without an answer the others take the partitions when the session is over.
            let told = self.store().describe(session, &process);
            let _ = tokio::time::timeout(ANSWER, told).await;
        }
        owned.hand_over(HAND_OVER).await;
    }
}
