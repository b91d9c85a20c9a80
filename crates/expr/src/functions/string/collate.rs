//! `localeCompare`: the order in which people look for words, after the root of the Unicode
//! collation. Letters count first, then their accents, then whether they are capital. Exact for
//! ASCII and for Latin letters; other scripts follow in the order of their codes.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::OnceLock;

use crate::eval::{Evaluator, Passed};
use crate::limits::Price;
use crate::problem::{Fallible, error};
use crate::text::Text;
use crate::value::Value;

/// Signs before digits, in order. `$` and the other currencies come last.
const SIGNS: &str = "\t\n\u{b}\u{c}\r _-,;:!?.'\"()[]{}@*/\\&#%`^+<=>|~";
const OTHER_SIGNS: u32 = 0x100;
const CURRENCIES: u32 = 0x20_0000;
const DIGITS: u32 = 0x21_0000;
const LATIN: u32 = 0x22_0000;
const OTHERS: u32 = 0x23_0000;
const EASTERN: u32 = 0x1_0000;

/// Latin letters by the letters that they count as, in the order of their accents.
const ACCENTED: &[(&str, &str)] = &[
    ("a", "áàăắằẵẳâấầẫẩǎåǻäǟãȧǡąāảȁȃạặậḁ"),
    ("ae", "æǽǣ"),
    ("b", "ḃḅḇ"),
    ("c", "ćĉčċçḉ"),
    ("d", "ďḋḑđḍḓḏð"),
    ("dz", "ǳǆ"),
    ("e", "éèĕêếềễểěëẽėȩḝęēḗḕẻȅȇẹệḙḛ"),
    ("f", "ḟ"),
    ("g", "ǵğĝǧġģḡ"),
    ("h", "ĥȟḧḣḩħḥḫẖ"),
    ("i", "íìĭîǐïḯĩįīỉȉȋịḭ"),
    ("ij", "ĳ"),
    ("j", "ĵǰ"),
    ("k", "ḱǩķḳḵ"),
    ("l", "ĺľļłḷḹḽḻŀ"),
    ("lj", "ǉ"),
    ("ll", "ỻ"),
    ("m", "ḿṁṃ"),
    ("n", "ńǹňñṅņṇṋṉ"),
    ("nj", "ǌ"),
    ("o", "óòŏôốồỗổǒöȫőõṍṏȭȯȱøǿǫǭōṓṑỏȍȏơớờỡởợọộ"),
    ("oe", "œ"),
    ("p", "ṕṗ"),
    ("r", "ŕřṙŗȑȓṛṝṟ"),
    ("s", "śṥŝšṧṡşṣṩșſẛ"),
    ("ss", "ß"),
    ("t", "ťẗṫţṭțṱṯ"),
    ("u", "úùŭûǔůüǘǜǚǖűũṹųūṻủȕȗưứừữửựụṳṷṵ"),
    ("v", "ṽṿ"),
    ("w", "ẃẁŵẘẅẇẉ"),
    ("x", "ẍẋ"),
    ("y", "ýỳŷẙÿỹẏȳỷỵ"),
    ("z", "źẑžżẓẕ"),
];

/// Latin letters of their own, and the letter that they follow.
const FOLLOWING: &[(char, char)] = &[('ı', 'i'), ('ŋ', 'n'), ('ĸ', 'q'), ('ŧ', 't'), ('þ', 'z')];

/// What a letter weighs: by itself, by its accent, by its case.
#[derive(Clone, Copy)]
struct Weight {
    letter: u32,
    accent: u32,
    capital: bool,
}

pub(super) fn locale_compare<'a>(
    run: &mut Evaluator<'_, 'a>,
    text: &Text<'a>,
    passed: &Passed<'a>,
) -> Fallible<Value<'a>> {
    if passed.values.len() > 1 {
        return Err(error("localeCompare takes no locale here"));
    }
    let other = passed.get(0).to_text(run.budget)?;
    // Three passes over both, a letter at a time.
    run.budget.steps((text.size() + other.size()) as u64)?;
    let (one, two) = (
        text.lossy(Price::READ, run.budget)?,
        other.lossy(Price::READ, run.budget)?,
    );
    let order = compare(&one, &two);
    Ok(Value::Number(f64::from(order as i8)))
}

fn compare(one: &str, two: &str) -> Ordering {
    let letters = |text| {
        weights(text)
            .map(|weight| weight.letter)
            .filter(|&it| it > 0)
    };
    let accents = |text| weights(text).map(|weight| weight.accent);
    let capitals = |text| weights(text).map(|weight| weight.capital);
    letters(one)
        .cmp(letters(two))
        .then_with(|| accents(one).cmp(accents(two)))
        .then_with(|| capitals(one).cmp(capitals(two)))
}

fn weights(text: &str) -> impl Iterator<Item = Weight> + '_ {
    text.chars()
        .filter(|letter| !letter.is_control() || letter.is_whitespace())
        .flat_map(|letter| {
            let capital = letter.is_uppercase();
            let mut lower = letter.to_lowercase();
            let letter = match (lower.next(), lower.next()) {
                (Some(lower), None) => lower,
                _ => letter,
            };
            weigh(letter, capital)
        })
}

/// A letter in small; one that counts as two letters has two weights.
fn weigh(letter: char, capital: bool) -> impl Iterator<Item = Weight> {
    let weight = |letter, accent| Weight {
        letter,
        accent,
        capital,
    };
    let mut found = [None, None];
    if let Some(&(base, accent)) = accented(letter) {
        for (slot, base) in found.iter_mut().zip(base.chars()) {
            *slot = Some(weight(single(base), accent));
        }
    } else if matches!(letter, '\u{300}'..='\u{36f}') {
        found[0] = Some(weight(0, u32::from(letter)));
    } else {
        found[0] = Some(weight(single(letter), 0));
    }
    found.into_iter().flatten()
}

/// What an accented letter counts as, and its accent's place.
fn accented(letter: char) -> Option<&'static (&'static str, u32)> {
    static TABLE: OnceLock<HashMap<char, (&str, u32)>> = OnceLock::new();
    if letter.is_ascii() {
        return None;
    }
    let table = TABLE.get_or_init(|| {
        let all = ACCENTED.iter().flat_map(|(base, letters)| {
            let placed = (1..).zip(letters.chars());
            placed.map(move |(place, letter)| (letter, (*base, place)))
        });
        all.collect()
    });
    table.get(&letter)
}

fn single(letter: char) -> u32 {
    let code = u32::from(letter);
    if let Some((_, before)) = FOLLOWING.iter().find(|(it, _)| *it == letter) {
        return single(*before) + 1;
    }
    match letter {
        'a'..='z' => LATIN + 2 * (code - u32::from('a')),
        '0'..='9' => DIGITS + code,
        '$' | '¢' | '£' | '¤' | '¥' | '\u{20a0}'..='\u{20cf}' => CURRENCIES + code,
        // After Hangul, though their codes are lower.
        '\u{2e80}'..='\u{9fff}' => OTHERS + EASTERN + code,
        _ => match SIGNS.find(letter) {
            Some(place) => place as u32 + 1,
            None if letter.is_alphabetic() => OTHERS + code,
            None if letter.is_numeric() => DIGITS + code,
            None => OTHER_SIGNS + code,
        },
    }
}
