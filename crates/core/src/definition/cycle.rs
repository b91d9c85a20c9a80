//! Finds the cycles of a graph: one for each strongly connected part.

use super::graph::{DefinitionGraph, GraphEdge};

/// One shortest cycle through the first node of each strongly connected part,
/// as its edges in order; the last edge leads back to the first node.
pub(crate) fn cycles<'g, 'd>(graph: &'g DefinitionGraph<'d>) -> Vec<Vec<&'g GraphEdge<'d>>> {
    let part = parts(graph);
    let mut first: Vec<Option<usize>> = vec![None; graph.nodes.len()];
    let mut cyclic: Vec<usize> = Vec::new();
    for node in 0..graph.nodes.len() {
        let cycles = graph.outgoing(node).any(|edge| part[edge.to] == part[node]);
        if cycles && first[part[node]].is_none() {
            first[part[node]] = Some(node);
            cyclic.push(node);
        }
    }
    let mut came_by: Vec<Option<&GraphEdge<'d>>> = vec![None; graph.nodes.len()];
    cyclic
        .into_iter()
        .map(|start| cycle_through(graph, start, &part, &mut came_by))
        .collect()
}

/// A breadth-first walk within the part, until an edge leads back to the start.
fn cycle_through<'g, 'd>(
    graph: &'g DefinitionGraph<'d>,
    start: usize,
    part: &[usize],
    came_by: &mut [Option<&'g GraphEdge<'d>>],
) -> Vec<&'g GraphEdge<'d>> {
    let mut queue = vec![start];
    let mut next = 0;
    while let Some(node) = queue.get(next).copied() {
        next += 1;
        for edge in graph.outgoing(node) {
            if edge.to == start {
                let mut cycle = vec![edge];
                let mut at = edge.from;
                while at != start {
                    let Some(by) = came_by[at] else { break };
                    cycle.push(by);
                    at = by.from;
                }
                cycle.reverse();
                return cycle;
            }
            if part[edge.to] == part[start] && came_by[edge.to].is_none() {
                came_by[edge.to] = Some(edge);
                queue.push(edge.to);
            }
        }
    }
    Vec::new()
}

/// Tarjan's algorithm with its stack on the heap: the number of the strongly
/// connected part that each node belongs to.
fn parts(graph: &DefinitionGraph<'_>) -> Vec<usize> {
    const UNSEEN: usize = usize::MAX;
    let count = graph.nodes.len();
    let mut part = vec![UNSEEN; count];
    let mut seen = vec![UNSEEN; count];
    let mut low = vec![0; count];
    let mut open = Vec::new();
    let mut parts = 0;
    let mut clock = 0;
    for root in 0..count {
        if seen[root] != UNSEEN {
            continue;
        }
        seen[root] = clock;
        low[root] = clock;
        clock += 1;
        open.push(root);
        let mut stack = vec![(root, graph.outgoing(root))];
        while let Some((node, edges)) = stack.last_mut() {
            let node = *node;
            if let Some(edge) = edges.next() {
                let to = edge.to;
                if seen[to] == UNSEEN {
                    seen[to] = clock;
                    low[to] = clock;
                    clock += 1;
                    open.push(to);
                    stack.push((to, graph.outgoing(to)));
                } else if part[to] == UNSEEN {
                    low[node] = low[node].min(seen[to]);
                }
                continue;
            }
            stack.pop();
            if let Some((parent, _)) = stack.last() {
                low[*parent] = low[*parent].min(low[node]);
            }
            if low[node] == seen[node] {
                while let Some(member) = open.pop() {
                    part[member] = parts;
                    if member == node {
                        break;
                    }
                }
                parts += 1;
            }
        }
    }
    part
}
