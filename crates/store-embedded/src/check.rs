//! The full check that `doctor` and `verify` ask for: every chain, every value, every page.
//!
//! It reads on a connection of its own and continues after each finding, so that one report
//! names all the damage.

use rusqlite::Connection;
use windlass_core::{Digest, RunId};
use windlass_store::{Damage, Error};

use crate::error::Fault;
use crate::{
    EmbeddedStore, audit, blob, catalogue, checkpoint, claim, codec, dead, error, hook, inbox,
    key_value, log, query, read, schedule, secrets, segment,
};

/// Records read at once while a chain is walked.
const PAGE_BYTES: usize = 4 << 20;

/// Ids read at once.
const PAGE_ROWS: usize = 1000;

impl EmbeddedStore {
    /// Reads everything that is stored, or everything of one run, and lists what is damaged.
    /// An error says that the check could not be made.
    pub fn check(&self, run: Option<RunId>) -> Result<Vec<Damage>, Error> {
        let found = self.readers().read_long(|connection| {
            let mut check = Check {
                store: self,
                connection,
                damage: Vec::new(),
                labels: 0,
            };
            match run {
                Some(run) => check.run(run)?,
                None => check.everything()?,
            }
            Ok(check.damage)
        });
        found.map_err(Fault::into_error)
    }
}

struct Check<'a> {
    store: &'a EmbeddedStore,
    connection: &'a Connection,
    damage: Vec<Damage>,
    /// Labels of the rows seen so far.
    labels: i64,
}

impl Check<'_> {
    fn everything(&mut self) -> Result<(), Fault> {
        let pages = self.pages();
        self.note(pages)?;
        let runs = self.runs();
        self.note(runs)?;
        let blobs = self.blobs();
        self.note(blobs)?;
        let claims = claim::check(self.connection);
        self.note(claims)?;
        let workflows = catalogue::check(self.connection, self.store.directory());
        self.note(workflows)?;
        let letters = dead::check(self.connection);
        self.note(letters)?;
        let audit = audit::check(self.connection);
        self.note(audit)?;
        let secrets = secrets::check(self.connection);
        self.note(secrets)?;
        let schedules = schedule::check(self.connection);
        self.note(schedules)?;
        let hooks = hook::check(self.connection);
        self.note(hooks)?;
        let notes = key_value::check(self.connection);
        self.note(notes)
    }

    /// Keeps damage, and what only a newer program can read, and goes on; any other error ends the
    /// check.
    fn note(&mut self, result: Result<(), Fault>) -> Result<(), Fault> {
        match result.map_err(Fault::into_error) {
            Ok(()) => Ok(()),
            Err(Error::Damaged(damage)) => {
                self.damage.push(*damage);
                Ok(())
            }
            Err(error @ Error::TooNew(_)) => {
                if let Error::Damaged(damage) = error::damage(error.to_string()) {
                    self.damage.push(*damage);
                }
                Ok(())
            }
            Err(other) => Err(other.into()),
        }
    }

    /// SQLite's own check of its pages, and of the indexes against the tables.
    fn pages(&mut self) -> Result<(), Fault> {
        let mut statement = self.connection.prepare("PRAGMA integrity_check")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let text: String = row.get(0)?;
            if text != "ok"
                && let Error::Damaged(damage) = error::damage(text)
            {
                self.damage.push(*damage);
            }
        }
        Ok(())
    }

    /// Walks the index of ids, so that a damaged page of the table still has names.
    fn runs(&mut self) -> Result<(), Fault> {
        let mut after = Vec::new();
        loop {
            let page = self.ids(&after)?;
            let Some(last) = page.last() else { break };
            after = last.as_bytes().to_vec();
            for run in page {
                self.run(run)?;
            }
        }
        self.strays()
    }

    fn ids(&self, after: &[u8]) -> Result<Vec<RunId>, Fault> {
        let mut statement = self.connection.prepare_cached(
            "SELECT run FROM run INDEXED BY sqlite_autoindex_run_1 \
             WHERE run > ? ORDER BY run LIMIT ?",
        )?;
        let ids = statement.query_map((after, PAGE_ROWS as i64), |row| codec::run_id(row, 0))?;
        Ok(ids.collect::<Result<_, _>>()?)
    }

    fn run(&mut self, run: RunId) -> Result<(), Fault> {
        let connection = self.connection;
        let log = self.log(run);
        self.note(log.map_err(|fault| fault.about(run).into()))?;
        let row = log::row(connection, run).and_then(|row| match row {
            Some(row) => query::check_labels(connection, &row),
            None => Ok(0),
        });
        self.labels += *row.as_ref().unwrap_or(&0);
        let parts = [
            row.map(drop),
            query::resources(connection, run).map(drop),
            inbox::items(connection, run).map(drop),
            checkpoint::check(connection, self.store.directory(), run),
        ];
        for part in parts {
            self.note(part.map_err(|fault| fault.about(run).into()))?;
        }
        Ok(())
    }

    fn log(&self, run: RunId) -> Result<(), Fault> {
        let mut from = 1;
        loop {
            let page = read::read(self.connection, run, from, PAGE_BYTES, None)?;
            let Some(last) = page.last() else {
                return Ok(());
            };
            from = last.sequence + 1;
        }
    }

    /// Records that no head accounts for.
    fn strays(&self) -> Result<(), Fault> {
        let transaction = self.connection.unchecked_transaction()?;
        let count = |sql: &str| transaction.query_row(sql, [], |row| row.get::<_, i64>(0));
        let expected = count("SELECT coalesce(sum(sequence), 0) FROM run")?;
        let stored = count("SELECT count(*) FROM record")? + segment::count(&transaction)?;
        if stored != expected {
            let reason = format!("{stored} records are stored, the heads name {expected}");
            return Err(error::damage(reason).into());
        }
        let labels = count("SELECT count(*) FROM label")?;
        if self.damage.is_empty() && labels != self.labels {
            let reason = format!("{labels} labels are stored, the rows have {}", self.labels);
            return Err(error::damage(reason).into());
        }
        Ok(())
    }

    fn blobs(&mut self) -> Result<(), Fault> {
        let mut after = 0i64;
        loop {
            let page = self.digests(after)?;
            let Some(last) = page.last() else {
                return Ok(());
            };
            after = last.0;
            for (_, digest) in page {
                let value = blob::read(self.connection, self.store.directory(), &digest);
                self.note(value.map(drop))?;
            }
        }
    }

    fn digests(&self, after: i64) -> Result<Vec<(i64, Digest)>, Fault> {
        let mut statement = self.connection.prepare_cached(
            "SELECT number, digest FROM blob WHERE number > ? ORDER BY number LIMIT ?",
        )?;
        let rows = statement.query_map([after, PAGE_ROWS as i64], |row| {
            Ok((row.get(0)?, codec::digest(row, 1)?))
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }
}
