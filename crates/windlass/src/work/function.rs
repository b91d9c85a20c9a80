//! Functions and closures as actions. They have no name of their own: the workflow gives
//! them one when it is built.

use std::borrow::Cow;
use std::future::Future;
use std::marker::PhantomData;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Deserializer, Serialize};
use windlass_engine::{Action, ActionError, Context, Reply, State};

use super::{Inner, IntoWork, Registration, Work};

/// What a function is called as an action.
pub(crate) struct Naming {
    pub(crate) name: Box<str>,
    pub(crate) description: Box<str>,
}

/// A function that has no name yet.
pub(crate) struct Unnamed {
    name: Box<dyn FnOnce(Naming) -> Registration + Send + Sync>,
    /// Whether it wants parameters: without any, it is given the trigger.
    pub(crate) takes_parameters: bool,
}

impl Unnamed {
    pub(crate) fn named(self, naming: Naming) -> Registration {
        (self.name)(naming)
    }
}

/// Tells functions that return their output.
pub struct Plain<T>(PhantomData<T>);

/// Tells functions that return a reply around their output.
pub struct Replying<T>(PhantomData<T>);

/// Tells functions of a context and parameters.
pub struct FromContextAndParameters<P, O, F>(PhantomData<(P, O, F)>);

/// Tells functions of a context, the application's state and parameters.
pub struct FromContextStateAndParameters<S, P, O, F>(PhantomData<(S, P, O, F)>);

/// Tells functions of a context alone.
pub struct FromContext<O, F>(PhantomData<(O, F)>);

/// Parameters that the function does not take: any JSON fits.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ignored;

impl<'de> Deserialize<'de> for Ignored {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        IgnoredAny::deserialize(deserializer).map(|_| Self)
    }
}

impl JsonSchema for Ignored {
    fn schema_name() -> Cow<'static, str> {
        "Any".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        schemars::json_schema!({ "description": "Any JSON value; it is not looked at." })
    }

    fn inline_schema() -> bool {
        true
    }
}

// The bounds go from the function to its types: in that order the compiler can tell these
// four apart, because each bound makes known what the next one is about.
impl<P, O, Call, F> IntoWork<Plain<FromContextAndParameters<P, O, F>>> for Call
where
    Call: Fn(Context, P) -> F + Send + Sync + 'static,
    F: Future<Output = Result<O, ActionError>> + Send + 'static,
    O: Serialize + JsonSchema + Send + 'static,
    P: DeserializeOwned + JsonSchema + Send + 'static,
{
    type Output = O;

    fn into_work(self) -> Work {
        let call = move |context, parameters| {
            let future = self(context, parameters);
            async move { future.await.map(Reply::new) }
        };
        work(call, true)
    }
}

impl<P, O, Call, F> IntoWork<Replying<FromContextAndParameters<P, O, F>>> for Call
where
    Call: Fn(Context, P) -> F + Send + Sync + 'static,
    F: Future<Output = Result<Reply<O>, ActionError>> + Send + 'static,
    O: Serialize + JsonSchema + Send + 'static,
    P: DeserializeOwned + JsonSchema + Send + 'static,
{
    type Output = O;

    fn into_work(self) -> Work {
        work(self, true)
    }
}

impl<S, P, O, Call, F> IntoWork<Plain<FromContextStateAndParameters<S, P, O, F>>> for Call
where
    Call: Fn(Context, State<S>, P) -> F + Send + Sync + 'static,
    F: Future<Output = Result<O, ActionError>> + Send + 'static,
    O: Serialize + JsonSchema + Send + 'static,
    P: DeserializeOwned + JsonSchema + Send + 'static,
    S: Send + Sync + 'static,
{
    type Output = O;

    fn into_work(self) -> Work {
        let call = move |context: Context, parameters| {
            let state = context.state::<S>();
            let future = state.map(|state| self(context, state, parameters));
            async move { future?.await.map(Reply::new) }
        };
        work(call, true)
    }
}

impl<S, P, O, Call, F> IntoWork<Replying<FromContextStateAndParameters<S, P, O, F>>> for Call
where
    Call: Fn(Context, State<S>, P) -> F + Send + Sync + 'static,
    F: Future<Output = Result<Reply<O>, ActionError>> + Send + 'static,
    O: Serialize + JsonSchema + Send + 'static,
    P: DeserializeOwned + JsonSchema + Send + 'static,
    S: Send + Sync + 'static,
{
    type Output = O;

    fn into_work(self) -> Work {
        let call = move |context: Context, parameters| {
            let state = context.state::<S>();
            let future = state.map(|state| self(context, state, parameters));
            async move { future?.await }
        };
        work(call, true)
    }
}

impl<O, Call, F> IntoWork<Plain<FromContext<O, F>>> for Call
where
    Call: Fn(Context) -> F + Send + Sync + 'static,
    F: Future<Output = Result<O, ActionError>> + Send + 'static,
    O: Serialize + JsonSchema + Send + 'static,
{
    type Output = O;

    fn into_work(self) -> Work {
        let call = move |context, _: Ignored| {
            let future = self(context);
            async move { future.await.map(Reply::new) }
        };
        work(call, false)
    }
}

impl<O, Call, F> IntoWork<Replying<FromContext<O, F>>> for Call
where
    Call: Fn(Context) -> F + Send + Sync + 'static,
    F: Future<Output = Result<Reply<O>, ActionError>> + Send + 'static,
    O: Serialize + JsonSchema + Send + 'static,
{
    type Output = O;

    fn into_work(self) -> Work {
        work(move |context, _: Ignored| self(context), false)
    }
}

fn work<P, O, Call, F>(call: Call, takes_parameters: bool) -> Work
where
    Call: Fn(Context, P) -> F + Send + Sync + 'static,
    F: Future<Output = Result<Reply<O>, ActionError>> + Send + 'static,
    O: Serialize + JsonSchema + Send + 'static,
    P: DeserializeOwned + JsonSchema + Send + 'static,
{
    let name = move |naming: Naming| {
        Registration::new(Function {
            naming,
            call,
            types: PhantomData,
        })
    };
    Work(Inner::Function(Unnamed {
        name: Box::new(name),
        takes_parameters,
    }))
}

/// A function as an action of this name, to register with an engine. The action owns what the
/// closure captures.
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use windlass::{Context, Engine, function};
///
/// let total = Arc::new(AtomicU64::new(0));
/// let counted = Arc::clone(&total);
/// let add = function("ledger.add", move |_: Context, amount: u64| {
///     let counted = Arc::clone(&counted);
///     async move { Ok(counted.fetch_add(amount, Ordering::SeqCst) + amount) }
/// });
/// let engine = Engine::in_memory().action(add);
/// # let _ = engine;
/// ```
pub fn function<P, O, Call, F>(name: impl Into<Box<str>>, call: Call) -> impl Action
where
    Call: Fn(Context, P) -> F + Send + Sync + 'static,
    F: Future<Output = Result<O, ActionError>> + Send + 'static,
    O: Serialize + JsonSchema + Send + 'static,
    P: DeserializeOwned + JsonSchema + Send + 'static,
{
    let name = name.into();
    let description = format!("The function `{name}`.").into();
    let call = move |context, parameters| {
        let future = call(context, parameters);
        async move { future.await.map(Reply::new) }
    };
    Function {
        naming: Naming { name, description },
        call,
        types: PhantomData,
    }
}

/// A function with a name.
struct Function<P, O, Call> {
    naming: Naming,
    call: Call,
    types: PhantomData<fn(P) -> O>,
}

impl<P, O, Call, F> Action for Function<P, O, Call>
where
    Call: Fn(Context, P) -> F + Send + Sync + 'static,
    F: Future<Output = Result<Reply<O>, ActionError>> + Send + 'static,
    O: Serialize + JsonSchema + Send + 'static,
    P: DeserializeOwned + JsonSchema + Send + 'static,
{
    type Parameters = P;
    type Output = O;

    fn name(&self) -> &str {
        &self.naming.name
    }

    fn description(&self) -> &str {
        &self.naming.description
    }

    fn run(
        &self,
        context: Context,
        parameters: P,
    ) -> impl Future<Output = Result<Reply<O>, ActionError>> + Send {
        (self.call)(context, parameters)
    }
}
