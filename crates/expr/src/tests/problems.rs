//! What is refused when compiling, and what references a compiled expression has.

use crate::{Expression, ExpressionLimits, Problem, Reference, Scope};

fn scope() -> Scope {
    Scope::new(
        &["trigger", "$", "vars", "now"],
        &["context.data", "secrets"],
    )
    .with_value("order")
}

fn problems(source: &str) -> Vec<Problem> {
    match Expression::compile(source, &scope(), &ExpressionLimits::default()) {
        Ok(_) => Vec::new(),
        Err(problems) => problems,
    }
}

/// The first problem's code, the source it points at, and a part of its message.
#[track_caller]
fn check(source: &str, code: &str, at: &str, message: &str) {
    let problems = problems(source);
    let problem = problems
        .first()
        .unwrap_or_else(|| panic!("{source} compiles"));
    assert_eq!(problem.code, code, "{source}: {problem:?}");
    assert_eq!(
        &source[problem.start..problem.end],
        at,
        "{source}: {problem:?}"
    );
    assert!(problem.message.contains(message), "{source}: {problem:?}");
}

#[test]
fn syntax() {
    check("1 +", "EXPRESSION_SYNTAX", "", "the end");
    check("(1", "EXPRESSION_SYNTAX", "", "expected `)`");
    check("[1 2]", "EXPRESSION_SYNTAX", "2", "expected `,`");
    check("'abc", "EXPRESSION_SYNTAX", "'abc", "not closed");
    check(
        "1 ?? 2 || 3",
        "EXPRESSION_SYNTAX",
        "1 ?? 2 || 3",
        "parentheses",
    );
    check("-1 ** 2", "EXPRESSION_SYNTAX", "-1", "parentheses");
    check("08", "EXPRESSION_SYNTAX", "08", "cannot start with 0");
    check("1 # 2", "EXPRESSION_SYNTAX", "#", "not part");
    check("", "EXPRESSION_SYNTAX", "", "the end");
}

#[test]
fn javascript_that_is_left_out() {
    for (source, at, message) in [
        ("trigger.a = 1", "=", "==="),
        ("trigger.a += 1", "+=", "assignment"),
        ("trigger.a++", "++", "assignment"),
        ("1, 2", ",", "comma"),
        ("1; 2", ";", "statements"),
        ("if (1) 2", "if", "condition ? a : b"),
        ("new Date()", "new", "now"),
        ("this.x", "this", "this"),
        ("function () {}", "function", "arrow"),
        ("x => x", "=>", "argument of a method"),
        ("[x => x]", "=>", "argument of a method"),
        ("/a/.test('a')", "/", "regular expressions"),
        ("eval('1')", "eval", "text"),
        ("[].map(x => { return x })", "{", "({ … })"),
        ("[1,,2]", ",", "holes"),
        ("10n", "10n", "BigInt"),
        ("void 0", "void", "undefined"),
        ("delete trigger.a", "delete", "cannot be changed"),
        ("1 instanceof 2", "instanceof", "typeof"),
        ("`a``b`", "`", "tagged"),
        ("await 1", "await", "functions"),
        ("trigger['a' + 1]()", "()", "written out"),
        ("trigger.a.b()()", "()", "can be called"),
        ("trigger.constructor", ".constructor", "constructor"),
        ("trigger['__proto__']", "['__proto__']", "__proto__"),
        ("''.prototype", ".prototype", "prototype"),
        ("trigger.toString", ".toString", "toString"),
        ("({ __proto__: 1 })", "1", "__proto__"),
        ("({ f() { } })", "(", "methods"),
        ("Math", "Math", "no value"),
        ("[Number]", "Number", "no value"),
        ("Math.max", "Math.max", "no value"),
        ("'a'.slice(x => x)", "", "no function here"),
        ("[].map(1, x => x)", "", "no function here"),
        ("[].map(x => x, y => y)", "y => y", "one function"),
        ("[].map((a = b, b) => a)", "b", "before it is bound"),
        ("trigger(1)", "trigger", "data"),
        ("1 // one", "//", "comments"),
    ] {
        check(source, "EXPRESSION_NOT_ALLOWED", at, message);
    }
}

#[test]
fn unknown_names_come_with_the_nearest_one() {
    check(
        "triger.a",
        "EXPRESSION_UNKNOWN_NAME",
        "triger",
        "did you mean `trigger`?",
    );
    check(
        "[1].map(item => itm)",
        "EXPRESSION_UNKNOWN_NAME",
        "itm",
        "`item`",
    );
    check(
        "number('1')",
        "EXPRESSION_UNKNOWN_NAME",
        "number",
        "`Number`",
    );
    check(
        "context.dta.a",
        "EXPRESSION_UNKNOWN_NAME",
        "context.dta",
        "`context.data`",
    );
    assert_eq!(problems("zzzzzz")[0].suggestion, None);
    assert_eq!(problems("odrer")[0].suggestion.as_deref(), Some("order"));
    // A parameter is out of sight after its arrow.
    check(
        "[1].map(x => x) + x",
        "EXPRESSION_UNKNOWN_NAME",
        "x",
        "no name `x`",
    );
}

#[test]
fn unknown_methods() {
    check(
        "trigger.a.includs(1)",
        "EXPRESSION_UNKNOWN_METHOD",
        ".includs",
        "`includes`",
    );
    check(
        "trigger.a.push(1)",
        "EXPRESSION_UNKNOWN_METHOD",
        ".push",
        "concat",
    );
    check(
        "trigger.a.forEach(x => x)",
        "EXPRESSION_UNKNOWN_METHOD",
        ".forEach",
        "map",
    );
    check(
        "trigger.s.match('x')",
        "EXPRESSION_UNKNOWN_METHOD",
        ".match",
        "regular expressions",
    );
    check(
        "Math.random()",
        "EXPRESSION_UNKNOWN_METHOD",
        "Math.random()",
        "uuid",
    );
    check(
        "Math.maxx(1)",
        "EXPRESSION_UNKNOWN_METHOD",
        "Math.maxx(1)",
        "`Math.max`",
    );
    check(
        "Object.freeze(1)",
        "EXPRESSION_UNKNOWN_METHOD",
        "Object.freeze(1)",
        "Object.freeze",
    );
    check(
        "Math.TAU",
        "EXPRESSION_UNKNOWN_METHOD",
        "Math.TAU",
        "Math.TAU",
    );
}

#[test]
fn keys_of_tables_are_constants() {
    for source in [
        "context.data[trigger.a]",
        "context.data",
        "context",
        "secrets",
        "context.data.map(x => x)",
    ] {
        assert_eq!(
            problems(source)[0].code,
            "EXPRESSION_KEY_NOT_CONSTANT",
            "{source}"
        );
    }
    check(
        "[secrets['a' + 'b']]",
        "EXPRESSION_KEY_NOT_CONSTANT",
        "secrets['a' + 'b']",
        "secrets['name']",
    );
}

#[test]
fn every_problem_is_reported() {
    let codes: Vec<_> = problems("[nope, trigger.constructor, [].push(other)]")
        .iter()
        .map(|one| one.code)
        .collect();
    let expected = [
        "EXPRESSION_UNKNOWN_NAME",
        "EXPRESSION_NOT_ALLOWED",
        "EXPRESSION_UNKNOWN_METHOD",
        "EXPRESSION_UNKNOWN_NAME",
    ];
    assert_eq!(codes, expected);
}

#[test]
fn references_are_static_and_share_slots() {
    let source = "context.data['a b'].x + trigger.y + context.data.c + context?.data?.['a b'] + secrets.KEY + trigger.z + \
                  [1].map(vars => vars)";
    let expression = Expression::compile(source, &scope(), &ExpressionLimits::default()).unwrap();
    let entry = |table: &str, key: &str| Reference::Entry {
        table: table.into(),
        key: key.into(),
    };
    let expected = [
        entry("context.data", "a b"),
        Reference::Value("trigger".into()),
        entry("context.data", "c"),
        entry("secrets", "KEY"),
    ];
    assert_eq!(expression.references(), expected);
    let shown: Vec<_> = expression
        .reference_offsets()
        .iter()
        .map(|at| &source[*at..*at + 7])
        .collect();
    assert_eq!(shown, ["context", "trigger", "context", "secrets"]);
    assert_eq!(expression.source(), source);
}

#[test]
fn expressions_are_shared_between_threads() {
    fn sendable<T: Send + Sync + Clone>() {}
    sendable::<Expression>();
    sendable::<crate::Template>();
}
