//! `windlass pools`: named limits on attempts, across runs.

use serde_json::{Value, json};
use windlass_service::pools;
use windlass_store::{PoolKey, PoolRemoval, PoolRow, Wait as _, block_on};

use crate::access::{self, Access};
use crate::args::pools::{Pools, PoolsCommand};
use crate::exit::{Exit, Failure};
use crate::moment::now;
use crate::remote;
use crate::session::{Session, Settings};
use crate::table::Table;

/// How many are read together.
const PAGE: usize = 1000;

/// Lists pools, or changes one.
pub(crate) fn run(settings: &Settings, arguments: &Pools) -> Result<Exit, Failure> {
    match &arguments.command {
        None | Some(PoolsCommand::List) => list(settings),
        Some(PoolsCommand::Set { name, slots }) => set(settings, name, *slots),
        Some(PoolsCommand::Remove { name }) => remove(settings, name),
    }
}

fn list(settings: &Settings) -> Result<Exit, Failure> {
    // Only the process that runs the workflows knows the attempts that hold slots.
    let items = access::act(settings, false, |access| match access {
        Access::Held(session) => stored(session),
        Access::Server(_, server) => remote::pools(server),
    })?;
    let output = settings.output;
    if output.json {
        output.json(&json!({ "items": items, "next": null }))?;
        return Ok(Exit::Done);
    }
    if items.is_empty() {
        output.say("No pools. `windlass pools set NAME SLOTS` makes one.");
        return Ok(Exit::Done);
    }
    let mut table = Table::new(&["POOL", "TENANT", "SLOTS", "USED", "WAITING", "HELD BY"]);
    for item in &items {
        let number = |key: &str| item[key].as_u64().unwrap_or(0).to_string();
        let text = |key: &str| item[key].as_str().unwrap_or("-").to_owned();
        table.row([
            text("name").into(),
            text("tenantId").into(),
            number("slots").into(),
            number("used").into(),
            number("waiting").into(),
            holders(item).into(),
        ]);
    }
    output.data(&table.render(&output))?;
    Ok(Exit::Done)
}

/// The first of those that hold slots: `node of run`.
fn holders(item: &Value) -> String {
    let holders = item["holders"].as_array().map(Vec::as_slice);
    let holders = holders.unwrap_or_default();
    let told = holders.iter().take(2).map(|holder| {
        let text = |key: &str| holder[key].as_str().unwrap_or_default().to_owned();
        format!("{} of {}", text("node"), text("executionId"))
    });
    let mut told: Vec<String> = told.collect();
    if holders.len() > told.len() {
        told.push(format!("{} more", holders.len() - told.len()));
    }
    told.join(", ")
}

/// The pools of a directory whose runs no other process carries on.
fn stored(session: &Session) -> Result<Vec<Value>, Failure> {
    let mut rows: Vec<PoolRow> = Vec::new();
    let mut items = Vec::new();
    loop {
        let after = rows.last().map(|row| row.pool.clone());
        let store = &session.store;
        let page = store.pools(&session.tenants, after.as_ref(), PAGE).wait()?;
        if page.is_empty() {
            return Ok(items);
        }
        for row in &page {
            let usage = store.pool_use(&row.pool, pools::NAMED).wait()?;
            items.push(pools::item(row, &usage));
        }
        rows = page;
    }
}

fn set(settings: &Settings, name: &str, slots: u32) -> Result<Exit, Failure> {
    pools::check(name, Some(slots))?;
    let created = access::act(settings, true, |access| match access {
        Access::Held(session) => {
            let row = PoolRow {
                pool: PoolKey::new(None, name),
                slots,
                updated_at: now(),
            };
            Ok(block_on(session.store.put_pool(row))?.is_none())
        }
        Access::Server(_, server) => remote::set_pool(server, name, slots),
    })?;
    let output = settings.output;
    if output.json {
        output.json(&json!({ "name": name, "slots": slots, "created": created }))?;
        return Ok(Exit::Done);
    }
    let noun = if slots == 1 { "slot" } else { "slots" };
    output.line(&format!("the pool {name} has {slots} {noun}"))?;
    Ok(Exit::Done)
}

fn remove(settings: &Settings, name: &str) -> Result<Exit, Failure> {
    pools::check(name, None)?;
    access::act(settings, false, |access| match access {
        Access::Held(session) => {
            let (store, pool) = (&*session.store, PoolKey::new(None, name));
            block_on(pools::refuse_named(store, &pool))?;
            match block_on(store.remove_pool(&pool))? {
                PoolRemoval::Removed => Ok(()),
                PoolRemoval::Unknown => Err(pools::unknown(name).into()),
                PoolRemoval::InUse => Err(pools::in_use(name).into()),
            }
        }
        Access::Server(_, server) => remote::remove_pool(server, name),
    })?;
    match settings.output.json {
        true => settings.output.json(&json!({ "name": name }))?,
        false => settings
            .output
            .line(&format!("the pool {name} is removed"))?,
    }
    Ok(Exit::Done)
}
