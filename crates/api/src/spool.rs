//! Large bodies on disk while they arrive, so that a slow client holds no memory.
//!
//! A file is unlinked as soon as it is open: it disappears with the process, however that ends.
//! It must not know what is in the bodies.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::Path;

use crate::fair::Share;

/// Makes the folder, for this user alone, and removes files of a killed process that a file
/// system without unnamed files may have kept.
///
/// # Errors
///
/// If the folder cannot be made or cleared.
pub fn prepare_spool(folder: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)?;
    #[cfg(unix)]
    {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        std::fs::set_permissions(folder, mode)?;
    }
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            std::fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// A body on its way, on disk.
pub(crate) struct Spooled {
    file: File,
    length: u64,
    /// What it holds of the space for bodies.
    room: Share,
}

impl Spooled {
    pub(crate) async fn create(folder: &Path, room: Share) -> io::Result<Self> {
        let folder = folder.to_owned();
        let file = blocking(move || tempfile::tempfile_in(folder)).await?;
        Ok(Self {
            file,
            length: 0,
            room,
        })
    }

    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// Whether there is room for so many bytes more.
    pub(crate) fn has_room(&mut self, bytes: u64) -> bool {
        let missing = (self.length + bytes).saturating_sub(self.room.amount());
        missing == 0 || self.room.grow(missing)
    }

    /// Writes the bytes behind the others, and gives the buffer back.
    pub(crate) async fn write(mut self, mut bytes: Vec<u8>) -> io::Result<(Self, Vec<u8>)> {
        blocking(move || {
            self.file.write_all(&bytes)?;
            self.length += bytes.len() as u64;
            bytes.clear();
            Ok((self, bytes))
        })
        .await
    }

    /// All of it, in memory.
    pub(crate) async fn read(mut self) -> io::Result<Vec<u8>> {
        blocking(move || {
            let mut bytes = Vec::with_capacity(usize::try_from(self.length).unwrap_or(0));
            self.file.rewind()?;
            self.file.read_to_end(&mut bytes)?;
            if bytes.len() as u64 == self.length {
                return Ok(bytes);
            }
            Err(io::ErrorKind::UnexpectedEof.into())
        })
        .await
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => Err(io::Error::other(error)),
    }
}
