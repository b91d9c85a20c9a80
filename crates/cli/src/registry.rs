//! The actions that this binary knows.

use windlass_actions::Options;
use windlass_engine::Registry;

/// All actions; programs may be run, because whoever types the command may run them.
pub(crate) fn registry() -> Registry {
    windlass_actions::registry_with(Options {
        exec: true,
        ..Options::default()
    })
}
