//! Answers that `http.request` stores as blobs, and blobs that it sends: on an engine in memory,
//! against servers on loopback.

use std::collections::BTreeMap;
use std::io::Write as _;

use crate::one_node::{Ran, Setup};
use serde_json::{Value, json};
use windlass_core::{Digest, RunId};
use windlass_engine::fork::{Ask, ForkGraph, fork};
use windlass_engine::verify::verify;
use windlass_engine::{FileReader, find_file};
use windlass_store::{Blobs as _, MemoryStore, Retention as _};
use windlass_test_support::in_memory::World;
use windlass_test_support::services::{ServiceReply, StubServer, ok};

/// Larger than an output may be, and three parts.
const LARGE: usize = 11 << 20;

fn bytes(size: usize) -> Vec<u8> {
    (0..size)
        .map(|at| (at ^ (at >> 8) ^ (at >> 16)) as u8)
        .collect()
}

fn name(bytes: &[u8]) -> String {
    format!("sha256:{}", Digest::of(bytes))
}

/// Gives `/large`, says back what is put to it, and leads `/moved` and `/other` elsewhere.
fn store_server() -> StubServer {
    StubServer::start(|request| {
        let kind = vec![("content-type", "application/x-tar".to_owned())];
        let to = |place: &str| vec![("location", place.to_owned())];
        match request.path.as_str() {
            "/large" => ServiceReply::Bytes(200, kind, bytes(LARGE)),
            "/moved" => ServiceReply::Bytes(307, to("/put"), Vec::new()),
            "/other" => ServiceReply::Bytes(303, to("/put"), Vec::new()),
            _ => ok(json!({
                "method": request.method,
                "digest": name(&request.body),
                "type": request.header("content-type"),
                "length": request.header("content-length"),
                "chunked": request.header("transfer-encoding"),
            })),
        }
    })
}

fn get(server: &StubServer, path: &str) -> Value {
    json!({ "id": "get", "actionType": "http.request",
        "parameters": { "url": format!("{}{path}", server.url), "responseType": "blob" } })
}

fn put(server: &StubServer, path: &str, blob: &str) -> Value {
    json!({ "id": "put", "actionType": "http.request", "dependsOn": ["get"],
        "parameters": { "url": format!("{}{path}", server.url), "method": "PUT", "bodyBlob": blob } })
}

async fn read(store: &MemoryStore, run: RunId, digest: &Digest) -> Option<Vec<u8>> {
    let file = find_file(store, run, digest).await.unwrap()?;
    let mut reader = FileReader::new(std::sync::Arc::new(store.clone()), file);
    let mut all = Vec::new();
    while let Some(part) = reader.read().await.unwrap() {
        assert!(part.len() <= 4 << 20, "{} bytes at once", part.len());
        all.extend(part);
    }
    Some(all)
}

async fn one(server: &StubServer, mut parameters: Value) -> Ran {
    parameters["url"] = json!(server.url);
    parameters["responseType"] = json!("blob");
    let setup = Setup::new(&[("SECRET", "s3cret-value-1")]);
    setup.run("http.request", parameters).await
}

#[tokio::test]
async fn a_large_answer_is_stored_beside_the_output_and_sent_on() {
    let server = store_server();
    let setup = Setup::new(&[]);
    for (blob, path, method) in [
        ("{{ context.data['get'].blob }}", "/put", "PUT"),
        ("{{ context.data['get'].blob.digest }}", "/put", "PUT"),
        ("{{ context.data['get'].blob }}", "/moved", "PUT"),
        ("{{ context.data['get'].blob }}", "/other", "GET"),
    ] {
        let nodes = json!([get(&server, "/large"), put(&server, path, blob)]);
        let ran = setup.run_nodes(nodes).await;
        let expected = json!({ "digest": name(&bytes(LARGE)), "bytes": LARGE,
            "contentType": "application/x-tar" });
        let output = &ran.node["get"]["output"];
        assert_eq!(output["blob"], expected, "{output}");
        assert_eq!((&output["status"], output.get("body")), (&json!(200), None));
        let said = &ran.node["put"]["output"]["body"];
        assert_eq!(said["method"], method, "{path}: {}", ran.node["put"]);
        if method == "PUT" {
            assert_eq!(said["digest"], name(&bytes(LARGE)), "{path}");
            assert_eq!(said["type"], "application/x-tar");
            assert_eq!(
                (&said["length"], &said["chunked"]),
                (&json!(LARGE.to_string()), &json!(""))
            );
        } else {
            assert_eq!(said["digest"], name(b""), "a GET has no body");
        }
        let digest = Digest::of(&bytes(LARGE));
        let back = read(&setup.store, ran.run, &digest).await.unwrap();
        assert!(back == bytes(LARGE));
    }
}

#[tokio::test]
async fn a_blob_lives_as_long_as_a_run_that_names_it() {
    let server = store_server();
    let setup = Setup::new(&[]);
    let world = World::with(
        setup.store.clone(),
        windlass_actions::registry_with(setup.options.clone()),
        windlass_engine::Options::default(),
    );
    let nodes = json!([
        get(&server, "/large"),
        put(&server, "/put", "{{ context.data['get'].blob }}")
    ]);
    let text = json!({ "id": "copy", "nodes": nodes }).to_string();
    let (origin, _) = world.run(&text).await;
    let digest = Digest::of(&bytes(LARGE));
    let engine = &world.engine;
    verify(&**engine.store(), engine.plans(), origin).expect("sound");
    let ask = Ask {
        origin,
        from: vec!["put".to_owned()],
        graph: ForkGraph::Same,
        trigger: None,
        vars: BTreeMap::new(),
        reuse_compensated: false,
        actor: Default::default(),
    };
    let forked = fork(&**engine.store(), engine.plans(), engine.values(), &ask).expect("a fork");
    let run = world.run_request(&forked.new_run).await;
    let file = find_file(&world.store, run, &digest)
        .await
        .unwrap()
        .expect("it has it");
    assert_eq!(file.parts.len(), 3);
    // Another run may not read it, though the store has the bytes.
    let (stranger, _) = world
        .run(r#"{"id":"x","nodes":[{"id":"a","actionType":"core.echo"}]}"#)
        .await;
    assert_eq!(
        find_file(&world.store, stranger, &digest).await.unwrap(),
        None
    );
    assert_eq!(world.store.forget(vec![origin], false).await.unwrap(), 1);
    assert!(read(&world.store, run, &digest).await.unwrap() == bytes(LARGE));
    let put = &world.json(run, &Default::default())["nodes"]["put"];
    assert_eq!(
        put["output"]["body"]["digest"],
        name(&bytes(LARGE)),
        "{put}"
    );
    // Its parts are used, and not only held for the time being.
    for part in &file.parts {
        assert!(world.store.uses(run, &part.digest()).await.unwrap());
    }
    world.engine.shutdown().await;
}

#[tokio::test]
async fn a_reattempt_finds_the_blob_of_the_node_before_it() {
    let server = store_server();
    let setup = Setup::new(&[]);
    server.fail("/put", ServiceReply::Json(503, Vec::new(), json!({})));
    let mut last = put(&server, "/put", "{{ context.data['get'].blob }}");
    last["policies"] = json!({ "retry": { "maxAttempts": 3, "baseDelayMs": 1 } });
    let ran = setup.run_nodes(json!([get(&server, "/large"), last])).await;
    let said = &ran.node["put"]["output"]["body"];
    assert_eq!(said["digest"], name(&bytes(LARGE)), "{}", ran.node["put"]);
}

#[tokio::test]
async fn what_is_too_large_is_not_stored() {
    let plain = StubServer::start(|_| ServiceReply::Bytes(200, Vec::new(), bytes(2000)));
    let ran = one(&plain, json!({ "maxBytes": 1999 })).await;
    assert_eq!(ran.error(), ("BLOB_LIMIT", false), "{}", ran.node);
    let message = ran.node["error"]["message"].as_str().unwrap();
    assert!(
        message.starts_with(&format!("GET {}/: ", plain.url)),
        "{message}"
    );
    let ran = one(&plain, json!({ "maxBytes": 2000 })).await;
    assert_eq!(ran.node["output"]["blob"]["bytes"], 2000, "{}", ran.node);

    // A few bytes that would become many.
    let bomb = StubServer::start(|_| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        (0..64).for_each(|_| encoder.write_all(&vec![0; 1 << 20]).unwrap());
        let headers = vec![("content-encoding", "gzip".to_owned())];
        ServiceReply::Bytes(200, headers, encoder.finish().unwrap())
    });
    let ran = one(&bomb, json!({ "maxBytes": 20 << 20 })).await;
    assert_eq!(ran.error(), ("BLOB_LIMIT", false), "{}", ran.node);
    let ran = one(&bomb, json!({})).await;
    assert_eq!(
        ran.node["output"]["blob"]["digest"],
        name(&vec![0; 64 << 20])
    );
    let ran = one(&plain, json!({ "paginate": {} })).await;
    assert_eq!(ran.error(), ("PARAMETERS_INVALID", false), "{}", ran.node);
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_no_blob() {
    let cut = StubServer::start(|_| {
        let headers = vec![("content-length", "5000000".to_owned())];
        ServiceReply::Bytes(200, headers, bytes(100))
    });
    let ran = one(&cut, json!({ "timeoutMs": 5000 })).await;
    assert_eq!(ran.node["status"], "Failed", "{}", ran.node);
    assert!(ran.node["error"]["retriable"] == true, "{}", ran.node);
    assert!(!ran.recorded.contains("\"files\""), "{}", ran.recorded);
    let failed = StubServer::start(|_| ServiceReply::Bytes(500, Vec::new(), b"broken".to_vec()));
    let ran = one(&failed, json!({})).await;
    assert_eq!(ran.error(), ("HTTP_500", true), "{}", ran.node);
    assert_eq!(ran.node["error"]["details"]["body"], "broken");
}

#[tokio::test]
async fn an_answer_that_says_a_secret_back_is_not_stored() {
    let echo = StubServer::start(|request| {
        let mut body = bytes(5 << 20);
        // At the border of two parts, and in another form.
        let said = match request.path.as_str() {
            "/" => request.header("authorization").to_owned(),
            _ => request
                .header("authorization")
                .replace("s3cret-value-1", "733363726574"),
        };
        let at = (4 << 20) - said.len() / 2;
        body[at..at + said.len()].copy_from_slice(said.as_bytes());
        ServiceReply::Bytes(200, Vec::new(), body)
    });
    let auth = json!({ "auth": { "bearer": "{{ secrets.SECRET }}" } });
    let ran = one(&echo, auth).await;
    assert_eq!(ran.error(), ("BLOB_HOLDS_SECRET", false), "{}", ran.node);
    assert!(!ran.recorded.contains("s3cret-value-1"));
    let ran = one(&echo, json!({})).await;
    assert_eq!(ran.node["status"], "Succeeded", "{}", ran.node);
}

#[tokio::test]
async fn a_blob_that_the_run_did_not_store_is_not_sent() {
    let server = store_server();
    let setup = Setup::new(&[]);
    let stored = setup.run_nodes(json!([get(&server, "/large")])).await;
    let known = stored.node["get"]["output"]["blob"]["digest"].clone();
    let digest = Digest::of(&bytes(LARGE));
    assert!(
        setup.store.blob(&digest).await.unwrap().is_none(),
        "only parts are values"
    );
    for (blob, code) in [
        (known, "BLOB_NOT_FOUND"),
        (json!("sha256:12"), "BLOB_NOT_FOUND"),
        (json!({ "bytes": 1 }), "PARAMETERS_INVALID"),
        (json!(7), "PARAMETERS_INVALID"),
    ] {
        let parameters = json!({ "url": server.url, "method": "POST", "bodyBlob": blob });
        let ran = setup.run("http.request", parameters).await;
        assert_eq!(ran.error(), (code, false), "{}", ran.node);
    }
    let both = json!({ "url": server.url, "body": "x", "bodyBlob": "sha256:12" });
    let ran = setup.run("http.request", both).await;
    assert_eq!(ran.error(), ("PARAMETERS_INVALID", false), "{}", ran.node);
}
