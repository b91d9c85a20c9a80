//! The catalogue over HTTP: workflows, versions, definitions.

use serde::de::DeserializeOwned;
use serde_json::Value;
use windlass_store::{
    Catalogue, DefinitionRow, Error, NewDefinition, Pending, Published, TenantFilter, Wait as _,
    WorkflowRow,
};

use super::refusals::refused;
use super::shapes::{Page, VersionShape, WorkflowShape};
use super::store::{RemoteStore, WorkflowKey, answer};

/// The longest page that a server gives.
const PAGE: usize = 1000;

impl RemoteStore {
    /// The workflows as the server lists them.
    pub(crate) fn listed_workflows(&self) -> Result<Vec<Value>, Error> {
        self.workflow_pages()
    }

    /// All pages of the server's list of workflows.
    fn workflow_pages<T: DeserializeOwned>(&self) -> Result<Vec<T>, Error> {
        let mut items = Vec::new();
        let mut cursor: Option<String> = None;
        loop {
            let mut url = self.server.url(&["workflows"]);
            {
                let mut query = url.query_pairs_mut();
                query.append_pair("limit", &PAGE.to_string());
                if let Some(cursor) = &cursor {
                    query.append_pair("cursor", cursor);
                }
            }
            let Some(page) = self.json::<Page<T>>(url)? else {
                return Ok(items);
            };
            items.extend(page.items);
            cursor = page.next;
            if cursor.is_none() {
                return Ok(items);
            }
        }
    }

    fn known_versions(
        &self,
        tenant: Option<&str>,
        workflow: &str,
    ) -> Result<Vec<DefinitionRow>, Error> {
        let mut url = self.server.url(&["workflows", workflow, "versions"]);
        if let Some(tenant) = tenant {
            url.query_pairs_mut().append_pair("tenantId", tenant);
        }
        let Some(page) = self.json::<Page<VersionShape>>(url)? else {
            return Ok(Vec::new());
        };
        let rows = page.items.into_iter().map(|item| item.row(tenant));
        let rows: Option<Vec<DefinitionRow>> = rows.collect();
        let rows = rows.ok_or_else(|| self.foreign("a list of versions that cannot be read"))?;
        let key = key(tenant, workflow);
        self.memory().versions.insert(key, rows.clone());
        Ok(rows)
    }

    fn text(
        &self,
        tenant: Option<&str>,
        workflow: &str,
        version: u32,
    ) -> Result<Option<Vec<u8>>, Error> {
        let key = (key(tenant, workflow), version);
        if let Some(text) = self.memory().texts.get(&key) {
            return Ok(Some(text.clone()));
        }
        let mut url = self.server.url(&["workflows", workflow]);
        {
            let mut query = url.query_pairs_mut();
            query.append_pair("version", &version.to_string());
            if let Some(tenant) = tenant {
                query.append_pair("tenantId", tenant);
            }
        }
        let text = self.bytes(url)?;
        if let Some(text) = &text {
            self.memory().texts.insert(key, text.clone());
        }
        Ok(text)
    }
}

fn key(tenant: Option<&str>, workflow: &str) -> WorkflowKey {
    (tenant.map(Into::into), workflow.into())
}

impl Catalogue for RemoteStore {
    fn publish(&self, _: NewDefinition) -> Pending<'_, Result<Published, Error>> {
        refused()
    }

    fn definition(
        &self,
        tenant: Option<&str>,
        workflow: &str,
        version: Option<u32>,
    ) -> Pending<'_, Result<Option<DefinitionRow>, Error>> {
        answer(|| {
            let known = match version {
                // A version that is known stays as it is.
                Some(_) => self.memory().versions.get(&key(tenant, workflow)).cloned(),
                None => None,
            };
            let find = |rows: &[DefinitionRow]| match version {
                Some(version) => rows.iter().find(|row| row.version == version).cloned(),
                None => rows.first().cloned(),
            };
            let row = match known.as_deref().and_then(find) {
                Some(row) => Some(row),
                None => find(&self.known_versions(tenant, workflow)?),
            };
            let Some(row) = row else { return Ok(None) };
            let text = self.text(tenant, workflow, row.version)?;
            Ok(text.map(|text| DefinitionRow { text, ..row }))
        })
    }

    fn versions(
        &self,
        tenant: Option<&str>,
        workflow: &str,
    ) -> Pending<'_, Result<Vec<DefinitionRow>, Error>> {
        answer(|| self.known_versions(tenant, workflow))
    }

    fn workflows(&self, tenant: &TenantFilter) -> Pending<'_, Result<Vec<WorkflowRow>, Error>> {
        answer(|| {
            let listed = self.workflow_pages::<WorkflowShape>()?;
            let rows: Option<Vec<WorkflowRow>> =
                listed.into_iter().map(WorkflowShape::row).collect();
            let mut rows = rows.ok_or_else(|| self.foreign("a list of workflows"))?;
            rows.retain(|row| tenant.matches(row.tenant.as_deref()));
            rows.sort_by(|a, b| (&a.workflow, &a.tenant).cmp(&(&b.workflow, &b.tenant)));
            Ok(rows)
        })
    }

    fn workflow(
        &self,
        tenant: Option<&str>,
        workflow: &str,
    ) -> Pending<'_, Result<Option<WorkflowRow>, Error>> {
        answer(|| {
            let rows = self
                .workflows(&TenantFilter::Only(tenant.map(Into::into)))
                .wait()?;
            Ok(rows.into_iter().find(|row| &*row.workflow == workflow))
        })
    }

    fn set_enabled(&self, _: Option<&str>, _: &str, _: bool) -> Pending<'_, Result<bool, Error>> {
        refused()
    }
}
