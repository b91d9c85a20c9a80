//! Cron expressions and time zones of any kind: refused with a reason, or with times that
//! come one after the other, and never without end.

use proptest::prelude::*;
use windlass_core::Millis;
use windlass_engine::Timing;

const ZONES: &[&str] = &[
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Nowhere/At_All",
    "",
    "+01",
];

/// A part of a field of cron.
fn part() -> impl Strategy<Value = String> {
    let number = prop_oneof![0..70u64, any::<u64>()];
    prop_oneof![
        Just("*".to_owned()),
        Just("?".to_owned()),
        Just("L".to_owned()),
        Just("MON".to_owned()),
        number.clone().prop_map(|number| number.to_string()),
        number.clone().prop_map(|step| format!("*/{step}")),
        (number.clone(), number.clone()).prop_map(|(from, to)| format!("{from}-{to}")),
        (number.clone(), number).prop_map(|(day, nth)| format!("{day}#{nth}")),
    ]
}

fn cron() -> impl Strategy<Value = String> {
    let field = proptest::collection::vec(part(), 1..4).prop_map(|parts| parts.join(","));
    let fields = proptest::collection::vec(field, 4..8).prop_map(|fields| fields.join(" "));
    prop_oneof![4 => fields, 1 => ".{0,300}", 1 => "[-*/0-9,#LW ]{0,40}"]
}

#[test]
fn fuzz_cron_expressions_are_refused_or_go_forward() {
    let zone = (0..ZONES.len()).prop_map(|which| ZONES[which]);
    let now = -1_000_000_000_000i64..10_000_000_000_000;
    windlass_test_support::fuzz_rounds::rounds(
        file!(),
        300,
        &(cron(), zone, now),
        |(cron, zone, now)| {
            let timing = match Timing::new(Some(&cron), None, zone) {
                Ok(timing) => timing,
                Err(problem) => {
                    prop_assert!(!problem.message.is_empty());
                    return Ok(());
                }
            };
            let mut last = Millis(now);
            let mut next = timing.first(last);
            for _ in 0..5 {
                let Some(at) = next else { break };
                prop_assert!(at > last, "{cron}: {at:?} after {last:?}");
                last = at;
                next = timing.after(at, at);
            }
            Ok(())
        },
    );
}
