//! What most commands begin with: the settings, the open store, and a way to name runs.

use std::sync::Arc;

use windlass_core::RunId;
use windlass_engine::{Backend, Plans, ValueReader};
use windlass_store::{Queries as _, RunFilter};
use windlass_store_embedded::{EmbeddedStore, Options};

use crate::args::{Format, Global};
use crate::exit::{Exit, Failure};
use crate::output::Output;

/// Where the data directory is when nothing says otherwise.
const DEFAULT_DATA_DIR: &str = ".windlass";

/// Values and plans kept in memory while one command looks around.
const CACHE_BYTES: usize = 16 * 1024 * 1024;

/// The settings in force for one command.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) data_dir: std::path::PathBuf,
    pub(crate) output: Output,
}

impl Settings {
    pub(crate) fn new(global: &Global) -> Self {
        let json = global.json || global.output == Some(Format::Json);
        let data_dir = global
            .data_dir
            .clone()
            .unwrap_or_else(|| DEFAULT_DATA_DIR.into());
        Self {
            data_dir,
            output: Output::new(json),
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
    /// Opens the data directory for looking; it must exist.
    pub(crate) fn look(settings: Settings) -> Result<Self, Failure> {
        if !settings.data_dir.exists() {
            let place = settings.data_dir.display();
            let message = format!("there is no data directory {place}");
            return Err(Failure::new(Exit::NotFound, "NO_DATA_DIR", message)
                .hint("`windlass run FILE` makes one, or name another with --data-dir"));
        }
        Self::open(settings, false)
    }

    /// Opens the data directory for acting, and makes it if it is missing.
    pub(crate) fn act(settings: Settings) -> Result<Self, Failure> {
        Self::open(settings, true)
    }

    fn open(settings: Settings, create: bool) -> Result<Self, Failure> {
        let options = Options {
            create,
            ..Options::default()
        };
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
