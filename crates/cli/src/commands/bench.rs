//! `windlass bench`: the figures of this machine, against the limit of its own disk, or of its
//! database by the same driver.

use crate::args;
use crate::args::Backend;
use crate::bench::{Sizes, measure, nats, postgres};
use crate::config::Config;
use crate::exit::{Exit, Failure};
use crate::session::Settings;

pub(crate) fn run(
    settings: &Settings,
    config: &Config,
    arguments: &args::Bench,
) -> Result<Exit, Failure> {
    let sizes = if arguments.quick {
        Sizes::QUICK
    } else {
        Sizes::FULL
    };
    let output = settings.output;
    let only = arguments.only.as_deref();
    let mut progress = |name: &str| output.say(&format!("measuring {name} …"));
    let report = match arguments.backend {
        None | Some(Backend::Embedded) => measure(sizes, only, &mut progress)?,
        Some(Backend::Postgres) => {
            let named = arguments.database.postgres_url.as_deref();
            let Some(url) = named.or_else(|| config.value("postgres_url")) else {
                let message = "no database is named";
                return Err(Failure::new(Exit::Usage, "SETTING_INVALID", message).hint(
                    "name it with --postgres-url or WINDLASS_POSTGRES_URL, as \
                     postgres://user@host/database",
                ));
            };
            postgres::measure(sizes, only, url, &mut progress)?
        }
        Some(Backend::Nats) => {
            let named = arguments.nats.nats_url.as_deref();
            let url = arguments.database.postgres_url.as_deref();
            let settings = crate::nats::settings(config, named, url)?;
            let url_of = |named: Option<&str>, key: &str| -> String {
                let url = named.or_else(|| config.value(key));
                url.unwrap_or_default().to_owned()
            };
            let (nats, database) = (url_of(named, "nats_url"), url_of(url, "postgres_url"));
            nats::measure(sizes, only, (&settings, &nats, &database), &mut progress)?
        }
    };
    if output.json {
        output.json(&report.json())?;
    } else {
        output.data(&report.table())?;
    }
    Ok(Exit::Done)
}
