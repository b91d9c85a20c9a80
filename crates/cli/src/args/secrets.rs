//! What `windlass secrets` takes.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// `windlass secrets`
#[derive(Debug, Args)]
pub(crate) struct Secrets {
    #[command(subcommand)]
    pub(crate) command: SecretsCommand,
}

/// What to do with secrets.
#[derive(Debug, Subcommand)]
pub(crate) enum SecretsCommand {
    /// Set a secret; its value is read from stdin unless an option says otherwise
    Set(SetSecret),
    /// List the names of secrets, and when each was set
    List,
    /// Forget a secret
    Remove(SecretName),
    /// Encrypt all secrets with a new key, and delete the old one
    Rotate,
}

/// Names a secret.
#[derive(Debug, Args)]
pub(crate) struct SecretName {
    /// Its name: templates write secrets.NAME
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
}

/// `windlass secrets set`
#[derive(Debug, Args)]
pub(crate) struct SetSecret {
    #[command(flatten)]
    pub(crate) name: SecretName,
    /// Take the value from this file, or from stdin for '-'; one newline at its end is left out
    #[arg(long, value_name = "FILE")]
    pub(crate) value_file: Option<PathBuf>,
    /// Take the value from this variable
    #[arg(long, value_name = "VAR", conflicts_with = "value_file")]
    pub(crate) from_env: Option<String>,
}
