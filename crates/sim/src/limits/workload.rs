//! What worlds with limits are asked to do: more runs than their workflows allow at once, with
//! nodes that want more slots than there are.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use windlass_core::event::ConcurrencyKey;
use windlass_orchestrator::Begin;
use windlass_store::PoolKey;

use super::Limits;
use crate::owners;
use crate::random::Random;
use crate::user_actions;
use crate::workload::Workload;

/// Draws the work of one world, over `horizon` milliseconds, and its pools.
pub(crate) fn workload(
    random: &mut Random,
    horizon: u64,
    determinate: bool,
) -> (Workload, Box<Limits>) {
    let mut limits = Limits::default();
    let sizes: BTreeMap<String, u32> = (0..random.between(1, 2))
        .map(|index| (format!("p{index}"), random.between(1, 4) as u32))
        .collect();
    for (name, &slots) in &sizes {
        limits.pools.insert(PoolKey::new(None, name), slots);
    }
    let rules: Vec<u32> = (0..3).map(|_| random.between(1, 2) as u32).collect();
    let mut workload = owners::limited_workload(random, horizon, &mut |random, definition| {
        want_slots(random, definition, &sizes);
    });
    let first = workload.requests.clone();
    for request in &first {
        for _ in 0..random.between(1, 3) {
            let mut again = request.clone();
            let at = random.below(horizon * 3 / 4);
            again.starts = vec![at];
            workload.requests.push(again);
        }
    }
    for request in &mut workload.requests {
        let place = usize::from(request.workflow.ends_with('1'));
        let keys: &[&str] = if random.chance(50) {
            &[""]
        } else {
            &["a", "b"]
        };
        request.gate = random.chance(80).then(|| ConcurrencyKey {
            key: keys[random.below(keys.len() as u64) as usize].into(),
            limit: rules[place],
        });
        request.priority = random.below(10) as u8;
        request.begin = match random.chance(80) {
            true => Begin::Later,
            false => Begin::Now,
        };
        if !determinate && random.chance(50) {
            let at = request.starts.first().copied().unwrap_or(0);
            request.user_actions = user_actions::plain(random, at, horizon);
        }
    }
    (workload, Box::new(limits))
}

/// Some actions want slots, and some go before others.
fn want_slots(random: &mut Random, definition: &mut Value, sizes: &BTreeMap<String, u32>) {
    let nodes = definition["nodes"].as_array_mut();
    for node in nodes.into_iter().flatten().filter_map(Value::as_object_mut) {
        if !node.contains_key("actionType") {
            continue;
        }
        if random.chance(60) {
            let names: Vec<&String> = sizes.keys().collect();
            let name = names[random.below(names.len() as u64) as usize];
            let most = u64::from(sizes[name]);
            let slots = if random.chance(70) {
                1
            } else {
                random.between(1, most)
            };
            node.insert("pool".to_owned(), json!({ "name": name, "slots": slots }));
        }
        if random.chance(40) {
            node.insert("priority".to_owned(), json!(random.below(10)));
        }
    }
}
