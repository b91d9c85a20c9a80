//! Template documents.

use serde_json::{Value as Json, json};

use crate::{Document, ExpressionLimits, Reference, Scope, Template};

fn compile(document: &str) -> Template {
    Template::compile(
        document,
        &Scope::new(&["trigger"], &["secrets"]),
        &ExpressionLimits::default(),
    )
    .unwrap()
}

fn render(document: &str, trigger: &Json) -> Result<String, crate::Error> {
    let template = compile(document);
    let trigger = Document::from(trigger);
    let inputs = vec![Some(&trigger); template.references().len()];
    template.render(&inputs, &ExpressionLimits::default())
}

#[track_caller]
fn check(document: &str, trigger: Json, expected: &str) {
    assert_eq!(render(document, &trigger).unwrap(), expected);
}

#[test]
fn an_expression_alone_keeps_its_type() {
    let trigger = json!({ "n": 1.5, "o": { "b": 1, "a": [null, true] }, "s": "x\"y", "nil": null });
    check(r#""{{ trigger.n }}""#, trigger.clone(), "1.5");
    check(
        r#"{"a": "{{trigger.o}}" }"#,
        trigger.clone(),
        r#"{"a": {"b":1,"a":[null,true]} }"#,
    );
    check(r#"["{{ trigger.s }}"]"#, trigger.clone(), r#"["x\"y"]"#);
    check(r#""{{ trigger.nil }}""#, trigger.clone(), "null");
    check(r#""{{ 0 / 0 }}""#, trigger.clone(), "null");
    check(r#""{{ [undefined, 1] }}""#, trigger.clone(), "[null,1]");
    check(
        r#""{{ ({ a: undefined, b: 1 }) }}""#,
        trigger.clone(),
        r#"{"b":1}"#,
    );
    // Space around it makes it text.
    check(r#"" {{ trigger.n }}""#, trigger, r#"" 1.5""#);
}

#[test]
fn inside_text_values_become_text() {
    let trigger = json!({ "n": 1e21, "o": { "b": "q\"" }, "a": [1, null], "nil": null, "t": true });
    check(r#""n={{ trigger.n }}!""#, trigger.clone(), r#""n=1e+21!""#);
    check(
        r#""{{ trigger.o }} {{ trigger.a }}""#,
        trigger.clone(),
        r#""{\"b\":\"q\\\"\"} [1,null]""#,
    );
    check(r#""<{{ trigger.nil }}>""#, trigger.clone(), r#""<>""#);
    check(
        r#""{{ trigger.t }}{{ -0 }}{{ 0 / 0 }}""#,
        trigger,
        r#""true0NaN""#,
    );
}

#[test]
fn the_grammar_decides_where_an_expression_ends() {
    check(r#""{{ '}}' }}""#, json!(0), r#""}}""#);
    check(r#""{{ '{{' }}x""#, json!(0), r#""{{x""#);
    check(r#""{{ ({ a: { b: 1 }}) }}""#, json!(0), r#"{"a":{"b":1}}"#);
    check(r#""{{ {a: {b: 1}}}}""#, json!(0), r#"{"a":{"b":1}}"#);
    check(r#""{{ `${1}}}` }} it's""#, json!(0), r#""1}} it's""#);
    check(r#""a }} b {{ 1 }} } }}""#, json!(0), r#""a }} b 1 } }}""#);
}

#[test]
fn rendered_text_is_not_rendered_again() {
    check(
        r#""{{ trigger }}""#,
        json!("{{ 1 + 1 }}"),
        r#""{{ 1 + 1 }}""#,
    );
    check(
        r#""x{{ trigger }}""#,
        json!("{{ 1 + 1 }}"),
        r#""x{{ 1 + 1 }}""#,
    );
    check(r#"{"{{ 1 }}": "{{ 2 }}"}"#, json!(0), r#"{"{{ 1 }}": 2}"#);
}

#[test]
fn what_passes_through_is_unchanged() {
    let text = r#"{"z":9007199254740993,"10":1,"a":[18446744073709551615,-9223372036854775808],"2":"é\u0001"}"#;
    let trigger: Json = serde_json::from_str(text).unwrap();
    check(r#""{{ trigger }}""#, trigger.clone(), text);
    check(
        r#""{{ [trigger.z, ...trigger.a] }}""#,
        trigger.clone(),
        "[9007199254740993,18446744073709551615,-9223372036854775808]",
    );
    check(
        r#""id {{ trigger.z }}""#,
        trigger.clone(),
        r#""id 9007199254740993""#,
    );
    check(
        r#""{{ trigger.z + 0 }}""#,
        trigger.clone(),
        "9007199254740992",
    );
    check(
        r#""{{ JSON.stringify(trigger.z) }}""#,
        trigger,
        r#""9007199254740992""#,
    );
    // Constants are copied as they are written, in a document with expressions too.
    check(
        r#"{"n": 1.000e2, "big": 123456789012345678901234567890, "s": "\u0041", "x": "{{ 1 }}"}"#,
        json!(0),
        r#"{"n": 1.000e2, "big": 123456789012345678901234567890, "s": "\u0041", "x": 1}"#,
    );
    check(r#""{{ '\\ud83d' }}""#, json!(0), "\"\u{fffd}\"");
}

#[test]
fn constants() {
    for document in [
        "1",
        r#""text""#,
        r#"{"a": [1.50, "}}", {}, []], "{{ key }}": null}"#,
        "  [ ]  ",
    ] {
        let template = compile(document);
        assert!(template.is_constant(), "{document}");
        assert_eq!(
            template.render(&[], &ExpressionLimits::default()).unwrap(),
            document
        );
    }
    assert!(!compile(r#"["{{ 1 }}"]"#).is_constant());
}

/// A text that the quick look takes for constant is constant to the compiler as well.
#[test]
fn one_look_shows_most_documents_to_hold_no_expression() {
    for document in ["{}", "null", r#"{"a":{"b":[1.50,"{ x }}"]}}"#, r#""}} {""#] {
        let constant = Template::constant(document).unwrap();
        assert!(compile(document).is_constant(), "{document}");
        let rendered = constant.render(&[], &ExpressionLimits::default()).unwrap();
        assert_eq!(rendered, document);
    }
    for document in [
        r#""{{ 1 }}""#,
        r#""\u007b{ 1 }}""#,
        r#""\u007b\u007b 1 }}""#,
    ] {
        assert!(!compile(document).is_constant(), "{document}");
        assert!(Template::constant(document).is_none(), "{document}");
    }
}

#[test]
fn references_are_collected_over_the_document() {
    let template = compile(
        r#"{"a": "{{ trigger.x }} {{ secrets.KEY }}", "b": ["{{ secrets['KEY'] + trigger }}"]}"#,
    );
    let key = Reference::Entry {
        table: "secrets".into(),
        key: "KEY".into(),
    };
    assert_eq!(
        template.references(),
        [Reference::Value("trigger".into()), key]
    );
    let (trigger, secret) = (
        Document::from(json!({ "x": 1 })),
        Document::from(json!("s")),
    );
    let rendered = template
        .render(
            &[Some(&trigger), Some(&secret)],
            &ExpressionLimits::default(),
        )
        .unwrap();
    assert_eq!(rendered, r#"{"a": "1 s", "b": ["s[object Object]"]}"#);
}

#[test]
fn undefined_is_an_error_that_names_the_place() {
    let error = render(
        r#"{"p": [{"a/b~": "x {{ trigger.user?.name }}"}]}"#,
        &json!({}),
    )
    .unwrap_err();
    assert_eq!(error.code, "TEMPLATE_UNDEFINED");
    assert_eq!(error.pointer.as_deref(), Some("/p/0/a~1b~0"));
    assert_eq!(error.offset, 5);
    assert!(
        error
            .message
            .contains("`trigger.user?.name` at /p/0/a~1b~0"),
        "{}",
        error.message
    );
    check(
        r#""{{ trigger.user?.name ?? 'nobody' }}""#,
        json!({}),
        r#""nobody""#,
    );
    let error = render(r#"["{{ trigger.a.b }}"]"#, &json!({})).unwrap_err();
    assert_eq!(
        (error.code, error.pointer.as_deref()),
        ("EXPRESSION_ERROR", Some("/0"))
    );
    assert!(
        error
            .message
            .contains("Cannot read properties of undefined (reading 'b')")
    );
}

#[test]
fn problems_name_the_string_they_are_in() {
    let document = r#"{"a": ["{{ nope }} {{ nay }}", "ok {{ 1"], "b": "\n{{ 1 + }}", "c": "{{ }}", "d": "{{ 1 } }}"}"#;
    let scope = Scope::new(&["trigger"], &[]);
    let problems = Template::compile(document, &scope, &ExpressionLimits::default()).unwrap_err();
    let shown: Vec<_> = problems
        .iter()
        .map(|one| {
            (
                one.pointer.as_str(),
                one.problem.code,
                one.problem.start,
                one.problem.end,
            )
        })
        .collect();
    assert_eq!(
        shown,
        [
            ("/a/0", "EXPRESSION_UNKNOWN_NAME", 3, 7),
            ("/a/0", "EXPRESSION_UNKNOWN_NAME", 14, 17),
            ("/a/1", "EXPRESSION_SYNTAX", 3, 5),
            ("/b", "EXPRESSION_SYNTAX", 8, 9),
            ("/c", "EXPRESSION_SYNTAX", 3, 4),
            ("/d", "EXPRESSION_SYNTAX", 5, 6),
        ]
    );
}

#[test]
fn a_document_that_is_no_json_is_a_problem() {
    for document in [
        "",
        "{",
        "[1,]",
        r#"{"a" 1}"#,
        "nul",
        "1 2",
        r#"["a"#,
        "[1}",
        r#"{"a":1]"#,
        "{1:2}",
    ] {
        let problems = Template::compile(
            document,
            &Scope::new(&[], &[]),
            &ExpressionLimits::default(),
        )
        .unwrap_err();
        assert_eq!(problems[0].problem.code, "EXPRESSION_SYNTAX", "{document}");
    }
}
