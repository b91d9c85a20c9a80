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
    ActionError, BuildError, Context, Engine, FrozenGraph, Graph, NodeSpec, NodeStatus, RunHandle,
    action,
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

/// Posts a mutation.
#[action("ledger.process-mutation")]
async fn process(context: Context, mutation: Mutation) -> Result<(), ActionError> {
    let ledger = context.state::<Ledger>()?;
    ledger.post(mutation.mutation, mutation.amount);
    Ok(())
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Nothing {}

/// Adds up what was posted.
#[action("ledger.aggregate")]
async fn aggregate(context: Context, _nothing: Nothing) -> Result<u64, ActionError> {
    Ok(context.state::<Ledger>()?.total())
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Notice {
    user: u32,
}

/// Tells a user what was posted.
#[action("users.notify")]
async fn notify(context: Context, notice: Notice) -> Result<String, ActionError> {
    let total: u64 = context.output("aggregate").await?; // by the node's name
    Ok(format!("user {}: {total} posted", notice.user))
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
    graph
        .node("aggregate", "ledger.aggregate", json!({}))
        .depends_on(&posted);
    graph.node("notify", "users.notify", json!({ "user": user }));
    Ok(graph.freeze()?.with_workflow_id("mutations"))
}

/// Processes mutations to their end.
pub(crate) async fn run(
    ledger: &Ledger,
    mutations: &[(u32, u64)],
) -> Result<RunHandle, Box<dyn std::error::Error>> {
    let engine = Engine::in_memory()
        .state(ledger.clone())
        .action(process)
        .action(aggregate)
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
    let succeeded = run.nodes_with_state(NodeStatus::Succeeded).await?;
    println!("{} nodes", succeeded.len());
    println!("{}", run.result().await?);
    Ok(())
}
