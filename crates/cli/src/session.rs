//! What most commands begin with: the settings, the open store, and a way to name runs.

use std::sync::Arc;

use windlass_service::Look;
use windlass_store_embedded::{EmbeddedStore, Options};

use crate::config::Config;
use crate::exit::{Exit, Failure};
use crate::output::Output;

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
    /// The directory itself.
    pub(crate) directory: EmbeddedStore,
    look: Look,
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
        let directory = opened.store;
        let look = Look {
            holder: directory.holder().map(|holder| holder.to_string()),
            ..Look::new(Arc::new(directory.clone()))
        };
        Ok(Self {
            settings,
            directory,
            look,
        })
    }
}

impl std::ops::Deref for Session {
    type Target = Look;

    fn deref(&self) -> &Look {
        &self.look
    }
}
