//! `windlass dead-letters`: runs that the engine must not acquire.

use serde_json::{Value, json};
use windlass_core::RunId;
use windlass_service::listing::letter_item;
use windlass_store::{DeadLetter, Wait as _, block_on};

use crate::access::{self, Access};
use crate::args::{DeadLetters, DeadLettersCommand, Letters};
use crate::command;
use crate::exit::{Exit, Failure};
use crate::local_engine::with_engine;
use crate::moment::{ago, now};
use crate::remote;
use crate::session::{Session, Settings};
use crate::table::Table;

/// The most letters that are listed at once.
const SHOWN: usize = 1000;

/// Lists dead letters, or does something with them.
pub(crate) fn run(settings: &Settings, arguments: &DeadLetters) -> Result<Exit, Failure> {
    match &arguments.command {
        None | Some(DeadLettersCommand::List) => list(settings),
        Some(DeadLettersCommand::Requeue(letters)) => change(settings, letters, true),
        Some(DeadLettersCommand::Purge(letters)) => change(settings, letters, false),
    }
}

fn list(settings: &Settings) -> Result<Exit, Failure> {
    let session = Session::queries(settings.clone())?;
    let letters = session
        .store
        .dead_letters(&session.tenants, None, SHOWN)
        .wait()?;
    let output = settings.output;
    if output.json {
        let items: Vec<Value> = letters.iter().map(letter_item).collect();
        output.json(&json!({ "items": items, "next": null }))?;
        return Ok(Exit::Done);
    }
    if letters.is_empty() {
        output.say("No dead letters.");
        return Ok(Exit::Done);
    }
    let now = now();
    let mut table = Table::new(&["RUN", "WORKFLOW", "WHEN", ">TRIES", "REASON"]);
    for letter in &letters {
        table.row([
            session.short_id(letter.run)?.into(),
            letter.workflow.to_string().into(),
            ago(letter.at, now).into(),
            letter.deliveries.to_string().into(),
            windlass_service::text::one_line(letter.damage.as_deref().unwrap_or(&letter.reason))
                .into(),
        ]);
    }
    output.data(&table.render(&output))?;
    output.say_lines("\nnext: windlass dead-letters requeue RUN, or purge RUN");
    Ok(Exit::Done)
}

fn change(settings: &Settings, which: &Letters, requeue: bool) -> Result<Exit, Failure> {
    let session = match access::open(settings, false)? {
        Access::Held(session) => session,
        Access::Server(session, server) => {
            let runs = which.runs.iter().map(|run| session.find_letter(run));
            let runs = runs.collect::<Result<Vec<RunId>, _>>()?;
            let changed = remote::letters(&server, &runs, which.all, requeue)?;
            return report(settings, &changed, requeue);
        }
    };
    let letters = chosen(&session, which)?;
    if requeue {
        for letter in &letters {
            block_on(session.store.requeue(letter.run))?;
        }
    } else if !letters.is_empty() {
        with_engine(&session, None, async |host| {
            for letter in &letters {
                host.engine.purge(letter.run, command::actor(None)).await?;
            }
            Ok(Exit::Done)
        })?;
    }
    let ids: Vec<String> = letters
        .iter()
        .map(|letter| letter.run.to_string())
        .collect();
    report(settings, &ids, requeue)
}

fn report(settings: &Settings, ids: &[String], requeue: bool) -> Result<Exit, Failure> {
    if settings.output.json {
        settings.output.json(&json!({ "executionIds": ids }))?;
        return Ok(Exit::Done);
    }
    let what = match requeue {
        true => "is no longer a dead letter: the process that executes runs tries it again",
        false => "is no longer a dead letter: if it had not ended, it is Failed (DEAD_LETTERED)",
    };
    for id in ids {
        settings.output.line(&format!("{id} {what}"))?;
    }
    if ids.is_empty() {
        settings.output.say("No dead letters.");
    }
    Ok(Exit::Done)
}

fn chosen(session: &Session, which: &Letters) -> Result<Vec<DeadLetter>, Failure> {
    let mut letters = Vec::new();
    for reference in &which.runs {
        let run: RunId = session.find_letter(reference)?;
        let letter = session.store.dead_letter(run).wait()?;
        letters.push(letter.ok_or_else(|| {
            let message = format!("the run {run} is not among the dead letters");
            Failure::new(Exit::NotFound, "LETTER_NOT_FOUND", message)
                .hint("`windlass dead-letters` lists them")
        })?);
    }
    let mut before = None;
    if !which.all {
        return Ok(letters);
    }
    loop {
        let store = &session.store;
        let page = store.dead_letters(&session.tenants, before, SHOWN).wait()?;
        let Some(last) = page.last() else {
            return Ok(letters);
        };
        before = Some(last.run);
        letters.extend(page);
    }
}
