//! As many nodes as there is data: 200 pending mutations of a ledger in parallel, then an
//! aggregate, then a notice. The graph is made at run time and frozen; its nodes call
//! registered actions, which leave their results in the ledger.
//!
//! ```console
//! cargo run -p windlass --example mutations
//! ```

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde::Deserialize;
use serde_json::json;
use windlass::schemars::JsonSchema;
use windlass::{
    Action, ActionError, BuildError, Context, Engine, FrozenGraph, Graph, NodeSpec, RunHandle,
    action, function,
};

/// What the actions share: the amounts that were posted, by mutation.
#[derive(Clone, Default)]
pub(crate) struct Ledger(Arc<Mutex<BTreeMap<u32, u64>>>);

impl Ledger {
    /// Posting the same mutation twice changes nothing: an action may be started again
    /// after a crash.
    fn post(&self, mutation: u32, amount: u64) {
        let mut posted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        posted.insert(mutation, amount);
    }

    pub(crate) fn total(&self) -> u64 {
        let posted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        posted.values().sum()
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Mutation {
    mutation: u32,
    amount: u64,
}

fn process(ledger: Ledger) -> impl Action {
    function("ledger.process-mutation", move |_, mutation: Mutation| {
        let ledger = ledger.clone();
        async move {
            ledger.post(mutation.mutation, mutation.amount);
            Ok(())
        }
    })
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Nothing {}

fn aggregate(ledger: Ledger) -> impl Action {
    function("ledger.aggregate", move |_, _: Nothing| {
        let total = ledger.total();
        async move { Ok(total) }
    })
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Notice {
    user: u32,
    total: u64,
}

/// Tells a user what was posted.
#[action("users.notify")]
async fn notify(_context: Context, notice: Notice) -> Result<String, ActionError> {
    Ok(format!("user {}: {} posted", notice.user, notice.total))
}

/// The graph of one user's pending mutations.
pub(crate) fn graph(user: u32, mutations: &[(u32, u64)]) -> Result<FrozenGraph, BuildError> {
    let mut graph = Graph::builder();
    let posted = graph.fan_out(mutations, |(id, amount)| {
        let parameters = json!({ "mutation": id, "amount": amount });
        NodeSpec::new(
            format!("mutation_{id}"),
            "ledger.process-mutation",
            parameters,
        )
        .retry(3)
    });
    let aggregate = graph
        .node("aggregate", "ledger.aggregate", json!({}))
        .depends_on(&posted)
        .id();
    let total = format!("{{{{ context.data['{aggregate}'] }}}}");
    graph.node(
        "notify",
        "users.notify",
        json!({ "user": user, "total": total }),
    );
    Ok(graph.freeze()?.with_workflow_id("mutations"))
}

/// Processes mutations to their end.
pub(crate) async fn run(
    ledger: &Ledger,
    mutations: &[(u32, u64)],
) -> Result<RunHandle, Box<dyn std::error::Error>> {
    let engine = Engine::in_memory()
        .action(process(ledger.clone()))
        .action(aggregate(ledger.clone()))
        .action(notify)
        .open()
        .await?;
    let run = engine.start(&graph(7, mutations)?, json!({})).await?;
    run.wait().await?;
    Ok(run)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mutations: Vec<(u32, u64)> = (1..=200).map(|id| (id, u64::from(id) * 10)).collect();
    let run = run(&Ledger::default(), &mutations).await?;
    println!("{} nodes", run.nodes_with_state("Succeeded")?.len());
    println!("{}", run.result().await?);
    Ok(())
}
