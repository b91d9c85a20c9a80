//! What `windlass serve` says of a database that it cannot work with, and that it waits for one
//! that is away.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::process::Stdio;

use windlass_test_support::postgres::{Proxy, server as database};
use windlass_test_support::process::World;

/// Exit code of a store that cannot be used.
const STORAGE: i32 = 74;

fn serve<'a>(url: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let arguments = ["serve", "--listen", "127.0.0.1:0", "--backend", "postgres"];
    [&arguments[..], &["--postgres-url", url], more].concat()
}

/// A server is refused, and its message has these parts.
#[track_caller]
fn refused(world: &World, url: &str, more: &[&str], parts: &[&str]) {
    let ended = world.run(&serve(url, more)).expect(STORAGE);
    for part in parts {
        assert!(ended.stderr.contains(part), "{part}: {}", ended.stderr);
    }
    assert!(!ended.stderr.contains("hidden"), "{}", ended.stderr);
}

fn sql(text: &str) {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let connected = tokio_postgres::connect(database().url(), tokio_postgres::NoTls).await;
        let (client, connection) = connected.expect("the server answers");
        tokio::spawn(connection);
        client.batch_execute(text).await.expect("it is done");
    });
}

fn schema(url: &str) -> String {
    url.rsplit_once('=').expect("a schema").1.to_owned()
}

#[test]
fn a_server_says_why_it_cannot_use_a_database_and_what_to_do() {
    let world = World::new();
    let url = database().fresh();
    let with = |from: &str, to: &str| url.replacen(from, to, 1);
    let stranger = with("windlass@", "stranger:hidden@");
    let parts = ["stranger", "check the user", "pg_hba.conf"];
    refused(&world, &stranger, &[], &parts);
    let nowhere = with("/postgres", "/nowhere");
    refused(&world, &nowhere, &[], &["nowhere", "CREATE DATABASE"]);
    let role = format!("r_{}", schema(&url));
    sql(&format!("create role {role} login"));
    let poor = with("windlass@", &format!("{role}@"));
    refused(&world, &poor, &[], &["CREATE SCHEMA", &role]);
    let theirs = database().fresh();
    let name = schema(&theirs);
    sql(&format!(
        "create schema {name}; create table {name}.theirs (n int)"
    ));
    refused(&world, &theirs, &[], &["theirs", "schema="]);
    // One that a newer program has migrated, and one of another cluster.
    let named = [("WINDLASS_CLUSTER_NAME", "blue")];
    let arguments = ["--backend", "postgres", "--postgres-url", &url];
    world.serve_with(&arguments, &named).stop();
    let mut other = world.command(&serve(&url, &[]));
    other.env("WINDLASS_CLUSTER_NAME", "green");
    let other = other.output().expect("it runs");
    let said = String::from_utf8_lossy(&other.stderr);
    assert_eq!(other.status.code(), Some(STORAGE), "{said}");
    assert!(
        said.contains("'blue'") && said.contains("'green'"),
        "{said}"
    );
    assert!(said.contains("schema="), "{said}");
    refused(&world, &url, &[], &["'blue'", "WINDLASS_CLUSTER_NAME"]);
    let name = schema(&url);
    sql(&format!(
        "update {name}.windlass_meta set value = '99' where key = 'version'"
    ));
    refused(&world, &url, &[], &["99", "newer program"]);
}

const KEY: &str = "WINDLASS_SEALING_KEY";

#[test]
fn a_process_with_another_sealing_key_or_none_is_refused() {
    let (world, url) = (World::new(), database().fresh());
    let arguments = ["--backend", "postgres", "--postgres-url", &url];
    let key = |letter: &str| format!("{}=", letter.repeat(43));
    let (ours, theirs) = (key("A"), key("E"));
    // Without a key there is nothing to compare with yet.
    world.serve_with(&arguments, &[(KEY, "")]).stop();
    world.serve_with(&arguments, &[(KEY, &ours)]).stop();
    let refused = |value: &str, role: &str, part: &str| {
        let mut command = world.command(&serve(&url, &["--role", role, "--json"]));
        command.env(KEY, value);
        let ended = windlass_test_support::process::ended(command);
        ended.failed(STORAGE, "SECRET_KEY_UNUSABLE");
        let said = &ended.stderr;
        assert!(said.contains(part) && said.contains(KEY), "{said}");
    };
    for role in ["all", "api", "worker", "orchestrator"] {
        refused(&theirs, role, "not the one of its cluster");
    }
    for role in ["all", "api", "worker"] {
        refused("", role, "has no key");
    }
    // One that never reads secrets needs none.
    let owner = [&arguments[..], &["--role", "orchestrator"]].concat();
    world.serve_with(&owner, &[(KEY, "")]).stop();
    let both = format!("{theirs} {ours}");
    world.serve_with(&arguments, &[(KEY, &both)]).stop();
}

#[test]
fn a_missing_password_is_refused_like_a_wrong_one() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    // Stands in for a database that asks for a password, for as long as the test runs.
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let mut client = client.expect("a client");
            let mut length = [0; 4];
            if client.read_exact(&mut length).is_err() {
                continue;
            }
            let mut rest = vec![0; u32::from_be_bytes(length) as usize - 4];
            let _ = client.read_exact(&mut rest);
            let _ = client.write_all(&[b'R', 0, 0, 0, 8, 0, 0, 0, 3]);
            let _ = client.read(&mut [0]);
        }
    });
    let world = World::new();
    let url = format!("postgres://ann@{address}/db?sslmode=disable");
    let parts = ["password missing", "WINDLASS_POSTGRES_PASSWORD"];
    refused(&world, &url, &[], &parts);
    let query = world.run(&["query", "select 1", "--postgres-url", &url, "--json"]);
    query.failed(STORAGE, "DATABASE_REFUSED");
    let doctor = world.run(&["doctor", "--postgres-url", &url]);
    let said = format!("{}{}", doctor.stdout, doctor.stderr);
    assert!(
        said.contains("WINDLASS_POSTGRES_PASSWORD") && !said.contains("cannot be reached"),
        "{said}"
    );
}

#[test]
fn a_named_process_takes_no_schema_from_live_processes_without_a_name() {
    let (world, url) = (World::new(), database().fresh());
    let arguments = ["--backend", "postgres", "--postgres-url", &url];
    let live = world.serve_with(&arguments, &[]);
    let named = format!("{url}&cluster=intruder");
    let name = live.process().to_string();
    let parts = ["'intruder'", &*name, "schema=", "stop those processes"];
    refused(&World::new(), &named, &[], &parts);
    // The live ones may still be joined and restarted.
    world.serve_with(&arguments, &[]).stop();
    live.stop();
    // An idle schema may be given a name.
    let arguments = ["--backend", "postgres", "--postgres-url", &named];
    world.serve_with(&arguments, &[]).stop();
}

#[test]
fn a_server_waits_for_a_database_that_is_away_and_says_so() {
    let proxy = Proxy::to(&database().address());
    proxy.refuse(true);
    let url = database().at(proxy.address());
    let world = World::new();
    let mut command = world.command(&serve(&url, &["--json"]));
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut server = command.spawn().expect("it starts");
    let mut said = BufReader::new(server.stderr.take().expect("a pipe")).lines();
    let waits = said.find(|line| {
        let line = line.as_deref().unwrap_or_default();
        line.contains("waiting for the database")
    });
    assert!(waits.is_some(), "it does not say that it waits");
    proxy.refuse(false);
    let mut out = BufReader::new(server.stdout.take().expect("a pipe")).lines();
    let listening = out.next().expect("it says where it listens").expect("text");
    assert!(listening.contains("url"), "{listening}");
    server.kill().expect("it lives");
    server.wait().expect("it ends");
}

#[test]
fn a_database_url_that_is_wrong_is_refused_without_its_password() {
    let world = World::new();
    for (rest, part) in [
        ("host/db?schema=pg_own", "'pg_own' cannot be the schema"),
        ("host/db?colour=red", "colour"),
        ("host", "names no database"),
    ] {
        let url = format!("postgres://ann:hidden@{rest}");
        let mut by_variable = world.command(&["runs"]);
        by_variable.env("WINDLASS_POSTGRES_URL", &url);
        for command in [world.command(&serve(&url, &[])), by_variable] {
            let ended = windlass_test_support::process::ended(command).expect(2);
            assert!(ended.stderr.contains(part), "{part}: {}", ended.stderr);
            assert!(!ended.stderr.contains("hidden"), "{}", ended.stderr);
        }
    }
}

#[test]
fn doctor_and_a_migration_make_no_schema_where_none_is() {
    let world = World::new();
    let url = database().fresh();
    let doctor = world.run(&["doctor", "--postgres-url", &url]);
    assert!(
        doctor.stdout.contains("does not exist yet"),
        "{}",
        doctor.stdout
    );
    let (from, to) = (["--from", "postgres"], ["--to", "embedded"]);
    let more = ["--data-dir", "copy", "--postgres-url", &url];
    let migrate = world.run(&[&["migrate"][..], &from, &to, &more].concat());
    migrate.failed(STORAGE, "DATABASE_REFUSED");
    let query = world.run(&["query", "select 1 from workflows", "--postgres-url", &url]);
    query.failed(3, "QUERY_FAILED");
    assert!(query.stderr.contains("has no schema"), "{}", query.stderr);
}

#[test]
fn a_database_that_is_named_goes_before_a_server_of_the_environment() {
    let world = World::new();
    let url = database().fresh();
    let arguments = ["--backend", "postgres", "--postgres-url", &url];
    let server = world.serve_with(&arguments, &[]);
    let run = |arguments: &[&str]| {
        let mut command = world.command(arguments);
        // Nothing listens there.
        command.env("WINDLASS_SERVER", "http://127.0.0.1:9");
        windlass_test_support::process::ended(command)
    };
    // Nothing is asked of NATS.
    let nats = ["--nats-url", "nats://127.0.0.1:9"];
    let query = ["query", "select 1 as one", "--postgres-url", &url];
    let query = [&query[..], &nats].concat();
    assert!(run(&query).expect(0).stdout.contains("one"));
    let doctor = run(&["doctor", "--postgres-url", &url]).expect(0);
    assert!(
        doctor.stdout.contains("schema version"),
        "{}",
        doctor.stdout
    );
    server.stop();
    let migrate = [
        "--from",
        "postgres",
        "--to",
        "embedded",
        "--data-dir",
        "copy",
    ];
    run(&[&["migrate"][..], &migrate, &["--postgres-url", &url]].concat()).expect(0);
    // A flag is as close as the other.
    let both = [&query[..], &["--server", "http://127.0.0.1:9"]].concat();
    run(&both).failed(2, "SERVER_UNSUPPORTED");
}

/// Stands in for a database that asks for a password in plain text; gives what it is told.
fn asks_for_a_password(listener: &TcpListener) -> String {
    let (mut client, _) = listener.accept().expect("a client");
    let mut message = |kind: bool| {
        let mut head = [0; 5];
        let head = &mut head[usize::from(!kind)..];
        client.read_exact(head).expect("a message");
        let length = head[head.len() - 4..].try_into().expect("four bytes");
        let mut rest = vec![0; u32::from_be_bytes(length) as usize - 4];
        client.read_exact(&mut rest).expect("the whole of it");
        if !kind {
            client
                .write_all(&[b'R', 0, 0, 0, 8, 0, 0, 0, 3])
                .expect("it listens");
        }
        rest
    };
    message(false);
    let password = message(true);
    String::from_utf8_lossy(&password)
        .trim_end_matches('\0')
        .to_owned()
}

#[test]
fn a_password_comes_from_its_own_variable_or_file() {
    let world = World::new();
    std::fs::write(world.path().join("password"), "from a file\n").expect("written");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let url = format!("postgres://ann:hidden@{address}/db?sslmode=disable");
    let file = ("WINDLASS_POSTGRES_PASSWORD_FILE", "password");
    let variable = ("WINDLASS_POSTGRES_PASSWORD", "from a variable");
    let cases = [
        (vec![], "hidden"),
        (vec![variable], "from a variable"),
        (vec![variable, file], "from a file"),
    ];
    for (variables, expected) in cases {
        let mut command = world.command(&["doctor", "--postgres-url", &url]);
        command.envs(variables);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let asking = command.spawn().expect("it starts");
        assert_eq!(asks_for_a_password(&listener), expected);
        let ended = asking.wait_with_output().expect("it ends");
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(!said.contains(expected), "{said}");
    }
}

#[test]
fn a_backup_of_a_database_is_refused_and_names_its_own_tools() {
    let (world, url) = (World::new(), database().fresh());
    let mut alone = world.command(&["backup", "copy.backup"]);
    alone.env("WINDLASS_BACKEND", "postgres");
    alone.env("WINDLASS_POSTGRES_URL", &url);
    let alone = windlass_test_support::process::ended(alone);
    let arguments = ["--backend", "postgres", "--postgres-url", &url];
    let server = world.serve_with(&arguments, &[]);
    let asked = server.run(&world, &["backup", "copy.backup"]);
    for ended in [alone, asked] {
        ended.failed(2, "BACKUP_UNSUPPORTED");
        assert!(ended.stderr.contains("pg_dump"), "{}", ended.stderr);
    }
    server.stop();
}
