//! Every setting: its name in the file, its variable, its default, what it may be, and what
//! it is for.

use std::net::SocketAddr;
use std::time::Duration;

use windlass_core::definition::{DefinitionLimits, Retry};
use windlass_core::name::is_key_name;

use super::http_allowed;

/// What `http_allow` takes.
const REACH: &str = "addresses, networks or host names without a port, such as 127.0.0.1, \
                     10.0.0.0/8 or intranet.example";

/// What the roles of a process are.
const ROLES: &str = "all, or some of api, orchestrator, worker and scheduler";

/// Whether a process can have roles of these names.
fn are_roles(names: &str) -> bool {
    let known = |name: &str| {
        let mut roles = windlass_store::Role::ALL.iter();
        name == "all" || roles.any(|role| role.as_str() == name)
    };
    !names.is_empty() && super::items(names).all(known)
}

/// A setting.
#[derive(Debug)]
pub(crate) struct SettingKey {
    /// Its name in the file.
    pub(crate) name: &'static str,
    pub(crate) variable: &'static str,
    /// What it is when nothing says otherwise.
    pub(crate) default: Option<&'static str>,
    /// What it may be.
    pub(crate) kind: Kind,
    /// What it is for.
    pub(crate) about: &'static str,
}

/// What a setting may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Any text.
    Text,
    /// A path; in a file, from where the file is.
    Path,
    /// `table` or `json`.
    Output,
    /// A whole number from 1.
    Count,
    /// A whole number from 0.
    Number,
    /// A number of bytes that fit into one value.
    Bytes,
    /// A number of bytes, steps or the like, of any size.
    Large,
    /// How deep something may be nested.
    Depth,
    /// A time such as `30s`, or `off`.
    Span,
    /// A time such as `30s`.
    Time,
    /// A time such as `30s`, at least a millisecond.
    Timeout,
    /// The same, or `off`.
    RunTimeout,
    /// A retry, as definitions write it.
    Retry,
    /// A part of a hundred.
    Percent,
    /// `true` or `false`.
    Switch,
    /// A list.
    List,
    /// A list of names that become keys.
    Names,
    /// A list of host names.
    Hosts,
    /// What `http.request` may reach.
    Reach,
    /// An address and a port.
    Address,
    /// Where a server is.
    Url,
    /// Where a mail server is.
    Smtp,
    /// How much is logged.
    Level,
    /// How it is logged.
    LogFormat,
    /// A storage backend.
    Backend,
    /// When a start is acknowledged.
    Acknowledge,
    /// What a process does.
    Roles,
    /// A PostgreSQL database.
    Database,
}

/// The storage backends.
const BACKENDS: [&str; 3] = ["embedded", "postgres", "nats"];

impl Kind {
    /// Says what a value must be if it is not that.
    pub(super) fn check(self, value: &str) -> Result<(), &'static str> {
        let (fits, possible) = match self {
            Self::Text | Self::Path | Self::List => return Ok(()),
            Self::Names => (
                super::items(value).all(is_key_name),
                "names of letters, digits, '.', '_', '/', ':' and '-', each of at most 128 bytes",
            ),
            Self::Output => (matches!(value, "table" | "json"), "table or json"),
            Self::Count => (
                value.parse().is_ok_and(|number: u32| number > 0),
                "a whole number from 1",
            ),
            Self::Number => (value.parse::<u64>().is_ok(), "a whole number from 0"),
            Self::Bytes => (
                value
                    .parse()
                    .is_ok_and(|bytes| (1..=MOST_BYTES).contains(&bytes)),
                "a number of bytes from 1 to 1073741824",
            ),
            Self::Large => (
                value.parse().is_ok_and(|number: u64| number > 0),
                "a whole number from 1",
            ),
            Self::Depth => (
                value
                    .parse()
                    .is_ok_and(|depth| (1..=DefinitionLimits::MAX_NESTING).contains(&depth)),
                "a depth from 1 to 64",
            ),
            Self::Span => (
                value == "off" || span(value).is_some(),
                "a time such as 500ms, 30s, 5m, 2h or 7d, or off",
            ),
            Self::Time => (
                span(value).is_some(),
                "a time such as 500ms, 30s, 5m, 2h or 7d",
            ),
            Self::Timeout => (
                span(value).is_some_and(is_timeout),
                "a time such as 500ms, 30s, 5m, 2h or 7d, from 1ms to 36525d",
            ),
            Self::RunTimeout => (
                value == "off" || span(value).is_some_and(is_timeout),
                "a time such as 500ms, 30s, 5m, 2h or 7d, from 1ms to 36525d, or off",
            ),
            Self::Retry => (
                retry(value).is_some(),
                "an object such as {\"maxAttempts\": 3}, with the keys and values that a \
                 definition's retry may have",
            ),
            Self::Percent => (
                value
                    .parse()
                    .is_ok_and(|percent: u8| (1..=100).contains(&percent)),
                "a percentage from 1 to 100",
            ),
            Self::Hosts => (
                value
                    .split(',')
                    .map(str::trim)
                    .filter(|name| !name.is_empty())
                    .all(windlass_api::is_host_pattern),
                "host names such as windlass.example, windlass.example:7400 or *.example",
            ),
            Self::Switch => (matches!(value, "true" | "false"), "true or false"),
            Self::Reach => (http_allowed(value).is_ok(), REACH),
            Self::Address => (
                value.parse::<SocketAddr>().is_ok(),
                "an address with a port, such as 127.0.0.1:7400",
            ),
            Self::Url => (
                crate::remote::address(value).is_some(),
                "an http or https URL, such as http://127.0.0.1:7400",
            ),
            Self::Smtp => (
                is_smtp(value),
                "the address of a mail server: smtp://host:25, smtp+starttls://host:587 or \
                 smtps://host:465",
            ),
            Self::Level => (
                matches!(value, "off" | "error" | "warn" | "info" | "debug" | "trace"),
                "off, error, warn, info, debug or trace",
            ),
            Self::LogFormat => (
                matches!(value, "auto" | "json" | "text"),
                "auto, json or text",
            ),
            Self::Roles => (are_roles(value), ROLES),
            Self::Backend => (BACKENDS.contains(&value), "embedded, postgres or nats"),
            Self::Acknowledge => (matches!(value, "log" | "projected"), "log or projected"),
            Self::Database => (
                windlass_store_postgres::Settings::parse(value).is_ok(),
                "a database such as postgres://user@host:5432/database",
            ),
        };
        if fits { Ok(()) } else { Err(possible) }
    }
}

/// Whether a value is the address of a mail server, without credentials: those are secrets.
fn is_smtp(value: &str) -> bool {
    let schemes = ["smtp://", "smtp+starttls://", "smtps://"];
    let host = schemes.iter().find_map(|scheme| value.strip_prefix(scheme));
    host.is_some_and(|host| !host.is_empty() && !host.contains(['@', '/', '?', ' ']))
}

/// What a store can keep in one piece.
const MOST_BYTES: u64 = 1 << 30;

/// A time: a whole number with its unit.
pub(crate) fn span(text: &str) -> Option<Duration> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().ok()?;
    let milliseconds = match unit {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    number.checked_mul(milliseconds).map(Duration::from_millis)
}

/// The longest time that a definition may say: a hundred years.
const MOST_MS: u64 = 3_155_760_000_000;

/// Whether a time can be that of an attempt or a run: what a definition may say.
fn is_timeout(time: Duration) -> bool {
    (1..=MOST_MS.into()).contains(&time.as_millis())
}

/// A retry that a definition could have.
pub(crate) fn retry(text: &str) -> Option<Retry> {
    let retry: Retry = serde_json::from_str(text).ok()?;
    let fits = retry.backoff_factor >= 1.0
        && retry.backoff_factor <= 1_000_000.0
        && retry.base_delay_ms <= MOST_MS
        && retry.max_delay_ms <= MOST_MS;
    fits.then_some(retry)
}

const fn key(
    name: &'static str,
    variable: &'static str,
    default: Option<&'static str>,
    kind: Kind,
    about: &'static str,
) -> SettingKey {
    SettingKey {
        name,
        variable,
        default,
        kind,
        about,
    }
}

/// All settings, in the order of the documentation.
#[rustfmt::skip]
pub(crate) const KEYS: &[SettingKey] = &[
    key("data_dir", "WINDLASS_DATA_DIR", Some(".windlass"), Kind::Path, "where runs and definitions are kept"),
    key("output", "WINDLASS_OUTPUT", Some("table"), Kind::Output, "how results are written"),
    key("max_parallel", "WINDLASS_MAX_PARALLEL", Some("200"), Kind::Count, "nodes of one run that execute at once"),
    key("workers", "WINDLASS_WORKERS", Some("1024"), Kind::Count, "actions that execute at once"),
    key("worker_labels", "WINDLASS_WORKER_LABELS", None, Kind::Names, "the labels of this process's workers, for nodes that require them"),
    key("defaults.action_timeout", "WINDLASS_DEFAULTS_ACTION_TIMEOUT", Some("5m"), Kind::Timeout, "the timeout of an attempt when the definition sets none; recorded in each run that starts"),
    key("defaults.run_timeout", "WINDLASS_DEFAULTS_RUN_TIMEOUT", Some("off"), Kind::RunTimeout, "the timeout of a run when the definition sets none; recorded in each run that starts"),
    key("defaults.retry", "WINDLASS_DEFAULTS_RETRY", None, Kind::Retry, "the retry policy of actions, subworkflows and compensations that set none; recorded in each run that starts"),
    key("limit_nodes", "WINDLASS_LIMIT_NODES", Some("100000"), Kind::Count, "nodes of a definition, those of bodies included"),
    key("limit_definition_bytes", "WINDLASS_LIMIT_DEFINITION_BYTES", Some("67108864"), Kind::Bytes, "bytes of a definition"),
    key("limit_nesting", "WINDLASS_LIMIT_NESTING", Some("64"), Kind::Depth, "nesting depth of definitions and values"),
    key("limit_trigger_bytes", "WINDLASS_LIMIT_TRIGGER_BYTES", Some("10485760"), Kind::Bytes, "bytes of a trigger, a signal or a result given by hand"),
    key("limit_output_bytes", "WINDLASS_LIMIT_OUTPUT_BYTES", Some("10485760"), Kind::Bytes, "bytes of an output"),
    key("limit_blob_bytes", "WINDLASS_LIMIT_BLOB_BYTES", Some("268435456"), Kind::Large, "bytes of an answer that http.request stores as a blob"),
    key("limit_run_outputs_bytes", "WINDLASS_LIMIT_RUN_OUTPUTS_BYTES", Some("1073741824"), Kind::Large, "bytes of a run's outputs together"),
    key("limit_vars", "WINDLASS_LIMIT_VARS", Some("16777216"), Kind::Large, "bytes of a run's variables together, their names included"),
    key("limit_retry_after", "WINDLASS_LIMIT_RETRY_AFTER", Some("1h"), Kind::Time, "the longest wait that an action may ask for before its next attempt"),
    key("limit_schema", "WINDLASS_LIMIT_SCHEMA", Some("10000"), Kind::Count, "subschemas that a JSON Schema may expand to for one value"),
    key("limit_expression_bytes", "WINDLASS_LIMIT_EXPRESSION_BYTES", Some("16384"), Kind::Bytes, "bytes of an expression"),
    key("limit_expression_nesting", "WINDLASS_LIMIT_EXPRESSION_NESTING", Some("64"), Kind::Depth, "nesting depth of an expression"),
    key("limit_expression_steps", "WINDLASS_LIMIT_EXPRESSION_STEPS", Some("1000000"), Kind::Large, "steps of an evaluation"),
    key("limit_expression_built_bytes", "WINDLASS_LIMIT_EXPRESSION_BUILT_BYTES", Some("16777216"), Kind::Bytes, "bytes that an evaluation may build"),
    key("http_allow", "WINDLASS_HTTP_ALLOW", None, Kind::Reach, "what http.request and the connectors may reach besides public addresses"),
    key("slack_base_url", "WINDLASS_SLACK_BASE_URL", Some("https://slack.com/api"), Kind::Url, "Slack's Web API"),
    key("monday_base_url", "WINDLASS_MONDAY_BASE_URL", Some("https://api.monday.com/v2"), Kind::Url, "Monday's GraphQL endpoint"),
    key("confluence_base_url", "WINDLASS_CONFLUENCE_BASE_URL", None, Kind::Url, "the base URL of the Confluence site, ending in /wiki"),
    key("smtp_url", "WINDLASS_SMTP_URL", None, Kind::Smtp, "the mail server: smtp://host:25, smtp+starttls://host:587 or smtps://host:465"),
    key("smtp_from", "WINDLASS_SMTP_FROM", None, Kind::Text, "the sender of mail when the node names none"),
    key("sealing_key_file", "WINDLASS_SEALING_KEY_FILE", None, Kind::Path, "the key that seals secrets; else secrets.key in the data directory"),
    key("server", "WINDLASS_SERVER", None, Kind::Url, "the server that commands act on"),
    key("token", "WINDLASS_TOKEN", None, Kind::Text, "the bearer token for that server"),
    key("role", "WINDLASS_ROLE", Some("all"), Kind::Roles, "what a process of the backends postgres and nats does: api, orchestrator, worker, scheduler, or all"),
    key("backend", "WINDLASS_BACKEND", Some("embedded"), Kind::Backend, "the storage backend of the server: embedded, postgres or nats"),
    key("postgres_url", "WINDLASS_POSTGRES_URL", None, Kind::Database, "the database of the backends postgres and nats"),
    key("postgres_password_file", "WINDLASS_POSTGRES_PASSWORD_FILE", None, Kind::Path, "the file with the database's password, if the URL has none"),
    key("postgres_schema", "WINDLASS_POSTGRES_SCHEMA", None, Kind::Text, "the schema that the tables are in; else the URL's, else windlass"),
    key("nats_url", "WINDLASS_NATS_URL", None, Kind::Text, "the servers of the backend nats, separated by commas"),
    key("nats_prefix", "WINDLASS_NATS_PREFIX", Some("wl"), Kind::Text, "what the names of its streams, buckets and subjects begin with"),
    key("nats_creds", "WINDLASS_NATS_CREDS", None, Kind::Path, "the credentials file for NATS"),
    key("nats_nkey", "WINDLASS_NATS_NKEY", None, Kind::Path, "the file with the seed of an NKey for NATS"),
    key("nats_ca", "WINDLASS_NATS_CA", None, Kind::Path, "the certificates of authorities for TLS to NATS, in PEM; makes TLS a must"),
    key("nats_replicas", "WINDLASS_NATS_REPLICAS", None, Kind::Count, "how many servers of a NATS cluster keep each message: 1, 3 or 5; else as it is, and 1 for a new installation"),
    key("ack", "WINDLASS_ACK", Some("log"), Kind::Acknowledge, "when a start is acknowledged on the backend nats: log, or projected (the database has it too)"),
    key("cluster_name", "WINDLASS_CLUSTER_NAME", None, Kind::Text, "the name of the cluster: the first process writes it into the schema, and one with another name is refused"),
    key("listen", "WINDLASS_LISTEN", Some("127.0.0.1:7400"), Kind::Address, "where the server listens"),
    key("allow_host", "WINDLASS_ALLOW_HOST", None, Kind::Hosts, "host names, besides its own, that a server without tokens answers to: name, name:port or *.name"),
    key("probe_listen", "WINDLASS_PROBE_LISTEN", None, Kind::Address, "an additional address for health and metrics, without TLS"),
    key("insecure", "WINDLASS_INSECURE", Some("false"), Kind::Switch, "whether the server may listen beyond loopback without tokens"),
    key("auth_keys", "WINDLASS_AUTH_KEYS", None, Kind::Text, "the keys of tokens: a JWKS file or URL"),
    key("auth_issuer", "WINDLASS_AUTH_ISSUER", None, Kind::Text, "the required issuer of tokens"),
    key("auth_audience", "WINDLASS_AUTH_AUDIENCE", None, Kind::Text, "the required audience of tokens"),
    key("auth_require_tenant", "WINDLASS_AUTH_REQUIRE_TENANT", Some("false"), Kind::Switch, "whether every token must have tenant_id"),
    key("auth_keys_grace", "WINDLASS_AUTH_KEYS_GRACE", Some("5m"), Kind::Span, "how long the last keys are used while their document cannot be read or has none"),
    key("tls_cert", "WINDLASS_TLS_CERT", None, Kind::Path, "the certificate chain, in PEM"),
    key("tls_key", "WINDLASS_TLS_KEY", None, Kind::Path, "the private key of tls_cert, in PEM"),
    key("rate_per_minute", "WINDLASS_RATE_PER_MINUTE", Some("60"), Kind::Number, "requests per minute per token that start or change something; 0 means no limit"),
    key("rate_burst", "WINDLASS_RATE_BURST", Some("120"), Kind::Number, "such requests at once per token"),
    key("read_rate_per_minute", "WINDLASS_READ_RATE_PER_MINUTE", Some("600"), Kind::Number, "reads per minute per token; 0 means no limit"),
    key("read_rate_burst", "WINDLASS_READ_RATE_BURST", Some("600"), Kind::Number, "reads at once per token"),
    key("workflow_rate_per_minute", "WINDLASS_WORKFLOW_RATE_PER_MINUTE", Some("0"), Kind::Number, "starts per minute per workflow; 0 means no limit"),
    key("workflow_rate_burst", "WINDLASS_WORKFLOW_RATE_BURST", Some("0"), Kind::Number, "burst of starts per workflow"),
    key("cors_origins", "WINDLASS_CORS_ORIGINS", None, Kind::List, "origins whose pages may call the API"),
    key("max_connections", "WINDLASS_MAX_CONNECTIONS", Some("10000"), Kind::Count, "connections at once"),
    key("connection_share", "WINDLASS_CONNECTION_SHARE", Some("75"), Kind::Percent, "the share of connections, in percent, that one address or token may hold"),
    key("probe_connections", "WINDLASS_PROBE_CONNECTIONS", Some("16"), Kind::Count, "connections reserved for health and metrics"),
    key("body_memory", "WINDLASS_BODY_MEMORY", Some("268435456"), Kind::Large, "bytes of all request bodies in memory"),
    key("body_spool", "WINDLASS_BODY_SPOOL", Some("1073741824"), Kind::Large, "bytes of all request bodies on disk while they arrive"),
    key("body_spool_after", "WINDLASS_BODY_SPOOL_AFTER", Some("262144"), Kind::Bytes, "body size in bytes from which a body is spooled to disk"),
    key("header_timeout", "WINDLASS_HEADER_TIMEOUT", Some("10s"), Kind::Span, "how long the head of a request may take"),
    key("idle_timeout", "WINDLASS_IDLE_TIMEOUT", Some("60s"), Kind::Span, "how long a connection may be idle"),
    key("body_timeout", "WINDLASS_BODY_TIMEOUT", Some("30s"), Kind::Span, "how long a body may take"),
    key("request_timeout", "WINDLASS_REQUEST_TIMEOUT", Some("60s"), Kind::Span, "how long an answer may take"),
    key("drain_timeout", "WINDLASS_DRAIN_TIMEOUT", Some("30s"), Kind::Span, "how long open requests may take to finish at shutdown"),
    key("private_probes", "WINDLASS_PRIVATE_PROBES", Some("false"), Kind::Switch, "whether health and metrics need a token with workflows:read"),
    key("max_active_runs", "WINDLASS_MAX_ACTIVE_RUNS", Some("1024"), Kind::Count, "runs in memory at once; further runs wait in the queue"),
    key("unknown_action_wait", "WINDLASS_UNKNOWN_ACTION_WAIT", Some("60s"), Kind::Span, "how long a node waits on a server for an action that no worker has declared"),
    key("worker_heartbeat", "WINDLASS_WORKER_HEARTBEAT", Some("3s"), Kind::Span, "how often workers over HTTP send a heartbeat, at least 100ms; after three missed ones another worker gets the task"),
    key("max_poison_retries", "WINDLASS_MAX_POISON_RETRIES", Some("3"), Kind::Count, "process crashes during a run's work before the run becomes a dead letter"),
    key("poison_delay", "WINDLASS_POISON_DELAY", Some("5m"), Kind::Span, "how long a run waits after a crash before it is tried again"),
    key("poison_trial", "WINDLASS_POISON_TRIAL", Some("10s"), Kind::Span, "how long no other run begins while a suspect run is tried, at first"),
    key("retention_age", "WINDLASS_RETENTION_AGE", Some("off"), Kind::Span, "how long ended runs are kept"),
    key("retention_count", "WINDLASS_RETENTION_COUNT", Some("0"), Kind::Number, "how many ended runs are kept; 0 means all"),
    key("retention_bytes", "WINDLASS_RETENTION_BYTES", Some("0"), Kind::Number, "stored bytes above which ended runs are removed; 0 means no limit"),
    key("retention_keeps_request_ids", "WINDLASS_RETENTION_KEEPS_REQUEST_IDS", Some("false"), Kind::Switch, "whether request ids outlive their runs"),
    key("allow_exec", "WINDLASS_ALLOW_EXEC", Some("false"), Kind::Switch, "whether core.exec runs programs on the server"),
    key("log_level", "WINDLASS_LOG", Some("info"), Kind::Level, "how much the server logs"),
    key("log_format", "WINDLASS_LOG_FORMAT", Some("auto"), Kind::LogFormat, "the log format; auto is text on a terminal, else JSON"),
    key("otlp_endpoint", "WINDLASS_OTLP_ENDPOINT", None, Kind::Text, "the OpenTelemetry collector that gets traces; else the one that the OTEL_ variables name"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_possible_and_names_agree() {
        for key in KEYS {
            if let Some(default) = key.default {
                assert_eq!(key.kind.check(default), Ok(()), "{}", key.name);
            }
            let expected = format!("WINDLASS_{}", key.name.replace('.', "_").to_uppercase());
            assert!(
                key.variable == expected || key.name == "log_level",
                "{}",
                key.name
            );
            assert!(!key.about.is_empty());
        }
    }

    #[test]
    fn every_setting_is_documented() {
        let page = include_str!("../../../../docs/configuration.md");
        for key in KEYS {
            let default = key.default.map(|value| format!("`{value}`"));
            let row = format!(
                "| `{}` | `{}` | {} | {} |",
                key.name,
                key.variable,
                default.unwrap_or_default(),
                key.about
            );
            assert!(page.contains(&row), "docs/configuration.md lacks: {row}");
        }
    }

    #[test]
    fn times_have_units() {
        assert_eq!(span("500ms"), Some(Duration::from_millis(500)));
        assert_eq!(span("7d"), Some(Duration::from_secs(7 * 86_400)));
        for wrong in ["", "5", "s", "-1s", "1w", "1.5s"] {
            assert_eq!(span(wrong), None, "{wrong}");
        }
    }
}
