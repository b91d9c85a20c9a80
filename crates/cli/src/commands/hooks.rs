//! `windlass hooks`: runs that signed requests start, while a server runs.

use serde_json::{Value, json};
use windlass_service::listing::tell_damage;
use windlass_service::secrets as secret_store;
use windlass_store::{Hook, Wait as _, block_on};

use crate::access::{self, Access};
use crate::args::hooks::{HookSet, Hooks, HooksCommand};
use crate::exit::{Exit, Failure};
use crate::moment::{ago, now};
use crate::remote;
use crate::secrets::keys;
use crate::session::{Session, Settings};
use crate::table::Table;

/// How many are read together.
const PAGE: usize = 1000;

/// Lists hooks, or does something with one.
pub(crate) fn run(settings: &Settings, arguments: &Hooks) -> Result<Exit, Failure> {
    match &arguments.command {
        None | Some(HooksCommand::List) => list(settings),
        Some(HooksCommand::Set(asked)) => set(settings, asked),
        Some(HooksCommand::Remove { id }) => remove(settings, id),
    }
}

fn item(hook: &Hook) -> Value {
    let mut item = json!({
        "id": hook.id,
        "tenantId": hook.tenant,
        "workflowId": hook.workflow,
        "createdAt": hook.created_at.to_string(),
    });
    tell_damage(&mut item, hook.damage.as_deref());
    item
}

fn list(settings: &Settings) -> Result<Exit, Failure> {
    let session = Session::queries(settings.clone())?;
    let mut rows: Vec<Hook> = Vec::new();
    loop {
        let last = rows.last();
        let after = last.map(|last| (&*last.id, last.tenant.as_deref()));
        let page = session.store.hooks(&session.tenants, after, PAGE).wait()?;
        if page.is_empty() {
            break;
        }
        rows.extend(page);
    }
    let output = settings.output;
    if output.json {
        let items: Vec<Value> = rows.iter().map(item).collect();
        output.json(&json!({ "items": items, "next": null }))?;
        return Ok(Exit::Done);
    }
    if rows.is_empty() {
        output.say("No hooks. `windlass hooks set ID --workflow W` makes one.");
        return Ok(Exit::Done);
    }
    let now = now();
    let mut table = Table::new(&["HOOK", "WORKFLOW", "TENANT", "MADE"]);
    for row in &rows {
        let (workflow, made) = match &row.damage {
            Some(damage) => ("-".to_owned(), windlass_service::text::one_line(damage)),
            None => (row.workflow.to_string(), ago(row.created_at, now)),
        };
        table.row([
            row.id.to_string().into(),
            workflow.into(),
            row.tenant.as_deref().unwrap_or("-").into(),
            made.into(),
        ]);
    }
    output.data(&table.render(&output))?;
    Ok(Exit::Done)
}

fn set(settings: &Settings, asked: &HookSet) -> Result<Exit, Failure> {
    let what = (&*asked.id, &*asked.workflow);
    let made = match access::open(settings, false)? {
        Access::Held(session) => {
            let keys = keys(settings)?;
            block_on(crate::catalogue::must_have(&*session.store, None, what.1))?;
            let made = block_on(secret_store::make_hook(
                &*session.store,
                &keys,
                None,
                what,
                now(),
            ))?;
            let mut item = item(&made.hook);
            item["path"] = json!(format!("/hooks/{}", made.token));
            item["token"] = json!(made.token);
            item["secret"] = json!(made.secret);
            item
        }
        Access::Server(_, server) => remote::set_hook(&server, what.0, what.1)?,
    };
    let output = settings.output;
    if output.json {
        output.json(&made)?;
        return Ok(Exit::Done);
    }
    let text = |key: &str| made[key].as_str().unwrap_or_default().to_owned();
    output.data(&format!(
        "path    {}\nsecret  {}",
        text("path"),
        text("secret")
    ))?;
    output.say("both are told only now; requests are signed with the secret");
    Ok(Exit::Done)
}

fn remove(settings: &Settings, id: &str) -> Result<Exit, Failure> {
    match access::open(settings, false)? {
        Access::Held(session) => {
            let keys = keys(settings)?;
            block_on(secret_store::remove_hook(&*session.store, &keys, None, id))?;
        }
        Access::Server(_, server) => remote::remove_hook(&server, id)?,
    }
    match settings.output.json {
        true => settings.output.json(&json!({ "id": id }))?,
        false => settings.output.line(&format!("{id} is removed"))?,
    }
    Ok(Exit::Done)
}
