//! The slowest evaluations within the limits: `cargo run --release -p windlass-expr --example
//! worst`. Every case of the audit is repeated for a twentieth of the limit's steps at three
//! sizes; the slowest are then repeated to the limit.

use std::collections::BTreeSet;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use windlass_expr::{Document, Expression, ExpressionLimits, Meter, Scope, worst};

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
        // A case that ends early need not be slow.
        self.milliseconds * 1e6 / self.steps.max(20_000) as f64
    }
}

fn main() {
    let only = std::env::args().nth(1);
    documents();
    heavy();
    let mut all = Vec::new();
    for size in SIZES {
        let trigger = worst::trigger(size, 400_000);
        for case in worst::cases() {
            if only.as_ref().is_some_and(|only| !case.name.contains(only)) {
                continue;
            }
            let limits = ExpressionLimits {
                steps: ExpressionLimits::DEFAULT.steps / 20,
                ..ExpressionLimits::DEFAULT
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
            &ExpressionLimits::DEFAULT,
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
    trigger: &Document,
    limits: &ExpressionLimits,
) -> Option<Measured> {
    let scope = Scope::new(&["trigger"], &[]);
    let expression = Expression::compile(&source, &scope, limits).ok()?;
    let inputs = vec![Some(trigger); expression.references().len()];
    let mut meter = Meter::default();
    // The shortest of several runs, because other processes use this machine too.
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

/// The most memory the process had since it was last asked to forget, in MiB (on Linux).
fn high_water() -> f64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse().ok());
    number.unwrap_or(0.0) / 1024.0
}

/// Reading small values, and the largest of each hostile shape: its time, its tables, and by how
/// much the process grew beside the text.
fn documents() {
    let order = r#"{"id":7,"name":"Ann","total":12.5,"paid":true,"tags":["a","b"],"to":{"city":"Bonn","zip":"53111"}}"#;
    let text: Arc<str> = order.into();
    let document = each(|| drop(black_box(Document::parse(Arc::clone(&text)))));
    let value = each(|| drop(black_box(serde_json::from_str::<serde_json::Value>(order))));
    let scope = Scope::new(&["trigger"], &[]);
    let limits = ExpressionLimits::DEFAULT;
    let expression = Expression::compile("trigger.to.city === 'Bonn'", &scope, &limits);
    let expression = expression.expect("it compiles");
    let read = each(|| {
        let document = Document::parse(Arc::clone(&text)).expect("it is JSON");
        black_box(expression.evaluate(&[Some(&document)], &limits).is_ok());
    });
    println!(
        "{} bytes: {document:.0} ns as a document, {value:.0} ns as a serde_json::Value, \
         {read:.0} ns with an evaluation",
        text.len()
    );
    let keys: Vec<_> = (0..700_000).map(|key| format!("\"{key:x}\":0")).collect();
    let keys = format!("{{{}}}", keys.join(","));
    let shapes = worst::SHAPES.iter();
    let shapes = shapes.map(|shape| (shape.1, worst::document(shape, 10 * 1024 * 1024)));
    for (name, text) in shapes.chain([("different keys", keys)]) {
        let text: Arc<str> = text.into();
        let _ = std::fs::write("/proc/self/clear_refs", "5");
        let start = high_water();
        let mut tables = 0;
        let rounds = (0..5).map(|_| {
            on_processor(|| {
                let document = Document::parse(Arc::clone(&text)).expect("it is JSON");
                tables = document.table_bytes();
            })
        });
        let time = rounds.min().unwrap_or_default();
        println!(
            "{:8.1} MiB {:8.1} ms  {:5.1} MiB of text, {:5.1} MiB of tables  {name}",
            high_water() - start,
            time.as_secs_f64() * 1000.0,
            text.len() as f64 / 1_048_576.0,
            tables as f64 / 1_048_576.0,
        );
    }
}

/// The processor time of this thread, so that other work does not count (on Linux).
fn on_processor(work: impl FnOnce()) -> Duration {
    let used = || {
        let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
        text.split(' ')
            .next()?
            .parse()
            .map(Duration::from_nanos)
            .ok()
    };
    let before = used();
    let elapsed = timed(work);
    let both = before.zip(used());
    both.map_or(elapsed, |(before, after)| after.saturating_sub(before))
}

/// Nanoseconds of one of many.
fn each(mut work: impl FnMut()) -> f64 {
    const ROUNDS: u32 = 100_000;
    let rounds = (0..5).map(|_| {
        on_processor(|| {
            for _ in 0..ROUNDS {
                work();
            }
        })
    });
    let shortest = rounds.min().unwrap_or_default();
    shortest.as_secs_f64() * 1e9 / f64::from(ROUNDS)
}

/// The largest evaluations: their time, and by how much the process grew (on Linux).
fn heavy() {
    let start = high_water();
    let trigger = Document::null();
    for case in worst::heavy() {
        let _ = std::fs::write("/proc/self/clear_refs", "5");
        let measured = measure(
            &case.name,
            case.once(),
            0,
            &trigger,
            &ExpressionLimits::DEFAULT,
        );
        let (time, steps) = measured.map_or((0.0, 0), |it| (it.milliseconds, it.steps));
        let grown = high_water() - start;
        println!(
            "{grown:8.1} MiB {time:8.1} ms {steps:>8} steps  {}",
            case.name
        );
    }
}
