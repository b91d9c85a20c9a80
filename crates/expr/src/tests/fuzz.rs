//! Random expressions over values of hostile sizes: every evaluation ends, on a small stack,
//! without a panic, and does no more than four times the work that it pays for.
//!
//! A short round runs with the other tests. `WINDLASS_FUZZ_SECONDS` makes it a timed one with
//! new seeds; `WINDLASS_SEED` repeats one. What a round finds belongs in `corpus/hostile.txt`.

use std::fmt::Write as _;
use std::time::{Duration, Instant, SystemTime};

use super::audit::Cost;
use super::generate::Dice;
use super::hostile::on_small_stack;
use crate::worst::{self, WorstCase};
use crate::{Document, ExpressionLimits, Scope, Template};

/// Expressions of a round that is not timed.
const CASES: usize = 400;

const SIZES: [usize; 4] = [0, 100, 10_000, 1_000_000];

/// Values that a generated part takes the place of.
const PLACES: &[&str] = &[
    "trigger.ascii",
    "trigger.same",
    "trigger.latin",
    "trigger.numbers",
    "trigger.texts",
    "trigger.object",
    "'x'",
];

/// One case in another, up to four deep, maybe repeated.
fn source(cases: &[WorstCase], dice: &mut Dice) -> String {
    let mut source = cases[dice.below(cases.len())].call.clone();
    for _ in 0..dice.below(4) {
        let place = dice.pick(PLACES);
        let part = &cases[dice.below(cases.len())].call;
        source = source.replacen(place, &format!("({part})"), 1);
    }
    let case = WorstCase {
        name: String::new(),
        call: source,
    };
    match dice.below(3) {
        0 => case.repeated(),
        1 => format!("trigger.loop.map(() => {})", case.once()),
        _ => case.once(),
    }
}

fn check(source: &str, trigger: &Document, size: usize) {
    let limits = ExpressionLimits {
        steps: 50_000,
        ..ExpressionLimits::default()
    };
    if let Some(cost) = Cost::of(source, trigger, &limits) {
        cost.check(source, size).unwrap();
    }
    let mut document = String::new();
    let quoted = serde_json::to_string(&format!("a {{{{ {source} }}}}")).unwrap();
    let whole = serde_json::to_string(&format!("{{{{ {source} }}}}")).unwrap();
    write!(document, "[{quoted}, {whole}]").unwrap();
    let scope = Scope::new(&["trigger"], &[]);
    if let Ok(template) = Template::compile(&document, &scope, &limits) {
        let inputs = vec![Some(trigger); template.references().len()];
        if let Ok(text) = template.render(&inputs, &limits) {
            serde_json::from_str::<Box<serde_json::value::RawValue>>(&text).unwrap();
        }
    }
}

#[test]
fn fuzz_expressions_of_hostile_sizes() {
    let seconds = std::env::var("WINDLASS_FUZZ_SECONDS").ok();
    let seconds: Option<u64> = seconds.map(|text| text.parse().expect("a number of seconds"));
    let seed = std::env::var("WINDLASS_SEED").ok();
    let seed = seed.map(|text| text.parse().expect("a seed is a number"));
    on_small_stack(move || round(seconds.map(Duration::from_secs), seed));
}

#[expect(
    clippy::disallowed_methods,
    reason = "a timed round of fuzzing ends by the clock and begins elsewhere each time"
)]
fn round(time: Option<Duration>, seed: Option<u64>) {
    let begun = Instant::now();
    let triggers = SIZES.map(|size| (size, worst::trigger(size, 5000)));
    for line in include_str!("corpus/hostile.txt").lines() {
        if !line.is_empty() && !line.starts_with('#') {
            for (size, trigger) in &triggers {
                check(line, trigger, *size);
            }
        }
    }
    let now = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let fresh = || now().map_or(1, |elapsed| elapsed.as_nanos() as u64);
    let seed = seed.unwrap_or_else(|| time.map_or(1, |_| fresh()));
    println!("WINDLASS_SEED={seed}");
    let cases = worst::cases();
    let mut dice = Dice::new(seed);
    let mut done = 0;
    loop {
        let over = match time {
            Some(time) => begun.elapsed() >= time,
            None => done >= CASES,
        };
        if over {
            break;
        }
        let (size, trigger) = &triggers[dice.below(triggers.len())];
        let source = source(&cases, &mut dice);
        println!("{size} {source}");
        check(&source, trigger, *size);
        done += 1;
    }
}
