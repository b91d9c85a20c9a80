//! The actions that this binary knows.

use windlass_actions::{Allowed, Options};
use windlass_engine::Registry;

/// All actions, as far as their names and parameters go.
pub(crate) fn registry() -> Registry {
    registry_for(Allowed::public())
}

/// All actions; programs may be run, because whoever types the command may run them.
pub(crate) fn registry_for(http_allowed: Allowed) -> Registry {
    windlass_actions::registry_with(Options {
        http_allowed,
        exec: true,
    })
}
