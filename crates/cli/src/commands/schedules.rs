//! `windlass schedules`: runs that the clock starts, while a server runs.

use serde::Serialize;
use serde::de::IgnoredAny;
use serde_json::json;
use windlass_engine::{SCHEDULE_LIMIT, ScheduleError, StartError, check_schedule, next_times};
use windlass_service::members::Members;
use windlass_service::schedules::{self, TIMES_TOLD, item, plain, unknown};
use windlass_store::{Schedule, Wait as _, block_on};

use super::run::{labels, trigger};
use crate::access::{self, Access};
use crate::args::{ScheduleSet, Schedules, SchedulesCommand};
use crate::catalogue;
use crate::exit::{Exit, Failure};
use crate::moment::{now, readable};
use crate::paint::{DIM, RED, YELLOW};
use crate::remote;
use crate::session::{Session, Settings};
use crate::table::{Cell, Table};

/// How many are read together.
const PAGE: usize = 1000;

/// Lists schedules, or does something with one.
pub(crate) fn run(settings: &Settings, arguments: &Schedules) -> Result<Exit, Failure> {
    match &arguments.command {
        None | Some(SchedulesCommand::List) => list(settings),
        Some(SchedulesCommand::Set(asked)) => set(settings, asked),
        Some(SchedulesCommand::Remove { id }) => remove(settings, id),
        Some(SchedulesCommand::Pause { id }) => enable(settings, id, false),
        Some(SchedulesCommand::Resume { id }) => enable(settings, id, true),
        Some(SchedulesCommand::Next { id }) => next(settings, id),
    }
}

/// All of them, for programs.
#[derive(Serialize)]
struct List {
    items: Vec<Members>,
    next: Option<String>,
}

fn list(settings: &Settings) -> Result<Exit, Failure> {
    let session = Session::queries(settings.clone())?;
    let mut rows: Vec<Schedule> = Vec::new();
    loop {
        let last = rows.last();
        let after = last.map(|last| (&*last.id, last.tenant.as_deref()));
        let page = session
            .store
            .schedules(&session.tenants, after, PAGE)
            .wait()?;
        if page.is_empty() {
            break;
        }
        rows.extend(page);
    }
    let output = settings.output;
    if output.json {
        let items: Vec<Members> = rows.iter().map(|row| item(row, None)).collect();
        output.json(&List { items, next: None })?;
        return Ok(Exit::Done);
    }
    if rows.is_empty() {
        output.say(
            "No schedules. `windlass schedules set ID --workflow W --cron '0 9 * * *'` makes one.",
        );
        return Ok(Exit::Done);
    }
    let mut table = Table::new(&[
        "SCHEDULE",
        "WORKFLOW",
        "WHEN",
        "NEXT",
        "STATE",
        "LAST ERROR",
    ]);
    for row in &rows {
        let state = match (&row.damage, row.enabled) {
            (Some(_), _) => Cell::styled("damaged", RED),
            (None, true) => Cell::styled("enabled", DIM),
            (None, false) => Cell::styled("paused", YELLOW),
        };
        let error = row.damage.as_deref().or(row.last_error.as_deref());
        let error = error.unwrap_or("-");
        let (workflow, when) = match row.damage {
            Some(_) => ("-".to_owned(), "-".to_owned()),
            None => (row.workflow.to_string(), when(row)),
        };
        table.row([
            row.id.to_string().into(),
            workflow.into(),
            when.into(),
            row.next_at.map_or("-".to_owned(), readable).into(),
            state,
            windlass_service::text::one_line(error).into(),
        ]);
    }
    output.data(&table.render(&output))?;
    Ok(Exit::Done)
}

fn when(schedule: &Schedule) -> String {
    match (&schedule.cron, schedule.every_ms) {
        (Some(cron), _) if &*schedule.timezone == "UTC" => cron.to_string(),
        (Some(cron), _) => format!("{cron} ({})", schedule.timezone),
        (None, every) => {
            let every = windlass_service::moment::duration(every.unwrap_or_default());
            format!("every {every}")
        }
    }
}

fn set(settings: &Settings, asked: &ScheduleSet) -> Result<Exit, Failure> {
    let mut schedule = plain(None, &asked.id, &asked.workflow);
    schedule.cron = asked.cron.as_deref().map(Into::into);
    schedule.every_ms = asked.every_ms;
    schedule.timezone = asked.timezone.as_str().into();
    let trigger = trigger(asked.trigger.as_deref())?;
    // Here, so that it is refused alike wherever the schedule is kept.
    serde_json::from_str::<IgnoredAny>(&trigger)
        .map_err(|error| StartError::TriggerNotJson(error.to_string()))?;
    schedule.trigger = trigger.into();
    schedule.labels = labels(&asked.labels)?;
    schedule.priority = asked.priority;
    schedule.catch_up = schedules::catch_up(&asked.catch_up)?;
    schedule.overlap = schedules::overlap(&asked.overlap)?;
    let kept = match access::open(settings, false)? {
        Access::Held(session) => {
            check_schedule(schedule.clone(), now()).map_err(ScheduleError::Invalid)?;
            block_on(catalogue::must_have(
                &*session.store,
                None,
                &schedule.workflow,
            ))?;
            keep(&session, schedule)?
        }
        Access::Server(_, server) => remote::put_schedule(&server, &schedule)?,
    };
    report(settings, &kept)
}

fn keep(session: &Session, schedule: Schedule) -> Result<Schedule, Failure> {
    let schedule = check_schedule(schedule, now()).map_err(ScheduleError::Invalid)?;
    let id = schedule.id.clone();
    let store = &session.store;
    if !block_on(store.put_schedule(schedule, SCHEDULE_LIMIT))? {
        return Err(ScheduleError::TooMany.into());
    }
    let kept = store.schedule(None, &id).wait()?;
    Ok(kept.ok_or_else(|| unknown(&id))?)
}

fn enable(settings: &Settings, id: &str, enabled: bool) -> Result<Exit, Failure> {
    let kept = match access::open(settings, false)? {
        Access::Held(session) => {
            let found = session.store.schedule(None, id).wait()?;
            let mut schedule = found.ok_or_else(|| unknown(id))?;
            schedule.enabled = enabled;
            keep(&session, schedule)?
        }
        Access::Server(_, server) => remote::enable_schedule(&server, id, enabled)?,
    };
    report(settings, &kept)
}

fn report(settings: &Settings, schedule: &Schedule) -> Result<Exit, Failure> {
    let output = settings.output;
    if output.json {
        output.json(&item(schedule, None))?;
        return Ok(Exit::Done);
    }
    let id = &schedule.id;
    output.data(&match schedule.next_at {
        Some(at) => format!("{id} starts {} next at {}", schedule.workflow, readable(at)),
        None => format!("{id} is paused"),
    })?;
    Ok(Exit::Done)
}

fn remove(settings: &Settings, id: &str) -> Result<Exit, Failure> {
    match access::open(settings, false)? {
        Access::Held(session) => {
            if !block_on(session.store.remove_schedule(None, id))? {
                return Err(unknown(id).into());
            }
        }
        Access::Server(_, server) => remote::remove_schedule(&server, id)?,
    }
    match settings.output.json {
        true => settings.output.json(&json!({ "id": id }))?,
        false => settings.output.line(&format!("{id} is removed"))?,
    }
    Ok(Exit::Done)
}

fn next(settings: &Settings, id: &str) -> Result<Exit, Failure> {
    let session = Session::queries(settings.clone())?;
    let found = session.store.schedule(None, id).wait()?;
    let schedule = found.ok_or_else(|| unknown(id))?;
    let times = next_times(&schedule, TIMES_TOLD);
    let output = settings.output;
    if output.json {
        output.json(&item(&schedule, Some(&times)))?;
        return Ok(Exit::Done);
    }
    for at in &times {
        output.data(&readable(*at))?;
    }
    if times.is_empty() {
        output.say(&format!("{id} is paused."));
    }
    Ok(Exit::Done)
}
