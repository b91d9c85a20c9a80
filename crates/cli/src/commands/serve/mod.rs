//! `windlass serve`: the HTTP API on a data directory or a database, whose runs it executes until
//! it is asked to stop.

mod backend;
mod browser;
mod demo;
mod figures;
mod options;

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use windlass_api::auth::Auth;
use windlass_api::route::RequestGate;
use windlass_api::serve::{Drained, Server};
use windlass_api::{App, AppOptions, HeadLimits, engine_limits, health, routes};
use windlass_engine::{Backend, Engine, Observers, Recovery};
use windlass_service::listing;
use windlass_service::secrets::SecretKeys;
use windlass_store::Role;
use windlass_store_embedded::EmbeddedStore;
use windlass_telemetry::{Gauge, HttpExchange, Telemetry, say};

use crate::args::{Dev, Serve};
use crate::config::Config;
use crate::database::NO_BACKUP;
use crate::event_fanout::EventFanout;
use crate::exit::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::output::Output;
use crate::secrets;
use crate::session::{Session, Settings};
use crate::socket::SocketHost;
use options::Options;
use windlass_store::{RunFilter, Wait as _};

/// How long actions that do not notice the end may hold it up.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// More dead letters are not counted for the metrics.
const MOST_LETTERS: usize = 1000;

/// What `windlass dev` does besides serving.
#[derive(Clone, Copy, Default)]
struct Development {
    /// Whether runs to explore are started.
    demo: bool,
    /// Whether the page is opened in a browser.
    open: bool,
    /// Whether people read the log, unless the settings say otherwise.
    text: bool,
}

/// Serves until asked to stop.
pub(crate) fn run(
    settings: &Settings,
    config: &Config,
    arguments: &Serve,
) -> Result<Exit, Failure> {
    start(settings, config, arguments, Development::default())
}

/// Serves for development until asked to stop.
pub(crate) fn dev(settings: &Settings, config: &Config, arguments: &Dev) -> Result<Exit, Failure> {
    let development = Development {
        demo: arguments.demo,
        open: !arguments.no_open,
        text: true,
    };
    start(settings, config, &arguments.serve, development)
}

fn start(
    settings: &Settings,
    config: &Config,
    arguments: &Serve,
    development: Development,
) -> Result<Exit, Failure> {
    let mut options = Options::new(config, arguments)?;
    if development.text {
        options.log_for_people();
    }
    let settings = Settings {
        workers: options.workers,
        worker_labels: options.worker_labels.clone(),
        ..settings.clone()
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(Exit::Storage, "RUNTIME_FAILED", error))?;
    let session = {
        // A store of several processes appends where the engine runs.
        let _entered = runtime.enter();
        backend::open(&settings, &options.place, options.logs_json)?
    };
    let result = runtime.block_on(serve(&session, options, development));
    runtime.shutdown_timeout(LAST_WORDS);
    result
}

async fn serve(
    session: &Session,
    mut options: Options,
    development: Development,
) -> Result<Exit, Failure> {
    let interrupt = Interrupt::listen()?;
    let words = Words {
        output: session.settings.output,
        json: options.logs_json,
    };
    // The actions of this program keep their series, whatever else definitions name.
    let actions = options.registry(&session.settings);
    options.telemetry.actions = Some(actions.names().map(Into::into).collect());
    let telemetry = Telemetry::start(std::mem::take(&mut options.telemetry)).map_err(|error| {
        Failure::new(Exit::Usage, "SETTING_INVALID", error.to_string())
            .hint("check otlp_endpoint and the OTEL_EXPORTER_OTLP_ variables")
    })?;
    if let Some(tail) = session.embedded().and_then(EmbeddedStore::torn_tail) {
        words.say(&tail.to_string());
    }
    // One instance for all readers of secrets: its key may change while the server runs.
    let keys = secrets::keys(&session.settings)?;
    if session.settings.shared {
        let reads_secrets = options.roles.has(Role::Api) || options.roles.has(Role::Worker);
        windlass_service::secrets::check_shared_key(&*session.store, &keys, reads_secrets).await?;
    }
    let engine = engine(session, &options, &telemetry, &keys).await?;
    prepare(&options)?;
    let auth = options.auth().await?;
    let server = bind(&options).await?;
    windlass_service::secrets::seal_hooks(&*session.store, &keys).await?;
    let gate = gate(&options, &telemetry, auth.clone());
    figures::show(&telemetry, (server.figures(), gate.figures()), &auth);
    figures::show_cluster(&telemetry, &engine);
    if let Some(database) = session.database.clone() {
        figures::show_database(&telemetry, database);
    }
    if let Some(nats) = session.nats.clone() {
        figures::show_nats(&telemetry, nats);
    }
    let app = app(session, &engine, &options, (auth, &keys), &telemetry)?;
    // Commands on the same data directory act through this process.
    let owners = app.clone();
    let socket = session
        .embedded()
        .and_then(|store| SocketHost::listen(store.directory(), &engine, move || owners).ok());
    let recovery = engine.serve(options.serving.clone()).await?;
    tell_recovery(&recovery);
    if options.roles.has(Role::Api) || options.roles.has(Role::Scheduler) {
        app.resume_jobs().await?;
    }
    let router = routes(gate, options.probing).build(app, HeadLimits::default());
    if development.demo
        && let Err(failure) = demo::start(&engine).await
    {
        let message = format!("the demo did not start: {}", failure.message);
        words.say(&message);
    }
    let url = announce(words, &options, &server)?;
    if let Some(url) = url.filter(|_| development.open) {
        browser::open(&session.settings.output, &url);
    }
    let shutdown = CancellationToken::new();
    if let Some(address) = server.local_addr() {
        say::server_started(address);
    }
    let stop = shutdown.clone();
    let (asked, leaving) = (interrupt.clone(), engine.clone());
    tokio::spawn(async move {
        asked.asked().await;
        say::server_draining();
        stop.cancel();
        leaving.begin_shutdown().await;
    });
    let drained = server.run(router, shutdown).await;
    if let Some(socket) = socket {
        socket.close().await;
    }
    engine.shutdown().await;
    say::server_stopped();
    telemetry.shutdown().await;
    if !matches!(drained, Drained::Finished) {
        words.say("some requests did not end in time and were cut off");
    }
    Ok(Exit::Done)
}

/// Listens, if there is something to listen on.
async fn bind(options: &Options) -> Result<Server, Failure> {
    let listened = Server::bind(options.server.clone()).await;
    listened.map_err(|error| {
        let server = &options.server;
        let address = server.listens.then_some(server.address);
        let addresses = [address, server.probe_address].into_iter().flatten();
        let addresses: Vec<_> = addresses.map(|it| it.to_string()).collect();
        let message = format!("cannot listen on {}: {error}", addresses.join(" or "));
        Failure::new(Exit::Storage, "LISTEN_FAILED", message)
            .hint("name another address with --listen or --probe-listen; port 0 takes a free one")
    })
}

/// The engine, observed by telemetry and by the hub.
async fn engine(
    session: &Session,
    options: &Options,
    telemetry: &Telemetry,
    keys: &Arc<SecretKeys>,
) -> Result<Engine, Failure> {
    let event_fanout: Arc<EventFanout> = Arc::clone(&options.event_fanout);
    let observers = Observers(vec![telemetry.observer(), event_fanout as _]);
    let mut settings = windlass_engine::Options {
        secrets: secrets::source(session, keys),
        observer: Some(Arc::new(observers)),
        traces: telemetry.traces(),
        labels: session.settings.worker_labels.clone(),
        unknown_action_wait: options.unknown_action_wait,
        work_lease_ms: windlass_engine::work_lease_ms(options.worker_heartbeat),
        defaults: session.settings.defaults.clone(),
        ..windlass_engine::Options::default()
    };
    if session.settings.shared {
        settings.roles = options.roles;
        settings.drain = options.server.drain_timeout;
        settings.leases = Some(windlass_orchestrator::supervisor::LeaseOptions::default());
        settings.worker_name = backend::process_name().into();
        settings.projections.clone_from(&session.projections);
    }
    if let Some(workers) = session.settings.workers {
        settings.workers = workers as usize;
    }
    if let Some(bound) = session.settings.max_parallel {
        settings.max_parallel = bound;
    }
    let backend: Arc<dyn Backend> = Arc::clone(&session.store);
    let registry = options.registry(&session.settings);
    let engine = Engine::new(backend, registry, settings).await;
    if let Some(directory) = session.embedded() {
        directory.on_commit(telemetry.commits());
    }
    let counted = engine.clone();
    telemetry.gauge(Gauge::QueueDepth, move || {
        counted.stats().wait().map_or(0, |stats| stats.queued)
    });
    let counted = engine.clone();
    telemetry.gauge(Gauge::ParallelActions, move || {
        counted.running_actions() as u64
    });
    let counted = engine.clone();
    telemetry.gauge(Gauge::DeadLetters, move || {
        let filter = RunFilter {
            dead: Some(true),
            limit: MOST_LETTERS,
            ..RunFilter::default()
        };
        let page = counted.store().runs(&filter).wait();
        page.map_or(0, |page| page.rows.len() as u64)
    });
    let counted = engine.clone();
    telemetry.work_queue(move || figures::work_queue(&counted));
    let counted = engine.clone();
    telemetry.gauge(Gauge::ProjectionLag, move || {
        counted.projection_lag_ms().div_ceil(1000)
    });
    Ok(engine)
}

/// What guards the routes, and counts what is asked of them.
fn gate(options: &Options, telemetry: &Telemetry, auth: Auth) -> RequestGate {
    let counted = telemetry.clone();
    RequestGate::new(auth, options.gate.clone()).watched(move |exchange| {
        counted.http(&HttpExchange {
            route: exchange.route,
            method: exchange.method,
            status: exchange.status,
            took: exchange.took,
            correlation_id: exchange.correlation,
        });
    })
}

fn app(
    session: &Session,
    engine: &Engine,
    options: &Options,
    (auth, keys): (Auth, &Arc<SecretKeys>),
    telemetry: &Telemetry,
) -> Result<App, Failure> {
    let head = HeadLimits::default();
    let mut limits = health::http_limits(&options.server, &options.gate, &head);
    limits.extend(engine_limits());
    let (asked, rendered) = (engine.clone(), telemetry.clone());
    let probes = health::Probes::new(
        move || Box::pin(ready(asked.clone())),
        move || {
            let telemetry = rendered.clone();
            Box::pin(async move {
                let rendering = tokio::task::spawn_blocking(move || telemetry.render());
                rendering.await.unwrap_or_default()
            })
        },
        limits,
    )
    .with_auth(auth);
    let registry = options.registry(&session.settings);
    Ok(App::new(
        engine.clone(),
        AppOptions {
            backup: match session.embedded().cloned() {
                None => Err(NO_BACKUP),
                Some(directory) => Ok(Arc::new(move |file: &std::path::Path| {
                    directory.backup(file, &mut |_, _| {})
                })),
            },
            probes,
            actions: listing::actions(&registry).into(),
            secrets: Arc::clone(keys),
            host: None,
        },
    ))
}

/// Makes the folder of bodies that arrive.
fn prepare(options: &Options) -> Result<(), Failure> {
    let Some(spool) = &options.gate.bodies.spool else {
        return Ok(());
    };
    windlass_api::prepare_spool(&spool.folder).map_err(|error| {
        let message = format!("{}: {error}", spool.folder.display());
        Failure::new(Exit::Storage, "SPOOL_UNUSABLE", message)
            .hint("it holds large request bodies while they arrive; check its permissions")
    })
}

/// Whether the store answers, and pending runs are begun.
async fn ready(engine: Engine) -> Result<(), Vec<windlass_api::Detail>> {
    let store = engine.store().health().await;
    let place = |place: &str, what: String| vec![windlass_api::Detail::new(place, what)];
    match (store, engine.stats().await) {
        (Ok(_), Ok(stats)) if stats.serving => Ok(()),
        (Ok(_), Ok(_)) => Err(place("/queue", "pending runs are not begun yet".to_owned())),
        (Err(error @ windlass_store::Error::Full(_)), _) => {
            let mut detail = windlass_api::Detail::new("/store", error.to_string());
            let code = windlass_api::failures::STORE_FULL.code;
            detail.more.insert("code".to_owned(), code.into());
            Err(vec![detail])
        }
        (Err(error), _) => Err(place("/store", error.to_string())),
        (_, Err(error)) => Err(place("/queue", error.to_string())),
    }
}

fn tell_recovery(recovery: &Recovery) {
    let lost = recovery.quarantined.len() + recovery.dead_lettered.len();
    say::recovered(recovery.recovered.len(), recovery.paused.len(), lost);
    // Runs that became dead letters were logged at that time.
    for (run, reason) in &recovery.quarantined {
        say::quarantined(*run, reason);
    }
}

/// What a server says beside its log, to the same place.
#[derive(Clone, Copy)]
struct Words {
    output: Output,
    /// Whether the log is JSON: then nothing else may stand there.
    json: bool,
}

impl Words {
    fn say(self, text: &str) {
        match self.json {
            true => say::note(text),
            false => self.output.say(text),
        }
    }
}

/// Says where the server listens, for people and for programs; the address of the API, if this
/// process has one.
fn announce(words: Words, options: &Options, server: &Server) -> Result<Option<String>, Failure> {
    let scheme = match options.server.tls {
        Some(_) => "https",
        None => "http",
    };
    let has_api = options.roles.has(Role::Api);
    let url = server.local_addr().filter(|_| has_api);
    let url = url.map(|address| format!("{scheme}://{address}"));
    let probes = server
        .probe_addr()
        .map(|address| format!("http://{address}"));
    let output = words.output;
    if output.json {
        let mut said = serde_json::json!({});
        if let Some(url) = &url {
            said["url"] = url.as_str().into();
        }
        if let Some(probes) = probes {
            said["probeUrl"] = probes.into();
        }
        // On one line, so that the program that started this process knows when it has read all
        // of it.
        output.data(&said.to_string())?;
        return Ok(url);
    }
    let Some(url) = url else {
        let roles: Vec<&str> = options.roles.iter().map(Role::as_str).collect();
        output.line(&format!("working as {}", roles.join(", ")))?;
        if let Some(probes) = probes {
            words.say(&format!("health and metrics are at {probes}"));
        }
        return Ok(None);
    };
    output.line(&format!("listening on {url}"))?;
    if let Some(probes) = probes {
        words.say(&format!("health and metrics are also at {probes}"));
    }
    words.say(&format!("the page is at {url}/"));
    words.say(&format!("the API is described at {url}/api/docs"));
    Ok(Some(url))
}
