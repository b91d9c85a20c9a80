//! Connecting to NATS, and whether the server is one to work with.

use std::time::Duration;

use async_nats::{Client, ConnectOptions};

use crate::OpenError;
use crate::settings::{Login, Settings};

/// The oldest server that has everything the store uses.
pub(crate) const OLDEST: (u64, u64) = (2, 14);

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(5);

/// Connects to one of the servers. Later the client connects again by itself.
pub(crate) async fn connect(settings: &Settings) -> Result<Client, OpenError> {
    let options = options(settings).await?;
    let address = settings.address();
    let connecting = options.connect(settings.servers.clone());
    let connected = tokio::time::timeout(CONNECT * 2, connecting).await;
    let silent = |_| OpenError::away(format!("NATS at {address} does not answer"));
    let client = connected.map_err(silent)?.map_err(|error| {
        use async_nats::ConnectErrorKind as Kind;
        let text = format!("NATS at {address}: {error}");
        match error.kind() {
            Kind::Authentication | Kind::AuthorizationViolation => OpenError::refused(format!(
                "{text}; check the user, the credentials file or the NKey"
            )),
            Kind::ServerParse | Kind::Tls => OpenError::refused(text),
            _ => OpenError::away(text),
        }
    })?;
    let version = client.server_info().version;
    match too_old(&version) {
        true => Err(OpenError::refused(format!(
            "nats-server {version} at {address} is too old: {}.{} or newer is needed",
            OLDEST.0, OLDEST.1
        ))),
        false => Ok(client),
    }
}

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
    let unreadable = |path: &std::path::Path, error: std::io::Error| {
        OpenError::refused(format!("{}: {error}", path.display()))
    };
    options = match &settings.login {
        Login::InUrl => options,
        Login::Credentials(path) => options
            .credentials_file(path)
            .await
            .map_err(|error| unreadable(path, error))?,
        Login::NkeyFile(path) => {
            let seed = std::fs::read_to_string(path).map_err(|error| unreadable(path, error))?;
            options.nkey(seed.trim().to_owned())
        }
    };
    if let Some(file) = &settings.root_certificates {
        options = options.add_root_certificates(file.clone());
    }
    Ok(options.require_tls(settings.require_tls))
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
}
