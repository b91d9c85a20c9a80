//! The bodies of all requests together: one budget of memory, shared fairly between clients,
//! and a folder on disk for what is large.
//!
//! [`read`] is the only way to a body's bytes. It needs what the guard puts into the request
//! once access is decided, so nothing can be read before. The bytes carry their part of the
//! budget with them, and the guard keeps them until the handler is through.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use bytes::Bytes;
use http::{HeaderValue, header};
use http_body_util::BodyExt as _;

use crate::body;
use crate::code;
use crate::error::ApiError;
use crate::fair::{Fair, Share};
use crate::figure::Figure;
use crate::limit::BucketKey;
use crate::spool::Spooled;

/// A body of at most so many bytes, whose length is known, costs one atomic operation while
/// there is plenty of room.
const LITTLE: u64 = 16 * 1024;

/// What is taken for a body of unknown or larger length at first; then twice that, and so on.
const FIRST: u64 = 64 * 1024;

/// How long a body that has arrived on disk waits for memory. Handlers take less by far.
const PATIENCE: Duration = Duration::from_secs(5);

/// How much of the budget one client may hold while no other holds any, in percent.
const SHARE: u8 = 50;

/// How bodies are held.
#[derive(Debug, Clone)]
pub struct BodyOptions {
    /// Bytes of all bodies in memory together.
    pub memory: u64,
    /// Where large ones wait; without it they arrive in memory.
    pub spool: Option<SpoolOptions>,
}

/// Where large bodies wait until they are complete.
#[derive(Debug, Clone)]
pub struct SpoolOptions {
    /// The folder, made by [`crate::prepare_spool`].
    pub folder: PathBuf,
    /// Bodies of more bytes go there.
    pub after: u64,
    /// Bytes of all bodies there together.
    pub bytes: u64,
}

impl Default for BodyOptions {
    fn default() -> Self {
        Self {
            memory: 256 * 1024 * 1024,
            spool: None,
        }
    }
}

/// The budget.
#[derive(Debug)]
pub(crate) struct Bodies {
    pub(crate) memory: Arc<Fair>,
    pub(crate) disk: Arc<Fair>,
    spool: Option<SpoolOptions>,
}

impl Bodies {
    pub(crate) fn new(options: &BodyOptions) -> Self {
        let disk = options.spool.as_ref().map_or(0, |spool| spool.bytes);
        Self {
            memory: Fair::new(options.memory, SHARE),
            disk: Fair::new(disk, SHARE),
            spool: options.spool.clone(),
        }
    }

    pub(crate) fn figures(&self) -> Vec<Figure> {
        vec![
            Figure::gauge(
                "windlass_http_body_memory_bytes",
                "Bytes of request bodies in memory.",
                self.memory.held(),
            ),
            Figure::gauge(
                "windlass_http_body_spool_bytes",
                "Bytes of request bodies on disk while they arrive.",
                self.disk.held(),
            ),
            Figure::counter(
                "windlass_http_bodies_refused_total",
                "Request bodies for which there was no room.",
                self.memory.refused() + self.disk.refused(),
            ),
        ]
    }
}

/// The right to read one request's body, and what is kept of it until the request is answered.
pub(crate) struct Arrival {
    bodies: Arc<Bodies>,
    client: BucketKey,
    announced: Option<u64>,
    kept: Mutex<Option<Bytes>>,
}

impl Arrival {
    pub(crate) fn new(
        bodies: &Arc<Bodies>,
        client: BucketKey,
        announced: Option<u64>,
    ) -> Arc<Self> {
        Arc::new(Self {
            bodies: Arc::clone(bodies),
            client,
            announced,
            kept: Mutex::default(),
        })
    }

    /// Reads a body; copies its first part to `beginning`, for when the whole is too large.
    async fn read(
        &self,
        body: &mut Body,
        mut beginning: Option<&mut Vec<u8>>,
    ) -> Result<Bytes, ApiError> {
        let share = self.first_share()?;
        let mut incoming = Incoming {
            arrival: self,
            buffer: Vec::with_capacity(usize::try_from(share.amount()).unwrap_or(0)),
            share,
            file: None,
        };
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| body::failure(&error))?;
            if let Ok(data) = frame.into_data() {
                if let Some(beginning) = &mut beginning {
                    begin(beginning, &data);
                }
                incoming = incoming.take(&data).await?;
            }
        }
        let bytes = incoming.end().await?;
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        *kept = Some(bytes.clone());
        Ok(bytes)
    }

    fn first_share(&self) -> Result<Share, ApiError> {
        let memory = &self.bodies.memory;
        if let Some(length) = self.announced.filter(|length| *length <= LITTLE)
            && let Some(share) = memory.take_little(length)
        {
            return Ok(share);
        }
        let first = self.announced.unwrap_or(FIRST).min(FIRST);
        memory.take(self.client, first).ok_or_else(exhausted)
    }
}

/// A body of a route that takes the first part of one that is too large.
pub(crate) enum Report {
    Whole(Bytes),
    /// Its first part.
    Beginning(Vec<u8>),
}

/// How much of a body that is too large is kept.
const BEGINNING: usize = 64 * 1024;

/// How many pieces of such a body are read and thrown away, so that the client, which is still
/// sending, can read the answer. The time of a body bounds it, too.
const REST: usize = 16 * 1024;

/// Marks a request whose body is larger than allowed by its length.
#[derive(Clone, Copy)]
pub(crate) struct TooLarge;

/// As [`read`], but keeps the first part of a body that is larger than allowed.
pub(crate) async fn read_report(request: Request) -> Result<Report, ApiError> {
    let (mut parts, mut body) = request.into_parts();
    let mut beginning = Vec::new();
    if parts.extensions.get::<TooLarge>().is_none() {
        let arrival = parts.extensions.remove::<Arc<Arrival>>();
        let arrival = arrival.ok_or_else(without_leave)?;
        match arrival.read(&mut body, Some(&mut beginning)).await {
            Err(error) if error.code() == code::BODY_TOO_LARGE.code => {}
            read => return read.map(Report::Whole),
        }
    }
    for _ in 0..REST {
        match body.frame().await {
            None => break,
            Some(Ok(frame)) => begin(&mut beginning, &frame.into_data().unwrap_or_default()),
            Some(Err(error)) => {
                let failure = body::failure(&error);
                if failure.code() != code::BODY_TOO_LARGE.code {
                    return Err(failure);
                }
            }
        }
    }
    Ok(Report::Beginning(beginning))
}

fn begin(beginning: &mut Vec<u8>, data: &[u8]) {
    let room = BEGINNING.saturating_sub(beginning.len());
    beginning.extend_from_slice(&data[..data.len().min(room)]);
}

/// The whole body of a request that may be read.
pub(crate) async fn read(request: Request) -> Result<Bytes, ApiError> {
    let (mut parts, mut body) = request.into_parts();
    match parts.extensions.remove::<Arc<Arrival>>() {
        Some(arrival) => arrival.read(&mut body, None).await,
        None => Err(without_leave()),
    }
}

fn without_leave() -> ApiError {
    code::INTERNAL
        .error("the body may not be read here")
        .because("a body was read without the guard's leave".to_owned())
}

/// A body while it arrives.
struct Incoming<'a> {
    arrival: &'a Arrival,
    buffer: Vec<u8>,
    share: Share,
    file: Option<Spooled>,
}

impl Incoming<'_> {
    async fn take(mut self, data: &[u8]) -> Result<Self, ApiError> {
        let needed = (self.buffer.len() + data.len()) as u64;
        if needed > self.most() && !self.buffer.is_empty() {
            self = self.spill().await?;
        }
        let needed = (self.buffer.len() + data.len()) as u64;
        let held = self.share.amount();
        if needed > held {
            // Doubled, so that a body is copied once on average.
            let wanted = (held * 2).min(self.most()).max(needed);
            if !self.share.grow(wanted - held) {
                return Err(exhausted());
            }
            let more = usize::try_from(wanted).unwrap_or(0) - self.buffer.len();
            self.buffer.reserve_exact(more);
        }
        self.buffer.extend_from_slice(data);
        Ok(self)
    }

    /// How many bytes it may have in memory; on disk are the others.
    fn most(&self) -> u64 {
        let spool = self.arrival.bodies.spool.as_ref();
        match (&self.file, spool) {
            (Some(_), _) => FIRST,
            (None, Some(spool)) => spool.after,
            (None, None) => self.arrival.announced.unwrap_or(u64::MAX),
        }
    }

    /// Moves what is in memory to the disk.
    async fn spill(mut self) -> Result<Self, ApiError> {
        let (bodies, client) = (&self.arrival.bodies, self.arrival.client);
        let Some(spool) = &bodies.spool else {
            return Ok(self);
        };
        let length = self.buffer.len() as u64;
        let mut file = match self.file.take() {
            Some(file) => file,
            None => {
                let room = bodies.disk.take(client, length).ok_or_else(exhausted)?;
                let creating = Spooled::create(&spool.folder, room).await;
                creating.map_err(|error| unwritten(&error))?
            }
        };
        if !file.has_room(length) {
            return Err(exhausted());
        }
        let written = file.write(self.buffer).await;
        let (file, mut buffer) = written.map_err(|error| unwritten(&error))?;
        buffer.shrink_to(usize::try_from(FIRST).unwrap_or(0));
        self.share.shrink(FIRST);
        Ok(Self {
            arrival: self.arrival,
            buffer,
            share: self.share,
            file: Some(file),
        })
    }

    async fn end(mut self) -> Result<Bytes, ApiError> {
        if self.file.is_some() {
            self = self.spill().await?;
        }
        let Self {
            arrival,
            buffer,
            share,
            file,
        } = self;
        let Some(file) = file else {
            return Ok(owned(buffer, share));
        };
        drop((buffer, share));
        let memory = &arrival.bodies.memory;
        let waiting = memory.wait(arrival.client, file.length(), PATIENCE);
        let share = waiting.await.ok_or_else(exhausted)?;
        let bytes = file.read().await.map_err(|error| unwritten(&error))?;
        Ok(owned(bytes, share))
    }
}

/// Bytes that give their part of the budget back when the last copy of them is dropped.
fn owned(bytes: Vec<u8>, share: Share) -> Bytes {
    struct Held {
        bytes: Vec<u8>,
        _share: Share,
    }
    impl AsRef<[u8]> for Held {
        fn as_ref(&self) -> &[u8] {
            &self.bytes
        }
    }
    Bytes::from_owner(Held {
        bytes,
        _share: share,
    })
}

fn exhausted() -> ApiError {
    code::BODY_MEMORY_EXHAUSTED
        .error("there is no room for the body: other requests hold it, or this client its share")
        .hint("send fewer or smaller bodies at once, or raise `body_memory` and `body_spool`")
        .header(header::RETRY_AFTER, HeaderValue::from_static("1"))
}

fn unwritten(error: &std::io::Error) -> ApiError {
    code::BODY_SPOOL_FAILED
        .error("the body cannot be kept on disk while it arrives")
        .hint("look at the space and the permissions of `spool` in the data directory")
        .header(header::RETRY_AFTER, HeaderValue::from_static("5"))
        .because(format!("the spool of bodies: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1024 * 1024;

    fn bodies(memory: u64, spool: Option<(&tempfile::TempDir, u64)>) -> Arc<Bodies> {
        Arc::new(Bodies::new(&BodyOptions {
            memory,
            spool: spool.map(|(folder, bytes)| SpoolOptions {
                folder: folder.path().to_owned(),
                after: 256 * 1024,
                bytes,
            }),
        }))
    }

    async fn arrive(bodies: &Arc<Bodies>, client: u8, bytes: Vec<u8>) -> Result<Bytes, ApiError> {
        let pieces: Vec<_> = bytes
            .chunks(100_000)
            .map(|piece| Ok::<_, std::io::Error>(Bytes::copy_from_slice(piece)))
            .collect();
        let mut body = Body::from_stream(futures_util::stream::iter(pieces));
        let arrival = Arrival::new(bodies, [client; 16], None);
        arrival.read(&mut body, None).await
    }

    fn sample(length: u64) -> Vec<u8> {
        (0..length).map(|at| (at % 251) as u8).collect()
    }

    #[tokio::test]
    async fn bytes_hold_their_part_until_the_last_copy_is_dropped() {
        let bodies = bodies(8 * MIB, None);
        let whole = arrive(&bodies, 1, sample(MIB)).await.unwrap();
        assert_eq!(whole, sample(MIB));
        let part = whole.slice(5..6);
        drop(whole);
        assert!(bodies.memory.held() >= MIB);
        drop(part);
        assert_eq!(bodies.memory.held(), 0);
    }

    #[tokio::test]
    async fn a_large_body_goes_over_the_disk_whole_and_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let bodies = bodies(8 * MIB, Some((&folder, 8 * MIB)));
        for length in [0, 1, 256 * 1024, 256 * 1024 + 1, 300_000, 3 * MIB + 7] {
            let whole = arrive(&bodies, 1, sample(length)).await.unwrap();
            assert_eq!(whole, sample(length), "{length}");
            drop(whole);
            assert_eq!((bodies.memory.held(), bodies.disk.held()), (0, 0));
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[tokio::test]
    async fn while_it_arrives_a_large_body_holds_little_memory() {
        let folder = tempfile::tempdir().unwrap();
        let bodies = bodies(8 * MIB, Some((&folder, 8 * MIB)));
        let seen = Arc::clone(&bodies);
        let (told, most) = std::sync::mpsc::channel();
        let pieces = (0..30).map(move |_| {
            told.send(seen.memory.held()).unwrap();
            Ok::<_, std::io::Error>(Bytes::from(vec![7; 100_000]))
        });
        let mut body = Body::from_stream(futures_util::stream::iter(pieces));
        let arrival = Arrival::new(&bodies, [1; 16], None);
        let whole = arrival.read(&mut body, None).await.unwrap();
        assert_eq!(whole.len(), 3_000_000);
        drop((arrival, body));
        let most: Vec<u64> = most.iter().collect();
        assert!(most.iter().all(|held| *held <= 256 * 1024), "{most:?}");
        assert!(most[10..].iter().all(|held| *held <= 100_000), "{most:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_past_its_share_is_refused_and_another_is_not() {
        let bodies = bodies(8 * MIB, None);
        let mut held = Vec::new();
        let refusal = loop {
            match arrive(&bodies, 1, sample(MIB)).await {
                Ok(bytes) => held.push(bytes),
                Err(error) => break error,
            }
        };
        assert_eq!(refusal.code(), "BODY_MEMORY_EXHAUSTED");
        assert!(!held.is_empty() && bodies.memory.held() <= 5 * MIB);
        let other = arrive(&bodies, 2, sample(MIB)).await.unwrap();
        drop((held, other));
        assert_eq!(bodies.memory.held(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn the_disk_has_its_bound_too() {
        let folder = tempfile::tempdir().unwrap();
        let bodies = bodies(64 * MIB, Some((&folder, MIB)));
        let error = arrive(&bodies, 1, sample(3 * MIB)).await.unwrap_err();
        assert_eq!(error.code(), "BODY_MEMORY_EXHAUSTED");
        assert_eq!((bodies.memory.held(), bodies.disk.held()), (0, 0));
    }

    #[tokio::test]
    async fn nothing_is_read_without_leave() {
        let error = read(Request::new(Body::from("x"))).await.unwrap_err();
        assert_eq!(error.code(), "INTERNAL");
    }
}
