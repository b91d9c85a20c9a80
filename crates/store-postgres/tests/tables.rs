//! The tables as readers see them, beside what the conformance suite asks of them.

use crate::common::{schema, sql, value};
use windlass_core::{Digest, Millis};
use windlass_store::{Catalogue as _, NewDefinition, Projections as _, Wait as _};
use windlass_store_postgres::{PostgresStore, Settings};
use windlass_test_support::postgres::server;

/// A store with its schema.
fn opened() -> (PostgresStore, String) {
    let url = server().fresh();
    let store = PostgresStore::open(&Settings::parse(&url).unwrap().pool(1)).unwrap();
    (store, schema(&url).to_owned())
}

fn publish(store: &PostgresStore, workflow: &str, text: &str) {
    let new = NewDefinition {
        tenant: None,
        workflow: workflow.into(),
        display_name: None,
        digest: Digest::of(text.as_bytes()),
        text: text.as_bytes().into(),
        signature: Digest::of(b""),
        at: Millis(1),
    };
    store.publish(new).wait().unwrap();
}

#[test]
fn a_workflow_has_the_description_of_its_newest_version() {
    let (store, schema) = opened();
    let publish = |workflow: &str, text: &str| publish(&store, workflow, text);
    let described = |workflow: &str| {
        value(&format!(
            "select coalesce(description, 'none') from {schema}.workflows where id = '{workflow}'"
        ))
    };
    publish("w", r#"{"id":"w","description":"first"}"#);
    assert_eq!(described("w"), "first");
    publish("w", r#"{"id":"w"}"#);
    assert_eq!(described("w"), "none", "it is that of the newest version");
    publish("w", r#"{"id":"w","description":"a ␀ \n \"b\""}"#);
    // Definitions that their column only names.
    let long = "x".repeat(300 << 10);
    publish(
        "long",
        &format!(r#"{{"description":"of a long one","vars":{{"x":"{long}"}}}}"#),
    );
    publish(
        "odd",
        r#"{"description":"of an odd one","vars":{"x":"\u0000"}}"#,
    );
    let all = || ["w", "long", "odd"].map(described);
    let expected = ["a ␀␀ \n \"b\"", "of a long one", "of an odd one"];
    assert_eq!(all(), expected);
    // Workflows from before the column was written get theirs, where jsonb takes the definition.
    sql(&format!("update {schema}.workflows set description = null"));
    let migration = include_str!("../migrations/0010_descriptions.sql");
    sql(&format!("set search_path to {schema}; {migration}"));
    assert_eq!(all(), [expected[0], expected[1], "none"]);
}

#[test]
fn a_plan_that_its_column_only_names_is_read_by_a_function() {
    let (store, schema) = opened();
    for text in ["{}", "[]"] {
        publish(&store, "w", text);
    }
    let long = format!(r#"{{"nodes":["{}"]}}"#, "x".repeat(300 << 10));
    let plans = [r#"{"nodes": []}"#, &long];
    let unplanned = store.unplanned(9).wait().unwrap();
    for (definition, plan) in unplanned.iter().zip(plans) {
        store.put_plan(definition, plan.into()).wait().unwrap();
    }
    for (plan, version) in plans.into_iter().zip(1..) {
        let text = value(&format!("select {schema}.plan_text('', 'w', {version})"));
        assert!(text == plan, "version {version}: {} bytes", text.len());
    }
    let named = "plan_json ? '$reference' and plan is not null";
    let versions = format!("select version from {schema}.workflow_plans where {named}");
    assert_eq!(
        value(&versions),
        "2",
        "the bytes of a plan that is shown stand nowhere else"
    );
}
