//! `windlass token`: a token for development, signed with a key of a file.

use windlass_api::auth::{Minting, mint};
use windlass_api::route::TokenScope;

use crate::args::Token;
use crate::config::span;
use crate::exit::{Exit, Failure};
use crate::session::Settings;

/// Makes a token.
pub(crate) fn run(settings: &Settings, arguments: &Token) -> Result<Exit, Failure> {
    let usage = |message: String| Failure::new(Exit::Usage, "USAGE", message);
    let names = arguments.scopes.iter().flat_map(|text| text.split(','));
    let scopes = names.map(|name| {
        let known = TokenScope::CARRIED.map(TokenScope::name).join(", ");
        TokenScope::named(name).ok_or_else(|| {
            usage(format!("'{name}' is not a scope")).hint(format!("they are {known}"))
        })
    });
    let lifetime = span(&arguments.lifetime).ok_or_else(|| {
        usage(format!(
            "--lifetime {}: it is not a time",
            arguments.lifetime
        ))
        .hint("write 30m, 8h or 7d")
    })?;
    let minting = Minting {
        subject: arguments.subject.clone(),
        tenant: arguments.tenant.clone(),
        scopes: scopes.collect::<Result<_, _>>()?,
        lifetime,
        issuer: arguments.issuer.clone(),
        audience: arguments.audience.clone(),
    };
    let (file, is_new) = (&arguments.key, !arguments.key.exists());
    let token = mint(file, &minting).map_err(|error| {
        let message = format!("{}: {error}", file.display());
        Failure::new(Exit::Storage, "KEY_FILE_UNUSABLE", message)
            .hint("name another file with --key; one that is missing is made")
    })?;
    if is_new {
        let name = file.display();
        settings.output.say(&format!(
            "made the key {name}; `windlass serve --auth-keys {name}` takes its tokens"
        ));
    }
    if settings.output.json {
        settings
            .output
            .json(&serde_json::json!({ "token": token }))?;
    } else {
        settings.output.data(&token)?;
    }
    Ok(Exit::Done)
}
