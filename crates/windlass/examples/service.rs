//! A whole small service: orders over HTTP, executed durably in the same process. Kill it in the
//! middle of an order and start it again: the order continues where it was.
//!
//! ```console
//! cargo run -p windlass --example service
//! curl -X POST http://127.0.0.1:3000/orders -d '{"id": 7, "cents": 4200}'
//! curl http://127.0.0.1:3000/orders/…
//! ```

use std::path::Path as FilePath;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use windlass::schemars::JsonSchema;
use windlass::{
    ActionError, BuildError, Context, Engine, NodeStatus, OpenError, ReadError, Retry, RunId,
    StartError, Workflow,
};

/// What a customer sends.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Order {
    id: u32,
    cents: u64,
}

/// What the bank answers.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Receipt {
    number: u64,
    cents: u64,
}

/// The application's own, which every action shares. A real one holds a connection pool.
#[derive(Default)]
struct Bank {
    receipts: AtomicU64,
}

async fn charge(
    _: Context,
    bank: windlass::State<Bank>,
    order: Order,
) -> Result<Receipt, ActionError> {
    let number = bank.receipts.fetch_add(1, Ordering::SeqCst) + 1;
    let cents = order.cents;
    Ok(Receipt { number, cents })
}

async fn ship(context: Context, order: Order) -> Result<String, ActionError> {
    let receipt: Receipt = context.output("charge").await?;
    Ok(format!(
        "order {} is shipped, receipt {}",
        order.id, receipt.number
    ))
}

fn orders() -> Result<Workflow, BuildError> {
    Workflow::builder("orders")
        .trigger::<Order>()
        .step("charge", charge)
        .retry(Retry::attempts(5))
        .step("ship", ship)
        .build()
}

/// Opens the engine. Orders that an earlier process left are continued.
pub(crate) async fn open(folder: &FilePath) -> Result<Engine, OpenError> {
    let orders = orders().expect("the workflow is the same in every process");
    Engine::embedded(folder)
        .workflow(&orders)
        .state(Bank::default())
        .open()
        .await
}

pub(crate) fn router(engine: Engine) -> Router {
    Router::new()
        .route("/orders", post(accept))
        .route("/orders/{run}", get(show))
        .route("/orders/{run}/cancel", post(cancel))
        .with_state(engine)
}

/// Takes an order. It is durable before the answer; the same order twice is one run.
async fn accept(State(engine): State<Engine>, body: Bytes) -> Response {
    let order: Order = match serde_json::from_slice(&body) {
        Ok(order) => order,
        Err(error) => return answer(StatusCode::UNPROCESSABLE_ENTITY, &refusal(&error)),
    };
    let request = engine
        .request("orders")
        .request_id(format!("order-{}", order.id));
    match request.trigger(&order).start().await {
        Ok(run) => answer(
            StatusCode::ACCEPTED,
            &json!({ "order": format!("/orders/{}", run.id()) }),
        ),
        Err(error @ StartError::Refused(_)) => answer(StatusCode::CONFLICT, &refusal(&error)),
        Err(error) => answer(StatusCode::INTERNAL_SERVER_ERROR, &refusal(&error)),
    }
}

/// Says what became of an order.
async fn show(State(engine): State<Engine>, Path(run): Path<String>) -> Response {
    let Ok(run) = run.parse::<RunId>() else {
        return answer(StatusCode::NOT_FOUND, &refusal(&"there is no such order"));
    };
    match status(&engine, run).await {
        Ok(order) => answer(StatusCode::OK, &order),
        Err(error) => answer(StatusCode::NOT_FOUND, &refusal(&error)),
    }
}

async fn status(engine: &Engine, run: RunId) -> Result<Value, ReadError> {
    let run = engine.find(run).await?;
    let execution = run.execution().await?;
    let charge = execution.nodes.iter().find(|node| node.id == "charge");
    let charged = charge.filter(|node| node.status == NodeStatus::Succeeded);
    Ok(json!({
        "status": execution.status.to_string(),
        "receipt": charged.map(|node| &node.output),
        "output": execution.output,
        "error": execution.error,
    }))
}

async fn cancel(State(engine): State<Engine>, Path(run): Path<String>) -> Response {
    let Ok(run) = run.parse::<RunId>() else {
        return answer(StatusCode::NOT_FOUND, &refusal(&"there is no such order"));
    };
    let run = match engine.find(run).await {
        Ok(run) => run.by("customer").because("cancelled over HTTP"),
        Err(error) => return answer(StatusCode::NOT_FOUND, &refusal(&error)),
    };
    match run.cancel().await {
        Ok(()) => answer(StatusCode::ACCEPTED, &json!({ "cancelled": true })),
        Err(error) => answer(StatusCode::CONFLICT, &refusal(&error)),
    }
}

fn refusal(reason: &dyn std::fmt::Display) -> Value {
    json!({ "error": reason.to_string() })
}

fn answer(status: StatusCode, body: &Value) -> Response {
    let json = [(CONTENT_TYPE, "application/json")];
    (status, json, body.to_string()).into_response()
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let engine = open(FilePath::new("orders.data")).await?;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
    println!("http://{}", listener.local_addr()?);
    axum::serve(listener, router(engine.clone()))
        .with_graceful_shutdown(async {
            // If the signal cannot be waited for, the service stops at once.
            let _ = tokio::signal::ctrl_c().await;
        })
        .await?;
    engine.shutdown().await;
    Ok(())
}
