//! Clients that start runs, each under a request id of its own, and ask again until they are
//! answered, as a careful client does.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::{Value, json};

use super::Doors;

/// How long a client waits before it asks again, or for the next run.
const PAUSE: Duration = Duration::from_millis(60);

/// Clients at work.
pub(crate) struct Load {
    lanes: Vec<JoinHandle<BTreeMap<String, String>>>,
    over: Arc<AtomicBool>,
    started: Arc<AtomicUsize>,
}

impl Load {
    pub(super) fn start(doors: Doors, lanes: usize) -> Self {
        let over = Arc::new(AtomicBool::default());
        let started = Arc::new(AtomicUsize::default());
        let lanes = (0..lanes).map(|lane| {
            let (doors, over, started) = (doors.clone(), over.clone(), started.clone());
            thread::spawn(move || {
                let mut runs = BTreeMap::new();
                for number in 0.. {
                    if over.load(Ordering::SeqCst) {
                        break;
                    }
                    let request = format!("{lane}-{number}");
                    let run = start_run(&doors, &request, number);
                    runs.insert(request, run);
                    started.fetch_add(1, Ordering::SeqCst);
                    thread::sleep(PAUSE);
                }
                runs
            })
        });
        Self {
            lanes: lanes.collect(),
            over: Arc::clone(&over),
            started: Arc::clone(&started),
        }
    }

    /// Waits until so many more runs were accepted.
    pub(crate) fn accept(&self, count: usize) {
        let enough = self.started.load(Ordering::SeqCst) + count;
        while self.started.load(Ordering::SeqCst) < enough {
            let is_dead = |lane: &JoinHandle<_>| lane.is_finished();
            assert!(!self.lanes.iter().any(is_dead), "a client ended");
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Ends it; gives the accepted runs, which differ.
    pub(super) fn end(self) -> Vec<String> {
        self.over.store(true, Ordering::SeqCst);
        let lanes = self.lanes.into_iter();
        let maps = lanes.map(|lane| lane.join().expect("a client ends well"));
        let mut runs: Vec<String> = maps.flat_map(BTreeMap::into_values).collect();
        let requests = runs.len();
        runs.sort_unstable();
        runs.dedup();
        assert_eq!(runs.len(), requests, "a run for each request id");
        runs
    }
}

/// Asks one API process after the other until one has accepted the run.
fn start_run(doors: &Doors, request: &str, first: usize) -> String {
    let body = json!({ "requestId": request }).to_string();
    for turn in first.. {
        let door = {
            let doors = doors.lock().unwrap_or_else(PoisonError::into_inner);
            doors.get(turn % doors.len().max(1)).cloned()
        };
        let headers = [("Content-Type", "application/json")];
        let path = "/api/v1/workflows/effects/execute";
        let answer = door.map(|it| it.try_send("POST", path, &headers, Some(body.as_bytes())));
        if let Some(Ok(answer)) = answer {
            let said: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
            match (answer.status, said["executionId"].as_str()) {
                (200 | 202, Some(run)) => return run.to_owned(),
                (503, _) => {
                    assert!(answer.header("retry-after").is_some(), "{answer:?}");
                }
                (status, _) => panic!("answered with {status}: {said}"),
            }
        }
        thread::sleep(PAUSE);
    }
    unreachable!("it asks for ever")
}
