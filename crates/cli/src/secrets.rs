//! Secrets from the environment: `WINDLASS_SECRET_NAME` is the secret `NAME`.

use windlass_engine::SecretSource;

/// What the variable of a secret begins with.
const PREFIX: &str = "WINDLASS_SECRET_";

/// Secrets are variables of this process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EnvironmentSecrets;

impl SecretSource for EnvironmentSecrets {
    fn secret(&self, name: &str) -> Option<String> {
        // A name with '=' or NUL cannot be a variable's, and asking for it may panic.
        if name.is_empty() || name.contains(['=', '\0']) {
            return None;
        }
        std::env::var(format!("{PREFIX}{name}")).ok()
    }
}
