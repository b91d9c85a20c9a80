//! The actions that always exist, one file each. They see the action trait and never
//! a backend.

#[cfg(feature = "confluence")]
mod confluence;
#[cfg_attr(
    not(all(
        feature = "slack",
        feature = "monday",
        feature = "confluence",
        feature = "email"
    )),
    allow(dead_code, unused_imports, reason = "each connector uses a part of it")
)]
mod connector;
mod echo;
#[cfg(feature = "email")]
mod email;
mod exec;
mod fail;
mod http;
#[cfg(feature = "monday")]
mod monday;
mod script;
#[cfg(feature = "slack")]
mod slack;
mod sleep;
mod without_effect;

use windlass_engine::Registry;

#[cfg(feature = "confluence")]
pub use confluence::CreatePage;
pub use connector::Addresses;
pub use echo::Echo;
#[cfg(feature = "email")]
pub use email::SendEmail;
pub use exec::Exec;
pub use fail::Fail;
pub use http::{Allowed, HttpRequest};
#[cfg(feature = "monday")]
pub use monday::{CreateItem, GetItems};
pub use script::Script;
#[cfg(feature = "slack")]
pub use slack::PostMessage;
pub use sleep::Sleep;
pub use without_effect::{Evaluated, evaluate};

/// What the actions may do.
#[derive(Clone, Debug)]
pub struct Options {
    /// Private addresses that `http.request` and the connectors may reach.
    pub http_allowed: Allowed,
    /// Where the connectors' services are.
    pub addresses: Addresses,
    /// Whether `core.exec` exists.
    pub exec: bool,
}

impl Default for Options {
    /// The defaults for a user's own machine: programs may run, and only public addresses are
    /// reached.
    fn default() -> Self {
        Self {
            http_allowed: Allowed::public(),
            addresses: Addresses::default(),
            exec: true,
        }
    }
}

/// A registry of all actions with the default options.
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
        .register(HttpRequest::new(options.http_allowed.clone()));
    #[cfg(feature = "slack")]
    registry.register(PostMessage::new(&options));
    #[cfg(feature = "monday")]
    registry
        .register(GetItems::new(&options))
        .register(CreateItem::new(&options));
    #[cfg(feature = "confluence")]
    registry.register(CreatePage::new(&options));
    #[cfg(feature = "email")]
    registry.register(SendEmail::new(&options));
    if options.exec {
        registry.register(Exec);
    } else {
        registry.switch_off("core.exec", "start the server with `--allow-exec`");
    }
    registry
}
