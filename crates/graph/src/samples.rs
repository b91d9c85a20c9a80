//! Graphs that the tests draw.

use windlass_core::NodeStatus;
use windlass_core::definition::When;
use windlass_core::routing::EdgeState;

use super::{Graph, GraphEdge, GraphNode};

/// A graph from lines of nodes (`id` or `id action`) and edges (`a > b`, `a ! b` after
/// a failure, `a * b` always, each with an optional `: label`).
pub(super) fn graph(title: &str, lines: &str) -> Graph {
    let mut graph = Graph {
        title: title.to_owned(),
        ..Graph::default()
    };
    for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (line, label) = match line.split_once(": ") {
            Some((line, label)) => (line, Some(label.to_owned())),
            None => (line, None),
        };
        let words: Vec<&str> = line.split(' ').collect();
        let when = match words[..] {
            [_, ">", _] => When::Success,
            [_, "!", _] => When::Failure,
            [_, "*", _] => When::Always,
            _ => {
                graph.nodes.push(GraphNode {
                    id: words[0].to_owned(),
                    detail: words.get(1).unwrap_or(&"").to_string(),
                    ..GraphNode::default()
                });
                continue;
            }
        };
        let place = |id: &str| graph.nodes.iter().position(|node| node.id == id);
        graph.edges.push(GraphEdge {
            from: place(words[0]).expect("a node"),
            to: place(words[2]).expect("a node"),
            when,
            label,
            state: None,
        });
    }
    graph
}

pub(super) fn chain() -> Graph {
    graph(
        "chain",
        "fetch http.request\ntransform core.script\nstore http.request\nfetch > transform\ntransform > store",
    )
}

pub(super) fn diamond() -> Graph {
    graph(
        "diamond",
        "fetch http.request\nleft core.script\nright core.echo\njoin core.echo
         fetch > left\nfetch > right\nleft > join\nright > join",
    )
}

pub(super) fn grid() -> Graph {
    let mut lines = String::from("start core.echo\n");
    for layer in ["a", "b"] {
        for index in 1..=3 {
            lines += &format!("{layer}{index} core.step-{layer}{index}\n");
        }
    }
    lines += "end core.echo\n";
    for a in 1..=3 {
        lines += &format!("start > a{a}\n");
        for b in 1..=3 {
            lines += &format!("a{a} > b{b}\n");
        }
    }
    for b in 1..=3 {
        lines += &format!("b{b} > end\n");
    }
    graph("three by three", &lines)
}

pub(super) fn switch() -> Graph {
    graph(
        "orders",
        "classify core.script\neurope http.request\namericas http.request\nelsewhere core.fail\nship core.echo
         classify > europe: eu | uk\nclassify > americas: us\nclassify > elsewhere: default
         europe > ship\namericas > ship\nelsewhere * ship",
    )
}

/// A payment with routes for failures, as a run that failed in the middle.
pub(super) fn payment() -> Graph {
    let mut graph = graph(
        "Take a payment",
        "validate core.script\nreserve http.request\ncharge http.request\nship http.request\nreceipt email.send
         refund http.request\nalert slack.post-message\nclean-up core.echo
         validate > reserve: output.total > 0\nvalidate ! alert\nreserve > charge\ncharge > ship\ncharge > receipt
         charge ! refund\nrefund > alert\nship * clean-up\nreceipt * clean-up\nalert > clean-up",
    );
    let statuses = [
        NodeStatus::Succeeded,
        NodeStatus::Succeeded,
        NodeStatus::Failed,
        NodeStatus::Blocked,
        NodeStatus::Blocked,
        NodeStatus::Succeeded,
        NodeStatus::Running,
        NodeStatus::Pending,
    ];
    for (node, status) in graph.nodes.iter_mut().zip(statuses) {
        node.status = Some(status);
        node.attempts = 1;
    }
    graph.nodes[2].attempts = 3;
    graph.nodes[2].label = Some("Charge the card".to_owned());
    let states = [
        EdgeState::Taken,
        EdgeState::NotTaken,
        EdgeState::Taken,
        EdgeState::Lost,
        EdgeState::Lost,
        EdgeState::Taken,
        EdgeState::Taken,
        EdgeState::Taken,
        EdgeState::Taken,
        EdgeState::Unresolved,
    ];
    for (edge, state) in graph.edges.iter_mut().zip(states) {
        edge.state = Some(state);
    }
    graph
}

/// One node, so many that do the same, and one after them.
pub(super) fn fan(count: usize) -> Graph {
    let mut lines = String::from("split core.echo\n");
    for index in 0..count {
        lines += &format!("work-{index} http.request\n");
    }
    lines += "join core.echo\n";
    for index in 0..count {
        lines += &format!("split > work-{index}\nwork-{index} > join\n");
    }
    graph("fan-out", &lines)
}

/// As a fan, in two stages.
pub(super) fn stages(count: usize) -> Graph {
    let mut lines = String::from("split core.echo\n");
    for index in 0..count {
        lines += &format!("fetch-{index} http.request\nstore-{index} core.echo\n");
    }
    lines += "join core.echo\n";
    for index in 0..count {
        lines += &format!("split > fetch-{index}\nfetch-{index} > store-{index}\n");
        lines += &format!("store-{index} > join\n");
    }
    graph("stages", &lines)
}

/// A graph of nodes that all differ, each with up to three edges from earlier ones.
pub(super) fn tangle(count: usize, seed: u64) -> Graph {
    let mut state = seed.wrapping_mul(2).wrapping_add(1);
    let mut next = |bound: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) as usize % bound
    };
    let mut graph = Graph {
        title: "tangle".to_owned(),
        ..Graph::default()
    };
    for index in 0..count {
        graph.nodes.push(GraphNode {
            id: format!("n{index}"),
            detail: format!("action-{index}"),
            ..GraphNode::default()
        });
        let parents = if index == 0 { 0 } else { next(4) };
        let mut chosen: Vec<usize> = (0..parents)
            .map(|_| index - 1 - next(index.min(12)))
            .collect();
        chosen.sort_unstable();
        chosen.dedup();
        for from in chosen {
            let when = [When::Success, When::Success, When::Failure, When::Always][next(4)];
            let label = (next(5) == 0).then(|| format!("case {index}"));
            graph.edges.push(GraphEdge {
                from,
                to: index,
                when,
                label,
                state: None,
            });
        }
    }
    graph
}

/// Text that tries to leave its place.
pub(super) fn hostile() -> Graph {
    let labels = [
        "\"quoted\" \\ back\\\"slash",
        "line\nbreak\r\ttab\u{1b}[31m",
        "</text></svg><script>alert(1)</script>",
        "emoji 🚀👩‍💻 and 漢字 e\u{301}",
        "]] --> %% #quot; end; `code` |pipe| {brace}",
        "\u{202e}reversed\0nul ]]> <!-- &amp; '",
    ];
    let mut graph = Graph {
        title: labels.join(" "),
        ..Graph::default()
    };
    for (index, label) in labels.iter().enumerate() {
        graph.nodes.push(GraphNode {
            id: format!("id{index} {label}"),
            label: Some(label.to_string()),
            detail: format!("action {label}"),
            status: Some(NodeStatus::Failed),
            attempts: 2,
            ..GraphNode::default()
        });
        if index > 0 {
            graph.edges.push(GraphEdge {
                from: index / 2,
                to: index,
                when: [When::Success, When::Failure, When::Always][index % 3],
                label: Some(label.to_string()),
                state: Some(EdgeState::Taken),
            });
        }
    }
    graph
}

/// Writes every sample in every format into the folder that `GRAPH_GALLERY` names, for a person
/// to look at: an assertion cannot tell whether a picture is good.
#[test]
#[ignore = "writes files for people to look at"]
fn gallery() {
    use super::{Format, RenderOptions, render};

    let folder = std::env::var_os("GRAPH_GALLERY").expect("GRAPH_GALLERY names a folder");
    let folder = std::path::PathBuf::from(folder);
    let samples = [
        ("chain", chain()),
        ("diamond", diamond()),
        ("grid", grid()),
        ("switch", switch()),
        ("payment", payment()),
        ("fan-5", fan(5)),
        ("fan-200", fan(200)),
        ("stages", stages(4)),
        ("tangle", tangle(14, 3)),
        ("hostile", hostile()),
    ];
    for (name, graph) in samples {
        for format in [Format::Mermaid, Format::Dot, Format::Svg, Format::Ascii] {
            let text = render(&graph, format, &RenderOptions::default()).expect("a picture");
            let file = folder.join(format!("{name}.{}", format.name()));
            std::fs::write(file, text).expect("the folder can be written");
        }
    }
}

/// A loop in a loop, drawn with what is inside.
pub(super) fn nested() -> Graph {
    let text = r#"{"id": "orders", "nodes": [
        {"id": "list", "actionType": "core.echo"},
        {"id": "each", "dependsOn": ["list"], "onFailure": "sorry", "forEach": {"items": [],
         "body": {"nodes": [
            {"id": "charge", "actionType": "core.echo"},
            {"id": "poll", "dependsOn": ["charge"], "while": {"condition": "false",
             "body": {"nodes": [{"id": "ask", "actionType": "core.echo"}]}}}]}}},
        {"id": "sorry", "actionType": "core.echo"}]}"#;
    let definition = serde_json::from_str(text).expect("a definition");
    Graph::from_definition(&definition, true)
}
