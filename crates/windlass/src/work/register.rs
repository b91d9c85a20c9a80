//! Actions on their way into a registry. Each is wrapped once, so that it can be shared by
//! several engines and a test can step in before it is called.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use windlass_engine::{Action, ActionError, Context, Registry, Reply};

/// What happens to an attempt instead of its action: it fails, sooner or later.
pub(crate) type Fault = Pin<Box<dyn Future<Output = ActionError> + Send>>;

/// Looks at every attempt before its action is called.
pub(crate) trait Intercept: Send + Sync + 'static {
    /// What happens to this attempt instead, if anything.
    fn fault(&self, context: &Context) -> Option<Fault>;
}

type Register = dyn Fn(&mut Registry, Option<&Arc<dyn Intercept>>) + Send + Sync;

/// An action that can be put into any number of registries.
#[derive(Clone)]
pub(crate) struct Registration {
    pub(crate) name: Box<str>,
    register: Arc<Register>,
}

impl Registration {
    pub(crate) fn new(action: impl Action) -> Self {
        let name = action.name().into();
        let action = Arc::new(action);
        let register = move |registry: &mut Registry, intercept: Option<&Arc<dyn Intercept>>| {
            registry.register(Shared {
                action: Arc::clone(&action),
                intercept: intercept.map(Arc::clone),
            });
        };
        Self {
            name,
            register: Arc::new(register),
        }
    }

    pub(crate) fn register(&self, registry: &mut Registry, intercept: Option<&Arc<dyn Intercept>>) {
        (self.register)(registry, intercept);
    }
}

struct Shared<A> {
    action: Arc<A>,
    intercept: Option<Arc<dyn Intercept>>,
}

impl<A: Action> Action for Shared<A> {
    type Parameters = A::Parameters;
    type Output = A::Output;

    fn name(&self) -> &str {
        self.action.name()
    }

    fn description(&self) -> &str {
        self.action.description()
    }

    async fn run(
        &self,
        context: Context,
        parameters: A::Parameters,
    ) -> Result<Reply<A::Output>, ActionError> {
        let fault = self
            .intercept
            .as_ref()
            .and_then(|intercept| intercept.fault(&context));
        match fault {
            None => self.action.run(context, parameters).await,
            Some(fault) => Err(fault.await),
        }
    }
}
