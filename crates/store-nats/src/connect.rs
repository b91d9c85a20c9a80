//! Connecting to NATS, and whether the server is one to work with.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use async_nats::rustls::{self, Error::InvalidCertificate};
use async_nats::{Client, ConnectError, ConnectErrorKind, ConnectOptions, ServerInfo};
use windlass_store::Error;

use crate::OpenError;
use crate::settings::{Login, Settings, UrlUser};
use crate::store::Inner;

/// The oldest server that has everything the store uses.
pub(crate) const OLDEST: (u64, u64) = (2, 14);

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(5);

/// Connects to one of the servers. Later the client connects again by itself.
pub(crate) async fn connect(settings: &Settings) -> Result<Client, OpenError> {
    let options = options(settings).await?;
    let address = settings.address();
    let connecting = options.connect(settings.servers.clone());
    // Each server may take its time, and the ones before it have taken theirs.
    let most = CONNECT * u32::try_from(settings.servers.len() + 1).unwrap_or(u32::MAX);
    let connected = tokio::time::timeout(most, connecting).await;
    let silent = |_| OpenError::away(format!("NATS at {address} does not answer"));
    let client = connected
        .map_err(silent)?
        .map_err(|error| not_connected(settings, &error))?;
    match refusal(settings, &client.server_info()) {
        Some(why) => Err(OpenError::refused(why)),
        None => Ok(client),
    }
}

/// Why the server that a client is connected to now cannot be worked with.
fn refusal(settings: &Settings, server: &ServerInfo) -> Option<String> {
    let why = unfit(&server.version, server.max_payload)?;
    let ServerInfo {
        server_name,
        version,
        ..
    } = server;
    let address = settings.address();
    Some(format!(
        "nats-server {version} ({server_name}) at {address} {why}"
    ))
}

impl Inner {
    /// Fails if a client has been connected to a server that cannot be worked with: after a
    /// connection was lost it takes any server of the cluster. It is looked at whenever the server
    /// is to be relied on, because the client learns who it is only after it has said that it is
    /// connected.
    pub(crate) fn is_fit(&self) -> Result<(), Error> {
        for client in [self.client.clone(), self.log.client()] {
            if let Some(why) = refusal(&self.settings, &client.server_info()) {
                return Err(Error::Unavailable(why));
            }
        }
        Ok(())
    }
}

/// Why a server of this version, which takes messages of so many bytes, cannot be worked with.
fn unfit(version: &str, max_payload: usize) -> Option<String> {
    if too_old(version) {
        return Some(format!(
            "is too old: {}.{} or newer is needed",
            OLDEST.0, OLDEST.1
        ));
    }
    (max_payload < LEAST_PAYLOAD).then(|| {
        format!(
            "takes messages of {max_payload} bytes, and a record may have {LEAST_PAYLOAD}; set \
             `max_payload: 1MB` or more in its configuration"
        )
    })
}

/// Why there is no connection: what waiting does not help against is refused, with what to do.
fn not_connected(settings: &Settings, error: &ConnectError) -> OpenError {
    let address = settings.address();
    let text = format!("NATS at {address}: {error}");
    match error.kind() {
        ConnectErrorKind::Authentication | ConnectErrorKind::AuthorizationViolation => {
            OpenError::refused(format!("{text}; {}", wrong_login(settings)))
        }
        ConnectErrorKind::ServerParse => OpenError::refused(text),
        ConnectErrorKind::Tls => OpenError::refused(format!("{text}; {CHECK_TLS}")),
        _ => match tls_fault(error) {
            Some(InvalidCertificate(_)) => OpenError::refused(format!(
                "the certificate of NATS at {address} is refused: {error}; name the authority \
                 that signed it with nats_ca, and the server by a name that the certificate has"
            )),
            Some(_) => OpenError::refused(format!("{text}; {CHECK_TLS}")),
            None => OpenError::away(text),
        },
    }
}

const CHECK_TLS: &str = "check that the server has TLS on if nats_ca or a tls:// URL asks for it";

/// What to check if the server does not let the program in.
fn wrong_login(settings: &Settings) -> String {
    match (&settings.login, &settings.user) {
        (Login::Credentials(path), _) => format!(
            "check the credentials file {} (nats_creds): its user may be unknown, expired or of \
             another account",
            path.display()
        ),
        (Login::NkeyFile(path), _) => format!(
            "check the seed in {} (nats_nkey): the server must know its public key",
            path.display()
        ),
        (Login::InUrl, Some(user)) => format!("check {} in nats_url", user.shown()),
        (Login::InUrl, None) => "the server asks for a login: name a user and password in \
             nats_url, or a file with nats_creds or nats_nkey"
            .to_owned(),
    }
}

/// The error of TLS, if that is why there is no connection. The client has it inside an error of
/// the connection.
fn tls_fault(error: &ConnectError) -> Option<&rustls::Error> {
    let source = std::error::Error::source(error)?;
    let inner = source.downcast_ref::<std::io::Error>()?.get_ref()?;
    inner.downcast_ref()
}

/// What a record and all that follows from it may have as one message: the server's default.
const LEAST_PAYLOAD: usize = 1024 * 1024;

/// Whether a server of this version lacks something.
pub(crate) fn too_old(version: &str) -> bool {
    let mut parts = version.split(['.', '-']).map(|part| part.parse::<u64>());
    match (parts.next(), parts.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) < OLDEST,
        _ => true,
    }
}

async fn options(settings: &Settings) -> Result<ConnectOptions, OpenError> {
    let mut options = ConnectOptions::new()
        .name("windlass")
        .connection_timeout(CONNECT)
        .request_timeout(Some(settings.answer_time))
        .reconnect_delay_callback(|tries| {
            Duration::from_millis(u64::try_from(tries).unwrap_or(20).min(20) * 50)
        });
    options = match (&settings.login, &settings.user) {
        (Login::InUrl, None) => options,
        (Login::InUrl, Some(UrlUser::Password { user, password })) => {
            options.user_and_password(user.clone(), password.clone())
        }
        (Login::InUrl, Some(UrlUser::Token(token))) => options.token(token.clone()),
        (Login::Credentials(path), _) => options
            .credentials(&read("nats_creds", path)?)
            .map_err(|error| unusable("nats_creds", path, &error))?,
        (Login::NkeyFile(path), _) => {
            let seed = read("nats_nkey", path)?.trim().to_owned();
            nkeys::KeyPair::from_seed(&seed)
                .map_err(|error| unusable("nats_nkey", path, &error))?;
            options.nkey(seed)
        }
    };
    if let Some(file) = &settings.root_certificates {
        if !read("nats_ca", file)?.contains("BEGIN CERTIFICATE") {
            return Err(unusable("nats_ca", file, &"it has no certificate in PEM"));
        }
        options = options.add_root_certificates(file.clone());
    }
    Ok(options.require_tls(settings.require_tls))
}

fn read(setting: &str, path: &Path) -> Result<String, OpenError> {
    std::fs::read_to_string(path).map_err(|error| unusable(setting, path, &error))
}

fn unusable(setting: &str, path: &Path, error: &dyn fmt::Display) -> OpenError {
    let path = path.display();
    OpenError::refused(format!("{setting}: {path} cannot be used: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_servers_are_refused() {
        for old in ["2.13.9", "1.99.0", "", "nonsense"] {
            assert!(too_old(old), "{old}");
        }
        for new in ["2.14.0", "2.15.1", "2.14.0-RC.1", "3.0.0"] {
            assert!(!too_old(new), "{new}");
        }
    }

    #[test]
    fn servers_that_take_no_record_are_refused_with_the_setting() {
        assert_eq!(unfit("2.15.1", LEAST_PAYLOAD), None);
        let small = unfit("2.15.1", LEAST_PAYLOAD - 1).expect("too little");
        assert!(small.contains("max_payload"), "{small}");
        assert!(unfit("2.13.9", LEAST_PAYLOAD).is_some_and(|why| why.contains("too old")));
    }
}
