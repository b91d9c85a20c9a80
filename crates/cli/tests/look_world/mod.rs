//! A data directory with runs in it, and the binary to look at them with.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use windlass_core::definition::{self, Options, Source, signature};
use windlass_core::plan::Plan;
use windlass_core::{Digest, Millis, RunId};
use windlass_engine::history::for_each_event;
use windlass_engine::{Backend, Begin, Engine, NewRun};
use windlass_store::{Catalogue as _, NewDefinition, Wait as _};
use windlass_store_embedded::EmbeddedStore;

/// A directory of its own, removed at the end.
pub(crate) struct World {
    directory: PathBuf,
}

/// How the binary ended.
pub(crate) struct Answer {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Answer {
    /// It did what it was asked.
    pub(crate) fn done(self) -> Self {
        assert_eq!(self.code, 0, "{}{}", self.stdout, self.stderr);
        self
    }

    /// It failed with this exit code and error code, and wrote no data.
    pub(crate) fn failed(&self, exit: i32, code: &str) {
        assert_eq!(self.code, exit, "{}{}", self.stdout, self.stderr);
        let forms = [
            format!("error[{code}]"),
            format!("{{\"error\":{{\"code\":\"{code}\""),
        ];
        let is_said = forms.iter().any(|form| self.stderr.contains(form));
        assert!(is_said, "{}", self.stderr);
        assert_eq!(self.stdout, "");
    }

    /// What it wrote, as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("{error}:\n{}", self.stdout))
    }
}

impl World {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("windlass-look-{}-{number}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&directory).expect("a directory");
        Self { directory }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.directory
    }

    /// Runs the binary here, without a terminal.
    pub(crate) fn windlass(&self, arguments: &[&str]) -> Answer {
        let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
        command
            .args(arguments)
            .current_dir(&self.directory)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let guard = apart();
        let child = command.spawn().expect("the binary runs");
        drop(guard);
        let output = child.wait_with_output().expect("it ends");
        Answer {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).expect("text"),
            stderr: String::from_utf8(output.stderr).expect("text"),
        }
    }

    /// Writes a file here.
    pub(crate) fn file(&self, name: &str, text: &str) -> String {
        std::fs::write(self.directory.join(name), text).expect("a file");
        name.to_owned()
    }

    /// Runs a definition to its end; gives the run's id.
    pub(crate) fn run(&self, definition: &str, trigger: &str) -> String {
        self.start(definition, trigger, Begin::Now, None)
    }

    /// Runs a definition until all of this has happened to these nodes; nobody carries it
    /// on then.
    pub(crate) fn run_until(&self, definition: &str, events: &[(&str, &str)]) -> String {
        self.start(definition, "{}", Begin::Now, Some(events))
    }

    /// Adds a definition to the catalogue.
    pub(crate) fn publish(&self, definition: &str) {
        let file = self.file("published.json", definition);
        self.windlass(&["publish", &file]).done();
    }

    /// Queues a run that nobody carries on.
    pub(crate) fn queue(&self, definition: &str, trigger: &str) -> String {
        self.start(definition, trigger, Begin::Later, None)
    }

    fn start(
        &self,
        text: &str,
        trigger: &str,
        begin: Begin,
        until: Option<&[(&str, &str)]>,
    ) -> String {
        let _guard = apart();
        let store = EmbeddedStore::open(
            &self.directory.join(".windlass"),
            windlass_store_embedded::Options::default(),
        );
        let store = store.expect("a store").store;
        let parsed = definition::parse(
            &Source::new("test.json", text.as_bytes()),
            &Options::default(),
        )
        .unwrap_or_else(|problems| panic!("{problems:?}"));
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        runtime.block_on(async {
            let digest = Digest::of(&parsed.json);
            let published = store.publish(NewDefinition {
                tenant: None,
                workflow: parsed.definition.id.clone(),
                display_name: None,
                digest,
                text: parsed.json.clone().into(),
                signature: signature(&parsed.definition),
                at: Millis(0),
            });
            let version = published.await.expect("published").version;
            let backend: Arc<dyn Backend> = Arc::new(store.clone());
            let registry = windlass_actions::registry();
            let engine = Engine::new(backend, registry, windlass_engine::Options::default()).wait();
            let plan = Arc::new(Plan::build(parsed.definition).expect("a plan"));
            let mut request = NewRun::new(plan, version, digest);
            request.request.trigger = trigger.to_owned();
            request.begin = begin;
            let started = engine.start(&request).await.expect("started");
            if let Some(events) = until {
                let pending =
                    |(kind, node): &(&str, &str)| !happened(&engine, started.run, kind, node);
                while events.iter().any(pending) {
                    tokio::task::yield_now().await;
                }
            } else if begin == Begin::Now {
                engine.wait(started.run).await.expect("ended");
            }
            engine.shutdown().await;
            started.run.to_string()
        })
    }
}

fn happened(engine: &Engine, run: RunId, kind: &str, node: &str) -> bool {
    let mut found = false;
    let (store, plans) = (&**engine.store(), engine.plans());
    for_each_event(store, plans, run, |event| {
        found |= event.kind == kind && event.node.as_deref() == Some(node);
        ControlFlow::Continue(())
    })
    .expect("readable");
    found
}

/// A child that has not yet become the binary shares every lock that this process has:
/// children are started while no store is open here.
fn apart() -> MutexGuard<'static, ()> {
    static APART: Mutex<()> = Mutex::new(());
    APART.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}
