//! A store that reads over HTTP. It is the same to all code that looks at runs, and writes
//! nothing: what acts asks the server.

use std::collections::HashMap;
use std::future::ready;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::de::DeserializeOwned;
use url::Url;
use windlass_core::run::Instance;
use windlass_core::{Digest, Millis, RunId};
use windlass_engine::view::AtWork;
use windlass_service::run_item::RunDetails;
use windlass_store::{
    Append, AppendError, Appended, Blob, Blobs, Checkpoint, Compacted, Damage, DefinitionRow,
    Error, Head, Inbox, InboxBounds, InboxItem, Log, Offer, OfferAnswer, Partitions, Pending,
    Record,
};

use super::failures;
use super::log::{RecentParts, beginning};
use super::refusals::{refusal, refused};
use super::server::Server;
use super::shapes::{LogShape, OpenedShape};
use crate::exit::{Exit, Failure};

/// The server's store, for reading.
pub(crate) struct RemoteStore {
    pub(super) server: Server,
    memory: Mutex<Memory>,
}

/// A workflow, and whose it is.
pub(super) type WorkflowKey = (Option<Box<str>>, Box<str>);

/// What was read before and cannot be otherwise now, or is good enough for one command.
#[derive(Default)]
pub(super) struct Memory {
    kept: RecentParts,
    /// Where a log was seen to end, for the reader who goes on to ask there: once.
    end: Option<(RunId, u64)>,
    /// The run whose log was read last: values are asked for in its name.
    reading: Option<RunId>,
    pub(super) versions: HashMap<WorkflowKey, Vec<DefinitionRow>>,
    pub(super) texts: HashMap<(WorkflowKey, u32), Vec<u8>>,
    /// The runs of the last list, whose short names are likely to be asked for next.
    pub(super) listed: Vec<RunId>,
    pub(super) prefixes: HashMap<String, Vec<RunId>>,
    /// A run that one command looks at once: its log is what was read at first.
    snapshot: Option<RunId>,
    /// What workers had of the run that was opened last.
    at_work: Option<(RunId, AtWork)>,
    /// Runs whose lines came with their logs.
    pub(super) rows: HashMap<RunId, RunDetails>,
    /// Where the page of dead letters after this one begins.
    pub(super) letters: HashMap<RunId, String>,
    /// Where the page of schedules after this one, by id and tenant, begins.
    pub(super) schedules: HashMap<(Box<str>, Option<Box<str>>), String>,
    /// The same for secrets, and for hooks.
    pub(super) secrets: HashMap<(Box<str>, Option<Box<str>>), String>,
    pub(super) hooks: HashMap<(Box<str>, Option<Box<str>>), String>,
}

impl RemoteStore {
    pub(crate) fn new(server: Server) -> Self {
        Self {
            server,
            memory: Mutex::default(),
        }
    }

    pub(super) fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks; nothing, if there is no such thing.
    pub(super) fn bytes(&self, url: Url) -> Result<Option<Vec<u8>>, Error> {
        match self.server.get(url) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(failure) if failure.exit == Exit::NotFound && failure.code != "ROUTE_NOT_FOUND" => {
                Ok(None)
            }
            Err(failure) => Err(self.failed(failure)),
        }
    }

    /// Asks for JSON; nothing, if there is no such thing.
    pub(super) fn json<T: DeserializeOwned>(&self, url: Url) -> Result<Option<T>, Error> {
        let Some(bytes) = self.bytes(url)? else {
            return Ok(None);
        };
        match serde_json::from_slice(&bytes) {
            Ok(value) => Ok(Some(value)),
            Err(error) => Err(self.foreign(error)),
        }
    }

    /// What answers there says something else than a server does.
    pub(super) fn foreign(&self, what: impl std::fmt::Display) -> Error {
        self.failed(failures::foreign(self.server.address(), what))
    }

    /// The store's error for a failure; the server handle keeps the failure itself to report
    /// it.
    fn failed(&self, failure: Failure) -> Error {
        let error = Error::Unavailable(failure.message.clone());
        self.server.remember(failure);
        error
    }

    /// A part of a run's log, and where the log ends.
    fn log(&self, run: RunId, from: u64) -> Result<Option<(Head, Vec<Record>)>, Error> {
        let mut url = self.server.url(&["executions", &run.to_string(), "log"]);
        url.query_pairs_mut().append_pair("from", &from.to_string());
        let Some(log) = self.json::<LogShape>(url)? else {
            return Ok(None);
        };
        let parts = log.parts();
        parts
            .map(Some)
            .ok_or_else(|| self.foreign("a log that cannot be read"))
    }
}

impl RemoteStore {
    /// Reads all that is needed to show a run, which may be named as a person names it, in one
    /// request. Later reads of this run see the same state.
    ///
    /// # Errors
    /// There is no such run, or the server does not answer as one does.
    pub(crate) fn open_run(&self, reference: &str) -> Result<RunDetails, Failure> {
        let opened = self.opened(reference, 1)?;
        let foreign = |what: &dyn std::fmt::Display| failures::foreign(self.server.address(), what);
        let unreadable = || foreign(&"a log that cannot be read");
        let (head, records) = opened.log.parts().ok_or_else(unreadable)?;
        let row = opened.row;
        let (run, tenant) = (row.item.execution_id, row.item.tenant_id.as_deref());
        let workflow = &row.item.workflow_id;
        let mut memory = self.memory();
        memory.at_work = Some((run, read_at_work(&opened.at_work)));
        let last = records.last().map(|record| record.sequence);
        memory.end = (last == Some(head.sequence)).then_some((run, head.sequence + 1));
        memory.snapshot = memory.end.map(|_| run);
        memory.reading = Some(run);
        memory.kept.put(run, records);
        let key = (row.item.tenant_id.clone(), workflow.clone());
        let mut versions = Vec::new();
        for definition in opened.definitions {
            let (version, text) = (definition.row.version(), definition.text);
            versions.push(definition.row.row(tenant).ok_or_else(unreadable)?);
            memory
                .texts
                .insert((key.clone(), version), text.into_bytes());
        }
        memory.versions.insert(key, versions);
        let full = run.to_string();
        for length in [13, 18, 23] {
            let prefix = &full[..length];
            // Two answers stand for any number of runs with this prefix.
            let runs = match opened.short_id.len() > length {
                true => vec![run, run],
                false => vec![run],
            };
            memory.prefixes.insert(prefix.to_owned(), runs);
        }
        memory.rows.insert(run, row.clone());
        Ok(row)
    }
}

impl RemoteStore {
    /// A run's log from a record on, with what is needed to show the run.
    fn opened(&self, reference: &str, from: u64) -> Result<OpenedShape, Failure> {
        let mut url = self.server.url(&["executions", reference, "log"]);
        url.query_pairs_mut()
            .append_pair("include", "definitions")
            .append_pair("from", &from.to_string());
        let answer = self.server.get(url)?;
        serde_json::from_slice(&answer)
            .map_err(|error| failures::foreign(self.server.address(), error))
    }

    /// What workers have of a run: as it was when the run was opened, else now.
    pub(crate) fn at_work(&self, run: RunId) -> Result<AtWork, Failure> {
        if let Some((_, at_work)) = self.memory().at_work.as_ref().filter(|it| it.0 == run) {
            return Ok(at_work.clone());
        }
        // Past every record: the log itself is not wanted.
        let opened = self.opened(&run.to_string(), u64::from(u32::MAX))?;
        Ok(read_at_work(&opened.at_work))
    }
}

fn read_at_work(attempts: &[(Instance, u32, i64)]) -> AtWork {
    let mut at_work = AtWork::default();
    at_work.extend(
        attempts
            .iter()
            .map(|&(node, attempt, since)| (node, (attempt, Millis(since)))),
    );
    at_work
}

impl Log for RemoteStore {
    fn append(&self, batch: Vec<Append>) -> Pending<'_, Vec<Result<Appended, AppendError>>> {
        let answers = batch.iter().map(|_| Err(AppendError::Failed(refusal())));
        let answers = answers.collect();
        Box::pin(std::future::ready(answers))
    }

    fn head(&self, run: RunId) -> Pending<'_, Result<Head, Error>> {
        answer(|| {
            // Past every record: only the head is wanted.
            let log = self.log(run, u64::from(u32::MAX))?;
            Ok(log.map_or(Head::NONE, |(head, _)| head))
        })
    }

    fn read(
        &self,
        run: RunId,
        from: u64,
        max_bytes: usize,
    ) -> Pending<'_, Result<Vec<Record>, Error>> {
        answer(|| {
            {
                let mut memory = self.memory();
                memory.reading = Some(run);
                if let Some(records) = memory.kept.get(run, from, max_bytes) {
                    return Ok(records);
                }
                let is_end = memory.end == Some((run, from));
                if is_end && memory.snapshot != Some(run) {
                    memory.end = None;
                }
                if is_end {
                    return Ok(Vec::new());
                }
            }
            let Some((head, records)) = self.log(run, from)? else {
                return Ok(Vec::new());
            };
            let first = beginning(&records, max_bytes);
            let mut memory = self.memory();
            let last = records.last().map(|record| record.sequence);
            memory.end = (last == Some(head.sequence)).then_some((run, head.sequence + 1));
            memory.kept.put(run, records);
            Ok(first)
        })
    }

    fn claimed(&self, _: &str, _: &str) -> Pending<'_, Result<Option<Vec<u8>>, Error>> {
        refused()
    }

    fn put_checkpoint(&self, _: RunId, _: Checkpoint) -> Pending<'_, Result<(), Error>> {
        refused()
    }

    fn checkpoint(&self, _: RunId) -> Pending<'_, Result<Option<Checkpoint>, Error>> {
        answer(|| Ok(None))
    }

    fn compact(&self, _: RunId, _: u64) -> Pending<'_, Result<Compacted, Error>> {
        refused()
    }
}

impl Inbox for RemoteStore {
    fn offer(&self, _: Vec<Offer>) -> Pending<'_, Result<Vec<bool>, Error>> {
        refused()
    }

    fn inbox_page(
        &self,
        _: RunId,
        _: u64,
        _: InboxBounds,
    ) -> Pending<'_, Result<Vec<InboxItem>, Error>> {
        refused()
    }

    fn offered(
        &self,
        _: &Partitions,
        _: Option<RunId>,
        _: usize,
    ) -> Pending<'_, Result<Vec<RunId>, Error>> {
        refused()
    }

    fn refuse(&self, _: RunId, _: &str, _: &[u8]) -> Pending<'_, Result<bool, Error>> {
        refused()
    }

    fn answer(&self, _: RunId, _: &str) -> Pending<'_, Result<Option<OfferAnswer>, Error>> {
        refused()
    }

    fn discard(&self, _: RunId, _: &str) -> Pending<'_, Result<bool, Error>> {
        refused()
    }
}

impl Blobs for RemoteStore {
    fn put_blob(&self, _: Blob) -> Pending<'_, Result<(), Error>> {
        refused()
    }

    fn hold_blob(&self, _: Blob) -> Pending<'_, Result<(), Error>> {
        refused()
    }

    fn blob(&self, digest: &Digest) -> Pending<'_, Result<Option<Vec<u8>>, Error>> {
        answer(|| {
            let Some(run) = self.memory().reading else {
                return Ok(None);
            };
            let (run, name) = (run.to_string(), digest.to_string());
            let url = self.server.url(&["executions", &run, "values", &name]);
            let bytes = self.bytes(url)?;
            match bytes {
                Some(bytes) if Digest::of(&bytes) != *digest => {
                    Err(Error::Damaged(Box::new(Damage {
                        place: format!("the value {digest}"),
                        run: None,
                        sequence: None,
                        offset: None,
                        reason: "it does not fit its digest".to_owned(),
                    })))
                }
                bytes => Ok(bytes),
            }
        })
    }
}

/// What a method answers: the request is made before it returns.
pub(super) fn answer<'a, T: Send + 'a>(
    ask: impl FnOnce() -> Result<T, Error>,
) -> Pending<'a, Result<T, Error>> {
    Box::pin(ready(ask()))
}
