//! Places where the crash tests kill the process. Without the feature `crash-points` they
//! compile to nothing.
//!
//! `WINDLASS_CRASH_AT=point:count` names one place and how often it is passed before the
//! kill; with a third number the kill comes that many steps of 150 µs later. It is a real SIGKILL: nothing is flushed, dropped or answered after it.

#[cfg(all(feature = "crash-points", unix))]
pub use armed::{during, point, setting};

/// A place where the process may be killed.
#[cfg(not(all(feature = "crash-points", unix)))]
#[inline(always)]
pub fn point(_: &'static str) {}

/// The process may be killed while what follows goes on.
#[cfg(not(all(feature = "crash-points", unix)))]
#[inline(always)]
pub fn during(_: &'static str) {}

/// A constant that a test changes so that something rare happens often.
#[cfg(not(all(feature = "crash-points", unix)))]
#[inline(always)]
pub fn setting(_: &'static str) -> Option<u64> {
    None
}

#[cfg(all(feature = "crash-points", unix))]
mod armed {
    use std::env;
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::thread;
    use std::time::Duration;

    use rustix::process::{Signal, getpid, kill_process};

    /// How much later a kill during something comes for each step.
    const STEP: Duration = Duration::from_micros(150);

    struct Plan {
        point: String,
        count: u64,
        steps: u32,
        passed: AtomicU64,
    }

    static PLAN: LazyLock<Option<Plan>> = LazyLock::new(|| {
        let text = env::var("WINDLASS_CRASH_AT").ok()?;
        let mut parts = text.split(':');
        Some(Plan {
            point: parts.next()?.to_owned(),
            count: parts.next().unwrap_or("1").parse().ok()?,
            steps: parts.next().unwrap_or("0").parse().ok()?,
            passed: AtomicU64::new(0),
        })
    });

    /// Kills the process at the chosen passing of the chosen point. With steps, this thread
    /// stays there for a while first, and the others have time to go on too early.
    pub fn point(name: &'static str) {
        if let Some(plan) = due(name) {
            thread::sleep(STEP.saturating_mul(plan.steps));
            kill();
        }
    }

    /// Kills the process from another thread while what follows goes on.
    pub fn during(name: &'static str) {
        if let Some(plan) = due(name) {
            thread::spawn(|| {
                thread::sleep(STEP.saturating_mul(plan.steps));
                kill();
            });
        }
    }

    fn due(name: &str) -> Option<&'static Plan> {
        let plan = PLAN.as_ref().filter(|plan| plan.point == name)?;
        (plan.passed.fetch_add(1, Ordering::Relaxed) + 1 == plan.count).then_some(plan)
    }

    /// The number in an environment variable.
    pub fn setting(name: &'static str) -> Option<u64> {
        env::var(name).ok()?.parse().ok()
    }

    fn kill() -> ! {
        // Should the kernel refuse, the process hangs, which the test notices.
        let _ = kill_process(getpid(), Signal::KILL);
        loop {
            thread::park();
        }
    }
}
