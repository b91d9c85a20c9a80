//! Where keys come from, and when they are read again: when they are old, and when a token
//! names one that is not known. While reading fails, the old ones stay.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jsonwebtoken::Algorithm;
use tokio::time::Instant;

use super::key::{Key, KeySet, MAX_DOCUMENT};

const FETCH_TIMEOUT: Duration = Duration::from_secs(5);

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
    /// At least so often while tokens are checked, so that a key that was taken away stops
    /// working.
    pub max_age: Duration,
}

impl Rotation {
    /// Files are cheap to read; addresses belong to others.
    #[must_use]
    pub fn of(source: &KeySource) -> Self {
        let (min_interval, max_age) = match source {
            KeySource::File(_) => (2, 30),
            KeySource::Url(_) => (10, 600),
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
    client: Option<reqwest::Client>,
    current: Mutex<Current>,
    /// Held while reading, so that one does and the others wait for it.
    reading: tokio::sync::Mutex<()>,
}

struct Current {
    set: Arc<KeySet>,
    /// When reading was last tried.
    tried: Instant,
    failure: Option<String>,
}

impl Keys {
    /// Reads the keys for the first time.
    pub(super) async fn read(source: KeySource, rotation: Rotation) -> Result<Self, String> {
        let client = match &source {
            KeySource::File(_) => None,
            KeySource::Url(_) => Some(client().map_err(|error| error.to_string())?),
        };
        let set = load(&source, client.as_ref()).await?;
        Ok(Self(Arc::new(Shared {
            source,
            rotation,
            client,
            current: Mutex::new(Current {
                set: Arc::new(set),
                tried: Instant::now(),
                failure: None,
            }),
            reading: tokio::sync::Mutex::new(()),
        })))
    }

    fn current(&self) -> MutexGuard<'_, Current> {
        self.0
            .current
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Why keys could not be read again, if so.
    pub(super) fn failure(&self) -> Option<String> {
        self.current().failure.clone()
    }

    /// The key for a token.
    pub(super) async fn find(&self, id: Option<&str>, algorithm: Algorithm) -> Option<Key> {
        if self.age() >= self.0.rotation.max_age {
            // The known keys serve meanwhile.
            let keys = self.clone();
            tokio::spawn(async move { keys.refresh(keys.0.rotation.max_age).await });
        }
        let set = Arc::clone(&self.current().set);
        if let Some(key) = set.find(id, algorithm) {
            return Some(key.clone());
        }
        self.refresh(self.0.rotation.min_interval).await;
        let set = Arc::clone(&self.current().set);
        set.find(id, algorithm).cloned()
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
        let loaded = load(&self.0.source, self.0.client.as_ref()).await;
        let mut current = self.current();
        current.tried = Instant::now();
        match loaded {
            Ok(set) => {
                current.set = Arc::new(set);
                current.failure = None;
            }
            Err(reason) => current.failure = Some(reason),
        }
    }
}

fn client() -> reqwest::Result<reqwest::Client> {
    // An error means that a provider is installed already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder()
        .user_agent(concat!("windlass/", env!("CARGO_PKG_VERSION")))
        .timeout(FETCH_TIMEOUT)
        // Whoever answers elsewhere is not who was trusted.
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
        .map_err(|error| error.to_string())?;
    if !response.status().is_success() {
        return Err(format!("it answers with {}", response.status()));
    }
    let mut response = response;
    let mut document = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| error.to_string())? {
        document.extend_from_slice(&chunk);
        if document.len() > MAX_DOCUMENT {
            break;
        }
    }
    Ok(document)
}
