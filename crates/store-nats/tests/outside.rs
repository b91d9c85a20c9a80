//! What another program reads of the streams with a client of its own, as `docs/nats.md` says.

use std::time::Duration;

use async_nats::HeaderMap;
use async_nats::jetstream::context::Context;
use futures_util::StreamExt as _;
use serde_json::Value;
use tokio::io::AsyncReadExt as _;
use windlass_core::Digest;
use windlass_store::conformance::{record, row, run_id};
use windlass_store::{Append, Blob, Head, Log as _};
use windlass_store_nats::{NatsStore, Settings};
use windlass_test_support::nats::{fresh_prefix, server};
use windlass_test_support::postgres;

fn meta(headers: &HeaderMap) -> Value {
    let text = headers.get("Wl-Meta").expect("what is noted");
    serde_json::from_str(text.as_str()).unwrap()
}

async fn last_of(js: &Context, stream: String, subject: String) -> Value {
    let stream = js.get_stream(stream).await.unwrap();
    let found = stream.get_last_raw_message_by_subject(&subject).await;
    meta(&found.unwrap().headers)
}

/// A message is received, and everything that it names is there at that moment: it need not even
/// be acknowledged yet.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_receives_a_record_finds_the_values_that_it_names() {
    let prefix = fresh_prefix();
    let large = prefix.to_ascii_uppercase();
    let database = postgres::server().fresh();
    let database = windlass_store_postgres::Settings::parse(&database).unwrap();
    let settings = Settings::parse(server().url(), database.pool(2)).unwrap();
    let settings = settings.prefix(&prefix).unwrap().partitions(1);
    let store = NatsStore::connect(&settings).await.unwrap();
    let client = async_nats::connect(server().url()).await.unwrap();
    let js = async_nats::jetstream::new(client.clone());
    let mut heard = client.subscribe(format!("{prefix}.log.>")).await.unwrap();
    client.flush().await.unwrap();
    let bytes = vec![7; 9_000];
    let digest = Digest::of(&bytes);
    let append = Append {
        row: Some(row(run_id(1))),
        blobs: vec![Blob {
            digest,
            bytes: bytes.clone().into(),
        }],
        ..record(
            run_id(1),
            Head::NONE,
            1,
            b"an attempt ended with a long output",
        )
    };
    let appending = tokio::spawn({
        let store = store.clone();
        async move { store.append(vec![append]).await }
    });
    let message = tokio::time::timeout(Duration::from_secs(60), heard.next()).await;
    let message = message.expect("it is published").unwrap();
    let subject = message.subject.to_string();
    assert!(subject.ends_with(&run_id(1).to_string()), "{subject}");
    let named = meta(message.headers.as_ref().unwrap())["values"].clone();
    assert_eq!(named, serde_json::json!([digest.to_string()]));
    let index = format!("{large}_BLOB_INDEX");
    let key = format!("$KV.{index}.{}", named[0].as_str().unwrap());
    let indexed = last_of(&js, format!("KV_{index}"), key).await;
    let name = indexed["object"].as_str().expect("an object");
    assert!(name.starts_with(&digest.to_string()), "{name}");
    let objects = js.get_object_store(format!("{large}_BLOBS")).await.unwrap();
    let mut object = objects.get(name).await.unwrap();
    let mut read = Vec::new();
    object.read_to_end(&mut read).await.unwrap();
    assert_eq!(read, bytes);
    let answers = appending.await.unwrap();
    assert!(answers[0].is_ok(), "{answers:?}");
    // What was heard is what is stored.
    let stored = last_of(&js, format!("{large}_LOG_0"), subject).await;
    assert_eq!(stored["values"], named);
}
