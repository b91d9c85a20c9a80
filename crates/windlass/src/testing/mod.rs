//! The test kit: an engine in memory on virtual time. Retries, timeouts and delays of
//! hours pass at once, actions are mocked by name, and failures are injected by node and
//! attempt. Behind the feature `testing`.
//!
//! ```
//! use serde_json::json;
//! use windlass::testing::TestEngine;
//! use windlass::{ActionError, Context, Workflow};
//!
//! async fn charge(_: Context, _: serde_json::Value) -> Result<u32, ActionError> {
//!     Ok(42)
//! }
//!
//! let orders = Workflow::builder("orders")
//!     .step("price", "http.request")
//!     .parameters(json!({ "url": "https://shop.example/price" }))
//!     .step("charge", charge)
//!     .retry(3)
//!     .build()?;
//! let engine = TestEngine::builder()
//!     .workflow(&orders)
//!     .mock("http.request", |_| Ok(json!({ "status": 200, "body": 42 })))
//!     .fail("charge", 1, "CARD_READER_OFF")
//!     .fail("charge", 2, "CARD_READER_OFF")
//!     .open();
//! engine
//!     .run(&orders, json!({ "order": 7 }))
//!     .assert_succeeded()
//!     .assert_attempts("charge", 3)
//!     .assert_output(json!(42));
//! assert_eq!(engine.calls("http.request").len(), 1);
//! # Ok::<(), windlass::BuildError>(())
//! ```
//!
//! The engine has a runtime of its own, so tests are plain functions; where one needs to
//! await something, [`TestEngine::block_on`] does it on the engine's time. An action that
//! truly waits for the world (a socket, a program) does not fit virtual time: mock it.

mod clock;
mod faults;
mod mock;
mod run;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use tokio::runtime::{Builder, Runtime};
use windlass_core::Millis;
use windlass_engine::{Action, ActionError, Clock as _};

use clock::VirtualClock;
use faults::{Faults, Planned};
pub use mock::Call;
use mock::{Calls, Mock};
pub use run::TestRun;

use crate::engine::{Engine, EngineBuilder, Startable};
use crate::workflow::Workflow;

/// An engine for tests: in memory, on virtual time.
pub struct TestEngine {
    runtime: Arc<Runtime>,
    engine: Engine,
    clock: VirtualClock,
    calls: Calls,
}

/// Puts a test engine together.
#[must_use = "a builder does nothing until it is opened"]
pub struct TestEngineBuilder {
    engine: EngineBuilder,
    faults: Faults,
    calls: Calls,
}

impl TestEngine {
    /// Puts a test engine together.
    pub fn builder() -> TestEngineBuilder {
        TestEngineBuilder {
            engine: Engine::in_memory().with_every_label(),
            faults: Faults::default(),
            calls: Calls::default(),
        }
    }

    /// An engine with these workflows and nothing else.
    pub fn with<'a>(workflows: impl IntoIterator<Item = &'a Workflow>) -> Self {
        let builder = workflows
            .into_iter()
            .fold(Self::builder(), |builder, workflow| {
                builder.workflow(workflow)
            });
        builder.open()
    }

    /// Starts a run and waits for its end.
    ///
    /// # Panics
    /// The run cannot be started, or waits for something other than time.
    #[track_caller]
    pub fn run<S: Startable + ?Sized>(&self, what: &S, trigger: impl Serialize) -> TestRun {
        let run = self.start(what, trigger);
        run.wait();
        run
    }

    /// Starts a run. It makes progress while something is awaited on this engine.
    ///
    /// # Panics
    /// The run cannot be started.
    #[track_caller]
    pub fn start<S: Startable + ?Sized>(&self, what: &S, trigger: impl Serialize) -> TestRun {
        match self.block_on(self.engine.start(what, trigger)) {
            Ok(handle) => TestRun::new(Arc::clone(&self.runtime), handle),
            Err(error) => panic!("the run cannot be started: {error}"),
        }
    }

    /// Lets virtual time pass; everything that is due meanwhile happens in its order.
    pub fn advance(&self, duration: Duration) {
        self.block_on(async { tokio::time::sleep(duration).await });
    }

    /// The virtual time.
    pub fn now(&self) -> Millis {
        let _context = self.runtime.enter();
        self.clock.now()
    }

    /// Awaits something on this engine's runtime and time.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.runtime.block_on(future)
    }

    /// The calls of a mocked action, in their order.
    pub fn calls(&self, action: &str) -> Vec<Call> {
        self.calls.of(action)
    }

    /// The engine underneath.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }
}

impl TestEngineBuilder {
    /// Registers a workflow.
    pub fn workflow(mut self, workflow: &Workflow) -> Self {
        self.engine = self.engine.workflow(workflow);
        self
    }

    /// Registers an action.
    pub fn action(mut self, action: impl Action) -> Self {
        self.engine = self.engine.action(action);
        self
    }

    /// Puts a function in the place of an action, by the action's name: it is given the
    /// parameters, and says what came out. The name need not exist otherwise. A step's
    /// function has the name that [`Workflow::action_of`] tells.
    pub fn mock(
        mut self,
        action: impl Into<Box<str>>,
        answer: impl Fn(Value) -> Result<Value, ActionError> + Send + Sync + 'static,
    ) -> Self {
        let mock = Mock::new(action.into(), answer, self.calls.clone());
        self.engine = self.engine.replace(mock);
        self
    }

    /// Makes one attempt of a node fail with a code, in a way that another attempt may
    /// mend. The node is named by its id, one in a loop by its path (`each[3]/charge`).
    pub fn fail(self, node: impl Into<Box<str>>, attempt: u32, code: &str) -> Self {
        let error = ActionError::retriable(code, "the test wants it so");
        self.fault(node.into(), attempt, Planned::Fail(error))
    }

    /// Makes one attempt of a node fail with a code, for good.
    pub fn fail_for_good(self, node: impl Into<Box<str>>, attempt: u32, code: &str) -> Self {
        let error = ActionError::failed(code, "the test wants it so");
        self.fault(node.into(), attempt, Planned::Fail(error))
    }

    /// Makes one attempt of a node last until its time is over or it is asked to stop.
    pub fn hang(self, node: impl Into<Box<str>>, attempt: u32) -> Self {
        self.fault(node.into(), attempt, Planned::Hang)
    }

    fn fault(mut self, node: Box<str>, attempt: u32, planned: Planned) -> Self {
        self.faults.add(node, attempt, planned);
        self
    }

    /// Opens the engine.
    ///
    /// # Panics
    /// A workflow cannot be registered, or this is inside another runtime.
    #[track_caller]
    pub fn open(self) -> TestEngine {
        assert!(
            tokio::runtime::Handle::try_current().is_err(),
            "a test engine has a runtime of its own: use it in a plain `#[test]` function, and \
             `block_on` for what is awaited"
        );
        let runtime = Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .expect("a runtime of one thread can be made");
        let clock = {
            let _context = runtime.enter();
            VirtualClock::new()
        };
        let builder = self
            .engine
            .intercept(Arc::new(self.faults))
            .clock(clock.clone());
        let engine = match runtime.block_on(builder.open()) {
            Ok(engine) => engine,
            Err(error) => panic!("the engine cannot be opened: {error}"),
        };
        TestEngine {
            runtime: Arc::new(runtime),
            engine,
            clock,
            calls: self.calls,
        }
    }
}
