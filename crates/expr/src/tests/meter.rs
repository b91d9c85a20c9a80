//! Interrupts, and what an evaluation reports of its cost.

use serde_json::json;

use crate::limits::Budget;
use crate::{Document, Expression, ExpressionLimits, Interrupt, Meter, Scope, Template};

fn expression(source: &str) -> Expression {
    let scope = Scope::new(&["trigger", "vars"], &["context.data"]);
    Expression::compile(source, &scope, &ExpressionLimits::default()).unwrap()
}

fn template(document: &str) -> Template {
    let scope = Scope::new(&["trigger"], &[]);
    Template::compile(document, &scope, &ExpressionLimits::default()).unwrap()
}

#[test]
fn an_interrupted_evaluation_does_not_begin() {
    let interrupt = Interrupt::new();
    let (limits, mut meter) = (
        ExpressionLimits::default(),
        Meter::interrupted_by(&interrupt),
    );
    let one = expression("1 + 1");
    assert!(one.evaluate_metered(&[], &limits, &mut meter).is_ok());
    interrupt.interrupt();
    let error = one.evaluate_metered(&[], &limits, &mut meter).unwrap_err();
    assert_eq!((error.code, meter.steps), ("EXPRESSION_INTERRUPTED", 0));
    assert!(error.is_interrupted() && !error.is_limit());
    let error = template(r#""{{ 1 }}""#)
        .render_metered(&[], &limits, &mut meter)
        .unwrap_err();
    assert!(error.is_interrupted());
}

#[test]
fn an_interrupt_from_another_thread_ends_an_evaluation() {
    let limits = ExpressionLimits {
        steps: u64::MAX,
        ..ExpressionLimits::default()
    };
    let interrupt = Interrupt::new();
    let mut meter = Meter::interrupted_by(&interrupt);
    let endless = "Array.from({ length: 600000 }).some((_, i, all) => all.some(() => false))";
    let worker = std::thread::Builder::new().spawn(move || {
        let endless = expression(endless);
        let error = endless
            .evaluate_metered(&[], &limits, &mut meter)
            .unwrap_err();
        (error.code, meter.steps)
    });
    let worker = worker.unwrap();
    interrupt.interrupt();
    // Without the interrupt this takes hours.
    let (code, _) = worker.join().unwrap();
    assert_eq!(code, "EXPRESSION_INTERRUPTED");
}

#[test]
fn an_interrupt_is_seen_within_a_thousand_steps() {
    let interrupt = Interrupt::new();
    let mut budget = Budget::metered(
        &ExpressionLimits::default(),
        &Meter::interrupted_by(&interrupt),
    );
    for _ in 0..5000 {
        budget.steps(1).unwrap();
    }
    interrupt.interrupt();
    let unseen = (0..).take_while(|_| budget.steps(1).is_ok()).count();
    assert!(unseen <= 1024, "{unseen}");
    assert!(
        budget
            .steps(2000)
            .is_err_and(|error| error.is_interrupted())
    );
}

#[test]
fn the_meter_says_what_was_used() {
    let (limits, mut meter) = (ExpressionLimits::default(), Meter::default());
    let three = expression("1 + 2");
    three.evaluate_metered(&[], &limits, &mut meter).unwrap();
    assert_eq!((meter.steps, meter.built_bytes), (3, 0));
    // The same with an interrupt, and after another evaluation.
    let mut other = Meter::interrupted_by(&Interrupt::new());
    three.evaluate_metered(&[], &limits, &mut other).unwrap();
    three.evaluate_metered(&[], &limits, &mut other).unwrap();
    assert_eq!(other.steps, 3);
    let built = expression("'x'.repeat(1000).length");
    built.evaluate_metered(&[], &limits, &mut meter).unwrap();
    assert_eq!(meter.built_bytes, 1000);
    // What fails has a cost too.
    let endless = expression("Array.from({ length: 100 }, (_, i) => i)");
    let few = ExpressionLimits {
        steps: 10,
        ..limits
    };
    for meter in [&mut meter, &mut other] {
        let error = endless.evaluate_metered(&[], &few, meter).unwrap_err();
        assert!(error.is_limit());
        assert_eq!(meter.steps, 10);
    }
}

#[test]
fn large_data_exceeds_the_inline_limits() {
    let trigger = json!({ "a": "x".repeat(5_000_000), "b": "y".repeat(5_000_000) });
    let trigger = Document::from(trigger);
    let limits = ExpressionLimits::default();
    for source in [
        "trigger.a === trigger.b",
        "trigger.a + 'x'",
        "trigger.a * 1",
    ] {
        let expression = expression(source);
        let inputs = [Some(&trigger)];
        let error = expression.evaluate(&inputs, &limits.inline()).unwrap_err();
        assert!(error.is_limit(), "{source}");
        assert!(expression.evaluate(&inputs, &limits).is_ok(), "{source}");
    }
    let error = template(r#"{"a": "{{ trigger }}"}"#)
        .render(&[Some(&trigger)], &limits.inline())
        .unwrap_err();
    assert!(error.is_limit());
}
