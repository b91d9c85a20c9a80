//! Settings and where each comes from: a flag, a `WINDLASS_*` variable, `windlass.toml`
//! in the working directory, or a default, in that order.

mod keys;

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use windlass_actions::{Addresses, Allowed};
use windlass_core::defaults::Defaults;
use windlass_core::plan::DEFAULT_TIMEOUT_MS;

use crate::args::{Format, Global};
use crate::exit::{Exit, Failure};
use crate::overrides::nearest;
pub(crate) use keys::{KEYS, Kind, SettingKey, span};

/// The file that gives settings, unless `WINDLASS_CONFIG` names another.
const FILE: &str = "windlass.toml";

/// Where the data directory is when nothing says otherwise.
const DEFAULT_DATA_DIR: &str = ".windlass";

/// A larger file is no configuration.
const FILE_BYTES: usize = 1024 * 1024;

/// Where a setting comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SettingOrigin {
    Flag,
    Variable(&'static str),
    File(PathBuf),
    Default,
}

impl SettingOrigin {
    /// What comes from a higher one is meant rather than what comes from a lower.
    fn rank(&self) -> u8 {
        match self {
            Self::Flag => 3,
            Self::Variable(_) => 2,
            Self::File(_) => 1,
            Self::Default => 0,
        }
    }
}

impl fmt::Display for SettingOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag => f.write_str("flag"),
            Self::Variable(name) => f.write_str(name),
            Self::File(path) => path.display().fmt(f),
            Self::Default => f.write_str("default"),
        }
    }
}

/// A setting in force.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    /// Its key in the file.
    pub(crate) key: &'static str,
    /// Its value as text, if it has one.
    pub(crate) value: Option<String>,
    /// Where it comes from.
    pub(crate) origin: SettingOrigin,
}

/// All settings in force.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    settings: Vec<Setting>,
}

impl Config {
    /// Puts the settings together, and refuses what makes no sense.
    pub(crate) fn resolve(global: &Global) -> Result<Self, Failure> {
        let variable = |name: &str| {
            let value = std::env::var_os(name)?;
            let value = value.to_string_lossy().into_owned();
            (!value.is_empty()).then_some(value)
        };
        let named = variable("WINDLASS_CONFIG").map(PathBuf::from);
        let path = named.clone().unwrap_or_else(|| FILE.into());
        let file = match std::fs::metadata(&path) {
            Err(error) if named.is_none() && error.kind() == std::io::ErrorKind::NotFound => {
                Vec::new()
            }
            _ => read(&path)?,
        };
        let setting = |key: &'static SettingKey| {
            let from_file = || file.iter().find(|(known, _)| *known == key.name);
            let (value, origin) = if let Some(value) = flag(global, key.name) {
                (Some(value), SettingOrigin::Flag)
            } else if let Some(value) = variable(key.variable) {
                (Some(value), SettingOrigin::Variable(key.variable))
            } else if let Some((_, value)) = from_file() {
                (Some(value.clone()), SettingOrigin::File(path.clone()))
            } else {
                (key.default.map(str::to_owned), SettingOrigin::Default)
            };
            check(key, value.as_deref(), &origin)?;
            Ok(Setting {
                key: key.name,
                value,
                origin,
            })
        };
        let settings = KEYS.iter().map(setting).collect::<Result<_, Failure>>()?;
        Ok(Self { settings })
    }

    /// Every setting, in the order of the documentation.
    pub(crate) fn settings(&self) -> &[Setting] {
        &self.settings
    }

    /// A setting's value.
    pub(crate) fn value(&self, key: &str) -> Option<&str> {
        let setting = self.settings.iter().find(|setting| setting.key == key)?;
        setting.value.as_deref()
    }

    /// Whether a setting was given on the command line.
    pub(crate) fn is_flag(&self, key: &str) -> bool {
        let mut settings = self.settings.iter();
        settings.any(|setting| setting.key == key && setting.origin == SettingOrigin::Flag)
    }

    /// The server that is asked instead of the data directory: of the two, the one that
    /// was named more closely is meant.
    pub(crate) fn server(&self) -> Result<Option<&str>, Failure> {
        let found = |key| self.settings.iter().find(|setting| setting.key == key);
        let (Some(server), Some(directory)) = (found("server"), found("data_dir")) else {
            return Ok(None);
        };
        if (&server.origin, &directory.origin) == (&SettingOrigin::Flag, &SettingOrigin::Flag) {
            let message = "--server and --data-dir exclude each other";
            return Err(Failure::new(Exit::Usage, "USAGE", message));
        }
        let is_meant = server.origin.rank() >= directory.origin.rank();
        Ok(server.value.as_deref().filter(|_| is_meant))
    }

    /// Where runs and definitions are kept.
    pub(crate) fn data_dir(&self) -> PathBuf {
        self.value("data_dir").unwrap_or(DEFAULT_DATA_DIR).into()
    }

    /// Whether results are JSON.
    pub(crate) fn json(&self) -> bool {
        self.value("output") == Some("json")
    }

    /// What `http.request` may reach besides public addresses; it was checked when read.
    pub(crate) fn http_allowed(&self) -> Allowed {
        let list = self.value("http_allow").unwrap_or_default();
        http_allowed(list).unwrap_or_default()
    }

    /// Where the connectors' services are.
    pub(crate) fn addresses(&self) -> Addresses {
        let value = |key| self.value(key).map(str::to_owned);
        Addresses {
            slack: value("slack_base_url"),
            monday: value("monday_base_url"),
            confluence: value("confluence_base_url"),
            smtp: value("smtp_url"),
            smtp_from: value("smtp_from"),
        }
    }

    /// A setting that is a number; it was checked when it was read.
    pub(crate) fn number<T: std::str::FromStr>(&self, key: &str) -> Option<T> {
        self.value(key)?.parse().ok()
    }

    /// The limits of this process.
    pub(crate) fn limits(&self) -> windlass_engine::Limits {
        fn put<T: std::str::FromStr>(config: &Config, key: &str, place: &mut T) {
            if let Some(value) = config.number(key) {
                *place = value;
            }
        }
        let mut limits = windlass_engine::Limits::default();
        let values = &mut limits.values;
        put(self, "limit_nesting", &mut values.nesting);
        put(self, "limit_output_bytes", &mut values.output_bytes);
        put(self, "limit_blob_bytes", &mut limits.blob_bytes);
        let values = &mut limits.values;
        put(self, "limit_run_outputs_bytes", &mut values.outputs_bytes);
        put(self, "limit_vars", &mut values.vars_bytes);
        if let Some(longest) = self.span("limit_retry_after") {
            values.retry_after_ms = u64::try_from(longest.as_millis()).unwrap_or(u64::MAX);
        }
        let expressions = &mut values.expressions;
        put(
            self,
            "limit_expression_bytes",
            &mut expressions.source_bytes,
        );
        put(self, "limit_expression_nesting", &mut expressions.nesting);
        put(self, "limit_expression_steps", &mut expressions.steps);
        put(
            self,
            "limit_expression_built_bytes",
            &mut expressions.built_bytes,
        );
        put(self, "limit_trigger_bytes", &mut limits.payload_bytes);
        put(self, "limit_schema", &mut limits.schema);
        let definition = &mut limits.definition;
        put(self, "limit_nodes", &mut definition.nodes);
        put(self, "limit_definition_bytes", &mut definition.bytes);
        definition.nesting = limits.values.nesting;
        definition.vars_bytes = limits.values.vars_bytes;
        definition.expressions = limits.values.expressions;
        limits
    }

    /// What definitions that name none get; it was checked when read.
    pub(crate) fn defaults(&self) -> Defaults {
        let milliseconds = |key| {
            let time = self.span(key)?;
            u64::try_from(time.as_millis()).ok()
        };
        let timeout = milliseconds("defaults.action_timeout");
        Defaults {
            // What holds without a setting is not written into runs.
            action_timeout_ms: timeout.filter(|&timeout| timeout != DEFAULT_TIMEOUT_MS),
            run_timeout_ms: milliseconds("defaults.run_timeout"),
            retry: self.value("defaults.retry").and_then(keys::retry),
        }
    }

    /// A setting that is a time; none is `off`.
    pub(crate) fn span(&self, key: &str) -> Option<Duration> {
        keys::span(self.value(key)?)
    }

    /// A setting that is a list.
    pub(crate) fn list(&self, key: &str) -> Vec<String> {
        items(self.value(key).unwrap_or_default())
            .map(str::to_owned)
            .collect()
    }

    /// Whether a setting is on.
    pub(crate) fn is_on(&self, key: &str) -> bool {
        self.value(key) == Some("true")
    }

    /// The same settings with those that a command's own flags give.
    pub(crate) fn with(
        mut self,
        flags: impl IntoIterator<Item = (&'static str, Option<String>)>,
    ) -> Result<Self, Failure> {
        for (name, value) in flags {
            let Some(value) = value else { continue };
            let Some(key) = KEYS.iter().find(|key| key.name == name) else {
                continue;
            };
            check(key, Some(&value), &SettingOrigin::Flag)?;
            for setting in &mut self.settings {
                if setting.key == name {
                    setting.value = Some(value.clone());
                    setting.origin = SettingOrigin::Flag;
                }
            }
        }
        Ok(self)
    }
}

/// A comma-separated list of what `http.request` may reach besides public addresses.
fn http_allowed(list: &str) -> Result<Allowed, String> {
    Allowed::parse(list.split(',').filter(|entry| !entry.trim().is_empty()))
}

/// Whether the command line or its variable asks for JSON, where the settings cannot be
/// known since something about them is wrong.
pub(crate) fn asks_for_json() -> bool {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let asked = arguments.iter().enumerate().find_map(|(at, argument)| {
        let value = match argument.to_str()? {
            "--json" => "json",
            "--output" => arguments.get(at + 1)?.to_str()?,
            other => other.strip_prefix("--output=")?,
        };
        Some(value == "json")
    });
    asked.unwrap_or_else(|| std::env::var_os("WINDLASS_OUTPUT").is_some_and(|name| name == "json"))
}

fn flag(global: &Global, key: &str) -> Option<String> {
    match key {
        "data_dir" => Some(global.data_dir.as_ref()?.display().to_string()),
        "output" if global.json => Some("json".to_owned()),
        "output" => global.output.map(|format| match format {
            Format::Table => "table".to_owned(),
            Format::Json => "json".to_owned(),
        }),
        "server" => global.server.clone(),
        "token" => global.token.clone(),
        _ => None,
    }
}

/// Refuses a value that the setting cannot have, naming where it came from.
fn check(key: &SettingKey, value: Option<&str>, origin: &SettingOrigin) -> Result<(), Failure> {
    let Some(value) = value else { return Ok(()) };
    let Err(possible) = key.kind.check(value) else {
        return Ok(());
    };
    let name = key.name;
    let message = match key.kind {
        // It may hold a password: what is wrong with it is said without it.
        Kind::Database => format!("{origin}: {name}: {}", database_problem(value)),
        _ => format!("{origin}: {name} is '{value}', and must be {possible}"),
    };
    Err(Failure::new(Exit::Usage, "SETTING_INVALID", message))
}

/// What is wrong with the URL of a database, without its password.
fn database_problem(url: &str) -> String {
    match windlass_store_postgres::Settings::parse(url) {
        Ok(_) => String::new(),
        Err(error) => crate::database::url_problem(error),
    }
}

/// What is wrong in a file, and where, in one line.
fn toml_problem(text: &str, error: &toml::de::Error) -> String {
    let message = error.message().replace('\n', ", ");
    let Some(before) = error.span().and_then(|span| text.get(..span.start)) else {
        return message;
    };
    let line = before.matches('\n').count() + 1;
    let column = before
        .rsplit('\n')
        .next()
        .map_or(0, |it| it.chars().count())
        + 1;
    format!("line {line}, column {column}: {message}")
}

/// The keys of a file, as text; unknown ones are errors.
fn read(path: &Path) -> Result<Vec<(&'static str, String)>, Failure> {
    let place = path.display();
    let invalid = |message: String| {
        Failure::new(
            Exit::Invalid,
            "CONFIG_INVALID",
            format!("{place}: {message}"),
        )
    };
    let bytes = crate::source::read_limited(path, FILE_BYTES, crate::source::too_large)?;
    let text = String::from_utf8(bytes).map_err(|error| invalid(error.to_string()))?;
    let table: toml::Table = text
        .parse()
        .map_err(|error: toml::de::Error| invalid(toml_problem(&text, &error)))?;
    let mut known = Vec::new();
    for (key, value) in flat(table) {
        let Some(known_key) = KEYS.iter().find(|known| *known.name == key) else {
            let names: Vec<&str> = KEYS.iter().map(|key| key.name).collect();
            let hint = nearest(&key, names.iter().copied())
                .unwrap_or_else(|| format!("the settings are {}", names.join(", ")));
            return Err(invalid(format!("there is no setting '{key}'")).hint(hint));
        };
        let name = known_key.name;
        let value = match value {
            toml::Value::String(text) => text,
            toml::Value::Boolean(switch) => switch.to_string(),
            toml::Value::Integer(number) => number.to_string(),
            toml::Value::Array(list) if list.iter().all(toml::Value::is_str) => {
                let texts: Vec<&str> = list.iter().filter_map(toml::Value::as_str).collect();
                texts.join(",")
            }
            toml::Value::Table(table) if known_key.kind == Kind::Retry => {
                serde_json::to_string(&table).map_err(|error| invalid(error.to_string()))?
            }
            other => {
                let kind = other.type_str();
                return Err(invalid(format!("{name} is a {kind}, not text or a number")));
            }
        };
        // A path in the file is meant from where the file is.
        let value = match (known_key.kind, path.parent()) {
            (Kind::Path, Some(folder)) => folder.join(value).display().to_string(),
            _ => value,
        };
        known.push((name, value));
    }
    Ok(known)
}

/// The settings of a file, those of a table of settings under its name and theirs.
fn flat(table: toml::Table) -> Vec<(String, toml::Value)> {
    let mut settings = Vec::new();
    for (name, value) in table {
        let inside = format!("{name}.");
        match value {
            toml::Value::Table(table) if KEYS.iter().any(|key| key.name.starts_with(&inside)) => {
                let table = table.into_iter();
                settings.extend(table.map(|(key, value)| (format!("{inside}{key}"), value)));
            }
            value => settings.push((name, value)),
        }
    }
    settings
}

/// The parts of a setting that is a list.
fn items(list: &str) -> impl Iterator<Item = &str> {
    list.split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty())
}
