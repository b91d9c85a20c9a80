//! Any document compiles or is refused, and whatever renders is JSON.
#![no_main]

use libfuzzer_sys::fuzz_target;
use windlass_expr::{Document, ExpressionLimits, Scope, Template};

fuzz_target!(|document: &str| {
    let limits = ExpressionLimits {
        steps: 20_000,
        built_bytes: 1 << 20,
        ..ExpressionLimits::default()
    };
    let Ok(template) = Template::compile(document, &Scope::new(&["trigger"], &[]), &limits) else {
        return;
    };
    let data = Document::from(serde_json::json!({ "a": [1, "x", null], "s": "{{ 1 }}" }));
    let inputs = vec![Some(&data); template.references().len()];
    if let Ok(text) = template.render(&inputs, &limits) {
        // Read without building it, for it may be nested deeper than a reader builds.
        assert!(serde_json::from_str::<&serde_json::value::RawValue>(&text).is_ok(), "{text}");
    }
});
