//! `windlass secrets`: values go in, names come out.

use std::io::{self, BufRead as _, IsTerminal as _};
use std::path::Path;

use serde_json::{Value, json};
use windlass_service::secrets::{self as secret_store, VALUE_LIMIT_BYTES};
use windlass_service::wait_state::plural;
use windlass_store::{SecretRow, Wait as _, block_on};

use crate::access::{self, Access};
use crate::args::secrets::{Secrets, SecretsCommand, SetSecret};
use crate::exit::{Exit, Failure};
use crate::moment::{ago, now};
use crate::remote;
use crate::secrets::keys;
use crate::session::{Session, Settings};
use crate::source::read_limited;
use crate::table::Table;

/// How many are read together.
const PAGE: usize = 1000;

/// Lists secrets, or changes one.
pub(crate) fn run(settings: &Settings, arguments: &Secrets) -> Result<Exit, Failure> {
    match &arguments.command {
        SecretsCommand::Set(arguments) => set(settings, arguments),
        SecretsCommand::List => list(settings),
        SecretsCommand::Remove(named) => remove(settings, &named.name),
        SecretsCommand::Rotate => rotate(settings),
    }
}

fn list(settings: &Settings) -> Result<Exit, Failure> {
    let session = Session::queries(settings.clone())?;
    let mut rows: Vec<SecretRow> = Vec::new();
    loop {
        let last = rows.last();
        let after = last.map(|last| (&*last.name, last.tenant.as_deref()));
        let page = session
            .store
            .secrets(&session.tenants, after, PAGE)
            .wait()?;
        if page.is_empty() {
            break;
        }
        rows.extend(page);
    }
    let output = settings.output;
    if output.json {
        let items: Vec<Value> = rows.iter().map(secret_store::item).collect();
        output.json(&json!({ "items": items, "next": null }))?;
        return Ok(Exit::Done);
    }
    if rows.is_empty() {
        output.say("No secrets.");
        return Ok(Exit::Done);
    }
    let now = now();
    let mut table = Table::new(&["NAME", "TENANT", "SET"]);
    for row in &rows {
        table.row([
            row.name.to_string().into(),
            row.tenant.as_deref().unwrap_or("-").into(),
            match &row.damage {
                Some(damage) => windlass_service::text::one_line(damage).into(),
                None => ago(row.updated_at, now).into(),
            },
        ]);
    }
    output.data(&table.render(&output))?;
    Ok(Exit::Done)
}

fn set(settings: &Settings, arguments: &SetSecret) -> Result<Exit, Failure> {
    let name = &*arguments.name.name;
    // An invalid name is refused before the user types the value.
    secret_store::check_name(name)?;
    let value = value(arguments)?;
    let created = match access::open(settings, true)? {
        Access::Held(session) => {
            let keys = keys(settings)?;
            let store = &*session.store;
            block_on(secret_store::set(store, &keys, None, name, &value, now()))?
        }
        Access::Server(_, server) => remote::set_secret(&server, name, &value)?,
    };
    let output = settings.output;
    if output.json {
        output.json(&json!({ "name": name, "created": created }))?;
        return Ok(Exit::Done);
    }
    let what = if created { "is set" } else { "is replaced" };
    output.line(&format!("the secret {name} {what}"))?;
    Ok(Exit::Done)
}

fn remove(settings: &Settings, name: &str) -> Result<Exit, Failure> {
    secret_store::check_name(name)?;
    let removed = match access::open(settings, false)? {
        Access::Held(session) => {
            let keys = keys(settings)?;
            block_on(secret_store::remove(&*session.store, &keys, None, name))
                .map_err(Failure::from)
        }
        Access::Server(_, server) => remote::remove_secret(&server, name),
    };
    removed.map_err(|failure| match &*failure.code {
        "SECRET_NOT_FOUND" => failure.hint("`windlass secrets list` lists them"),
        _ => failure,
    })?;
    let output = settings.output;
    if output.json {
        output.json(&json!({ "name": name }))?;
        return Ok(Exit::Done);
    }
    output.line(&format!("the secret {name} is forgotten"))?;
    Ok(Exit::Done)
}

/// A new key. Wherever that breaks off, everything can be opened, and it can be done again.
fn rotate(settings: &Settings) -> Result<Exit, Failure> {
    let rotated = match access::open(settings, false)? {
        Access::Held(session) => {
            block_on(secret_store::rotate(&*session.store, &*keys(settings)?))?
        }
        Access::Server(_, server) => remote::rotate_key(&server)?,
    };
    let (secrets, hooks) = (rotated.secrets, rotated.hooks);
    let output = settings.output;
    if output.json {
        output.json(&json!({ "secrets": secrets, "hooks": hooks }))?;
        return Ok(Exit::Done);
    }
    let (secret, hook) = (
        plural(secrets as u64, "secret"),
        plural(hooks as u64, "hook"),
    );
    output.line(&format!(
        "sealed anew: {secrets} {secret}, and those of {hooks} {hook}"
    ))?;
    output.say("backups from before need the old key");
    Ok(Exit::Done)
}

/// The value, which is never an argument: others can read those.
fn value(arguments: &SetSecret) -> Result<String, Failure> {
    if let Some(variable) = &arguments.from_env {
        return from_variable(variable);
    }
    let stdin = Path::new("-");
    let file = arguments.value_file.as_deref().unwrap_or(stdin);
    let bytes = match file == stdin && io::stdin().is_terminal() {
        true => typed(&arguments.name.name)?,
        // Room for the newline, which does not count.
        false => read_limited(file, VALUE_LIMIT_BYTES + 2, |_| {
            secret_store::too_large().into()
        })?,
    };
    let mut text = String::from_utf8(bytes).map_err(|_| {
        let message = "the secret's value is not text in UTF-8";
        Failure::new(Exit::Invalid, "SECRET_INVALID", message).hint("encode it, e.g. in base64")
    })?;
    if text.ends_with('\n') {
        text.pop();
        if text.ends_with('\r') {
            text.pop();
        }
    }
    Ok(text)
}

fn from_variable(variable: &str) -> Result<String, Failure> {
    let unusable = || {
        let message = format!("there is no variable {variable}, or it is not text");
        Failure::new(Exit::Usage, "USAGE", message)
    };
    // Asking for a name that cannot be a variable's may panic.
    if variable.is_empty() || variable.contains(['=', '\0']) {
        return Err(unusable());
    }
    std::env::var(variable).map_err(|_| unusable())
}

/// A line from the terminal, which does not show it.
fn typed(name: &str) -> Result<Vec<u8>, Failure> {
    eprint!("value of {name}: ");
    let hidden = Hidden::begin();
    let mut line = String::new();
    let read = io::stdin().lock().read_line(&mut line);
    drop(hidden);
    eprintln!();
    read.map_err(|error| Failure::new(Exit::Invalid, "FILE_UNREADABLE", error))?;
    Ok(line.into_bytes())
}

/// While this lives, the terminal does not show what is typed.
struct Hidden {
    #[cfg(unix)]
    before: Option<rustix::termios::Termios>,
}

impl Hidden {
    #[cfg(unix)]
    fn begin() -> Self {
        use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
        let before = tcgetattr(io::stdin()).ok();
        if let Some(before) = &before {
            let mut quiet = before.clone();
            quiet.local_modes.remove(LocalModes::ECHO);
            // If the terminal cannot hide the input, the value is read anyway; such terminals
            // are rare.
            let _ = tcsetattr(io::stdin(), OptionalActions::Flush, &quiet);
        }
        Self { before }
    }

    #[cfg(not(unix))]
    fn begin() -> Self {
        Self {}
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        #[cfg(unix)]
        if let Some(before) = &self.before {
            use rustix::termios::{OptionalActions, tcsetattr};
            let _ = tcsetattr(io::stdin(), OptionalActions::Flush, before);
        }
    }
}
