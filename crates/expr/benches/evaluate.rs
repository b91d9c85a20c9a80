//! How long evaluating takes, once compiled and with its inputs parsed.

use divan::{Bencher, black_box};
use serde_json::{Value as Json, json};
use windlass_expr::{Document, Expression, ExpressionLimits, Scope, Template};

#[global_allocator]
static ALLOCATOR: divan::AllocProfiler = divan::AllocProfiler::system();

fn main() {
    divan::main();
}

fn scope() -> Scope {
    Scope::new(&["trigger"], &["context.data"])
}

fn inputs() -> Document {
    let items: Vec<Json> = (0..100)
        .map(|id| json!({ "id": id, "Status": "Approved", "price": f64::from(id) * 1.5 }))
        .collect();
    Document::from(json!({ "id": 7, "name": "Ann", "items": items }))
}

const EXPRESSIONS: &[(&str, &str)] = &[
    (
        "condition",
        "context.data['a'].items[0].Status === 'Approved'",
    ),
    ("missing", "context.data['a']?.nothing?.here ?? 'none'"),
    (
        "total of 100",
        "context.data.a.items.filter(i => i.price > 10).reduce((sum, { price }) => sum + price, 0)",
    ),
    (
        "text",
        "`Order ${context.data.a.id} of ${context.data.a.name.toUpperCase()}`",
    ),
];

#[divan::bench(args = EXPRESSIONS.iter().map(|(name, _)| *name))]
fn evaluate(bencher: Bencher<'_, '_>, name: &str) {
    let source = EXPRESSIONS
        .iter()
        .find(|(known, _)| *known == name)
        .map_or("", |(_, source)| source);
    let limits = ExpressionLimits::default();
    let expression = Expression::compile(source, &scope(), &limits).expect("it compiles");
    let data = inputs();
    bencher.bench_local(|| {
        let value = expression.evaluate(black_box(&[Some(&data)]), &limits);
        black_box(value.map(|value| value.is_truthy()).is_ok())
    });
}

#[divan::bench]
fn compile(bencher: Bencher<'_, '_>) {
    bencher.bench_local(|| {
        Expression::compile(
            black_box(EXPRESSIONS[0].1),
            &scope(),
            &ExpressionLimits::default(),
        )
        .is_ok()
    });
}

#[divan::bench]
fn render(bencher: Bencher<'_, '_>) {
    let document = r#"{"url": "/orders/{{ trigger.id }}", "body": {"first": "{{ trigger.items[0] }}", "by": "{{ trigger.name }}"}}"#;
    let template =
        Template::compile(document, &scope(), &ExpressionLimits::default()).expect("it compiles");
    let data = inputs();
    bencher.bench_local(|| {
        template
            .render(black_box(&[Some(&data)]), &ExpressionLimits::default())
            .is_ok()
    });
}
