//! Measures a page of the list of runs for each combination of conditions among many runs.
//!
//! `cargo run --release -p windlass-store-embedded --example pages [runs] [directory]`

// A measurement that cannot go on has nothing better to do than to stop.
#![allow(clippy::unwrap_used)]

use std::time::{Duration, Instant};

use windlass_core::{Millis, RunStatus};
use windlass_store::conformance::{record, row, run_id};
use windlass_store::{
    Append, Head, Log as _, Queries as _, Retention as _, RunFilter, RunRow, TenantFilter,
    Wait as _, block_on,
};
use windlass_store_embedded::{EmbeddedStore, Options};

const TIME: i64 = 1_700_000_000_000;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let count: u64 = arguments.next().map_or(1_000_000, |n| n.parse().unwrap());
    let base = arguments.next().unwrap_or_else(|| "/var/tmp".into());
    let root = tempfile::tempdir_in(base).unwrap();
    let options = Options {
        durable: false,
        ..Options::default()
    };
    let store = EmbeddedStore::open(root.path(), options).unwrap().store;
    let start = Instant::now();
    for begin in (0..count).step_by(1000) {
        let batch = (begin..count.min(begin + 1000)).map(sample);
        for answer in block_on(store.append(batch.collect())) {
            answer.unwrap();
        }
    }
    println!("{count} runs taken in: {:?}", start.elapsed());
    let mut pages = Vec::new();
    for (name, filter) in filters(count) {
        let start = Instant::now();
        let found = store.runs(&filter).wait().map(|page| page.rows.len());
        pages.push((start.elapsed(), name, found));
    }
    pages.sort_by_key(|(time, ..)| *time);
    let over = pages
        .iter()
        .filter(|page| page.0 > Duration::from_millis(50));
    println!("{} combinations, {} over 50 ms", pages.len(), over.count());
    println!("half of them: up to {:?}", pages[pages.len() / 2].0);
    for (time, name, found) in pages.iter().rev().take(8) {
        println!("{time:?} for {found:?}: {name}");
    }
    let start = Instant::now();
    let ended = store.ended(Millis(i64::MAX), 100).wait().unwrap().len();
    println!("{ended} longest ended: {:?}", start.elapsed());
    let start = Instant::now();
    let ended = store.ended_count().wait().unwrap();
    println!("{ended} ended runs counted: {:?}", start.elapsed());
}

/// Ten tenants, one of them with few runs; a hundred workflows; rare statuses and labels.
fn sample(n: u64) -> Append {
    let tenant = match n % 10 {
        0 => None,
        1 if n % 50_000 == 1 => Some("small".into()),
        tenant => Some(format!("tenant-{tenant}").into()),
    };
    let status = match n % 10_000 {
        0..=20 => RunStatus::Running,
        21..=25 => RunStatus::Pending,
        26 => RunStatus::Cancelled,
        n if n % 3 == 0 => RunStatus::Failed,
        _ => RunStatus::Succeeded,
    };
    let mut row = RunRow {
        tenant,
        status,
        workflow: format!("workflow-{}", n / 7 % 100).into(),
        parent: n.is_multiple_of(4).then(|| run_id(1 << 40)),
        created_at: Millis(TIME + n as i64),
        ended_at: status.is_final().then_some(Millis(TIME + n as i64)),
        ..row(run_id(n))
    };
    if n % 10 < 5 {
        row.labels.insert("env".into(), "prod".into());
    }
    if n % 20_000 == 1 {
        row.labels.insert("rare".into(), "yes".into());
    }
    Append {
        row: Some(row),
        ..record(run_id(n), Head::NONE, n, &[7; 64])
    }
}

type Change<'a> = (&'a str, &'a dyn Fn(&mut RunFilter));

/// Every combination of a choice for each condition.
fn filters(count: u64) -> Vec<(String, RunFilter)> {
    let only = |tenant: Option<&str>| TenantFilter::Only(tenant.map(Into::into));
    let label = |f: &mut RunFilter, key: &str, value: &str| {
        f.labels.insert(key.into(), value.into());
    };
    let nothing: Change<'_> = ("", &|_| {});
    let choices: [&[Change<'_>]; 7] = [
        &[
            nothing,
            ("no tenant", &|f| f.tenant = only(None)),
            ("a tenant", &|f| f.tenant = only(Some("tenant-3"))),
            ("a small tenant", &|f| f.tenant = only(Some("small"))),
        ],
        &[
            nothing,
            ("workflow", &|f| f.workflow = Some("workflow-7".into())),
        ],
        &[
            nothing,
            ("failed", &|f| f.statuses = vec![RunStatus::Failed]),
            ("cancelled", &|f| f.statuses = vec![RunStatus::Cancelled]),
            ("open", &|f| {
                f.statuses = vec![RunStatus::Running, RunStatus::Pending]
            }),
        ],
        &[
            nothing,
            ("env", &|f| label(f, "env", "prod")),
            ("rare", &|f| label(f, "rare", "yes")),
            ("env and rare", &|f| {
                label(f, "env", "prod");
                label(f, "rare", "yes");
            }),
        ],
        &[nothing, ("parent", &|f| f.parent = Some(run_id(1 << 40)))],
        &[
            nothing,
            ("since the middle", &|f| {
                f.since = Some(Millis(TIME + count as i64 / 2))
            }),
            ("since a moment ago", &|f| {
                f.since = Some(Millis(TIME + count as i64 - 100))
            }),
        ],
        &[
            nothing,
            ("cursor", &|f| f.before = Some(run_id(count / 3 * 2))),
        ],
    ];
    let mut filters = vec![(String::new(), RunFilter::default())];
    for choice in choices {
        let mut more = Vec::new();
        for (name, filter) in &filters {
            for (word, change) in choice {
                let mut filter = filter.clone();
                change(&mut filter);
                let name = [name.as_str(), word].join(" ");
                more.push((name.trim().to_owned(), filter));
            }
        }
        filters = more;
    }
    filters
}
