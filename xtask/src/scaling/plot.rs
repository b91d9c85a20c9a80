//! The picture of the model: runs a second against installations and processes, both axes
//! logarithmic. It has a ground of its own, in light and dark, because a page may show it on either.

use std::fmt::Write as _;

use anyhow::Result;

use super::inputs::Inputs;
use super::model::{Backend, Model};
use super::page::grouped;

const SIZE: (f64, f64) = (820.0, 440.0);
/// Left, top, right, bottom of the plane.
const PLANE: (f64, f64, f64, f64) = (70.0, 46.0, 560.0, 390.0);
/// Powers of ten at the ends of the axes.
const X: (i32, i32) = (2, 6);
const Y: (i32, i32) = (0, 5);
/// Rates for each power of ten: enough for steps to look like what they are.
const STEPS: i32 = 24;
/// How near labels may be to each other.
const LABEL_HEIGHT: f64 = 15.0;

const STYLE: &str = "\
.ground { fill: #ffffff } text { font: 12px system-ui, sans-serif; fill: #1f2328 }
.title { font-size: 14px; font-weight: 600 } .grid { stroke: #d8dee4 } .axis { stroke: #59636e }
path { fill: none; stroke-width: 2 } .processes { stroke-dasharray: 5 4; stroke-width: 1.5 }
.embedded { --line: #59636e } .postgres { --line: #0969da } .nats-1 { --line: #bc4c00 } .nats-3 { --line: #8250df }
path { stroke: var(--line) } .label { fill: var(--line) }
@media (prefers-color-scheme: dark) {
.ground { fill: #0d1117 } text { fill: #e6edf3 } .grid { stroke: #2b3138 } .axis { stroke: #9198a1 }
.embedded { --line: #9198a1 } .postgres { --line: #4493f8 } .nats-1 { --line: #f0883e } .nats-3 { --line: #ab7df8 }
.label { fill: var(--line) } }
";

/// A line: whose it is, what it counts, and its points.
struct Series {
    class: &'static str,
    counts: &'static str,
    label: String,
    points: Vec<(u64, u64)>,
}

pub(super) fn svg(inputs: &Inputs) -> Result<String> {
    let model = Model(inputs);
    let (width, height) = SIZE;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" role=\"img\" \
         aria-label=\"Installations and processes by runs a second\">\n<style>\n{STYLE}</style>\n\
         <rect class=\"ground\" width=\"{width}\" height=\"{height}\" rx=\"8\"/>\n\
         <text class=\"title\" x=\"{}\" y=\"26\">Installations (lines) and processes (dashes) \
         by runs a second</text>\n",
        PLANE.0
    );
    svg += &grid();
    let mut all = Vec::new();
    for backend in Backend::ALL {
        all.extend(series(&model, backend)?);
    }
    for line in &all {
        svg += &path(line);
    }
    svg += &labels(all);
    Ok(svg + "</svg>\n")
}

fn series(model: &Model<'_>, backend: Backend) -> Result<Vec<Series>> {
    let class = match backend {
        Backend::Embedded => "embedded",
        Backend::Postgres => "postgres",
        Backend::NatsOne => "nats-1",
        Backend::NatsThree => "nats-3",
    };
    let (mut installations, mut processes) = (Vec::new(), Vec::new());
    for step in 0..=(X.1 - X.0) * STEPS {
        let rate = 10_f64.powf(f64::from(X.0) + f64::from(step) / f64::from(STEPS));
        let plan = model.plan(backend, whole(rate))?;
        installations.push((plan.runs, plan.installations));
        processes.push((plan.runs, plan.processes()));
    }
    let one = |counts, points: Vec<(u64, u64)>| {
        let last = points.last().map_or(0, |(_, count)| *count);
        Series {
            class,
            counts,
            label: format!("{}: {}", backend.name(), grouped(last)),
            points,
        }
    };
    // Where an installation is a process, one line says both.
    let mut all = vec![one("installations", installations)];
    if backend != Backend::Embedded {
        all.push(one("processes", processes));
    }
    Ok(all)
}

/// The nearest whole number; rates are far below what a float holds exactly.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a rate is positive and at most ten to the sixth"
)]
fn whole(rate: f64) -> u64 {
    rate.round() as u64
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a point of a picture needs four digits"
)]
fn at(runs: u64, count: u64) -> (f64, f64) {
    let (left, top, right, bottom) = PLANE;
    let share = |value: u64, (from, to): (i32, i32)| {
        ((value as f64).log10() - f64::from(from)) / f64::from(to - from)
    };
    (
        left + share(runs, X) * (right - left),
        bottom - share(count, Y) * (bottom - top),
    )
}

fn grid() -> String {
    let (left, top, right, bottom) = PLANE;
    let mut text = String::new();
    let power = |exponent: i32| 10_u64.pow(exponent.unsigned_abs());
    // Writing to a string cannot fail.
    for exponent in X.0..=X.1 {
        let (x, _) = at(power(exponent), 1);
        let _ = writeln!(
            text,
            "<line class=\"grid\" x1=\"{x:.1}\" y1=\"{top}\" x2=\"{x:.1}\" y2=\"{bottom}\"/>\
             <text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            bottom + 18.0,
            grouped(power(exponent))
        );
    }
    for exponent in Y.0..=Y.1 {
        let (_, y) = at(power(X.0), power(exponent));
        let _ = writeln!(
            text,
            "<line class=\"grid\" x1=\"{left}\" y1=\"{y:.1}\" x2=\"{right}\" y2=\"{y:.1}\"/>\
             <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            left - 8.0,
            y + 4.0,
            grouped(power(exponent))
        );
    }
    let _ = writeln!(
        text,
        "<line class=\"axis\" x1=\"{left}\" y1=\"{bottom}\" x2=\"{right}\" y2=\"{bottom}\"/>\
         <line class=\"axis\" x1=\"{left}\" y1=\"{top}\" x2=\"{left}\" y2=\"{bottom}\"/>\
         <text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">runs a second</text>",
        (left + right) / 2.0,
        bottom + 38.0
    );
    text
}

fn path(line: &Series) -> String {
    let points = line.points.iter().map(|&(runs, count)| {
        let (x, y) = at(runs, count);
        format!("{x:.1} {y:.1}")
    });
    let points: Vec<String> = points.collect();
    format!(
        "<path class=\"{} {}\" d=\"M{}\"/>\n",
        line.class,
        line.counts,
        points.join(" L")
    )
}

/// The labels at the ends of the lines, from the top, each below the one before.
fn labels(mut all: Vec<Series>) -> String {
    let end = |line: &Series| line.points.last().map_or(0, |(_, count)| *count);
    all.sort_by_key(|line| std::cmp::Reverse(end(line)));
    let mut text = String::new();
    let mut above = f64::MIN;
    for line in &all {
        let (x, y) = at(10_u64.pow(X.1.unsigned_abs()), end(line).max(1));
        let y = y.max(above + LABEL_HEIGHT);
        above = y;
        let _ = writeln!(
            text,
            "<text class=\"label {}\" x=\"{:.1}\" y=\"{:.1}\">{}{}</text>",
            line.class,
            x + 8.0,
            y + 4.0,
            line.label,
            if line.counts == "processes" {
                " processes"
            } else {
                ""
            }
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenfold_of_either_is_the_same_distance() {
        let (origin, right) = (at(100, 1), at(1_000_000, 1));
        assert_eq!(origin, (PLANE.0, PLANE.3));
        assert_eq!(right.0, PLANE.2);
        let distance = |from: (f64, f64), to: (f64, f64)| (to.0 - from.0, from.1 - to.1);
        let first = distance(at(1_000, 10), at(10_000, 100));
        let second = distance(at(10_000, 100), at(100_000, 1_000));
        assert!((first.0 - second.0).abs() < 1e-9 && (first.1 - second.1).abs() < 1e-9);
        assert!(first.0 > 0.0 && first.1 > 0.0);
    }

    #[test]
    fn labels_do_not_cover_each_other() {
        let line = |count| Series {
            class: "postgres",
            counts: "installations",
            label: format!("{count}"),
            points: vec![(1_000_000, count)],
        };
        let text = labels(vec![line(100), line(101), line(1000)]);
        let places: Vec<f64> = text
            .lines()
            .filter_map(|line| line.split("y=\"").nth(1)?.split('"').next()?.parse().ok())
            .collect();
        assert_eq!(places.len(), 3);
        assert!(
            places
                .windows(2)
                .all(|it| it[1] - it[0] >= LABEL_HEIGHT - 0.1),
            "{places:?}"
        );
    }
}
