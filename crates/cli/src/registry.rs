//! The actions that this binary knows.

use windlass_actions::Options;
use windlass_engine::Registry;

use crate::session::Settings;

/// All actions, as far as their names and parameters go.
pub(crate) fn registry() -> Registry {
    windlass_actions::registry()
}

/// All actions, `core.exec` included: the user who types the command may run programs anyway.
pub(crate) fn registry_for(settings: &Settings) -> Registry {
    windlass_actions::registry_with(Options {
        exec: true,
        ..action_options(settings)
    })
}

/// What the actions may reach, and where their services are; `core.exec` is left out.
pub(crate) fn action_options(settings: &Settings) -> Options {
    Options {
        http_allowed: settings.http_allowed.clone(),
        addresses: settings.addresses.clone(),
        exec: false,
    }
}
