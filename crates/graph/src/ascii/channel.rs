//! The lines between two layers.
//!
//! Segments of one kind whose sources lead to the same targets make a net: one
//! horizontal line that all its sources enter and all its targets leave, so that a
//! 3 × 3 fan is one line and a line never suggests a way that is not there. Each net
//! has a column of its own at each box (a port) and a row in the channel (a track).

use std::collections::BTreeMap;

use windlass_core::definition::When;

use super::canvas::{Canvas, Paint};
use super::{Picture, columns, horizontal, truncate, vertical};

pub(super) struct Channel {
    nets: Vec<Net>,
    tracks: usize,
    has_labels: bool,
}

struct Net {
    when: When,
    /// Columns in which it comes from above; whether a box is there.
    sources: Vec<Port>,
    /// Columns in which it goes on below.
    targets: Vec<Port>,
    /// Its row; none for a straight line.
    track: Option<usize>,
}

#[derive(Clone)]
struct Port {
    slot: usize,
    column: usize,
    is_node: bool,
    label: String,
}

impl Net {
    fn columns(&self) -> impl Iterator<Item = usize> + '_ {
        let ports = self.sources.iter().chain(&self.targets);
        ports.map(|port| port.column)
    }

    fn span(&self) -> (usize, usize) {
        let left = self.columns().min().unwrap_or(0);
        let right = self.columns().max().unwrap_or(0);
        (left, right)
    }

    fn is_straight(&self) -> bool {
        let (left, right) = self.span();
        left == right
    }

    /// Where its other end pulls a port.
    fn middle(ports: &[Port]) -> usize {
        ports.iter().map(|port| port.column).sum::<usize>() / ports.len().max(1)
    }
}

impl Channel {
    /// The lines that leave a layer, or nothing if a reader could not distinguish them.
    pub(super) fn route(picture: &Picture<'_>, layer: usize) -> Option<Self> {
        let mut nets = nets(picture, layer);
        spread(picture, &mut nets, false)?;
        spread(picture, &mut nets, true)?;
        let tracks = assign(&mut nets)?;
        let mut targets = nets.iter().flat_map(|net| &net.targets);
        let has_labels = targets.any(|port| !port.label.is_empty());
        Some(Self {
            nets,
            tracks,
            has_labels,
        })
    }

    /// Rows: the tracks, the labels, the arrowheads.
    pub(super) fn height(&self) -> usize {
        if self.nets.is_empty() {
            return 0;
        }
        self.tracks.max(1) + usize::from(self.has_labels) + 1
    }

    /// Draws below the row `border`, which is the last of the layer above.
    pub(super) fn draw(&self, canvas: &mut Canvas, border: usize) {
        let first = border + 1;
        let last = border + self.height();
        for net in &self.nets {
            if let Some(track) = net.track {
                let (left, right) = net.span();
                for column in left..=right {
                    let paint = Paint::of_edge(net.when);
                    canvas.put(first + track, column, horizontal(net.when), paint);
                }
            }
        }
        for net in &self.nets {
            net.draw_verticals(canvas, first, last);
        }
        for net in &self.nets {
            net.draw_ends(canvas, border, last, self.has_labels);
        }
    }
}

impl Net {
    fn draw_verticals(&self, canvas: &mut Canvas, first: usize, last: usize) {
        let paint = Paint::of_edge(self.when);
        let Some(track) = self.track else {
            for row in first..=last {
                canvas.put(row, self.sources[0].column, vertical(self.when), paint);
            }
            return;
        };
        for port in &self.sources {
            for row in first..first + track {
                canvas.put(row, port.column, vertical(self.when), paint);
            }
        }
        for port in &self.targets {
            for row in first + track + 1..=last {
                canvas.put(row, port.column, vertical(self.when), paint);
            }
        }
        let (left, right) = self.span();
        for column in self.columns() {
            let up = self.sources.iter().any(|port| port.column == column);
            let down = self.targets.iter().any(|port| port.column == column);
            let joint = joint(up, down, column > left, column < right);
            canvas.put(first + track, column, joint, paint);
        }
    }

    fn draw_ends(&self, canvas: &mut Canvas, border: usize, last: usize, has_labels: bool) {
        let paint = Paint::of_edge(self.when);
        for port in self.sources.iter().filter(|port| port.is_node) {
            canvas.put(border, port.column, "┬", paint);
        }
        for port in &self.targets {
            if port.is_node {
                canvas.put(last, port.column, "▼", paint);
            }
            if has_labels && !port.label.is_empty() {
                let start = (port.column + 1).saturating_sub(columns(&port.label).div_ceil(2));
                canvas.write(last - 1, start, &port.label, Paint::Dim);
            }
        }
    }
}

fn joint(up: bool, down: bool, left: bool, right: bool) -> &'static str {
    match (up, down, left, right) {
        (true, true, true, true) => "┼",
        (true, true, true, false) => "┤",
        (true, true, false, true) => "├",
        (true, false, true, true) => "┴",
        (true, false, true, false) => "┘",
        (true, false, false, true) => "└",
        (false, true, true, true) => "┬",
        (false, true, true, false) => "┐",
        (false, true, false, true) => "┌",
        (_, _, true, _) | (_, _, _, true) => "─",
        _ => "│",
    }
}

/// Slots, each with the edge whose label stands there.
type Targets = Vec<(usize, Option<usize>)>;

/// Groups the segments that leave a layer.
fn nets(picture: &Picture<'_>, layer: usize) -> Vec<Net> {
    let mut fans: BTreeMap<(usize, u8), Targets> = BTreeMap::new();
    let slots = &picture.layout.slots;
    for segment in &picture.layout.segments {
        if slots[segment.from].layer == layer {
            let key = (segment.from, segment.when as u8);
            let fan = fans.entry(key).or_default();
            fan.push((segment.to, segment.label));
        }
    }
    let mut groups: BTreeMap<(u8, Targets), Vec<usize>> = BTreeMap::new();
    for ((from, when), mut targets) in fans {
        targets.sort_unstable();
        groups.entry((when, targets)).or_default().push(from);
    }
    let port = |slot: usize, label: String| Port {
        slot,
        column: slots[slot].center as usize,
        is_node: slots[slot].is_node,
        label,
    };
    let mut nets: Vec<Net> = groups
        .into_iter()
        .map(|((when, targets), sources)| Net {
            when: [When::Success, When::Failure, When::Always][when as usize],
            sources: sources
                .into_iter()
                .map(|slot| port(slot, String::new()))
                .collect(),
            targets: targets
                .into_iter()
                .map(|(slot, edge)| {
                    let label = edge.map(|edge| picture.labels[edge].clone());
                    port(slot, label.unwrap_or_default())
                })
                .collect(),
            track: None,
        })
        .collect();
    nets.sort_by_key(|net| (net.span(), net.when as u8));
    nets
}

/// Gives the nets that meet at one box columns of their own, in the order of where
/// they go. Nothing if there is no room, as where nets meet on a long edge's way.
fn spread(picture: &Picture<'_>, nets: &mut [Net], below: bool) -> Option<()> {
    let mut at: BTreeMap<usize, Vec<(usize, usize)>> = BTreeMap::new();
    for (index, net) in nets.iter().enumerate() {
        let ports = if below { &net.targets } else { &net.sources };
        for (place, port) in ports.iter().enumerate() {
            at.entry(port.slot).or_default().push((index, place));
        }
    }
    for (slot, mut ports) in at {
        if ports.len() < 2 {
            continue;
        }
        ports.sort_by_key(|&(net, place)| {
            let net = &nets[net];
            let other = if below { &net.sources } else { &net.targets };
            (Net::middle(other), net.when as u8, place)
        });
        let center = picture.layout.slots[slot].center as usize;
        let room = (picture.boxes.get(slot)?.width as usize).saturating_sub(2);
        if ports.len() > room {
            return None;
        }
        let labels = ports.iter().map(|&(net, place)| {
            let net = &nets[net];
            let port = if below {
                &net.targets[place]
            } else {
                &net.sources[place]
            };
            columns(&port.label) + 1
        });
        let step = labels.max().unwrap_or(1).max(4);
        let step = step.min(room.saturating_sub(1) / (ports.len() - 1)).max(1);
        // One that runs straight down keeps the middle, and the rest stand around it.
        let pivot = ports
            .iter()
            .position(|&(net, _)| {
                let net = &nets[net];
                let other = if below { &net.sources } else { &net.targets };
                net.when == When::Success && other.iter().any(|port| port.column == center)
            })
            .unwrap_or((ports.len() - 1) / 2);
        let half = room / 2;
        let total = step * (ports.len() - 1);
        let start = (center - (pivot * step).min(half)).min((center + half).saturating_sub(total));
        for (index, &(net, place)) in ports.iter().enumerate() {
            let net = &mut nets[net];
            let port = if below {
                &mut net.targets[place]
            } else {
                &mut net.sources[place]
            };
            port.column = start + index * step;
            // Labels that would touch are cut to the distance of their lines.
            port.label = truncate(&port.label, step.saturating_sub(1).max(1));
        }
    }
    Some(())
}

/// Gives each net that is not straight a row, so that no two share a cell: a net that
/// comes from above in a column lies above one that goes down in it. Returns the
/// number of rows, or nothing if that is impossible.
fn assign(nets: &mut [Net]) -> Option<usize> {
    let before = constraints(nets)?;
    let mut waiting: Vec<usize> = (0..nets.len())
        .filter(|&net| !nets[net].is_straight())
        .collect();
    let mut done = vec![false; nets.len()];
    let mut row = 0;
    while !waiting.is_empty() {
        let mut end = None;
        let mut placed = Vec::new();
        for &net in &waiting {
            let (left, right) = nets[net].span();
            let free = before[net].iter().all(|&other| done[other]);
            if free && end.is_none_or(|end| left > end + 1) {
                nets[net].track = Some(row);
                placed.push(net);
                end = Some(right);
            }
        }
        if placed.is_empty() {
            return None;
        }
        for &net in &placed {
            done[net] = true;
        }
        waiting.retain(|net| !done[*net]);
        row += 1;
    }
    Some(row)
}

/// For each net, those that must lie above it; nothing if two nets share a column at
/// the same end or a straight line's column.
fn constraints(nets: &[Net]) -> Option<Vec<Vec<usize>>> {
    let mut from_above: BTreeMap<usize, usize> = BTreeMap::new();
    let mut to_below: BTreeMap<usize, usize> = BTreeMap::new();
    for (index, net) in nets.iter().enumerate() {
        for port in &net.sources {
            if from_above.insert(port.column, index).is_some() {
                return None;
            }
        }
        for port in &net.targets {
            if to_below.insert(port.column, index).is_some() {
                return None;
            }
        }
    }
    let mut before = vec![Vec::new(); nets.len()];
    for (column, &upper) in &from_above {
        if let Some(&lower) = to_below.get(column)
            && lower != upper
        {
            if nets[upper].is_straight() || nets[lower].is_straight() {
                return None;
            }
            before[lower].push(upper);
        }
    }
    Some(before)
}
