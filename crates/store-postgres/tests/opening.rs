//! Opening a schema: processes that start together take turns, and what cannot be worked with is
//! refused with what to do.

use crate::common;

use crate::common::{schema, settings, sql, value};
use windlass_store::conformance::{must_append, record, run_id};
use windlass_store::{Error, Head, Leases as _, Log as _, ProcessInfo, Wait as _};
use windlass_store_postgres::{OpenError, PostgresStore, SchemaChange, Settings};
use windlass_test_support::postgres::{Proxy, server};

fn refusal(settings: &Settings) -> String {
    match PostgresStore::open(settings) {
        Err(OpenError::Refused(error)) => error.to_string(),
        other => panic!("it must be refused for good, not {other:?}"),
    }
}

#[test]
fn processes_that_start_together_make_one_schema() {
    let settings = settings();
    let threads = (0..4u64).map(|n| {
        let settings = settings.clone();
        std::thread::spawn(move || {
            let store = PostgresStore::open(&settings).unwrap();
            must_append(&store, record(run_id(n), Head::NONE, 1, b"first"));
        })
    });
    let threads: Vec<_> = threads.collect();
    for thread in threads {
        thread.join().unwrap();
    }
    let store = PostgresStore::open(&settings).unwrap();
    for n in 0..4 {
        assert_eq!(store.head(run_id(n)).wait().unwrap().sequence, 1);
    }
}

#[test]
fn the_number_of_partitions_is_fixed_by_the_first() {
    let settings = settings();
    let joined = |settings: &Settings| {
        let store = PostgresStore::open(settings).unwrap();
        let process = ProcessInfo::named("a");
        store.join(&process, 1000).wait().unwrap().partitions
    };
    assert_eq!(joined(&settings), 64);
    assert_eq!(joined(&settings.clone().partitions(16)), 64);
    assert_eq!(joined(&common::settings().partitions(16)), 16);
}

#[test]
fn a_newer_schema_is_refused() {
    let url = server().fresh();
    let settings = Settings::parse(&url).unwrap();
    PostgresStore::open(&settings).unwrap();
    let schema = schema(&url);
    sql(&format!(
        "update {schema}.windlass_meta set value = '99' where key = 'version'"
    ));
    let refused = PostgresStore::open(&settings).unwrap_err();
    assert!(
        matches!(&refused, OpenError::Refused(Error::TooNew(_))),
        "{refused:?}"
    );
    let text = refused.to_string();
    assert!(
        text.contains("99") && text.contains("newer program"),
        "{text}"
    );
    sql(&format!(
        "delete from {schema}.windlass_meta where key = 'version'"
    ));
    assert!(refusal(&settings).contains("without a version"));
}

#[test]
fn a_schema_of_another_program_is_refused_and_an_empty_one_taken() {
    let url = server().fresh();
    let settings = Settings::parse(&url).unwrap();
    let schema = schema(&url);
    sql(&format!(
        "create schema {schema}; create table {schema}.theirs (n int)"
    ));
    let text = refusal(&settings);
    assert!(
        text.contains("theirs") && text.contains("schema="),
        "{text}"
    );
    let tables = "select count(*) from pg_tables where schemaname";
    assert_eq!(
        value(&format!("{tables} = '{schema}'")),
        "1",
        "nothing was changed"
    );
    sql(&format!("drop table {schema}.theirs"));
    PostgresStore::open(&settings).unwrap();
}

#[test]
fn another_cluster_is_refused() {
    let settings = settings();
    PostgresStore::open(&settings.clone().cluster("blue")).unwrap();
    PostgresStore::open(&settings.clone().cluster("blue")).unwrap();
    let text = refusal(&settings.clone().cluster("green"));
    assert!(text.contains("blue") && text.contains("green"), "{text}");
    let text = refusal(&settings);
    let advice = ["'blue'", "WINDLASS_CLUSTER_NAME", "cluster=", "schema="];
    assert!(advice.iter().all(|it| text.contains(it)), "{text}");
}

#[test]
fn a_cluster_can_name_a_schema_that_was_opened_without_a_name() {
    let settings = settings();
    PostgresStore::open(&settings).unwrap();
    PostgresStore::open(&settings.clone().cluster("blue")).unwrap();
    refusal(&settings);
}

#[test]
fn credentials_rights_and_databases_are_checked() {
    let url = server().fresh();
    let schema = schema(&url);
    let with = |from: &str, to: &str| Settings::parse(&url.replacen(from, to, 1)).unwrap();
    let text = refusal(&with("windlass@", "stranger@"));
    assert!(
        text.contains("stranger") && text.contains("check the user"),
        "{text}"
    );
    let text = refusal(&with("/postgres", "/nowhere"));
    assert!(
        text.contains("nowhere") && text.contains("CREATE DATABASE"),
        "{text}"
    );
    let role = format!("r_{schema}");
    sql(&format!("create role {role} login"));
    let text = refusal(&with("windlass@", &format!("{role}@")));
    assert!(
        text.contains("CREATE SCHEMA") && text.contains(&role),
        "{text}"
    );
    let poor = with("windlass@", &format!("{role}@"));
    // PostgreSQL passes over a schema that the user may not use, as if it were not there.
    sql(&format!("create schema {schema}"));
    let text = refusal(&poor);
    let alter = format!("ALTER SCHEMA \"{schema}\" OWNER TO \"{role}\"");
    assert!(
        text.contains("may not use") && text.contains(&alter),
        "{text}"
    );
    sql(&format!("grant usage on schema {schema} to {role}"));
    let text = refusal(&poor);
    assert!(
        text.contains("may not use or change") && text.contains(&alter),
        "{text}"
    );
    // What the message says helps.
    sql(&alter);
    PostgresStore::open(&poor).unwrap();
}

#[test]
fn a_schema_is_made_and_named_only_by_one_that_may() {
    let url = server().fresh();
    let (settings, schema) = (Settings::parse(&url).unwrap(), schema(&url));
    let exists = format!("select count(*) from pg_namespace where nspname = '{schema}'");
    for change in [SchemaChange::Nothing, SchemaChange::Update] {
        let text = refusal(&settings.clone().schema_change(change));
        assert!(text.contains("does not exist yet"), "{text}");
        assert_eq!(value(&exists), "0", "nothing was made");
    }
    PostgresStore::open(&settings).unwrap();
    let looking = settings.clone().schema_change(SchemaChange::Nothing);
    PostgresStore::open(&looking.clone().cluster("blue")).unwrap();
    let named = format!("select count(*) from {schema}.windlass_meta where key = 'cluster'");
    assert_eq!(value(&named), "0", "it was not named");
    // As an older program would have left it; only the number is looked at.
    let set =
        |n: u32| format!("update {schema}.windlass_meta set value = '{n}' where key = 'version'");
    let now = value(&format!(
        "select value from {schema}.windlass_meta where key = 'version'"
    ));
    sql(&set(1));
    let text = refusal(&looking);
    assert!(
        text.contains("has version 1") && text.contains(&now),
        "{text}"
    );
}

#[test]
fn a_database_that_is_away_is_worth_waiting_for() {
    let proxy = Proxy::to(&server().address());
    let settings = Settings::parse(&server().at(proxy.address())).unwrap();
    proxy.refuse(true);
    let away = PostgresStore::open(&settings).unwrap_err();
    assert!(
        matches!(away, OpenError::Away(Error::Unavailable(_))),
        "{away:?}"
    );
    proxy.refuse(false);
    PostgresStore::open(&settings).unwrap();
}
