//! The database that a command names, by flag, variable or file.

use windlass_store::Error;
use windlass_store_postgres::{OpenError, Password, PostgresStore, Settings};

use crate::config::Config;
use crate::exit::{Exit, Failure};

/// The variable with the password, if neither the URL nor a file has it. It is no setting of the
/// file, so that no command prints it.
const PASSWORD: &str = "WINDLASS_POSTGRES_PASSWORD";

/// Why Windlass makes no backup of a database, and what does.
pub(crate) const NO_BACKUP: &str = "the runs are in a PostgreSQL database, which has its own backups: \
     `pg_dump --schema=windlass` (or the schema's other name) makes a copy, base backups with WAL \
     archiving restore a point in time";

/// The settings of a database: what the command names, else what the configuration does.
pub(crate) fn settings(config: &Config, url: Option<&str>) -> Result<Settings, Failure> {
    let invalid = |message: String| Failure::new(Exit::Usage, "SETTING_INVALID", message);
    let Some(url) = url.or_else(|| config.value("postgres_url")) else {
        let hint = "name it with --postgres-url or WINDLASS_POSTGRES_URL, as \
                    postgres://user@host/database";
        return Err(invalid("no database is named".to_owned()).hint(hint));
    };
    let parsed = Settings::parse(url);
    let database =
        parsed.map_err(|error| invalid(format!("postgres_url: {}", url_problem(error))))?;
    let database = match config.value("postgres_schema") {
        None => database,
        Some(schema) => database
            .schema(schema)
            .map_err(|error| invalid(format!("postgres_schema: {}", url_problem(error))))?,
    };
    let database = match config.value("cluster_name") {
        None => database,
        Some(name) => database.cluster(name),
    };
    let given = std::env::var_os(PASSWORD).is_some_and(|it| !it.is_empty());
    Ok(match config.value("postgres_password_file") {
        Some(file) => database.password(Password::File(file.into())),
        None if given => database.password(Password::Variable(PASSWORD.into())),
        None => database,
    })
}

/// What is wrong with a setting of a database: nothing has been asked of the store yet.
pub(crate) fn url_problem(error: OpenError) -> String {
    match error.into_error() {
        Error::Unavailable(text) => text,
        other => other.to_string(),
    }
}

/// Opens a database that must be there now.
pub(crate) fn open(settings: &Settings) -> Result<PostgresStore, Failure> {
    PostgresStore::open(settings).map_err(failure)
}

/// Why a database cannot be used.
pub(crate) fn failure(error: OpenError) -> Failure {
    match error {
        OpenError::Refused(error) => Failure::new(Exit::Storage, "DATABASE_REFUSED", error),
        OpenError::Away(error) => Failure::new(Exit::Unreachable, "DATABASE_AWAY", error)
            .hint("check that the database server runs and can be reached from here"),
    }
}
