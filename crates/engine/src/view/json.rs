//! The execution's JSON, written key by key. Names, nulls and their order are part of
//! the interface.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Write};
use std::num::NonZeroU64;
use std::ops::ControlFlow;

use serde::Serialize;
use windlass_core::event::{Cause, Compensation, RunFailure};
use windlass_core::run::{Held, Instance, Run};
use windlass_core::value::Stored;
use windlass_core::{Millis, NodeStatus, RunId};
use windlass_store::Wait as _;

use super::at_work::AtWork;
use super::links::{Links, links};
use super::node::write_node;
use super::walk::inside_loop;
use super::{
    FEW_INSTANCES, NodeCounts, Nodes, Overview, PRETTY_NODES, Pretty, attempts, for_each_instance,
    inside, overview, overview_at,
};
use crate::Backend;
use crate::history::for_each_event;
use crate::load::LoadError;
use crate::plans::Plans;
use crate::values::{blob_text, stored_text};

/// What to write besides the run and its nodes.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Which attempts.
    pub actions: AttemptFilter,
    /// Links to what was made elsewhere.
    pub resources: bool,
    /// What happened.
    pub events: bool,
    /// Which node instances.
    pub nodes: Nodes,
    /// As it was after this event; as it is now, if none is named.
    pub at: Option<NonZeroU64>,
    /// In the answer to a request: whether an earlier one with the same id had started it.
    pub existing: Option<bool>,
    /// The attempts that workers have, as the process that executes the run knows it.
    pub at_work: AtWork,
}

/// Which attempts are written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum AttemptFilter {
    /// None, and no `actions` either.
    #[default]
    None,
    /// Those of one node instance.
    Of(Box<str>),
    /// Every one.
    All,
}

/// Why an execution was not written.
#[derive(Debug)]
pub enum Error {
    /// The run cannot be read.
    Load(LoadError),
    /// The output cannot be written.
    Write(io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Load(error) => error.fmt(f),
            Self::Write(error) => write!(f, "cannot write: {error}"),
        }
    }
}

impl std::error::Error for Error {}

impl From<LoadError> for Error {
    fn from(error: LoadError) -> Self {
        Self::Load(error)
    }
}

impl From<windlass_store::Error> for Error {
    fn from(error: windlass_store::Error) -> Self {
        Self::Load(LoadError::Store(error))
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::Write(error)
    }
}

impl From<serde_json::Error> for Error {
    fn from(error: serde_json::Error) -> Self {
        Self::Write(error.into())
    }
}

/// Writes a run as JSON, with a newline at its end.
///
/// # Errors
/// The run or one of its values cannot be read, or the output does not take it. What
/// was written so far is then not valid JSON.
pub fn write(
    store: &dyn Backend,
    plans: &Plans,
    run: RunId,
    options: &Options,
    out: &mut dyn Write,
) -> Result<(), Error> {
    let overview = match options.at {
        Some(at) => overview_at(store, plans, run, at)?,
        None => overview(store, plans, run)?,
    };
    write_overview(store, plans, &overview, options, out)
}

/// Writes a run that was read, as [`write`] does.
pub(super) fn write_overview(
    store: &dyn Backend,
    plans: &Plans,
    overview: &Overview,
    options: &Options,
    out: &mut dyn Write,
) -> Result<(), Error> {
    let undoing = undoing(&overview.run);
    let view = View {
        store,
        plans,
        overview,
        options,
        lines: expected(&overview.run, &options.nodes) > PRETTY_NODES as u64,
        undoing,
    };
    if view.lines {
        view.write(out)?;
    } else {
        view.write(&mut Pretty::new(&mut *out))?;
    }
    out.write_all(b"\n")?;
    Ok(())
}

/// About how many instances will be listed.
fn expected(run: &Run, nodes: &Nodes) -> u64 {
    let (top, inside) = (run.plan().len() as u64, inside(run));
    match nodes {
        Nodes::Few if inside > FEW_INSTANCES => top,
        Nodes::Top => top,
        Nodes::None => 0,
        Nodes::Few | Nodes::All => top + inside,
        Nodes::Only(paths) => {
            let node = |path: &str| run.resolve(path);
            let loops = paths.iter().filter_map(|path| node(path));
            paths.len() as u64 + loops.map(|node| inside_loop(run, node)).sum::<u64>()
        }
    }
}

/// The instance that undoes each node that is undone.
fn undoing(run: &Run) -> BTreeMap<Instance, (Instance, NodeStatus)> {
    let Some(undo) = run.undo() else {
        return BTreeMap::new();
    };
    let first = undo.steps().next();
    let first = first.and_then(|(node, _)| run.undoing_of(node));
    let numbered = undo.steps().zip(first.unwrap_or_default()..);
    let mut steps: BTreeMap<_, _> = numbered
        .map(|((node, status), undoing)| (node, (undoing, status)))
        .collect();
    // A node that was taken back is shown where it stood, unless the node there now is undone
    // itself.
    let taken_back = undo.steps().map(|(node, _)| node);
    for node in taken_back.filter(|&node| run.is_taken_back(node)) {
        if let Some(present) = run.resolve(&run.path(node)) {
            let step = steps[&node];
            steps.entry(present).or_insert(step);
        }
    }
    steps
}

/// A run and where its values are.
pub(super) struct View<'a> {
    pub(super) store: &'a dyn Backend,
    pub(super) plans: &'a Plans,
    pub(super) overview: &'a Overview,
    pub(super) options: &'a Options,
    /// A line for each node, attempt and event.
    lines: bool,
    /// By node, the instance that undoes it and how far that is.
    pub(super) undoing: BTreeMap<Instance, (Instance, NodeStatus)>,
}

impl View<'_> {
    fn write(&self, out: &mut dyn Write) -> Result<(), Error> {
        out.write_all(b"{")?;
        self.header(out)?;
        out.write_all(b",\"nodes\":{")?;
        self.nodes(out)?;
        self.break_line(out)?;
        out.write_all(b"}")?;
        if self.options.actions != AttemptFilter::None {
            out.write_all(b",\"actions\":[")?;
            attempts::write(self, out)?;
            out.write_all(b"]")?;
        }
        if self.options.resources {
            self.resources(out)?;
        }
        if self.options.events {
            self.events(out)?;
        }
        out.write_all(b"}")?;
        Ok(())
    }

    fn header(&self, out: &mut dyn Write) -> Result<(), Error> {
        let run = &self.overview.run;
        let queued = run.queued();
        let finished = run.finished();
        let id = run.id();
        write!(out, "\"executionId\":\"{id}\"")?;
        field(out, "workflowId", &queued.workflow)?;
        field(out, "version", &run.version())?;
        field(out, "graph", graph(run))?;
        field(out, "requestId", &queued.request_id)?;
        if let Some(existing) = self.options.existing {
            field(out, "existing", &existing)?;
        }
        field(out, "tenantId", &queued.tenant)?;
        field(out, "correlationId", &queued.correlation_id)?;
        field(out, "priority", &queued.priority)?;
        field(out, "labels", &queued.labels)?;
        field(out, "status", run.status().as_str())?;
        field(
            out,
            "error",
            &finished.and_then(|finished| finished.error.as_ref().map(RunError::of)),
        )?;
        field(out, "compensation", &compensation(run))?;
        out.write_all(b",\"trigger\":")?;
        self.held(run.trigger(), out)?;
        out.write_all(b",\"vars\":{")?;
        self.vars(run, out)?;
        out.write_all(b"},\"output\":")?;
        match finished.and_then(|finished| finished.output.as_ref()) {
            Some(output) => self.stored(output, out)?,
            None => out.write_all(b"null")?,
        }
        moment(out, "createdAt", Some(run.created_at()))?;
        moment(out, "startedAt", run.started_at())?;
        moment(out, "endedAt", run.ended_at())?;
        moment(out, "updatedAt", self.overview.times.last())?;
        field(out, "parent", &queued.parent)?;
        field(out, "origin", &queued.origin)?;
        field(out, "counts", &NodeCounts::of(run))
    }

    fn vars(&self, run: &Run, out: &mut dyn Write) -> Result<(), Error> {
        for (number, (name, value)) in run.vars().iter().enumerate() {
            if number > 0 {
                out.write_all(b",")?;
            }
            serde_json::to_writer(&mut *out, name)?;
            out.write_all(b":")?;
            self.held(value, out)?;
        }
        Ok(())
    }

    fn nodes(&self, out: &mut dyn Write) -> Result<(), Error> {
        let mut separator = Separator::default();
        let nodes = &self.options.nodes;
        for_each_instance(self.store, self.plans, self.overview, nodes, |seen| {
            separator.next(self, out)?;
            write_node(self, seen, out)
        })
    }

    fn resources(&self, out: &mut dyn Write) -> Result<(), Error> {
        #[derive(Serialize)]
        struct Resource<'a> {
            system: &'a str,
            r#type: &'a str,
            id: &'a str,
            url: &'a Option<Box<str>>,
            node: &'a str,
            attempt: Option<u32>,
        }
        let rows = self.store.resources(self.overview.run.id()).wait()?;
        let made = match rows.is_empty() {
            true => Links::default(),
            false => links(self)?,
        };
        let resources: Vec<Resource<'_>> = rows
            .iter()
            .map(|row| Resource {
                system: &row.system,
                r#type: &row.kind,
                id: &row.id,
                url: &row.url,
                node: &row.node,
                attempt: made.attempt(row),
            })
            .collect();
        field(out, "resources", &resources)
    }

    fn events(&self, out: &mut dyn Write) -> Result<(), Error> {
        out.write_all(b",\"events\":[")?;
        let mut separator = Separator::default();
        let mut result = Ok(());
        let last = self.overview.last.unwrap_or(u64::MAX);
        for_each_event(self.store, self.plans, self.overview.run.id(), |event| {
            if event.position > last {
                return ControlFlow::Break(());
            }
            result = separator
                .next(self, out)
                .and_then(|()| Ok(serde_json::to_writer(&mut *out, &event)?));
            match result {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            }
        })?;
        result?;
        out.write_all(b"]")?;
        Ok(())
    }

    /// A value as it is stored; a large one is read, written and dropped.
    pub(super) fn stored(&self, stored: &Stored, out: &mut dyn Write) -> Result<(), Error> {
        let text = stored_text(self.store, stored)?;
        out.write_all(text.as_bytes())?;
        Ok(())
    }

    fn held(&self, held: &Held, out: &mut dyn Write) -> Result<(), Error> {
        match (held.text(), held.blob()) {
            (Some(text), _) => out.write_all(text.as_bytes())?,
            (None, Some(blob)) => {
                let text = blob_text(self.store, &blob.digest)?;
                out.write_all(text.as_bytes())?;
            }
            (None, None) => out.write_all(b"null")?,
        }
        Ok(())
    }

    fn break_line(&self, out: &mut dyn Write) -> Result<(), Error> {
        if self.lines {
            out.write_all(b"\n")?;
        }
        Ok(())
    }
}

/// Where the run's graph comes from.
fn graph(run: &Run) -> &'static str {
    if run.is_frozen() {
        "frozen"
    } else if run.is_healing() {
        "healing"
    } else {
        "pinned"
    }
}

/// How undoing stands, if the run is or was undone.
fn compensation(run: &Run) -> Option<&'static str> {
    match run.finished().map(|finished| finished.compensation) {
        Some(Some(Compensation::Complete)) => Some("complete"),
        Some(Some(Compensation::Incomplete)) => Some("incomplete"),
        Some(None) => None,
        None => run.undo().map(|_| "running"),
    }
}

/// A run's error as it is shown: with its causes, also where there are none.
#[derive(Serialize)]
struct RunError<'a> {
    code: &'a str,
    message: &'a str,
    nodes: &'a [Box<str>],
    causes: &'a [Cause],
}

impl<'a> RunError<'a> {
    fn of(failure: &'a RunFailure) -> Self {
        Self {
            code: &failure.code,
            message: &failure.message,
            nodes: &failure.nodes,
            causes: &failure.causes,
        }
    }
}

/// The comma between the elements of a list.
#[derive(Default)]
pub(super) struct Separator {
    begun: bool,
}

impl Separator {
    pub(super) fn next(&mut self, view: &View<'_>, out: &mut dyn Write) -> Result<(), Error> {
        if std::mem::replace(&mut self.begun, true) {
            out.write_all(b",")?;
        }
        view.break_line(out)
    }
}

/// Writes `,"name":value`.
pub(super) fn field<T: Serialize + ?Sized>(
    out: &mut dyn Write,
    name: &str,
    value: &T,
) -> Result<(), Error> {
    write!(out, ",\"{name}\":")?;
    serde_json::to_writer(&mut *out, value)?;
    Ok(())
}

/// Writes `,"name":"moment"`, or null.
pub(super) fn moment(out: &mut dyn Write, name: &str, at: Option<Millis>) -> Result<(), Error> {
    match at {
        Some(at) => write!(out, ",\"{name}\":\"{at}\"")?,
        None => write!(out, ",\"{name}\":null")?,
    }
    Ok(())
}
