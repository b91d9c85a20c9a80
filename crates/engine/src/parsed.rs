//! The documents that a thread read last, for nodes that read the same values: a thousand nodes
//! that name a large trigger read it once. An evaluator's thread forgets them when it is idle, so
//! that they are held only while there is work.

use std::cell::RefCell;
use std::collections::VecDeque;

use windlass_core::Digest;
use windlass_expr::{Document, ExpressionLimits};

/// How many bytes the documents take that a thread keeps, texts included.
const KEPT_BYTES: usize = ExpressionLimits::DOCUMENT_BYTES;

/// How many documents a thread keeps: each is looked for from the newest on.
const KEPT: usize = 16;

thread_local! {
    static LAST: RefCell<VecDeque<(Digest, Document)>> = const { RefCell::new(VecDeque::new()) };
}

/// The document of this digest, if this thread keeps it.
pub(crate) fn known(digest: &Digest) -> Option<Document> {
    LAST.with_borrow(|last| {
        let found = last.iter().find(|(known, _)| known == digest);
        found.map(|(_, document)| document.clone())
    })
}

/// Keeps a document, in place of the oldest.
pub(crate) fn keep(digest: Digest, document: &Document) {
    LAST.with_borrow_mut(|last| {
        last.push_front((digest, document.clone()));
        let mut bytes = 0;
        let fits = last.iter().take(KEPT).take_while(|(_, document)| {
            bytes += document.bytes();
            bytes <= KEPT_BYTES
        });
        let fits = fits.count();
        last.truncate(fits);
    });
}

/// Forgets what this thread read.
pub(crate) fn forget() {
    LAST.with_borrow_mut(VecDeque::clear);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(number: usize) -> Digest {
        Digest::of(&number.to_le_bytes())
    }

    fn kept(numbers: impl IntoIterator<Item = usize>) -> Vec<usize> {
        let numbers = numbers.into_iter();
        numbers
            .filter(|number| known(&digest(*number)).is_some())
            .collect()
    }

    #[test]
    fn the_newest_documents_are_kept_until_they_are_forgotten() {
        forget();
        for number in 0..2 * KEPT {
            keep(
                digest(number),
                &Document::parse(number.to_string()).expect("JSON"),
            );
        }
        assert_eq!(kept(0..2 * KEPT), (KEPT..2 * KEPT).collect::<Vec<_>>());
        forget();
        assert!(kept(0..2 * KEPT).is_empty());
    }

    #[test]
    fn documents_are_kept_within_their_bytes() {
        forget();
        let half = Document::parse(format!("[{}0]", "0,".repeat(3_300_000))).expect("JSON");
        assert!(2 * half.bytes() <= KEPT_BYTES && 3 * half.bytes() > KEPT_BYTES);
        for number in 0..4 {
            keep(digest(number), &half);
        }
        assert_eq!(kept(0..4), [2, 3]);
        forget();
    }
}
