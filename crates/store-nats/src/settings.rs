//! Where the servers are and how to connect to them; what a new installation gets.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use async_nats::ServerAddr;
use percent_encoding::percent_decode_str;

use crate::OpenError;

/// The most streams of logs.
pub(crate) const MOST_STREAMS: u32 = 16;

/// How the program shows the server who it is.
#[derive(Clone, Default)]
pub enum Login {
    /// By what the URL says, or not at all.
    #[default]
    InUrl,
    /// By a credentials file (`.creds`).
    Credentials(PathBuf),
    /// By an NKey, whose seed is in this file.
    NkeyFile(PathBuf),
}

impl std::fmt::Debug for Login {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::InUrl => f.write_str("InUrl"),
            Self::Credentials(path) => write!(f, "Credentials({})", path.display()),
            Self::NkeyFile(path) => write!(f, "NkeyFile({})", path.display()),
        }
    }
}

/// Who a URL says the program is.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum UrlUser {
    Password { user: String, password: String },
    Token(String),
}

impl UrlUser {
    /// What a server's URL says, if it names anyone.
    fn of(server: &ServerAddr) -> Option<Self> {
        let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
        let user = decoded(server.username()?);
        Some(match server.password().map(decoded) {
            Some(password) => Self::Password { user, password },
            None => Self::Token(user),
        })
    }

    /// For messages; never a secret.
    pub(crate) fn shown(&self) -> String {
        match self {
            Self::Password { user, .. } => format!("the user '{user}' and its password"),
            Self::Token(_) => "the token".to_owned(),
        }
    }
}

impl std::fmt::Debug for UrlUser {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.shown())
    }
}

/// The settings of a store.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Without users and passwords.
    pub(crate) servers: Vec<ServerAddr>,
    pub(crate) user: Option<UrlUser>,
    pub(crate) prefix: String,
    pub(crate) login: Login,
    pub(crate) root_certificates: Option<PathBuf>,
    pub(crate) require_tls: bool,
    /// As named; else streams stay as they are.
    pub(crate) replicas: Option<usize>,
    pub(crate) lowers_replicas: bool,
    pub(crate) partitions: u32,
    pub(crate) streams: Option<u32>,
    pub(crate) answer_time: Duration,
    pub(crate) blob_grace: Duration,
    pub(crate) ack_projected: bool,
    pub(crate) rebuilding: bool,
    pub(crate) clock: Option<Arc<AtomicU64>>,
    pub(crate) postgres: windlass_store_postgres::Settings,
}

impl Settings {
    /// The settings for the servers of these URLs, separated by commas, and a database.
    ///
    /// # Errors
    /// A URL cannot be read.
    pub fn parse(
        urls: &str,
        postgres: windlass_store_postgres::Settings,
    ) -> Result<Self, OpenError> {
        let mut servers = Vec::new();
        let mut user = None;
        for url in urls.split(',').map(str::trim).filter(|it| !it.is_empty()) {
            let unreadable = |error: std::io::Error| {
                OpenError::refused(format!(
                    "a NATS URL cannot be read ({error}); write nats://host:4222, or several \
                     separated by commas"
                ))
            };
            let server: ServerAddr = url.parse().map_err(unreadable)?;
            let named = UrlUser::of(&server);
            if user.is_some() && named.is_some() && user != named {
                return Err(OpenError::refused(
                    "the NATS URLs name different users; the program logs in to all servers as one",
                ));
            }
            user = user.or(named);
            servers.push(without_user(&server).map_err(unreadable)?);
        }
        if servers.is_empty() {
            return Err(OpenError::refused(
                "no NATS server is named; write nats://host:4222",
            ));
        }
        Ok(Self {
            servers,
            user,
            prefix: "wl".into(),
            login: Login::InUrl,
            root_certificates: None,
            require_tls: false,
            replicas: None,
            lowers_replicas: false,
            partitions: 16,
            streams: None,
            answer_time: Duration::from_secs(5),
            blob_grace: windlass_store::HOLD,
            ack_projected: false,
            rebuilding: false,
            clock: None,
            postgres,
        })
    }

    /// What the names of all streams, buckets and subjects begin with: letters, digits, `-` and
    /// `_`.
    ///
    /// # Errors
    /// It holds something else.
    pub fn prefix(mut self, prefix: &str) -> Result<Self, OpenError> {
        let fits = |it: char| it.is_ascii_alphanumeric() || it == '-' || it == '_';
        if prefix.is_empty() || prefix.len() > 32 || !prefix.chars().all(fits) {
            return Err(OpenError::refused(format!(
                "the prefix '{prefix}' is not one: use up to 32 letters, digits, '-' and '_'"
            )));
        }
        self.prefix = prefix.into();
        Ok(self)
    }

    /// How the program shows the server who it is.
    #[must_use]
    pub fn login(mut self, login: Login) -> Self {
        self.login = login;
        self
    }

    /// The file with the certificates of trusted authorities, in PEM; without it, those of the
    /// system. It also makes TLS a must.
    #[must_use]
    pub fn root_certificates(mut self, file: &Path) -> Self {
        self.root_certificates = Some(file.into());
        self.require_tls = true;
        self
    }

    /// Whether a connection without TLS is refused.
    #[must_use]
    pub fn require_tls(mut self, required: bool) -> Self {
        self.require_tls = required;
        self
    }

    /// How many servers of a cluster keep each message: 1, 3 or 5. Streams that have fewer are
    /// raised. Without it they stay as they are, and a new installation gets 1.
    #[must_use]
    pub fn replicas(mut self, count: usize) -> Self {
        self.replicas = Some(count.clamp(1, 5));
        self
    }

    /// Whether streams that have more replicas than [`Settings::replicas`] are lowered: for a
    /// server, whose operator chose their number.
    #[must_use]
    pub fn lower_replicas(mut self, lowers: bool) -> Self {
        self.lowers_replicas = lowers;
        self
    }

    /// How many partitions a new installation gets; one that exists keeps its number.
    #[must_use]
    pub fn partitions(mut self, count: u32) -> Self {
        self.partitions = count.clamp(1, 256);
        self
    }

    /// How long a publish waits for its acknowledgement before its outcome counts as unknown.
    #[must_use]
    pub fn answer_time(mut self, time: Duration) -> Self {
        self.answer_time = time;
        self
    }

    /// How long a value stays that no log refers to.
    #[must_use]
    pub fn blob_grace(mut self, time: Duration) -> Self {
        self.blob_grace = time;
        self
    }

    /// Whether a start is acknowledged only when the database has it too.
    #[must_use]
    pub fn ack_projected(mut self, waits: bool) -> Self {
        self.ack_projected = waits;
        self
    }

    /// Whether a schema is opened that a migration has not completed, to go on with it.
    #[must_use]
    pub fn migrating(mut self, migrating: bool) -> Self {
        self.postgres = self.postgres.migrating(migrating);
        self
    }

    /// The same for another database.
    #[must_use]
    pub fn with_postgres(mut self, postgres: windlass_store_postgres::Settings) -> Self {
        self.postgres = postgres;
        self
    }

    /// Whether streams that were lost or cut are opened, to restore them.
    #[must_use]
    pub fn rebuilding(mut self, rebuilding: bool) -> Self {
        self.rebuilding = rebuilding;
        self
    }

    /// A clock for leases that a test moves, in milliseconds.
    #[doc(hidden)]
    #[must_use]
    pub fn test_clock(mut self, clock: Arc<AtomicU64>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// The settings of the database.
    pub fn postgres(&self) -> &windlass_store_postgres::Settings {
        &self.postgres
    }

    /// The servers' addresses, for messages; never a password.
    pub fn address(&self) -> String {
        let hosts = self
            .servers
            .iter()
            .map(|it| format!("{}:{}", it.host(), it.port()));
        hosts.collect::<Vec<_>>().join(",")
    }

    /// With one replica the syncs of streams run side by side, so each partition has its own;
    /// with several, Raft groups writes, and few streams are faster.
    pub(crate) fn stream_count(&self) -> u32 {
        let most = match self.replicas {
            None | Some(1) => MOST_STREAMS,
            Some(_) => 4,
        };
        self.streams.unwrap_or(most).min(self.partitions)
    }
}

/// The same address without a user: the client does not log in by it, and errors show it.
fn without_user(server: &ServerAddr) -> std::io::Result<ServerAddr> {
    let host = match server.host() {
        host if host.contains(':') => format!("[{host}]"),
        host => host.to_owned(),
    };
    format!("{}://{host}:{}", server.scheme(), server.port()).parse()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn database() -> windlass_store_postgres::Settings {
        windlass_store_postgres::Settings::parse("postgres://ann@host/db").unwrap()
    }

    #[test]
    fn several_servers_are_named_and_passwords_are_not_told() {
        let settings = Settings::parse("nats://ann:secret@one:4222, two:5222", database()).unwrap();
        assert_eq!(settings.address(), "one:4222,two:5222");
        assert_eq!(settings.stream_count(), 16);
        assert_eq!(settings.replicas(3).stream_count(), 4);
        assert!(Settings::parse(" , ", database()).is_err());
    }

    #[test]
    fn a_user_of_a_url_is_decoded_and_shown_without_its_password() {
        let parsed = |urls: &str| Settings::parse(urls, database());
        let settings = parsed("tls://a%40b:s%2Fcret@one:4222,nats://[::1]:5222").unwrap();
        let expected = UrlUser::Password {
            user: "a@b".into(),
            password: "s/cret".into(),
        };
        assert_eq!(settings.user, Some(expected));
        assert_eq!(settings.servers[0].scheme(), "tls");
        assert_eq!(settings.address(), "one:4222,::1:5222");
        let shown = format!("{settings:?}");
        assert!(!shown.contains("cret"), "{shown}");
        let token = parsed("nats://abc@one").unwrap().user;
        assert_eq!(token, Some(UrlUser::Token("abc".into())));
        assert!(parsed("nats://ann:x@one,nats://bob:x@two").is_err());
    }

    #[test]
    fn a_prefix_is_one_part_of_a_subject() {
        let settings = Settings::parse("nats://one", database()).unwrap();
        assert!(settings.clone().prefix("team-a").is_ok());
        for wrong in ["", "a.b", "a b", "a>"] {
            assert!(settings.clone().prefix(wrong).is_err(), "{wrong}");
        }
    }
}
