//! Queries about runs: which runs a caller may see, and how it names them.

use std::sync::Arc;

use windlass_core::{RunId, RunStatus};
use windlass_engine::{Backend, Engine, Plans, ValueReader};
use windlass_store::{DefinitionRow, RunFilter, RunRow, TenantFilter, Wait as _, block_on};

use crate::catalogue::{meant, unknown};
use crate::failure::{Failure, FailureKind};

/// Values that queries keep in memory.
const CACHE_BYTES: usize = 16 * 1024 * 1024;

/// How many dead letters are read together.
const LETTERS: usize = 1000;

/// Reads runs and definitions for one caller: the store, and whose runs the caller may see.
#[derive(Clone)]
pub struct RunQueries {
    /// Where runs are kept.
    pub store: Arc<dyn Backend>,
    /// Plans that were built before.
    pub plans: Plans,
    /// The tenants whose runs the caller may see.
    pub tenants: TenantFilter,
    /// The process that executes runs, in words; none if there is no such process.
    pub holder: Option<String>,
    /// The engine that executes runs, if it is in this process.
    pub engine: Option<Engine>,
}

impl RunQueries {
    /// Looks into a store; plans are kept up to a bound.
    pub fn new(store: Arc<dyn Backend>) -> Self {
        Self {
            store,
            plans: Plans::new(CACHE_BYTES),
            tenants: TenantFilter::Any,
            holder: None,
            engine: None,
        }
    }

    /// Reads stored values.
    pub fn values(&self) -> ValueReader {
        ValueReader::new(Arc::clone(&self.store), CACHE_BYTES)
    }

    /// A run's row.
    ///
    /// # Errors
    /// There is no such run, or the store failed.
    pub fn row(&self, run: RunId) -> Result<RunRow, Failure> {
        let row = self.store.run(run).wait()?;
        let row = row.filter(|row| self.tenants.matches(row.tenant.as_deref()));
        row.ok_or_else(|| no_such_run(run))
    }

    /// How a run stands.
    ///
    /// # Errors
    /// There is no such run, or the store failed.
    pub fn status(&self, run: RunId) -> Result<RunStatus, Failure> {
        Ok(self.row(run)?.status)
    }

    /// The shortest text that names this run alone, at least the part of its id that is
    /// its time.
    ///
    /// # Errors
    /// The store failed.
    pub fn short_id(&self, run: RunId) -> Result<String, Failure> {
        let full = run.to_string();
        for length in [13, 18, 23] {
            let prefix = &full[..length];
            if self.store.runs_with_prefix(prefix, 2).wait()?.len() < 2 {
                return Ok(prefix.to_owned());
            }
        }
        Ok(full)
    }

    /// Finds the run that a person means: an id, a unique prefix, `@last` or
    /// `@last:workflow-id`.
    ///
    /// # Errors
    /// None is meant, or several are, or the store failed.
    pub fn find_run(&self, reference: &str) -> Result<RunId, Failure> {
        if let Some(rest) = reference.strip_prefix("@last") {
            return self.last_run(rest, reference);
        }
        let not_found = |message: String| Failure::new(FailureKind::RunNotFound, message);
        let is_prefix = reference.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
        if reference.is_empty() || !is_prefix {
            return Err(not_found(format!("'{reference}' is not a run's id"))
                .hint("`windlass runs` lists them; @last is the newest"));
        }
        let prefix = reference.to_ascii_lowercase();
        let found = match &self.tenants {
            TenantFilter::Any => self.store.runs_with_prefix(&prefix, 2).wait()?,
            TenantFilter::Only(_) => self.own_with_prefix(&prefix)?,
        };
        match found.as_slice() {
            [run] => Ok(*run),
            [] => Err(not_found(format!("there is no run {reference}"))
                .hint("`windlass runs` lists them")),
            _ => Err(Failure::new(
                FailureKind::RunAmbiguous,
                format!("several runs begin with {reference}; give more of the id"),
            )),
        }
    }

    /// Finds the dead letter that a person means, by its id, a unique prefix of it, or as
    /// [`Self::find_run`] finds runs. A start that was refused is a letter and no run.
    ///
    /// # Errors
    /// None is meant, or several are, or the store failed.
    pub fn find_letter(&self, reference: &str) -> Result<RunId, Failure> {
        let prefix = reference.to_ascii_lowercase();
        let is_prefix = prefix.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
        let (mut found, mut before) = (Vec::new(), None);
        while is_prefix && !prefix.is_empty() && found.len() < 2 {
            let letters = self.store.dead_letters(&self.tenants, before, LETTERS);
            let letters = letters.wait()?;
            let Some(last) = letters.last() else { break };
            before = Some(last.run);
            let ids = letters.iter().map(|letter| letter.run);
            found.extend(ids.filter(|run| run.to_string().starts_with(&prefix)));
        }
        match found.as_slice() {
            [run] => Ok(*run),
            [] => self.find_run(reference),
            _ => Err(Failure::new(
                FailureKind::RunAmbiguous,
                format!("several dead letters begin with {reference}; give more of the id"),
            )),
        }
    }

    /// The caller's own runs whose ids begin so, up to two of them: those of other tenants are
    /// neither found nor in the way.
    fn own_with_prefix(&self, prefix: &str) -> Result<Vec<RunId>, Failure> {
        let digits = prefix.replace('-', "");
        let last = u128::from_str_radix(&format!("{digits:f<32}"), 16);
        let (Ok(last), true) = (last, digits.len() <= 32) else {
            return Ok(Vec::new());
        };
        let last = RunId::from_bytes(last.to_be_bytes());
        let filter = RunFilter {
            tenant: self.tenants.clone(),
            before: Some(last),
            limit: 2,
            ..RunFilter::default()
        };
        let exact = self.store.run(last).wait()?;
        let exact = exact.filter(|row| self.tenants.matches(row.tenant.as_deref()));
        let older = self.store.runs(&filter).wait()?.rows;
        let runs = exact.into_iter().chain(older).map(|row| row.run);
        let fits = |run: &RunId| run.to_string().replace('-', "").starts_with(&digits);
        Ok(runs.take_while(fits).take(2).collect())
    }

    fn last_run(&self, rest: &str, reference: &str) -> Result<RunId, Failure> {
        let workflow = match rest.strip_prefix(':') {
            Some(workflow) if !workflow.is_empty() => Some(workflow),
            None if rest.is_empty() => None,
            _ => {
                let message = format!("'{reference}' is neither @last nor @last:workflow-id");
                return Err(Failure::new(FailureKind::RunNotFound, message));
            }
        };
        let filter = RunFilter {
            tenant: self.tenants.clone(),
            workflow: workflow.map(Into::into),
            // What a person or a program started, never a child.
            roots: true,
            limit: 1,
            ..RunFilter::default()
        };
        let mut page = self.store.runs(&filter).wait()?;
        if page.rows.is_empty() && filter.workflow.is_some() {
            // A workflow that only other runs start: its newest run is the only one that can be
            // meant.
            let children = RunFilter {
                roots: false,
                ..filter
            };
            page = self.store.runs(&children).wait()?;
        }
        page.rows.first().map(|row| row.run).ok_or_else(|| {
            let of = workflow.map(|id| format!(" of '{id}'")).unwrap_or_default();
            let meant = workflow.and_then(|id| block_on(meant(&*self.store, self.tenant(), id)));
            let message = format!("there are no runs{of} yet");
            Failure::new(FailureKind::RunNotFound, message)
                .hint(meant.as_deref().unwrap_or("`windlass run FILE` starts one"))
        })
    }

    /// The tenant whose definitions are meant; none for those without a tenant.
    pub fn tenant(&self) -> Option<&str> {
        match &self.tenants {
            TenantFilter::Any => None,
            TenantFilter::Only(tenant) => tenant.as_deref(),
        }
    }

    /// One version of a definition, or the newest.
    ///
    /// # Errors
    /// There is no such version or workflow, or the store failed.
    pub fn definition(&self, id: &str, version: Option<u32>) -> Result<DefinitionRow, Failure> {
        self.definition_of(self.tenant(), id, version)
    }

    /// The same, of a tenant.
    pub(crate) fn definition_of(
        &self,
        tenant: Option<&str>,
        id: &str,
        version: Option<u32>,
    ) -> Result<DefinitionRow, Failure> {
        if let Some(row) = self.store.definition(tenant, id, version).wait()? {
            return Ok(row);
        }
        match version {
            Some(version) if self.store.definition(tenant, id, None).wait()?.is_some() => {
                let message = format!("'{id}' has no version {version}");
                Err(Failure::new(FailureKind::VersionNotFound, message)
                    .hint(format!("`windlass workflows versions {id}` lists them")))
            }
            _ => Err(block_on(unknown(&*self.store, tenant, id))),
        }
    }
}

/// There is no such run.
pub(crate) fn no_such_run(run: RunId) -> Failure {
    let message = format!("there is no run {run}");
    Failure::new(FailureKind::RunNotFound, message)
}
