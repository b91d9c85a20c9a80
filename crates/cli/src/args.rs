//! The command line, as clap reads it. Settings that a file or a variable can give as
//! well are resolved in `config`.

pub(crate) mod database;
pub(crate) mod hooks;
pub(crate) mod pools;
mod runs;
pub(crate) mod secrets;
mod serve;
mod start;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use windlass_service::launch::{REQUEST_ID_BYTES, is_request_id};

pub(crate) use runs::Runs;
pub(crate) use serve::{Backend, Dev, Role, Serve};
pub(crate) use start::Start;

/// Durable DAG workflows: describe a process as a graph, and it runs to its end.
#[derive(Debug, Parser)]
#[command(name = "windlass", version, max_term_width = 100)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The help section of these options: a section of their own, so that a command's own options
/// stand out.
const EVERYWHERE: &str = "Options of every command";

/// Options of every command.
#[derive(Clone, Debug, Args)]
pub(crate) struct Global {
    /// How results are written to stdout
    #[arg(long, global = true, help_heading = EVERYWHERE, value_enum, value_name = "FORMAT")]
    pub(crate) output: Option<Format>,
    /// Short for --output json
    #[arg(long, global = true, help_heading = EVERYWHERE, conflicts_with = "output")]
    pub(crate) json: bool,
    /// Where runs and definitions are kept [default: ./.windlass]
    #[arg(long, global = true, help_heading = EVERYWHERE, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Act on a running server instead of a data directory
    #[arg(long, global = true, help_heading = EVERYWHERE, value_name = "URL")]
    pub(crate) server: Option<String>,
    /// Bearer token for --server
    #[arg(long, global = true, help_heading = EVERYWHERE, value_name = "TOKEN")]
    pub(crate) token: Option<String>,
}

/// The longest reason, in characters; the server has the same limit.
const REASON: usize = 4096;

fn reason(text: &str) -> Result<String, String> {
    match text.chars().count() {
        0..=REASON => Ok(text.to_owned()),
        length => Err(format!("it has {length} characters, and may have {REASON}")),
    }
}

fn request_id(text: &str) -> Result<String, String> {
    match is_request_id(text) {
        true => Ok(text.to_owned()),
        false => Err(format!(
            "it has from 1 to {REQUEST_ID_BYTES} bytes and no control characters"
        )),
    }
}

/// How results are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    Table,
    /// For programs
    Json,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a definition to its end, durably, with live progress
    Run(Run),
    /// Start a published workflow
    Start(Start),
    /// Check definitions: every problem, with its place and a suggestion
    Validate(Validate),
    /// Run a definition many times in virtual time: which endings are possible
    Simulate(crate::commands::simulate::Simulate),
    /// Draw the graph of a definition or a run
    Graph(Graph),
    /// Add a definition to the catalogue as a new version
    Publish(Publish),
    /// List workflows, or look at one
    Workflows(Workflows),
    /// Compare two versions of a workflow
    Diff(Diff),
    /// List runs, newest first
    Runs(Runs),
    /// Show a run, or one of its nodes
    Show(Show),
    /// Follow a run until it ends
    Watch(Watch),
    /// Print a run's output
    Result(RunReference),
    /// Write the bytes that a node of a run stored as a blob
    Blob(Blob),
    /// Print what happened in a run
    Events(Events),
    /// Explain what a run, or one of its nodes, waits for
    Why(Why),
    /// Cancel a run and stop its running work
    Cancel(Cancel),
    /// Start nothing more until the run is resumed
    Pause(Act),
    /// Continue an interrupted or paused run
    Resume(Resume),
    /// Try failed or cancelled nodes of a run again
    Reattempt(Reattempt),
    /// Start a new run from an old one: chosen nodes and everything after them run again
    Fork(Fork),
    /// Send a run a signal that a node waits for
    Signal(Signal),
    /// Set a node's result by hand
    SetResult(SetResult),
    /// Count a node as succeeded, with null as its output
    Skip(Skip),
    /// Undo what succeeded in a run that has ended
    Compensate(Compensate),
    /// Print a run's graph as JSON
    Export(RunReference),
    /// Replace the graph of a paused or failed run
    Import(Import),
    /// Check a run's log and its chain of ancestry
    Verify(RunReference),
    /// Rebuild everything that derives from the logs
    Rebuild(database::Rebuild),
    /// Copy the data directory into one file, also while it is in use
    Backup(Backup),
    /// Make a data directory from a backup
    Restore(Restore),
    /// List, requeue or purge dead letters: runs that the engine set aside
    DeadLetters(DeadLetters),
    /// Set, list or remove secrets, which templates use as secrets.NAME
    Secrets(secrets::Secrets),
    /// List, set or remove hooks: signed requests to a server that start runs
    Hooks(hooks::Hooks),
    /// List, set or remove pools: named limits on nodes that are with workers, across runs
    Pools(pools::Pools),
    /// List, set, pause or remove schedules: times at which a server starts runs
    Schedules(Schedules),
    /// Serve the HTTP API and the web page, and execute runs until stopped
    Serve(Serve),
    /// Serve them for development: opens the page in a browser
    Dev(Dev),
    /// Show the processes that share the runs, which partitions each owns, and what waits
    Cluster,
    /// Make a token for development, signed with a key from a file
    Token(Token),
    /// Check the installation, and say what to do about each finding
    Doctor(Doctor),
    /// Read the tables of a PostgreSQL database: one statement that only reads
    Query(database::Query),
    /// Copy everything between a data directory and a PostgreSQL database
    Migrate(database::Migrate),
    /// Print the settings in force, and where each comes from
    Config,
    /// Print the JSON Schema of definitions
    Schema,
    /// List the known actions with their parameters
    Actions(Actions),
    /// Print a shell's completion script
    Completions(Completions),
    /// Measure this machine against its own disk
    Bench(Bench),
    /// Say what a word of a command line can be, for the completion scripts
    #[command(name = "__complete", hide = true)]
    Complete(Complete),
}

/// `windlass __complete`
#[derive(Debug, Args)]
pub(crate) struct Complete {
    /// The words after the program's name, up to the one that is being typed
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) words: Vec<String>,
}

/// Names a run.
#[derive(Debug, Args)]
pub(crate) struct RunReference {
    /// An id, a unique prefix of one, @last, or @last:workflow-id
    #[arg(value_name = "RUN")]
    pub(crate) run: String,
}

/// `windlass run`
#[derive(Debug, Args)]
pub(crate) struct Run {
    /// A definition in JSON or YAML
    pub(crate) file: PathBuf,
    /// The run's trigger: JSON, or @file
    #[arg(long, allow_negative_numbers = true, value_name = "JSON|@FILE")]
    pub(crate) trigger: Option<String>,
    /// A request id: running twice with the same id starts one run
    #[arg(long, value_name = "ID", value_parser = request_id)]
    pub(crate) request_id: Option<String>,
    /// Change trigger.x, vars.x or nodes.N.parameters.x before the start
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Add a label to the run
    #[arg(long = "label", value_name = "KEY=VALUE")]
    pub(crate) labels: Vec<String>,
    /// Queue the run durably, print its id, and return
    #[arg(long)]
    pub(crate) detach: bool,
    /// Stop waiting after this many seconds (exit 7); the run stays resumable
    #[arg(long, value_name = "SECONDS")]
    pub(crate) wait: Option<f64>,
    /// How many actions run at once
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_parallel: Option<u32>,
    /// No live progress
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// `windlass validate`
#[derive(Debug, Args)]
pub(crate) struct Validate {
    /// Definitions in JSON or YAML
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
}

/// `windlass graph`
#[derive(Debug, Args)]
pub(crate) struct Graph {
    /// A definition's file, or a run
    #[arg(value_name = "FILE|RUN")]
    pub(crate) subject: String,
    /// How to draw it
    #[arg(long, value_enum, default_value = "ascii")]
    pub(crate) format: GraphFormat,
    /// Draw what is inside loops, and every node of wide fan-outs
    #[arg(long)]
    pub(crate) expand: bool,
}

/// How a graph is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum GraphFormat {
    /// For Markdown
    Mermaid,
    /// For Graphviz
    Dot,
    /// A picture
    Svg,
    /// For the terminal
    Ascii,
}

/// `windlass publish`
#[derive(Debug, Args)]
pub(crate) struct Publish {
    /// A definition in JSON or YAML
    pub(crate) file: PathBuf,
    /// Say what the new version would do to each live run, and publish nothing
    #[arg(long)]
    pub(crate) plan: bool,
    /// Accept subworkflows that are not published yet
    #[arg(long)]
    pub(crate) allow_unknown: bool,
}

/// `windlass workflows`
#[derive(Debug, Args)]
pub(crate) struct Workflows {
    #[command(subcommand)]
    pub(crate) command: Option<WorkflowsCommand>,
}

/// What to do with a workflow.
#[derive(Debug, Subcommand)]
pub(crate) enum WorkflowsCommand {
    /// List them
    List,
    /// Print a definition
    Show {
        /// The workflow
        id: String,
        /// Which version; the newest by default
        #[arg(long)]
        version: Option<u32>,
    },
    /// Refuse new runs of a workflow
    Disable {
        /// The workflow
        id: String,
    },
    /// Allow new runs of a workflow again
    Enable {
        /// The workflow
        id: String,
    },
    /// List the versions of a workflow
    Versions {
        /// The workflow
        id: String,
    },
}

/// `windlass diff`
#[derive(Debug, Args)]
pub(crate) struct Diff {
    /// The workflow
    pub(crate) id: String,
    /// One version, e.g. 1 or v1
    pub(crate) from: String,
    /// The other version
    pub(crate) to: String,
}

/// `windlass show`
#[derive(Debug, Args)]
pub(crate) struct Show {
    /// An id, a unique prefix of one, @last, or @last:workflow-id
    #[arg(value_name = "RUN")]
    pub(crate) run: String,
    /// One node instance with all that is known of it, by its path or a name that only one has
    #[arg(value_name = "NODE", conflicts_with_all = ["include", "nodes", "expand"])]
    pub(crate) node: Option<String>,
    /// Add actions (every attempt), resources or events
    #[arg(long, value_delimiter = ',', value_name = "WHAT")]
    pub(crate) include: Vec<Include>,
    /// Only these nodes, by instance path; a loop brings what is inside it, `all` is everything
    #[arg(long, alias = "node", value_delimiter = ',', value_name = "NODE")]
    pub(crate) nodes: Vec<String>,
    /// List what is inside loops
    #[arg(long)]
    pub(crate) expand: bool,
}

/// What to show besides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Include {
    /// Every attempt
    Actions,
    /// Links to what was made elsewhere
    Resources,
    /// What happened
    Events,
}

/// `windlass watch`
#[derive(Debug, Args)]
pub(crate) struct Watch {
    /// An id, a unique prefix of one, @last, or @last:workflow-id
    #[arg(value_name = "RUN")]
    pub(crate) run: String,
    /// Stop watching after this many seconds (exit 7)
    #[arg(long, value_name = "SECONDS")]
    pub(crate) wait: Option<f64>,
}

/// `windlass events`
#[derive(Debug, Args)]
pub(crate) struct Events {
    /// An id, a unique prefix of one, @last, or @last:workflow-id
    #[arg(value_name = "RUN")]
    pub(crate) run: String,
    /// Only events after this position
    #[arg(long, default_value_t = 0, value_name = "POSITION")]
    pub(crate) after: u64,
}

/// `windlass why`
#[derive(Debug, Args)]
pub(crate) struct Why {
    /// An id, a unique prefix of one, @last, or @last:workflow-id
    #[arg(value_name = "RUN")]
    pub(crate) run: String,
    /// A node instance; every unfinished one by default
    pub(crate) node: Option<String>,
}

/// Which runs to act on, and how.
#[derive(Debug, Args)]
pub(crate) struct Act {
    /// An id, a unique prefix of one, @last, or @last:workflow-id
    #[arg(value_name = "RUN", required_unless_present = "filter")]
    pub(crate) run: Option<String>,
    /// Act on many: workflow=ID, version=N, status=STATUS, label.KEY=VALUE, since=TIME,
    /// error=CODE, parent=RUN, waiting, dead, orphaned, unresolved
    #[arg(long, value_name = "KEY=VALUE", conflicts_with = "run")]
    pub(crate) filter: Vec<String>,
    /// Say what would happen, and do nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Why; it is recorded
    #[arg(long, value_parser = reason)]
    pub(crate) reason: Option<String>,
}

/// How to act on runs, for commands that name the run in an argument of their own.
#[derive(Debug, Args)]
pub(crate) struct ActArgs {
    /// Act on many, and leave RUN out: workflow=ID, version=N, status=STATUS, label.KEY=VALUE, since=TIME,
    /// error=CODE, parent=RUN, waiting, dead, orphaned, unresolved
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) filter: Vec<String>,
    /// Say what would happen, and do nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Why; it is recorded
    #[arg(long, value_parser = reason)]
    pub(crate) reason: Option<String>,
}

/// How to follow a run in the foreground.
#[derive(Debug, Args)]
pub(crate) struct Foreground {
    /// Stop waiting after this many seconds (exit 7); the run stays resumable
    #[arg(long, value_name = "SECONDS")]
    pub(crate) wait: Option<f64>,
    /// No live progress
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// `windlass cancel`
#[derive(Debug, Args)]
pub(crate) struct Cancel {
    #[command(flatten)]
    pub(crate) act: Act,
    /// Compensate the nodes that succeeded, whatever the definition says
    #[arg(long)]
    pub(crate) compensate: bool,
}

/// `windlass resume`
#[derive(Debug, Args)]
pub(crate) struct Resume {
    #[command(flatten)]
    pub(crate) act: Act,
    #[command(flatten)]
    pub(crate) foreground: Foreground,
}

/// `windlass reattempt`
#[derive(Debug, Args)]
pub(crate) struct Reattempt {
    /// An id, a unique prefix of one, @last, or @last:workflow-id
    #[arg(value_name = "RUN", required_unless_present = "filter")]
    pub(crate) run: Option<String>,
    /// Which node instances; every cancelled or unhandled failed one by default
    #[arg(value_name = "NODE")]
    pub(crate) nodes: Vec<String>,
    /// Act on many: workflow=ID, version=N, status=STATUS, label.KEY=VALUE, since=TIME,
    /// error=CODE, parent=RUN, waiting, dead, orphaned, unresolved
    #[arg(long, value_name = "KEY=VALUE", conflicts_with_all = ["run", "nodes"])]
    pub(crate) filter: Vec<String>,
    /// Say what would happen, and do nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Why; it is recorded
    #[arg(long, value_parser = reason)]
    pub(crate) reason: Option<String>,
    #[command(flatten)]
    pub(crate) foreground: Foreground,
}

/// `windlass signal`
#[derive(Debug, Args)]
#[command(
    override_usage = "windlass signal [OPTIONS] RUN NAME [JSON|@FILE]\n       \
    windlass signal [OPTIONS] --filter KEY=VALUE NAME [JSON|@FILE]"
)]
pub(crate) struct Signal {
    /// The run, the signal's name, and what it carries: JSON or @file, null by default
    #[arg(required = true, num_args = 1..=3, allow_negative_numbers = true, value_name = "RUN NAME [JSON|@FILE]")]
    pub(crate) words: Vec<String>,
    #[command(flatten)]
    pub(crate) how: ActArgs,
    #[command(flatten)]
    pub(crate) foreground: Foreground,
}

/// `windlass set-result`
#[derive(Debug, Args)]
#[command(
    override_usage = "windlass set-result [OPTIONS] RUN NODE JSON|@FILE\n       \
    windlass set-result [OPTIONS] --filter KEY=VALUE NODE JSON|@FILE"
)]
pub(crate) struct SetResult {
    /// The run, the node instance, and its output: JSON or @file
    #[arg(required = true, num_args = 1..=3, allow_negative_numbers = true, value_name = "RUN NODE JSON|@FILE")]
    pub(crate) words: Vec<String>,
    #[command(flatten)]
    pub(crate) how: ActArgs,
    #[command(flatten)]
    pub(crate) foreground: Foreground,
}

/// `windlass skip`
#[derive(Debug, Args)]
#[command(override_usage = "windlass skip [OPTIONS] RUN NODE\n       \
    windlass skip [OPTIONS] --filter KEY=VALUE NODE")]
pub(crate) struct Skip {
    /// The run, and the node instance
    #[arg(required = true, num_args = 1..=2, value_name = "RUN NODE")]
    pub(crate) words: Vec<String>,
    #[command(flatten)]
    pub(crate) how: ActArgs,
    #[command(flatten)]
    pub(crate) foreground: Foreground,
}

/// `windlass compensate`
#[derive(Debug, Args)]
pub(crate) struct Compensate {
    #[command(flatten)]
    pub(crate) act: Act,
    /// List what would be undone, in order, or how far it is
    #[arg(long, conflicts_with_all = ["retry", "skip", "filter"])]
    pub(crate) preview: bool,
    /// Undo this node instance again, whose compensation failed; may be repeated
    #[arg(long, value_name = "NODE", conflicts_with = "skip")]
    pub(crate) retry: Vec<String>,
    /// Leave this node instance as it is; may be repeated
    #[arg(long, value_name = "NODE")]
    pub(crate) skip: Vec<String>,
    #[command(flatten)]
    pub(crate) foreground: Foreground,
}

/// `windlass fork`
#[derive(Debug, Args)]
pub(crate) struct Fork {
    /// An id, a unique prefix of one, @last, or @last:workflow-id
    #[arg(value_name = "RUN", required_unless_present = "filter")]
    pub(crate) run: Option<String>,
    /// Fork many: workflow=ID, version=N, status=STATUS, label.KEY=VALUE, since=TIME,
    /// error=CODE, parent=RUN, waiting, dead, orphaned, unresolved
    #[arg(long, value_name = "KEY=VALUE", conflicts_with_all = ["run", "request_id"])]
    pub(crate) filter: Vec<String>,
    /// A node instance that runs again, with everything after it; may be repeated
    #[arg(long, value_name = "NODE", required = true)]
    pub(crate) from: Vec<String>,
    /// Change trigger.x, vars.x or nodes.N.parameters.x
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Run the newest version of the workflow
    #[arg(long, conflicts_with = "version")]
    pub(crate) newest: bool,
    /// Run this version of the workflow
    #[arg(long, value_name = "N")]
    pub(crate) version: Option<u32>,
    /// Reuse results that compensation has undone; without it those nodes run again
    #[arg(long)]
    pub(crate) reuse_compensated: bool,
    /// A request id: forking twice with the same id starts one run
    #[arg(long, value_name = "ID", value_parser = request_id)]
    pub(crate) request_id: Option<String>,
    /// Say what would run again and what is reused, and start nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Why; it is recorded
    #[arg(long, value_parser = reason)]
    pub(crate) reason: Option<String>,
    #[command(flatten)]
    pub(crate) foreground: Foreground,
}

/// `windlass import`
#[derive(Debug, Args)]
pub(crate) struct Import {
    /// An id, a unique prefix of one, @last, or @last:workflow-id
    #[arg(value_name = "RUN")]
    pub(crate) run: String,
    /// The edited output of `windlass export`, or a definition
    pub(crate) file: PathBuf,
    /// Say what would happen, and do nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Why; it is recorded
    #[arg(long, value_parser = reason)]
    pub(crate) reason: Option<String>,
}

/// `windlass backup`
#[derive(Debug, Args)]
pub(crate) struct Backup {
    /// The file to make; it must not exist
    pub(crate) file: PathBuf,
}

/// `windlass blob`
#[derive(Debug, Args)]
pub(crate) struct Blob {
    /// An id, a unique prefix of one, @last, or @last:workflow-id
    #[arg(value_name = "RUN")]
    pub(crate) run: String,
    /// The blob's digest, as the node's output names it
    pub(crate) digest: String,
    /// Write to this file, which must not exist, instead of the standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

/// `windlass restore`
#[derive(Debug, Args)]
pub(crate) struct Restore {
    /// A backup
    pub(crate) file: PathBuf,
}

/// `windlass actions`
#[derive(Debug, Args)]
pub(crate) struct Actions {
    /// Only this one, with its schemas
    pub(crate) name: Option<String>,
}

/// `windlass completions`
#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// Which shell
    pub(crate) shell: clap_complete::Shell,
}

/// `windlass bench`
#[derive(Debug, Args)]
pub(crate) struct Bench {
    /// Smaller numbers, for a quick look
    #[arg(long)]
    pub(crate) quick: bool,
    /// Only figures whose name contains this
    #[arg(long, value_name = "NAME")]
    pub(crate) only: Option<String>,
    /// The storage backend that is measured [default: embedded]
    #[arg(long, value_enum, value_name = "BACKEND")]
    pub(crate) backend: Option<serve::Backend>,
    #[command(flatten)]
    pub(crate) database: database::Database,
    #[command(flatten)]
    pub(crate) nats: database::Nats,
}

/// `windlass doctor`
#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// Accept a data directory whose write-ahead log lost commits, with the data that is left
    #[arg(long)]
    pub(crate) accept_loss: bool,
    #[command(flatten)]
    pub(crate) database: database::Database,
    #[command(flatten)]
    pub(crate) nats: database::Nats,
}

/// `windlass token`
#[derive(Debug, Args)]
pub(crate) struct Token {
    /// The key file, which is made if it is missing; the server takes it as --auth-keys
    #[arg(long, value_name = "FILE", default_value = "windlass.jwks.json")]
    pub(crate) key: PathBuf,
    /// The subject of the token
    #[arg(long, value_name = "NAME", default_value = "developer")]
    pub(crate) subject: String,
    /// The tenant whose workflows and runs the token may use
    #[arg(long, value_name = "TENANT")]
    pub(crate) tenant: Option<String>,
    /// The scopes: workflows:read, workflows:execute, workflows:manage, workflows:work or admin
    #[arg(
        long = "scope",
        value_name = "SCOPE",
        default_values = ["workflows:read", "workflows:execute", "workflows:manage"]
    )]
    pub(crate) scopes: Vec<String>,
    /// How long the token is valid, such as 8h
    #[arg(long, value_name = "TIME", default_value = "24h")]
    pub(crate) lifetime: String,
    /// The issuer of the token
    #[arg(long, value_name = "ISSUER")]
    pub(crate) issuer: Option<String>,
    /// The audience of the token
    #[arg(long, value_name = "AUDIENCE")]
    pub(crate) audience: Option<String>,
}

/// `windlass dead-letters`
#[derive(Debug, Args)]
pub(crate) struct DeadLetters {
    #[command(subcommand)]
    pub(crate) command: Option<DeadLettersCommand>,
}

/// What to do with dead letters.
#[derive(Debug, Subcommand)]
pub(crate) enum DeadLettersCommand {
    /// List them
    List,
    /// Try the runs again
    Requeue(Letters),
    /// Delete letters; their runs end as Failed
    Purge(Letters),
}

/// Which letters to act on.
#[derive(Debug, Args)]
pub(crate) struct Letters {
    /// The letters of these runs
    #[arg(value_name = "RUN", required_unless_present = "all")]
    pub(crate) runs: Vec<String>,
    /// All letters
    #[arg(long, conflicts_with = "runs")]
    pub(crate) all: bool,
}

/// `windlass schedules`
#[derive(Debug, Args)]
pub(crate) struct Schedules {
    #[command(subcommand)]
    pub(crate) command: Option<SchedulesCommand>,
}

/// What to do with schedules.
#[derive(Debug, Subcommand)]
pub(crate) enum SchedulesCommand {
    /// List them
    List,
    /// Make one, or replace the one of that id
    Set(Box<ScheduleSet>),
    /// Remove one; the runs that it started stay
    Remove {
        /// The schedule
        id: String,
    },
    /// Pause one: it starts no runs until it is resumed
    Pause {
        /// The schedule
        id: String,
    },
    /// Resume one: it starts runs again, from its next time on
    Resume {
        /// The schedule
        id: String,
    },
    /// Print the next ten times of one
    Next {
        /// The schedule
        id: String,
    },
}

/// When runs are started, and with what.
#[derive(Debug, Args)]
pub(crate) struct ScheduleSet {
    /// The schedule
    pub(crate) id: String,
    /// The workflow whose newest version is run
    #[arg(long, value_name = "WORKFLOW")]
    pub(crate) workflow: String,
    /// When: five fields of cron, or six with seconds first
    #[arg(long, value_name = "CRON", required_unless_present = "every_ms")]
    pub(crate) cron: Option<String>,
    /// Or the time between runs, in milliseconds
    #[arg(long, value_name = "MS", conflicts_with = "cron")]
    pub(crate) every_ms: Option<u64>,
    /// The time zone of the times
    #[arg(long, value_name = "ZONE", default_value = "UTC")]
    pub(crate) timezone: String,
    /// The runs' trigger: JSON, or @file
    #[arg(long, allow_negative_numbers = true, value_name = "JSON|@FILE")]
    pub(crate) trigger: Option<String>,
    /// Add a label to the runs
    #[arg(long = "label", value_name = "KEY=VALUE")]
    pub(crate) labels: Vec<String>,
    /// The runs' priority, from 0 to 9
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub(crate) priority: u8,
    /// How many runs start for times at which no server ran: none, one or all
    #[arg(long, value_name = "WHICH", default_value = "one")]
    pub(crate) catch_up: String,
    /// Whether a run starts while the one before has not ended: allow or skip
    #[arg(long, value_name = "HOW", default_value = "allow")]
    pub(crate) overlap: String,
}
