//! Actions on their way into a registry. Each is wrapped once, so that it can be shared by
//! several engines and a test can step in before it is called.

use std::sync::Arc;

use windlass_engine::{Action, ActionError, Context, Registry, Reply};

/// What a test does to an attempt instead of calling its action.
pub(crate) enum Fault {
    /// It fails.
    Fail(ActionError),
    /// It ends only when it is told to stop, or its time is over.
    Hang,
}

/// Looks at every attempt before its action is called.
pub(crate) trait Intercept: Send + Sync + 'static {
    /// What to do to this attempt, if anything.
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
            Some(Fault::Fail(error)) => Err(error),
            Some(Fault::Hang) => {
                context.stop_asked().await;
                Err(ActionError::stopped())
            }
        }
    }
}
