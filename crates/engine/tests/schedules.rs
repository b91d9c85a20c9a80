//! Schedules: runs start at their time and not before, once for each time, also after a crash
//! and across daylight-saving changes. Time is tokio's, which stands still and jumps.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use tokio::time::Instant;
use windlass_core::command::RunCommand;
use windlass_core::{Millis, RunStatus};
use windlass_engine::{
    Clock, Engine, Options, ScheduleError, Serving, StartRequest, SystemClock, Timing, next_times,
};
use windlass_store::{
    Catalogue as _, CatchUp, MemoryStore, Overlap, Queries as _, RunFilter, RunRow, Schedule,
    Schedules as _, Wait as _,
};
use windlass_test_support::catalogue;

/// 2026-03-01T00:00:00Z.
const START: i64 = 1_772_323_200_000;
const MINUTE: i64 = 60_000;
const HOUR: i64 = 60 * MINUTE;

/// Goes with tokio's time, from a moment on.
struct Follows {
    began: Instant,
    from: Millis,
}

impl Clock for Follows {
    fn now(&self) -> Millis {
        let passed = u64::try_from(self.began.elapsed().as_millis()).unwrap();
        self.from.plus(passed)
    }

    fn random(&self) -> [u8; 10] {
        SystemClock.random()
    }
}

fn engine(store: &MemoryStore, from: i64) -> Engine {
    let options = Options {
        clock: Arc::new(Follows {
            began: Instant::now(),
            from: Millis(from),
        }),
        ..Options::default()
    };
    Engine::new(
        Arc::new(store.clone()),
        windlass_actions::registry(),
        options,
    )
    .wait()
}

async fn serving(store: &MemoryStore, from: i64) -> Engine {
    let engine = engine(store, from);
    engine.serve(Serving::default()).await.unwrap();
    engine
}

const PLAIN: &str = r#"{"id":"w","nodes":[{"id":"n","actionType":"core.echo","parameters":{}}]}"#;
const SLOW: &str = r#"{"id":"w","nodes":[{"id":"n","waitForSignal":{"name":"go"}}]}"#;

async fn publish(store: &MemoryStore, tenant: Option<&str>, text: &str) {
    catalogue::publish(store, tenant, text).await;
}

fn every(ms: u64) -> Schedule {
    Schedule {
        id: "tick".into(),
        tenant: None,
        workflow: "w".into(),
        cron: None,
        every_ms: Some(ms),
        timezone: "UTC".into(),
        trigger: r#"{"by":"clock"}"#.into(),
        labels: BTreeMap::new(),
        priority: 5,
        enabled: true,
        catch_up: CatchUp::One,
        overlap: Overlap::Allow,
        changed_at: Millis(0),
        next_at: None,
        last_at: None,
        last_run: None,
        last_error: None,
        revision: 0,
        damage: None,
    }
}

fn cron(text: &str) -> Schedule {
    Schedule {
        cron: Some(text.into()),
        every_ms: None,
        ..every(1)
    }
}

/// Runs, oldest first.
fn runs(store: &MemoryStore) -> Vec<RunRow> {
    let filter = RunFilter {
        limit: 5000,
        ..RunFilter::default()
    };
    let mut rows = store.runs(&filter).wait().unwrap().rows;
    rows.reverse();
    rows
}

/// The times that the runs are for, from their request ids, in minutes after the start.
fn minutes(store: &MemoryStore) -> Vec<i64> {
    let rows = runs(store);
    let mut times: Vec<i64> = rows.iter().map(|row| minute_of(&row.request_id)).collect();
    times.sort_unstable();
    times
}

fn minute_of(request: &str) -> i64 {
    let text = request.strip_prefix("schedule:tick:").unwrap();
    (0..100_000)
        .find(|minute| Millis(START + minute * MINUTE).to_string() == text)
        .unwrap()
}

async fn pass(minutes: i64) {
    tokio::time::sleep(Duration::from_millis((minutes * MINUTE) as u64)).await;
}

fn row(store: &MemoryStore) -> Schedule {
    store.schedule(None, "tick").wait().unwrap().unwrap()
}

#[tokio::test(start_paused = true)]
async fn runs_start_at_their_times_and_not_before() {
    let store = MemoryStore::new();
    publish(&store, None, PLAIN).await;
    let engine = serving(&store, START).await;
    let put = engine.put_schedule(cron("*/10 * * * *")).await.unwrap();
    assert_eq!(put.next_at, Some(Millis(START + 10 * MINUTE)));
    pass(35).await;
    assert_eq!(minutes(&store), [10, 20, 30]);
    for row in runs(&store) {
        let due = START + minute_of(&row.request_id) * MINUTE;
        assert!(row.created_at >= Millis(due), "never before its time");
        assert_eq!(row.status, RunStatus::Succeeded);
    }
    let now = row(&store);
    assert_eq!(now.next_at, Some(Millis(START + 40 * MINUTE)));
    assert_eq!(now.last_at, Some(Millis(START + 30 * MINUTE)));
    assert_eq!(now.last_run, runs(&store).last().map(|row| row.run));
    let paused = Schedule {
        enabled: false,
        ..now
    };
    engine.put_schedule(paused).await.unwrap();
    pass(60).await;
    assert_eq!(minutes(&store).len(), 3, "a paused one starts nothing");
    assert!(engine.remove_schedule(None, "tick").await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_does_not_serve_starts_nothing() {
    let store = MemoryStore::new();
    publish(&store, None, PLAIN).await;
    let engine = engine(&store, START);
    engine.put_schedule(every(60_000)).await.unwrap();
    pass(10).await;
    assert!(runs(&store).is_empty());
    engine.serve(Serving::default()).await.unwrap();
    pass(0).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(minutes(&store), [10], "what was missed starts one run");
}

async fn after_two_hours(catch_up: CatchUp, every_ms: u64) -> Vec<i64> {
    let store = MemoryStore::new();
    publish(&store, None, PLAIN).await;
    let first = engine(&store, START);
    let schedule = Schedule {
        catch_up,
        ..every(every_ms)
    };
    first.put_schedule(schedule).await.unwrap();
    first.shutdown().await;
    let engine = serving(&store, START + 2 * HOUR + MINUTE).await;
    tokio::time::sleep(Duration::from_millis(900)).await;
    let caught_up = minutes(&store);
    engine.shutdown().await;
    caught_up
}

#[tokio::test(start_paused = true)]
async fn what_was_missed_is_caught_up_as_it_is_told() {
    let half_an_hour = (30 * MINUTE) as u64;
    assert!(
        after_two_hours(CatchUp::None, half_an_hour)
            .await
            .is_empty()
    );
    assert_eq!(after_two_hours(CatchUp::One, half_an_hour).await, [120]);
    assert_eq!(
        after_two_hours(CatchUp::All, half_an_hour).await,
        [30, 60, 90, 120]
    );
}

#[tokio::test(start_paused = true)]
async fn catching_up_is_bounded() {
    let store = MemoryStore::new();
    publish(&store, None, PLAIN).await;
    let first = engine(&store, START);
    let schedule = Schedule {
        catch_up: CatchUp::All,
        ..cron("* * * * *")
    };
    first.put_schedule(schedule).await.unwrap();
    first.shutdown().await;
    let _engine = serving(&store, START + 2000 * MINUTE).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let caught_up = minutes(&store);
    assert_eq!(caught_up.len(), 1000);
    assert_eq!(caught_up.last(), Some(&2000), "the last ones");
    assert_eq!(caught_up.first(), Some(&1001));
}

#[tokio::test(start_paused = true)]
async fn a_time_whose_run_was_started_before_a_crash_starts_no_other() {
    let store = MemoryStore::new();
    publish(&store, None, PLAIN).await;
    let first = engine(&store, START);
    first.put_schedule(every(MINUTE as u64)).await.unwrap();
    // As if it had been stopped between starting the run and moving on.
    let request = StartRequest {
        trigger: r#"{"by":"clock"}"#.to_owned(),
        request_id: Some(format!("schedule:tick:{}", Millis(START + MINUTE)).into()),
        ..StartRequest::default()
    };
    let started = first.enqueue("w", None, request).await.unwrap();
    first.shutdown().await;
    let _engine = serving(&store, START + MINUTE).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(minutes(&store), [1]);
    assert_eq!(row(&store).last_run, Some(started.run));
    assert_eq!(row(&store).next_at, Some(Millis(START + 2 * MINUTE)));
}

#[tokio::test(start_paused = true)]
async fn what_cannot_start_is_told_and_tried_at_the_next_time() {
    let store = MemoryStore::new();
    let engine = serving(&store, START).await;
    engine.put_schedule(every(MINUTE as u64)).await.unwrap();
    tokio::time::sleep(Duration::from_millis(61_000)).await;
    let now = row(&store);
    assert!(now.last_error.is_some(), "there is no such workflow");
    assert_eq!(now.next_at, Some(Millis(START + 2 * MINUTE)));
    publish(&store, None, PLAIN).await;
    engine.catalogue_changed(None, "w");
    pass(1).await;
    assert_eq!(minutes(&store), [2]);
    assert_eq!(row(&store).last_error, None);
    store.set_enabled(None, "w", false).await.unwrap();
    engine.catalogue_changed(None, "w");
    pass(1).await;
    assert_eq!(minutes(&store), [2]);
    assert!(row(&store).last_error.unwrap().contains("disabled"));
}

#[tokio::test(start_paused = true)]
async fn one_that_may_not_overlap_waits_for_the_end() {
    let store = MemoryStore::new();
    publish(&store, None, SLOW).await;
    let engine = serving(&store, START).await;
    let schedule = Schedule {
        overlap: Overlap::Skip,
        ..every(MINUTE as u64)
    };
    engine.put_schedule(schedule).await.unwrap();
    tokio::time::sleep(Duration::from_millis(3 * 60_000 + 500)).await;
    assert_eq!(minutes(&store), [1]);
    assert!(row(&store).last_error.unwrap().contains("has not ended"));
    let cancel = RunCommand::Cancel { compensate: false }.by(Default::default());
    let run = runs(&store)[0].run;
    engine.command(run, cancel).await.unwrap();
    engine.wait(run).await.unwrap();
    pass(1).await;
    assert_eq!(minutes(&store), [1, 4]);
}

#[tokio::test(start_paused = true)]
async fn tenants_start_their_own_workflows() {
    let store = MemoryStore::new();
    publish(&store, Some("acme"), PLAIN).await;
    let engine = serving(&store, START).await;
    for tenant in [Some("acme"), Some("beta"), None] {
        let schedule = Schedule {
            tenant: tenant.map(Into::into),
            ..every(MINUTE as u64)
        };
        engine.put_schedule(schedule).await.unwrap();
    }
    tokio::time::sleep(Duration::from_millis(61_000)).await;
    let rows = runs(&store);
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0].tenant.as_deref(), Some("acme"));
    let other = store
        .schedule(Some("beta"), "tick")
        .wait()
        .unwrap()
        .unwrap();
    assert!(other.last_error.is_some());
}

#[tokio::test(start_paused = true)]
async fn what_is_past_a_limit_is_refused_with_its_place() {
    let store = MemoryStore::new();
    let engine = engine(&store, START);
    let long = format!("0 0 {} * *", "1,".repeat(200));
    let with = |change: fn(&mut Schedule)| {
        let mut schedule = cron("0 0 * * *");
        change(&mut schedule);
        schedule
    };
    let refused = [
        ("/cron", cron(&long)),
        ("/cron", cron("61 * * * *")),
        ("/cron", cron("0 0 0 1 1 * 2030")),
        ("/cron", cron("0 0 30 2 *")),
        ("/cron", cron("")),
        ("/everyMs", every(999)),
        ("/everyMs", with(|it| it.every_ms = Some(5000))),
        ("/cron", with(|it| it.cron = None)),
        ("/timezone", with(|it| it.timezone = "Mars/Olympus".into())),
        (
            "/timezone",
            with(|it| it.timezone = "../../etc/passwd".into()),
        ),
        ("/priority", with(|it| it.priority = 10)),
        ("/id", with(|it| it.id = "a b".into())),
        ("/id", with(|it| it.id = "x".repeat(129).into())),
        ("/workflowId", with(|it| it.workflow = "".into())),
        ("/trigger", with(|it| it.trigger = "{".into())),
        (
            "/trigger",
            with(|it| it.trigger = format!("\"{}\"", "x".repeat((256 << 10) - 1)).into()),
        ),
    ];
    for (place, schedule) in refused {
        match engine.put_schedule(schedule).await {
            Err(ScheduleError::Invalid(problem)) => assert_eq!(problem.pointer, place),
            other => panic!("{place}: {other:?}"),
        }
    }
    let largest = with(|it| it.trigger = format!("\"{}\"", "x".repeat((256 << 10) - 2)).into());
    engine.put_schedule(largest).await.unwrap();
    engine
        .put_schedule(with(|it| it.id = "x".repeat(128).into()))
        .await
        .unwrap();
}

fn times(cron: &str, zone: &str, from: &str, count: usize) -> Vec<String> {
    let timing = Timing::new(Some(cron), None, zone).unwrap();
    let from: jiff::Timestamp = from.parse().unwrap();
    let mut at = Millis(from.as_millisecond());
    let mut found = Vec::new();
    for _ in 0..count {
        at = timing.after(at, at).unwrap();
        found.push(at.to_string().replace(":00.000Z", ""));
    }
    found
}

#[test]
fn a_daily_time_stays_at_its_hour_over_the_changes_of_the_clocks() {
    // Clocks in Zurich go from 02:00 to 03:00 on 29 March, and from 03:00 to 02:00 on 25 October.
    let spring = times("30 8 * * *", "Europe/Zurich", "2026-03-28T00:00:00Z", 3);
    assert_eq!(
        spring,
        ["2026-03-28T07:30", "2026-03-29T06:30", "2026-03-30T06:30"]
    );
    let autumn = times("30 8 * * *", "Europe/Zurich", "2026-10-24T00:00:00Z", 3);
    assert_eq!(
        autumn,
        ["2026-10-24T06:30", "2026-10-25T07:30", "2026-10-26T07:30"]
    );
}

#[test]
fn a_time_that_is_left_out_comes_once_and_one_that_comes_twice_counts_once() {
    let spring = times("30 2 * * *", "Europe/Zurich", "2026-03-28T00:00:00Z", 3);
    assert_eq!(
        spring,
        ["2026-03-28T01:30", "2026-03-29T01:00", "2026-03-30T00:30"]
    );
    let autumn = times("30 2 * * *", "Europe/Zurich", "2026-10-24T00:00:00Z", 3);
    assert_eq!(
        autumn,
        ["2026-10-24T00:30", "2026-10-25T00:30", "2026-10-26T01:30"]
    );
}

#[test]
fn what_comes_every_half_hour_does_so_over_the_changes_of_the_clocks() {
    let spring = times("*/30 * * * *", "Europe/Zurich", "2026-03-29T00:00:00Z", 4);
    assert_eq!(
        spring,
        [
            "2026-03-29T00:30",
            "2026-03-29T01:00",
            "2026-03-29T01:30",
            "2026-03-29T02:00"
        ]
    );
    let autumn = times("*/30 * * * *", "Europe/Zurich", "2026-10-25T00:00:00Z", 4);
    assert_eq!(
        autumn,
        [
            "2026-10-25T00:30",
            "2026-10-25T01:00",
            "2026-10-25T01:30",
            "2026-10-25T02:00"
        ]
    );
}

#[test]
fn the_next_times_are_told() {
    let schedule = Schedule {
        next_at: Some(Millis(START)),
        ..cron("0 0 * * *")
    };
    let days = (0..5).map(|day| Millis(START + day * 24 * HOUR));
    assert_eq!(next_times(&schedule, 5), days.collect::<Vec<_>>());
    assert!(
        next_times(&cron("0 0 * * *"), 5).is_empty(),
        "it has no next time"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Whatever is written there is a schedule or a problem, and its times go forwards.
    #[test]
    fn hostile_times_do_no_harm(
        text in "[-0-9*/,?LW#@+A-Z ]{0,40}|\\PC{0,60}|([-*0-9/,LW#]{1,8} ){4,6}[-*0-9/,LW#]{1,8}",
        zone in "UTC|Europe/Zurich|America/New_York|Australia/Lord_Howe|\\PC{0,20}",
        from in -10_000_000_000_000i64..10_000_000_000_000i64,
    ) {
        let Ok(timing) = Timing::new(Some(&text), None, &zone) else {
            return Ok(());
        };
        let mut at = Millis(from);
        for _ in 0..3 {
            let Some(next) = timing.after(at, at) else { break };
            prop_assert!(next > at);
            prop_assert_eq!(timing.between(next, next, 9), vec![next]);
            at = next;
        }
    }

    /// The last times before a moment are the same, whether they are walked or sought.
    #[test]
    fn the_last_times_are_found(
        minute in "\\*|\\*/7|0|30|15,45", hour in "\\*|2|\\*/5|1-3",
        day in "\\*|1|31|L",
        zone in "UTC|Europe/Zurich|America/New_York",
        from in 1_700_000_000i64..1_800_000_000i64,
        hours in 1i64..400,
    ) {
        let text = format!("{minute} {hour} {day} * *");
        let timing = Timing::new(Some(&text), None, &zone).unwrap();
        let from = Millis(from * 1000);
        let until = Millis(from.0 + hours * HOUR);
        let first = timing.after(from, from).unwrap();
        let mut walked = Vec::new();
        let mut at = first;
        while at <= until {
            walked.push(at);
            at = timing.after(at, at).unwrap();
        }
        let skip = walked.len().saturating_sub(20);
        prop_assert_eq!(timing.between(first, until, 20), walked[skip..].to_vec());
    }
}
