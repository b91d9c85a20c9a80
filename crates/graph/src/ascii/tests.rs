//! What the pictures look like, and that their lines lead where the edges do.

use std::collections::BTreeSet;

use super::super::samples;
use super::*;

fn drawn(graph: &Graph) -> String {
    render(graph, &RenderOptions::default()).expect("a picture")
}

#[test]
fn a_diamond() {
    assert_eq!(
        drawn(&samples::diamond()),
        "\
diamond

        ┌───────────────┐
        │     fetch     │
        │  http.request │
        └───────┬───────┘
       ┌────────┴───────┐
       ▼                ▼
┌─────────────┐   ┌───────────┐
│     left    │   │   right   │
│ core.script │   │ core.echo │
└──────┬──────┘   └─────┬─────┘
       └────────┬───────┘
                ▼
          ┌───────────┐
          │    join   │
          │ core.echo │
          └───────────┘
"
    );
}

#[test]
fn a_switch() {
    assert_eq!(
        drawn(&samples::switch()),
        "\
orders

                     ┌─────────────┐
                     │   classify  │
                     │ core.script │
                     └──────┬──────┘
        ┌───────────────────┼─────────────────┐
     eu | uk                us             default
        ▼                   ▼                 ▼
┌───────────────┐   ┌───────────────┐   ┌───────────┐
│     europe    │   │    americas   │   │ elsewhere │
│  http.request │   │  http.request │   │ core.fail │
└───────┬───────┘   └───────┬───────┘   └─────┬─────┘
        └───────────┬───────┘                 ┆
                    │   ┌┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┘
                    ▼   ▼
              ┌───────────┐
              │    ship   │
              │ core.echo │
              └───────────┘

┄┄ always
"
    );
}

#[test]
fn a_run_with_failures() {
    assert_eq!(
        drawn(&samples::payment()),
        "\
Take a payment

              ┌─────────────┐
              │  ✓ validate │
              │ core.script │
              └──────┬───┬──┘
                     │   └╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌┐
              output.total > 0                          ╎
                     ▼                                  ╎
             ┌───────────────┐                          ╎
             │   ✓ reserve   │                          ╎
             │  http.request │                          ╎
             └───────┬───────┘                          ╎
                     │                                  ╎
                     ▼                                  ╎
     ┌───────────────────────────────┐                  ╎
     │       ✗ Charge the card       │                  ╎
     │  charge · http.request · 3 a… │                  ╎
     └───────────────┬───┬───────────┘                  ╎
        ┌────────────┴───╎─┐                            ╎
        │                └╌│╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌┐         ╎
        ▼                  ▼                  ▼         ╎
┌───────────────┐   ┌─────────────┐   ┌───────────────┐ ╎
│     ⊘ ship    │   │  ⊘ receipt  │   │    ✓ refund   │ ╎
│  http.request │   │  email.send │   │  http.request │ ╎
└───────┬───────┘   └──────┬──────┘   └───────┬───────┘ ╎
        └┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┬┘                  │   ┌╌╌╌╌╌┘
                          ┆                   ▼   ▼
                          ┆        ┌─────────────────────┐
                          ┆        │       ◐ alert       │
                          ┆        │  slack.post-message │
                          ┆        └──────────┬──────────┘
                          └┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┐   │
                                          ▼   ▼
                                       ┌─────────────┐
                                       │  ○ clean-up │
                                       │  core.echo  │
                                       └─────────────┘

╌╌ after a failure   ┄┄ always
"
    );
}

#[test]
fn a_wide_fan_is_summed_up() {
    assert_eq!(
        drawn(&samples::fan(200)),
        "\
fan-out

  ┌───────────┐
  │   split   │
  │ core.echo │
  └─────┬─────┘
        │
        ▼
┌───────────────┐
│  work-… ×200  │
│  http.request │
└───────┬───────┘
        │
        ▼
  ┌───────────┐
  │    join   │
  │ core.echo │
  └───────────┘
"
    );
}

#[test]
fn five_boxes_fit_beside_each_other() {
    let text = drawn(&samples::fan(5));
    assert_eq!(text.matches('▼').count(), 6, "{text}");
}

#[test]
fn colour_comes_only_when_asked() {
    let mut options = RenderOptions::default();
    assert!(!drawn(&samples::payment()).contains('\x1b'));
    options.color = true;
    let text = render(&samples::payment(), &options).expect("a picture");
    assert!(text.contains("\x1b[31m"));
    assert_eq!(
        text.matches("\x1b[0m").count() * 2,
        text.matches('\x1b').count()
    );
}

#[test]
fn every_width_is_kept() {
    for seed in 0..10 {
        let graph = samples::tangle(20, seed);
        for width in [1, 10, 24, 40, 80, 120] {
            let options = RenderOptions {
                width,
                ..RenderOptions::default()
            };
            let text = render(&graph, &options).expect("a picture");
            // The legend is the only line that does not bend.
            let lines = text.lines().filter(|line| !line.contains("╌╌ after"));
            let widest = lines
                .filter(|line| !line.contains("┄┄ always"))
                .map(columns);
            assert!(widest.max() <= Some(width), "{width}:\n{text}");
        }
    }
}

#[test]
fn a_thousand_nodes_are_listed_and_a_hundred_thousand_refused() {
    let text = drawn(&samples::tangle(1000, 1));
    assert!(text.contains("\n• n999"));
    let nodes = (0..100_000).map(|index| GraphNode {
        id: format!("n{index}"),
        detail: format!("action-{index}"),
        ..GraphNode::default()
    });
    let graph = Graph {
        nodes: nodes.collect(),
        ..Graph::default()
    };
    let error = render(&graph, &RenderOptions::default()).expect_err("too large");
    assert!(error.to_string().contains("--format dot"));
}

#[test]
fn a_cycle_is_listed() {
    let graph = samples::graph("cycle", "a\nb\na > b\nb > a");
    assert!(drawn(&graph).contains("→ a"));
}

#[test]
fn an_empty_graph_is_empty() {
    assert_eq!(drawn(&Graph::default()), "");
}

/// Follows every line from its box to where it arrives, as a reader would, and compares
/// with the edges. Names are short enough never to be cut.
#[test]
fn lines_lead_where_the_edges_do() {
    let options = RenderOptions {
        width: 200,
        ..RenderOptions::default()
    };
    let mut pictures = 0;
    let named = [
        samples::payment(),
        samples::switch(),
        samples::grid(),
        samples::stages(4),
    ];
    let tangles = (0..200).map(|seed| samples::tangle(4 + seed as usize % 12, seed));
    for graph in named.into_iter().chain(tangles) {
        let Some(text) = boxes(&graph, &options) else {
            continue;
        };
        pictures += 1;
        let expected: BTreeSet<(String, String)> = graph
            .edges
            .iter()
            .map(|edge| {
                (
                    graph.nodes[edge.from].id.clone(),
                    graph.nodes[edge.to].id.clone(),
                )
            })
            .collect();
        let traced = trace(&text, &graph);
        assert_eq!(traced, expected, "{text}");
    }
    assert!(pictures > 180, "only {pictures} of 204 were drawn");
}

type Grid = Vec<Vec<char>>;

fn trace(text: &str, graph: &Graph) -> BTreeSet<(String, String)> {
    let grid: Grid = text.lines().map(|line| line.chars().collect()).collect();
    let mut found = BTreeSet::new();
    for (row, line) in grid.iter().enumerate() {
        for (column, &character) in line.iter().enumerate() {
            // A port: on the lower border of a box, which text stands above.
            if character == '┬'
                && let Some(from) = box_above(&grid, row, column, graph)
            {
                for to in follow(&grid, row + 1, column, graph) {
                    found.insert((from.clone(), to));
                }
            }
        }
    }
    found
}

fn at(grid: &Grid, row: usize, column: usize) -> char {
    let line = grid.get(row).map_or(&[][..], Vec::as_slice);
    line.get(column).copied().unwrap_or(' ')
}

/// The id in the box whose lower border has the cell.
fn box_above(grid: &Grid, row: usize, column: usize, graph: &Graph) -> Option<String> {
    let is_border = |column: &usize| matches!(at(grid, row, *column), '─' | '┬');
    let left = (0..=column).rev().find(|column| !is_border(column))?;
    let right = (column..).find(|column| !is_border(column))?;
    if at(grid, row, left) != '└' || at(grid, row, right) != '┘' {
        return None;
    }
    let top = (0..row).rev().find(|&row| at(grid, row, left) == '┌')?;
    let straight = (top + 1..row).all(|row| at(grid, row, left) == '│');
    let inside: String = (left + 1..right)
        .map(|column| at(grid, top + 1, column))
        .collect();
    let name = inside
        .split_whitespace()
        .find(|word| word.chars().any(char::is_alphanumeric));
    (straight && top + 1 < row)
        .then(|| id_of(&inside, name, graph))
        .flatten()
}

fn id_of(inside: &str, name: Option<&str>, graph: &Graph) -> Option<String> {
    let mut nodes = graph.nodes.iter();
    let node = nodes.find(|node| match &node.label {
        Some(label) => inside.contains(label.as_str()),
        None => Some(node.id.as_str()) == name,
    })?;
    Some(node.id.clone())
}

fn follow(grid: &Grid, row: usize, column: usize, graph: &Graph) -> BTreeSet<String> {
    const DOWN: (i64, i64) = (1, 0);
    const LEFT: (i64, i64) = (0, -1);
    const RIGHT: (i64, i64) = (0, 1);
    let mut found = BTreeSet::new();
    let mut seen = BTreeSet::new();
    let mut open = vec![(row, column, DOWN)];
    while let Some((row, column, way)) = open.pop() {
        if !seen.insert((row, column, way)) {
            continue;
        }
        let next: &[(i64, i64)] = match (at(grid, row, column), way) {
            ('▼', _) => {
                found.extend(box_below(grid, row + 1, column, graph));
                &[]
            }
            ('┼', DOWN) => &[LEFT, DOWN, RIGHT],
            ('├', DOWN) => &[DOWN, RIGHT],
            ('┤', DOWN) => &[DOWN, LEFT],
            ('┴', DOWN) => &[LEFT, RIGHT],
            ('└', DOWN) => &[RIGHT],
            ('┘', DOWN) => &[LEFT],
            ('┌' | '├', LEFT) | ('┐' | '┤', RIGHT) => &[DOWN],
            ('└', LEFT) | ('┘', RIGHT) => &[],
            ('┬' | '┼', LEFT) => &[LEFT, DOWN],
            ('┬' | '┼', RIGHT) => &[RIGHT, DOWN],
            (_, LEFT) => &[LEFT],
            (_, RIGHT) => &[RIGHT],
            // A vertical line, or a label that stands on it.
            _ => &[DOWN],
        };
        for way in next {
            let row = row as i64 + way.0;
            let column = column as i64 + way.1;
            if (0..400).contains(&row) && (0..400).contains(&column) {
                open.push((row as usize, column as usize, *way));
            }
        }
    }
    found
}

/// The id in the box whose upper border has the cell.
fn box_below(grid: &Grid, row: usize, column: usize, graph: &Graph) -> Option<String> {
    let left = (0..=column)
        .rev()
        .find(|&column| at(grid, row, column) == '┌')?;
    let right = (column..400).find(|&column| at(grid, row, column) == '┐')?;
    let inside: String = (left + 1..right)
        .map(|column| at(grid, row + 1, column))
        .collect();
    let name = inside
        .split_whitespace()
        .find(|word| word.chars().any(char::is_alphanumeric));
    id_of(&inside, name, graph)
}
