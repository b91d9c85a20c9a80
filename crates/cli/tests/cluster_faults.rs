//! Faults under load, on real processes: whatever dies, stands still or is cut off, every run that
//! was acknowledged ends, each of its attempts is recorded once, and its effects happened.
//!
//! `WINDLASS_FAULTS` sets how many faults there are; `cargo xtask chaos` sets many. Each test prints
//! its seed, and `WINDLASS_SEED` repeats it.

use std::thread;
use std::time::{Duration, Instant};

use crate::fleet::{Fleet, Load, Place};
use windlass_test_support::postgres::{DurableServer, server};

/// What varies from one turn to the next, from a seed.
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new(name: &str) -> Self {
        let given = std::env::var("WINDLASS_SEED").ok();
        let since = std::time::UNIX_EPOCH.elapsed().expect("a clock");
        let seed = given.map_or(since.as_micros() as u64, |text| {
            text.parse().expect("WINDLASS_SEED is a number")
        });
        println!("{name}: WINDLASS_SEED={seed}");
        Self(seed | 1)
    }

    /// A number below a bound.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        // Xorshift: even enough for choices among a few.
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound
    }

    pub(crate) fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }

    pub(crate) fn pause(&mut self, most_ms: u64) {
        thread::sleep(Duration::from_millis(self.below(most_ms)));
    }
}

/// How many faults there are.
pub(crate) fn faults(fewest: usize) -> usize {
    let given = std::env::var("WINDLASS_FAULTS").ok();
    given.map_or(fewest, |text| text.parse().expect("a number"))
}

/// A fresh schema of the server that all tests share.
fn shared() -> Place {
    Place {
        url: server().fresh(),
        address: server().address(),
        nats: None,
    }
}

pub(crate) const ROLES: [&str; 6] = [
    "api",
    "api",
    "orchestrator",
    "orchestrator",
    "worker",
    "worker",
];

pub(crate) fn tell(what: &str, count: usize, fleet: &Fleet, load: Load) {
    let settled = fleet.settle(load);
    let (runs, repeated) = (settled.runs, settled.repeated);
    println!("{what}: {runs} runs, {repeated} effects happened again");
    println!("figure {what} {count}");
}

#[test]
fn killed_processes_lose_and_double_nothing() {
    kill_processes("processes-killed", shared(), faults(4));
}

/// Kills so many processes, in turn by role.
pub(crate) fn kill_processes(what: &str, place: Place, count: usize) {
    let mut chance = Chance::new(what);
    let mut fleet = Fleet::start(place, &ROLES);
    let load = fleet.load(2);
    for turn in 0..count {
        load.accept(3);
        chance.pause(200);
        let role = ["orchestrator", "worker", "api", "orchestrator"][turn % 4];
        let index = chance.of(&fleet.with_role(role));
        match turn % 4 {
            // A hand-over: it is stopped in good order.
            3 => fleet.replace_stopped(index),
            _ => fleet.replace_killed(index),
        }
    }
    load.accept(3);
    tell(what, count, &fleet, load);
}

#[test]
fn processes_that_stand_still_past_their_lease_change_nothing() {
    stop_processes("processes-stopped", shared(), faults(2));
}

/// Lets so many processes stand still past their lease, and go on.
pub(crate) fn stop_processes(what: &str, place: Place, count: usize) {
    // A lease takes its time to run out: many stand still together where there are many.
    let at_once = if count > 20 { 4 } else { 1 };
    let mut roles = vec!["api"];
    for _ in 0..=at_once {
        roles.extend(["orchestrator", "worker"]);
    }
    let fleet = Fleet::start(place, &roles);
    let load = fleet.load(1);
    let mut stopped = 0;
    while stopped < count {
        load.accept(3);
        // One owner and one worker go on.
        let some = ["orchestrator", "worker"].map(|role| fleet.with_role(role));
        let some = some.iter().flat_map(|of_role| &of_role[..at_once]);
        let still: Vec<_> = some.map(|index| &fleet.members[*index]).collect();
        for member in &still {
            member.signal("-STOP");
        }
        stopped += still.len();
        for member in &still {
            while fleet.session(&member.name()).is_some() {
                thread::sleep(Duration::from_millis(50));
            }
        }
        load.accept(3);
        for member in &still {
            member.signal("-CONT");
        }
        for member in &still {
            // It hears that its session is over, and joins again.
            while fleet.session(&member.name()).is_none() {
                thread::sleep(Duration::from_millis(20));
            }
        }
    }
    load.accept(3);
    tell(what, stopped, &fleet, load);
}

#[test]
fn cut_connections_leave_no_commit_unresolved() {
    cut_connections("connections-cut", shared(), faults(14));
}

/// Does to connections what networks do, so many times.
pub(crate) fn cut_connections(what: &str, place: Place, count: usize) {
    let mut chance = Chance::new(what);
    let fleet = Fleet::start(place, &ROLES);
    let load = fleet.load(2);
    for turn in 0..count {
        load.accept(1);
        let member = &fleet.members[chance.below(fleet.members.len() as u64) as usize];
        let proxy = &member.proxy;
        match turn % 7 {
            // Between a commit and its answer.
            0 | 1 => {
                proxy.drop_answers(true);
                chance.pause(100);
                proxy.drop_answers(false);
            }
            2 => proxy.cut(),
            // In the middle of a statement, or of its answer.
            3 | 4 => proxy.close_after(1 + chance.below(20_000) as u32),
            5 => {
                proxy.stall(true);
                chance.pause(2_000);
                proxy.stall(false);
            }
            _ => {
                proxy.refuse(true);
                proxy.cut();
                chance.pause(2_000);
                proxy.refuse(false);
            }
        }
    }
    load.accept(3);
    let cut: usize = fleet.members.iter().map(|it| it.proxy.cuts()).sum();
    assert!(cut > 0, "no connection was cut");
    println!("{cut} connections were cut");
    tell(what, count, &fleet, load);
}

/// The queue has given the item to a worker that never heard of it, and that lives.
#[test]
fn work_that_was_pulled_with_a_lost_answer_comes_again() {
    let fleet = Fleet::start(shared(), &["api", "orchestrator", "worker"]);
    let worker = &fleet.members[fleet.with_role("worker")[0]];
    let door = fleet.door();
    let body = serde_json::json!({});
    // Its connections have sent everything once, so that nothing but answers is missing below.
    let first = door.execute("effects", &body);
    assert_eq!(door.ended(&first)["status"], "Succeeded");
    loop {
        // The worker hears nothing until the item waits: a pull before that would cost it the
        // connection, and it gets no other.
        worker.proxy.stall(true);
        let run = door.execute("effects", &body);
        while fleet.number("select count(*) from work") == 0 {
            thread::sleep(Duration::from_millis(5));
        }
        worker.proxy.drop_answers(true);
        worker.proxy.stall(false);
        let is_leased = || fleet.number("select count(*) from work where lease is not null") > 0;
        let begun = Instant::now();
        while !is_leased() && begun.elapsed() < Duration::from_secs(15) {
            thread::sleep(Duration::from_millis(5));
        }
        let was_leased = is_leased();
        worker.proxy.drop_answers(false);
        assert_eq!(door.ended(&run)["status"], "Succeeded");
        // Otherwise a pull was under way when the worker was cut off.
        if was_leased {
            break;
        }
    }
}

#[test]
fn a_killed_database_loses_nothing_that_was_acknowledged() {
    let mut chance = Chance::new("database");
    let mut database = DurableServer::start();
    let place = Place {
        url: database.url(),
        address: database.address(),
        nats: None,
    };
    let fleet = Fleet::start(place, &["api", "orchestrator", "worker"]);
    let load = fleet.load(2);
    let count = faults(2);
    for _ in 0..count {
        load.accept(3);
        chance.pause(300);
        database.kill();
        for member in &fleet.members {
            // It lives without its database, and says that it cannot work.
            let probes = member.probes();
            probes.until("/health/ready", |status, _| status == 503);
            probes.get("/health/live").expect(200);
        }
        chance.pause(1_000);
        database.serve();
    }
    load.accept(3);
    for member in &fleet.members {
        member
            .probes()
            .until("/health/ready", |status, _| status == 200);
    }
    tell("database-killed", count, &fleet, load);
}
