//! Random structured definitions, and what their actions answer, from a seed.

use serde_json::{Value, json};

use super::Word;
use crate::model::generate::Dice;

/// How large a definition may get, and of what it may be made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) nodes: usize,
    /// How deeply loops may stand in each other.
    pub(crate) depth: usize,
    /// Only actions, and joins that wait for all.
    pub(crate) plain: bool,
}

/// What stands around a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Around {
    Nothing,
    /// Whether the items are lists themselves.
    Items(bool),
    Iterations,
}

/// What an action answers at this attempt: the same for ever.
pub(crate) fn answer(seed: u64, path: &str, attempt: u32) -> Word {
    let text = format!("{seed} {path} {attempt}");
    // FNV-1a.
    let hash = text.bytes().fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3)
    });
    let mut dice = Dice(hash);
    match dice.below(100) {
        0..68 => Word::Success(value(&mut dice)),
        68..80 => Word::Failure,
        80..92 => Word::Retriable,
        _ => Word::Skip,
    }
}

pub(crate) fn value(dice: &mut Dice) -> Value {
    let values = [json!(0), json!(1), json!(1), json!("text"), json!([1, 2])];
    dice.pick(&values).clone()
}

pub(crate) fn definition(dice: &mut Dice, bounds: Bounds) -> Value {
    let fail_fast = dice.chance(35);
    let mut definition = body(dice, bounds, Around::Nothing, !fail_fast);
    definition["id"] = json!("generated");
    if fail_fast {
        definition["failurePolicy"] = json!("failFast");
    }
    if dice.chance(25) {
        definition["executionMode"] = json!("levels");
    }
    if dice.chance(20) {
        definition["timeoutMs"] = json!(1000);
    }
    if !bounds.plain && dice.chance(40) {
        let policies = ["onFailure", "onFailureOrCancel", "manual"];
        definition["compensation"] = json!(dice.pick(&policies));
    }
    definition
}

fn body(dice: &mut Dice, bounds: Bounds, around: Around, may_be_invalid: bool) -> Value {
    let size = 1 + dice.below(bounds.nodes);
    // Inner ids often shadow outer ones.
    let letter = if dice.chance(60) { "n" } else { "m" };
    let ids: Vec<String> = (0..size).map(|rank| format!("{letter}{rank}")).collect();
    let density = 15 + dice.roll() % 50;
    let mut nodes: Vec<Value> = Vec::new();
    for (rank, id) in ids.iter().enumerate() {
        let mut node = json!({ "id": id });
        // The first node of a body takes its time: several iterations never end in the
        // very step that starts them.
        let takes_time = rank == 0 && around != Around::Nothing;
        kind(
            dice,
            &mut node,
            bounds,
            around,
            (takes_time, may_be_invalid),
        );
        edges(dice, &mut node, &ids[rank + 1..], density, around);
        if !bounds.plain && dice.chance(30) {
            node["compensate"] = json!({ "actionType": "undo" });
            if dice.chance(40) {
                node["compensate"]["policies"] = json!({ "retry": { "maxAttempts": 2 } });
            }
        }
        nodes.push(node);
    }
    if !bounds.plain {
        joins(dice, &mut nodes);
    }
    for place in (1..size).rev() {
        nodes.swap(place, dice.below(place + 1));
    }
    let mut body = json!({ "nodes": nodes });
    if !bounds.plain && dice.chance(30) {
        let id = dice.pick(&ids);
        body["output"] = match (around, dice.below(2)) {
            (Around::Items(_), 0) => json!({ "place": "{{ index }}", "of": "{{ item }}" }),
            (Around::Iterations, 0) => json!(["{{ iteration }}", "{{ last }}"]),
            _ => json!(format!("{{{{ context.data['{id}'] }}}}")),
        };
    }
    body
}

fn kind(
    dice: &mut Dice,
    node: &mut Value,
    bounds: Bounds,
    around: Around,
    (takes_time, may_be_invalid): (bool, bool),
) {
    let inner = Bounds {
        nodes: (bounds.nodes / 2).max(1),
        depth: bounds.depth.saturating_sub(1),
        ..bounds
    };
    match dice.below(100) {
        _ if bounds.plain => action(dice, node),
        0..16 if bounds.depth > 0 => {
            node["forEach"] = each(dice, inner, around, (takes_time, may_be_invalid));
        }
        16..27 if bounds.depth > 0 => {
            let conditions = ["iteration < 2", "iteration < 1", "true", "last === 1"];
            let mut condition = *dice.pick(&conditions[..if takes_time { 3 } else { 4 }]);
            if !takes_time && dice.chance(20) {
                condition = "trigger.missing";
            }
            let inside = body(dice, inner, Around::Iterations, false);
            node["while"] = json!({ "condition": condition, "body": inside });
            if condition == "true" || dice.chance(30) {
                node["while"]["maxIterations"] = json!(1 + dice.below(3));
            }
        }
        27..38 if bounds.depth > 0 => {
            let inside = body(dice, inner, Around::Iterations, false);
            node["retryUntil"] = json!({ "maxAttempts": 1 + dice.below(3), "body": inside });
            if dice.chance(50) {
                let conditions = ["last === 1", "iteration === 1", "true", "trigger.missing"];
                node["retryUntil"]["until"] = json!(dice.pick(&conditions));
            }
            if dice.chance(50) {
                node["retryUntil"]["backoff"] = json!({ "baseDelayMs": 10 });
            }
        }
        38..44 => node["delay"] = json!({ "ms": 10 }),
        44..51 => {
            node["waitForSignal"] = json!({ "name": dice.pick(&["go", "more"]) });
            if dice.chance(50) {
                node["waitForSignal"]["timeoutMs"] = json!(100);
            }
        }
        _ => action(dice, node),
    }
}

fn action(dice: &mut Dice, node: &mut Value) {
    node["actionType"] = json!("test");
    if dice.chance(30) {
        node["policies"] = json!({ "retry": { "maxAttempts": dice.below(4) } });
    }
}

fn each(
    dice: &mut Dice,
    inner: Bounds,
    around: Around,
    (takes_time, may_be_invalid): (bool, bool),
) -> Value {
    let lists = dice.chance(40);
    let items = match dice.below(10) {
        0 if may_be_invalid && !takes_time => json!("{{ 'no list' }}"),
        1..4 if around == Around::Items(true) => json!("{{ item }}"),
        4 if !takes_time => json!([]),
        _ if lists => json!([[1], [1, 2], ["{{ 1 === 1 }}"]]),
        size => Value::Array((0..1 + size % 4).map(|number| json!(number)).collect()),
    };
    let items_are_lists = lists && items.is_array();
    let inside = body(dice, inner, Around::Items(items_are_lists), false);
    let mut each = json!({ "items": items, "body": inside });
    if dice.chance(35) {
        each["parallel"] = json!(dice.chance(30));
    }
    if dice.chance(35) {
        each["maxConcurrency"] = json!(1 + dice.below(2));
    }
    if dice.chance(45) {
        each["onItemFailure"] = json!("collect");
    }
    if dice.chance(20) {
        each["itemName"] = json!("thing");
    }
    each
}

fn edges(dice: &mut Dice, node: &mut Value, later: &[String], density: u64, around: Around) {
    let when = |dice: &mut Dice| match dice.below(10) {
        0..=5 => "success",
        6..=7 => "failure",
        _ => "always",
    };
    let mut edges = Vec::new();
    for target in later {
        if dice.chance(density) {
            let mut edge = json!({ "targetNode": target, "when": when(dice) });
            if dice.chance(25) {
                edge["condition"] = json!(condition(dice, around));
            }
            edges.push(edge);
        }
    }
    if !edges.is_empty() {
        node["edges"] = Value::Array(edges);
    }
    if later.is_empty() {
        return;
    }
    if dice.chance(12) {
        let (first, second) = (dice.pick(later), dice.pick(later));
        let on = *dice.pick(&["output", "'x'", "trigger.missing"]);
        let cases = json!({ "x": first, "1": second });
        node["switch"] = json!({ "on": on, "cases": cases, "when": when(dice) });
        if dice.chance(60) {
            node["switch"]["default"] = json!(dice.pick(later));
        }
    }
    if dice.chance(20) {
        node["onFailure"] = json!(dice.pick(later));
    }
}

fn condition(dice: &mut Dice, around: Around) -> &'static str {
    let here = match around {
        Around::Nothing => "output === 'text'",
        Around::Items(_) => "index < 1",
        Around::Iterations => "iteration < 1",
    };
    let conditions = [
        here,
        here,
        "true",
        "false",
        "output === 1",
        "trigger.missing",
    ];
    conditions[dice.below(conditions.len())]
}

/// Some of the nodes that several edges lead to need not wait for all of them.
fn joins(dice: &mut Dice, nodes: &mut [Value]) {
    for place in 0..nodes.len() {
        let id = nodes[place]["id"].clone();
        let edges = nodes
            .iter()
            .flat_map(|node| node["edges"].as_array().into_iter().flatten());
        let incoming = edges.filter(|edge| edge["targetNode"] == id).count();
        if incoming >= 2 && dice.chance(60) {
            nodes[place]["join"] = match dice.below(4) {
                0 | 1 => json!("any"),
                2 => json!({ "atLeast": 1 + dice.below(incoming) }),
                _ => json!({ "atLeast": 2 }),
            };
        }
    }
}
