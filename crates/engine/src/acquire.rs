//! How an engine takes a run into memory: it reads the run and what decides how it is acquired, and
//! hands it to the driver.

use windlass_core::command::RunCommand;
use windlass_core::event::{Actor, After};
use windlass_core::run::Input as RunInput;
use windlass_core::{RunId, RunStatus};
use windlass_orchestrator::supervisor::{Acquisition, LoadedRunFacts, acquire};
use windlass_orchestrator::{AcquireMode, ShardInput};
use windlass_store::{Error, RunRow, Wait as _};

use crate::blocking::blocking;
use crate::driver::Message;
use crate::engine::Engine;
use crate::load::{LoadError, LoadedRun, Unavailable};

/// How a run is acquired.
#[derive(Clone, Copy)]
pub(crate) struct AcquireOptions {
    mode: AcquireMode,
    /// Whether to acquire a run that has ended, too: a command may open it again, anything else
    /// would keep it in memory for nothing.
    ended: bool,
    /// Whether a suspect is acquired all the same: it is alone, or a command wants it now.
    alone: bool,
}

impl AcquireOptions {
    /// To execute the run, not only for a command.
    pub(crate) fn recover(mode: AcquireMode) -> Self {
        Self {
            mode,
            ended: false,
            alone: false,
        }
    }

    pub(crate) fn alone(self) -> Self {
        Self {
            alone: true,
            ..self
        }
    }

    /// Acquires the run for a command from a caller.
    pub(crate) fn for_command(mode: AcquireMode) -> Self {
        Self {
            mode,
            ended: true,
            alone: true,
        }
    }
}

/// A run that was read to be acquired.
struct Read {
    loaded: LoadedRun,
    /// The command that lets it follow the newest version, if that has another graph.
    newest: Option<RunInput>,
    acquisition: Acquisition,
}

impl Engine {
    /// Makes sure that the shard has a run in memory and, if asked, executes it.
    pub(crate) async fn acquire(
        &self,
        run: RunId,
        options: AcquireOptions,
    ) -> Result<(), LoadError> {
        let question = |reply| Message::Holds {
            run,
            acquired: options.mode != AcquireMode::ForCommand,
            reply,
        };
        // What was read must not become stale: a run that goes to sleep meanwhile would be
        // acquired in an older state.
        let _acquiring = self.acquiring(run).lock().await;
        if self.ask(question).await == Some(true) {
            return Ok(());
        }
        let named = self.name_acquired(run).await;
        let engine = self.clone();
        let reading = blocking(move || engine.read(run, options).wait());
        let Read {
            loaded,
            newest,
            acquisition,
        } = reading
            .await
            .map_err(|error| LoadError::Definition(error.to_string()))??;
        let status = loaded.run.status();
        if status.is_final() && !options.ended {
            return Ok(());
        }
        let mode = acquisition.mode;
        self.send(ShardInput::Acquire {
            run: Box::new(loaded.run),
            head: loaded.head,
            mode,
        })
        .await;
        // A run that has ended writes nothing by itself, nor does one that only wakes.
        let writes = !status.is_final() && matches!(mode, AcquireMode::Recover(_));
        if named.is_some() && writes {
            self.has_survived(run).await;
        }
        if let Some(newest) = newest.filter(|_| acquisition.heals) {
            // Refused where the run has ended or changed meanwhile.
            let _ = self.ask(|reply| Message::command(run, newest, reply)).await;
        }
        if acquisition.orphaned {
            let reason = Some("its parent has let it go".into());
            let actor = Actor {
                reason,
                ..Actor::default()
            };
            let cancel = RunInput::command(RunCommand::Cancel { compensate: false }, actor);
            let _ = self.ask(|reply| Message::command(run, cancel, reply)).await;
        }
        Ok(())
    }

    /// Reads a run back, and all that decides how it is acquired.
    async fn read(&self, run: RunId, options: AcquireOptions) -> Result<Read, LoadError> {
        let row = self.store().run(run).await?;
        let elsewhere = |row: &RunRow| !self.shared().owned.holds(row.partition);
        if row.as_ref().is_some_and(elsewhere) {
            return Err(LoadError::Unavailable(Unavailable::Elsewhere));
        }
        if let Some(row) = row.as_ref().filter(|row| row.dead) {
            self.shared().gates.lock().dead_letter(row);
        }
        let mut loaded = self.load(run)?;
        if let Some(row) = &row {
            loaded.run.place_in(row.partition.0);
        }
        let acquired = options.mode != AcquireMode::ForCommand;
        let mode = match options.mode {
            AcquireMode::Recover(After::Death) | AcquireMode::Wake => {
                let after = self
                    .crash_policy(row.as_ref(), &loaded, options.alone)
                    .await?;
                match options.mode {
                    AcquireMode::Wake => AcquireMode::Wake,
                    _ => AcquireMode::Recover(after),
                }
            }
            other => other,
        };
        let newest = match acquired {
            true => self.newest_for(&loaded.run).await?,
            false => None,
        };
        let parent = match (acquired, &loaded.run.queued().parent) {
            (true, Some(parent)) => self.load_beside(parent.execution_id).await.ok(),
            _ => None,
        };
        let mut acquisition = acquire(LoadedRunFacts {
            wanted: mode,
            run: &loaded.run,
            asleep: row.is_some_and(|row| row.asleep),
            wrote_last: self.wrote_last(&loaded).await?,
            outdated: newest.is_some(),
            parent: parent.as_ref().map(|parent| &parent.run),
        });
        // A command to one that waits to begin does not begin it before its turn.
        if loaded.run.status() == RunStatus::Pending && options.ended && self.shared().is_serving()
        {
            acquisition.mode = AcquireMode::ForCommand;
        }
        Ok(Read {
            loaded,
            newest,
            acquisition,
        })
    }

    /// Whether this process wrote a run's last record; read only where it matters.
    async fn wrote_last(&self, loaded: &LoadedRun) -> Result<bool, Error> {
        let run = &loaded.run;
        Ok(run.awaits_attempt()
            && self.writer_at(run.id(), loaded.head.sequence).await? == Some(self.writer()))
    }
}
