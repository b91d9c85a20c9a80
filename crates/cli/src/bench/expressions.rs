//! The dearest evaluations within their limits: every function, method and operator over large
//! values, repeated until a limit ends it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use windlass_expr::{Document, Expression, ExpressionLimits, Meter, Scope, worst};

use super::Bench;
use super::process::high_water;
use crate::exit::Failure;

/// What no evaluation may take.
const MILLISECONDS: f64 = 100.0;
const MEBIBYTES: f64 = 64.0;

/// Sizes of the values, in bytes.
const VALUES: [usize; 3] = [16, 1024, 256 * 1024];

/// The largest value that is read, in bytes.
const DOCUMENT: usize = 10 * 1024 * 1024;

/// Repetitions that no limit leaves room for.
const REPEATS: usize = 400_000;

const STATUS: &str = "/proc/self/status";

/// How many of the cases that look slowest are measured to the limit.
const MEASURED: usize = 60;

/// A case, and how long a thousand of its steps take.
struct Probe {
    name: String,
    source: String,
    size: usize,
    pace: f64,
}

pub(super) fn measure(bench: Bench<'_>) -> Result<Value, Failure> {
    let cases = worst::cases();
    // One of so many, where a quick look is asked for.
    let stride = if bench.sizes.repeats > 1 { 1 } else { 10 };
    let triggers = VALUES.map(|size| (size, worst::trigger(size, REPEATS)));
    // What the process takes before the first evaluation; what allocators keep counts as taken.
    let baseline = mark_memory();
    let mut probes = Vec::new();
    for (size, trigger) in &triggers {
        for case in cases.iter().step_by(stride) {
            probes.extend(probe(case, *size, trigger));
        }
    }
    let tried = probes.len();
    probes.sort_by(|one, two| two.pace.total_cmp(&one.pace));
    let mut worst_of_all = Worst::default();
    let heavy = worst::heavy().into_iter().map(|case| Probe {
        source: case.once(),
        name: case.name,
        size: VALUES[0],
        pace: 0.0,
    });
    for probe in chosen(probes).into_iter().chain(heavy) {
        let trigger = triggers.iter().find(|(size, _)| *size == probe.size);
        let Some((_, trigger)) = trigger else {
            continue;
        };
        let name = format!("{} of {} bytes", probe.name, probe.size);
        worst_of_all.note(bench.sizes.repeats, baseline, &name, || {
            let evaluated = evaluate(&probe.source, trigger, &ExpressionLimits::DEFAULT);
            evaluated.map(|(time, _)| time).unwrap_or_default()
        });
    }
    for shape in worst::SHAPES {
        let text: Arc<str> = worst::document(shape, DOCUMENT).into();
        let name = format!("reading {DOCUMENT} bytes of {}", shape.1);
        worst_of_all.note(bench.sizes.repeats, mark_memory(), &name, || read(&text));
    }
    let Worst {
        slowest, largest, ..
    } = worst_of_all;
    let mebibytes = largest.map(|bytes| bytes as f64 / f64::from(1024 * 1024));
    let met = slowest <= MILLISECONDS && mebibytes.is_none_or(|peak| peak <= MEBIBYTES);
    Ok(json!({
        "cases": tried + worst::SHAPES.len(),
        "slowestMilliseconds": slowest,
        "slowest": worst_of_all.slowest_case,
        "peakMebibytes": mebibytes,
        "largest": worst_of_all.largest_case,
        "target": "no evaluation within its limits over 100 ms or 64 MiB",
        "met": met,
    }))
}

/// The slowest and the largest of what was measured.
#[derive(Default)]
struct Worst {
    slowest: f64,
    slowest_case: String,
    largest: Option<u64>,
    largest_case: String,
}

impl Worst {
    /// Measures a case, and by how much the process grows over `baseline`.
    fn note(
        &mut self,
        repeats: usize,
        baseline: Option<u64>,
        name: &str,
        mut work: impl FnMut() -> Duration,
    ) {
        // The shortest of some, because others work on this machine too.
        let time = (0..repeats.max(1)).map(|_| work()).min();
        let time = time.unwrap_or_default().as_secs_f64() * 1000.0;
        if time > self.slowest {
            self.slowest = time;
            name.clone_into(&mut self.slowest_case);
        }
        mark_memory();
        work();
        let peak = high_water(STATUS).zip(baseline);
        let peak = peak.map(|(peak, baseline)| peak.saturating_sub(baseline));
        if peak > self.largest {
            self.largest = peak;
            name.clone_into(&mut self.largest_case);
        }
    }
}

/// The time to read a value that an expression names.
fn read(text: &Arc<str>) -> Duration {
    let begun = Instant::now();
    drop(Document::parse(Arc::clone(text)));
    begun.elapsed()
}

/// How slow a case is, from a hundredth of the steps it may take.
fn probe(case: &worst::WorstCase, size: usize, trigger: &Document) -> Option<Probe> {
    let limits = ExpressionLimits {
        steps: ExpressionLimits::DEFAULT.steps / 100,
        ..ExpressionLimits::DEFAULT
    };
    let source = case.repeated();
    // The shorter of two, because others work on this machine too.
    let (time, steps) = evaluate(&source, trigger, &limits)?;
    let time = time.min(evaluate(&source, trigger, &limits)?.0);
    Some(Probe {
        name: case.name.clone(),
        source,
        size,
        // An evaluation that ends after a few steps must not count as slow.
        pace: time.as_secs_f64() / steps.max(limits.steps / 10) as f64,
    })
}

/// The slowest of each name, as many as are measured.
fn chosen(probes: Vec<Probe>) -> Vec<Probe> {
    let mut seen = std::collections::BTreeSet::new();
    let first = |probe: &Probe| seen.insert(probe.name.clone());
    probes.into_iter().filter(first).take(MEASURED).collect()
}

/// The time and the steps of one evaluation; none if it is no expression.
fn evaluate(
    source: &str,
    trigger: &Document,
    limits: &ExpressionLimits,
) -> Option<(Duration, u64)> {
    let scope = Scope::new(&["trigger"], &[]);
    let expression = Expression::compile(source, &scope, limits).ok()?;
    let inputs = vec![Some(trigger); expression.references().len()];
    let mut meter = Meter::default();
    let begun = Instant::now();
    // How it ends does not matter: most end at a limit.
    drop(expression.evaluate_metered(&inputs, limits, &mut meter));
    Some((begun.elapsed(), meter.steps))
}

/// Sets the kernel's mark of the largest resident size to what is in use now, which it gives;
/// none where the system has no such mark.
fn mark_memory() -> Option<u64> {
    std::fs::write("/proc/self/clear_refs", "5").ok()?;
    high_water(STATUS)
}
