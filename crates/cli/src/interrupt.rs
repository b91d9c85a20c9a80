//! Ctrl-C and its kin: the first asks to stop cleanly, the second ends at once.

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::exit::{Exit, Failure};
use crate::progress::restore_terminal;

/// Tells whether a signal has asked the process to stop.
#[derive(Clone)]
pub(crate) struct Interrupt {
    asked: watch::Receiver<bool>,
}

/// The signal for a file past its size limit, on Linux.
#[cfg(target_os = "linux")]
const SIGXFSZ: i32 = 25;

impl Interrupt {
    /// Listens from now on. It must be called inside a tokio runtime.
    pub(crate) fn listen() -> Result<Self, Failure> {
        let cannot = |error: std::io::Error| {
            let message = format!("cannot listen for signals: {error}");
            Failure::new(Exit::Storage, "SIGNALS_UNAVAILABLE", message)
        };
        let mut interrupt = signal(SignalKind::interrupt()).map_err(cannot)?;
        let mut terminate = signal(SignalKind::terminate()).map_err(cannot)?;
        let mut hang_up = signal(SignalKind::hangup()).map_err(cannot)?;
        // A write past the file-size limit must fail with an error, not kill the process: a
        // handler for its signal ensures that.
        #[cfg(target_os = "linux")]
        drop(signal(SignalKind::from_raw(SIGXFSZ)).map_err(cannot)?);
        let (ask, asked) = watch::channel(false);
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                    _ = hang_up.recv() => {}
                }
                if ask.send_replace(true) {
                    restore_terminal();
                    std::process::exit(Exit::Interrupted as i32);
                }
            }
        });
        Ok(Self { asked })
    }

    /// Returns when a signal asks the process to stop.
    pub(crate) async fn asked(&self) {
        let mut asked = self.asked.clone();
        if asked.wait_for(|asked| *asked).await.is_err() {
            // The listener lives as long as the runtime.
            std::future::pending::<()>().await;
        }
    }
}
