//! The chain of checksums over a run's records, the same in every backend.
//!
//! `chain_n` is the first 16 bytes of SHA-256 over `chain_{n-1}`, the sequence number, the
//! writer, the append id, the length (all little-endian, 8 bytes each) and the bytes. It
//! knows nothing of what a record means or where it is kept.

use sha2::{Digest as _, Sha256};

use crate::{Append, Head, Record, WriterId};

/// The checksum of a record that follows the one with checksum `previous`.
pub fn chain(
    previous: &[u8; 16],
    sequence: u64,
    writer: WriterId,
    append_id: u64,
    bytes: &[u8],
) -> [u8; 16] {
    let mut hasher = Sha256::new();
    hasher.update(previous);
    hasher.update(sequence.to_le_bytes());
    hasher.update(writer.0.to_le_bytes());
    hasher.update(append_id.to_le_bytes());
    hasher.update((bytes.len() as u64).to_le_bytes());
    hasher.update(bytes);
    let full: [u8; 32] = hasher.finalize().into();
    let mut short = [0; 16];
    short.copy_from_slice(&full[..16]);
    short
}

/// The head that a run has once this append succeeded.
pub fn next_head(append: &Append) -> Head {
    let sequence = append.head.sequence + 1;
    Head {
        sequence,
        chain: chain(
            &append.head.chain,
            sequence,
            append.writer,
            append.append_id,
            &append.record,
        ),
        append_id: append.append_id,
    }
}

/// Whether a record's checksum fits its content and the record before it.
pub fn fits(record: &Record, previous: &[u8; 16]) -> bool {
    record.chain
        == chain(
            previous,
            record.sequence,
            record.writer,
            record.append_id,
            &record.bytes,
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_counts() {
        let base = chain(&[0; 16], 1, WriterId(2), 3, b"abc");
        assert_eq!(base, chain(&[0; 16], 1, WriterId(2), 3, b"abc"));
        assert_ne!(base, chain(&[1; 16], 1, WriterId(2), 3, b"abc"));
        assert_ne!(base, chain(&[0; 16], 2, WriterId(2), 3, b"abc"));
        assert_ne!(base, chain(&[0; 16], 1, WriterId(3), 3, b"abc"));
        assert_ne!(base, chain(&[0; 16], 1, WriterId(2), 4, b"abc"));
        assert_ne!(base, chain(&[0; 16], 1, WriterId(2), 3, b"abd"));
    }

    #[test]
    fn the_format_never_changes() {
        // Stored chains depend on it: a change would make every log look damaged.
        let chain = chain(&[7; 16], 1, WriterId(2), 3, b"windlass");
        let text: String = chain.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(text, "b22a6aa91cad15cee7d5d86cbd607d99");
    }
}
