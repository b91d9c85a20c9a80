//! The examples do what they say.

#[path = "../examples/mutations.rs"]
#[expect(dead_code, reason = "an example's main is not called here")]
mod mutations;
#[path = "../examples/order_processing.rs"]
#[expect(dead_code, reason = "an example's main is not called here")]
mod order_processing;
#[path = "../examples/saga.rs"]
#[expect(dead_code, reason = "an example's main is not called here")]
mod saga;

#[path = "../examples/service.rs"]
#[expect(dead_code, reason = "an example's main is not called here")]
mod service;

use std::collections::BTreeMap;

use axum::body::Body;
use axum::http::Request;
use http_body_util::BodyExt as _;
use mutations::Ledger;
use order_processing::Order;
use saga::Diary;
use serde_json::json;
use tower::ServiceExt as _;
use windlass::testing::TestEngine;
use windlass::{NodeStatus, RunStatus};
use windlass_store::Wait as _;

#[test]
fn the_order_has_the_graph_of_its_design() {
    let workflow = order_processing::workflow().expect("built");
    let edges: BTreeMap<&str, Vec<&str>> = workflow
        .definition()
        .nodes
        .iter()
        .map(|node| {
            (
                &*node.id,
                node.depends_on.iter().map(|name| &**name).collect(),
            )
        })
        .collect();
    let expected = [
        ("validate", vec![]),
        ("enrich_data", vec!["validate"]),
        ("check_inventory", vec!["validate"]),
        ("check_fraud", vec!["validate"]),
        ("ready_to_charge", vec!["check_inventory", "check_fraud"]),
        ("charge_card", vec!["ready_to_charge"]),
        ("send_receipt", vec!["charge_card"]),
        ("update_analytics", vec!["charge_card"]),
        (
            "complete",
            vec!["charge_card", "send_receipt", "update_analytics"],
        ),
    ];
    assert_eq!(edges, BTreeMap::from(expected));
}

#[tokio::test]
async fn an_order_is_processed() {
    let run = order_processing::process(Order { id: 7, total: 42 })
        .await
        .expect("ran");
    assert_eq!(
        run.result().await.expect("a result"),
        json!("order 7 is complete")
    );
    assert_eq!(
        run.nodes_with_state(NodeStatus::Succeeded)
            .await
            .expect("read")
            .len(),
        9
    );
    let run = order_processing::process(Order {
        id: 8,
        total: 20_000,
    })
    .await
    .expect("ran");
    assert_eq!(run.status().wait().expect("read"), RunStatus::Failed);
    assert_eq!(
        run.nodes_with_state(NodeStatus::Failed)
            .await
            .expect("read")[0]
            .id,
        "check_fraud"
    );
    assert_eq!(
        run.nodes_with_state(NodeStatus::Blocked)
            .await
            .expect("read")
            .len(),
        5
    );
    // What does not depend on the failure has run.
    assert_eq!(
        run.nodes_with_state(NodeStatus::Succeeded)
            .await
            .expect("read")
            .len(),
        3
    );
}

#[test]
fn an_order_survives_a_bank_that_is_away() {
    let workflow = order_processing::workflow().expect("built");
    let engine = TestEngine::builder()
        .workflow(&workflow)
        .fail("charge_card", 1, "BANK_AWAY")
        .fail("charge_card", 2, "BANK_AWAY")
        .open();
    engine
        .run(&workflow, json!({ "id": 7, "total": 42 }))
        .assert_succeeded()
        .assert_attempts("charge_card", 3)
        .assert_before("charge_card", "send_receipt")
        .assert_before("send_receipt", "complete");
}

#[tokio::test]
async fn two_hundred_mutations_are_posted() {
    let mutations: Vec<(u32, u64)> = (1..=200).map(|id| (id, u64::from(id))).collect();
    let ledger = Ledger::default();
    let run = mutations::run(&ledger, &mutations).await.expect("ran");
    assert_eq!(
        run.result().await.expect("a result"),
        json!("user 7: 20100 posted")
    );
    assert_eq!(ledger.total(), 20_100);
    assert_eq!(
        run.nodes_with_state(NodeStatus::Succeeded)
            .await
            .expect("read")
            .len(),
        202
    );
    let no_mutations = mutations::run(&ledger, &[]).await.expect("ran");
    assert_eq!(
        no_mutations.status().wait().expect("read"),
        RunStatus::Succeeded
    );
}

#[tokio::test]
async fn a_failed_journey_is_undone_in_reverse() {
    let diary = Diary::default();
    let run = saga::travel(&diary).await.expect("it ran");
    assert_eq!(run.status().wait().expect("read"), RunStatus::Failed);
    let expected = ["book flight", "book hotel", "cancel hotel", "cancel flight"];
    assert_eq!(diary.lines(), expected);
    let execution = run.execution().await.expect("read");
    assert_eq!(execution.compensation.as_deref(), Some("complete"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_takes_orders_and_says_what_became_of_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let engine = service::open(folder.path()).await.expect("open");
    let router = service::router(engine.clone());
    let ask = async |method: &str, path: &str, body: &str| {
        let request = Request::builder().method(method).uri(path);
        let request = request
            .body(Body::from(body.to_owned()))
            .expect("a request");
        let answer = router.clone().oneshot(request).await.expect("an answer");
        let status = answer.status().as_u16();
        let bytes = answer
            .into_body()
            .collect()
            .await
            .expect("a body")
            .to_bytes();
        let json: serde_json::Value = serde_json::from_slice(&bytes).unwrap_or_default();
        (status, json)
    };
    let order = r#"{"id":7,"cents":4200}"#;
    let (status, accepted) = ask("POST", "/orders", order).await;
    assert_eq!(status, 202, "{accepted}");
    let place = accepted["order"].as_str().expect("a place").to_owned();
    let (status, again) = ask("POST", "/orders", order).await;
    assert_eq!((status, again["order"].as_str()), (202, Some(&*place)));
    let ended = loop {
        let (status, order) = ask("GET", &place, "").await;
        assert_eq!(status, 200, "{order}");
        if order["status"] != "Running" && order["status"] != "Pending" {
            break order;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(ended["status"], "Succeeded");
    assert_eq!(ended["receipt"]["cents"], 4200);
    let (status, refused) = ask("POST", "/orders", r#"{"id":8}"#).await;
    assert_eq!(status, 422, "{refused}");
    let nobody = "/orders/00000000-0000-7000-8000-000000000000";
    assert_eq!(ask("GET", nobody, "").await.0, 404);
    assert_eq!(ask("POST", &format!("{place}/cancel"), "").await.0, 409);
    engine.shutdown().await;
}
