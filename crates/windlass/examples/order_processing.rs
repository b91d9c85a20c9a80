//! An order, from validation to completion: a chain of steps, tasks that branch off and
//! come back, and functions that read the results of earlier ones by their types.
//!
//! ```console
//! cargo run -p windlass --example order_processing
//! ```

use serde::{Deserialize, Serialize};
use windlass::schemars::JsonSchema;
use windlass::{ActionError, BuildError, Context, Engine, RunHandle, Workflow};

/// What a run is about.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Order {
    pub(crate) id: u32,
    pub(crate) total: u32,
}

/// What the bank gives for a charge.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
struct Receipt {
    number: String,
    total: u32,
}

async fn validate(_: Context, order: Order) -> Result<(), ActionError> {
    if order.total == 0 {
        return Err(ActionError::failed(
            "ORDER_EMPTY",
            "there is nothing to charge",
        ));
    }
    Ok(())
}

async fn enrich_data(_: Context, _: Order) -> Result<(), ActionError> {
    Ok(())
}

async fn check_inventory(_: Context, _: Order) -> Result<(), ActionError> {
    Ok(())
}

async fn check_fraud(_: Context, order: Order) -> Result<(), ActionError> {
    if order.total > 10_000 {
        return Err(ActionError::failed("SUSPICIOUS", "the total is very large"));
    }
    Ok(())
}

async fn ready_to_charge(_: Context, _: Order) -> Result<(), ActionError> {
    Ok(())
}

/// The idempotency key is the same for every attempt: the bank charges once.
async fn charge_card(context: Context, order: Order) -> Result<Receipt, ActionError> {
    Ok(Receipt {
        number: context.idempotency_key,
        total: order.total,
    })
}

/// The result of an earlier step, by its type.
async fn send_receipt(context: Context) -> Result<String, ActionError> {
    let receipt: Receipt = context.output("charge_card").await?;
    Ok(format!("{} was paid ({})", receipt.total, receipt.number))
}

async fn update_analytics(_: Context, _: Order) -> Result<(), ActionError> {
    Ok(())
}

async fn complete(_: Context, order: Order) -> Result<String, ActionError> {
    Ok(format!("order {} is complete", order.id))
}

/// The graph. A step comes after the step before it, unless it names what it depends on;
/// a task only ever depends on what it names.
pub(crate) fn workflow() -> Result<Workflow, BuildError> {
    Workflow::builder("order-processing")
        .trigger::<Order>()
        .output("{{ context.data['complete'] }}")
        .step("validate", validate)
        .step("enrich_data", enrich_data)
        // Tasks branch off from the chain.
        .task("check_inventory", check_inventory)
        .depends_on(["validate"])
        .task("check_fraud", check_fraud)
        .depends_on(["validate"])
        // Still in the chain, with dependencies of its own.
        .step("ready_to_charge", ready_to_charge)
        .depends_on(["check_inventory", "check_fraud"])
        // Back to the chain: it comes after ready_to_charge.
        .step("charge_card", charge_card)
        .retry(3)
        .task("send_receipt", send_receipt)
        .depends_on(["charge_card"])
        .task("update_analytics", update_analytics)
        .depends_on(["charge_card"])
        // The ways come together.
        .step("complete", complete)
        .depends_on(["charge_card", "send_receipt", "update_analytics"])
        .build()
}

/// Processes one order to its end.
pub(crate) async fn process(order: Order) -> Result<RunHandle, Box<dyn std::error::Error>> {
    let workflow = workflow()?;
    let engine = Engine::in_memory().workflow(&workflow).open().await?;
    let run = engine.start(&workflow, order).await?;
    run.wait().await?;
    Ok(run)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let run = process(Order { id: 7, total: 42 }).await?;
    for node in run.nodes().await? {
        println!("{:<16} {} {}", node.id, node.status, node.output);
    }
    println!("{}", run.result().await?);
    Ok(())
}
