//! What most commands begin with: the settings, the open store, and a way to name runs.

use std::sync::Arc;

use serde_json::Value;
use windlass_core::RunId;
use windlass_engine::Backend;
use windlass_engine::view::AtWork;
use windlass_service::RunQueries;
use windlass_service::listing::workflow_described;
use windlass_service::run_item::RunDetails;
use windlass_service::run_list;
use windlass_store::{Projections, TenantFilter, Wait as _};
use windlass_store_embedded::{EmbeddedStore, Options};
use windlass_store_nats::NatsStore;
use windlass_store_postgres::PostgresStore;

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

    /// Refuses a command that needs something else than a server; the hint says what to write.
    pub(crate) fn refuse_server(
        &self,
        command: &str,
        needs: &str,
        hint: &str,
    ) -> Result<(), Failure> {
        match &self.server {
            None => Ok(()),
            Some(server) => Err(unsupported(command, server, (needs, hint))),
        }
    }

    /// Refuses a command that needs the data directory itself.
    pub(crate) fn refuse_server_for_files(&self, command: &str) -> Result<(), Failure> {
        self.refuse_server(command, FILES.0, FILES.1)
    }
}

/// What a command needs that works on files, and the hint.
const FILES: (&str, &str) = (
    "the data directory itself",
    "run it where the data directory is, without --server",
);

fn unsupported(what: &str, server: &Server, (needs, hint): (&str, &str)) -> Failure {
    let address = server.address();
    let message = format!("{what} needs {needs}, not the server at {address}");
    Failure::new(Exit::Usage, "SERVER_UNSUPPORTED", message).hint(hint)
}

/// An open data directory, or a server in its place.
pub(crate) struct Session {
    pub(crate) settings: Settings,
    place: RunStorage,
    queries: RunQueries,
    /// The tables behind the log, where runs are kept in a database.
    pub(crate) projections: Option<Arc<dyn Projections>>,
    /// The database, where it is one.
    pub(crate) database: Option<PostgresStore>,
    /// The store in NATS, where it is one.
    pub(crate) nats: Option<NatsStore>,
}

/// Where runs are kept.
enum RunStorage {
    Directory(EmbeddedStore),
    /// A database that several processes share.
    Database,
    Server(Server, Arc<RemoteStore>),
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
            projections: None,
            database: None,
            nats: None,
        })
    }

    /// Works on a store that several processes share.
    pub(crate) fn shared(settings: Settings, store: PostgresStore) -> Self {
        Self {
            settings: Settings {
                shared: true,
                ..settings
            },
            place: RunStorage::Database,
            projections: Some(Arc::new(store.clone())),
            database: Some(store.clone()),
            nats: None,
            queries: RunQueries::new(Arc::new(store)),
        }
    }

    /// Works on a store in NATS that several processes share.
    pub(crate) fn shared_in_nats(settings: Settings, store: NatsStore) -> Self {
        Self {
            queries: RunQueries::new(Arc::new(store.clone())),
            nats: Some(store.clone()),
            ..Self::shared(settings, store.postgres().clone())
        }
    }

    /// The process that holds the data directory, if it can be asked.
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
        let store = Arc::new(RemoteStore::new(server.clone()));
        let queries = RunQueries {
            holder: Some(format!("the server at {}", server.address())),
            ..RunQueries::new(Arc::clone(&store) as Arc<dyn Backend>)
        };
        Self {
            settings,
            place: RunStorage::Server(server, store),
            queries,
            projections: None,
            database: None,
            nats: None,
        }
    }

    /// Finds the run that a person means, to show it as it stands now. A server is asked once for
    /// all that this takes.
    ///
    /// # Errors
    /// None is meant, or several are, or it cannot be read.
    pub(crate) fn open_run(&self, reference: &str) -> Result<RunDetails, Failure> {
        if let RunStorage::Server(_, store) = &self.place {
            return store.open_run(reference);
        }
        let row = self.row(self.find_run(reference)?)?;
        let mut details = run_list::details(self, std::slice::from_ref(&row))?;
        Ok(details.pop().expect("a row has its details"))
    }

    /// A page of a server's runs, whose short names are likely to be asked for next.
    ///
    /// # Errors
    /// There is no server, or it does not answer as one does.
    pub(crate) fn list_remote(
        &self,
        selection: &run_list::RunSelection,
    ) -> Result<(Vec<RunDetails>, Option<RunId>), Failure> {
        match &self.place {
            RunStorage::Server(_, store) => store.list(selection),
            RunStorage::Directory(_) | RunStorage::Database => {
                let page = run_list::page(self, selection)?;
                Ok((run_list::details(self, &page.rows)?, page.next))
            }
        }
    }

    /// What workers have of a run, from the memory of the process that executes it; nothing if
    /// that cannot be asked.
    pub(crate) fn at_work(&self, run: RunId) -> AtWork {
        let told = match &self.place {
            RunStorage::Server(_, store) => store.at_work(run),
            RunStorage::Directory(_) => match self.holding_server() {
                Some(server) => RemoteStore::new(server).at_work(run),
                None => return AtWork::default(),
            },
            RunStorage::Database => return AtWork::default(),
        };
        // The log tells of what takes longer.
        told.unwrap_or_default()
    }

    /// The workflows, as the API lists them.
    ///
    /// # Errors
    /// The store cannot be read, or the server does not answer as one does.
    pub(crate) fn described_workflows(&self) -> Result<Vec<Value>, Failure> {
        if let RunStorage::Server(_, store) = &self.place {
            return Ok(store.listed_workflows()?);
        }
        let rows = self.store.workflows(&TenantFilter::Any).wait()?;
        let described = |row| workflow_described(&*self.store, row);
        Ok(rows.iter().map(described).collect::<Result<_, _>>()?)
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
            RunStorage::Server(server, _) => Err(unsupported("this", server, FILES)),
        }
    }

    /// The data directory, if runs are kept in one.
    pub(crate) fn embedded(&self) -> Option<&EmbeddedStore> {
        match &self.place {
            RunStorage::Directory(directory) => Some(directory),
            RunStorage::Database | RunStorage::Server(..) => None,
        }
    }

    /// The server, if it is one.
    pub(crate) fn server(&self) -> Option<&Server> {
        match &self.place {
            RunStorage::Directory(_) | RunStorage::Database => None,
            RunStorage::Server(server, _) => Some(server),
        }
    }
}

impl std::ops::Deref for Session {
    type Target = RunQueries;

    fn deref(&self) -> &RunQueries {
        &self.queries
    }
}
