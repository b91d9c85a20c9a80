//! Lists over HTTP: runs, and what they link to.

use url::Url;
use windlass_core::{Millis, RunId};
use windlass_service::run_item::RunDetails;
use windlass_service::run_list::RunSelection;
use windlass_store::{
    Error, Health, Partitions, Pending, Queries, Relatives, ResourceRow, RunFilter, RunPage, RunRow,
};

use super::acting::read;
use super::refusals::refused;
use super::server::Server;
use super::shapes::{ExecutionShape, Page, ResourceShape};
use super::store::{RemoteStore, answer};
use crate::exit::Failure;

/// The length of the prefixes that are asked for together: the time in a run's id.
const SHORT: usize = 13;

/// How many prefixes are asked for together.
const TOGETHER: usize = 100;

/// The longest page that a server gives.
const PAGE: usize = 1000;

/// A page of the runs that a server selects, with all that lists show, and the cursor of the next.
///
/// # Errors
/// The server does not answer as one does.
pub(crate) fn list_runs(
    server: &Server,
    selection: &RunSelection,
) -> Result<(Vec<RunDetails>, Option<RunId>), Failure> {
    let answer = server.get(list_url(server, selection))?;
    let page: Page<RunDetails> = read(server, &answer)?;
    let last = page.items.last().map(|item| item.item.execution_id);
    Ok((page.items, last.filter(|_| page.next.is_some())))
}

/// The address of a list of runs.
fn list_url(server: &Server, selection: &RunSelection) -> Url {
    let filter = &selection.filter;
    let mut url = server.url(&["executions"]);
    {
        let mut query = url.query_pairs_mut();
        let mut add = |key: &str, value: &str| {
            query.append_pair(key, value);
        };
        if let Some(origin) = filter.origin {
            add("origin", &origin.to_string());
        }
        if let Some(error) = &filter.error {
            add("error", error);
        }
        let flags = [
            ("waiting", filter.waiting),
            ("dead", filter.dead == Some(true)),
            ("orphaned", selection.orphaned),
            ("unresolved", filter.unforked),
        ];
        for (key, _) in flags.into_iter().filter(|(_, wanted)| *wanted) {
            add(key, "true");
        }
        if filter.roots {
            add("children", "false");
        }
        if let Some(workflow) = &filter.workflow {
            add("workflow", workflow);
        }
        if let Some(version) = filter.version {
            add("version", &version.to_string());
        }
        for status in &filter.statuses {
            add("status", status.as_str());
        }
        for (key, value) in &filter.labels {
            add("label", &format!("{key}={value}"));
        }
        if let Some(parent) = filter.parent {
            add("parent", &parent.to_string());
        }
        if let Some(since) = filter.since {
            add("from", &since.to_string());
        }
        if let Some(before) = filter.before {
            add("before", &before.to_string());
        }
        add("limit", &filter.page().min(PAGE).to_string());
    }
    url
}

impl RemoteStore {
    /// As [`list_runs`]; the short names of these runs are asked for together.
    pub(crate) fn list(
        &self,
        selection: &RunSelection,
    ) -> Result<(Vec<RunDetails>, Option<RunId>), Failure> {
        let (items, next) = list_runs(&self.server, selection)?;
        let runs = items.iter().map(|details| details.item.execution_id);
        self.memory().listed = runs.collect();
        Ok((items, next))
    }

    fn page(&self, filter: &RunFilter) -> Result<RunPage, Error> {
        let selection = RunSelection {
            filter: filter.clone(),
            orphaned: false,
        };
        let (rows, more) = self.run_rows(list_url(&self.server, &selection))?;
        let next = rows.last().filter(|_| more).map(|row| row.run);
        Ok(RunPage { rows, next })
    }

    /// The rows that a list of runs gives, and whether there are more.
    fn run_rows(&self, url: Url) -> Result<(Vec<RunRow>, bool), Error> {
        let Some(page) = self.json::<Page<RunDetails>>(url)? else {
            return Ok((Vec::new(), false));
        };
        let rows = page.items.into_iter().map(RunRow::from).collect();
        Ok((rows, page.next.is_some()))
    }

    fn with_prefixes(&self, prefixes: &[String]) -> Result<Vec<RunRow>, Error> {
        let mut url = self.server.url(&["executions"]);
        let pairs = prefixes.iter().map(|prefix| ("prefix", prefix));
        url.query_pairs_mut().extend_pairs(pairs);
        Ok(self.run_rows(url)?.0)
    }

    /// Asks for the short names of all runs of the last list together.
    fn learn_prefixes(&self, prefix: &str) -> Result<Option<Vec<RunId>>, Error> {
        let mut wanted: Vec<String> = {
            let memory = self.memory();
            if let Some(known) = memory.prefixes.get(prefix) {
                return Ok(Some(known.clone()));
            }
            let short = |run: &RunId| run.to_string()[..SHORT].to_owned();
            memory.listed.iter().map(short).collect()
        };
        if !wanted.iter().any(|it| it == prefix) {
            return Ok(None);
        }
        wanted.sort();
        wanted.dedup();
        for part in wanted.chunks(TOGETHER) {
            let rows = self.with_prefixes(part)?;
            let mut memory = self.memory();
            for prefix in part {
                let of = |row: &&RunRow| row.run.to_string().starts_with(prefix);
                let runs = rows.iter().filter(of).map(|row| row.run).collect();
                memory.prefixes.insert(prefix.clone(), runs);
            }
        }
        Ok(self.memory().prefixes.get(prefix).cloned())
    }
}

impl Queries for RemoteStore {
    fn run(&self, run: RunId) -> Pending<'_, Result<Option<RunRow>, Error>> {
        answer(|| {
            if let Some(row) = self.memory().rows.get(&run) {
                return Ok(Some(row.clone().into()));
            }
            let rows = self.with_prefixes(&[run.to_string()])?;
            Ok(rows.into_iter().find(|row| row.run == run))
        })
    }

    fn runs(&self, filter: &RunFilter) -> Pending<'_, Result<RunPage, Error>> {
        answer(|| {
            let page = self.page(filter)?;
            self.memory().listed = page.rows.iter().map(|row| row.run).collect();
            Ok(page)
        })
    }

    fn runs_with_prefix(
        &self,
        prefix: &str,
        limit: usize,
    ) -> Pending<'_, Result<Vec<RunId>, Error>> {
        answer(|| {
            let mut runs = match self.learn_prefixes(prefix)? {
                Some(runs) => runs,
                None => {
                    let rows = self.with_prefixes(&[prefix.to_owned()])?;
                    rows.iter().map(|row| row.run).collect()
                }
            };
            runs.truncate(limit);
            Ok(runs)
        })
    }

    fn unfinished(&self, _: Option<RunId>, _: usize) -> Pending<'_, Result<Vec<RunRow>, Error>> {
        refused()
    }

    fn awake(&self, _: Option<RunId>, _: usize) -> Pending<'_, Result<Vec<RunRow>, Error>> {
        refused()
    }

    fn due(
        &self,
        _: &Partitions,
        _: Option<(Millis, RunId)>,
        _: Millis,
        _: usize,
    ) -> Pending<'_, Result<Vec<(RunId, Millis)>, Error>> {
        refused()
    }

    fn children(&self, parent: RunId) -> Pending<'_, Result<Vec<RunRow>, Error>> {
        answer(|| {
            let mut filter = RunFilter {
                parent: Some(parent),
                limit: PAGE,
                ..RunFilter::default()
            };
            let mut rows = Vec::new();
            loop {
                let page = self.page(&filter)?;
                rows.extend(page.rows);
                match page.next {
                    Some(next) => filter.before = Some(next),
                    None => break,
                }
            }
            rows.reverse();
            Ok(rows)
        })
    }

    fn relatives(&self, _: &[RunId]) -> Pending<'_, Result<Vec<Relatives>, Error>> {
        // Lists of a server come with them.
        refused()
    }

    fn resources(&self, run: RunId) -> Pending<'_, Result<Vec<ResourceRow>, Error>> {
        answer(|| {
            let mut url = self.server.url(&["executions", &run.to_string()]);
            url.query_pairs_mut().append_pair("include", "resources");
            let Some(whole) = self.json::<ExecutionShape>(url)? else {
                return Ok(Vec::new());
            };
            let row = |link: ResourceShape| link.row(run);
            Ok(whole.resources.into_iter().map(row).collect())
        })
    }

    fn resource(
        &self,
        _: Option<&str>,
        _: &str,
        _: &str,
        _: &str,
    ) -> Pending<'_, Result<Option<ResourceRow>, Error>> {
        refused()
    }

    fn replace_rows(&self, _: Vec<(RunRow, Vec<ResourceRow>)>) -> Pending<'_, Result<(), Error>> {
        refused()
    }

    fn logged_runs(&self, _: Option<RunId>, _: usize) -> Pending<'_, Result<Vec<RunId>, Error>> {
        refused()
    }

    fn health(&self) -> Pending<'_, Result<Health, Error>> {
        refused()
    }
}
