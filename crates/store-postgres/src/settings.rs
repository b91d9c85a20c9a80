//! Where the database is and how it is used: the URL, the password, TLS, the schema and how many
//! connections one process opens. Nothing here connects.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::SslMode as DriverMode;

use crate::OpenError;

/// The schema that the tables are in, unless another is named.
const SCHEMA: &str = "windlass";

/// How many partitions a new database gets.
const PARTITIONS: u32 = 64;

/// PostgreSQL cuts longer identifiers, and the name of the channel for wake-ups begins with nine
/// letters of ours.
const LONGEST_SCHEMA: usize = 50;

/// How the connection is protected, as `sslmode` in PostgreSQL's own tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SslMode {
    /// Never encrypted.
    Disable,
    /// Encrypted if the server can; no certificate is checked.
    #[default]
    Prefer,
    /// Encrypted; no certificate is checked.
    Require,
    /// Encrypted, and the server's certificate comes from a trusted authority.
    VerifyCa,
    /// The same, and it names the host that was asked for.
    VerifyFull,
}

/// Where the password is, if it is not in the URL.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Password {
    /// In the URL, or none is needed.
    #[default]
    InUrl,
    /// In this file; a line break at its end does not count.
    File(PathBuf),
    /// In this environment variable.
    Variable(String),
}

/// What opening may change in the database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SchemaChange {
    /// A schema that is missing is made, and an older one is brought up to date.
    #[default]
    Make,
    /// An older schema is brought up to date; a missing one is refused.
    Update,
    /// Nothing: a schema that is missing or older is refused.
    Nothing,
}

/// Connections for the work queue and inboxes.
pub(crate) const QUEUE: usize = 4;

/// How to reach and use the database.
#[derive(Clone)]
pub struct Settings {
    pub(crate) config: Config,
    pub(crate) password: Password,
    pub(crate) ssl_mode: SslMode,
    pub(crate) root_certificates: Option<PathBuf>,
    pub(crate) schema: String,
    pub(crate) cluster: Option<String>,
    pub(crate) writers: usize,
    pub(crate) pool: usize,
    pub(crate) partitions: u32,
    pub(crate) answer_time: Duration,
    pub(crate) migrating: bool,
    pub(crate) change: SchemaChange,
}

/// Without the password.
impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("address", &self.address())
            .field("schema", &self.schema)
            .field("ssl_mode", &self.ssl_mode)
            .finish_non_exhaustive()
    }
}

impl Settings {
    /// Reads `postgres://user:password@host:port/database?sslmode=verify-full&…`. Beside the
    /// driver's own parameters it knows `sslmode`, `sslrootcert`, `schema` and `cluster`.
    ///
    /// # Errors
    /// What of the URL cannot be read.
    pub fn parse(url: &str) -> Result<Self, OpenError> {
        let (plain, own) = split(url)?;
        let mut config: Config = plain.parse().map_err(|error| {
            // The driver's text names the part, never its value.
            let told = crate::error::told(&error);
            OpenError::refused(format!("the database URL cannot be read: {told}"))
        })?;
        if config.get_dbname().is_none() {
            return Err(OpenError::refused(
                "the database URL names no database; write postgres://user@host:5432/DATABASE",
            ));
        }
        set_defaults(&mut config, &plain);
        let mut settings = Self {
            config,
            password: Password::InUrl,
            ssl_mode: SslMode::default(),
            root_certificates: None,
            schema: SCHEMA.into(),
            cluster: None,
            writers: 3,
            pool: 6,
            partitions: PARTITIONS,
            answer_time: Duration::from_secs(10),
            migrating: false,
            change: SchemaChange::default(),
        };
        for (name, value) in own {
            settings = settings.take(&name, &value)?;
        }
        Ok(settings)
    }

    fn take(mut self, name: &str, value: &str) -> Result<Self, OpenError> {
        match name {
            "sslmode" => self.ssl_mode = ssl_mode(value)?,
            "sslrootcert" if value == "system" => self.root_certificates = None,
            "sslrootcert" => self.root_certificates = Some(Path::new(value).into()),
            "cluster" => return Ok(self.cluster(value)),
            _ => return self.schema(value),
        }
        Ok(self)
    }

    /// The schema that the tables are in.
    ///
    /// # Errors
    /// The name is empty, too long, or one of PostgreSQL's own.
    pub fn schema(mut self, name: &str) -> Result<Self, OpenError> {
        let own = name.starts_with("pg_") || name == "information_schema";
        if name.is_empty() || name.len() > LONGEST_SCHEMA || own || name.contains('\0') {
            return Err(OpenError::refused(format!(
                "'{name}' cannot be the schema: choose a name of 1 to {LONGEST_SCHEMA} bytes that \
                 does not begin with pg_"
            )));
        }
        self.schema = name.into();
        Ok(self)
    }

    /// Where the password is, if it is not in the URL.
    #[must_use]
    pub fn password(mut self, password: Password) -> Self {
        self.password = password;
        self
    }

    /// How the connection is protected.
    #[must_use]
    pub fn ssl_mode(mut self, mode: SslMode) -> Self {
        self.ssl_mode = mode;
        self
    }

    /// The file with the certificates of trusted authorities, in PEM; without it, those of the
    /// system.
    #[must_use]
    pub fn root_certificates(mut self, file: &Path) -> Self {
        self.root_certificates = Some(file.into());
        self
    }

    /// The name of the cluster. The first process writes it into the schema, and a process with
    /// another name is refused: two clusters never share one schema by mistake.
    #[must_use]
    pub fn cluster(mut self, name: &str) -> Self {
        self.cluster = Some(name.into());
        self
    }

    /// Connections that append, from 1 to 4.
    #[must_use]
    pub fn writers(mut self, count: usize) -> Self {
        self.writers = count.clamp(1, 4);
        self
    }

    /// Connections for everything but appends, the queue and wake-ups, at least 1.
    #[must_use]
    pub fn pool(mut self, count: usize) -> Self {
        self.pool = count.max(1);
        self
    }

    /// How many partitions a new schema gets; one that exists keeps its number.
    #[must_use]
    pub fn partitions(mut self, count: u32) -> Self {
        self.partitions = count.clamp(1, 4096);
        self
    }

    /// How long an append waits for its answer before its outcome counts as unknown.
    #[must_use]
    pub fn answer_time(mut self, time: Duration) -> Self {
        self.answer_time = time;
        self
    }

    /// Whether a schema is opened that a migration has not completed, to go on with it.
    #[must_use]
    pub fn migrating(mut self, migrating: bool) -> Self {
        self.migrating = migrating;
        self
    }

    /// What opening may change in the database.
    #[must_use]
    pub fn schema_change(mut self, change: SchemaChange) -> Self {
        self.change = change;
        self
    }

    /// The most connections that one process opens: writers, queue, pool, and one each that renews
    /// the session, notifies and listens.
    pub fn most_connections(&self) -> usize {
        self.writers + QUEUE + self.pool + 3
    }

    /// Where the tables are: [`Self::address`] and the schema.
    pub fn place(&self) -> String {
        format!("{} schema {}", self.address(), self.schema)
    }

    /// User, hosts and database, for messages; never the password.
    pub fn address(&self) -> String {
        let hosts = self.config.get_hosts().iter().map(|host| match host {
            tokio_postgres::config::Host::Tcp(name) => name.clone(),
            #[cfg(unix)]
            tokio_postgres::config::Host::Unix(path) => path.display().to_string(),
        });
        let hosts: Vec<String> = hosts.collect();
        let port = self.config.get_ports().first().copied().unwrap_or(5432);
        let user = self.config.get_user().unwrap_or("(no user)");
        let database = self.config.get_dbname().unwrap_or_default();
        format!("{user}@{}:{port}/{database}", hosts.join(","))
    }

    /// The driver's settings, with the password.
    pub(crate) fn driver(&self) -> Result<Config, OpenError> {
        let mut config = self.config.clone();
        config.ssl_mode(match self.ssl_mode {
            SslMode::Disable => DriverMode::Disable,
            SslMode::Prefer => DriverMode::Prefer,
            SslMode::Require | SslMode::VerifyCa | SslMode::VerifyFull => DriverMode::Require,
        });
        match &self.password {
            Password::InUrl => {}
            Password::File(path) => {
                let text = std::fs::read_to_string(path).map_err(|error| {
                    let place = path.display();
                    OpenError::refused(format!("the password file {place}: {error}"))
                })?;
                config.password(text.trim_end_matches(['\r', '\n']));
            }
            Password::Variable(name) => {
                let value = std::env::var(name).map_err(|_| {
                    OpenError::refused(format!(
                        "the variable {name} has no password for the database; set it"
                    ))
                })?;
                config.password(value);
            }
        }
        Ok(config)
    }
}

/// Sets what the URL leaves open.
fn set_defaults(config: &mut Config, url: &str) {
    let query = url.split_once('?').map_or("", |it| it.1);
    let is_open = |name: &str| {
        let mut names = query.split('&').filter_map(|part| part.split('=').next());
        names.all(|it| it != name)
    };
    if is_open("application_name") {
        config.application_name("windlass");
    }
    if is_open("connect_timeout") {
        config.connect_timeout(Duration::from_secs(5));
    }
    if is_open("keepalives_idle") {
        config.keepalives_idle(Duration::from_secs(15));
    }
    if is_open("keepalives_interval") {
        config.keepalives_interval(Duration::from_secs(5));
    }
    if is_open("keepalives_retries") {
        config.keepalives_retries(3);
    }
    if is_open("tcp_user_timeout") {
        config.tcp_user_timeout(Duration::from_secs(20));
    }
}

fn ssl_mode(value: &str) -> Result<SslMode, OpenError> {
    Ok(match value {
        "disable" => SslMode::Disable,
        "allow" | "prefer" => SslMode::Prefer,
        "require" => SslMode::Require,
        "verify-ca" => SslMode::VerifyCa,
        "verify-full" => SslMode::VerifyFull,
        _ => {
            return Err(OpenError::refused(format!(
                "sslmode '{value}' is unknown; use disable, prefer, require, verify-ca or verify-full"
            )));
        }
    })
}

type Parameter = (String, String);

/// The URL without the parameters that only this crate knows, and these.
fn split(url: &str) -> Result<(String, Vec<Parameter>), OpenError> {
    if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
        return Err(OpenError::refused(
            "the database URL must begin with postgres://, as in \
             postgres://user@host:5432/database",
        ));
    }
    let Some((plain, query)) = url.split_once('?') else {
        return Ok((url.into(), Vec::new()));
    };
    let mut own = Vec::new();
    let mut rest = Vec::new();
    for part in query.split('&').filter(|part| !part.is_empty()) {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        // Else the rest of a password would be named as a parameter that is unknown.
        if name.contains(['@', ':', '/']) {
            return Err(OpenError::refused(
                "the database URL has a parameter that is none; write `?` and `&` in a user's \
                 name or a password as %3F and %26",
            ));
        }
        match name {
            "sslmode" | "sslrootcert" | "schema" | "cluster" => {
                own.push((name.into(), decoded(value)?))
            }
            _ => rest.push(part),
        }
    }
    let plain = match rest.is_empty() {
        true => plain.into(),
        false => format!("{plain}?{}", rest.join("&")),
    };
    Ok((plain, own))
}

/// A value of the query part, with its percent signs resolved.
fn decoded(value: &str) -> Result<String, OpenError> {
    let wrong = || OpenError::refused("the database URL has a '%' that begins no character");
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digit = |byte: Option<u8>| byte.and_then(|it| char::from(it).to_digit(16));
        let (high, low) = (digit(rest.next()), digit(rest.next()));
        let (Some(high), Some(low)) = (high, low) else {
            return Err(wrong());
        };
        bytes.push((high * 16 + low) as u8);
    }
    String::from_utf8(bytes).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_gives_schema_mode_and_the_drivers_own_parameters() {
        let url = "postgres://ann:secret@db.example:5433/work?sslmode=verify-full\
                   &sslrootcert=%2Fetc%2Froot.pem&schema=flows&cluster=blue\
                   &target_session_attrs=read-write";
        let settings = Settings::parse(url).unwrap();
        assert_eq!(settings.ssl_mode, SslMode::VerifyFull);
        assert_eq!(
            settings.root_certificates.as_deref(),
            Some(Path::new("/etc/root.pem"))
        );
        assert_eq!(settings.schema, "flows");
        assert_eq!(settings.cluster.as_deref(), Some("blue"));
        assert_eq!(settings.address(), "ann@db.example:5433/work");
        assert!(!format!("{settings:?}").contains("secret"));
        assert_eq!(settings.most_connections(), 16);
    }

    #[test]
    fn what_a_url_says_goes_before_the_defaults() {
        let parsed = |url: &str| Settings::parse(url).unwrap().config;
        let config = parsed(
            "postgres://ann@host/db?application_name=orders&connect_timeout=2&keepalives_idle=60\
             &keepalives_interval=7&keepalives_retries=9&tcp_user_timeout=3",
        );
        assert_eq!(config.get_application_name(), Some("orders"));
        assert_eq!(config.get_connect_timeout(), Some(&Duration::from_secs(2)));
        assert_eq!(config.get_keepalives_idle(), Duration::from_secs(60));
        assert_eq!(
            config.get_keepalives_interval(),
            Some(Duration::from_secs(7))
        );
        assert_eq!(config.get_keepalives_retries(), Some(9));
        assert_eq!(config.get_tcp_user_timeout(), Some(&Duration::from_secs(3)));
        let config = parsed("postgres://ann@host/db?keepalives_idle=60");
        assert_eq!(config.get_application_name(), Some("windlass"));
        assert_eq!(config.get_connect_timeout(), Some(&Duration::from_secs(5)));
    }

    #[test]
    fn what_is_wrong_with_a_url_is_named() {
        let told = |url: &str| Settings::parse(url).unwrap_err().to_string();
        assert!(told("mysql://host/db").contains("must begin with postgres://"));
        assert!(told("postgres://ann@host").contains("names no database"));
        assert!(told("postgres://ann@host/db?sslmode=none").contains("verify-full"));
        assert!(told("postgres://ann@host/db?schema=pg_x").contains("pg_x"));
        assert!(told("postgres://ann@host/db?schema=%zz").contains('%'));
        for password in ["half?secret", "half?and&secret"] {
            let text = told(&format!("postgres://ann:{password}@host/db"));
            assert!(text.contains("%3F") && !text.contains("secret"), "{text}");
        }
        let unknown = told("postgres://ann:secret@host/db?colour=red");
        assert!(unknown.contains("colour") && !unknown.contains("secret"));
    }

    #[test]
    fn a_password_comes_from_a_file_or_a_variable() {
        let settings = Settings::parse("postgres://ann@host/db").unwrap();
        let path = std::env::temp_dir().join(format!("windlass-password-{}", std::process::id()));
        std::fs::write(&path, "from a file\n").unwrap();
        let read = settings.clone().password(Password::File(path.clone()));
        let config = read.driver().unwrap();
        assert_eq!(config.get_password(), Some(&b"from a file"[..]));
        std::fs::remove_file(&path).unwrap();
        assert!(
            read.driver()
                .unwrap_err()
                .to_string()
                .contains("password file")
        );
        let unset = settings.password(Password::Variable("WINDLASS_UNSET".into()));
        assert!(
            unset
                .driver()
                .unwrap_err()
                .to_string()
                .contains("WINDLASS_UNSET")
        );
    }
}
