//! What the settings say about a server, checked before anything is opened.

use std::io::IsTerminal as _;
use std::sync::Arc;
use std::time::Duration;

use windlass_api::auth::{Auth, JwtOptions, KeySource};
use windlass_api::route::{Access, GateOptions};
use windlass_api::serve::{ServerOptions, TlsFiles};
use windlass_api::{BodyOptions, Budget, SpoolOptions};
use windlass_engine::{Registry, Retain, Serving};
use windlass_store::{Role, Roles};
use windlass_telemetry::{Endpoint, Format, LogOptions, TelemetryOptions, TraceOptions};

use crate::args::Serve;
use crate::config::Config;
use crate::event_fanout::EventFanout;
use crate::exit::{Exit, Failure};
use crate::registry::action_options;
use crate::session::Settings;

use super::backend::Place;

/// How often workers over HTTP send a heartbeat.
const DEFAULT_HEARTBEAT: Duration = Duration::from_secs(3);

/// The least of it: below this, answers on a busy machine would count as missed.
const LEAST_HEARTBEAT: Duration = Duration::from_millis(100);

/// How to serve.
pub(super) struct Options {
    pub(super) server: ServerOptions,
    pub(super) gate: GateOptions,
    pub(super) serving: Serving,
    /// How long a node waits for an action that no worker has declared.
    pub(super) unknown_action_wait: Duration,
    pub(super) worker_heartbeat: Duration,
    pub(super) telemetry: TelemetryOptions,
    /// Whether the log on standard error is JSON, line by line.
    pub(super) logs_json: bool,
    /// What health and metrics need.
    pub(super) probing: Access,
    pub(super) event_fanout: Arc<EventFanout>,
    /// What this process does.
    pub(super) roles: Roles,
    /// How many actions run at once.
    pub(super) workers: Option<u32>,
    /// What the workers here have.
    pub(super) worker_labels: windlass_orchestrator::Labels,
    /// Where runs are kept.
    pub(super) place: Place,
    keys: Option<JwtOptions>,
    allow_exec: bool,
}

impl Options {
    /// Logs text where the settings leave the choice.
    pub(super) fn log_for_people(&mut self) {
        if let Some(logs) = &mut self.telemetry.logs
            && logs.format == Format::Auto
        {
            logs.format = Format::Text;
            self.logs_json = false;
        }
    }

    /// Reads the settings, with the command's own flags before all others.
    pub(super) fn new(config: &Config, arguments: &Serve) -> Result<Self, Failure> {
        let on = |flag: bool| flag.then(|| "true".to_owned());
        let listed = |list: &[String]| (!list.is_empty()).then(|| list.join(","));
        let config = config.clone().with([
            ("listen", arguments.listen.clone()),
            ("backend", arguments.backend.map(|it| it.name().to_owned())),
            ("postgres_url", arguments.postgres_url.clone()),
            ("nats_url", arguments.nats_url.clone()),
            ("ack", arguments.ack.map(|it| it.name().to_owned())),
            ("role", listed(&names(&arguments.role))),
            ("worker_labels", listed(&arguments.worker_labels)),
            ("workers", arguments.workers.map(|it| it.to_string())),
            ("probe_listen", arguments.probe_listen.clone()),
            ("insecure", on(arguments.insecure)),
            ("allow_host", listed(&arguments.allow_host)),
            ("auth_keys", arguments.auth_keys.clone()),
            ("auth_issuer", arguments.auth_issuer.clone()),
            ("auth_audience", arguments.auth_audience.clone()),
            ("auth_require_tenant", on(arguments.auth_require_tenant)),
            ("tls_cert", arguments.tls_cert.clone()),
            ("tls_key", arguments.tls_key.clone()),
            ("allow_exec", on(arguments.allow_exec)),
        ])?;
        let options = Self {
            server: server(&config)?,
            gate: gate(&config)?,
            serving: serving(&config),
            unknown_action_wait: config.span("unknown_action_wait").unwrap_or(Duration::ZERO),
            worker_heartbeat: config
                .span("worker_heartbeat")
                .map_or(DEFAULT_HEARTBEAT, |every| every.max(LEAST_HEARTBEAT)),
            telemetry: telemetry(&config)?,
            logs_json: match config.value("log_format") {
                Some("json") => true,
                Some("text") => false,
                _ => !std::io::stderr().is_terminal(),
            },
            probing: match config.is_on("private_probes") {
                true => Access::read(),
                false => Access::public(),
            },
            event_fanout: Arc::default(),
            place: place(&config)?,
            roles: roles(&config)?,
            workers: config.number("workers"),
            worker_labels: config.list("worker_labels").into_iter().collect(),
            keys: keys(&config),
            allow_exec: config.is_on("allow_exec"),
        };
        options.refuse_exposure(&config)?;
        Ok(options)
    }

    /// Refuses an address that is reachable from outside without tokens: every client could do
    /// everything. `--insecure` allows it.
    fn refuse_exposure(&self, config: &Config) -> Result<(), Failure> {
        let address = self.server.address;
        if !self.roles.has(Role::Api) {
            // It answers nothing but probes.
            return Ok(());
        }
        if address.ip().is_loopback() || self.keys.is_some() || config.is_on("insecure") {
            return Ok(());
        }
        let message = format!("{address} can be reached from outside, and nothing asks for tokens");
        Err(Failure::new(Exit::Usage, "AUTH_REQUIRED", message)
            .hint("give --auth-keys FILE|URL (`windlass token` makes a key), or --insecure"))
    }

    /// How requests prove whom they come from; reads the keys.
    pub(super) async fn auth(&self) -> Result<Auth, Failure> {
        let Some(keys) = &self.keys else {
            return Ok(Auth::off());
        };
        Auth::jwt(keys.clone())
            .await
            .map_err(|reason| Failure::new(Exit::Invalid, "AUTH_KEYS_UNUSABLE", reason))
    }

    /// The actions that runs of this server may call.
    pub(super) fn registry(&self, settings: &Settings) -> Registry {
        windlass_actions::registry_with(windlass_actions::Options {
            exec: self.allow_exec,
            ..action_options(settings)
        })
    }
}

fn names(roles: &[crate::args::Role]) -> Vec<String> {
    roles.iter().map(|role| role.name().to_owned()).collect()
}

/// What the process does. A data directory belongs to one process, which does everything.
fn roles(config: &Config) -> Result<Roles, Failure> {
    let names = config.list("role");
    let roles: Roles = match names.iter().any(|name| name == "all") {
        true => Roles::ALL,
        false => names.into(),
    };
    if roles == Roles::ALL || matches!(config.value("backend"), Some("postgres" | "nats")) {
        return Ok(roles);
    }
    let message = "a process with some roles alone needs a database that others share: on a data \
                   directory one process has every role";
    Err(Failure::new(Exit::Usage, "SETTING_INVALID", message)
        .hint("leave --role out, or name the database with --backend postgres or nats"))
}

/// Where runs are kept.
fn place(config: &Config) -> Result<Place, Failure> {
    Ok(match config.value("backend") {
        Some("postgres") => Place::Database(crate::database::settings(config, None)?.into()),
        Some("nats") => {
            let settings = crate::nats::settings(config, None, None)?;
            Place::Nats(settings.lower_replicas(true).into())
        }
        _ => Place::Directory,
    })
}

fn server(config: &Config) -> Result<ServerOptions, Failure> {
    let listen = config.value("listen").unwrap_or_default();
    let address = listen
        .parse()
        .map_err(|_| Failure::new(Exit::Usage, "SETTING_INVALID", format!("listen: {listen}")))?;
    let mut server = ServerOptions::new(address);
    let tls = (config.value("tls_cert"), config.value("tls_key"));
    server.tls = match tls {
        (Some(certificates), Some(key)) => Some(TlsFiles {
            certificates: certificates.into(),
            key: key.into(),
        }),
        (None, None) => None,
        _ => {
            let message = "tls_cert and tls_key belong together, and one is missing";
            return Err(Failure::new(Exit::Usage, "SETTING_INVALID", message));
        }
    };
    server.probe_address = config.number("probe_listen");
    server.listens = roles(config)?.has(Role::Api);
    let set = |place: &mut usize, key| *place = config.number(key).unwrap_or(*place);
    set(&mut server.max_connections, "max_connections");
    set(&mut server.probe_connections, "probe_connections");
    if let Some(share) = config.number("connection_share") {
        server.connection_share = share;
    }
    let set = |time: &mut Duration, key| *time = config.span(key).unwrap_or(Duration::MAX);
    set(&mut server.header_timeout, "header_timeout");
    set(&mut server.idle_timeout, "idle_timeout");
    set(&mut server.drain_timeout, "drain_timeout");
    Ok(server)
}

fn gate(config: &Config) -> Result<GateOptions, Failure> {
    let budget = |rate, burst| {
        let rate: u32 = config.number(rate).unwrap_or(0);
        match rate {
            0 => Budget::OFF,
            rate => Budget::per_minute(rate, config.number(burst).unwrap_or(0).max(1)),
        }
    };
    let time = |key| config.span(key).unwrap_or(Duration::MAX);
    Ok(GateOptions {
        request_timeout: time("request_timeout"),
        body_timeout: time("body_timeout"),
        origins: config.list("cors_origins"),
        token_rate: budget("rate_per_minute", "rate_burst"),
        read_rate: budget("read_rate_per_minute", "read_rate_burst"),
        workflow_rate: budget("workflow_rate_per_minute", "workflow_rate_burst"),
        listen: config.number("listen"),
        allow_hosts: config.list("allow_host"),
        bodies: bodies(config)?,
        ..GateOptions::default()
    })
}

/// How bodies are held. The largest that is allowed must fit, or it never could be sent.
fn bodies(config: &Config) -> Result<BodyOptions, Failure> {
    let defaults = BodyOptions::default();
    let memory = config.number("body_memory").unwrap_or(defaults.memory);
    let bytes = config.number("body_spool").unwrap_or(u64::MAX);
    let largest = windlass_api::largest_body(&config.limits());
    for (name, value) in [("body_memory", memory), ("body_spool", bytes)] {
        if value < largest {
            let message = format!("{name} is {value}, less than the largest body, {largest}");
            return Err(Failure::new(Exit::Usage, "SETTING_INVALID", message)
                .hint("raise it, or lower limit_definition_bytes and limit_trigger_bytes"));
        }
    }
    Ok(BodyOptions {
        memory,
        spool: Some(SpoolOptions {
            folder: config.data_dir().join("spool"),
            after: config.number("body_spool_after").unwrap_or(u64::MAX),
            bytes,
        }),
    })
}

fn serving(config: &Config) -> Serving {
    let mut serving = Serving::default();
    if let Some(most) = config.number("max_active_runs") {
        serving.max_active_runs = most;
    }
    if let Some(most) = config.number("max_poison_retries") {
        serving.max_poison_retries = most;
    }
    let delay = config.span("poison_delay").unwrap_or(Duration::ZERO);
    serving.poison_delay_ms = milliseconds(delay);
    if let Some(trial) = config.span("poison_trial") {
        serving.poison_trial_ms = milliseconds(trial);
    }
    let bound = |key| config.number(key).filter(|bound: &u64| *bound > 0);
    serving.retention = Retain {
        age_ms: config.span("retention_age").map(milliseconds),
        count: bound("retention_count"),
        bytes: bound("retention_bytes"),
        keep_request_ids: config.is_on("retention_keeps_request_ids"),
    };
    serving
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn telemetry(config: &Config) -> Result<TelemetryOptions, Failure> {
    let invalid = |message: String| Failure::new(Exit::Usage, "SETTING_INVALID", message);
    let level = config.value("log_level").unwrap_or("info");
    let mut logs = LogOptions::with_level(level).map_err(invalid)?;
    logs.format = match config.value("log_format") {
        Some("json") => Format::Json,
        Some("text") => Format::Text,
        _ => Format::Auto,
    };
    let endpoint = config.value("otlp_endpoint").map(|endpoint| {
        let endpoint = endpoint.parse::<Endpoint>();
        endpoint.map_err(|error| invalid(format!("otlp_endpoint: {error}")))
    });
    let variable = |name: &str| std::env::var(name).ok();
    let traces = TraceOptions::from_variables(endpoint.transpose()?, variable)
        .map_err(|error| invalid(error.to_string()))?;
    Ok(TelemetryOptions {
        logs: Some(logs),
        traces,
        // A public metrics page must not name the workflows of tenants.
        name_tenants: config.is_on("private_probes"),
        ..TelemetryOptions::default()
    })
}

fn keys(config: &Config) -> Option<JwtOptions> {
    let keys = KeySource::parse(config.value("auth_keys")?);
    Some(JwtOptions {
        issuer: config.value("auth_issuer").map(str::to_owned),
        audience: config.value("auth_audience").map(str::to_owned),
        grace: config.span("auth_keys_grace").unwrap_or(Duration::MAX),
        require_tenant: config.is_on("auth_require_tenant"),
        ..JwtOptions::new(keys)
    })
}
