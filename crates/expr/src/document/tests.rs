//! A document is what `serde_json` reads, and takes no more than it may.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::Value as Json;

use super::*;
use crate::{Expression, Scope, Value, worst};

/// Whether a part is the same as a value that `serde_json` read.
fn assert_same(part: DocumentPart<'_>, json: &Json) {
    match (part.shape(), json) {
        (Shape::Null, Json::Null) => {}
        (Shape::Bool(one), Json::Bool(two)) => assert_eq!(one, *two),
        (Shape::Number(one), Json::Number(two)) => {
            assert_eq!(one.to_bits(), two.as_f64().unwrap().to_bits(), "{two}");
            let safe = two.as_i64().map(i64::unsigned_abs).or(two.as_u64());
            assert!(safe.is_none_or(|size| size < 1 << 53), "{two}");
        }
        (Shape::Exact(digits), Json::Number(two)) => {
            assert_eq!(digits, two.to_string());
            let size = two.as_i64().map(i64::unsigned_abs).or(two.as_u64());
            assert!(size.unwrap() >= 1 << 53);
            assert_eq!(Value::Exact(digits).as_number(), two.as_f64());
        }
        (Shape::Text(one), Json::String(two)) => assert_eq!(one, two),
        (Shape::Array, Json::Array(items)) => {
            assert_eq!(part.len(), items.len());
            for (index, item) in items.iter().enumerate() {
                assert_same(part.item(index).unwrap(), item);
            }
            assert!(part.item(items.len()).is_none());
        }
        (Shape::Object, Json::Object(map)) => {
            assert_eq!(part.len(), map.len());
            let keys: Vec<_> = part.entries().map(|(key, _)| key.to_owned()).collect();
            assert!(keys.iter().eq(map.keys()), "{keys:?}");
            for (index, (key, value)) in map.iter().enumerate() {
                let (_, entry) = part.entry(index).unwrap();
                assert_same(entry, value);
                assert!(part.find(key).unwrap().is_same(entry), "{key}");
                let other = format!("{key}\u{1}");
                assert_eq!(part.find(&other).is_some(), map.contains_key(&other));
            }
            assert!(part.entry(map.len()).is_none());
        }
        (_, json) => panic!("{part:?} is not {json}"),
    }
}

/// Reads a text both ways: the same value, or the same refusal.
#[track_caller]
fn check(text: &str) {
    let document = Document::parse(text);
    match serde_json::from_str::<Json>(text) {
        Ok(json) => {
            let document = document.unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_same(document.root(), &json);
            // What was counted before is what is used.
            let size = measure::measure(text, InterruptCheck::new(None))
                .ok()
                .unwrap();
            assert!(document.tables.decoded.len() <= size.decoded, "{text}");
            assert_eq!(document.tables.decoded.capacity(), size.decoded);
            assert_eq!(document.tables.words.capacity(), size.words);
        }
        Err(error) => {
            let refused = document.expect_err(text);
            assert_eq!(refused, DocumentError::Syntax(error.to_string()), "{text}");
        }
    }
}

#[test]
fn numbers_are_read_as_before() {
    for number in [
        "0",
        "-0",
        "-0.0",
        "0.0",
        "1",
        "-1",
        "10",
        "01",
        "-",
        "-01",
        "1.",
        ".5",
        "1.5",
        "-1.25e3",
        "1e5",
        "1E+5",
        "1e-5",
        "1e",
        "1e+",
        "0.1",
        "0.30000000000000004",
        "123456789012345",
        "1234567890123456",
        "9007199254740991",
        "9007199254740992",
        "9007199254740993",
        "-9007199254740991",
        "-9007199254740992",
        "-9007199254740993",
        "9223372036854775807",
        "9223372036854775808",
        "-9223372036854775808",
        "-9223372036854775809",
        "18446744073709551615",
        "18446744073709551616",
        "1e308",
        "1e309",
        "-1e999",
        "5e-324",
        "1e-400",
        "0e999",
        "1.7976931348623157e308",
        "0.000000000000001",
        "99999999999999.9",
        "1.00000000000000000000000000000000000001",
        "+1",
        "Infinity",
        "NaN",
        "0x10",
        "1 2",
    ] {
        check(number);
        check(&format!("[{number}, {number}]"));
        check(&format!("{{\"a\":{number}}}"));
    }
}

#[test]
fn strings_are_read_as_before() {
    for string in [
        r#""""#,
        r#""a""#,
        r#""é😀""#,
        r#""\n\t\r\b\f\/\\\"""#,
        r#""\u0041""#,
        r#""\u00e9x\u00E9""#,
        r#""\ud83d\ude00""#,
        r#""a\ud83d\ude00b""#,
        r#""\ud83d""#,
        r#""\ude00""#,
        r#""\ud83dx""#,
        r#""\ud83d\n""#,
        r#""\ud83d\ud83d""#,
        r#""\u12""#,
        r#""\u12g4""#,
        r#""\x""#,
        r#"""#,
        r#""a"#,
        r#""\"#,
        r#""\u"#,
        "\"\n\"",
        "\"\u{1}\"",
        "\"\u{7f}\"",
        r#""\u0000""#,
        r#""\\u0041""#,
        r#""\\""#,
        r#""\\\""#,
    ] {
        check(string);
        check(&format!("[{string},\"x\",{string}]"));
        check(&format!("{{{string}:1,\"b\":{string}}}"));
    }
    let long = "x".repeat(word::SHORT_TEXT);
    for long in [
        long.clone(),
        format!("{long}x"),
        format!("{long}\\n"),
        format!("{long}x\\n"),
    ] {
        check(&format!(r#"["{long}","{long}",{{"{long}":"{long}"}}]"#));
    }
}

#[test]
fn what_is_not_json_is_refused_in_the_same_words() {
    for text in [
        "",
        " ",
        "[",
        "]",
        "{",
        "}",
        "[1",
        "[1,",
        "[1,]",
        "[,1]",
        "[1 2]",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{a:1}",
        "{1:1}",
        "{\"a\" 1}",
        "nul",
        "nulll",
        "tru",
        "fals",
        "truex",
        "[1}",
        "{\"a\":1]",
        "[]]",
        "{}}",
        "1,",
        ",",
        "[\"a]",
        "[[],{},[{}],]",
        "{\"a\":1 \"b\":2}",
        "\u{feff}[]",
        " [ 1 , { \"a\" : [ ] } ] \n\t\r",
    ] {
        check(text);
    }
}

#[test]
fn a_document_is_nested_as_deep_as_before_and_no_deeper() {
    for depth in [1, 64, DOCUMENT_DEPTH, DOCUMENT_DEPTH + 1, 100_000] {
        check(&format!("{}{}", "[".repeat(depth), "]".repeat(depth)));
        check(&format!(
            "{}1{}",
            "{\"a\":".repeat(depth),
            "}".repeat(depth)
        ));
        check(&"[".repeat(depth));
    }
    let depth =
        |depth: usize| Document::parse(format!("{}{}", "[".repeat(depth), "]".repeat(depth)));
    assert!(depth(DOCUMENT_DEPTH).is_ok());
    assert!(depth(DOCUMENT_DEPTH + 1).is_err());
}

/// An object of keys from `spelled`, each with its place as its value.
fn object(spelled: impl Iterator<Item = String>) -> String {
    let entries = spelled.enumerate();
    let entries: Vec<_> = entries
        .map(|(place, key)| format!("\"{key}\":{place}"))
        .collect();
    format!("{{{}}}", entries.join(","))
}

#[test]
fn a_repeated_key_has_its_first_place_and_its_last_value() {
    let few = Document::parse(r#"{"a":1,"b":2,"\u0061":3}"#).unwrap();
    assert_eq!(few.root().len(), 2);
    check(r#"{"a":1,"b":2,"\u0061":3,"c":4,"b":5}"#);
    for count in [2, 8, 9, 10, 16, 17, 100, 3000] {
        for different in [1, 2, 7, 8, 9, 10, 50, 2999] {
            check(&object(
                (0..count).map(|place| format!("k{}", place % different)),
            ));
            check(&object((0..count).map(|place| {
                format!("\\u006b{}", (place * place) % different)
            })));
        }
    }
}

#[test]
fn keys_are_found_among_few_and_many() {
    for count in [0, 1, 7, 8, 9, 10, 1000, 5000] {
        check(&object((0..count).map(|place| format!("key{place}"))));
        check(&format!(
            "[{0},[{0},1],{0}]",
            object((0..count).map(|place| place.to_string()))
        ));
    }
}

#[test]
fn no_shape_takes_more_than_its_multiple_of_the_text() {
    let mut worst = 0.0_f64;
    for shape in worst::SHAPES {
        let text = worst::document(shape, 1 << 20);
        let size = text.len();
        let document = Document::parse(text).unwrap();
        let ratio = document.table_bytes() as f64 / size as f64;
        assert!(ratio <= 4.81, "{shape:?}: {ratio}");
        worst = worst.max(ratio);
    }
    assert!(
        worst > 4.0,
        "the table has no hostile shape any more: {worst}"
    );
    let keys = object((0..100_000).map(|place| format!("{place:x}")));
    let size = keys.len();
    let ratio = Document::parse(keys).unwrap().table_bytes() as f64 / size as f64;
    assert!(ratio <= 4.81, "{ratio}");
}

#[test]
fn a_value_of_the_largest_size_fits_whatever_its_shape() {
    for shape in worst::SHAPES {
        let text = worst::document(shape, 10 * 1024 * 1024);
        let size = measure::measure(&text, InterruptCheck::new(None))
            .ok()
            .unwrap();
        assert!(
            size.bytes() <= ExpressionLimits::DOCUMENT_BYTES,
            "{shape:?}"
        );
    }
}

#[test]
fn tables_at_the_limit_are_built_and_one_byte_more_is_not() {
    for shape in worst::SHAPES {
        let text: Arc<str> = worst::document(shape, 4096).into();
        let bytes = Document::parse(Arc::clone(&text)).unwrap().table_bytes();
        let read = |most| Document::parse_within(Arc::clone(&text), most, None);
        // Strings that are too long for a word are few, and counted for nothing.
        assert!(read(bytes).is_ok(), "{shape:?}");
        let error = read(bytes - 1).unwrap_err();
        let most = bytes - 1;
        assert_eq!(error, DocumentError::TooLarge { bytes, most }, "{shape:?}");
        assert!(crate::Error::from(error).is_limit());
    }
}

#[test]
fn the_limit_holds_before_anything_is_allocated() {
    // The tables of this would take 128 MiB.
    let text = worst::document(&("[", "0,", "0]"), 32 * 1024 * 1024);
    let error = Document::parse(text).unwrap_err();
    let DocumentError::TooLarge { bytes, most } = error else {
        panic!("{error}");
    };
    assert_eq!(
        (bytes / 1024 / 1024, most),
        (128, ExpressionLimits::DOCUMENT_BYTES)
    );
    let error = crate::Error::from(DocumentError::TooLarge { bytes, most });
    assert_eq!(error.code, "EXPRESSION_LIMIT");
    assert!(error.message.contains("67108864"), "{}", error.message);
}

#[test]
fn an_interrupt_stops_reading() {
    let interrupt = Interrupt::new();
    for shape in worst::SHAPES {
        let text: Arc<str> = worst::document(shape, 200_000).into();
        let read = |interrupt| {
            Document::parse_within(
                Arc::clone(&text),
                ExpressionLimits::DOCUMENT_BYTES,
                Some(interrupt),
            )
        };
        assert!(read(&interrupt).is_ok());
        let stopped = Interrupt::new();
        stopped.interrupt();
        assert_eq!(read(&stopped).unwrap_err(), DocumentError::Interrupted);
        assert!(crate::Error::from(DocumentError::Interrupted).is_interrupted());
    }
}

#[test]
fn both_passes_look_at_the_interrupt_as_they_go() {
    let text = worst::document(&("[", "[0],", "0]"), 200_000);
    let interrupt = Interrupt::new();
    interrupt.interrupt();
    let mut late = InterruptCheck::new(Some(&interrupt));
    late.next = 100_000;
    assert!(matches!(
        measure::measure(&text, late),
        Err(Stopped::Interrupted)
    ));
    let size = measure::measure(&text, InterruptCheck::new(None))
        .ok()
        .unwrap();
    let mut late = InterruptCheck::new(Some(&interrupt));
    late.next = 100_000;
    let built = Builder::new(&text, size, late).document();
    assert!(matches!(built, Err(Stopped::Interrupted)));
    let mut interrupt_check = InterruptCheck::new(Some(&interrupt));
    assert!(interrupt_check.at(0).is_err());
    assert_eq!(interrupt_check.next, BYTES_PER_LOOK);
}

#[test]
fn the_documents_of_one_evaluation_share_one_limit() {
    let text: Arc<str> = worst::document(&("[", "0,", "0]"), 10 * 1024 * 1024).into();
    let mut reader = DocumentReader::new(None);
    let first = reader.read(Arc::clone(&text)).unwrap();
    let together = DocumentError::TooLarge {
        bytes: 2 * first.table_bytes(),
        most: ExpressionLimits::DOCUMENT_BYTES,
    };
    assert_eq!(reader.read(text).unwrap_err(), together);
    assert_eq!(reader.count(&first).unwrap_err(), together);
    assert!(reader.read("[1]".into()).is_ok(), "there is room for less");
    assert!(DocumentReader::new(None).count(&first).is_ok());
}

#[test]
fn an_item_is_a_document_that_shares_the_whole() {
    let list = Document::parse(r#"[1,{"a":[2,3]}]"#).unwrap();
    let item = list.item(1).unwrap();
    assert!(Arc::ptr_eq(&list.tables, &item.tables));
    assert!(item.item(0).is_none() && list.item(2).is_none());
    let scope = Scope::new(&["trigger"], &[]);
    let limits = ExpressionLimits::default();
    let expression = Expression::compile("trigger.a[1]", &scope, &limits).unwrap();
    let value = expression.evaluate(&[Some(&item)], &limits).unwrap();
    assert_eq!(value.to_json().unwrap(), 3);
}

#[test]
fn a_value_is_as_small_as_it_was() {
    // What arrays and objects cost that an expression builds is counted by it.
    assert_eq!(size_of::<Value<'_>>(), 24);
}

/// JSON texts, some with repeated keys, odd spaces and odd spellings.
fn text() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        any::<bool>().prop_map(|value| value.to_string()),
        any::<i64>().prop_map(|value| value.to_string()),
        any::<u64>().prop_map(|value| value.to_string()),
        any::<f64>()
            .prop_filter("finite", |number| number.is_finite())
            .prop_map(|number| Json::from(number).to_string()),
        "-?(0|[1-9][0-9]{0,18})(\\.[0-9]{1,18})?([eE][+-]?[0-9]{1,2})?",
        string(),
    ];
    leaf.prop_recursive(5, 120, 24, |inner| {
        let space = "[ \n\t\r]{0,2}";
        let array = (prop::collection::vec(inner.clone(), 0..24), space)
            .prop_map(|(items, space)| format!("[{space}{}{space}]", items.join(",")));
        let entry = (string(), space, inner)
            .prop_map(|(key, space, value)| format!("{space}{key}{space}:{value}"));
        let object = prop::collection::vec(entry, 0..24)
            .prop_map(|entries| format!("{{{}}}", entries.join(",")));
        prop_oneof![array, object]
    })
}

/// Strings of few letters, so that keys come again, spelled in different ways.
fn string() -> impl Strategy<Value = String> {
    let letter = prop_oneof![
        4 => "[a-c]",
        1 => Just("\\u0061".to_owned()),
        1 => Just("\\n".to_owned()),
        1 => Just("é😀".to_owned()),
        1 => Just("\\ud83d\\ude00".to_owned()),
        1 => Just("\\\"".to_owned()),
    ];
    let letters = prop::collection::vec(letter, 0..4);
    letters.prop_map(|letters| format!("\"{}\"", letters.concat()))
}

/// A value as output has it: numbers as JavaScript writes them, integers by their digits.
fn written(json: &Json) -> String {
    match json {
        Json::Number(number) if number.is_f64() => crate::number::to_text(number.as_f64().unwrap()),
        Json::Array(items) => {
            let items: Vec<_> = items.iter().map(written).collect();
            format!("[{}]", items.join(","))
        }
        Json::Object(map) => {
            let entry = |(key, value)| format!("{}:{}", Json::from(key), written(value));
            let entries: Vec<_> = map
                .iter()
                .map(|(key, value)| (key.as_str(), value))
                .map(entry)
                .collect();
            format!("{{{}}}", entries.join(","))
        }
        other => other.to_string(),
    }
}

proptest! {
    #[test]
    fn a_document_is_what_serde_json_reads(text in text()) {
        check(&text);
    }

    #[test]
    fn a_text_that_was_cut_or_changed_is_read_or_refused_alike(
        text in text(),
        at in any::<prop::sample::Index>(),
        byte in prop::option::of("[ -~]"),
    ) {
        let mut text = text;
        let at = text.floor_char_boundary(at.index(text.len()));
        match byte {
            None => text.truncate(at),
            Some(byte) => text.insert_str(at, &byte),
        }
        check(&text);
    }

    #[test]
    fn what_is_read_is_written_as_it_was(text in text()) {
        let document = Document::parse(text.as_str()).unwrap();
        let mut shown = String::new();
        Value::of(document.root()).write_json(&mut shown).unwrap();
        prop_assert_eq!(shown, written(&serde_json::from_str(&text).unwrap()));
    }
}
