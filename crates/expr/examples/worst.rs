//! The slowest evaluations within the limits: `cargo run --release -p windlass-expr --example
//! worst`. Every case of the audit is repeated for a twentieth of the limit's steps at three
//! sizes; the slowest are then repeated to the limit.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

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
        // What ends early is no slower for it.
        self.milliseconds * 1e6 / self.steps.max(20_000) as f64
    }
}

fn main() {
    let only = std::env::args().nth(1);
    heavy();
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
    // The shortest of some that look slow, because others work on this machine too.
    let mut shortest = Duration::MAX;
    for _ in 0..4 {
        shortest = shortest.min(timed(|| {
            drop(expression.evaluate_metered(&inputs, limits, &mut meter));
        }));
        if shortest.as_nanos() < 60 * u128::from(limits.steps) {
            break;
        }
    }
    let milliseconds = shortest.as_secs_f64() * 1000.0;
    Some(Measured {
        name: name.to_owned(),
        source,
        size,
        milliseconds,
        steps: meter.steps,
    })
}

#[expect(clippy::disallowed_methods, reason = "an example that measures")]
fn timed(work: impl FnOnce()) -> Duration {
    let begun = Instant::now();
    work();
    begun.elapsed()
}

/// The largest evaluations: their time, and by how much the process grew (on Linux).
fn heavy() {
    let high_water = || {
        let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let number = line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse().ok());
        number.unwrap_or(0.0) / 1024.0
    };
    let start = high_water();
    let trigger = serde_json::Value::Null;
    for case in worst::heavy() {
        let _ = std::fs::write("/proc/self/clear_refs", "5");
        let measured = measure(&case.name, case.once(), 0, &trigger, &Limits::DEFAULT);
        let (time, steps) = measured.map_or((0.0, 0), |it| (it.milliseconds, it.steps));
        let grown = high_water() - start;
        println!(
            "{grown:8.1} MiB {time:8.1} ms {steps:>8} steps  {}",
            case.name
        );
    }
}
