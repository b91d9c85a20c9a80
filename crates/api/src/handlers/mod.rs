//! What can be asked over HTTP, one family of routes a file.

mod acting;
mod admin;
mod bulk;
mod executions;
mod looking;
mod probes;
mod shapes;
mod starting;
mod workflows;

use crate::app::App;
use crate::route::{Gate, Routes};

/// The largest body with a value in it: a payload of 10 MiB and the words around it.
const VALUE_BYTES: u64 = 10 * 1024 * 1024 + 64 * 1024;

/// The largest body with a definition in it.
const DEFINITION_BYTES: u64 = 64 * 1024 * 1024;

/// The largest body that only says what to do.
const WORDS_BYTES: u64 = 1024 * 1024;

/// All routes.
pub fn routes(gate: Gate, app: &App) -> Routes<App> {
    let mut routes = Routes::new(gate);
    workflows::add(&mut routes);
    starting::add(&mut routes);
    executions::add(&mut routes);
    looking::add(&mut routes);
    acting::add(&mut routes);
    bulk::add(&mut routes);
    admin::add(&mut routes);
    probes::add(&mut routes, app);
    routes
}
