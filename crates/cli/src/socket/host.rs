//! The holder's end: serves the API on the socket of its data directory.

use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tokio::net::UnixListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use windlass_api::auth::Auth;
use windlass_api::route::{Access, GateOptions, RequestGate};
use windlass_api::serve::{Drained, ServerOptions, SocketServer};
use windlass_api::{App, AppOptions, HeadLimits, Host, engine_limits, health};
use windlass_engine::{Engine, Registry};
use windlass_service::listing;
use windlass_service::secrets::SecretKeys;
use windlass_store_embedded::EmbeddedStore;

use super::{place, routes};
use crate::command;

/// How long a command may take to be answered: a process that waits for it is there, and ends
/// the connection when it does not wait any more.
const ANSWER_TIME: Duration = Duration::from_secs(24 * 60 * 60);

/// Serves other processes until it is closed, or dropped.
pub(crate) struct SocketHost {
    path: PathBuf,
    shutdown: CancellationToken,
    task: JoinHandle<Drained>,
}

impl SocketHost {
    /// Listens for other processes. The caller holds the data directory, so that a socket found
    /// there is a dead holder's. What the API needs is made when the first process asks.
    pub(crate) fn listen(
        directory: &Path,
        engine: &Engine,
        app: impl FnOnce() -> App + Send + 'static,
    ) -> io::Result<Self> {
        let path = place::prepare(directory)?;
        let listener = bind_private(&path)?;
        let router = routes::router(engine.clone(), move || api(app()));
        let shutdown = CancellationToken::new();
        let server = SocketServer::new(listener, ServerOptions::for_socket());
        let task = tokio::spawn(server.run(router, shutdown.clone()));
        Ok(Self {
            path,
            shutdown,
            task,
        })
    }

    /// Accepts no process any more, and waits until every command under way has its answer. The
    /// engine must not be stopped before.
    pub(crate) async fn close(mut self) {
        self.shutdown.cancel();
        // A client whose answer takes too long asks the next holder again.
        let _ = (&mut self.task).await;
    }
}

impl Drop for SocketHost {
    fn drop(&mut self) {
        self.shutdown.cancel();
        self.task.abort();
        // If it cannot be removed, the next holder replaces it.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Binds a socket that only its owner can connect to at any moment: it gets its place once
/// its permissions are set. The name on the way is no longer than the place, which has a limit.
fn bind_private(path: &Path) -> io::Result<UnixListener> {
    let on_the_way = path.with_extension("new");
    match std::fs::remove_file(&on_the_way) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(&on_the_way)?;
    std::fs::set_permissions(&on_the_way, std::fs::Permissions::from_mode(0o600))?;
    std::fs::rename(&on_the_way, path)?;
    Ok(listener)
}

/// The API for the owner of the socket, who needs no token and is not counted.
fn api(app: App) -> Router {
    let user = command::actor(None).by.unwrap_or_else(|| "local".into());
    let options = GateOptions {
        request_timeout: ANSWER_TIME,
        ..GateOptions::default()
    };
    let gate = RequestGate::new(Auth::owner(user), options);
    windlass_api::routes(gate, Access::public()).build(app, HeadLimits::default())
}

/// What the API needs besides an engine, in a process that serves its socket alone.
pub(crate) fn app_options(
    directory: EmbeddedStore,
    registry: &Registry,
    secrets: Arc<SecretKeys>,
    host: Arc<dyn Host>,
) -> AppOptions {
    let head = HeadLimits::default();
    let (server, gate) = (ServerOptions::for_socket(), GateOptions::default());
    let mut limits = health::http_limits(&server, &gate, &head);
    limits.extend(engine_limits());
    AppOptions {
        backup: Ok(Arc::new(move |file: &Path| {
            directory.backup(file, &mut |_, _| {})
        })),
        probes: health::Probes::new(
            || Box::pin(async { Ok(()) }),
            || Box::pin(async { String::new() }),
            limits,
        ),
        actions: listing::actions(registry).into(),
        secrets,
        host: Some(host),
    }
}
