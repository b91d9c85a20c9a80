//! What most commands begin with: the settings, the open store, and a way to name runs.

use std::sync::Arc;

use windlass_core::{RunId, RunStatus};
use windlass_engine::{Backend, Plans, ValueReader};
use windlass_store::{Queries as _, RunFilter};
use windlass_store_embedded::{EmbeddedStore, Options};

use crate::config::Config;
use crate::exit::{Exit, Failure};
use crate::output::Output;

/// Values and plans kept in memory while one command looks around.
const CACHE_BYTES: usize = 16 * 1024 * 1024;

/// The settings in force for one command.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) data_dir: std::path::PathBuf,
    pub(crate) output: Output,
    /// How many nodes of one run go at once, where its definition does not say.
    pub(crate) max_parallel: Option<u32>,
    /// How many actions run at once.
    pub(crate) workers: Option<u32>,
    /// What `http.request` may reach besides public addresses.
    pub(crate) http_allowed: windlass_actions::Allowed,
}

impl Settings {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            data_dir: config.data_dir(),
            output: Output::new(config.json()),
            max_parallel: config.number("max_parallel"),
            workers: config.number("workers"),
            http_allowed: config.http_allowed(),
        }
    }
}

/// An open data directory.
pub(crate) struct Session {
    pub(crate) settings: Settings,
    pub(crate) store: EmbeddedStore,
    pub(crate) plans: Plans,
}

impl Session {
    /// Opens the data directory for looking; it must exist. The lock stays free for
    /// whoever wants to write meanwhile.
    pub(crate) fn look(settings: Settings) -> Result<Self, Failure> {
        Self::exists(&settings)?;
        let options = Options {
            create: false,
            exclusive: false,
            ..Options::default()
        };
        Self::open(settings, options)
    }

    /// Opens the data directory for acting; it must exist.
    pub(crate) fn act_on_existing(settings: Settings) -> Result<Self, Failure> {
        Self::exists(&settings)?;
        let options = Options {
            create: false,
            ..Options::default()
        };
        Self::open(settings, options)
    }

    fn exists(settings: &Settings) -> Result<(), Failure> {
        if !settings.data_dir.exists() {
            let place = settings.data_dir.display();
            let message = format!("there is no data directory {place}");
            return Err(Failure::new(Exit::NotFound, "NO_DATA_DIR", message)
                .hint("`windlass run FILE` makes one, or name another with --data-dir"));
        }
        Ok(())
    }

    /// Opens the data directory for acting, and makes it if it is missing.
    pub(crate) fn act(settings: Settings) -> Result<Self, Failure> {
        Self::open(settings, Options::default())
    }

    fn open(settings: Settings, options: Options) -> Result<Self, Failure> {
        let opened = EmbeddedStore::open(&settings.data_dir, options)?;
        Ok(Self {
            settings,
            store: opened.store,
            plans: Plans::new(CACHE_BYTES),
        })
    }

    /// The store as the engine takes it.
    pub(crate) fn backend(&self) -> Arc<dyn Backend> {
        Arc::new(self.store.clone())
    }

    /// Reads stored values.
    pub(crate) fn values(&self) -> ValueReader {
        ValueReader::new(self.backend(), CACHE_BYTES)
    }

    /// How a run stands.
    pub(crate) fn status(&self, run: RunId) -> Result<RunStatus, Failure> {
        let row = self.store.run(run)?;
        row.map(|row| row.status).ok_or_else(|| {
            let message = format!("there is no run {run}");
            Failure::new(Exit::NotFound, "RUN_NOT_FOUND", message)
        })
    }

    /// The shortest text that names this run alone, at least the part of its id that is
    /// its time.
    pub(crate) fn short_id(&self, run: RunId) -> Result<String, Failure> {
        let full = run.to_string();
        for length in [13, 18, 23] {
            let prefix = &full[..length];
            if self.store.runs_with_prefix(prefix, 2)?.len() < 2 {
                return Ok(prefix.to_owned());
            }
        }
        Ok(full)
    }

    /// Finds the run that a person means: an id, a unique prefix, `@last` or
    /// `@last:workflow-id`.
    pub(crate) fn find_run(&self, reference: &str) -> Result<RunId, Failure> {
        if let Some(rest) = reference.strip_prefix("@last") {
            return self.last_run(rest, reference);
        }
        let not_found = |message: String| Failure::new(Exit::NotFound, "RUN_NOT_FOUND", message);
        let is_prefix = reference.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
        if reference.is_empty() || !is_prefix {
            return Err(not_found(format!("'{reference}' is not a run's id"))
                .hint("`windlass runs` lists them; @last is the newest"));
        }
        let found = self
            .store
            .runs_with_prefix(&reference.to_ascii_lowercase(), 2)?;
        match found.as_slice() {
            [run] => Ok(*run),
            [] => Err(not_found(format!("there is no run {reference}"))
                .hint("`windlass runs` lists them")),
            _ => Err(Failure::new(
                Exit::Conflict,
                "RUN_AMBIGUOUS",
                format!("several runs begin with {reference}; give more of the id"),
            )),
        }
    }

    fn last_run(&self, rest: &str, reference: &str) -> Result<RunId, Failure> {
        let workflow = match rest.strip_prefix(':') {
            Some(workflow) if !workflow.is_empty() => Some(workflow),
            None if rest.is_empty() => None,
            _ => {
                let message = format!("'{reference}' is neither @last nor @last:workflow-id");
                return Err(Failure::new(Exit::NotFound, "RUN_NOT_FOUND", message));
            }
        };
        let filter = RunFilter {
            workflow: workflow.map(Into::into),
            limit: 1,
            ..RunFilter::default()
        };
        let page = self.store.runs(&filter)?;
        page.rows.first().map(|row| row.run).ok_or_else(|| {
            let of = workflow.map(|id| format!(" of '{id}'")).unwrap_or_default();
            Failure::new(
                Exit::NotFound,
                "RUN_NOT_FOUND",
                format!("there are no runs{of} yet"),
            )
            .hint("`windlass run FILE` starts one")
        })
    }
}
