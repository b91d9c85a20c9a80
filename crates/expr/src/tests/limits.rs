//! Each limit at the limit and one past it.

use serde_json::{Value as Json, json};

use crate::{Document, Expression, ExpressionLimits, Scope, Template};

fn compiles(source: &str, limits: &ExpressionLimits) -> Result<Expression, &'static str> {
    let scope = Scope::new(&["trigger"], &[]);
    Expression::compile(source, &scope, limits).map_err(|problems| problems[0].code)
}

fn evaluates(
    source: &str,
    trigger: &Json,
    limits: &ExpressionLimits,
) -> Result<Json, &'static str> {
    let expression = compiles(source, &ExpressionLimits::default()).unwrap();
    let trigger = Document::from(trigger);
    let inputs = vec![Some(&trigger); expression.references().len()];
    let value = expression
        .evaluate(&inputs, limits)
        .map_err(|error| error.code)?;
    value.to_json().map_err(|error| error.code)
}

const LIMIT: Result<(), &str> = Err("EXPRESSION_LIMIT");

#[test]
fn source_bytes() {
    let limits = ExpressionLimits {
        source_bytes: 10,
        ..ExpressionLimits::default()
    };
    assert!(compiles("1 + 234567", &limits).is_ok());
    assert_eq!(compiles("1 + 2345678", &limits).map(drop), LIMIT);
    let document = |source: &str| {
        Template::compile(
            &format!("\"{{{{{source}}}}}\""),
            &Scope::new(&[], &[]),
            &limits,
        )
    };
    let code = |source: &str| {
        document(source)
            .map(drop)
            .map_err(|all| all[0].problem.code)
    };
    for fits in [
        "1 + 234567",
        "'12345678'",
        "`12345678`",
        "`1234${5}`",
        "[1,2,3,45]",
        "{a:{b:12}}",
        "  1 + 234567   ",
    ] {
        assert_eq!(fits.trim().len(), 10, "{fits}");
        assert_eq!(code(fits), Ok(()), "{fits}");
    }
    for longer in [
        "1 + 2345678",
        "'123456789'",
        "`123456789`",
        "`1234${56}`",
        "[1,2,3,456]",
        "{a:{b:123}}",
        " 1 + 2345678 ",
        "1 + 23456789",
    ] {
        assert_eq!(code(longer), LIMIT, "{longer}");
    }
    // The error of one that is never closed says that, however much follows.
    assert_eq!(
        Template::compile("\"{{ 1               \"", &Scope::new(&[], &[]), &limits).unwrap_err()
            [0]
        .problem
        .code,
        "EXPRESSION_SYNTAX"
    );
    // The text around an expression does not count.
    let text = format!("\"{} {{{{ 1 }}}} {}\"", "x".repeat(100), "y".repeat(100));
    assert!(Template::compile(&text, &Scope::new(&[], &[]), &limits).is_ok());
}

/// `depth` levels of nesting, in every way the source can nest.
fn nested(depth: usize) -> Vec<String> {
    let wrap = |open: &str, middle: &str, close: &str| {
        format!("{}{middle}{}", open.repeat(depth), close.repeat(depth))
    };
    vec![
        wrap("(", "1", ")"),
        wrap("[", "1", "]"),
        wrap("!", "1", ""),
        wrap("- ", "1", ""),
        wrap("Number(", "1", ")"),
        wrap("1 ? ", "1", " : 2"),
        wrap("1 ? 2 : ", "1", ""),
        wrap("`${", "1", "}`"),
        wrap("trigger[", "0", "]"),
    ]
}

#[test]
fn nesting() {
    let limits = ExpressionLimits::default();
    for source in nested(64) {
        assert!(compiles(&source, &limits).is_ok(), "{source}");
    }
    for source in nested(65) {
        assert_eq!(compiles(&source, &limits).map(drop), LIMIT, "{source}");
    }
    // Long is not deep.
    for source in [
        ["1"; 4000].join("+"),
        ["1"; 4000].join("**"),
        ["1"; 2000].join("||"),
        format!("trigger{}", "?.a".repeat(4000)),
    ] {
        assert!(compiles(&source, &limits).is_ok(), "{source}");
    }
}

/// The least number of steps with which an expression evaluates.
fn price(source: &str) -> u64 {
    let (mut least, mut most) = (0, 1_000_000);
    while least < most {
        let middle = (least + most) / 2;
        let limits = ExpressionLimits {
            steps: middle,
            ..ExpressionLimits::default()
        };
        match evaluates(source, &json!(null), &limits) {
            Err("EXPRESSION_LIMIT") => least = middle + 1,
            _ => most = middle,
        }
    }
    least
}

#[test]
fn steps_are_counted_one_by_one() {
    assert_eq!(price("1"), 1);
    assert_eq!(price("1 + 2"), 3);
    assert_eq!(price("[1, 2].map(x => x)"), 10);
    let many = "Array.from({ length: 1000 }, (_, i) => i).map(x => x * 2).length";
    assert!((6000..8000).contains(&price(many)), "{}", price(many));
}

#[test]
fn built_bytes_are_counted() {
    let limits = ExpressionLimits {
        built_bytes: 1000,
        ..ExpressionLimits::default()
    };
    assert!(evaluates("'x'.repeat(900).length", &json!(null), &limits).is_ok());
    assert_eq!(
        evaluates("'x'.repeat(1001).length", &json!(null), &limits).map(drop),
        LIMIT
    );
    // What is only read costs nothing.
    let large = json!({ "text": "x".repeat(100_000), "list": vec![1; 10_000] });
    assert_eq!(
        evaluates(
            "trigger.text.slice(5, 90000).length + trigger.list.length",
            &large,
            &limits
        ),
        Ok(json!(99_995))
    );
    assert_eq!(
        evaluates("[...trigger.list].length", &large, &limits).map(drop),
        LIMIT
    );
}

#[test]
fn an_input_of_any_size_leaves_as_it_is() {
    let large = Json::Array(vec![Json::Null; 1_500_000]);
    assert_eq!(
        evaluates("trigger", &large, &ExpressionLimits::default()),
        Ok(large.clone())
    );
}

#[test]
fn a_rendering_is_limited_as_a_whole() {
    let scope = Scope::new(&["trigger"], &[]);
    let holes = ["\"{{ 'x'.repeat(300) }}\""; 3].join(",");
    let template =
        Template::compile(&format!("[{holes}]"), &scope, &ExpressionLimits::default()).unwrap();
    let render = |built_bytes| {
        template.render(
            &[],
            &ExpressionLimits {
                built_bytes,
                ..ExpressionLimits::default()
            },
        )
    };
    assert!(render(900).is_ok());
    let error = render(899).unwrap_err();
    assert_eq!(
        (error.code, error.pointer.as_deref()),
        ("EXPRESSION_LIMIT", Some("/2"))
    );
    let template = Template::compile(
        r#"["{{ trigger }}", "{{ trigger }}"]"#,
        &scope,
        &ExpressionLimits::default(),
    )
    .unwrap();
    let trigger = Document::from(json!("x".repeat(1000)));
    let render = |built_bytes| {
        template.render(
            &[Some(&trigger)],
            &ExpressionLimits {
                built_bytes,
                ..ExpressionLimits::default()
            },
        )
    };
    // Nothing is built, but what is written down is bounded by twice as much.
    assert!(render(1002).is_ok());
    assert_eq!(render(1001).unwrap_err().code, "EXPRESSION_LIMIT");
}

#[test]
fn what_may_be_built_may_be_written() {
    let limits = ExpressionLimits::default();
    let source = format!(r#""{{{{ 'x'.repeat({}) }}}}""#, limits.built_bytes);
    let template = Template::compile(&source, &Scope::new(&[], &[]), &limits).unwrap();
    let text = template.render(&[], &limits).unwrap();
    assert_eq!(text.len(), limits.built_bytes + 2);
}
