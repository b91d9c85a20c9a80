//! The statement that appends to many runs at once: its text for each combination of what a
//! batch carries, and its parameters. It is one autocommitted statement, so a batch costs one
//! round trip and one flush. It does not know connections.
//!
//! A run whose head has moved, whose claim is held or whose value is missing is simply missing
//! from the result; the others are committed. Arrays are in the order of the runs, and keys are
//! inserted in their own order, so that batches of different processes do not deadlock. What
//! appears between the statement's snapshot and its writes (a claim, a first record) violates a
//! unique key: then nothing happened, and the batch is sent again.

use std::fmt::Write as _;

use tokio_postgres::types::ToSql;
use windlass_store::{Append, Head, REQUEST_CLAIM, checksum};

use crate::codec::{
    Moment, STORED_FORM, codes_text, labels_text, signed, tenant, text, uuid, version,
};
use crate::entry::Entry;

/// A parameter of the statement.
pub(crate) type Parameter<'a> = Box<dyn ToSql + Sync + Send + 'a>;

/// What a batch carries. Each combination has a statement of its own, so that a batch pays only
/// for what it carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Shape {
    begins: bool,
    several: bool,
    claims: bool,
    values: bool,
    rows: bool,
    links: bool,
    consumes: bool,
    releases: bool,
    slots: bool,
}

impl Shape {
    pub(crate) fn of(batch: &[&Entry]) -> Self {
        let any = |test: fn(&Append) -> bool| batch.iter().any(|entry| test(&entry.last));
        Self {
            begins: batch.iter().any(|entry| entry.head().sequence == 0),
            several: batch.iter().any(|entry| entry.len() > 1),
            claims: any(|append| !append.claims.is_empty()),
            values: any(|append| !append.blobs.is_empty() || !append.uses.is_empty()),
            rows: any(|append| append.row.is_some()),
            links: any(|append| !append.resources.is_empty()),
            consumes: any(|append| !append.consumed.is_empty()),
            releases: any(|append| !append.releases.is_empty()),
            slots: any(|append| !append.slots.is_empty()),
        }
    }

    /// The statement's text.
    pub(crate) fn text(self) -> String {
        let mut text = Text::default();
        // Each entry of a batch without several records has one.
        let count = match self.several {
            true => "fit.count",
            false => "1",
        };
        match self.several {
            true => text.arrays("i", &[APPENDS, COUNTED].concat()),
            false => text.arrays("i", APPENDS),
        }
        self.conditions(&mut text);
        text.part("moved", &MOVE.replace("COUNT", count));
        match self.begins {
            true => {
                text.part("begun", &BEGIN.replace("COUNT", count));
                text.part("heads", HEADS);
                text.part("won", "select * from moved union all select * from begun");
            }
            false => text.part("won", "select * from moved"),
        }
        text.part("records", RECORDS);
        if self.several {
            text.arrays("e", EARLIER);
            text.part("earlier", EARLIER_RECORDS);
        }
        text.part("changes", CHANGES);
        if self.claims {
            text.part("claimed", CLAIMS);
        }
        if self.values {
            text.part("blobs", &BLOBS.replace("FORM", &STORED_FORM.to_string()));
            text.part("used", USES);
        }
        if self.rows {
            text.arrays("r", ROWS);
            text.part("rows", &rows());
        }
        if self.links {
            text.arrays("l", LINKS);
            text.part("links", LINK);
        }
        if self.consumes {
            text.part("consumed", CONSUME);
        }
        if self.releases {
            text.arrays("g", RELEASED);
            text.part("released", RELEASE);
        }
        if self.slots {
            text.arrays("s", FREED);
            text.part("freed", FREE_SLOTS);
        }
        format!("with {} select n from won", text.parts)
    }

    /// What may refuse an append beside its head.
    fn conditions(self, text: &mut Text) {
        let mut conditions = Vec::new();
        if self.claims {
            text.arrays("c", CLAIMED);
            conditions.push(FREE);
        }
        if self.values {
            text.arrays("v", VALUES);
            text.arrays("b", VALUE_BYTES);
            conditions.push(THERE);
        }
        if self.consumes {
            text.arrays("x", CONSUMED);
            text.part("waiting", WAITING);
            conditions.push(WAITS);
        }
        let condition = match conditions.is_empty() {
            true => "true".to_owned(),
            false => conditions.join(" and "),
        };
        text.part("fit", &format!("select i.* from i where {condition}"));
    }
}

/// The text of a statement while it grows.
#[derive(Default)]
struct Text {
    parts: String,
    parameters: usize,
}

impl Text {
    fn part(&mut self, name: &str, body: &str) {
        let comma = if self.parts.is_empty() { "" } else { ", " };
        // Writing to a string does not fail.
        let _ = write!(self.parts, "{comma}{name} as ({body})");
    }

    /// Arrays as a table: names and types of its columns.
    fn arrays(&mut self, name: &str, columns: &[(&str, &str)]) {
        let mut arrays = Vec::new();
        for (_, kind) in columns {
            self.parameters += 1;
            arrays.push(format!("${}::{kind}[]", self.parameters));
        }
        let names: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
        let (arrays, names) = (arrays.join(", "), names.join(", "));
        let body = format!("select * from unnest({arrays}) as t({names})");
        self.part(name, &body);
    }
}

const APPENDS: &[(&str, &str)] = &[
    ("n", "int4"),
    ("run", "uuid"),
    ("expected", "int8"),
    ("before", "bytea"),
    ("before_id", "int8"),
    ("chain", "bytea"),
    ("append_id", "int8"),
    ("writer", "int8"),
    ("body", "bytea"),
];

/// How many records an entry has.
const COUNTED: &[(&str, &str)] = &[("count", "int8")];

/// The records before the last one of an entry.
const EARLIER: &[(&str, &str)] = &[
    ("n", "int4"),
    ("seq", "int8"),
    ("chain", "bytea"),
    ("append_id", "int8"),
    ("writer", "int8"),
    ("body", "bytea"),
];

const EARLIER_RECORDS: &str = "insert into record (run, seq, writer, append_id, chain, body) \
     select won.run, e.seq, e.writer, e.append_id, e.chain, e.body \
     from e join won on won.n = e.n";

const CLAIMED: &[(&str, &str)] = &[
    ("n", "int4"),
    ("namespace", "text"),
    ("key", "text"),
    ("value", "bytea"),
    ("own", "bytea"),
];

/// No claim is held by another run. A value that begins with the run's id is its own.
const FREE: &str = "not exists (select from c join claim k \
     on k.namespace = c.namespace and k.key = c.key \
     where c.n = i.n and substring(k.value from 1 for 36) <> c.own)";

const VALUES: &[(&str, &str)] = &[("n", "int4"), ("digest", "bytea"), ("stored", "bool")];

const VALUE_BYTES: &[(&str, &str)] = &[("digest", "bytea"), ("bytes", "bytea")];

/// Every value that should be stored is.
const THERE: &str = "not exists (select from v where v.n = i.n and v.stored \
     and not exists (select from blob where blob.digest = v.digest))";

const MOVE: &str = "update head h set seq = h.seq + COUNT, append_id = fit.append_id, \
     chain = fit.chain from fit where h.run = fit.run and h.seq = fit.expected \
     and h.chain = fit.before and h.append_id = fit.before_id \
     returning fit.n, h.run, h.seq, h.dead, fit.chain, fit.append_id, fit.writer, fit.body";

const BEGIN: &str = "select n, run, COUNT::int8 as seq, false as dead, chain, append_id, writer, body \
     from fit where expected = 0 and not exists (select from head h where h.run = fit.run)";

const HEADS: &str = "insert into head (run, seq, append_id, chain) \
     select run, seq, append_id, chain from begun order by run";

const RECORDS: &str = "insert into record (run, seq, writer, append_id, chain, body) \
     select run, seq, writer, append_id, chain, body from won";

/// What the projector has to read.
const CHANGES: &str = "insert into projection_queue (run, seq) select run, seq from won";

const CLAIMS: &str = "insert into claim (namespace, key, value) \
     select c.namespace, c.key, c.value from c join won on won.n = c.n \
     where not exists (select from claim k where k.namespace = c.namespace and k.key = c.key) \
     order by c.namespace collate \"C\", c.key collate \"C\"";

const BLOBS: &str = "insert into blob (digest, envelope, bytes) \
     select b.digest, FORM, b.bytes from b \
     where exists (select from v join won on won.n = v.n where v.digest = b.digest) \
     order by b.digest on conflict do nothing";

const USES: &str = "insert into blob_use (run, digest) \
     select won.run, v.digest from v join won on won.n = v.n \
     order by won.run, v.digest on conflict do nothing";

const ROWS: &[(&str, &str)] = &[
    ("n", "int4"),
    ("tenant_id", "text"),
    ("workflow", "text"),
    ("version", "int4"),
    ("workflow_request_id", "text"),
    ("status", "text"),
    ("priority", "int2"),
    ("created_at", "timestamptz"),
    ("start_time", "timestamptz"),
    ("end_time", "timestamptz"),
    ("labels", "text"),
    ("error_code", "text"),
    ("error_message", "text"),
    ("cause_codes", "text"),
    ("parent", "uuid"),
    ("origin", "uuid"),
    ("wake_at", "int8"),
    ("asleep", "bool"),
    ("concurrency_key", "text"),
    ("concurrency_limit", "int8"),
    ("partition", "int4"),
    ("owns_request", "bool"),
];

/// Writes the rows of the winners. The mark of the dead comes from the head; only a run that
/// still waits stays parked.
fn rows() -> String {
    let values = |prefix: &str| -> Vec<String> {
        let columns = ROWS.iter().skip(1).map(|(name, _)| match *name {
            "labels" | "cause_codes" => format!("{prefix}{name}::jsonb"),
            name => format!("{prefix}{name}"),
        });
        columns.collect()
    };
    upsert(&format!(
        "select won.run, won.dead, {} from r join won on won.n = r.n order by won.run",
        values("r.").join(", ")
    ))
}

/// The statement that writes rows of runs; `select` gives `id, dead` and the columns of [`ROWS`]
/// without the first.
pub(crate) fn upsert(select: &str) -> String {
    let names: Vec<&str> = ROWS.iter().skip(1).map(|(name, _)| *name).collect();
    let sets = names.iter().map(|name| match *name {
        "owns_request" => {
            "owns_request = workflow_executions.owns_request or excluded.owns_request".to_owned()
        }
        name => format!("{name} = excluded.{name}"),
    });
    let sets: Vec<String> = sets.collect();
    format!(
        "insert into workflow_executions (id, dead, {}) {select} \
         on conflict (id) do update set {}, dead = workflow_executions.dead or excluded.dead, \
         parked = workflow_executions.parked and excluded.status = 'Pending'",
        names.join(", "),
        sets.join(", ")
    )
}

const LINKS: &[(&str, &str)] = &[
    ("n", "int4"),
    ("ordinal", "int4"),
    ("tenant_id", "text"),
    ("system_name", "text"),
    ("resource_type", "text"),
    ("resource_id", "text"),
    ("external_url", "text"),
    ("action", "text"),
];

const LINK: &str = "insert into workflow_resource_links (tenant_id, execution, action, \
     system_name, resource_type, resource_id, external_url, seq, ordinal) \
     select l.tenant_id, won.run, l.action, l.system_name, l.resource_type, l.resource_id, \
     l.external_url, won.seq, l.ordinal from l join won on won.n = l.n \
     order by l.tenant_id collate \"C\", l.system_name collate \"C\", \
     l.resource_type collate \"C\", l.resource_id collate \"C\", l.n, l.ordinal \
     on conflict do nothing";

const CONSUMED: &[(&str, &str)] = &[("n", "int4"), ("key", "text")];

/// The items that wait, locked: one that another process refuses meanwhile is missing here, so
/// the record that would consume it is refused too.
/// Each is looked up by its whole key. Joined with all items of its run, or found by the index of
/// those that wait (which a plan made for an empty table prefers), a record of a hundred outcomes
/// takes a hundred times as long.
const WAITING: &str = "select o.n, w.key from \
     (select i.n, i.run, x.key from i join x on x.n = i.n order by i.run, x.key collate \"C\") o \
     cross join lateral (select inbox.key, case when inbox.refusal is null then 1 end as waits \
     from inbox where inbox.run = o.run and inbox.key = o.key for update) w where w.waits = 1";

/// Every item that the record consumes waits.
const WAITS: &str = "not exists (select from x where x.n = i.n \
     and not exists (select from waiting w where w.n = x.n and w.key = x.key))";

const RELEASED: &[(&str, &str)] = &[("n", "int4"), ("gate", "text")];

const RELEASE: &str = "delete from gate_place using g join won on won.n = g.n \
     where gate_place.run = won.run and gate_place.gate = g.gate";

const FREED: &[(&str, &str)] = &[("n", "int4"), ("instance", "int8"), ("attempt", "int8")];

const FREE_SLOTS: &str = "delete from pool_slots using s join won on won.n = s.n \
     where pool_slots.run = won.run and pool_slots.instance = s.instance \
     and pool_slots.attempt = s.attempt";

const CONSUME: &str = "delete from inbox using x join won on won.n = x.n \
     where inbox.run = won.run and inbox.key = x.key";

/// The parameters of the statement of [`Shape::text`], in its order. The runs of the batch differ
/// and are in order, and so do its claims.
pub(crate) fn parameters<'a>(shape: Shape, entries: &[&'a Entry]) -> Vec<Parameter<'a>> {
    let mut parameters = heads(shape, entries);
    let batch: Vec<&'a Append> = entries.iter().map(|entry| &entry.last).collect();
    let batch = &batch[..];
    if shape.claims {
        parameters.extend(claims(batch));
    }
    if shape.values {
        parameters.extend(values(batch));
    }
    if shape.consumes {
        parameters.extend(named(batch, |append| &append.consumed));
    }
    if shape.several {
        parameters.extend(earlier(entries));
    }
    if shape.rows {
        let with = (0i32..).zip(batch);
        let with = with.filter_map(|(n, append)| {
            let row = append.row.as_ref()?;
            let owns = append.claims.iter().any(|it| it.namespace == REQUEST_CLAIM);
            Some((n, row, owns))
        });
        parameters.extend(row_arrays(with));
    }
    if shape.links {
        parameters.extend(links(batch));
    }
    if shape.releases {
        parameters.extend(named(batch, |append| &append.releases));
    }
    if shape.slots {
        parameters.extend(freed(batch));
    }
    parameters
}

/// Names that appends have, with the append's number.
fn named<'a>(batch: &[&'a Append], names: fn(&'a Append) -> &'a [Box<str>]) -> Vec<Parameter<'a>> {
    let each = || {
        let all = (0i32..).zip(batch);
        all.flat_map(move |(n, append)| names(append).iter().map(move |name| (n, name)))
    };
    let texts = each().map(|(_, name)| text(name).into_owned());
    vec![
        Box::new(each().map(|it| it.0).collect::<Vec<i32>>()),
        Box::new(texts.collect::<Vec<String>>()),
    ]
}

/// The attempts whose slots appends free, with the append's number.
fn freed<'a>(batch: &[&'a Append]) -> Vec<Parameter<'a>> {
    let all = (0i32..).zip(batch);
    let all = all.flat_map(|(n, append)| append.slots.iter().map(move |it| (n, it)));
    let (mut numbers, mut instances, mut attempts) = (Vec::new(), Vec::new(), Vec::new());
    for (n, &(instance, attempt)) in all {
        numbers.push(n);
        instances.push(i64::from(instance));
        attempts.push(i64::from(attempt));
    }
    vec![Box::new(numbers), Box::new(instances), Box::new(attempts)]
}

fn heads<'a>(shape: Shape, entries: &[&'a Entry]) -> Vec<Parameter<'a>> {
    let count = entries.len();
    let mut expected = Vec::with_capacity(count);
    let mut before: Vec<&'a [u8]> = Vec::with_capacity(count);
    let mut before_ids = Vec::with_capacity(count);
    let mut chains = Vec::with_capacity(count);
    for entry in entries {
        let head = &entry.earlier.first().unwrap_or(&entry.last).head;
        let odd = head.sequence == 0 && *head != Head::NONE;
        // No log ends there, so that such an append is refused.
        expected.push(if odd { -1 } else { signed(head.sequence) });
        before.push(&head.chain);
        before_ids.push(signed(head.append_id));
        chains.push(checksum::next_head(&entry.last).chain.to_vec());
    }
    let each = |number: fn(&Append) -> u64| -> Vec<i64> {
        let numbers = entries.iter().map(|entry| signed(number(&entry.last)));
        numbers.collect()
    };
    let numbers: Vec<i32> = (0..).zip(entries).map(|(n, _)| n).collect();
    let runs: Vec<_> = entries.iter().map(|entry| uuid(entry.last.run)).collect();
    let bodies: Vec<&'a [u8]> = entries.iter().map(|it| &it.last.record[..]).collect();
    let mut parameters: Vec<Parameter<'a>> = vec![
        Box::new(numbers),
        Box::new(runs),
        Box::new(expected),
        Box::new(before),
        Box::new(before_ids),
        Box::new(chains),
        Box::new(each(|append| append.append_id)),
        Box::new(each(|append| append.writer.0)),
        Box::new(bodies),
    ];
    if shape.several {
        let counts = entries.iter().map(|entry| signed(entry.len() as u64));
        parameters.push(Box::new(counts.collect::<Vec<i64>>()));
    }
    parameters
}

/// The arrays of [`EARLIER`].
fn earlier<'a>(entries: &[&'a Entry]) -> Vec<Parameter<'a>> {
    let (mut numbers, mut sequences, mut chains) = (Vec::new(), Vec::new(), Vec::new());
    let (mut ids, mut writers, mut bodies) = (Vec::new(), Vec::new(), Vec::<&'a [u8]>::new());
    for (n, entry) in (0i32..).zip(entries) {
        for append in &entry.earlier {
            let head = checksum::next_head(append);
            numbers.push(n);
            sequences.push(signed(head.sequence));
            chains.push(head.chain.to_vec());
            ids.push(signed(append.append_id));
            writers.push(signed(append.writer.0));
            bodies.push(&append.record);
        }
    }
    vec![
        Box::new(numbers),
        Box::new(sequences),
        Box::new(chains),
        Box::new(ids),
        Box::new(writers),
        Box::new(bodies),
    ]
}

fn claims<'a>(batch: &[&'a Append]) -> Vec<Parameter<'a>> {
    let mut all: Vec<_> = (0i32..)
        .zip(batch)
        .flat_map(|(n, append)| {
            append
                .claims
                .iter()
                .map(move |claim| (n, claim, append.run))
        })
        .collect();
    // The first of several under one key counts.
    let mut seen = std::collections::BTreeSet::new();
    all.retain(|(_, claim, _)| seen.insert((claim.namespace, &claim.key)));
    let numbers: Vec<i32> = all.iter().map(|it| it.0).collect();
    let namespaces: Vec<&'a str> = all.iter().map(|it| it.1.namespace).collect();
    let keys: Vec<String> = all.iter().map(|it| text(&it.1.key).into_owned()).collect();
    let values: Vec<&'a [u8]> = all.iter().map(|it| &it.1.value[..]).collect();
    let own: Vec<Vec<u8>> = all.iter().map(|it| it.2.to_string().into_bytes()).collect();
    vec![
        Box::new(numbers),
        Box::new(namespaces),
        Box::new(keys),
        Box::new(values),
        Box::new(own),
    ]
}

fn values<'a>(batch: &[&'a Append]) -> Vec<Parameter<'a>> {
    let (mut numbers, mut digests, mut stored) = (Vec::new(), Vec::<&'a [u8]>::new(), Vec::new());
    let mut bytes = std::collections::BTreeMap::<&'a [u8], &'a [u8]>::new();
    for (n, append) in (0i32..).zip(batch) {
        for blob in &append.blobs {
            numbers.push(n);
            digests.push(&blob.digest.0);
            stored.push(false);
            bytes.insert(&blob.digest.0, &blob.bytes);
        }
        for digest in &append.uses {
            let comes = append.blobs.iter().any(|blob| blob.digest == *digest);
            numbers.push(n);
            digests.push(&digest.0);
            stored.push(!comes);
        }
    }
    let new: Vec<&'a [u8]> = bytes.keys().copied().collect();
    let bytes: Vec<&'a [u8]> = bytes.into_values().collect();
    vec![
        Box::new(numbers),
        Box::new(digests),
        Box::new(stored),
        Box::new(new),
        Box::new(bytes),
    ]
}

/// The arrays of [`ROWS`].
pub(crate) fn row_arrays<'a>(
    rows: impl Iterator<Item = (i32, &'a windlass_store::RunRow, bool)>,
) -> Vec<Parameter<'static>> {
    let rows: Vec<_> = rows.collect();
    let words = |of: fn(&windlass_store::RunRow) -> &str| -> Parameter<'static> {
        let all = rows.iter().map(|(_, row, _)| text(of(row)).into_owned());
        Box::new(all.collect::<Vec<String>>())
    };
    let maybe = |of: fn(&windlass_store::RunRow) -> Option<&str>| -> Parameter<'static> {
        let all = rows
            .iter()
            .map(|(_, row, _)| of(row).map(|it| text(it).into_owned()));
        Box::new(all.collect::<Vec<Option<String>>>())
    };
    let times = |of: fn(&windlass_store::RunRow) -> Option<windlass_core::Millis>| {
        let all = rows.iter().map(|(_, row, _)| of(row).map(Moment));
        Box::new(all.collect::<Vec<Option<Moment>>>()) as Parameter<'static>
    };
    macro_rules! each {
        ($kind:ty, $row:ident => $value:expr) => {{
            let all = rows.iter().map(|(_, $row, _)| $value);
            Box::new(all.collect::<Vec<$kind>>()) as Parameter<'static>
        }};
    }
    vec![
        Box::new(rows.iter().map(|row| row.0).collect::<Vec<i32>>()),
        each!(String, row => tenant(row.tenant.as_deref()).into_owned()),
        words(|row| &row.workflow),
        each!(i32, row => version(row.version)),
        words(|row| &row.request_id),
        words(|row| row.status.as_str()),
        each!(i16, row => row.priority.into()),
        times(|row| Some(row.created_at)),
        times(|row| row.started_at),
        times(|row| row.ended_at),
        each!(Option<String>, row => labels_text(&row.labels)),
        maybe(|row| row.error_code.as_deref()),
        maybe(|row| row.error_message.as_deref()),
        each!(Option<String>, row => codes_text(&row.cause_codes)),
        each!(Option<uuid::Uuid>, row => row.parent.map(uuid)),
        each!(Option<uuid::Uuid>, row => row.origin.map(uuid)),
        each!(Option<i64>, row => row.wake_at.map(|at| at.0)),
        each!(bool, row => row.asleep),
        maybe(|row| row.gate.as_deref()),
        each!(i64, row => row.limit.into()),
        each!(i32, row => version(row.partition.0)),
        Box::new(rows.iter().map(|row| row.2).collect::<Vec<bool>>()),
    ]
}

fn links<'a>(batch: &[&'a Append]) -> Vec<Parameter<'a>> {
    let all: Vec<_> = (0i32..)
        .zip(batch)
        .flat_map(|(n, append)| {
            (0i32..)
                .zip(&append.resources)
                .map(move |it| (n, it.0, it.1))
        })
        .collect();
    let words = |of: fn(&windlass_store::ResourceRow) -> &str| -> Parameter<'a> {
        let all = all.iter().map(|(_, _, row)| text(of(row)).into_owned());
        Box::new(all.collect::<Vec<String>>())
    };
    let tenants = all
        .iter()
        .map(|it| tenant(it.2.tenant.as_deref()).into_owned());
    let urls = all
        .iter()
        .map(|it| it.2.url.as_deref().map(|url| text(url).into_owned()));
    vec![
        Box::new(all.iter().map(|it| it.0).collect::<Vec<i32>>()),
        Box::new(all.iter().map(|it| it.1).collect::<Vec<i32>>()),
        Box::new(tenants.collect::<Vec<String>>()),
        words(|row| &row.system),
        words(|row| &row.kind),
        words(|row| &row.id),
        Box::new(urls.collect::<Vec<Option<String>>>()),
        words(|row| &row.node),
    ]
}

/// The arrays of [`ROWS`] as parameters, and the names of their columns.
pub(crate) fn row_table() -> (String, Vec<&'static str>) {
    let arrays = (1..)
        .zip(ROWS)
        .map(|(at, (_, kind))| format!("${at}::{kind}[]"));
    let arrays: Vec<String> = arrays.collect();
    let names = ROWS.iter().map(|(name, _)| *name).collect();
    (arrays.join(", "), names)
}
