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
        ("planned.percent", 50),
        ("process.starts", 40),
        ("process.cpu-us", 10_000),
        ("process.cores", 2),
        ("process.slots", 100),
        ("process.connections", 14),
        ("embedded.runs", 60),
        ("embedded.run-bytes", 2000),
        ("postgres.records", 600),
        ("postgres.work-items", 300),
        ("postgres.partitions", 64),
        ("postgres.run-bytes", 5000),
        ("nats.work-items", 500),
        ("nats.partitions", 16),
        ("nats-1.records", 90),
        ("nats-1.outcomes", 40),
        ("nats-1.streams", 16),
        ("nats-3.records", 210),
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
    // 600 / 3 records; with outcomes 600 / (3 + 2), against 300 / 2 items of work.
    assert_eq!(least(Backend::Postgres, Workers::Beside), ("database", 200));
    assert_eq!(least(Backend::Postgres, Workers::Apart), ("database", 120));
    // 90 / 3 records, 40 / 2 outcomes.
    assert_eq!(least(Backend::NatsOne, Workers::Beside), ("log", 30));
    assert_eq!(least(Backend::NatsOne, Workers::Apart), ("inbox", 20));
    // 210 / 3 records, and 400 / 2 outcomes that do not count.
    assert_eq!(least(Backend::NatsThree, Workers::Apart), ("log", 70));
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
        // 1,000 runs by half of 120.
        installations: 17,
        streams: 0,
        partitions: 17 * 64,
        databases: 17,
        // 1,000 starts by half of 40.
        api: 50,
        // 3,000 × 10 ms = 30 s of processor time a second, by half of two cores; at least two
        // for each installation.
        orchestrators: 34,
        // 1,000 × 2 × 0.5 s = 1,000 attempts in hand, by half of 100 slots; at least 34.
        workers: 34,
        // 118 processes on 17 databases: 7 on the fullest, 14 connections each.
        database_connections: 98,
        nats_connections: 0,
        // A request, 3 records, and 2 attempts that are sent four times each.
        network_bytes: 1000 * (1000 + 100 * (3 + 8)),
        disk_bytes: 1000 * 5000 * 86_400,
    };
    assert_eq!(plan, expected);
    assert_eq!(plan.processes(), 118);
}

#[test]
fn three_replicas_are_sent_and_stored_three_times() {
    let inputs = inputs();
    let plan = Model(&inputs)
        .plan(Backend::NatsThree, 1000)
        .expect("a plan");
    // 1,000 runs by half of 70.
    assert_eq!((plan.installations, plan.streams), (29, 29 * 4));
    // 1,000 runs by half of 600 / 3 records; 58 + 58 + 58 processes, 14 connections each.
    assert_eq!(plan.databases, 10);
    assert_eq!(
        (plan.processes(), plan.database_connections),
        (174, 18 * 14)
    );
    assert_eq!(plan.partitions, 29 * 16);
    // 3 records to 3 replicas and the database; 2 attempts: pushed and offered to 3 replicas,
    // pulled and read once.
    assert_eq!(plan.network_bytes, 1000 * (1000 + 100 * (3 * 4 + 2 * 8)));
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
