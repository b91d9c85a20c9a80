//! The cost audit: compares the work that every function, method and operator really does with
//! what it pays. A factor over four fails.
//!
//! The cases come from the tables of the language, so nothing that is added there is left out;
//! the counters are those of the primitives that do the work.

use std::collections::BTreeMap;

use crate::ast::Kind;
use crate::worst::{self, WorstCase};
use crate::{
    Document, Expression, ExpressionLimits, Meter, Scope, Template, functions, parser, work,
};

/// How many times more than paid for the work may be.
const FACTOR: u64 = 4;
/// Bytes that are read for a step.
const BYTES_PER_STEP: u64 = 64;
/// What does not grow with the arguments.
const CONSTANT: u64 = 16 * 1024;

const SIZES: [usize; 3] = [1024, 16 * 1024, 256 * 1024];

/// The work and the payment of one evaluation, or `None` if it is no expression.
pub(super) struct Cost {
    read: u64,
    built: u64,
    steps: u64,
    built_bytes: u64,
    ended: bool,
}

impl Cost {
    pub(super) fn of(source: &str, trigger: &Document, limits: &ExpressionLimits) -> Option<Self> {
        let scope = Scope::new(&["trigger"], &[]);
        let expression = Expression::compile(source, &scope, limits).ok()?;
        let inputs = vec![Some(trigger); expression.references().len()];
        let mut meter = Meter::default();
        work::count::take();
        let ended = expression
            .evaluate_metered(&inputs, limits, &mut meter)
            .is_ok();
        let (read, built) = work::count::take();
        Some(Self {
            read,
            built,
            steps: meter.steps,
            built_bytes: meter.built_bytes as u64,
            ended,
        })
    }

    pub(super) fn check(&self, case: &str, size: usize) -> Result<(), String> {
        let paid = self.steps * BYTES_PER_STEP;
        if self.read > FACTOR * paid + CONSTANT {
            return Err(format!(
                "{case} of {size}: {} bytes read for {} steps",
                self.read, self.steps
            ));
        }
        if self.built > FACTOR * self.built_bytes + CONSTANT {
            return Err(format!(
                "{case} of {size}: {} bytes built, {} paid",
                self.built, self.built_bytes
            ));
        }
        Ok(())
    }
}

fn cost(source: &str, trigger: &Document) -> Option<Cost> {
    Cost::of(source, trigger, &ExpressionLimits::default())
}

/// Audits the cases whose names `wanted` takes; every one must end in a value at least once.
fn audit(wanted: impl Fn(&str) -> bool) {
    let mut failures = Vec::new();
    let mut ended: BTreeMap<String, bool> = BTreeMap::new();
    for size in SIZES {
        let trigger = worst::trigger(size, 10);
        for case in worst::cases() {
            if !wanted(&case.name) {
                continue;
            }
            let Some(cost) = cost(&case.once(), &trigger) else {
                continue;
            };
            *ended.entry(case.name.clone()).or_default() |= cost.ended;
            failures.extend(cost.check(&case.call, size).err());
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    let never: Vec<_> = ended.iter().filter(|(_, ended)| !**ended).collect();
    assert!(never.is_empty(), "these only failed: {never:?}");
    assert!(!ended.is_empty());
}

fn is_method(name: &str, kind: &str) -> bool {
    let prefix = format!("{kind}.");
    name.strip_prefix(&prefix).is_some_and(|method| {
        let kinds = functions::methods_by_receiver();
        kinds
            .iter()
            .any(|(known, _, names)| *known == kind && names.contains(&method))
    })
}

#[test]
fn methods_of_strings_pay_for_what_they_do() {
    audit(|name| is_method(name, "String"));
}

#[test]
fn methods_of_arrays_pay_for_what_they_do() {
    audit(|name| is_method(name, "Array"));
}

#[test]
fn functions_pay_for_what_they_do() {
    audit(|name| functions::function_names().any(|function| function == name));
}

#[test]
fn operators_and_the_rest_pay_for_what_they_do() {
    audit(|name| {
        let method = ["String", "Array"].iter().any(|kind| is_method(name, kind));
        !method && functions::function_names().all(|function| function != name)
    });
}

#[test]
fn the_audit_has_a_case_for_everything_in_the_tables() {
    let cases = worst::cases();
    let has = |name: &str| cases.iter().any(|case| case.name == name);
    for name in functions::function_names() {
        assert!(has(name), "{name}");
    }
    for (kind, _, names) in functions::methods_by_receiver() {
        for name in names {
            assert!(has(&format!("{kind}.{name}")), "{kind}.{name}");
        }
    }
}

/// A number for each kind of node: a new kind must be given one, and a case that has it.
fn kind_number(kind: &Kind) -> usize {
    match kind {
        Kind::Undefined => 0,
        Kind::Null => 1,
        Kind::Bool(_) => 2,
        Kind::Number(_) => 3,
        Kind::String(_) => 4,
        Kind::Template(_) => 5,
        Kind::Array(_) => 6,
        Kind::Object(_) => 7,
        Kind::Name(_) | Kind::Input(_) | Kind::Local(_) => 8,
        Kind::Access(_) => 9,
        Kind::Call(_) => 10,
        Kind::Unary(..) => 11,
        Kind::Binary(..) => 12,
        Kind::Power(_) => 13,
        Kind::Logical(..) => 14,
        Kind::Conditional(_) => 15,
    }
}

#[test]
fn the_audit_has_a_case_for_every_kind_of_node() {
    let literals = ["undefined", "null", "true", "1", "'x'", "trigger"];
    let calls = worst::cases().into_iter().map(|case| case.call);
    let mut seen = [false; 16];
    for source in calls.chain(literals.map(str::to_owned)) {
        if let Ok(root) = parser::parse(&source, &ExpressionLimits::default()) {
            seen[kind_number(&root.kind)] = true;
        }
    }
    assert_eq!(seen, [true; 16]);
}

#[test]
fn templates_pay_for_what_they_write() {
    let scope = Scope::new(&["trigger"], &[]);
    for size in SIZES {
        let trigger = worst::trigger(size, 10);
        for value in ["ascii", "latin", "controls", "numbers", "object", "longs"] {
            for document in [
                format!(r#""{{{{ trigger.{value} }}}}""#),
                format!(r#"["x{{{{ trigger.{value} }}}}", "{{{{ trigger }}}}"]"#),
                format!(r#"{{"a": "{{{{ ['\\ud800' + trigger.{value}] }}}}"}}"#),
            ] {
                let template =
                    Template::compile(&document, &scope, &ExpressionLimits::default()).unwrap();
                let mut meter = Meter::default();
                work::count::take();
                let text = template
                    .render_metered(&[Some(&trigger)], &ExpressionLimits::default(), &mut meter)
                    .unwrap();
                let (read, built) = work::count::take();
                let paid = FACTOR * BYTES_PER_STEP * meter.steps + CONSTANT;
                assert!(
                    read + built <= paid,
                    "{document}: {read} + {built} > {paid}"
                );
                assert!(text.len() as u64 <= paid, "{document}");
            }
        }
    }
}

#[test]
fn escapes_pay_for_the_bytes_that_are_written() {
    let trigger = worst::trigger(100_000, 0);
    let cost = cost("JSON.stringify(trigger.controls)", &trigger).unwrap();
    assert!(
        cost.ended && cost.built_bytes >= 600_000,
        "{}",
        cost.built_bytes
    );
    let template = r#""x{{ trigger.controls }}""#;
    let scope = Scope::new(&["trigger"], &[]);
    let template = Template::compile(template, &scope, &ExpressionLimits::default()).unwrap();
    let render = |built_bytes| {
        let limits = ExpressionLimits {
            built_bytes,
            ..ExpressionLimits::default()
        };
        template.render(&[Some(&trigger)], &limits)
    };
    assert!(render(300_002).is_ok());
    assert!(render(300_000).unwrap_err().is_limit());
}

#[test]
fn the_heaviest_evaluations_pay_for_what_they_build() {
    let trigger = Document::null();
    for case in worst::heavy() {
        let cost = cost(&case.once(), &trigger).unwrap();
        cost.check(&case.name, 0).unwrap();
    }
}

#[test]
fn what_an_attacker_found_is_paid_for() {
    let trigger = worst::trigger(1024 * 1024, 400_000);
    for call in [
        "'x'.includes(trigger.ascii)",
        "trigger.ascii.includes(trigger.same)",
        "trigger.ascii.lastIndexOf(trigger.same)",
        "trigger.ascii in trigger.object",
        "JSON.stringify(trigger.object, [trigger.ascii])",
        "trigger.ascii < trigger.same",
        "w.includes(trigger.latin)",
        "trigger.numbers.slice(60000, 60001)",
        "trigger.numbers.indexOf(1, 60000)",
    ] {
        let case = WorstCase {
            name: String::new(),
            call: call.to_owned(),
        };
        let source = case.repeated();
        let cost = cost(&source, &trigger).unwrap();
        assert!(!cost.ended, "{call}");
        cost.check(call, 1024 * 1024).unwrap();
    }
}

/// Bytes of texts are reached by paying; what goes around that is only where it says why.
#[test]
fn functions_reach_texts_only_by_paying() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut folders = vec![root.join("functions"), root.join("eval")];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            for line in text.lines() {
                if ["unpaid", "Text::Shared", "Text::Wide"]
                    .iter()
                    .any(|it| line.contains(it))
                {
                    found.push(line.trim().to_owned());
                }
            }
        }
    }
    // Ten characters at most.
    let allowed = ["text.slice(0, end, run.budget)?.lossy_unpaid().into_owned()"];
    assert_eq!(found, allowed);
}
