//! Where keys come from, and when they are read again: when they are old, and when a token
//! names one that is not known. A request that finds them old waits until they are read again,
//! so a revoked key stops working even after a quiet hour. While reading fails, the old keys
//! stay valid for a grace period, and readiness reports it.

use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jsonwebtoken::Algorithm;
use tokio::time::Instant;

use super::key::{KeySet, MAX_DOCUMENT, Print, VerificationKey};

/// How long reading may take, and a request wait for it.
const FETCH_TIMEOUT: Duration = Duration::from_secs(5);

/// How long keys that were read stay good while they cannot be read again.
pub const KEY_GRACE: Duration = Duration::from_secs(300);

/// A JWKS document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeySource {
    /// In a file.
    File(PathBuf),
    /// At an `http` or `https` address.
    Url(String),
}

impl KeySource {
    /// An address where the text is one, else a file.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        if text.starts_with("http://") || text.starts_with("https://") {
            Self::Url(text.to_owned())
        } else {
            Self::File(text.into())
        }
    }
}

impl fmt::Display for KeySource {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(formatter, "{}", path.display()),
            Self::Url(url) => formatter.write_str(url),
        }
    }
}

/// When keys are read again.
#[derive(Debug, Clone, Copy)]
pub struct Rotation {
    /// At most so often, however many tokens name unknown keys.
    pub min_interval: Duration,
    /// Older keys are read again before they are used, so that a revoked key stops working.
    pub max_age: Duration,
}

impl Rotation {
    /// Files are cheap to read; a URL is a request to another server.
    #[must_use]
    pub fn of(source: &KeySource) -> Self {
        let (min_interval, max_age) = match source {
            KeySource::File(_) => (2, 5),
            // With the time that fetching may take, less than 30 s.
            KeySource::Url(_) => (5, 20),
        };
        Self {
            min_interval: Duration::from_secs(min_interval),
            max_age: Duration::from_secs(max_age),
        }
    }
}

/// Keys that follow their source. Cloning is cheap.
#[derive(Clone)]
pub(super) struct Keys(Arc<Shared>);

struct Shared {
    source: KeySource,
    rotation: Rotation,
    grace: Duration,
    client: Option<reqwest::Client>,
    current: Mutex<Current>,
    /// Held while reading, so that one request reads and the others wait for it.
    reading: tokio::sync::Mutex<()>,
    /// How often reading failed.
    failures: AtomicU64,
}

struct Current {
    set: Arc<KeySet>,
    /// When reading was last tried.
    tried: Instant,
    /// When it last succeeded.
    loaded: Instant,
    failure: Option<String>,
}

/// Keys that could not be read again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyTrouble {
    /// Where they are, and why.
    pub reason: String,
    /// Whether the old ones are not used any more, so that every token is refused.
    pub expired: bool,
}

impl Keys {
    /// Reads the keys for the first time.
    pub(super) async fn read(
        source: KeySource,
        rotation: Rotation,
        grace: Duration,
    ) -> Result<Self, String> {
        let client = match &source {
            KeySource::File(_) => None,
            KeySource::Url(_) => Some(client().map_err(|error| error.to_string())?),
        };
        let set = load(&source, client.as_ref()).await?;
        Ok(Self(Arc::new(Shared {
            source,
            rotation,
            grace,
            client,
            current: Mutex::new(Current {
                set: Arc::new(set),
                tried: Instant::now(),
                loaded: Instant::now(),
                failure: None,
            }),
            reading: tokio::sync::Mutex::new(()),
            failures: AtomicU64::new(0),
        })))
    }

    fn current(&self) -> MutexGuard<'_, Current> {
        self.0
            .current
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// What is wrong with the keys, if something is; reads them again before, if that was not
    /// tried just now.
    pub(super) async fn trouble(&self) -> Option<KeyTrouble> {
        self.refresh(self.0.rotation.min_interval).await;
        let expired = self.set().is_none();
        let reason = self.current().failure.clone()?;
        Some(KeyTrouble { reason, expired })
    }

    /// How often reading failed, and how old the keys are.
    pub(super) fn figures(&self) -> (u64, Duration) {
        let failures = self.0.failures.load(Ordering::Relaxed);
        (failures, self.current().loaded.elapsed())
    }

    /// How often a long-lived response must check that its key is still valid.
    pub(super) fn max_age(&self) -> Duration {
        self.0.rotation.max_age
    }

    /// The key for a token, or why there is none.
    pub(super) async fn find(
        &self,
        id: Option<&str>,
        algorithm: Algorithm,
    ) -> Result<VerificationKey, &'static str> {
        self.renew().await;
        if let Some(key) = self.set().and_then(|set| set.find(id, algorithm).cloned()) {
            return Ok(key);
        }
        self.refresh(self.0.rotation.min_interval).await;
        let set = self.set().ok_or("the keys of tokens cannot be read")?;
        let key = set.find(id, algorithm).cloned();
        key.ok_or("the token's key is not known")
    }

    /// Whether a key is still good.
    pub(super) async fn has(&self, print: &Print) -> bool {
        self.renew().await;
        self.set().is_some_and(|set| set.has(print))
    }

    /// The keys, unless they are older than the grace allows.
    fn set(&self) -> Option<Arc<KeySet>> {
        let current = self.current();
        let oldest = self.0.grace.max(self.0.rotation.max_age);
        let good = current.failure.is_none() || current.loaded.elapsed() <= oldest;
        good.then(|| Arc::clone(&current.set))
    }

    /// Reads old keys again before the request goes on, and ageing ones in the background.
    async fn renew(&self) {
        let (age, max_age) = (self.age(), self.0.rotation.max_age);
        if age >= max_age {
            self.refresh(max_age).await;
        } else if age >= max_age / 2 && self.0.reading.try_lock().is_ok() {
            let keys = self.clone();
            tokio::spawn(async move { keys.refresh(max_age / 2).await });
        }
    }

    fn age(&self) -> Duration {
        self.current().tried.elapsed()
    }

    /// Reads again, unless that was tried less than so long ago.
    async fn refresh(&self, interval: Duration) {
        let _reading = self.0.reading.lock().await;
        if self.age() < interval {
            return;
        }
        let loading = load(&self.0.source, self.0.client.as_ref());
        let loaded = match tokio::time::timeout(FETCH_TIMEOUT, loading).await {
            Ok(loaded) => loaded,
            Err(_) => Err(format!("{}: it takes too long", self.0.source)),
        };
        let mut current = self.current();
        current.tried = Instant::now();
        match loaded {
            Ok(set) => {
                if current.failure.take().is_some() {
                    tracing::info!("the keys of tokens can be read again");
                }
                current.set = Arc::new(set);
                current.loaded = current.tried;
            }
            Err(reason) => {
                self.0.failures.fetch_add(1, Ordering::Relaxed);
                if current.failure.as_ref() != Some(&reason) {
                    let what =
                        "the keys of tokens cannot be read; the old ones are used for a while";
                    tracing::error!(error = reason, "{what}");
                }
                current.failure = Some(reason);
            }
        }
    }
}

/// How many keys a document has that can be used.
///
/// # Errors
///
/// If it cannot be read, or has none; with the source and the reason.
pub async fn count_keys(source: &KeySource) -> Result<usize, String> {
    let client = match source {
        KeySource::File(_) => None,
        KeySource::Url(_) => Some(client().map_err(|error| error.to_string())?),
    };
    Ok(load(source, client.as_ref()).await?.len())
}

fn client() -> reqwest::Result<reqwest::Client> {
    // An error means that a provider is installed already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder()
        .user_agent(concat!("windlass/", env!("CARGO_PKG_VERSION")))
        .timeout(FETCH_TIMEOUT)
        // A redirect leads to an address that the operator did not trust.
        .redirect(reqwest::redirect::Policy::none())
        .build()
}

async fn load(source: &KeySource, client: Option<&reqwest::Client>) -> Result<KeySet, String> {
    let document = match (source, client) {
        (KeySource::File(path), _) => {
            let path = path.clone();
            let read = tokio::task::spawn_blocking(move || read_file(&path)).await;
            read.map_err(|error| error.to_string())
                .and_then(|read| read.map_err(|error| error.to_string()))
        }
        (KeySource::Url(url), Some(client)) => fetch(client, url).await,
        (KeySource::Url(_), None) => Err("there is no client".to_owned()),
    };
    document
        .and_then(|document| KeySet::parse(&document))
        .map_err(|reason| format!("{source}: {reason}"))
}

fn read_file(path: &std::path::Path) -> std::io::Result<Vec<u8>> {
    use std::io::Read;
    let mut document = Vec::new();
    // One byte more than allowed, so that the parser sees that there is more.
    let limit = MAX_DOCUMENT as u64 + 1;
    std::fs::File::open(path)?
        .take(limit)
        .read_to_end(&mut document)?;
    Ok(document)
}

async fn fetch(client: &reqwest::Client, url: &str) -> Result<Vec<u8>, String> {
    let response = client
        .get(url)
        .send()
        .await
        .map_err(|error| first_cause(&error))?;
    if !response.status().is_success() {
        return Err(format!("it answers with {}", response.status()));
    }
    let mut response = response;
    let mut document = Vec::new();
    while let Some(chunk) = response
        .chunk()
        .await
        .map_err(|error| first_cause(&error))?
    {
        document.extend_from_slice(&chunk);
        if document.len() > MAX_DOCUMENT {
            break;
        }
    }
    Ok(document)
}

/// What led to an error; the layers above it name only themselves and the address.
fn first_cause(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}
