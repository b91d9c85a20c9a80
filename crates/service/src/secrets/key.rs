//! The key that seals secrets: given, or in a file that is made on first use and that only its
//! owner can read.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::failure::{Failure, FailureKind};

/// A larger file is no key.
const FILE_BYTES: u64 = 4096;

/// A key. Its `Debug` output hides it.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct SealingKey(pub(super) [u8; 32]);

impl SealingKey {
    fn read(text: &str) -> Option<Self> {
        let bytes = STANDARD.decode(text).ok()?;
        bytes.try_into().ok().map(Self)
    }

    fn fresh() -> io::Result<Self> {
        let mut key = [0; 32];
        getrandom::fill(&mut key).map_err(io::Error::other)?;
        Ok(Self(key))
    }
}

/// The key that seals, and those before it, which only open: while keys are changed there is
/// more than one.
#[derive(Clone)]
pub(super) struct Ring {
    pub(super) first: SealingKey,
    pub(super) old: Vec<SealingKey>,
}

impl Ring {
    /// One key a word.
    fn read(text: &str) -> Option<Self> {
        let mut keys = text.split_ascii_whitespace().map(SealingKey::read);
        let first = keys.next()??;
        Some(Self {
            first,
            old: keys.collect::<Option<_>>()?,
        })
    }

    fn text(&self) -> String {
        let line = |key: &SealingKey| format!("{}\n", STANDARD.encode(key.0));
        std::iter::once(&self.first)
            .chain(&self.old)
            .map(line)
            .collect()
    }
}

/// Where the key that seals secrets is.
pub struct SecretKeys {
    place: SealingKeySource,
    known: RwLock<Option<Arc<Ring>>>,
    /// Held while something that is sealed is read and written again.
    changing: tokio::sync::Mutex<()>,
}

enum SealingKeySource {
    Given,
    File(PathBuf),
    /// A file that several processes have copies of: it is read and never made here.
    SharedFile(PathBuf),
    /// Several processes need the same key, and none was given.
    Unset,
}

impl fmt::Debug for SecretKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            SealingKeySource::Given => f.write_str("a key that was given"),
            SealingKeySource::File(path) | SealingKeySource::SharedFile(path) => {
                write!(f, "the key in {}", path.display())
            }
            SealingKeySource::Unset => f.write_str("the key that all processes share"),
        }
    }
}

impl SecretKeys {
    fn at(place: SealingKeySource, known: Option<Ring>) -> Self {
        Self {
            place,
            known: RwLock::new(known.map(Arc::new)),
            changing: tokio::sync::Mutex::default(),
        }
    }

    /// The key itself: 32 bytes in base64; those before it may follow, after a space each.
    ///
    /// # Errors
    /// It is not that.
    pub fn given(text: &str) -> Result<Self, Failure> {
        let ring = Ring::read(text).ok_or_else(|| {
            let message = "the key for secrets is not 32 bytes in base64";
            Failure::new(FailureKind::SecretKeyInvalid, message)
                .hint("`head -c 32 /dev/urandom | base64` makes one")
        })?;
        Ok(Self::at(SealingKeySource::Given, Some(ring)))
    }

    /// The key in a file, which is made when it is first needed.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self::at(SealingKeySource::File(path.into()), None)
    }

    /// The key that the processes of a cluster share, in a file that exists on each machine, or
    /// none. None of them makes it: each would make another.
    pub fn shared(path: Option<PathBuf>) -> Self {
        Self::at(
            path.map_or(SealingKeySource::Unset, SealingKeySource::SharedFile),
            None,
        )
    }

    /// While the caller holds this, no other task of the process changes what is sealed.
    pub async fn changing(&self) -> impl Drop + Send + '_ {
        self.changing.lock().await
    }

    fn known(&self) -> Option<Arc<Ring>> {
        self.known
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn learn(&self, ring: Ring) -> Arc<Ring> {
        let ring = Arc::new(ring);
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        *known = Some(Arc::clone(&ring));
        ring
    }

    /// The keys, if there are any.
    pub(super) fn existing(&self) -> Result<Option<Arc<Ring>>, Failure> {
        let path = match (self.known(), &self.place) {
            (Some(ring), _) => return Ok(Some(ring)),
            (None, SealingKeySource::Given | SealingKeySource::Unset) => return Ok(None),
            (None, SealingKeySource::File(path) | SealingKeySource::SharedFile(path)) => path,
        };
        let text = match read(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(unusable(path, &error)),
        };
        let ring = Ring::read(&text).ok_or_else(|| {
            let error = io::Error::other("it is not 32 bytes in base64");
            unusable(path, &error)
        })?;
        Ok(Some(self.learn(ring)))
    }

    /// A new key in the file, or the one that another process put there meanwhile.
    pub(super) fn make(&self) -> Result<Arc<Ring>, Failure> {
        if let SealingKeySource::File(path) = &self.place {
            let made = SealingKey::fresh().and_then(|first| {
                let old = Vec::new();
                put(path, &Ring { first, old }, false)
            });
            match made {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(unusable(path, &error)),
            }
        }
        self.existing()?.ok_or_else(|| match &self.place {
            SealingKeySource::SharedFile(_) | SealingKeySource::Unset => unshared(),
            SealingKeySource::Given | SealingKeySource::File(_) => self.missing(),
        })
    }

    /// A new key in front of the present one, unless keys are being changed already. What was
    /// sealed can be opened all the time.
    pub(super) fn begin_change(&self) -> Result<Arc<Ring>, Failure> {
        let present = self.existing()?.ok_or_else(|| {
            let message = format!("there is no key to change: {self:?} is missing");
            Failure::new(FailureKind::SecretKeyMissing, message)
        })?;
        if !present.old.is_empty() {
            return Ok(present);
        }
        let SealingKeySource::File(path) = &self.place else {
            let message = "the key is given, and cannot be changed from here";
            return Err(Failure::new(FailureKind::SecretKeyInvalid, message)
                .hint("give the new key and the old one, with a space between, and try again"));
        };
        let first = SealingKey::fresh().map_err(|error| unusable(path, &error))?;
        let old = vec![present.first.clone()];
        let ring = Ring { first, old };
        put(path, &ring, true).map_err(|error| unusable(path, &error))?;
        Ok(self.learn(ring))
    }

    /// Nothing needs the old keys any more.
    pub(super) fn end_change(&self, ring: &Ring) -> Result<(), Failure> {
        let alone = Ring {
            first: ring.first.clone(),
            old: Vec::new(),
        };
        if let SealingKeySource::File(path) = &self.place {
            put(path, &alone, true).map_err(|error| unusable(path, &error))?;
        }
        self.learn(alone);
        Ok(())
    }

    /// There is no key, and there was one.
    pub(super) fn missing(&self) -> Failure {
        let message = format!("there are sealed secrets, and no key: {self:?} is missing");
        Failure::new(FailureKind::SecretKeyUnusable, message)
            .hint("put the key back, or remove the secrets and set them anew")
    }
}

/// No process of a cluster makes the key.
fn unshared() -> Failure {
    let message = "the processes of this cluster have no key to seal secrets with";
    Failure::new(FailureKind::SecretKeyUnusable, message).hint(
        "give every process the same key in WINDLASS_SEALING_KEY or `sealing_key_file`; \
         `head -c 32 /dev/urandom | base64` makes one",
    )
}

fn unusable(path: &Path, error: &io::Error) -> Failure {
    let message = format!("the key file {}: {error}", path.display());
    Failure::new(FailureKind::SecretKeyUnusable, message).hint("`sealing_key_file` names another")
}

fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?
        .take(FILE_BYTES)
        .read_to_string(&mut text)?;
    Ok(text)
}

/// Writes keys atomically; replaces existing ones only if `replace` says so.
fn put(path: &Path, ring: &Ring, replace: bool) -> io::Result<()> {
    let mut mark = [0; 8];
    getrandom::fill(&mut mark).map_err(io::Error::other)?;
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let unfinished = folder.join(format!(".secrets-{:016x}.new", u64::from_le_bytes(mark)));
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&unfinished)?;
    let written = file
        .write_all(ring.text().as_bytes())
        .and_then(|()| file.sync_all())
        .and_then(|()| match replace {
            true => fs::rename(&unfinished, path),
            false => fs::hard_link(&unfinished, path),
        });
    // The temporary file is of no use any more, whatever happened.
    let _ = fs::remove_file(&unfinished);
    written?;
    // The folder is synced as well: a secret sealed with the key is acknowledged only after the
    // file's name is durable.
    #[cfg(unix)]
    File::open(folder)?.sync_all()?;
    Ok(())
}
