//! Any text is read as `serde_json` reads it, or refused as it refuses it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use windlass_expr::{Document, DocumentError};

fuzz_target!(|text: &str| {
    let read = serde_json::from_str::<serde_json::Value>(text);
    match (Document::parse(text), read) {
        (Ok(_), Ok(_)) => {}
        (Err(DocumentError::Syntax(one)), Err(two)) => assert_eq!(one, two.to_string()),
        (one, two) => panic!("{one:?} {two:?}"),
    }
});
