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

use std::collections::BTreeMap;

use mutations::Ledger;
use order_processing::Order;
use saga::Diary;
use serde_json::json;
use windlass::RunStatus;
use windlass::testing::TestEngine;
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
    assert_eq!(run.nodes_with_state("Succeeded").expect("read").len(), 9);
    let run = order_processing::process(Order {
        id: 8,
        total: 20_000,
    })
    .await
    .expect("ran");
    assert_eq!(run.status().wait().expect("read"), RunStatus::Failed);
    assert_eq!(
        run.nodes_with_state("Failed").expect("read")[0].id,
        "check_fraud"
    );
    assert_eq!(run.nodes_with_state("Blocked").expect("read").len(), 5);
    // What does not depend on the failure has run.
    assert_eq!(run.nodes_with_state("Succeeded").expect("read").len(), 3);
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
    assert_eq!(run.nodes_with_state("Succeeded").expect("read").len(), 202);
    let no_mutations = mutations::run(&ledger, &[]).await.expect("ran");
    assert_eq!(
        no_mutations.status().wait().expect("read"),
        RunStatus::Succeeded
    );
}

#[tokio::test]
async fn a_failed_journey_is_undone_in_reverse() {
    let diary = Diary::default();
    let run = saga::book(&diary).await.expect("it ran");
    assert_eq!(run.status().wait().expect("read"), RunStatus::Failed);
    let expected = ["book flight", "book hotel", "cancel hotel", "cancel flight"];
    assert_eq!(diary.lines(), expected);
    let execution = run.execution().expect("read");
    assert_eq!(execution.compensation.as_deref(), Some("complete"));
}
