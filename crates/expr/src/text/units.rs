//! The loops over the bytes and code units of texts. They count their work and pay nothing;
//! the operations of [`Text`](super::Text) pay. Searches pay as they go, because only then is
//! it known how far they go.

use std::cmp::Ordering;

use crate::limits::{Budget, Price};
use crate::problem::Fallible;
use crate::work;

/// All ASCII characters, each at its code.
const ASCII: &str = "\0\u{1}\u{2}\u{3}\u{4}\u{5}\u{6}\u{7}\u{8}\t\n\u{b}\u{c}\r\u{e}\u{f}\
    \u{10}\u{11}\u{12}\u{13}\u{14}\u{15}\u{16}\u{17}\u{18}\u{19}\u{1a}\u{1b}\u{1c}\u{1d}\u{1e}\
    \u{1f} !\"#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`\
    abcdefghijklmnopqrstuvwxyz{|}~\u{7f}";

/// An ASCII character as a text that takes no memory.
pub(super) fn ascii(letter: char) -> Option<&'static str> {
    let at = letter as usize;
    ASCII.get(at..=at).filter(|_| letter.is_ascii())
}

/// How many UTF-16 code units a text has.
pub(crate) fn unit_count(text: &str) -> usize {
    work::read(text.len());
    // A character has one byte that does not continue another; those of four bytes have two units.
    let starts = |byte: &u8| usize::from(*byte & 0xC0 != 0x80) + usize::from(*byte >= 0xF0);
    text.as_bytes().iter().map(starts).sum()
}

/// Bytes that are counted at once when an offset is looked for.
const BLOCK: usize = 128;

/// The byte of the character that code unit `position` is in, and whether it is its second half.
/// Past the end it is the text's length.
pub(super) fn offset_of(text: &str, position: usize) -> (usize, bool) {
    let bytes = text.as_bytes();
    let (mut offset, mut seen) = (0, 0);
    while let Some(block) = bytes.get(offset..offset + BLOCK) {
        let starts = |byte: &u8| usize::from(*byte & 0xC0 != 0x80) + usize::from(*byte >= 0xF0);
        let count: usize = block.iter().map(starts).sum();
        // A character that hangs over the block's end counts in it.
        if seen + count > position {
            break;
        }
        seen += count;
        offset += BLOCK;
    }
    // The block may begin inside a character, which is counted already.
    while offset < bytes.len() && !text.is_char_boundary(offset) {
        offset += 1;
    }
    for letter in text[offset..].chars() {
        let width = letter.len_utf16();
        if position < seen + width {
            work::read(offset);
            return (offset, position > seen);
        }
        seen += width;
        offset += letter.len_utf8();
    }
    work::read(offset);
    (offset, false)
}

/// The byte range of a range of code units, if neither end falls inside a character.
pub(super) fn byte_range(text: &str, start: usize, end: usize) -> Option<(usize, usize)> {
    if text.is_ascii() {
        work::read(text.len());
        return Some((start, end));
    }
    let (from, inside) = offset_of(text, start);
    if inside {
        return None;
    }
    let (length, inside) = offset_of(&text[from..], end - start);
    (!inside).then_some((from, from + length))
}

pub(super) fn equal<T: PartialEq>(one: &[T], two: &[T]) -> bool {
    if one.len() == two.len() {
        work::read(size_of_val(one));
    }
    one == two
}

/// The order of two texts by code units.
pub(super) fn compare(one: &str, two: &str) -> Ordering {
    let (left, right) = (one.as_bytes(), two.as_bytes());
    let length = left.len().min(right.len());
    let mut at = 0;
    while at + BLOCK <= length && left[at..at + BLOCK] == right[at..at + BLOCK] {
        at += BLOCK;
    }
    while at < length && left[at] == right[at] {
        at += 1;
    }
    work::read(at);
    if at == length {
        return left.len().cmp(&right.len());
    }
    let start = one.floor_char_boundary(at);
    one[start..].encode_utf16().cmp(two[start..].encode_utf16())
}

pub(super) fn compare_iterators(
    one: impl Iterator<Item = u16>,
    two: impl Iterator<Item = u16>,
) -> Ordering {
    let mut seen = 0;
    let order = one.inspect(|_| seen += 2).cmp(two);
    work::read(seen);
    order
}

/// Bytes searched between two payments, unless the needle is long.
const SEARCH_BLOCK: usize = 64 * 1024;

/// Where `needle` first occurs.
pub(super) fn find(text: &str, needle: &str, budget: &mut Budget) -> Fallible<Option<usize>> {
    if needle.len() > text.len() {
        return Ok(None);
    }
    let block = SEARCH_BLOCK.max(4 * needle.len());
    let mut from = 0;
    loop {
        let end = text.ceil_char_boundary((from + block).min(text.len()));
        // What is left may be much less than a block.
        let found = first(&text[from..end], needle);
        let gone = found.map_or(end - from, |at| at + needle.len());
        work::read(gone + needle.len());
        budget.read_at(gone, Price::SEARCH)?;
        budget.read_at(needle.len(), Price::NEEDLE)?;
        if let Some(at) = found {
            return Ok(Some(from + at));
        }
        if end == text.len() {
            return Ok(None);
        }
        // The next block begins where an occurrence may hang over the end of this one.
        from = text.ceil_char_boundary(end + 1 - needle.len().max(1));
    }
}

fn first(text: &str, needle: &str) -> Option<usize> {
    match needle.as_bytes() {
        [single] => text.find(char::from(*single)),
        _ => text.find(needle),
    }
}

/// Where `needle` last occurs.
pub(super) fn find_last(text: &str, needle: &str, budget: &mut Budget) -> Fallible<Option<usize>> {
    if needle.len() > text.len() {
        return Ok(None);
    }
    budget.read_at(text.len(), Price::SEARCH)?;
    budget.read_at(needle.len(), Price::NEEDLE)?;
    work::read(text.len() + needle.len());
    Ok(text.rfind(needle))
}

/// Positions tried between two payments.
const TRIED: usize = 256;

/// Where `needle` first occurs at or after `from`, in code units.
pub(crate) fn find_units(
    units: &[u16],
    needle: &[u16],
    from: usize,
    budget: &mut Budget,
) -> Fallible<Option<usize>> {
    let Some(last) = units.len().checked_sub(needle.len()) else {
        return Ok(None);
    };
    search_units(units, needle, from..=last, budget)
}

/// Where `needle` last occurs at or before `from`, in code units.
pub(crate) fn find_units_last(
    units: &[u16],
    needle: &[u16],
    from: usize,
    budget: &mut Budget,
) -> Fallible<Option<usize>> {
    let Some(last) = units.len().checked_sub(needle.len()) else {
        return Ok(None);
    };
    search_units(units, needle, (0..=from.min(last)).rev(), budget)
}

/// Tries positions in turn; the cost of each is paid soon after.
fn search_units(
    units: &[u16],
    needle: &[u16],
    positions: impl Iterator<Item = usize>,
    budget: &mut Budget,
) -> Fallible<Option<usize>> {
    let mut touched = 0;
    for at in positions {
        let rest = &units[at..];
        let same = rest.iter().zip(needle).take_while(|(one, two)| one == two);
        let same = same.count();
        touched += same + 1;
        if touched >= TRIED {
            pay_units(touched, budget)?;
            touched = 0;
        }
        if same == needle.len() {
            pay_units(touched, budget)?;
            return Ok(Some(at));
        }
    }
    pay_units(touched, budget)?;
    Ok(None)
}

fn pay_units(count: usize, budget: &mut Budget) -> Fallible<()> {
    work::read(2 * count);
    budget.read(2 * count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_and_counts_agree_with_a_plain_walk() {
        let mixed: String = "aé漢😀".chars().cycle().take(700).collect();
        for text in ["", "abc", "é😀", &mixed, &mixed[1..], &mixed[3..]] {
            assert_eq!(unit_count(text), text.encode_utf16().count());
            let mut position = 0;
            for (offset, letter) in text.char_indices() {
                assert_eq!(offset_of(text, position), (offset, false));
                if letter.len_utf16() == 2 {
                    assert_eq!(offset_of(text, position + 1), (offset, true));
                }
                position += letter.len_utf16();
            }
            assert_eq!(offset_of(text, position), (text.len(), false));
        }
    }

    #[test]
    fn searches_go_over_the_ends_of_blocks() {
        let mut budget = Budget::new(&crate::ExpressionLimits::default());
        for before in [0, 1, 65_530, 65_535, 65_536, 65_537, 131_071, 200_000] {
            for (filler, needle) in [("a", "xyz"), ("é", "é😀é"), ("a", "x"), ("漢", "漢字")]
            {
                let text = format!("{}{needle}{filler}", filler.repeat(before));
                let found = find(&text, needle, &mut budget).unwrap();
                assert_eq!(found, text.find(needle), "{before} {filler} {needle}");
            }
        }
        let long = "ab".repeat(50_000);
        let text = format!("{}{long}", "ac".repeat(90_000));
        assert_eq!(find(&text, &long, &mut budget).unwrap(), text.find(&long));
        assert_eq!(find("x", &long, &mut budget).unwrap(), None);
    }

    #[test]
    fn ascii_characters_are_at_their_codes() {
        for code in 0..128_u8 {
            let letter = char::from(code);
            assert_eq!(ascii(letter), Some(letter.to_string().as_str()));
        }
        assert_eq!(ascii('é'), None);
    }
}
