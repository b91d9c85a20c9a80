//! The tables as readers see them, beside what the conformance suite asks of them.

use crate::common::{schema, sql, value};
use windlass_core::{Digest, Millis};
use windlass_store::conformance::{must_append, record, row, run_id};
use windlass_store::{
    Append, Catalogue as _, Head, NewDefinition, Partition, Projections as _, Queries as _,
    ResourceRow, RunRow, Transfer as _, Wait as _,
};
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

#[test]
fn a_link_keeps_the_attempt_that_sql_names_and_an_id_of_its_own() {
    let (store, schema) = opened();
    let run = run_id(1);
    let link = ResourceRow {
        tenant: None,
        system: "jira".into(),
        kind: "issue".into(),
        id: "1".into(),
        url: None,
        run,
        node: "loop[1]/n".into(),
    };
    let append = Append {
        row: Some(row(run)),
        resources: vec![link.clone()],
        ..record(run, Head::NONE, 1, b"links")
    };
    must_append(&store, append);
    let attempt = "00000000-0000-0000-0000-000000000007";
    sql(&format!(
        "set search_path to {schema}; \
         insert into action_executions (id, execution, node_id, instance, action_type, status, \
         attempt) values ('{attempt}', '{run}', 'n', 1, 'a', 'Succeeded', 1); \
         select sp_link_external_resource('{run}', '{attempt}', 'jira', 'issue', '2'); \
         select sp_link_external_resource('{run}', null, 'jira', 'issue', '3')"
    ));
    let links = || {
        value(&format!(
            "select string_agg(concat_ws(' ', resource_id, action, action_execution), ', ' \
             order by resource_id) from {schema}.workflow_resource_links"
        ))
    };
    let expected = format!("1 loop[1]/n, 2 n {attempt}, 3 ");
    assert_eq!(links(), expected);
    let ids = || {
        let ids = "string_agg(id::text, ' ' order by resource_id), count(distinct id)";
        value(&format!(
            "select concat_ws(' ', {ids}) from {schema}.workflow_resource_links"
        ))
    };
    let before = ids();
    assert!(before.ends_with(" 3"), "each its own: {before}");
    // Rows that are made again from the log.
    store
        .replace_rows(vec![(row(run), vec![link])])
        .wait()
        .unwrap();
    assert_eq!((links(), ids()), (expected, before));
}

/// A log that came from a store with more partitions names one that no process takes here.
#[test]
fn rows_that_are_made_anew_are_in_a_partition_that_there_is() {
    let (store, _) = opened();
    let run = run_id(1);
    let append = Append {
        row: Some(row(run)),
        ..record(run, Head::NONE, 1, b"first")
    };
    must_append(&store, append);
    let moved = RunRow {
        partition: Partition(store.partitions() + 5),
        ..row(run)
    };
    store
        .replace_rows(vec![(moved, Vec::new())])
        .wait()
        .unwrap();
    let found = store.run(run).wait().unwrap();
    assert_eq!(found.map(|row| row.partition), Some(Partition(5)));
}

#[test]
fn readers_find_attempts_by_status_and_may_meet_events_for_debugging() {
    let (store, schema) = opened();
    let run = run_id(1);
    let append = Append {
        row: Some(row(run)),
        ..record(run, Head::NONE, 1, b"first")
    };
    must_append(&store, append);
    let levels = ["debug", "info", "warn", "error"].map(|level| format!("('{level}')"));
    sql(&format!(
        "insert into {schema}.execution_events (execution, position, ts, level, category, data) \
         select '{run}', row_number() over (), now(), level, 'orchestrator', '{{}}' \
         from (values {}) as l(level)",
        levels.join(", ")
    ));
    let indexes = value(&format!(
        "select string_agg(indexdef, ' ') from pg_indexes \
         where schemaname = '{schema}' and tablename = 'action_executions'"
    ));
    assert!(
        indexes.contains("(execution, node_id, status)"),
        "{indexes}"
    );
}
