//! Work that is no action, in short: timers, signals, child runs, and loops whose bodies are
//! built by closures.
//!
//! ```
//! use windlass::nodes::{for_each, retry_until, while_};
//! use windlass::{Context, Workflow};
//!
//! let workflow = Workflow::builder("invoices")
//!     .step("send-all", for_each("{{ trigger.customers }}", |body| {
//!         body.step("send", |_: Context, customer: String| async move {  // given the item
//!             Ok(format!("sent to {customer}"))
//!         })
//!     }).max_concurrency(4))
//!     .step("poll", retry_until(10, |body| body.step("ask", "core.echo")).until("last != null"))
//!     .step("drain", while_("iteration < 3", |body| body.step("take", "core.echo")))
//!     .build()?;
//! assert_eq!(workflow.definition().nodes.len(), 3);
//! # Ok::<(), windlass::BuildError>(())
//! ```

use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use windlass_core::definition::{
    Backoff, Body, Delay, ForEach, Isolation, OnItemFailure, RetryUntil, Subworkflow,
    WaitForSignal, While,
};

use crate::retry::{Retry, milliseconds};
use crate::work::{Defined, Inner, IntoWork, LoopWork, Work};
use crate::workflow::{WorkflowBuilder, to_json};

/// A durable timer.
pub fn delay(duration: Duration) -> Delay {
    Delay {
        ms: Some(milliseconds(duration)),
        until: None,
    }
}

/// A wait for a person or another system; at most so long, if a time is given.
pub fn wait_for_signal(name: impl Into<Box<str>>, timeout: Option<Duration>) -> WaitForSignal {
    WaitForSignal {
        name: name.into(),
        timeout_ms: timeout.map(milliseconds),
        schema: None,
    }
}

/// A child run of another workflow, with a template of its trigger.
///
/// # Errors
/// The input cannot be written as JSON.
pub fn subworkflow(
    workflow: impl Into<Box<str>>,
    input: impl Serialize,
) -> Result<Subworkflow, serde_json::Error> {
    Ok(Subworkflow {
        workflow_id: workflow.into(),
        version: None,
        input: serde_json::value::to_raw_value(&input)?,
        output: None,
        isolation: Isolation::Isolated,
    })
}

/// A loop whose body is built in code.
#[must_use = "a loop does nothing until it is the work of a node"]
pub struct Loop<D> {
    of: D,
    body: WorkflowBuilder,
}

/// The body once for each item of a list, which is a template. A function of the body that names
/// no parameters is given the item.
pub fn for_each<B: Into<WorkflowBuilder>>(
    items: impl Serialize,
    body: impl FnOnce(WorkflowBuilder) -> B,
) -> Loop<ForEach> {
    let mut body = body(WorkflowBuilder::body()).into();
    let items = match to_json(None, "the items", &items) {
        Ok(items) => items,
        Err(problem) => {
            body.problems.push(problem);
            Box::default()
        }
    };
    let of = ForEach {
        items,
        item_name: None,
        parallel: None,
        max_concurrency: None,
        on_item_failure: OnItemFailure::Fail,
        body: empty(),
    };
    Loop { of, body }
}

/// The body for as long as a condition holds, an expression.
pub fn while_<B: Into<WorkflowBuilder>>(
    condition: impl Into<Box<str>>,
    body: impl FnOnce(WorkflowBuilder) -> B,
) -> Loop<While> {
    let of = While {
        condition: condition.into(),
        max_iterations: None,
        body: empty(),
    };
    let body = body(WorkflowBuilder::body()).into();
    Loop { of, body }
}

/// The body until it succeeds, and until what [`Loop::until`] says holds; so many times at most.
pub fn retry_until<B: Into<WorkflowBuilder>>(
    max_attempts: u32,
    body: impl FnOnce(WorkflowBuilder) -> B,
) -> Loop<RetryUntil> {
    let of = RetryUntil {
        until: None,
        max_attempts,
        backoff: None,
        body: empty(),
    };
    let body = body(WorkflowBuilder::body()).into();
    Loop { of, body }
}

fn empty() -> Body {
    Body {
        nodes: Vec::new(),
        start_node: None,
        output: None,
    }
}

impl Loop<ForEach> {
    /// One item after the other.
    pub fn sequential(mut self) -> Self {
        self.of.parallel = Some(false);
        self
    }

    /// How many items at once.
    pub fn max_concurrency(mut self, items: u32) -> Self {
        self.of.max_concurrency = Some(items);
        self
    }

    /// Errors of items stand in the list of outputs, and fail nothing.
    pub fn collect_failures(mut self) -> Self {
        self.of.on_item_failure = OnItemFailure::Collect;
        self
    }

    /// A second name for `item` in expressions.
    pub fn item_name(mut self, name: impl Into<Box<str>>) -> Self {
        self.of.item_name = Some(name.into());
        self
    }
}

impl Loop<While> {
    /// Past this many iterations the node fails; 1,000 by default.
    pub fn max_iterations(mut self, iterations: u32) -> Self {
        self.of.max_iterations = Some(iterations);
        self
    }
}

impl Loop<RetryUntil> {
    /// What must hold after an iteration, an expression.
    pub fn until(mut self, condition: impl Into<Box<str>>) -> Self {
        self.of.until = Some(condition.into());
        self
    }

    /// The wait between iterations, as for attempts; its number of attempts does not count.
    pub fn backoff(mut self, backoff: impl Into<Retry>) -> Self {
        let retry = backoff.into().into_definition();
        self.of.backoff = Some(Backoff {
            max_attempts: None,
            strategy: retry.strategy,
            base_delay_ms: retry.base_delay_ms,
            backoff_factor: retry.backoff_factor,
            max_delay_ms: retry.max_delay_ms,
            jitter: retry.jitter,
        });
        self
    }
}

/// Tells loops that are built in code from other work.
pub enum AsLoop {}

macro_rules! loops {
    ($($name:ident),*) => {$(
        impl IntoWork<AsLoop> for Loop<$name> {
            type Output = Value;

            fn into_work(self) -> Work {
                let defined = Defined::$name(self.of);
                let body = self.body;
                Work(Inner::Loop(Box::new(LoopWork { defined, body })))
            }
        }
    )*};
}

loops!(ForEach, While, RetryUntil);
