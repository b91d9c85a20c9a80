//! The integration tests of this crate, built as one binary: a binary per file would each
//! link the whole engine again. The tidy check refuses a test file that is not listed here.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test has nothing better to do than to stop"
)]

mod act;
mod act_graphs;
mod act_structure;
mod admission;
#[cfg(feature = "crash-points")]
mod answers;
mod blobs;
mod bodies;
#[cfg(feature = "crash-points")]
mod boundaries;
mod causes;
mod cluster_faults;
mod cluster_upkeep;
mod connector_tenants;
mod connectors;
mod contract;
#[cfg(feature = "crash-points")]
mod crash;
#[cfg(feature = "crash-points")]
mod crash_structured;
#[cfg(feature = "crash-points")]
mod crash_workers;
#[cfg(feature = "crash-points")]
mod crash_world;
mod damaged;
mod database_refusals;
mod defaults;
mod deploy;
mod deploy_files;
mod doctor;
mod documentation;
mod documented_commands;
mod email;
mod examples;
mod fleet;
mod full_disk;
mod guarded;
mod holder;
mod hooks;
mod hostile;
mod jobs;
mod json;
mod learning;
mod limits;
mod line;
mod look;
mod look_structured;
mod look_upkeep;
mod lost_log;
mod mail_server;
mod names;
mod nats;
mod nats_faults;
mod nats_migrate;
mod nats_replicas;
mod nats_streams;
mod on_call;
mod one_at_a_time;
mod outside;
mod page;
mod placement;
mod pool_commands;
mod postgres;
mod postgres_migrate;
mod postgres_tables;
mod private;
mod remote;
mod remote_act;
mod remote_definitions;
mod repeated_commands;
mod retry_rules;
mod roles;
mod rolling_upgrade;
mod schedules;
mod secrets;
mod server;
mod server_acts;
mod server_stops;
mod simulate;
mod sleeping;
mod socket;
mod stored_runs;
mod tenants;
mod terminal;
mod traces;
mod worker_bounds;
mod worker_reports;
mod worker_restarts;
mod worker_why;
mod workers;
