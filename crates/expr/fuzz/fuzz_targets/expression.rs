//! Any text compiles or is refused, and whatever compiles ends.
#![no_main]

use libfuzzer_sys::fuzz_target;
use windlass_expr::{Document, Expression, ExpressionLimits, Scope};

fuzz_target!(|source: &str| {
    let limits = ExpressionLimits {
        steps: 20_000,
        built_bytes: 1 << 20,
        ..ExpressionLimits::default()
    };
    let scope = Scope::new(&["trigger", "$"], &["context.data"]);
    let Ok(expression) = Expression::compile(source, &scope, &limits) else {
        return;
    };
    let data = Document::from(serde_json::json!({ "a": [1, "x", null, { "b": 2.5 }], "s": "h\u{e9}llo \u{1F600}", "n": 9007199254740993_u64 }));
    let inputs = vec![Some(&data); expression.references().len()];
    if let Ok(value) = expression.evaluate(&inputs, &limits) {
        let _ = value.to_json();
        let _ = value.to_display_string();
    }
});
