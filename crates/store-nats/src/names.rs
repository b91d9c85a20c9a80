//! The names of streams, buckets and subjects. They are stable: documentation and other programs
//! use them. All begin with the installation's prefix, so that several share a server.

use sha2::{Digest as _, Sha256};
use windlass_core::RunId;

/// The names of one installation.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    /// Before subjects, in lower case.
    small: String,
    /// Before streams and buckets, in upper case.
    large: String,
}

impl Names {
    pub(crate) fn new(prefix: &str) -> Self {
        Self {
            small: prefix.to_ascii_lowercase(),
            large: prefix.to_ascii_uppercase(),
        }
    }

    /// The stream of a share of the logs.
    pub(crate) fn log_stream(&self, number: u32) -> String {
        format!("{}_LOG_{number}", self.large)
    }

    /// All logs.
    pub(crate) fn logs(&self) -> String {
        format!("{}.log.>", self.small)
    }

    /// The logs of a partition.
    pub(crate) fn logs_of(&self, partition: u32) -> String {
        format!("{}.log.{partition}.*", self.small)
    }

    /// A run's log.
    pub(crate) fn log(&self, partition: u32, run: RunId) -> String {
        format!("{}.log.{partition}.{run}", self.small)
    }

    /// The same, whatever the run's partition is.
    pub(crate) fn log_anywhere(&self, run: RunId) -> String {
        format!("{}.log.*.{run}", self.small)
    }

    pub(crate) fn inbox_stream(&self) -> String {
        format!("{}_INBOX", self.large)
    }

    /// What was offered to runs.
    pub(crate) fn inbox_all(&self) -> String {
        format!("{}.inbox.>", self.small)
    }

    /// An offer.
    pub(crate) fn inbox_item(&self, partition: u32, run: RunId, key: &str) -> String {
        format!("{}.inbox.{partition}.{run}.{}", self.small, hash(&[key]))
    }

    /// The same, whatever the run's partition is.
    pub(crate) fn inbox_item_anywhere(&self, run: RunId, key: &str) -> String {
        format!("{}.inbox.*.{run}.{}", self.small, hash(&[key]))
    }

    pub(crate) fn work_stream(&self) -> String {
        format!("{}_WORK", self.large)
    }

    pub(crate) fn work_all(&self) -> String {
        format!("{}.work.>", self.small)
    }

    /// One attempt: its tenant, the type of its action and what it requires come first, so that
    /// other programs can look at a part of the queue.
    pub(crate) fn work(&self, item: &windlass_store::WorkItem) -> String {
        let windlass_store::WorkItem { key, tenant, .. } = item;
        let requires: Vec<&str> = item.requires.iter().map(|it| &**it).collect();
        format!(
            "{}.work.{}.{}.{}.{}.{}.{}",
            self.small,
            tenant.as_deref().map_or_else(|| "-".into(), token),
            token(&item.action),
            hash(&requires),
            key.run,
            key.instance,
            key.attempt
        )
    }

    /// The bells of all processes.
    pub(crate) fn bells(&self) -> String {
        format!("{}.bell", self.small)
    }

    pub(crate) fn lease_bucket(&self) -> String {
        format!("{}_LEASES", self.large)
    }

    pub(crate) fn claim_bucket(&self) -> String {
        format!("{}_CLAIMS", self.large)
    }

    pub(crate) fn blob_bucket(&self) -> String {
        format!("{}_BLOBS", self.large)
    }

    /// The name of a stream: `LOG_0`, or `KV_LEASES` with the prefix inside.
    pub(crate) fn full(&self, name: &str) -> String {
        for kind in ["KV_", "OBJ_"] {
            if let Some(bucket) = name.strip_prefix(kind) {
                return format!("{kind}{}_{bucket}", self.large);
            }
        }
        format!("{}_{name}", self.large)
    }

    /// Where what goes to a subject is sent while its stream is filled.
    pub(crate) fn filling(&self, subject: &str) -> String {
        format!("{}.fill.{subject}", self.small)
    }

    /// Which object holds a value.
    pub(crate) fn index_bucket(&self) -> String {
        format!("{}_BLOB_INDEX", self.large)
    }
}

/// The stream of an object store.
pub(crate) fn object_stream(bucket: &str) -> String {
    format!("OBJ_{bucket}")
}

/// The subjects of an object store: those of bytes, and of what is noted of objects.
pub(crate) fn object_subjects(bucket: &str) -> Vec<String> {
    vec![format!("$O.{bucket}.C.>"), object_notes(bucket)]
}

/// The subjects of what is noted of the objects of a store.
pub(crate) fn object_notes(bucket: &str) -> String {
    format!("$O.{bucket}.M.>")
}

/// The stream of a bucket.
pub(crate) fn bucket_stream(bucket: &str) -> String {
    format!("KV_{bucket}")
}

/// The subject of a key of a bucket.
pub(crate) fn bucket_key(bucket: &str, key: &str) -> String {
    format!("$KV.{bucket}.{key}")
}

/// A short name for texts that may hold anything.
pub(crate) fn hash(parts: &[&str]) -> String {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update((part.len() as u64).to_le_bytes());
        hasher.update(part.as_bytes());
    }
    hex(&hasher.finalize()[..16])
}

/// Bytes in hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// The bytes that hexadecimal digits say.
pub(crate) fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = text
        .chars()
        .map(|digit| digit.to_digit(16).and_then(|it| u8::try_from(it).ok()))
        .collect();
    let digits = digits?;
    let pairs = digits.chunks_exact(2);
    pairs.remainder().is_empty().then(|| {
        let pairs = digits.chunks_exact(2);
        pairs.map(|pair| pair[0] * 16 + pair[1]).collect()
    })
}

/// A text as one part of a subject: what a subject cannot hold becomes its hash.
fn token(text: &str) -> String {
    let fits = |it: char| it.is_ascii_alphanumeric() || it == '-' || it == '_' || it == '/';
    match !text.is_empty() && text.len() <= 64 && text.chars().all(|it| fits(it) || it == '.') {
        true => text.replace('.', "_"),
        false => hash(&[text]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_core::Millis;

    #[test]
    fn names_are_those_of_the_documentation() {
        let names = Names::new("wl");
        let run = RunId::new(Millis(1), [7; 10]);
        assert_eq!(names.log_stream(3), "WL_LOG_3");
        assert_eq!(names.log(3, run), format!("wl.log.3.{run}"));
        assert_eq!(bucket_stream(&names.lease_bucket()), "KV_WL_LEASES");
        let item = names.inbox_item(2, run, "a key\nwith anything > *");
        assert!(!item.contains([' ', '\n', '*', '>']), "{item}");
    }

    #[test]
    fn digits_and_bytes_change_into_each_other() {
        assert_eq!(unhex(&hex(&[0, 255, 16])), Some(vec![0, 255, 16]));
        assert_eq!(unhex("abc"), None);
        assert_eq!(unhex("zz"), None);
    }
}
