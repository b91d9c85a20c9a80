//! Lists over HTTP: runs, and what they link to.

use url::Url;
use windlass_core::{Millis, RunId};
use windlass_service::run_item::RunDetails;
use windlass_store::{
    Error, Health, Partitions, Pending, Queries, ResourceRow, RunFilter, RunPage, RunRow,
};

use super::refusals::refused;
use super::shapes::{ExecutionShape, Page, ResourceShape};
use super::store::{RemoteStore, answer};

/// The length of the prefixes that are asked for together: the time in a run's id.
const SHORT: usize = 13;

/// How many prefixes are asked for together.
const TOGETHER: usize = 100;

/// The longest page that a server gives.
const PAGE: usize = 1000;

impl RemoteStore {
    fn page(&self, filter: &RunFilter) -> Result<RunPage, Error> {
        let mut url = self.server.url(&["executions"]);
        {
            let mut query = url.query_pairs_mut();
            let mut add = |key: &str, value: &str| {
                query.append_pair(key, value);
            };
            if let Some(workflow) = &filter.workflow {
                add("workflow", workflow);
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
        let (rows, more) = self.run_rows(url)?;
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
