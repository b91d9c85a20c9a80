//! `--ack projected`: whatever says that a start succeeded says that the database has the run.

use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use windlass_store::conformance::{append_one, record, row, run_id};
use windlass_store::{Append, AppendError, Appended, Claim, Error, Head, Log as _, Wait as _};
use windlass_store_nats::{NatsStore, Settings};
use windlass_test_support::nats::{self, fresh_prefix};
use windlass_test_support::postgres::{self, Proxy};

const PATIENCE: Duration = Duration::from_secs(60);

/// An installation whose database can be taken away.
struct Place {
    database: Proxy,
    nats: Proxy,
    settings: Settings,
}

impl Place {
    fn new() -> Self {
        let database = Proxy::to(&postgres::server().address());
        let nats = Proxy::to(nats::server().url().trim_start_matches("nats://"));
        let schema = postgres::server().at(database.address());
        let postgres = windlass_store_postgres::Settings::parse(&schema).unwrap();
        let url = format!("nats://{}", nats.address());
        let settings = Settings::parse(&url, postgres.pool(2)).unwrap();
        let settings = settings.prefix(&fresh_prefix()).unwrap().partitions(2);
        Self {
            database,
            nats,
            settings: settings
                .answer_time(Duration::from_millis(700))
                .ack_projected(true),
        }
    }

    fn open(&self) -> NatsStore {
        NatsStore::open(&self.settings).unwrap()
    }

    fn database_is_away(&self, away: bool) {
        self.database.refuse(away);
        if away {
            self.database.cut();
        }
    }
}

/// The first record of a run that the request `r` asks for.
fn started(n: u64) -> Append {
    let run = run_id(n);
    Append {
        row: Some(row(run)),
        claims: vec![Claim {
            namespace: "request",
            key: "r".into(),
            value: run.to_string().into_bytes(),
        }],
        ..record(run, Head::NONE, n, b"started")
    }
}

/// Appends in the background.
fn appending(store: &NatsStore, append: Append) -> Receiver<Result<Appended, AppendError>> {
    let (done, answer) = channel();
    let store = store.clone();
    thread::spawn(move || done.send(append_one(&store, append)));
    answer
}

/// Waits until the log has so many records.
fn logged(store: &NatsStore, count: u64) {
    let begun = Instant::now();
    while store
        .measure_requests()
        .wait()
        .is_ok_and(|it| it.logs < count)
    {
        assert!(begun.elapsed() < PATIENCE, "the log does not have it");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Repeats what fails while something is away.
#[track_caller]
fn in_time<T>(mut ask: impl FnMut() -> Result<T, Error>) -> T {
    let begun = Instant::now();
    loop {
        match ask() {
            Ok(answer) => return answer,
            Err(Error::Unavailable(text)) => assert!(begun.elapsed() < PATIENCE, "{text}"),
            Err(error) => panic!("{error:?}"),
        }
        thread::sleep(Duration::from_millis(20));
    }
}

fn is_unavailable<T: std::fmt::Debug>(answer: &Result<T, Error>) -> bool {
    matches!(answer, Err(Error::Unavailable(_)))
}

#[test]
fn a_start_is_not_acknowledged_while_the_database_is_away() {
    let place = Place::new();
    let store = place.open();
    place.database_is_away(true);
    let answer = appending(&store, started(1));
    logged(&store, 1);
    assert!(answer.try_recv().is_err(), "the database does not have it");
    place.database_is_away(false);
    let head = answer.recv_timeout(PATIENCE).unwrap().unwrap().head;
    let stored = in_time(|| store.postgres().head(run_id(1)).wait());
    assert_eq!(stored, head);
}

/// The caller of a start whose acknowledgement was lost reads the log's end, and takes a log that
/// has begun for its answer.
#[test]
fn the_end_of_a_log_whose_acknowledgement_was_lost_waits_for_the_database_too() {
    let place = Place::new();
    let store = place.open();
    place.database_is_away(true);
    // Nothing but the publish is answered.
    let mut open = Some(Append {
        claims: Vec::new(),
        ..started(1)
    });
    while let Some(append) = open.take() {
        place.nats.drop_answers(true);
        let answer = append_one(&store, append);
        place.nats.drop_answers(false);
        // The publish came to the server, or it is made again.
        let is_logged = in_time(|| store.measure_requests().wait()).logs > 0;
        match answer {
            Err(AppendError::Unknown { append, .. }) if !is_logged => open = append.map(|it| *it),
            Err(AppendError::Unknown { .. } | AppendError::Conflict(_)) => {}
            answer => panic!("the acknowledgement was lost: {answer:?}"),
        }
    }
    let answer = store.head(run_id(1)).wait();
    assert!(is_unavailable(&answer), "the database lacks it: {answer:?}");
    place.database_is_away(false);
    let head = in_time(|| store.head(run_id(1)).wait());
    assert_eq!(head.sequence, 1);
    assert_eq!(store.postgres().head(run_id(1)).wait().unwrap(), head);
}

/// A request that comes again through another process gets the run that the first one made: an
/// answer of success, which is not given before the database has that run.
#[test]
fn a_repeat_through_another_process_waits_for_the_database_too() {
    let place = Place::new();
    let (one, other) = (place.open(), place.open());
    place.database_is_away(true);
    let first = appending(&one, started(1));
    logged(&other, 1);
    let repeated = append_one(&other, started(2));
    let is_refused = matches!(repeated, Err(AppendError::Failed(Error::Unavailable(_))));
    assert!(is_refused, "the database lacks the first: {repeated:?}");
    place.database_is_away(false);
    let held = in_time(|| match append_one(&other, started(2)) {
        Err(AppendError::Failed(error)) => Err(error),
        answer => Ok(answer),
    });
    let stored = in_time(|| other.postgres().head(run_id(1)).wait());
    match held {
        Err(AppendError::Held { value, .. }) => {
            assert_eq!(value, run_id(1).to_string().into_bytes());
        }
        answer => panic!("the first run holds the request: {answer:?}"),
    }
    assert_eq!(stored.sequence, 1);
    first.recv_timeout(PATIENCE).unwrap().unwrap();
}
