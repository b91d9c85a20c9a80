//! The actions that always exist, one file each. They see the action trait and never
//! a backend.

mod echo;
mod fail;
mod script;
mod sleep;

use windlass_engine::Registry;

pub use echo::Echo;
pub use fail::Fail;
pub use script::Script;
pub use sleep::Sleep;

/// A registry of all actions that need no configuration.
pub fn registry() -> Registry {
    let mut registry = Registry::new();
    registry
        .register(Echo)
        .register(Fail)
        .register(Sleep)
        .register(Script);
    registry
}
