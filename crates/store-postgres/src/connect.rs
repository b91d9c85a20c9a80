//! Connections: how one is opened, what is set on it, and the pool of those that are not for
//! appends or wake-ups. It does not know any table.

use std::time::Duration;

use deadpool_postgres::{
    Hook, HookError, Manager, ManagerConfig, Pool, PoolError, RecyclingMethod, Runtime, Timeouts,
};
use tokio::task::JoinHandle;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Config};
use windlass_store::Error;

use crate::OpenError;
use crate::error::{from_postgres, told};
use crate::settings::Settings;
use crate::tls::Tls;

/// How long a caller waits for a free connection, and for a new one.
const PATIENCE: Duration = Duration::from_secs(5);

/// How the database is reached; what every connection is made of.
#[derive(Clone)]
pub(crate) struct Access {
    pub(crate) config: Config,
    pub(crate) tls: Tls,
    /// The schema as SQL writes it.
    pub(crate) schema: String,
    /// For messages.
    pub(crate) address: String,
}

impl Access {
    pub(crate) fn new(settings: &Settings) -> Result<Self, OpenError> {
        Ok(Self {
            config: settings.driver()?,
            tls: Tls::new(settings)?,
            schema: quoted(&settings.schema),
            address: settings.address(),
        })
    }

    /// A connection of its own, and the task that serves it.
    pub(crate) async fn open(&self, kind: Kind) -> Result<(Client, JoinHandle<()>), Error> {
        let opening = self.config.connect(self.tls.clone());
        let opened = tokio::time::timeout(PATIENCE, opening).await;
        let opened = opened.map_err(|_| self.silent())?;
        let (client, connection) = opened.map_err(|error| self.away(&error))?;
        let served = tokio::spawn(async move {
            // Its client answers every later call with the reason.
            let _ = connection.await;
        });
        let preamble = self.preamble(kind);
        let prepared = tokio::time::timeout(PATIENCE, client.batch_execute(&preamble)).await;
        match prepared {
            Ok(Ok(())) => Ok((client, served)),
            Ok(Err(error)) => Err(from_postgres(&error)),
            Err(_) => {
                served.abort();
                Err(self.silent())
            }
        }
    }

    /// The database takes connections, and says nothing.
    pub(crate) fn silent(&self) -> Error {
        Error::Unavailable(format!(
            "the database {} has not answered within {} s",
            self.address,
            PATIENCE.as_secs()
        ))
    }

    /// What is set on every connection. Whatever the server or the role sets by default, an
    /// answer means that the commit is durable, and statements see what was committed before.
    pub(crate) fn preamble(&self, kind: Kind) -> String {
        let schema = &self.schema;
        let own = match kind {
            // Locks are taken in the order of the arrays: no plan that scans or sorts otherwise.
            // A row that another program keeps locked fails its own append after two seconds,
            // not the whole batch after twenty.
            Kind::Writer => {
                "set plan_cache_mode = force_generic_plan; set jit = off; \
                 set enable_seqscan = off; set enable_bitmapscan = off; \
                 set enable_mergejoin = off; set statement_timeout = '20s'; \
                 set lock_timeout = '2s'; "
            }
            Kind::Pooled => "set statement_timeout = '30s'; set jit = off; ",
            // The same few statements again and again: planning one takes longer than it does.
            Kind::Queue => {
                "set plan_cache_mode = force_generic_plan; set jit = off; \
                 set enable_seqscan = off; set statement_timeout = '30s'; "
            }
            Kind::Wakes => "set statement_timeout = '10s'; ",
        };
        format!(
            "set search_path to {schema}; set default_transaction_isolation = 'read committed'; \
             set idle_in_transaction_session_timeout = '60s'; {own}\
             select set_config('synchronous_commit', 'on', false) \
             where current_setting('synchronous_commit') = 'off'"
        )
    }

    pub(crate) fn away(&self, error: &tokio_postgres::Error) -> Error {
        match error.as_db_error() {
            Some(_) => from_postgres(error),
            None => Error::Unavailable(format!(
                "the database {} cannot be reached: {}",
                self.address,
                told(error)
            )),
        }
    }

    /// A pool of connections for calls of a kind.
    pub(crate) fn pool(&self, kind: Kind, size: usize) -> Result<Pool, OpenError> {
        let recycling = ManagerConfig {
            recycling_method: RecyclingMethod::Fast,
        };
        let manager = Manager::from_config(self.config.clone(), self.tls.clone(), recycling);
        let preamble = self.preamble(kind);
        let prepare = Hook::async_fn(move |client: &mut deadpool_postgres::ClientWrapper, _| {
            let preamble = preamble.clone();
            Box::pin(async move {
                let prepared = client.batch_execute(&preamble).await;
                prepared.map_err(HookError::Backend)
            })
        });
        Pool::builder(manager)
            .max_size(size)
            .runtime(Runtime::Tokio1)
            .timeouts(Timeouts {
                wait: Some(PATIENCE),
                create: Some(PATIENCE),
                recycle: Some(PATIENCE),
            })
            .post_create(prepare)
            .build()
            .map_err(|error| OpenError::refused(format!("no connection pool: {error}")))
    }

    /// Why the pool gave no connection.
    pub(crate) fn without(&self, error: &PoolError) -> Error {
        match error {
            PoolError::Backend(error) | PoolError::PostCreateHook(HookError::Backend(error)) => {
                self.away(error)
            }
            PoolError::Timeout(_) => Error::Unavailable(format!(
                "no connection to the database {} within {} s: it does not answer, or all \
                 connections are in use",
                self.address,
                PATIENCE.as_secs()
            )),
            other => Error::Unavailable(format!("no connection to the database: {other}")),
        }
    }

    /// Whether a first connection that failed is worth waiting for, and what to do.
    pub(crate) fn refusal(&self, error: &tokio_postgres::Error) -> OpenError {
        let place = &self.address;
        let Some(refusal) = error.as_db_error() else {
            let text = told(error);
            // The driver's own words for its kinds of errors, which it does not tell otherwise.
            let kind = error.to_string();
            if kind.starts_with("invalid configuration") || kind.starts_with("authentication error")
            {
                return OpenError::refused(format!(
                    "the database {place} cannot be used with these settings: {text}; check the \
                     database URL, and the password in it, in WINDLASS_POSTGRES_PASSWORD or in \
                     `postgres_password_file`"
                ));
            }
            // A certificate does not become valid by waiting.
            return match text.contains("certificate") || text.contains("does not support TLS") {
                true => OpenError::refused(format!(
                    "{place}: {text}; check sslmode and sslrootcert of the database URL"
                )),
                false => OpenError::Away(self.away(error)),
            };
        };
        let text = refusal.message();
        match *refusal.code() {
            SqlState::INVALID_PASSWORD | SqlState::INVALID_AUTHORIZATION_SPECIFICATION => {
                OpenError::refused(format!(
                    "the database {place} refused the credentials: {text}; check the user, the \
                     password and pg_hba.conf"
                ))
            }
            SqlState::INVALID_CATALOG_NAME => OpenError::refused(format!(
                "{place}: {text}; create it (CREATE DATABASE) or name another in the URL"
            )),
            SqlState::INSUFFICIENT_PRIVILEGE => OpenError::refused(format!(
                "{place}: {text}; grant the user CONNECT on the database"
            )),
            _ => OpenError::Away(from_postgres(error)),
        }
    }
}

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Appends.
    Writer,
    /// The work queue and inboxes.
    Queue,
    /// Everything else.
    Pooled,
    /// `NOTIFY` or `LISTEN`.
    Wakes,
}

/// An identifier as SQL writes it.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
