//! Stores in schemas of their own, and plain SQL beside them.

use tokio::runtime::Runtime;
use tokio_postgres::NoTls;
use windlass_store_postgres::{PostgresStore, Settings};
use windlass_test_support::postgres::server;

/// The settings of an empty schema.
pub(crate) fn settings() -> Settings {
    Settings::parse(&server().fresh()).unwrap().pool(2)
}

/// A store in an empty schema.
pub(crate) fn open() -> PostgresStore {
    PostgresStore::open(&settings()).unwrap()
}

/// A store whose leases expire when the test says so: the second of the pair lets so many
/// milliseconds pass.
pub(crate) fn frozen() -> (PostgresStore, impl Fn(u64)) {
    let url = server().fresh();
    let store = PostgresStore::open(&Settings::parse(&url).unwrap().pool(2)).unwrap();
    let schema = schema(&url).to_owned();
    sql(&format!(
        "set search_path to {schema}; create table test_clock as select 0::bigint as now; \
         create or replace function clock_ms() returns bigint language sql volatile as \
         $$ select now from {schema}.test_clock $$"
    ));
    let pass = move |millis: u64| {
        sql(&format!(
            "update {schema}.test_clock set now = now + {millis}"
        ));
    };
    (store, pass)
}

/// The schema that a URL names.
pub(crate) fn schema(url: &str) -> &str {
    url.split_once("schema=").unwrap().1
}

/// Runs statements on a connection of their own.
pub(crate) fn sql(text: &str) {
    with_client(async |client| client.batch_execute(text).await.unwrap());
}

/// The first column of the first row.
pub(crate) fn value(text: &str) -> String {
    with_client(async |client| {
        let rows = client.simple_query(text).await.unwrap();
        let row = rows.into_iter().find_map(|message| match message {
            tokio_postgres::SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        });
        row.and_then(|row| row.get(0).map(str::to_owned))
            .unwrap_or_default()
    })
}

fn with_client<T>(work: impl AsyncFnOnce(tokio_postgres::Client) -> T) -> T {
    Runtime::new().unwrap().block_on(async {
        let (client, connection) = tokio_postgres::connect(server().url(), NoTls)
            .await
            .unwrap();
        tokio::spawn(connection);
        work(client).await
    })
}
