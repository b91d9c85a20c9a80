//! The values that a thread parsed last, for nodes that read the same ones: a thousand nodes that
//! name a large trigger parse it once. An evaluator's thread forgets them when it is idle, so
//! that a parsed value, which is many times its text, is held only while there is work.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;

use serde_json::Value;
use windlass_core::Digest;

/// How many values a thread keeps.
const KEPT: usize = 2;

thread_local! {
    static LAST: RefCell<VecDeque<(Digest, Arc<Value>)>> = const { RefCell::new(VecDeque::new()) };
}

/// The value of this digest, as this thread parsed it before, or as it is parsed now.
pub(crate) fn of<E>(
    digest: Digest,
    parse: impl FnOnce() -> Result<Value, E>,
) -> Result<Arc<Value>, E> {
    let known = LAST.with_borrow(|last| {
        let found = last.iter().find(|(known, _)| *known == digest);
        found.map(|(_, value)| Arc::clone(value))
    });
    if let Some(value) = known {
        return Ok(value);
    }
    let value = Arc::new(parse()?);
    LAST.with_borrow_mut(|last| {
        last.truncate(KEPT - 1);
        last.push_front((digest, Arc::clone(&value)));
    });
    Ok(value)
}

/// Forgets what this thread parsed.
pub(crate) fn forget() {
    LAST.with_borrow_mut(VecDeque::clear);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_parsed_once_until_others_take_its_place_or_it_is_forgotten() {
        let mut parsed = Vec::new();
        let mut read = |letter: &str| {
            let digest = Digest::of(letter.as_bytes());
            let value = of(digest, || {
                parsed.push(letter.to_owned());
                Ok::<_, ()>(Value::from(letter))
            });
            assert_eq!(*value.expect("a value"), letter);
        };
        for letter in ["a", "a", "b", "a", "c", "d", "a"] {
            read(letter);
        }
        forget();
        read("a");
        assert_eq!(parsed, ["a", "b", "c", "d", "a", "a"]);
        forget();
    }
}
