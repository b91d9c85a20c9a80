//! What an application shares with its actions: a connection pool, a client, its settings. Each
//! is found by its type.

use std::any::{Any, TypeId, type_name};
use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

use super::ActionError;

/// Values of the application, one of each type.
#[derive(Clone, Default)]
pub struct SharedState(BTreeMap<TypeId, Arc<dyn Any + Send + Sync>>);

impl SharedState {
    /// Adds a value; a later one of the same type replaces it.
    pub fn insert<T: Send + Sync + 'static>(&mut self, value: T) {
        self.0.insert(TypeId::of::<T>(), Arc::new(value));
    }

    pub(super) fn get<T: Send + Sync + 'static>(&self) -> Result<State<T>, ActionError> {
        let found = self.0.get(&TypeId::of::<T>()).cloned();
        let found = found.and_then(|value| value.downcast().ok());
        found.map(State).ok_or_else(|| {
            let message = format!(
                "the engine has no state of the type {}; give it with `.state(…)` before `.open()`",
                type_name::<T>()
            );
            ActionError::failed("STATE_MISSING", message)
        })
    }
}

/// A value that the application gave the engine. Cloning is cheap.
#[derive(Debug)]
pub struct State<T>(pub Arc<T>);

impl<T> Clone for State<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Deref for State<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}
