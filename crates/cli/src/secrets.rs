//! Where runs take secrets from: those of the data directory, then the environment, where
//! `WINDLASS_SECRET_NAME` is the secret `NAME`.

use std::sync::Arc;

use windlass_engine::{Backend, SecretSource};
use windlass_service::secrets::{SecretKeys, StoredSecrets};

use crate::exit::Failure;
use crate::session::{Session, Settings};

/// What the variable of a secret begins with.
const PREFIX: &str = "WINDLASS_SECRET_";

/// The variable with the key that seals stored secrets.
const KEY: &str = "WINDLASS_SEALING_KEY";

/// The file with it, in the data directory, unless a setting names another.
const KEY_FILE: &str = "secrets.key";

/// Secrets are variables of this process.
#[derive(Clone, Copy, Debug)]
struct EnvironmentSecrets;

impl SecretSource for EnvironmentSecrets {
    fn secret(&self, name: &str) -> Option<String> {
        // A name with '=' or NUL cannot be a variable's, and asking for it may panic.
        if name.is_empty() || name.contains(['=', '\0']) {
            return None;
        }
        std::env::var(format!("{PREFIX}{name}")).ok()
    }
}

/// The key that seals the secrets of the data directory.
pub(crate) fn keys(settings: &Settings) -> Result<Arc<SecretKeys>, Failure> {
    let given = std::env::var_os(KEY).filter(|text| !text.is_empty());
    let keys = match (given, &settings.sealing_key_file) {
        (Some(text), _) => SecretKeys::given(&text.to_string_lossy()).map_err(|mut failure| {
            failure.message.insert_str(0, &format!("{KEY}: "));
            failure
        })?,
        (None, path) if settings.shared => SecretKeys::shared(path.clone()),
        (None, Some(path)) => SecretKeys::file(path),
        (None, None) => SecretKeys::file(settings.data_dir.join(KEY_FILE)),
    };
    Ok(Arc::new(keys))
}

/// The secrets of runs that this process executes.
pub(crate) fn source(session: &Session, keys: &Arc<SecretKeys>) -> Arc<dyn SecretSource> {
    let store: Arc<dyn Backend> = Arc::clone(&session.store);
    let rest = Arc::new(EnvironmentSecrets);
    Arc::new(StoredSecrets::new(store, Arc::clone(keys), rest))
}
