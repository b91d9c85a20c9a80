//! The arithmetic, on inputs small enough to work out by hand.

use std::fmt::Write as _;

use super::*;

/// Round figures: a run of 2 nodes and 3 records, planned at half of what was measured.
fn inputs() -> Inputs {
    let figures = [
        ("run.nodes", 2),
        ("run.records", 3),
        ("run.message-bytes", 100),
        ("run.start-bytes", 1000),
        ("run.action-ms", 500),
        ("run.kept-days", 2),
        ("work.writes", 3),
        ("outcome.writes", 2),
        ("planned.percent", 50),
        ("process.starts", 40),
        ("process.cpu-us", 10_000),
        ("process.cores", 2),
        ("process.slots", 100),
        ("process.connections", 14),
        ("embedded.runs", 60),
        ("embedded.run-bytes", 2000),
        ("postgres.records", 600),
        ("postgres.engine-records", 570),
        ("postgres.work-items", 300),
        ("postgres.partitions", 64),
        ("postgres.run-bytes", 5000),
        ("nats.work-items", 500),
        ("nats.subject-memory", 100),
        ("nats.server-memory", 69 * 100 * 2 * 86_400),
        ("nats.partitions", 16),
        ("nats-1.records", 90),
        ("nats-1.engine-records", 100),
        ("nats-1.outcomes", 80),
        ("nats-1.streams", 16),
        ("nats-3.records", 213),
        ("nats-3.engine-records", 210),
        ("nats-3.outcomes", 400),
        ("nats-3.streams", 4),
    ];
    let mut text = String::new();
    for (name, value) in figures {
        let _ = writeln!(
            text,
            "[[input]]\nname = '{name}'\nvalue = {value}\ntext = 't'\nsource = 'assumed'"
        );
    }
    Inputs::parse(&text).expect("whole inputs")
}

fn least(backend: Backend, workers: Workers) -> (&'static str, u64) {
    let inputs = inputs();
    let bound = Model(&inputs).least(backend, workers).expect("a bound");
    (bound.what, bound.runs)
}

#[test]
fn the_least_bound_of_an_installation_counts() {
    // 40 starts, 60 runs; 100 slots × 1,000 ms / 500 ms = 200 attempts = 100 runs.
    assert_eq!(least(Backend::Embedded, Workers::Beside), ("HTTP", 40));
    // 570 / 3 records through the engine, below 600 / 3 of the database; apart 300 / (2 × 3) rows
    // of items, below 570 / (3 + 2 × 2) records and rows of outcomes.
    assert_eq!(least(Backend::Postgres, Workers::Beside), ("engine", 190));
    assert_eq!(least(Backend::Postgres, Workers::Apart), ("work queue", 50));
    // 90 / 3 records, 80 / (2 × 2) rows of outcomes.
    assert_eq!(least(Backend::NatsOne, Workers::Beside), ("log", 30));
    assert_eq!(least(Backend::NatsOne, Workers::Apart), ("inbox", 20));
    // 69 runs a second are so many subjects after two days; 210 / 3 records through the engine,
    // 213 / 3 by the log, and 400 / 4 rows of outcomes and 500 / 6 of items that do not count.
    assert_eq!(least(Backend::NatsThree, Workers::Apart), ("subjects", 69));
}

#[test]
fn every_bound_of_nats_is_named() {
    let inputs = inputs();
    let bounds = Model(&inputs).bounds(Backend::NatsThree, Workers::Apart);
    let bounds = bounds.expect("bounds").into_iter();
    let named: Vec<_> = bounds.map(|it| (it.what, it.runs)).collect();
    let expected = [
        ("database", 200),
        ("engine", 70),
        ("log", 71),
        ("subjects", 69),
        ("inbox", 100),
        ("work queue", 83),
    ];
    assert_eq!(named, expected);
}

#[test]
fn a_plan_on_postgres_follows_from_its_inputs() {
    let inputs = inputs();
    let plan = Model(&inputs)
        .plan(Backend::Postgres, 1000)
        .expect("a plan");
    let expected = Plan {
        runs: 1000,
        records: 3000,
        // 1,000 runs by half of 50.
        installations: 40,
        streams: 0,
        subjects: 0,
        partitions: 40 * 64,
        // 1,000 runs by half of 600 / (3 + 2 × 2).
        databases: 24,
        // 1,000 starts by half of 40; at least two for each installation.
        api: 80,
        // 3,000 × 10 ms = 30 s of processor time a second, by half of two cores; at least 80.
        orchestrators: 80,
        // 1,000 × 2 × 0.5 s = 1,000 attempts in hand, by half of 100 slots; at least 80.
        workers: 80,
        // 240 processes on 24 databases: 10 on each, 14 connections each.
        database_connections: 140,
        nats_connections: 0,
        // A request, 3 records, and 2 attempts that are sent four times each.
        network_bytes: 1000 * (1000 + 100 * (3 + 8)),
        disk_bytes: 1000 * 5000 * 86_400,
    };
    assert_eq!(plan, expected);
    assert_eq!(plan.processes(), 240);
}

#[test]
fn three_replicas_are_sent_and_stored_three_times() {
    let inputs = inputs();
    let plan = Model(&inputs)
        .plan(Backend::NatsThree, 1000)
        .expect("a plan");
    // 1,000 runs by half of 69.
    assert_eq!((plan.installations, plan.streams), (29, 29 * 4));
    // 1,000 runs by half of 600 / 3 records; 58 + 58 + 58 processes, 14 connections each.
    assert_eq!(plan.databases, 10);
    assert_eq!(
        (plan.processes(), plan.database_connections),
        (174, 18 * 14)
    );
    assert_eq!(plan.partitions, 29 * 16);
    // 3 records to 3 replicas and the database; 2 attempts: 3 rows of the item and 2 of the outcome,
    // to 3 replicas and to the copies of 6 processes.
    let messages = 3 * 4 + 2 * 5 * (3 + 6);
    assert_eq!(plan.network_bytes, 1000 * (1000 + 100 * messages));
    assert_eq!(plan.subjects, 1000 * 2 * 86_400);
    assert_eq!(plan.disk_bytes, 1000 * (5000 + 3 * 100) * 86_400);
    assert_eq!(plan.nats_connections, 2 * plan.processes());
}

#[test]
fn an_embedded_installation_is_one_process() {
    let inputs = inputs();
    let plan = Model(&inputs)
        .plan(Backend::Embedded, 1000)
        .expect("a plan");
    // 1,000 runs by half of 40.
    assert_eq!((plan.installations, plan.processes()), (50, 50));
    assert_eq!((plan.databases, plan.database_connections), (0, 0));
    assert_eq!(plan.network_bytes, 1_000_000);
    let small = Model(&inputs).plan(Backend::Embedded, 1).expect("a plan");
    assert_eq!(small.installations, 1);
}
