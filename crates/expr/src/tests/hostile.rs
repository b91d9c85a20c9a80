//! Hostile input: nothing may crash, run without end or overflow a small stack.

use serde_json::{Value as Json, json};

use super::generate::{Dice, expression, trigger};
use crate::{Document, Expression, ExpressionLimits, Scope, Template};

/// The stack that promises are made for.
const STACK: usize = 512 * 1024;

pub(super) fn on_small_stack(work: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new()
        .stack_size(STACK)
        .spawn(work)
        .unwrap();
    thread.join().unwrap();
}

/// Compiles and runs; gives the code of what went wrong.
fn run(source: &str, trigger: &Json) -> Result<String, &'static str> {
    let scope = Scope::new(&["trigger"], &["context.data"]);
    let limits = ExpressionLimits::default();
    let expression =
        Expression::compile(source, &scope, &limits).map_err(|problems| problems[0].code)?;
    let trigger = Document::from(trigger);
    let inputs = vec![Some(&trigger); expression.references().len()];
    let value = expression
        .evaluate(&inputs, &limits)
        .map_err(|error| error.code)?;
    let mut text = String::new();
    let _ = value.to_json();
    let _ = value.to_display_string();
    let _ = value.is_truthy();
    if value.is_undefined() {
        return Ok("undefined".to_owned());
    }
    value.write_json(&mut text).map_err(|error| error.code)?;
    Ok(text)
}

#[track_caller]
fn check(source: &str, expected: Result<&str, &'static str>) {
    let found = run(
        source,
        &json!({ "s": "x".repeat(100_000), "a": vec![1; 1000] }),
    );
    assert_eq!(
        found.as_ref().map(String::as_str).map_err(|code| *code),
        expected,
        "{source}"
    );
}

const LIMIT: Result<&str, &str> = Err("EXPRESSION_LIMIT");

#[test]
fn huge_arguments_end_at_once() {
    for source in [
        "'x'.repeat(1e9)",
        "'x'.repeat(2 ** 53)",
        "'x'.padStart(1e15)",
        "'x'.padEnd(Infinity)",
        "Array.from({ length: 1e15 })",
        "Array.from({ length: Infinity })",
        "Array.from({ length: 1e7 }, () => 1)",
        "trigger.a.flatMap(() => trigger.a).flatMap(() => trigger.a)",
        "trigger.a.map(() => trigger.a.map(() => trigger.a.map(() => 1)))",
        "trigger.a.map(() => trigger.s + 'y')",
        "trigger.a.map(() => trigger.s.toUpperCase())",
        "trigger.a.map(() => trigger.s.split(''))",
        "trigger.a.map(() => trigger.s.replaceAll('x', 'yy'))",
        "trigger.a.map(() => [...trigger.s])",
        "trigger.a.map(() => JSON.stringify(trigger.s))",
        "trigger.a.map(() => encodeURIComponent(trigger.s))",
        "trigger.a.map(() => trigger.a.join(trigger.s))",
        "trigger.a.map(() => trigger.a.map(() => trigger.s.includes('y')))",
        "trigger.a.map(() => trigger.a.map(() => trigger.s.length))",
        "trigger.a.map(() => trigger.a.map(() => trigger.s === (trigger.s.slice(1) + 'x')))",
        "trigger.a.map(() => trigger.a.map(() => trigger.s.lastIndexOf('y')))",
        "trigger.a.map(() => trigger.a.map(() => trigger.s.localeCompare(trigger.s)))",
        "trigger.a.map(() => trigger.a.map(() => Number(trigger.s)))",
        "trigger.a.map(() => trigger.a.map(() => parseInt(trigger.s, 36)))",
        "trigger.a.map(() => trigger.a.toSorted((x, y) => y - x))",
        "trigger.a.map(() => trigger.a.toSorted().concat(trigger.a).reverse())",
        "trigger.a.map(() => Object.entries(trigger.a))",
        "trigger.a.map(() => trigger.a.map(() => trigger.a.includes(2)))",
        "trigger.a.map(() => trigger.a.map(() => Math.max(...trigger.a)))",
        "trigger.a.map(() => trigger.a.map(() => ({ ...trigger.a })))",
        "trigger.a.reduce((text, x) => text + trigger.s, '')",
        "trigger.a.reduce((text, x) => text + text, 'x')",
        "trigger.a.reduce((list, x) => [...list, ...list], [1])",
        "trigger.a.reduce((list, x) => list.concat(list), [1])",
        "trigger.a.reduce((list) => [list], [])",
        "trigger.a.reduce((object) => ({ object }), {})",
        "trigger.a.slice(0, 100).reduce((list) => [list, list], []).flat(Infinity)",
        "String(trigger.a.slice(0, 100).reduce((list) => [list, list], []))",
        "JSON.stringify(trigger.a.slice(0, 100).reduce((list) => [list, list], []))",
        "trigger.a.slice(0, 100).reduce((list) => [list, list], []) == 1",
        "trigger.a.slice(0, 100).reduce((list) => [list, list], [])",
        "JSON.stringify(1, (key, value) => [value, value])",
        "JSON.stringify(trigger.a.map(() => ({})), Array.from({ length: 1000 }, (_, i) => i))",
        "trigger.a.map(() => JSON.parse(JSON.stringify(trigger.a), (key, value) => value))",
        "JSON.parse('['.repeat(100000))",
        "JSON.parse('['.repeat(1000) + ']'.repeat(1000))",
        "trigger.a.map(() => trigger.a.map(() => (0.1).toString(2) + (1e-300).toFixed(100)))",
        "trigger.a.map((x, i) => trigger.s.split('', i * 100))",
    ] {
        check(source, LIMIT);
    }
}

#[test]
fn large_but_reasonable_work_is_done() {
    check(
        "trigger.s.replaceAll('x', 'y').split('y').length",
        Ok("100001"),
    );
    check(
        "trigger.a.map(x => x + 1).filter(x => x > 1).reduce((a, b) => a + b, 0)",
        Ok("2000"),
    );
    check(
        "Array.from({ length: 20000 }, (_, i) => i).toSorted((a, b) => b - a)[0]",
        Ok("19999"),
    );
    check(
        "JSON.parse(JSON.stringify(Array.from({ length: 50000 }, (_, i) => i))).length",
        Ok("50000"),
    );
    check(
        "Object.keys(Object.fromEntries(Array.from({ length: 20000 }, (_, i) => ['k' + i, i]))).length",
        Ok("20000"),
    );
    check(
        "JSON.stringify({}, Array.from({ length: 100000 }, (_, i) => i))",
        Ok(r#""{}""#),
    );
    check(
        "trigger.s.replaceAll('x', 'é').replaceAll('é', 'yy').length",
        Ok("200000"),
    );
}

#[test]
fn inconsistent_comparators_do_no_harm() {
    for comparator in [
        "() => 1",
        "() => -1",
        "(a, b) => a > b",
        "(a, b) => (a * 7919 + b * 104729) % 3 - 1",
        "() => 'x'",
        "(a, b) => NaN",
    ] {
        let source = format!(
            "Array.from({{ length: 300 }}, (_, i) => i * 7919 % 301).sort({comparator}).length"
        );
        check(&source, Ok("300"));
    }
}

#[test]
fn the_deepest_expression_fits_a_small_stack() {
    on_small_stack(|| {
        let wrap = |open: &str, middle: &str, close: &str, depth: usize| {
            format!("{}{middle}{}", open.repeat(depth), close.repeat(depth))
        };
        let levels = "1 || 1 && 1 | 1 ^ 1 & 1 == 1 < 1 << 1 + 1 * 1 ** (";
        for depth in [5, 12, 30, 31, 32, 62, 63, 64, 65, 1000] {
            for (open, middle, close) in [
                ("(", "1", ")"),
                ("[", "1", "]"),
                ("!", "1", ""),
                ("Math.max(1, ", "1", ")"),
                ("[1].map(x => ", "x", ")"),
                ("[1].map(({ a = ", "1", " }) => a)"),
                ("[[1]].map(([x]) => ({ y: ", "x", " }).y)"),
                ("[2, 1].sort((a, b) => ", "a - b", ")"),
                ("'a'.replace('a', x => ", "x", ")"),
                ("`${", "1", "}`"),
                ("{ a: ", "1", "}"),
                ("({ [", "1", "]: 1 })"),
                ("1 ? 2 : ", "1", ""),
                ("trigger?.[", "0", "]"),
                ("[...", "[]", "]"),
                (levels, "1", ")"),
                ("1 + (", "1", ")"),
            ] {
                let source = wrap(open, middle, close, depth);
                let result = run(&source, &json!(1));
                if depth >= 65 {
                    assert_eq!(result, Err("EXPRESSION_LIMIT"), "{source}");
                }
                let template = serde_json::to_string(&format!("x {{{{ {source} }}}}")).unwrap();
                let _ = Template::compile(
                    &template,
                    &Scope::new(&["trigger"], &[]),
                    &ExpressionLimits::default(),
                );
            }
            let pattern = wrap("[", "x", "]", depth);
            let _ = run(&format!("[1].map(({pattern}) => x)"), &json!(1));
            let _ = run(&wrap("{ a: ", "x", "}", depth), &json!(1));
        }
    });
}

#[test]
fn the_deepest_values_fit_a_small_stack() {
    // Deeper than any reader of JSON makes it.
    let mut deep = json!(1);
    for level in 0..5000 {
        deep = if level % 2 == 0 {
            Json::Array(vec![deep])
        } else {
            Json::Object([("k".to_owned(), deep)].into_iter().collect())
        };
    }
    let deep: &'static Json = Box::leak(Box::new(deep));
    on_small_stack(move || {
        for source in [
            "trigger",
            "String(trigger)",
            "`${trigger}`",
            "trigger == 1",
            "trigger + ''",
            "JSON.stringify(trigger)",
            "[trigger].flat(Infinity)",
            "[trigger, trigger].sort()",
            "({ ...trigger })",
            "Number(trigger)",
            "JSON.stringify(trigger, null, 2)",
            "[trigger].join()",
            "trigger < 1",
            "({})[trigger]",
        ] {
            let _ = run(source, deep);
        }
        for (step, count) in [("[v]", 199), ("({ v })", 199), ("[v]", 100_000)] {
            let value = format!("Array.from({{ length: {count} }}).reduce(v => {step}, 1)");
            for source in [
                value.clone(),
                format!("String({value})"),
                format!("JSON.stringify({value})"),
                format!("JSON.parse(JSON.stringify({value}))"),
                format!("[{value}].flat(Infinity)"),
            ] {
                let _ = run(&source, &json!(1));
            }
        }
        let document = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(
            Template::compile(
                &document,
                &Scope::new(&[], &[]),
                &ExpressionLimits::default()
            )
            .unwrap()
            .is_constant()
        );
    });
}

const TOKENS: &[&str] = &[
    "trigger",
    ".",
    "?.",
    "[",
    "]",
    "(",
    ")",
    "{",
    "}",
    ",",
    ":",
    "?",
    "=>",
    "...",
    "+",
    "-",
    "**",
    "&&",
    "||",
    "??",
    "!",
    "~",
    "typeof ",
    " in ",
    "===",
    "<",
    ">>>",
    "1",
    "0.5",
    "0x",
    "1e",
    "'a'",
    "'",
    "\"",
    "`",
    "${",
    "x",
    "map",
    ".map(",
    "x => ",
    "({",
    "\\",
    "\n",
    "é",
    "😀",
    "/",
    "//",
    "=",
    "null",
    "undefined",
    "NaN",
    ".length",
    ".slice(",
    "Math.",
    "max(",
    "JSON.parse(",
    "context.data",
    "['a']",
    "{{",
    "}}",
    "_",
    "$",
    "\u{feff}",
    "\\ud800",
    "new ",
    "1_0",
    "0b1",
    ";",
    "@",
    "#",
];

#[test]
fn no_soup_of_tokens_panics() {
    on_small_stack(|| {
        let mut dice = Dice::new(7);
        let scope = Scope::new(&["trigger"], &["context.data"]);
        for _ in 0..60_000 {
            let soup: String = (0..1 + dice.below(24)).map(|_| dice.pick(TOKENS)).collect();
            let _ = run(&soup, &json!({ "a": [1, "x"] }));
            let document = serde_json::to_string(&format!("{{{{{soup}")).unwrap();
            if let Ok(template) = Template::compile(&document, &scope, &ExpressionLimits::default())
            {
                let _ = template.render(
                    &vec![None; template.references().len()],
                    &ExpressionLimits::default(),
                );
            }
        }
    });
}

#[test]
fn no_damaged_expression_panics() {
    on_small_stack(|| {
        let mut dice = Dice::new(11);
        for _ in 0..20_000 {
            let source = expression(&mut dice);
            let mut letters: Vec<char> = source.chars().collect();
            for _ in 0..=dice.below(3) {
                let at = dice
                    .below(letters.len().max(1))
                    .min(letters.len().saturating_sub(1));
                match dice.below(3) {
                    0 if !letters.is_empty() => drop(letters.remove(at)),
                    1 => letters.insert(at, dice.pick(TOKENS).chars().next().unwrap_or(' ')),
                    _ => letters.truncate(at),
                }
            }
            let damaged: String = letters.into_iter().collect();
            let _ = run(&damaged, &trigger(&mut dice));
            let _ = Template::compile(
                &damaged,
                &Scope::new(&["trigger"], &[]),
                &ExpressionLimits::default(),
            );
        }
    });
}

/// Any characters at all, most of them of the language.
fn noise(dice: &mut Dice) -> String {
    let letter = |dice: &mut Dice| match dice.below(4) {
        0 => char::from_u32(dice.below(0x11_0000) as u32).unwrap_or('\u{fffd}'),
        1 => char::from(dice.below(0x80) as u8),
        _ => dice.pick(TOKENS).chars().next().unwrap_or(' '),
    };
    (0..dice.below(60)).map(|_| letter(dice)).collect()
}

#[test]
fn any_text_compiles_or_is_refused_and_what_compiles_ends() {
    on_small_stack(|| {
        let mut dice = Dice::new(13);
        let data =
            json!({ "a": [1, "x", null, { "b": 2.5 }], "s": "é 😀", "n": 9007199254740993_u64 });
        for _ in 0..40_000 {
            let source = noise(&mut dice);
            let _ = run(&source, &data);
        }
    });
}

#[test]
fn any_document_compiles_or_is_refused_and_what_renders_is_json() {
    on_small_stack(|| {
        let mut dice = Dice::new(17);
        let (scope, limits) = (Scope::new(&["trigger"], &[]), ExpressionLimits::default());
        let data = json!({ "a": [1, "x", null], "s": "{{ 1 }}", "n": 1, "f": 0.5 });
        let data = Document::from(data);
        let mut rendered = 0;
        for _ in 0..20_000 {
            let source = match dice.below(3) {
                0 => noise(&mut dice),
                _ => expression(&mut dice),
            };
            let text = format!("{}{{{{ {source} }}}}{}", noise(&mut dice), noise(&mut dice));
            let mut document = json!({ "k": [text, noise(&mut dice)] }).to_string();
            if dice.below(4) == 0 {
                // Cut, so that it is hardly ever JSON.
                let at = dice.below(document.len());
                document.truncate(document.floor_char_boundary(at));
            }
            let Ok(template) = Template::compile(&document, &scope, &limits) else {
                continue;
            };
            let inputs = vec![Some(&data); template.references().len()];
            if let Ok(text) = template.render(&inputs, &limits) {
                // Read without building it, for it may be nested deeper than a reader builds.
                let read = serde_json::from_str::<&serde_json::value::RawValue>(&text);
                assert!(read.is_ok(), "{document}\n{text}");
                rendered += 1;
            }
        }
        assert!(rendered > 1000, "{rendered}");
    });
}
