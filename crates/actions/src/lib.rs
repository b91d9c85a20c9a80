//! The actions that always exist, one file each. They see the action trait and never
//! a backend.

mod echo;
mod exec;
mod fail;
mod http;
mod script;
mod sleep;

use windlass_engine::Registry;

pub use echo::Echo;
pub use exec::Exec;
pub use fail::Fail;
pub use http::{Allowed, HttpRequest};
pub use script::Script;
pub use sleep::Sleep;

/// What the actions may do.
#[derive(Clone, Debug)]
pub struct Options {
    /// Private addresses that `http.request` may reach.
    pub http_allowed: Allowed,
    /// Whether `core.exec` exists.
    pub exec: bool,
}

impl Default for Options {
    /// What one's own machine may do: programs, and public addresses.
    fn default() -> Self {
        Self {
            http_allowed: Allowed::public(),
            exec: true,
        }
    }
}

/// A registry of all actions, as one's own machine may use them.
pub fn registry() -> Registry {
    registry_with(Options::default())
}

/// A registry of all actions that the options allow.
pub fn registry_with(options: Options) -> Registry {
    let mut registry = Registry::new();
    registry
        .register(Echo)
        .register(Fail)
        .register(Sleep)
        .register(Script)
        .register(HttpRequest::new(options.http_allowed));
    if options.exec {
        registry.register(Exec);
    }
    registry
}
