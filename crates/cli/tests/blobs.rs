//! Blobs on the real binary: stored by a run, written by `windlass blob` and the route, copied
//! by forks and backups, and never given to another tenant.

use serde_json::{Value, json};
use windlass_core::Digest;
use windlass_test_support::process::{Ended, World};
use windlass_test_support::services::{ServiceReply, StubServer};

const ALLOW: (&str, &str) = ("WINDLASS_HTTP_ALLOW", "127.0.0.1");

fn bytes() -> Vec<u8> {
    (0..9_000_000u32)
        .flat_map(u32::to_le_bytes)
        .take(9_000_000)
        .collect()
}

fn server() -> StubServer {
    StubServer::start(|_| ServiceReply::Bytes(200, Vec::new(), bytes()))
}

fn definition(server: &StubServer) -> String {
    json!({ "id": "fetch", "nodes": [
        { "id": "get", "actionType": "http.request",
          "parameters": { "url": server.url, "responseType": "blob" } },
        { "id": "after", "actionType": "core.echo", "dependsOn": ["get"] },
    ] })
    .to_string()
}

fn windlass(world: &World, arguments: &[&str]) -> Ended {
    let mut command = world.command(arguments);
    command.env(ALLOW.0, ALLOW.1);
    windlass_test_support::process::ended(command)
}

/// Writes the blob of a run to a new file, and compares it.
#[track_caller]
fn is_whole(world: &World, arguments: &[&str], run: &str, digest: &str) {
    let name = format!("{run}.out");
    let all = [arguments, &["blob", run, digest, "--out", &name, "--json"]].concat();
    let said = windlass(world, &all).expect(0).json();
    assert_eq!(
        (&said["bytes"], &said["digest"]),
        (&json!(9_000_000), &json!(digest))
    );
    let path = world.path().join(&name);
    assert!(std::fs::read(&path).expect("a file") == bytes());
    windlass(world, &all).failed(6, "FILE_EXISTS");
    std::fs::remove_file(path).expect("removed");
}

#[test]
fn a_blob_is_written_forked_backed_up_and_verified() {
    let (world, server) = (World::new(), server());
    let path = world.definition("fetch.json", &definition(&server));
    let ran = windlass(
        &world,
        &["run", path.to_str().expect("text"), "--json", "--quiet"],
    );
    let execution: Value = ran.expect(0).json();
    let run = execution["executionId"].as_str().expect("an id").to_owned();
    let blob = &execution["nodes"]["get"]["output"]["blob"];
    let digest = format!("sha256:{}", Digest::of(&bytes()));
    assert_eq!(blob["digest"], digest.as_str(), "{execution}");
    is_whole(&world, &[], &run, &digest);
    let fork = windlass(
        &world,
        &["fork", &run, "--from", "after", "--json", "--quiet"],
    );
    is_whole(&world, &[], &fork.expect(0).run_id(), &digest);
    windlass(&world, &["verify", &run]).expect(0);
    windlass(&world, &["rebuild"]).expect(0);
    windlass(&world, &["backup", "copy.backup"]).expect(0);
    windlass(
        &world,
        &["restore", "copy.backup", "--data-dir", "restored"],
    )
    .expect(0);
    is_whole(&world, &["--data-dir", "restored"], &run, &digest);

    let none = format!("sha256:{}", Digest::of(b"none"));
    windlass(&world, &["blob", &run, &none]).failed(4, "BLOB_NOT_FOUND");
    windlass(&world, &["blob", &run, "x"]).failed(4, "BLOB_NOT_FOUND");
}

#[test]
fn a_server_gives_a_blob_to_its_own_tenant_alone() {
    let (world, files) = (World::new(), server());
    let scopes = "workflows:read,workflows:execute,workflows:manage";
    let tokens = [
        world.token("one", Some("one"), scopes),
        world.token("two", Some("two"), scopes),
        world.token("no", Some("one"), "workflows:execute"),
    ];
    let server = world.serve_with(&["--auth-keys", "keys.json"], &[ALLOW]);
    let [one, two, unscoped] = tokens.map(|token| server.client_with(&token));
    one.publish(&definition(&files));
    let run = one.execute("fetch", &json!({}));
    let ended = one.ended(&run);
    let digest = format!("sha256:{}", Digest::of(&bytes()));
    assert_eq!(
        ended["nodes"]["get"]["output"]["blob"]["digest"],
        digest.as_str(),
        "{ended}"
    );
    let path = format!("/api/v1/executions/{run}/blobs/{digest}");
    let answer = one.get(&path).expect(200);
    assert!(answer.body == bytes());
    for (name, value) in [
        ("content-type", "application/octet-stream"),
        ("x-content-type-options", "nosniff"),
        ("content-disposition", "attachment"),
        ("content-length", "9000000"),
    ] {
        assert_eq!(answer.header(name), Some(value), "{}", answer.head);
    }
    let digits = digest.trim_start_matches("sha256:");
    let short = one.get(&format!("/api/v1/executions/{run}/blobs/{digits}"));
    assert_eq!(short.expect(200).body.len(), 9_000_000);
    two.get(&path).refused(404, "RUN_NOT_FOUND");
    unscoped.get(&path).expect(403);
    // Even under a run of its own, a tenant reads no blob that this run did not store.
    two.publish(
        &json!({ "id": "own", "nodes": [{ "id": "a", "actionType": "core.echo" }] }).to_string(),
    );
    let own = two.execute("own", &json!({}));
    two.ended(&own);
    two.get(&format!("/api/v1/executions/{own}/blobs/{digest}"))
        .refused(404, "BLOB_NOT_FOUND");
    one.get(&format!("/api/v1/executions/{run}/blobs/x"))
        .refused(404, "BLOB_NOT_FOUND");
    // The command line reads it through the server.
    let address = format!("http://{}", server.address());
    let token = world.token("one", Some("one"), scopes);
    let arguments = ["--server", &address, "--token", &token];
    is_whole(&world, &arguments, &run, &digest);
    server.stop();
}
