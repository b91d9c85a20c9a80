//! The keys of one object: repeated ones are merged, and one is found by its text.
//!
//! An object with few keys is searched from its beginning. One with more has an index behind its
//! entries, a word for each key, sorted: 40 bits of the key's hash, and its place. The hash is
//! only a way to find a key, so it is the same in every process and is seen by no expression.

use std::hash::{DefaultHasher, Hasher};

use super::word::Word;
use super::{InterruptCheck, Stopped, Texts};

/// Objects with no more keys than this have no index.
pub(super) const FEW_KEYS: usize = 8;

const PLACE_BITS: u32 = 24;

/// Stands for a key that comes again; no key is this word.
const REPEATED: u64 = 0;

fn hash_of(key: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(key.as_bytes());
    hasher.finish() >> PLACE_BITS
}

fn place(word: u64) -> usize {
    (word & ((1 << PLACE_BITS) - 1)) as usize
}

/// The place of a key among the entries of the object at `block`.
pub(super) fn find(
    texts: Texts<'_>,
    words: &[u64],
    block: (usize, usize),
    key: &str,
) -> Option<usize> {
    let (first, count) = block;
    let key_at = |place: usize| texts.of(Word(words[first + 2 * place]));
    if count <= FEW_KEYS {
        return (0..count).find(|place| key_at(*place) == key);
    }
    let index = &words[first + 2 * count..first + 3 * count];
    let hash = hash_of(key);
    let start = index.partition_point(|word| word >> PLACE_BITS < hash);
    let same = &index[start..];
    let same = &same[..same.partition_point(|word| word >> PLACE_BITS == hash)];
    let found = same.binary_search_by(|word| key_at(place(*word)).cmp(key));
    found.ok().map(|at| place(same[at]))
}

/// Merges repeated keys of few entries; gives how many are left, at the beginning.
pub(super) fn merge_few(texts: Texts<'_>, entries: &mut [u64]) -> usize {
    let mut count = 0;
    for entry in 0..entries.len() / 2 {
        let (key, value) = (entries[2 * entry], entries[2 * entry + 1]);
        let known = (0..count).find(|known| is_same(texts, entries[2 * known], key));
        match known {
            Some(known) => entries[2 * known + 1] = value,
            None => {
                entries[2 * count] = key;
                entries[2 * count + 1] = value;
                count += 1;
            }
        }
    }
    count
}

#[inline]
fn is_same(texts: Texts<'_>, one: u64, two: u64) -> bool {
    let (one, two) = (Word(one), Word(two));
    let is_short = |word: Word| matches!(word.tag(), Word::TEXT | Word::DECODED);
    // Most keys differ in their length.
    if is_short(one) && is_short(two) && one.range().1 != two.range().1 {
        return false;
    }
    texts.of(one) == texts.of(two)
}

/// Merges repeated keys of a block of entries and room for their index, and writes the index
/// behind those that are left; gives how many.
pub(super) fn merge_many(
    texts: Texts<'_>,
    block: &mut [u64],
    interrupt_check: &InterruptCheck<'_>,
) -> Result<usize, Stopped> {
    let count = block.len() / 3;
    let (entries, index) = block.split_at_mut(2 * count);
    if !write_index(texts, entries, index, interrupt_check)? {
        return Ok(count);
    }
    let mut left = 0;
    for entry in 0..count {
        if entries[2 * entry] != REPEATED {
            entries.copy_within(2 * entry..2 * entry + 2, 2 * left);
            left += 1;
        }
    }
    if left > FEW_KEYS {
        let (entries, index) = block.split_at_mut(2 * left);
        write_index(texts, entries, &mut index[..left], interrupt_check)?;
    }
    Ok(left)
}

/// Writes the index of entries. The first entry of a repeated key gets the value of the last,
/// and the others are marked; returns whether there is one.
fn write_index(
    texts: Texts<'_>,
    entries: &mut [u64],
    index: &mut [u64],
    interrupt_check: &InterruptCheck<'_>,
) -> Result<bool, Stopped> {
    for (place, word) in index.iter_mut().enumerate() {
        let key = texts.of(Word(entries[2 * place]));
        *word = hash_of(key) << PLACE_BITS | place as u64;
    }
    interrupt_check.now()?;
    index.sort_unstable();
    let mut is_repeated = false;
    for run in index.chunk_by_mut(|one, two| one >> PLACE_BITS == two >> PLACE_BITS) {
        if run.len() > 1 {
            is_repeated |= merge_run(texts, entries, run);
        }
    }
    Ok(is_repeated)
}

/// Merges keys with the same hash. Different ones are rare, and ordered by their texts.
fn merge_run(texts: Texts<'_>, entries: &mut [u64], run: &mut [u64]) -> bool {
    let key = |entries: &[u64], word: u64| texts.of(Word(entries[2 * place(word)]));
    let first = key(entries, run[0]);
    if run.iter().all(|word| key(entries, *word) == first) {
        mark(entries, run);
        return true;
    }
    // Stable, so the same key stays in the order of its places.
    run.sort_by(|one, two| key(entries, *one).cmp(key(entries, *two)));
    let (mut start, mut is_repeated) = (0, false);
    for end in 1..=run.len() {
        let goes_on = run.get(end);
        if goes_on.is_some_and(|word| key(entries, *word) == key(entries, run[start])) {
            continue;
        }
        if end - start > 1 {
            mark(entries, &run[start..end]);
            is_repeated = true;
        }
        start = end;
    }
    is_repeated
}

/// Gives the first of a key's entries the value of the last, and marks the others.
fn mark(entries: &mut [u64], same: &[u64]) {
    if let [first, .., last] = same {
        entries[2 * place(*first) + 1] = entries[2 * place(*last) + 1];
    }
    for word in same.iter().skip(1) {
        entries[2 * place(*word)] = REPEATED;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Different keys with equal hashes cannot be found for a test, so the test makes their
    /// hashes equal.
    #[test]
    fn keys_with_the_same_hash_are_told_apart() {
        let text = "cabacab";
        let texts = Texts {
            text,
            decoded: "",
            spans: &[],
        };
        let mut entries = Vec::new();
        for at in 0..text.len() {
            entries.push(Word::of_range(Word::TEXT, at, 1).0);
            entries.push(Word::of_number(at as f64).0);
        }
        let mut run: Vec<u64> = (0..text.len() as u64).collect();
        assert!(merge_run(texts, &mut entries, &mut run));
        let left: Vec<_> = entries
            .chunks(2)
            .filter(|entry| entry[0] != REPEATED)
            .map(|entry| (texts.of(Word(entry[0])), Word(entry[1]).number()))
            .collect();
        assert_eq!(left, [("c", 4.0), ("a", 5.0), ("b", 6.0)]);
        let keys: Vec<_> = run
            .iter()
            .map(|word| &text[place(*word)..=place(*word)])
            .collect();
        assert_eq!(keys, ["a", "a", "a", "b", "b", "c", "c"]);
    }
}
