//! One node on an engine with the in-memory store, and a server on loopback that answers as
//! each test says. Each test binary uses a part of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use windlass_actions::{Allowed, Options, registry_with};
use windlass_store::MemoryStore;
use windlass_test_support::in_memory::World;

/// Runs one node and gives its entry of the execution.
pub(crate) async fn run_node(action: &str, parameters: Value, allow: &[&str]) -> Value {
    let (node, _) = run_with_secret(action, parameters, allow, "").await;
    node
}

/// Secrets by name.
struct Secrets(BTreeMap<String, String>);

impl windlass_engine::SecretSource for Secrets {
    fn secret(&self, name: &str) -> Option<String> {
        self.0.get(name).cloned()
    }
}

/// Runs one node; its entry of the execution, and everything that was recorded as text.
pub(crate) async fn run_with_secret(
    action: &str,
    parameters: Value,
    allow: &[&str],
    secret: &str,
) -> (Value, String) {
    let setup = Setup {
        options: Options {
            http_allowed: Allowed::parse(allow).unwrap(),
            ..Options::default()
        },
        ..Setup::new(&[("X", secret)])
    };
    let ran = setup.run(action, parameters).await;
    (ran.node, ran.recorded)
}

/// What a node runs on.
pub(crate) struct Setup {
    pub(crate) options: Options,
    pub(crate) secrets: BTreeMap<String, String>,
    pub(crate) policies: Value,
    pub(crate) store: MemoryStore,
}

/// A node that has run.
pub(crate) struct Ran {
    pub(crate) run: windlass_core::RunId,
    pub(crate) node: Value,
    pub(crate) recorded: String,
    pub(crate) resources: Vec<windlass_store::ResourceRow>,
}

impl Ran {
    /// The code of its error, and whether it is retriable.
    pub(crate) fn error(&self) -> (&str, bool) {
        let error = &self.node["error"];
        let code = error["code"].as_str().unwrap_or("");
        (code, error["retriable"] == true)
    }
}

impl Setup {
    /// Loopback may be reached, and these secrets are there.
    pub(crate) fn new(secrets: &[(&str, &str)]) -> Self {
        let secret = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Self {
            options: Options {
                http_allowed: Allowed::parse(["127.0.0.1"]).unwrap(),
                ..Options::default()
            },
            secrets: secrets.iter().map(secret).collect(),
            policies: json!({}),
            store: MemoryStore::new(),
        }
    }

    /// Runs a node of this action to its end, in a run of its own.
    pub(crate) async fn run(&self, action: &str, parameters: Value) -> Ran {
        let node = json!({ "id": "n", "actionType": action, "parameters": parameters,
            "policies": self.policies });
        let mut ran = self.run_nodes(json!([node])).await;
        ran.node = ran.node["n"].take();
        ran
    }

    /// Runs two nodes of this action one after the other, `a` and `b`; both their entries.
    pub(crate) async fn run_chain(&self, action: &str, parameters: Value) -> Value {
        let node = json!({ "id": "a", "actionType": action, "parameters": parameters });
        let mut next = node.clone();
        next["id"] = json!("b");
        next["dependsOn"] = json!(["a"]);
        self.run_nodes(json!([node, next])).await.node
    }

    /// Runs these nodes to their end; the entry is that of all of them by id.
    pub(crate) async fn run_nodes(&self, nodes: Value) -> Ran {
        let registry = registry_with(self.options.clone());
        let options = windlass_engine::Options {
            secrets: Arc::new(Secrets(self.secrets.clone())),
            ..Default::default()
        };
        let world = World::with(self.store.clone(), registry, options);
        let definition = json!({ "id": "one", "nodes": nodes });
        let (run, _) = world.run(&definition.to_string()).await;
        let execution = world.json(run, &Default::default());
        world.engine.shutdown().await;
        let records = windlass_store::Log::read(&self.store, run, 1, usize::MAX)
            .await
            .unwrap();
        let recorded = records
            .iter()
            .map(|record| String::from_utf8_lossy(&record.bytes).into_owned())
            .collect();
        Ran {
            run,
            node: execution["nodes"].clone(),
            recorded,
            resources: windlass_store::Queries::resources(&self.store, run)
                .await
                .unwrap(),
        }
    }
}

/// Answers every connection with the same bytes, and hands out what was asked.
pub(crate) async fn server(
    answer: String,
) -> (String, tokio::sync::mpsc::UnboundedReceiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (asked, questions) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut bytes = vec![0; 64 * 1024];
            let count = stream.read(&mut bytes).await.unwrap_or(0);
            let _ = asked.send(String::from_utf8_lossy(&bytes[..count]).into_owned());
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    (address, questions)
}

pub(crate) fn answer(status: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n{headers}\r\n{body}"
    )
}
