//! What most commands begin with: the settings, the open store, and a way to name runs.

use std::sync::Arc;

use windlass_engine::Backend;
use windlass_service::RunQueries;
use windlass_store_embedded::{EmbeddedStore, Options};

use crate::config::Config;
use crate::exit::{Exit, Failure};
use crate::output::Output;
use crate::remote::{RemoteStore, Server};
use crate::socket;

/// The settings in force for one command.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) data_dir: std::path::PathBuf,
    /// The server that is asked instead of the data directory.
    pub(crate) server: Option<Server>,
    pub(crate) output: Output,
    /// How many nodes of one run go at once, where its definition does not say.
    pub(crate) max_parallel: Option<u32>,
    /// Timeouts and a retry for definitions that name none.
    pub(crate) defaults: windlass_core::defaults::Defaults,
    /// How many actions run at once.
    pub(crate) workers: Option<u32>,
    /// What the workers here have, for nodes that require it.
    pub(crate) worker_labels: windlass_orchestrator::Labels,
    /// What `http.request` and the connectors may reach besides public addresses.
    pub(crate) http_allowed: windlass_actions::Allowed,
    /// Where the connectors' services are.
    pub(crate) addresses: windlass_actions::Addresses,
    /// The key that seals secrets, if it is not in the data directory.
    pub(crate) sealing_key_file: Option<std::path::PathBuf>,
    /// Whether several processes share the store.
    pub(crate) shared: bool,
}

impl Settings {
    pub(crate) fn new(config: &Config) -> Result<Self, Failure> {
        let server = config.server()?.map(|url| {
            let token = config.value("token");
            Server::new(url, token)
        });
        Ok(Self {
            data_dir: config.data_dir(),
            server: server.transpose()?,
            output: Output::new(config.json()),
            max_parallel: config.number("max_parallel"),
            defaults: config.defaults(),
            workers: config.number("workers"),
            worker_labels: config.list("worker_labels").into_iter().collect(),
            http_allowed: config.http_allowed(),
            addresses: config.addresses(),
            sealing_key_file: config.value("sealing_key_file").map(Into::into),
            shared: false,
        })
    }

    /// The same for a command that is about this machine, whatever server is named.
    pub(crate) fn here(&self) -> Self {
        Self {
            server: None,
            ..self.clone()
        }
    }

    /// Refuses a command that needs the data directory itself.
    pub(crate) fn refuse_server(&self, command: &str) -> Result<(), Failure> {
        match &self.server {
            None => Ok(()),
            Some(server) => Err(unsupported(command, server)),
        }
    }
}

fn unsupported(what: &str, server: &Server) -> Failure {
    let address = server.address();
    let message = format!("{what} needs the data directory itself, not the server at {address}");
    Failure::new(Exit::Usage, "SERVER_UNSUPPORTED", message)
        .hint("run it where the data directory is, without --server")
}

/// An open data directory, or a server in its place.
pub(crate) struct Session {
    pub(crate) settings: Settings,
    place: RunStorage,
    queries: RunQueries,
}

/// Where runs are kept.
enum RunStorage {
    Directory(EmbeddedStore),
    /// A database that several processes share.
    Database,
    Server(Server),
}

impl Session {
    /// Opens the data directory for reading; it must exist. The lock stays free for a process
    /// that writes meanwhile.
    pub(crate) fn queries(settings: Settings) -> Result<Self, Failure> {
        if let Some(server) = settings.server.clone() {
            return Ok(Self::at(settings, server));
        }
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
        let queries = RunQueries {
            holder: directory.holder().map(|holder| holder.to_string()),
            ..RunQueries::new(Arc::new(directory.clone()))
        };
        Ok(Self {
            settings,
            place: RunStorage::Directory(directory),
            queries,
        })
    }

    /// Works on a store that several processes share.
    pub(crate) fn shared(settings: Settings, store: Arc<dyn Backend>) -> Self {
        Self {
            settings: Settings {
                shared: true,
                ..settings
            },
            place: RunStorage::Database,
            queries: RunQueries::new(store),
        }
    }

    /// Who holds the data directory that is looked at, if it can be asked.
    pub(crate) fn holding_server(&self) -> Option<Server> {
        let RunStorage::Directory(directory) = &self.place else {
            return None;
        };
        let holder = directory.holder()?;
        socket::find(&self.settings.data_dir, &holder)
            .ok()
            .flatten()
    }

    /// Looks at what a server has. It is not asked before something is wanted.
    pub(crate) fn at(settings: Settings, server: Server) -> Self {
        let queries = RunQueries {
            holder: Some(format!("the server at {}", server.address())),
            ..RunQueries::new(Arc::new(RemoteStore::new(server.clone())))
        };
        Self {
            settings,
            place: RunStorage::Server(server),
            queries,
        }
    }

    /// The data directory itself.
    ///
    /// # Errors
    /// It is a server's.
    pub(crate) fn directory(&self) -> Result<&EmbeddedStore, Failure> {
        match &self.place {
            RunStorage::Directory(directory) => Ok(directory),
            RunStorage::Database => Err(Failure::new(
                Exit::Usage,
                "SERVER_UNSUPPORTED",
                "this needs a data directory, and runs are kept in a database",
            )),
            RunStorage::Server(server) => Err(unsupported("this", server)),
        }
    }

    /// The data directory, if runs are kept in one.
    pub(crate) fn embedded(&self) -> Option<&EmbeddedStore> {
        match &self.place {
            RunStorage::Directory(directory) => Some(directory),
            RunStorage::Database | RunStorage::Server(_) => None,
        }
    }

    /// The server, if it is one.
    pub(crate) fn server(&self) -> Option<&Server> {
        match &self.place {
            RunStorage::Directory(_) | RunStorage::Database => None,
            RunStorage::Server(server) => Some(server),
        }
    }
}

impl std::ops::Deref for Session {
    type Target = RunQueries;

    fn deref(&self) -> &RunQueries {
        &self.queries
    }
}
