//! Documents that mean harm, on a small stack: every one ends in problems or in
//! a definition, never in a panic, an overflow or memory without bound.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;
use windlass_core::definition::{
    Definition, DefinitionFormat, DefinitionLimits, DefinitionSource, MAX_PROBLEMS, Options,
    Parsed, Problem, SCHEMA_COST, parse,
};
use windlass_core::plan::Plan;

/// The stack that promises are made for.
const STACK: usize = 512 * 1024;

const EXAMPLE: &str = include_str!("definition_example.json");

fn on_small_stack<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    on_stack(STACK, work)
}

fn on_stack<T: Send + 'static>(size: usize, work: impl FnOnce() -> T + Send + 'static) -> T {
    std::thread::Builder::new()
        .stack_size(size)
        .spawn(work)
        .expect("a thread")
        .join()
        .expect("no panic")
}

fn read(
    text: &[u8],
    format: DefinitionFormat,
    limits: DefinitionLimits,
) -> Result<Parsed<'_>, Vec<Problem>> {
    let source = DefinitionSource {
        name: "flow".to_owned(),
        text,
        format,
    };
    let options = Options {
        limits,
        ..Options::default()
    };
    let result = parse(&source, &options);
    let problems = match &result {
        Ok(parsed) => &parsed.warnings,
        Err(problems) => problems,
    };
    assert!(result.is_ok() || !problems.is_empty());
    assert!(problems.len() <= 2 * (MAX_PROBLEMS + 1));
    for problem in problems {
        assert!(problem.line >= 1 && problem.column >= 1 && problem.length >= 1);
        assert!(!problem.render(text).is_empty());
    }
    assert!(problems.is_sorted_by_key(|problem| (problem.line, problem.column)));
    result
}

fn codes(result: &Result<Parsed<'_>, Vec<Problem>>) -> Vec<&'static str> {
    match result {
        Ok(parsed) => parsed.warnings.iter().map(|problem| problem.code).collect(),
        Err(problems) => problems.iter().map(|problem| problem.code).collect(),
    }
}

fn check(text: impl Into<Vec<u8>>, format: DefinitionFormat, expected: &'static [&'static str]) {
    let text = text.into();
    on_small_stack(move || {
        let shown = String::from_utf8_lossy(&text[..text.len().min(60)]).into_owned();
        let result = read(&text, format, DefinitionLimits::default());
        assert_eq!(codes(&result), expected, "{shown}");
    });
}

fn definition(nodes: &str) -> String {
    format!("{{\"id\":\"flow\",\"nodes\":[{nodes}]}}")
}

fn chain(count: usize) -> String {
    let nodes: Vec<_> = (0..count)
        .map(|at| format!("{{\"id\":\"n{at}\",\"actionType\":\"core.echo\"}}"))
        .collect();
    definition(&nodes.join(","))
}

#[test]
fn deep_nesting_is_refused() {
    for (open, close) in [("[", "]"), ("{\"a\":", "}"), ("[{\"a\":", "}]")] {
        let deep = open.repeat(100_000) + "1" + &close.repeat(100_000);
        for format in [DefinitionFormat::Json, DefinitionFormat::Yaml] {
            let text = format!("{{\"id\":\"flow\",\"vars\":{{\"x\":{deep}}},\"nodes\":[]}}");
            check(text, format, &["NESTING_LIMIT"]);
        }
    }
    check(
        "[".repeat(100_000),
        DefinitionFormat::Json,
        &["WRONG_TYPE", "NESTING_LIMIT"],
    );
    check(
        "- ".repeat(100_000),
        DefinitionFormat::Yaml,
        &["NESTING_LIMIT"],
    );
    check(
        "? ".repeat(100_000),
        DefinitionFormat::Yaml,
        &["YAML_SYNTAX"],
    );
    let mut indented = String::new();
    for depth in 0..2_000 {
        let _ = writeln!(indented, "{}a:", " ".repeat(depth));
    }
    check(indented, DefinitionFormat::Yaml, &["NESTING_LIMIT"]);
}

#[test]
fn nesting_works_at_its_limit() {
    // The parameters of a node stand at depth 4.
    for (depth, expected) in [(61, &[][..]), (62, &["NESTING_LIMIT"])] {
        let value = "[".repeat(depth) + &"]".repeat(depth);
        let node = format!("{{\"id\":\"a\",\"actionType\":\"x\",\"parameters\":{value}}}");
        check(definition(&node), DefinitionFormat::Json, expected);
        check(definition(&node), DefinitionFormat::Yaml, expected);
    }
}

#[test]
fn bodies_are_read_as_deep_as_nesting_allows() {
    let mut node = r#"{"id":"n","actionType":"x"}"#.to_owned();
    for _ in 0..15 {
        node =
            format!(r#"{{"id":"n","while":{{"condition":"true","body":{{"nodes":[{node}]}}}}}}"#);
    }
    check(definition(&node), DefinitionFormat::Json, &["BODY_DEPTH"]);
    on_small_stack(move || {
        let limits = DefinitionLimits {
            body_depth: 15,
            ..DefinitionLimits::default()
        };
        assert!(read(definition(&node).as_bytes(), DefinitionFormat::Json, limits).is_ok());
    });
}

#[test]
fn hostile_expressions_are_refused() {
    let deep = |open: &str| open.repeat(16_000 / open.len());
    // Without optimisation the expression parser's frames are several times as
    // large; the promise is about what is shipped.
    let stack = if cfg!(debug_assertions) {
        8 * STACK
    } else {
        STACK
    };
    for open in [
        "(", "[", "{a:", "!", "- ", "a?", "a=>", "`${", "f(", "typeof ",
    ] {
        let edge = format!("{{\"targetNode\":\"a\",\"condition\":\"{}\"}}", deep(open));
        let node = format!(
            "{{\"id\":\"b\",\"actionType\":\"x\",\"edges\":[{edge}],\"parameters\":\"{{{{ {} }}}}\"}}",
            deep(open)
        );
        let text = definition(&format!("{{\"id\":\"a\",\"actionType\":\"x\"}},{node}"));
        on_stack(stack, move || {
            let problems = read(
                text.as_bytes(),
                DefinitionFormat::Json,
                DefinitionLimits::default(),
            );
            let found = codes(&problems);
            assert!(
                found.iter().all(|code| code.starts_with("EXPRESSION_")),
                "{found:?}"
            );
            assert!(problems.is_err());
        });
    }
}

#[test]
fn many_wrong_templates_are_bounded() {
    for (count, code) in [(10_000, "TOO_MANY_PROBLEMS"), (10_001, "EXPRESSION_LIMIT")] {
        let value = "{{x}}".repeat(count);
        let node = format!("{{\"id\":\"a\",\"actionType\":\"x\",\"parameters\":\"{value}\"}}");
        let text = definition(&node);
        let problems = read(
            text.as_bytes(),
            DefinitionFormat::Json,
            DefinitionLimits::default(),
        )
        .expect_err("bad");
        assert_eq!(problems.last().map(|problem| problem.code), Some(code));
    }
}

#[test]
fn what_is_not_text_is_refused() {
    let text = b"{\"id\":\n \"fl\xFFow\"}".to_vec();
    on_small_stack(move || {
        let problems = read(&text, DefinitionFormat::Json, DefinitionLimits::default())
            .expect_err("not UTF-8");
        let problem = &problems[0];
        assert_eq!(problem.code, "INVALID_UTF8");
        assert_eq!((problem.line, problem.column), (2, 5));
    });
    check(
        b"{\"id\":\"a\0b\"}".to_vec(),
        DefinitionFormat::Json,
        &["JSON_SYNTAX"],
    );
    check(b"\0".to_vec(), DefinitionFormat::Json, &["JSON_SYNTAX"]);
    check(b"".to_vec(), DefinitionFormat::Json, &["JSON_SYNTAX"]);
    check(b"".to_vec(), DefinitionFormat::Yaml, &["YAML_SYNTAX"]);
}

#[test]
fn a_byte_order_mark_is_accepted() {
    let text = format!("\u{FEFF}{EXAMPLE}");
    check(text, DefinitionFormat::Json, &[]);
    check(
        "\u{FEFF}id: flow\nnodez: []",
        DefinitionFormat::Yaml,
        &["MISSING_KEY", "UNKNOWN_KEY"],
    );
}

#[test]
fn long_texts_cost_no_more_than_their_length() {
    let long = "x".repeat(8 * 1024 * 1024);
    let text = format!("{{\"id\":\"{long}\",\"{long}\":1,\"nodes\":[]}}");
    check(
        text,
        DefinitionFormat::Json,
        &["INVALID_ID", "UNKNOWN_KEY", "NO_NODES"],
    );
    let text = format!("id: {long}\nnodes: []\n");
    check(text, DefinitionFormat::Yaml, &["INVALID_ID", "NO_NODES"]);
}

#[test]
fn sizes_work_at_their_limit() {
    let text = chain(3);
    for (bytes, nodes, expected) in [
        (text.len(), 3, None),
        (text.len() - 1, 3, Some("DEFINITION_TOO_LARGE")),
        (text.len(), 2, Some("NODE_LIMIT")),
    ] {
        let limits = DefinitionLimits {
            bytes,
            nodes,
            ..DefinitionLimits::default()
        };
        let result = read(text.as_bytes(), DefinitionFormat::Json, limits);
        assert_eq!(codes(&result).first().copied(), expected);
    }
}

#[test]
fn nodes_of_bodies_count() {
    let body =
        r#"{"id":"a","forEach":{"items":[],"body":{"nodes":[{"id":"b","actionType":"x"}]}}}"#;
    for (nodes, expected) in [(2, None), (1, Some("NODE_LIMIT"))] {
        let limits = DefinitionLimits {
            nodes,
            ..DefinitionLimits::default()
        };
        let text = definition(body);
        let result = read(text.as_bytes(), DefinitionFormat::Json, limits);
        assert_eq!(codes(&result).first().copied(), expected);
    }
}

#[test]
fn problems_are_bounded_and_the_rest_is_counted() {
    let nodes = vec!["{\"id\":\"a b\"}"; 5_000].join(",");
    let problems = read(
        definition(&nodes).as_bytes(),
        DefinitionFormat::Json,
        DefinitionLimits::default(),
    )
    .expect_err("there are problems");
    assert_eq!(problems.len(), MAX_PROBLEMS + 1);
    let last = problems.last().expect("a last problem");
    assert_eq!(last.code, "TOO_MANY_PROBLEMS");
    // Each has a wrong id and no kind, and all but the first repeat an id.
    assert_eq!(last.message, "14899 more problems are not shown");
}

#[test]
fn long_cycles_and_dangling_edges_are_found_quickly() {
    let count = 20_000;
    let nodes: Vec<_> = (0..count)
        .map(|at| {
            let next = (at + 1) % count;
            format!(
                "{{\"id\":\"n{at}\",\"actionType\":\"x\",\"dependsOn\":[\"n{next}\",\"m{at}\"]}}"
            )
        })
        .collect();
    let text = definition(&nodes.join(","));
    on_small_stack(move || {
        let problems = read(
            text.as_bytes(),
            DefinitionFormat::Json,
            DefinitionLimits::default(),
        )
        .expect_err("bad");
        assert!(
            problems
                .iter()
                .any(|problem| problem.code == "UNKNOWN_NODE")
        );
    });
}

#[test]
fn json_read_as_yaml_is_the_same_definition() {
    let [json, yaml] = [DefinitionFormat::Json, DefinitionFormat::Yaml].map(|format| {
        let parsed = read(EXAMPLE.as_bytes(), format, DefinitionLimits::default()).expect("valid");
        let stored: serde_json::Value = serde_json::from_slice(&parsed.json).expect("JSON");
        let typed = serde_json::to_value(&parsed.definition).expect("JSON");
        (stored, typed)
    });
    assert_eq!(json, yaml);
}

#[test]
fn an_example_cut_at_every_byte_is_refused() {
    on_small_stack(|| {
        let text = EXAMPLE.trim_end();
        assert!(
            read(
                text.as_bytes(),
                DefinitionFormat::Json,
                DefinitionLimits::default()
            )
            .is_ok()
        );
        for end in 0..text.len() {
            assert!(
                read(
                    &text.as_bytes()[..end],
                    DefinitionFormat::Json,
                    DefinitionLimits::default()
                )
                .is_err()
            );
            let _ = read(
                &text.as_bytes()[..end],
                DefinitionFormat::Yaml,
                DefinitionLimits::default(),
            );
        }
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_bytes(text in proptest::collection::vec(any::<u8>(), 0..200)) {
        on_small_stack(move || {
            for format in [DefinitionFormat::Json, DefinitionFormat::Yaml] {
                let _ = read(&text, format, DefinitionLimits::default());
            }
        });
    }

    #[test]
    fn any_text_of_yaml_signs(text in "[\\[\\]{}:,&*!|>?#a1 \"'\n\t-]{0,60}") {
        on_small_stack(move || drop(read(text.as_bytes(), DefinitionFormat::Yaml, DefinitionLimits::default())));
    }

    #[test]
    fn an_example_with_bytes_changed(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        yaml in any::<bool>(),
    ) {
        let mut text = EXAMPLE.as_bytes().to_vec();
        for (index, byte) in changes {
            let at = index.index(text.len());
            text[at] = byte;
        }
        let format = if yaml { DefinitionFormat::Yaml } else { DefinitionFormat::Json };
        on_small_stack(move || drop(read(&text, format, DefinitionLimits::default())));
    }

    #[test]
    fn an_example_with_parts_moved(
        moves in proptest::collection::vec(
            (any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0usize..40),
            1..6,
        ),
        yaml in any::<bool>(),
    ) {
        let mut text = EXAMPLE.as_bytes().to_vec();
        for (from, to, length) in moves {
            let from = from.index(text.len());
            let part = text[from..text.len().min(from + length)].to_vec();
            let to = to.index(text.len());
            text.splice(to..to, part);
        }
        let format = if yaml { DefinitionFormat::Yaml } else { DefinitionFormat::Json };
        on_small_stack(move || drop(read(&text, format, DefinitionLimits::default())));
    }
}

#[test]
fn names_and_variables_work_at_their_limit_and_not_past_it() {
    let named = |kind: &str, name: &str| {
        let node = match kind {
            "actionType" => format!(r#"{{"id":"n","actionType":"{name}"}}"#),
            _ => format!(r#"{{"id":"n","waitForSignal":{{"name":"{name}"}}}}"#),
        };
        definition(&node)
    };
    for kind in ["actionType", "signal"] {
        check(named(kind, &"k".repeat(128)), DefinitionFormat::Json, &[]);
        check(
            named(kind, &"k".repeat(129)),
            DefinitionFormat::Json,
            &["INVALID_ID"],
        );
        // Neither the message nor the work grows with what was given.
        let huge = named(kind, &"k".repeat(8 << 20));
        check(huge, DefinitionFormat::Json, &["INVALID_ID"]);
    }
    let limit = DefinitionLimits::DEFAULT.vars_bytes as usize;
    let vars = |bytes: usize| {
        let value = "v".repeat(bytes - 3);
        format!(
            r#"{{"id":"flow","vars":{{"x":"{value}"}},"nodes":[{{"id":"n","actionType":"a"}}]}}"#
        )
    };
    check(vars(limit), DefinitionFormat::Json, &[]);
    check(vars(limit + 1), DefinitionFormat::Json, &["VARS_LIMIT"]);
}

#[test]
fn a_long_key_is_not_repeated_in_each_problem_inside_it() {
    let twice = vec![r#""a":1"#; 200].join(",");
    let key = "k".repeat(4 << 20);
    let text = format!(
        r#"{{"id":"flow","vars":{{"{key}":{{{twice}}}}},"nodes":[{{"id":"n","actionType":"a"}}]}}"#
    );
    let problems = read(
        text.as_bytes(),
        DefinitionFormat::Json,
        DefinitionLimits::default(),
    )
    .expect_err("problems");
    assert!(problems.len() >= 100);
    let bytes: usize = problems
        .iter()
        .map(|problem| problem.pointer.len() + problem.message.len())
        .sum();
    assert!(bytes < 100_000, "{bytes}");
}

#[test]
fn a_stored_definition_with_names_of_before_still_loads() {
    let text = r#"{"id":"flow","displayName":"a\nb","labels":{"my team":"x"},"nodes":[
        {"id":"n","actionType":"my action","requires":["a gpu"]},
        {"id":"w","waitForSignal":{"name":"manager approval"}}]}"#;
    assert!(
        read(
            text.as_bytes(),
            DefinitionFormat::Json,
            DefinitionLimits::default()
        )
        .is_err()
    );
    let stored: Definition = serde_json::from_str(text).expect("it is read as it is");
    let plan = Plan::build(stored).expect("a plan");
    assert_eq!(plan.signals(), ["manager approval"]);
}

/// Definitions whose nodes wait for signals with these schemas, checked at a cost of 1,000 each.
fn with_schemas(schemas: impl Iterator<Item = String>) -> Result<usize, Vec<&'static str>> {
    static CHECKED: AtomicUsize = AtomicUsize::new(0);
    CHECKED.store(0, Ordering::SeqCst);
    let nodes = schemas.enumerate().map(|(at, schema)| {
        format!(r#"{{"id":"n{at}","waitForSignal":{{"name":"go","schema":{schema}}}}}"#)
    });
    let nodes: Vec<_> = nodes.collect();
    let text = format!(r#"{{"id":"a","nodes":[{}]}}"#, nodes.join(","));
    let source = DefinitionSource {
        name: "flow".to_owned(),
        text: text.as_bytes(),
        format: DefinitionFormat::Json,
    };
    let options = Options {
        check_schema: Some(|_| {
            CHECKED.fetch_add(1, Ordering::SeqCst);
            Ok(1_000)
        }),
        ..Options::default()
    };
    match parse(&source, &options) {
        Ok(_) => Ok(CHECKED.load(Ordering::SeqCst)),
        Err(problems) => Err(problems.iter().map(|problem| problem.code).collect()),
    }
}

#[test]
fn schemas_of_one_definition_are_bounded_together_and_equal_ones_count_once() {
    let most = usize::try_from(SCHEMA_COST).expect("small") / 1_000;
    let different = |count: usize| (0..count).map(|n| format!(r#"{{"const":{n}}}"#));
    assert_eq!(with_schemas(different(most)), Ok(most));
    assert_eq!(with_schemas(different(most + 1)), Err(vec!["SCHEMA_LIMIT"]));
    // The problem is reported once, and nothing more is compiled.
    assert_eq!(
        with_schemas(different(10 * most)),
        Err(vec!["SCHEMA_LIMIT"])
    );
    let equal = (0..10 * most).map(|_| "true".to_owned());
    assert_eq!(with_schemas(equal), Ok(1));
}

#[test]
fn a_node_requires_a_bounded_number_of_labels() {
    let requires = |count: usize| {
        let labels: Vec<_> = (0..count).map(|n| format!("\"l{n}\"")).collect();
        let labels = labels.join(",");
        let text = format!(
            r#"{{"id":"a","nodes":[{{"id":"n","actionType":"core.echo","requires":[{labels}]}}]}}"#
        );
        codes(&read(
            text.as_bytes(),
            DefinitionFormat::Json,
            DefinitionLimits::DEFAULT,
        ))
    };
    assert_eq!(requires(64), Vec::<&str>::new());
    assert_ne!(requires(65), Vec::<&str>::new());
}
