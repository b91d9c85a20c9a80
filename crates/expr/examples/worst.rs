//! The slowest evaluations within the limits: `cargo run --release -p windlass-expr --example
//! worst`. Every case of the audit is repeated for a twentieth of the limit's steps at three
//! sizes; the slowest are then repeated to the limit. Linux only, for its processor times.

use std::collections::BTreeSet;

use windlass_expr::{Expression, Limits, Meter, Scope, worst};

const SIZES: [usize; 3] = [16, 1024, 256 * 1024];
const SHOWN: usize = 60;

struct Measured {
    name: String,
    source: String,
    size: usize,
    milliseconds: f64,
    steps: u64,
}

impl Measured {
    fn per_million_steps(&self) -> f64 {
        self.milliseconds * 1e6 / self.steps.max(1) as f64
    }
}

fn main() {
    let only = std::env::args().nth(1);
    let mut all = Vec::new();
    for size in SIZES {
        let trigger = worst::trigger(size, 400_000);
        for case in worst::cases() {
            if only.as_ref().is_some_and(|only| !case.name.contains(only)) {
                continue;
            }
            let limits = Limits {
                steps: Limits::DEFAULT.steps / 20,
                ..Limits::DEFAULT
            };
            if let Some(measured) = measure(&case.name, case.repeated(), size, &trigger, &limits)
                && measured.milliseconds > 0.3
            {
                all.push(measured);
            }
        }
    }
    println!("{} cases", all.len());
    all.sort_by(|one, two| two.per_million_steps().total_cmp(&one.per_million_steps()));
    let mut seen = BTreeSet::new();
    for measured in &all {
        if seen.len() == SHOWN {
            break;
        }
        if !seen.insert(&measured.name) {
            continue;
        }
        let trigger = worst::trigger(measured.size, 400_000);
        let full = measure(
            &measured.name,
            measured.source.clone(),
            measured.size,
            &trigger,
            &Limits::DEFAULT,
        );
        let full = full.map_or(0.0, |full| full.milliseconds);
        let source: String = measured.source.chars().take(90).collect();
        println!(
            "{full:8.1} ms  {:8.1} ms/Msteps ({:.1} ms, {} steps)  {:>7}  {}  {source}",
            measured.per_million_steps(),
            measured.milliseconds,
            measured.steps,
            measured.size,
            measured.name,
        );
    }
}

fn measure(
    name: &str,
    source: String,
    size: usize,
    trigger: &serde_json::Value,
    limits: &Limits,
) -> Option<Measured> {
    let scope = Scope::new(&["trigger"], &[]);
    let expression = Expression::compile(&source, &scope, limits).ok()?;
    let inputs = vec![Some(trigger); expression.references().len()];
    let mut meter = Meter::default();
    let begun = processor_time();
    drop(expression.evaluate_metered(&inputs, limits, &mut meter));
    let milliseconds = (processor_time() - begun) / 1e6;
    Some(Measured {
        name: name.to_owned(),
        source,
        size,
        milliseconds,
        steps: meter.steps,
    })
}

/// Nanoseconds that this thread ran, which do not count what others run meanwhile.
fn processor_time() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let first = text.split_whitespace().next();
    first.and_then(|first| first.parse().ok()).unwrap_or(0.0)
}
