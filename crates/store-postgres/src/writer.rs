//! The writers: a few connections, each of which sends whatever waits as one statement (group
//! commit). They decide what each append is answered: appended, refused by another's record or
//! claim, failed, or unknown because the connection was lost before the answer.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Statement};
use windlass_core::RunId;
use windlass_store::{AppendError, Appended, Error, Head, checksum};

use crate::append::{Shape, parameters};
use crate::codec::{Columns as _, signed, text, uuid};
use crate::connect::{Access, Kind};
use crate::entry::Entry;
use crate::error::{Fate, Fault, fate, from_postgres};
use crate::settings::Settings;
use crate::store::closed;

/// Appends in one statement. More gain little and hold locks longer.
const MOST_APPENDS: usize = 256;

/// Bytes of records and values in one statement; one append may be larger.
const MOST_BYTES: usize = 8 << 20;

/// How often an append that only lost races is sent.
const MOST_TRIES: usize = 8;

pub(crate) type Answer = Result<Appended, AppendError>;

/// What one caller appends.
struct Batch {
    entries: Vec<Entry>,
    reply: oneshot::Sender<Vec<Answer>>,
}

#[derive(Default)]
struct Queue {
    waiting: Mutex<VecDeque<Batch>>,
    filled: Notify,
}

impl Queue {
    fn waiting(&self) -> MutexGuard<'_, VecDeque<Batch>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whatever waits, up to the bounds; at least one batch.
    async fn take(&self) -> Vec<Batch> {
        loop {
            // Registered before the look, so that what comes in between is noticed.
            let filled = self.filled.notified();
            let taken = self.take_waiting();
            if !taken.is_empty() {
                return taken;
            }
            filled.await;
        }
    }

    fn take_waiting(&self) -> Vec<Batch> {
        let mut waiting = self.waiting();
        let (mut count, mut size) = (0, 0);
        let mut taken = Vec::new();
        while let Some(next) = waiting.front() {
            count += next.entries.len();
            size += next.entries.iter().map(Entry::bytes).sum::<usize>();
            if !taken.is_empty() && (count > MOST_APPENDS || size > MOST_BYTES) {
                // Another writer can take the rest at once.
                self.filled.notify_one();
                break;
            }
            taken.extend(waiting.pop_front());
        }
        taken
    }
}

/// The writers as the store sees them.
pub(crate) struct Writers {
    queue: Arc<Queue>,
    tasks: Vec<JoinHandle<()>>,
}

impl Writers {
    /// Starts the tasks on a runtime; the first has a connection already.
    pub(crate) fn start(
        access: &Access,
        settings: &Settings,
        first: (Client, JoinHandle<()>),
        home: &Handle,
    ) -> Self {
        let queue = Arc::new(Queue::default());
        let mut first = Some(first.0);
        let tasks = (0..settings.writers).map(|_| {
            let writer = Writer {
                access: access.clone(),
                answer_time: settings.answer_time,
                connection: first.take().map(Connection::new),
            };
            home.spawn(writer.run(Arc::clone(&queue)))
        });
        let tasks = tasks.collect();
        Self { queue, tasks }
    }

    /// Lets a writer append; the answers come in order.
    pub(crate) async fn append(&self, entries: Vec<Entry>) -> Vec<Answer> {
        let count = entries.len();
        let (reply, answers) = oneshot::channel();
        self.queue.waiting().push_back(Batch { entries, reply });
        self.queue.filled.notify_one();
        let lost = || AppendError::Unknown {
            error: closed(),
            append: None,
        };
        match answers.await {
            Ok(answers) => answers,
            Err(_) => (0..count).map(|_| Err(lost())).collect(),
        }
    }
}

impl Drop for Writers {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

struct Connection {
    client: Client,
    statements: HashMap<Shape, Statement>,
}

impl Connection {
    fn new(client: Client) -> Self {
        Self {
            client,
            statements: HashMap::new(),
        }
    }
}

struct Writer {
    access: Access,
    answer_time: Duration,
    connection: Option<Connection>,
}

/// What is known of the appends of one statement.
enum Sent {
    /// These were appended, by their place; the others were refused.
    Won(HashSet<usize>),
    /// Nothing was written; it may be sent again.
    Raced(Error),
    /// Nothing was written.
    Refused(Error),
    /// Nothing was written, and one of the appends is the reason.
    Culprit(Error),
    /// The connection was lost before the answer.
    Unknown(Error),
}

impl Writer {
    async fn run(mut self, queue: Arc<Queue>) {
        loop {
            let batches = queue.take().await;
            let counts: Vec<usize> = batches.iter().map(|it| it.entries.len()).collect();
            let mut entries = Vec::with_capacity(counts.iter().sum());
            let mut replies = Vec::with_capacity(counts.len());
            for batch in batches {
                entries.extend(batch.entries);
                replies.push(batch.reply);
            }
            let mut answers = self.append(entries).await.into_iter();
            for (reply, count) in replies.into_iter().zip(counts) {
                // A caller that is gone does not need its answer.
                let _ = reply.send(answers.by_ref().take(count).collect());
            }
        }
    }

    /// Appends in rounds: one statement has a run, and a claim, once.
    async fn append(&mut self, entries: Vec<Entry>) -> Vec<Answer> {
        let mut open: Vec<Option<Entry>> = entries.into_iter().map(Some).collect();
        let mut answers: Vec<Option<Answer>> = open.iter().map(|_| None).collect();
        loop {
            let round = next_round(&open);
            if round.is_empty() {
                break;
            }
            self.round(&mut open, &mut answers, round).await;
        }
        let answers = answers.into_iter();
        answers
            .map(|answer| answer.unwrap_or_else(|| Err(AppendError::Failed(closed()))))
            .collect()
    }

    /// Sends a round; if something in it makes the statement fail, in halves, until only the append
    /// that causes it fails.
    async fn round(
        &mut self,
        open: &mut [Option<Entry>],
        answers: &mut [Option<Answer>],
        round: Vec<usize>,
    ) {
        let mut parts = vec![(round, 0)];
        while let Some((part, tries)) = parts.pop() {
            let batch: Vec<&Entry> = part.iter().filter_map(|&at| open[at].as_ref()).collect();
            let fail = |error: Error| AppendError::Failed(error);
            match self.send(&batch).await {
                Sent::Won(won) => {
                    for (place, &at) in part.iter().enumerate() {
                        let Some(entry) = open[at].take() else {
                            continue;
                        };
                        if won.contains(&place) {
                            let head = checksum::next_head(&entry.last);
                            answers[at] = Some(Ok(Appended { head }));
                            continue;
                        }
                        match self.refusal(&entry).await {
                            Some(error) => answers[at] = Some(Err(error)),
                            None if tries + 1 >= MOST_TRIES => {
                                answers[at] = Some(Err(fail(raced())));
                            }
                            None => {
                                open[at] = Some(entry);
                                parts.push((vec![at], tries + 1));
                            }
                        }
                    }
                }
                Sent::Raced(_) if tries + 1 < MOST_TRIES && part.len() == 1 => {
                    parts.push((part, tries + 1));
                }
                Sent::Raced(_) if tries < 2 => parts.push((part, tries + 1)),
                Sent::Raced(_) | Sent::Culprit(_) if part.len() > 1 => {
                    let (left, right) = part.split_at(part.len() / 2);
                    parts.push((right.to_vec(), 0));
                    parts.push((left.to_vec(), 0));
                }
                Sent::Raced(error) | Sent::Culprit(error) | Sent::Refused(error) => {
                    for at in part {
                        open[at] = None;
                        answers[at] = Some(Err(fail(error.clone())));
                    }
                }
                Sent::Unknown(error) => {
                    for at in part {
                        // The identical append can be sent again if it is one.
                        let entry = open[at].take().filter(|it| it.earlier.is_empty());
                        let append = entry.map(|it| Box::new(it.last));
                        let error = error.clone();
                        answers[at] = Some(Err(AppendError::Unknown { error, append }));
                    }
                }
            }
        }
    }

    /// Sends one statement.
    async fn send(&mut self, batch: &[&Entry]) -> Sent {
        let shape = Shape::of(batch);
        let statement = match self.prepared(shape).await {
            Ok(statement) => statement,
            Err(error) => return Sent::Refused(error),
        };
        let Some(connection) = &self.connection else {
            return Sent::Refused(closed());
        };
        let parameters = parameters(shape, batch);
        let parameters: Vec<&(dyn ToSql + Sync)> = parameters
            .iter()
            .map(|it| &**it as &(dyn ToSql + Sync))
            .collect();
        let asked = connection.client.query(&statement, &parameters);
        let answer = match tokio::time::timeout(self.answer_time, asked).await {
            Ok(answer) => answer,
            Err(_) => {
                self.connection = None;
                return Sent::Unknown(no_answer(self.answer_time));
            }
        };
        match answer {
            Ok(rows) => {
                let places = rows.iter().filter_map(|row| row.try_get::<_, i32>(0).ok());
                Sent::Won(places.filter_map(|n| usize::try_from(n).ok()).collect())
            }
            Err(error) => self.failed(&error),
        }
    }

    fn failed(&mut self, error: &tokio_postgres::Error) -> Sent {
        let told = from_postgres(error);
        match fate(error) {
            Fate::Raced => Sent::Raced(told),
            Fate::Culprit => Sent::Culprit(told),
            Fate::Refused => {
                // After a failover the next connection may reach the new primary.
                self.connection = None;
                Sent::Refused(told)
            }
            Fate::Lost => {
                self.connection = None;
                Sent::Unknown(told)
            }
        }
    }

    /// The statement of a shape on a connection that is open. Nothing was sent if there is none.
    async fn prepared(&mut self, shape: Shape) -> Result<Statement, Error> {
        let answer_time = self.answer_time;
        let mut tries = 0;
        loop {
            tries += 1;
            let connection = self.connected().await?;
            if let Some(statement) = connection.statements.get(&shape) {
                return Ok(statement.clone());
            }
            let text = shape.text();
            let preparing = connection.client.prepare(&text);
            let Ok(prepared) = tokio::time::timeout(answer_time, preparing).await else {
                self.connection = None;
                return Err(no_answer(answer_time));
            };
            match prepared {
                Ok(statement) => {
                    connection.statements.insert(shape, statement.clone());
                    return Ok(statement);
                }
                Err(error) => {
                    self.connection = None;
                    if tries > 1 || fate(&error) != Fate::Lost {
                        return Err(from_postgres(&error));
                    }
                }
            }
        }
    }

    async fn connected(&mut self) -> Result<&mut Connection, Error> {
        let usable = self.connection.take().filter(|it| !it.client.is_closed());
        let connection = match usable {
            Some(connection) => connection,
            None => Connection::new(self.access.open(Kind::Writer).await?.0),
        };
        Ok(self.connection.insert(connection))
    }

    /// Why an append was missing from the result; `None` if it could succeed now.
    async fn refusal(&mut self, entry: &Entry) -> Option<AppendError> {
        let answer_time = self.answer_time;
        let found = match self.connected().await {
            Ok(connection) => {
                let asked = refusal(&connection.client, entry);
                let late = |_| Err(Fault::Store(no_answer(answer_time)));
                tokio::time::timeout(answer_time, asked)
                    .await
                    .unwrap_or_else(late)
            }
            Err(error) => Err(Fault::Store(error)),
        };
        match found {
            Ok(refusal) => refusal,
            // It was refused: nothing of it is stored, whatever the reason was.
            Err(fault) => Some(AppendError::Failed(fault.into_error())),
        }
    }
}

fn no_answer(within: Duration) -> Error {
    let text = format!(
        "the database has not answered within {} s",
        within.as_secs()
    );
    Error::Unavailable(text)
}

fn raced() -> Error {
    Error::Unavailable("the append lost against others too often; try again".into())
}

/// The appends that go into one statement: of each run and claim the first, in the order of the
/// runs.
fn next_round(open: &[Option<Entry>]) -> Vec<usize> {
    let mut runs: HashSet<RunId> = HashSet::new();
    let mut claims: HashSet<(&str, &str)> = HashSet::new();
    let mut round = Vec::new();
    let mut size = 0;
    for (at, entry) in open.iter().enumerate() {
        let Some(entry) = entry else {
            continue;
        };
        let append = &entry.last;
        let first = runs.insert(append.run);
        let keys = append
            .claims
            .iter()
            .map(|claim| (claim.namespace, &*claim.key));
        let keys: Vec<_> = keys.collect();
        let free = keys.iter().all(|key| !claims.contains(key));
        claims.extend(keys);
        size += entry.bytes();
        let room = round.is_empty() || (round.len() < MOST_APPENDS && size <= MOST_BYTES);
        if first && free && room {
            round.push(at);
        }
    }
    round.sort_by_key(|&at| open[at].as_ref().map(|entry| entry.last.run));
    round
}

const HEAD: &str = "select seq, append_id, chain from head where run = $1";
const CLAIM: &str = "select value from claim where namespace = $1 and key = $2";
const WAITING: &str = "select 1 from inbox where run = $1 and key = $2 and refusal is null";
const MISSING: &str = "select d from unnest($1::bytea[]) d \
     where not exists (select from blob where digest = d) limit 1";

async fn refusal(client: &Client, entry: &Entry) -> Result<Option<AppendError>, Fault> {
    let append = &entry.last;
    // Typed queries take one round trip, and leave nothing behind on the connection.
    let run = uuid(append.run);
    let asked = [(&run as &(dyn ToSql + Sync), Type::UUID)];
    let head = client.query_typed(HEAD, &asked).await?;
    let head = head.first().map_or(Ok(Head::NONE), |row| row.head(0))?;
    if head != entry.head() {
        return Ok(Some(AppendError::Conflict(head)));
    }
    let own = append.run.to_string();
    for claim in &append.claims {
        let key = text(&claim.key);
        let named = [
            (&claim.namespace as &(dyn ToSql + Sync), Type::TEXT),
            (&key as &(dyn ToSql + Sync), Type::TEXT),
        ];
        let rows = client.query_typed(CLAIM, &named).await?;
        let Some(row) = rows.first() else {
            continue;
        };
        let value: Vec<u8> = row.try_get(0)?;
        if !value.starts_with(own.as_bytes()) {
            let namespace = claim.namespace;
            return Ok(Some(AppendError::Held { namespace, value }));
        }
    }
    for key in &append.consumed {
        let item = client
            .query_opt(WAITING, &[&uuid(append.run), &text(key)])
            .await?;
        if item.is_none() {
            return Ok(Some(AppendError::Failed(windlass_store::not_waiting(key))));
        }
    }
    let with =
        |digest: &&windlass_core::Digest| append.blobs.iter().all(|blob| blob.digest != **digest);
    let uses: Vec<&[u8]> = append
        .uses
        .iter()
        .filter(with)
        .map(|it| &it.0[..])
        .collect();
    let asked = [(&uses as &(dyn ToSql + Sync), Type::BYTEA_ARRAY)];
    let missing = client.query_typed(MISSING, &asked).await?;
    missing
        .first()
        .map(|row| {
            let gone = Error::NotFound(format!("value {}", row.digest(0)?));
            Ok(AppendError::Failed(gone))
        })
        .transpose()
}

/// The head of a run, for readers.
pub(crate) const HEAD_OF: &str = HEAD;

/// Numbers of sequences as SQL has them, saturating.
pub(crate) fn sequence(number: u64) -> i64 {
    signed(number.min(i64::MAX as u64))
}
