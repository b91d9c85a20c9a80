//! What a node does: an asynchronous function, an action, the name of one, or one of the
//! things that definitions know (a timer, a signal, a child run, a loop).
//!
//! It knows how work becomes a part of a definition and a registered action; not where the
//! node stands in the graph.

mod function;
mod register;

use serde_json::Value;
use windlass_core::definition::{
    Body, Delay, ForEach, Node, RetryUntil, Subworkflow, WaitForSignal, While,
};
use windlass_engine::Action;

use crate::workflow::WorkflowBuilder;

pub(crate) use function::Naming;
pub use function::{
    FromContext, FromContextAndParameters, FromContextStateAndParameters, Ignored, Plain, Replying,
    function,
};
#[cfg(feature = "testing")]
pub(crate) use register::Fault;
pub(crate) use register::{Intercept, Registration};

/// What can be the work of a node.
///
/// - `async fn(Context, Parameters) -> Result<Output, ActionError>`, a function or a
///   closure whose arguments have their types written out. The output may be a
///   [`Reply`](crate::Reply) around it. Parameters implement `DeserializeOwned` and
///   `JsonSchema`, outputs `Serialize` and `JsonSchema`.
/// - the same without parameters, or with a [`State`](crate::State) before them;
/// - an action, such as [`#[action]`](crate::action) makes;
/// - the name of a registered action, as text;
/// - [`Delay`], [`WaitForSignal`], [`Subworkflow`], [`ForEach`], [`While`], [`RetryUntil`], and
///   the loops of [`nodes`](crate::nodes), whose bodies are closures.
///
/// `Kind` only tells these apart; it is always inferred.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the work of a node",
    note = "give an `async fn(Context, Parameters) -> Result<Output, ActionError>`, an action, or the name of one",
    note = "parameters implement DeserializeOwned and JsonSchema, outputs Serialize and JsonSchema",
    note = "a closure's arguments need their types: `|context: Context, order: Order| async move {{ }}`"
)]
pub trait IntoWork<Kind> {
    /// What the node gives, as far as the compiler knows it.
    type Output;

    /// The work.
    fn into_work(self) -> Work;
}

/// The work of a node, whatever it was made from.
pub struct Work(pub(crate) Inner);

pub(crate) enum Inner {
    /// A registered action, by name.
    Named(Box<str>),
    /// An action that is registered under its own name.
    Action(Registration),
    /// A function that is registered under a name that the workflow gives it.
    Function(function::Unnamed),
    /// Something that the definition says in full.
    Defined(Defined),
    /// A loop whose body is built in code.
    Loop(Box<LoopWork>),
}

/// A loop, and the body that takes the place of the empty one in it.
pub(crate) struct LoopWork {
    pub(crate) defined: Defined,
    pub(crate) body: WorkflowBuilder,
}

pub(crate) enum Defined {
    Delay(Delay),
    WaitForSignal(WaitForSignal),
    Subworkflow(Subworkflow),
    ForEach(ForEach),
    While(While),
    RetryUntil(RetryUntil),
}

impl Defined {
    /// The body of a loop.
    pub(crate) fn body_mut(&mut self) -> Option<&mut Body> {
        match self {
            Self::ForEach(each) => Some(&mut each.body),
            Self::While(each) => Some(&mut each.body),
            Self::RetryUntil(each) => Some(&mut each.body),
            Self::Delay(_) | Self::WaitForSignal(_) | Self::Subworkflow(_) => None,
        }
    }

    /// Writes itself into a node.
    pub(crate) fn apply(self, node: &mut Node) {
        match self {
            Self::Delay(delay) => node.delay = Some(Box::new(delay)),
            Self::WaitForSignal(wait) => node.wait_for_signal = Some(Box::new(wait)),
            Self::Subworkflow(child) => node.subworkflow = Some(Box::new(child)),
            Self::ForEach(each) => node.for_each = Some(Box::new(each)),
            Self::While(each) => node.while_loop = Some(Box::new(each)),
            Self::RetryUntil(each) => node.retry_until = Some(Box::new(each)),
        }
    }
}

/// Tells names of actions from other work.
pub enum ByName {}

impl IntoWork<ByName> for &str {
    type Output = Value;

    fn into_work(self) -> Work {
        Work(Inner::Named(self.into()))
    }
}

impl IntoWork<ByName> for String {
    type Output = Value;

    fn into_work(self) -> Work {
        Work(Inner::Named(self.into()))
    }
}

/// Tells actions from other work.
pub enum ByValue {}

impl<A: Action> IntoWork<ByValue> for A {
    type Output = A::Output;

    fn into_work(self) -> Work {
        Work(Inner::Action(Registration::new(self)))
    }
}

/// Tells what definitions know from other work.
pub enum AsDefined {}

macro_rules! defined {
    ($($name:ident),*) => {$(
        impl IntoWork<AsDefined> for $name {
            type Output = Value;

            fn into_work(self) -> Work {
                Work(Inner::Defined(Defined::$name(self)))
            }
        }
    )*};
}

defined!(
    Delay,
    WaitForSignal,
    Subworkflow,
    ForEach,
    While,
    RetryUntil
);
