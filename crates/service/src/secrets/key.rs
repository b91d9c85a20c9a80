//! The key that seals secrets: given, or in a file that is made on first use for nobody
//! else to read.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::failure::{Exit, Failure};

/// A larger file is no key.
const FILE_BYTES: u64 = 4096;

/// A key. It does not show itself.
#[derive(Clone)]
pub(super) struct Key(pub(super) [u8; 32]);

impl Key {
    fn read(text: &str) -> Option<Self> {
        let bytes = STANDARD.decode(text.trim()).ok()?;
        bytes.try_into().ok().map(Self)
    }
}

/// Where the key that seals secrets is.
pub struct SecretKeys {
    place: Place,
    known: OnceLock<Key>,
}

enum Place {
    Given,
    File(PathBuf),
}

impl fmt::Debug for SecretKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::Given => f.write_str("a key that was given"),
            Place::File(path) => write!(f, "the key in {}", path.display()),
        }
    }
}

impl SecretKeys {
    /// The key itself: 32 bytes in base64.
    ///
    /// # Errors
    /// It is not that.
    pub fn given(text: &str) -> Result<Self, Failure> {
        let key = Key::read(text).ok_or_else(|| {
            let message = "the key for secrets is not 32 bytes in base64";
            Failure::new(Exit::Usage, "SECRET_KEY_UNUSABLE", message)
                .hint("`head -c 32 /dev/urandom | base64` makes one")
        })?;
        Ok(Self {
            place: Place::Given,
            known: OnceLock::from(key),
        })
    }

    /// The key in a file, which is made when it is first needed.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self {
            place: Place::File(path.into()),
            known: OnceLock::new(),
        }
    }

    /// The key, if there is one.
    pub(super) fn existing(&self) -> Result<Option<Key>, Failure> {
        let path = match (self.known.get(), &self.place) {
            (Some(key), _) => return Ok(Some(key.clone())),
            (None, Place::Given) => return Ok(None),
            (None, Place::File(path)) => path,
        };
        let text = match read(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(unusable(path, &error)),
        };
        let key = Key::read(&text).ok_or_else(|| {
            let error = io::Error::other("it is not 32 bytes in base64");
            unusable(path, &error)
        })?;
        Ok(Some(self.known.get_or_init(|| key).clone()))
    }

    /// A new key in the file, or the one that somebody else put there meanwhile.
    pub(super) fn make(&self) -> Result<Key, Failure> {
        if let Place::File(path) = &self.place {
            match make(path) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(unusable(path, &error)),
            }
        }
        self.existing()?.ok_or_else(|| self.missing())
    }

    /// There is no key, and there was one.
    pub(super) fn missing(&self) -> Failure {
        let message = format!("there are sealed secrets, and no key: {self:?} is missing");
        Failure::new(Exit::Storage, "SECRET_KEY_UNUSABLE", message)
            .hint("put the key back, or remove the secrets and set them anew")
    }
}

fn unusable(path: &Path, error: &io::Error) -> Failure {
    let message = format!("the key file {}: {error}", path.display());
    Failure::new(Exit::Storage, "SECRET_KEY_UNUSABLE", message)
        .hint("`sealing_key_file` names another")
}

fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?
        .take(FILE_BYTES)
        .read_to_string(&mut text)?;
    Ok(text)
}

/// Puts a new key there, whole or not at all, and never in place of another.
fn make(path: &Path) -> io::Result<()> {
    let (mut key, mut mark) = ([0; 32], [0; 8]);
    getrandom::fill(&mut key).map_err(io::Error::other)?;
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
        .write_all(format!("{}\n", STANDARD.encode(key)).as_bytes())
        .and_then(|()| file.sync_all())
        .and_then(|()| fs::hard_link(&unfinished, path));
    // Under its own name it is of no use, whatever happened.
    let _ = fs::remove_file(&unfinished);
    written?;
    // What is sealed with it is acknowledged only after its name is safe, too.
    #[cfg(unix)]
    File::open(folder)?.sync_all()?;
    Ok(())
}
