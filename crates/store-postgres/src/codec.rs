//! How values become columns and back. Nothing else in the crate knows how a text with a null
//! character, a missing tenant, a moment or an unsigned number is written.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::error::Error as StdError;

use bytes::{BufMut as _, BytesMut};
use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, accepts, to_sql_checked};
use uuid::Uuid;
use windlass_core::{Digest, Millis, RunId, RunStatus};
use windlass_store::{Head, Partition, Partitions, RunRow};

use crate::error::{Fault, damage};

/// PostgreSQL's text holds every character but the null character, which stands as this sign and
/// a dot; the sign itself stands twice.
const SIGN: char = '\u{2400}';

/// A text as it is stored.
pub(crate) fn text(plain: &str) -> Cow<'_, str> {
    if !plain.contains(['\0', SIGN]) {
        return Cow::Borrowed(plain);
    }
    let mut stored = String::with_capacity(plain.len() + 8);
    for character in plain.chars() {
        match character {
            '\0' => stored.extend([SIGN, '.']),
            SIGN => stored.extend([SIGN, SIGN]),
            other => stored.push(other),
        }
    }
    Cow::Owned(stored)
}

/// A stored text as it was given.
pub(crate) fn plain(stored: &str) -> Box<str> {
    if !stored.contains(SIGN) {
        return stored.into();
    }
    let mut plain = String::with_capacity(stored.len());
    let mut characters = stored.chars();
    while let Some(character) = characters.next() {
        plain.push(match character {
            SIGN => match characters.next() {
                Some('.') | None => '\0',
                Some(other) => other,
            },
            other => other,
        });
    }
    plain.into()
}

/// How an empty tenant differs from none.
const EMPTY_TENANT: &str = "\u{2400}!";

/// A tenant as it is stored: none is the empty text.
pub(crate) fn tenant(tenant: Option<&str>) -> Cow<'_, str> {
    match tenant {
        None => Cow::Borrowed(""),
        Some("") => Cow::Borrowed(EMPTY_TENANT),
        Some(name) => text(name),
    }
}

/// A stored tenant as it was given.
pub(crate) fn plain_tenant(stored: &str) -> Option<Box<str>> {
    match stored {
        "" => None,
        EMPTY_TENANT => Some("".into()),
        name => Some(plain(name)),
    }
}

/// The version of the form that this program stores values and definitions in.
pub(crate) const STORED_FORM: i16 = windlass_store::STORED_FORM as i16;

/// Unsigned numbers are stored as the signed ones with the same bits.
pub(crate) fn signed(number: u64) -> i64 {
    number as i64
}

pub(crate) fn unsigned(number: i64) -> u64 {
    number as u64
}

/// A limit as SQL takes it.
pub(crate) fn limit(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

pub(crate) fn uuid(run: RunId) -> Uuid {
    Uuid::from_bytes(*run.as_bytes())
}

pub(crate) fn run_id(uuid: Uuid) -> RunId {
    RunId::from_bytes(uuid.into_bytes())
}

/// A moment in a column of the type `timestamptz`. One beyond what PostgreSQL can say stands as
/// its infinity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment(pub(crate) Millis);

/// The first moment of 2000, which PostgreSQL counts from.
const YEAR_2000: i64 = 946_684_800_000;

/// PostgreSQL's bounds in microseconds since 2000: 4713 BC to 294276 AD.
const EARLIEST: i64 = -211_813_488_000_000_000;
const LATEST: i64 = 9_223_371_331_200_000_000;

impl Moment {
    fn micros(self) -> i64 {
        let since = self.0.0.checked_sub(YEAR_2000);
        let micros = since.and_then(|millis| millis.checked_mul(1000));
        match micros {
            Some(micros) if micros < EARLIEST => i64::MIN,
            Some(micros) if micros >= LATEST => i64::MAX,
            Some(micros) => micros,
            None if self.0.0 < 0 => i64::MIN,
            None => i64::MAX,
        }
    }

    fn from_micros(micros: i64) -> Self {
        Self(Millis(match micros {
            i64::MAX | i64::MIN => micros,
            micros => micros.div_euclid(1000) + YEAR_2000,
        }))
    }
}

impl ToSql for Moment {
    fn to_sql(
        &self,
        _: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn StdError + Sync + Send>> {
        out.put_i64(self.micros());
        Ok(IsNull::No)
    }

    accepts!(TIMESTAMPTZ);
    to_sql_checked!();
}

impl<'a> FromSql<'a> for Moment {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn StdError + Sync + Send>> {
        let bytes: [u8; 8] = raw.try_into()?;
        Ok(Self::from_micros(i64::from_be_bytes(bytes)))
    }

    accepts!(TIMESTAMPTZ);
}

/// Reading columns by their place.
pub(crate) trait Columns {
    fn run(&self, at: usize) -> Result<RunId, Fault>;
    fn optional_run(&self, at: usize) -> Result<Option<RunId>, Fault>;
    fn text(&self, at: usize) -> Result<Box<str>, Fault>;
    fn optional_text(&self, at: usize) -> Result<Option<Box<str>>, Fault>;
    fn tenant(&self, at: usize) -> Result<Option<Box<str>>, Fault>;
    fn millis(&self, at: usize) -> Result<Millis, Fault>;
    fn optional_millis(&self, at: usize) -> Result<Option<Millis>, Fault>;
    fn digest(&self, at: usize) -> Result<Digest, Fault>;
    fn number(&self, at: usize) -> Result<u64, Fault>;
    fn chain(&self, at: usize) -> Result<[u8; 16], Fault>;
    fn labels(&self, at: usize) -> Result<Labels, Fault>;
    /// The columns `seq, append_id, chain`.
    fn head(&self, at: usize) -> Result<Head, Fault>;
}

impl Columns for Row {
    fn run(&self, at: usize) -> Result<RunId, Fault> {
        Ok(run_id(self.try_get(at)?))
    }

    fn optional_run(&self, at: usize) -> Result<Option<RunId>, Fault> {
        Ok(self.try_get::<_, Option<Uuid>>(at)?.map(run_id))
    }

    fn text(&self, at: usize) -> Result<Box<str>, Fault> {
        Ok(plain(self.try_get(at)?))
    }

    fn optional_text(&self, at: usize) -> Result<Option<Box<str>>, Fault> {
        Ok(self.try_get::<_, Option<&str>>(at)?.map(plain))
    }

    fn tenant(&self, at: usize) -> Result<Option<Box<str>>, Fault> {
        Ok(plain_tenant(self.try_get(at)?))
    }

    fn millis(&self, at: usize) -> Result<Millis, Fault> {
        Ok(self.try_get::<_, Moment>(at)?.0)
    }

    fn optional_millis(&self, at: usize) -> Result<Option<Millis>, Fault> {
        Ok(self
            .try_get::<_, Option<Moment>>(at)?
            .map(|moment| moment.0))
    }

    fn digest(&self, at: usize) -> Result<Digest, Fault> {
        let bytes: &[u8] = self.try_get(at)?;
        let bytes = bytes.try_into().map_err(|_| unreadable("a digest"))?;
        Ok(Digest(bytes))
    }

    fn number(&self, at: usize) -> Result<u64, Fault> {
        Ok(unsigned(self.try_get(at)?))
    }

    fn chain(&self, at: usize) -> Result<[u8; 16], Fault> {
        let bytes: &[u8] = self.try_get(at)?;
        bytes.try_into().map_err(|_| unreadable("a checksum"))
    }

    fn labels(&self, at: usize) -> Result<Labels, Fault> {
        match self.try_get::<_, Option<&str>>(at)? {
            None => Ok(Labels::new()),
            Some(text) => labels(text),
        }
    }

    fn head(&self, at: usize) -> Result<Head, Fault> {
        Ok(Head {
            sequence: self.number(at)?,
            append_id: self.number(at + 1)?,
            chain: self.chain(at + 2)?,
        })
    }
}

pub(crate) fn unreadable(what: &str) -> Fault {
    Fault::Store(damage(format!("{what} in a row cannot be read")))
}

pub(crate) type Labels = BTreeMap<Box<str>, Box<str>>;

/// Labels as JSON text; `None` if there are none.
pub(crate) fn labels_text(labels: &Labels) -> Option<String> {
    let pairs = labels.iter().map(|(key, value)| {
        (
            text(key).into_owned(),
            serde_json::Value::from(text(value).as_ref()),
        )
    });
    (!labels.is_empty()).then(|| serde_json::Value::Object(pairs.collect()).to_string())
}

fn labels(stored: &str) -> Result<Labels, Fault> {
    let stored: BTreeMap<String, String> =
        serde_json::from_str(stored).map_err(|_| unreadable("labels"))?;
    let labels = stored.iter().map(|(key, value)| (plain(key), plain(value)));
    Ok(labels.collect())
}

/// Codes of root causes as JSON text; `None` if there are none.
pub(crate) fn codes_text(codes: &[Box<str>]) -> Option<String> {
    let codes: Vec<_> = codes.iter().map(|code| text(code)).collect();
    (!codes.is_empty()).then(|| serde_json::json!(codes).to_string())
}

fn codes(stored: Option<&str>) -> Result<Vec<Box<str>>, Fault> {
    let stored: Vec<String> = match stored {
        Some(stored) => serde_json::from_str(stored).map_err(|_| unreadable("codes"))?,
        None => Vec::new(),
    };
    Ok(stored.iter().map(|code| plain(code)).collect())
}

/// The columns that [`run_row`] reads, of `workflow_executions e`.
pub(crate) const RUN_COLUMNS: &str = "e.id, e.status, e.version, e.priority, e.created_at, \
     e.start_time, e.end_time, e.wake_at, e.tenant_id, e.workflow, e.workflow_request_id, \
     e.error_code, e.error_message, e.parent, e.labels::text, e.asleep, e.concurrency_key, \
     e.concurrency_limit, e.dead, e.partition, e.cause_codes::text, e.origin";

/// A run's row from the columns of [`RUN_COLUMNS`].
pub(crate) fn run_row(row: &Row) -> Result<RunRow, Fault> {
    let status: RunStatus = row
        .try_get::<_, &str>(1)?
        .parse()
        .map_err(|_| unreadable("a status"))?;
    let small = |at: usize| -> Result<u32, Fault> {
        u32::try_from(row.try_get::<_, i32>(at)?).map_err(|_| unreadable("a number"))
    };
    Ok(RunRow {
        run: row.run(0)?,
        status,
        version: small(2)?,
        priority: u8::try_from(row.try_get::<_, i16>(3)?).map_err(|_| unreadable("a priority"))?,
        created_at: row.millis(4)?,
        started_at: row.optional_millis(5)?,
        ended_at: row.optional_millis(6)?,
        wake_at: row.try_get::<_, Option<i64>>(7)?.map(Millis),
        tenant: row.tenant(8)?,
        workflow: row.text(9)?,
        request_id: row.text(10)?,
        error_code: row.optional_text(11)?,
        error_message: row.optional_text(12)?,
        parent: row.optional_run(13)?,
        labels: row.labels(14)?,
        asleep: row.try_get(15)?,
        gate: row.optional_text(16)?,
        limit: u32::try_from(row.try_get::<_, i64>(17)?).map_err(|_| unreadable("a limit"))?,
        dead: row.try_get(18)?,
        partition: Partition(small(19)?),
        cause_codes: codes(row.try_get(20)?)?,
        origin: row.optional_run(21)?,
    })
}

/// A version as SQL has it.
pub(crate) fn version(version: u32) -> i32 {
    i32::try_from(version).unwrap_or(i32::MAX)
}

/// The numbers of the partitions that are meant; `None` is all.
pub(crate) fn numbers(partitions: &Partitions) -> Option<Vec<i32>> {
    match partitions {
        Partitions::All => None,
        Partitions::Only(some) => Some(some.iter().map(|partition| version(partition.0)).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_comes_back() {
        for given in [
            "",
            "a",
            "\0",
            "a\0b\0",
            "\u{2400}",
            "\u{2400}.\0\u{2400}\0.",
            "é",
        ] {
            let stored = text(given);
            assert!(!stored.contains('\0'));
            assert_eq!(&*plain(&stored), given);
        }
        for given in [None, Some(""), Some("acme"), Some("\u{2400}!"), Some("\0")] {
            assert_eq!(plain_tenant(&tenant(given)).as_deref(), given);
        }
    }

    #[test]
    fn moments_come_back_and_the_end_of_time_is_infinity() {
        for millis in [0, 1, -2, 1_700_000_000_123, YEAR_2000, i64::MAX, i64::MIN] {
            let moment = Moment(Millis(millis));
            assert_eq!(Moment::from_micros(moment.micros()), moment);
        }
        assert_eq!(Moment(Millis(i64::MAX / 2)).micros(), i64::MAX);
    }
}
