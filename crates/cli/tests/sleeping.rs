//! 100,000 sleeping runs and a restart: they are rows, and cost the process that holds the data
//! directory next to nothing.

#![cfg(target_os = "linux")]

use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;

use windlass_core::Millis;
use windlass_engine::{Backend, Engine, Options};
use windlass_store::{Partitions, Queries as _, Wait as _};
use windlass_store_embedded::EmbeddedStore;
use windlass_test_support::catalogue;

const RUNS: usize = 100_000;
const LANES: usize = 256;

const SLEEPER: &str =
    r#"{ "id": "sleeper", "nodes": [{ "id": "nap", "delay": { "ms": 86400000 } }] }"#;

/// Starts the runs, waits until all of them sleep, and lets the directory go.
async fn put_to_sleep(directory: &Path) {
    let options = windlass_store_embedded::Options {
        durable: false,
        ..Default::default()
    };
    let store = EmbeddedStore::open(directory, options)
        .expect("a store")
        .store;
    let backend: Arc<dyn Backend> = Arc::new(store.clone());
    let engine = Engine::new(backend, windlass_actions::registry(), Options::default()).wait();
    let request = catalogue::publish(&store, None, SLEEPER).await;
    let lanes: Vec<_> = (0..LANES)
        .map(|lane| {
            let (engine, request) = (engine.clone(), request.clone());
            let share = RUNS / LANES + usize::from(lane < RUNS % LANES);
            tokio::spawn(async move {
                for _ in 0..share {
                    engine.start(&request).await.expect("started");
                }
            })
        })
        .collect();
    for lane in lanes {
        lane.await.expect("started");
    }
    while engine.held().await > 0 {
        tokio::task::yield_now().await;
    }
    assert!(store.awake(None, 1).wait().expect("readable").is_empty());
    let asleep = store.due(&Partitions::All, None, Millis(i64::MAX), 1);
    assert_eq!(asleep.wait().expect("readable").len(), 1);
    engine.shutdown().await;
}

/// The peak resident size of the binary while it recovers a directory and runs one node.
fn peak(directory: &Path) -> u64 {
    let file = directory.join("one.json");
    let one = r#"{ "id": "one", "nodes": [{ "id": "a", "actionType": "core.sleep", "parameters": { "ms": 300 } }] }"#;
    std::fs::write(&file, one).expect("written");
    let mut child = windlass_test_support::process::windlass()
        .args(["run", "--json", "--data-dir"])
        .arg(directory)
        .arg(&file)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the binary runs");
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    loop {
        // The kernel keeps the high-water mark; it must be read while the process lives.
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let size = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse().ok());
        peak = peak.max(size.unwrap_or(0));
        if let Some(ended) = child.try_wait().expect("waited") {
            assert!(ended.success());
            return peak * 1024;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

#[test]
fn a_hundred_thousand_sleeping_runs_cost_a_restart_less_than_20_mib() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let scratch = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let (full, empty) = (scratch.path().join("full"), scratch.path().join("empty"));
    std::fs::create_dir_all(&empty).expect("a directory");
    runtime.block_on(put_to_sleep(&full));
    let (base, with) = (peak(&empty), peak(&full));
    assert!(base > 0 && with > 0, "{base} {with}");
    let extra = with.saturating_sub(base);
    println!("{extra} bytes for {RUNS} sleeping runs");
    assert!(extra < 20 << 20, "{extra} bytes for {RUNS} sleeping runs");
}
