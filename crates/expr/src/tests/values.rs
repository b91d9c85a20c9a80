//! What leaves the language, errors, and the language's own additions.

use serde_json::{Value as Json, json};

use crate::{Document, Error, Expression, ExpressionLimits, Scope};

fn compile(source: &str) -> Expression {
    Expression::compile(
        source,
        &Scope::new(&["trigger"], &[]),
        &ExpressionLimits::default(),
    )
    .unwrap()
}

fn evaluate(source: &str, trigger: &Json) -> Result<Json, Error> {
    let expression = compile(source);
    let trigger = Document::from(trigger);
    let inputs = vec![Some(&trigger); expression.references().len()];
    expression
        .evaluate(&inputs, &ExpressionLimits::default())?
        .to_json()
}

#[track_caller]
fn check(source: &str, expected: Json) {
    assert_eq!(
        evaluate(source, &json!(null)).unwrap(),
        expected,
        "{source}"
    );
}

#[test]
fn errors_read_like_javascript_and_know_their_place() {
    for (source, offset, message) in [
        (
            "1 + trigger.a.b.c",
            13,
            "Cannot read properties of undefined (reading 'b')",
        ),
        (
            "trigger['a'][0]",
            12,
            "Cannot read properties of undefined (reading '0')",
        ),
        (
            "trigger.a.trim()",
            9,
            "Cannot read properties of undefined (reading 'trim')",
        ),
        ("trigger.n.trim()", 9, "number.trim is not a function"),
        ("[...trigger.n]", 4, "number is not iterable"),
        (
            "'x' in trigger.n",
            7,
            "Cannot use 'in' operator to search in number",
        ),
        (
            "[].reduce((a, b) => a)",
            2,
            "Reduce of empty array with no initial value",
        ),
        ("'a'.repeat(-1)", 3, "Invalid count value: -1"),
        (
            "[null].map(({ x }) => x)",
            6,
            "Cannot destructure null as it is empty",
        ),
        (
            "JSON.parse('x')",
            0,
            "Unexpected token 'x' in JSON at position 0",
        ),
        ("'abc'.trim", 5, "trim is a method"),
    ] {
        let error = evaluate(source, &json!({ "n": 1 })).unwrap_err();
        assert_eq!(
            (error.code, error.offset, error.message.contains(message)),
            ("EXPRESSION_ERROR", offset, true),
            "{source}: {error:?}"
        );
    }
}

#[test]
fn missing_inputs_are_undefined() {
    let expression = compile("trigger === undefined");
    assert!(
        expression
            .evaluate(&[None], &ExpressionLimits::default())
            .unwrap()
            .is_truthy()
    );
    assert!(
        expression
            .evaluate(&[], &ExpressionLimits::default())
            .unwrap()
            .is_truthy()
    );
    assert!(
        compile("trigger")
            .evaluate(&[None], &ExpressionLimits::default())
            .unwrap()
            .is_undefined()
    );
}

#[test]
fn values_leave_as_json() {
    check(
        "[1, 1.5, -0, 1e300, NaN, 2 ** 53, undefined, { a: undefined, b: 'é' }]",
        json!([1, 1.5, 0, 1e300, null, 9_007_199_254_740_992_i64 as f64, null, { "b": "é" }]),
    );
    let expression = compile("undefined");
    let value = expression
        .evaluate(&[], &ExpressionLimits::default())
        .unwrap();
    assert_eq!(value.to_json().unwrap_err().code, "EXPRESSION_ERROR");
    assert_eq!(
        value.write_json(&mut String::new()).unwrap_err().code,
        "EXPRESSION_ERROR"
    );
    assert_eq!(value.to_display_string().unwrap(), "undefined");
    let expression = compile("['\\ud83d', '\\u0001\"']");
    let mut text = String::new();
    expression
        .evaluate(&[], &ExpressionLimits::default())
        .unwrap()
        .write_json(&mut text)
        .unwrap();
    assert_eq!(text, "[\"\u{fffd}\",\"\\u0001\\\"\"]");
}

#[test]
fn prototypes_do_not_exist() {
    check(
        "['toString' in {}, {}['to' + 'String'] === undefined, [].length]",
        json!([false, true, 0]),
    );
    let data = json!({ "constructor": "mine", "k": "constructor" });
    assert_eq!(
        evaluate("trigger[trigger.k]", &data).unwrap(),
        json!("mine")
    );
    assert_eq!(
        evaluate("typeof trigger['proto' + 'type']", &data).unwrap(),
        json!("undefined")
    );
}

#[test]
fn durations() {
    check(
        "[duration('15m'), duration('1h30m'), duration('2d'), duration('1w'), duration('250ms'), duration('1.5s')]",
        json!([900_000, 5_400_000, 172_800_000, 604_800_000, 250, 1500]),
    );
    check(
        "[duration('-1m'), duration('1h 5s'), duration(42)]",
        json!([-60_000, 3_605_000, 42]),
    );
    for source in [
        "duration('')",
        "duration('5')",
        "duration('5x')",
        "duration('m')",
        "duration(null)",
        "duration('1.2.3s')",
    ] {
        assert_eq!(
            evaluate(source, &json!(0)).unwrap_err().code,
            "EXPRESSION_ERROR",
            "{source}"
        );
    }
}

#[test]
fn dates() {
    check("date.parse('1970-01-01')", json!(0));
    check(
        "date.parse('2024-02-29T12:30:15.250Z')",
        json!(1_709_209_815_250_i64),
    );
    check(
        "date.parse('2024-02-29T12:30+02:00') === date.parse('2024-02-29T10:30:00Z')",
        json!(true),
    );
    check("date.parse('1969-12-31T23:59:59.999999Z')", json!(-1));
    check("date.format(0)", json!("1970-01-01T00:00:00.000Z"));
    check(
        "date.format(-62198755200000)",
        json!("-000001-01-01T00:00:00.000Z"),
    );
    check(
        "date.format('2024-03-01')",
        json!("2024-03-01T00:00:00.000Z"),
    );
    check(
        "date.add('2024-02-28T23:00:00Z', duration('1h'))",
        json!("2024-02-29T00:00:00.000Z"),
    );
    check(
        "date.add('2023-12-31', '1d')",
        json!("2024-01-01T00:00:00.000Z"),
    );
    check(
        "date.diff('2024-03-01', '2024-02-01') / duration('1d')",
        json!(29),
    );
    check(
        "['year', 'month', 'week', 'day', 'hour', 'minute', 'second'].map(u => date.startOf('2024-05-16T12:34:56.789Z', u))",
        json!([
            "2024-01-01T00:00:00.000Z",
            "2024-05-01T00:00:00.000Z",
            "2024-05-13T00:00:00.000Z",
            "2024-05-16T00:00:00.000Z",
            "2024-05-16T12:00:00.000Z",
            "2024-05-16T12:34:00.000Z",
            "2024-05-16T12:34:56.000Z"
        ]),
    );
    check(
        "['2024-05-16T12:34:56.789Z'].map(d => [date.year(d), date.month(d), date.day(d), date.weekday(d), date.hour(d), date.minute(d), date.second(d), date.millisecond(d)])[0]",
        json!([2024, 5, 16, 4, 12, 34, 56, 789]),
    );
    for wrong in [
        "'2024-13-01'",
        "'2024-02-30'",
        "'yesterday'",
        "''",
        "null",
        "1e17",
        "'2024-01-01T25:00Z'",
        "'2024-1-1'",
    ] {
        let error = evaluate(&format!("date.parse({wrong})"), &json!(0)).unwrap_err();
        assert_eq!(error.code, "EXPRESSION_ERROR", "{wrong}");
    }
}
