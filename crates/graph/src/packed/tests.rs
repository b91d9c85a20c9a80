//! Layouts of definitions: what is drawn where, and under which numbers.

use windlass_core::plan::Plan;

use super::*;

fn packed(text: &str, options: &PackOptions) -> Packed {
    let definition: Definition = serde_json::from_str(text).expect("a definition");
    pack(&definition, options).expect("a layout")
}

/// A node, `count` that do the same, and one after them.
fn fan(count: usize) -> String {
    let work: Vec<String> = (0..count)
        .map(|index| {
            format!(
                r#"{{"id":"work-{index}","actionType":"core.echo","dependsOn":["split"],
                "edges":[{{"targetNode":"join"}}]}}"#
            )
        })
        .collect();
    format!(
        r#"{{"id":"fan","nodes":[{{"id":"split","actionType":"core.echo"}},{},
        {{"id":"join","actionType":"core.echo"}}]}}"#,
        work.join(",")
    )
}

const NESTED: &str = r#"{"id": "orders", "displayName": "Orders", "nodes": [
    {"id": "list", "actionType": "core.echo"},
    {"id": "each", "dependsOn": ["list"], "onFailure": "sorry", "forEach": {"items": [],
     "body": {"nodes": [
        {"id": "charge", "actionType": "core.echo"},
        {"id": "poll", "dependsOn": ["charge"], "while": {"condition": "false",
         "body": {"nodes": [{"id": "ask", "actionType": "core.echo"}]}}}]}}},
    {"id": "again", "dependsOn": ["each"], "retryUntil": {"maxAttempts": 2,
     "body": {"nodes": [{"id": "try", "actionType": "core.echo"}]}}},
    {"id": "sorry", "actionType": "core.echo"}]}"#;

fn all() -> PackOptions {
    PackOptions {
        all_bodies: true,
        ids: true,
        ..PackOptions::default()
    }
}

fn overlap(packed: &Packed, a: usize, b: usize) -> bool {
    let boxes = &packed.nodes;
    boxes.x[a] < boxes.x[b] + boxes.w[b]
        && boxes.x[b] < boxes.x[a] + boxes.w[a]
        && boxes.y[a] < boxes.y[b] + boxes.h[b]
        && boxes.y[b] < boxes.y[a] + boxes.h[a]
}

#[test]
fn numbers_are_those_of_the_plan() {
    let definition: Definition = serde_json::from_str(NESTED).expect("a definition");
    let packed = pack(&definition, &all()).expect("a layout");
    let plan = Plan::build(definition).expect("a plan");
    let ids = packed.ids.as_ref().expect("they were asked for");
    let planned: Vec<String> = (0..plan.total() as u32)
        .map(|node| plan.static_path(node))
        .collect();
    assert_eq!(*ids, planned);
    assert_eq!(packed.total, plan.total());
    for (place, &index) in packed.nodes.index.iter().enumerate() {
        assert_eq!(packed.nodes.id[place], planned[index]);
    }
    for (place, &index) in packed.edges.index.iter().enumerate() {
        let edge = plan.edge(index as u32);
        let ends = (edge.source as usize, edge.target as usize);
        let index = |node: usize| packed.nodes.index[node];
        let drawn = (packed.edges.from[place], packed.edges.to[place]);
        assert_eq!((index(drawn.0), index(drawn.1)), ends);
    }
    let edges = plan.graphs().iter().map(|graph| graph.edges().len());
    assert_eq!(packed.edges.index.len(), edges.sum::<usize>());
}

#[test]
fn a_loop_is_one_box_until_it_is_opened() {
    let closed = packed(NESTED, &PackOptions::default());
    assert_eq!(closed.nodes.id, ["list", "each", "again", "sorry"]);
    assert_eq!(closed.nodes.kind, [0, 1, 3, 0]);
    assert!(closed.frames.is_empty() && closed.ids.is_none());
    let options = PackOptions {
        open: ["each".to_owned()].into(),
        ..PackOptions::default()
    };
    let open = packed(NESTED, &options);
    let ids = ["list", "each", "again", "sorry", "each/charge", "each/poll"];
    assert_eq!(open.nodes.id, ids);
    assert_eq!(open.nodes.frame, [-1, -1, -1, -1, 0, 0]);
    assert_eq!(open.frames[0].node, 1);
    assert!(open.nodes.h[1] > closed.nodes.h[1]);
}

#[test]
fn boxes_stand_apart_and_inside_their_frames() {
    let packed = packed(NESTED, &all());
    assert_eq!(packed.frames.len(), 3);
    let boxes = &packed.nodes;
    for a in 0..boxes.id.len() {
        for b in 0..a {
            let nested = boxes.frame[a] != boxes.frame[b];
            assert!(nested || !overlap(&packed, a, b), "{a} and {b}");
        }
        let (left, top, width, height) = match usize::try_from(boxes.frame[a]) {
            Ok(frame) => {
                let frame = packed.frames[frame];
                (frame.x, frame.y, frame.w, frame.h)
            }
            Err(_) => (0, 0, packed.width, packed.height),
        };
        assert!(boxes.x[a] >= left && boxes.x[a] + boxes.w[a] <= left + width);
        assert!(boxes.y[a] >= top && boxes.y[a] + boxes.h[a] <= top + height);
    }
}

#[test]
fn alike_nodes_are_one_box_that_names_its_members() {
    let packed = packed(&fan(100_000), &PackOptions::default());
    assert_eq!(packed.nodes.id, ["split", "work-0", "join"]);
    assert_eq!(packed.nodes.label, ["split", "work-…", "join"]);
    assert_eq!(packed.nodes.count, [1, 100_000, 1]);
    let text = serde_json::to_string(&packed).expect("JSON");
    assert!(text.contains(r#""members":{"1":[[1,100000,1]]}"#), "{text}");
    assert!(text.contains(r#""members":{"0":[[0,100000,1]],"1":[[100000,100000,1]]}"#));
    assert!(text.len() < 2000, "{} bytes", text.len());
}

#[test]
fn a_group_opens_in_place() {
    let closed = packed(&fan(25), &PackOptions::default());
    assert_eq!(closed.nodes.id.len(), 3);
    assert_eq!(packed(&fan(19), &PackOptions::default()).nodes.id.len(), 21);
    let options = PackOptions {
        open: ["work-0".to_owned()].into(),
        ..PackOptions::default()
    };
    let open = packed(&fan(25), &options);
    assert_eq!(open.nodes.id.len(), 27);
    assert!(open.members.is_empty());
    let every = PackOptions {
        all_nodes: true,
        ..PackOptions::default()
    };
    assert_eq!(packed(&fan(400), &every).nodes.id.len(), 402);
}

#[test]
fn a_long_edge_passes_between_the_boxes() {
    let text = r#"{"id": "w", "nodes": [
        {"id": "a", "actionType": "core.echo", "edges": [{"targetNode": "d"}]},
        {"id": "b", "actionType": "core.echo", "dependsOn": ["a"]},
        {"id": "c", "actionType": "core.echo", "dependsOn": ["b"]},
        {"id": "d", "actionType": "core.echo", "dependsOn": ["c"]}]}"#;
    let packed = packed(text, &PackOptions::default());
    let long = (0..packed.edges.from.len()).find(|&edge| {
        let ends = (packed.edges.from[edge], packed.edges.to[edge]);
        ends == (0, 3)
    });
    let via = &packed.edges.via[&long.expect("it is drawn")];
    let (boxes, ys) = (&packed.nodes, via.iter().skip(1).step_by(2));
    assert!(ys.clone().is_sorted());
    assert!(ys.clone().all(|&y| y > boxes.y[0] && y < boxes.y[3]));
    for point in via.chunks(2) {
        for node in 1..3 {
            let (x, w) = (boxes.x[node], boxes.w[node]);
            assert!(point[0] <= x || point[0] >= x + w, "through a box");
        }
    }
}

#[test]
fn a_layout_has_a_bound() {
    let every = PackOptions {
        all_nodes: true,
        ..PackOptions::default()
    };
    let text = fan(MAX_BOXES);
    let definition: Definition = serde_json::from_str(&text).expect("a definition");
    let error = pack(&definition, &every).expect_err("too large");
    assert!(error.to_string().contains("100002 boxes"), "{error}");
}
