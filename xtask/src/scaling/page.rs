//! The generated section of `docs/scaling.md`: the inputs, what bounds an installation, and the
//! tables of what a rate of runs needs.

use std::fmt::Write as _;

use anyhow::Result;

use super::inputs::{Inputs, SOURCES};
use super::model::{Backend, Model, Plan, Workers};

/// The rates of the tables.
const RATES: [u64; 4] = [1_000, 10_000, 100_000, 1_000_000];

const HEAD: &str = "\
Made by `cargo xtask scaling` of `xtask/scaling.toml`; not typed. To plan with figures of your own machines,
change them there and run it again.
";

const BOUNDS: &str = "
### What one installation takes

An installation is one store with the processes on it. The least of its bounds counts. With workers beside, in the
orchestrators' processes, an attempt costs a record alone; with workers apart it is also an item of work and an
outcome in the inbox, with the writes of their rows. \"engine\" is what was measured through one engine on the same
two cores as its servers; the other bounds are what the servers took of a plain client.

| backend | workers beside: runs a second | workers apart: runs a second |
| --- | --- | --- |
";

const PLANS: &str = "
### What a rate of runs needs

Workers apart. Nothing crosses installations: each has tenants of its own. Installations may share a database
server, with a schema each. Connections are those to each database server, subjects are the runs that the streams
keep a message of, network is what processes and servers send each other in a second, disk is what is stored in a
day, until retention removes it, without the write-ahead logs that servers write over.
";

const PLOT: &str = "
![Installations and processes by runs a second](images/scaling.svg)
";

pub(super) fn text(inputs: &Inputs) -> Result<String> {
    let mut page = HEAD.to_owned();
    for source in SOURCES {
        page += &figures(inputs, source);
    }
    let model = Model(inputs);
    page += BOUNDS;
    for backend in Backend::ALL {
        let beside = bounds(&model, backend, Workers::Beside)?;
        // One process has all roles.
        let apart = match backend {
            Backend::Embedded => "one process".to_owned(),
            _ => bounds(&model, backend, Workers::Apart)?,
        };
        line(&mut page, &[backend.name(), &beside, &apart]);
    }
    page += PLANS;
    for backend in Backend::ALL {
        page += &plans(&model, backend)?;
    }
    Ok(page + PLOT)
}

/// The inputs from one source.
fn figures(inputs: &Inputs, source: &str) -> String {
    let mut table = format!("\n| {source} | figure |\n| --- | --- |\n");
    for input in inputs.0.iter().filter(|it| it.source == source) {
        line(&mut table, &[&input.text, &grouped(input.value)]);
    }
    table
}

/// Every bound, the one that counts in bold.
fn bounds(model: &Model<'_>, backend: Backend, workers: Workers) -> Result<String> {
    let least = model.least(backend, workers)?;
    let all = model.bounds(backend, workers)?.into_iter().map(|bound| {
        let text = format!("{} {}", bound.what, grouped(bound.runs));
        match bound == least {
            true => format!("**{text}**"),
            false => text,
        }
    });
    Ok(all.collect::<Vec<_>>().join(", "))
}

/// A column: its heading, and its cell in a row.
type Column = (&'static str, fn(&Plan) -> String);

fn plans(model: &Model<'_>, backend: Backend) -> Result<String> {
    let columns = columns(backend);
    let headings: Vec<&str> = columns.iter().map(|(heading, _)| *heading).collect();
    let mut table = format!("\n**{}**\n\n", backend.name());
    line(&mut table, &headings);
    line(&mut table, &vec!["---"; headings.len()]);
    for runs in RATES {
        let plan = model.plan(backend, runs)?;
        let cells: Vec<String> = columns.iter().map(|(_, cell)| cell(&plan)).collect();
        let cells: Vec<&str> = cells.iter().map(String::as_str).collect();
        line(&mut table, &cells);
    }
    Ok(table)
}

fn columns(backend: Backend) -> Vec<Column> {
    let runs: Column = ("runs/s", |plan| grouped(plan.runs));
    let records: Column = ("records/s", |plan| grouped(plan.records));
    let network: Column = ("network/s", |plan| bytes(plan.network_bytes));
    let disk: Column = ("disk/day", |plan| bytes(plan.disk_bytes));
    if backend == Backend::Embedded {
        let processes: Column = ("processes, a directory each", |plan| {
            grouped(plan.processes())
        });
        return vec![runs, records, processes, network, disk];
    }
    let installations = match backend {
        Backend::Postgres => "installations",
        _ => "clusters",
    };
    let mut columns: Vec<Column> = vec![
        runs,
        records,
        (installations, |plan| grouped(plan.installations)),
        ("databases", |plan| grouped(plan.databases)),
        ("partitions", |plan| grouped(plan.partitions)),
        ("API", |plan| grouped(plan.api)),
        ("orchestrators", |plan| grouped(plan.orchestrators)),
        ("workers", |plan| grouped(plan.workers)),
        ("connections", |plan| grouped(plan.database_connections)),
        network,
        disk,
    ];
    if backend != Backend::Postgres {
        columns.insert(4, ("streams", |plan| grouped(plan.streams)));
        columns.insert(5, ("subjects", |plan| millions(plan.subjects)));
    }
    columns
}

fn line(page: &mut String, cells: &[&str]) {
    // Writing to a string cannot fail.
    let _ = writeln!(page, "| {} |", cells.join(" | "));
}

/// With a comma between thousands.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Millions, rounded up.
fn millions(number: u64) -> String {
    format!("{} M", grouped(number.div_ceil(1_000_000)))
}

/// In the unit that leaves one to three digits before the point.
fn bytes(number: u64) -> String {
    let units = ["B", "kB", "MB", "GB", "TB", "PB"];
    let mut unit = 0;
    let mut whole = number;
    while whole >= 1000 && unit + 1 < units.len() {
        whole /= 1000;
        unit += 1;
    }
    let size = 1000_u64.pow(u32::try_from(unit).unwrap_or_default());
    match unit > 0 && whole < 100 {
        true => format!("{whole}.{} {}", number % size * 10 / size, units[unit]),
        false => format!("{whole} {}", units[unit]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_grouped() {
        assert_eq!(grouped(7), "7");
        assert_eq!(grouped(1_000), "1,000");
        assert_eq!(grouped(1_234_567), "1,234,567");
    }

    #[test]
    fn millions_are_rounded_up() {
        assert_eq!(millions(86_400_000_000), "86,400 M");
        assert_eq!(millions(1), "1 M");
    }

    #[test]
    fn bytes_have_the_unit_of_their_size() {
        assert_eq!(bytes(999), "999 B");
        assert_eq!(bytes(1_000), "1.0 kB");
        assert_eq!(bytes(99_950_000), "99.9 MB");
        assert_eq!(bytes(123_400_000), "123 MB");
        assert_eq!(bytes(2_560_000_000_000_000), "2.5 PB");
    }
}
