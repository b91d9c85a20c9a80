//! Asking for a run with more than a trigger.

use std::collections::BTreeMap;
use std::future::Future;

use serde::Serialize;
use windlass_core::RunId;
use windlass_core::definition::JsonText;
use windlass_engine::{NewRun, StartRequest};

use super::publish::{Published, check_actions, freeze, source};
use super::{Engine, StartError, tenant};
use crate::graph::FrozenGraph;
use crate::run::RunHandle;
use crate::workflow::Workflow;

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Workflow {}
    impl Sealed for super::FrozenGraph {}
    impl Sealed for str {}
}

/// What runs can be started of: a registered [`Workflow`], its id, or a [`FrozenGraph`].
pub trait Startable: sealed::Sealed + Sync {
    #[doc(hidden)]
    fn prepare(&self, engine: &Engine)
    -> impl Future<Output = Result<Prepared, StartError>> + Send;
}

/// What a run walks.
#[doc(hidden)]
pub struct Prepared(Published);

impl Startable for Workflow {
    async fn prepare(&self, engine: &Engine) -> Result<Prepared, StartError> {
        let prepared = self.id().prepare(engine).await?;
        if prepared.0.source != source(self) {
            let workflow = self.id().into();
            return Err(StartError::Different { workflow });
        }
        Ok(prepared)
    }
}

impl Startable for str {
    async fn prepare(&self, engine: &Engine) -> Result<Prepared, StartError> {
        let workflows = &engine.inner.workflows;
        match workflows.get(self) {
            Some(published) => Ok(Prepared(published.clone())),
            None => Err(StartError::NotRegistered {
                workflow: self.into(),
                known: workflows.keys().cloned().collect(),
            }),
        }
    }
}

impl Startable for FrozenGraph {
    /// The graph is stored with the run, and is not published.
    async fn prepare(&self, engine: &Engine) -> Result<Prepared, StartError> {
        let workflow = self.as_workflow().map_err(StartError::Graph)?;
        check_actions(&workflow, &engine.inner.actions)?;
        Ok(Prepared(freeze(&engine.inner.engine, &workflow)?))
    }
}

/// A run that is about to be asked for.
#[must_use = "a request does nothing until it is started"]
pub struct Request<'a, S: Startable + ?Sized> {
    engine: &'a Engine,
    what: &'a S,
    trigger: Result<Option<String>, String>,
    run: Option<RunId>,
    request_id: Option<Box<str>>,
    correlation_id: Option<Box<str>>,
    tenant: Option<Box<str>>,
    priority: u8,
    labels: BTreeMap<Box<str>, Box<str>>,
    vars: BTreeMap<Box<str>, Result<JsonText, String>>,
}

impl<'a, S: Startable + ?Sized> Request<'a, S> {
    pub(super) fn new(engine: &'a Engine, what: &'a S) -> Self {
        Self {
            engine,
            what,
            trigger: Ok(None),
            run: None,
            request_id: None,
            correlation_id: None,
            tenant: None,
            priority: 5,
            labels: BTreeMap::new(),
            vars: BTreeMap::new(),
        }
    }

    /// The run's trigger; an empty object if it is not set.
    pub fn trigger(mut self, trigger: impl Serialize) -> Self {
        let text = serde_json::to_string(&trigger);
        self.trigger = text.map(Some).map_err(|error| error.to_string());
        self
    }

    /// A request id, which makes a repeated request harmless: the second request with the same
    /// id gets the first one's run.
    pub fn request_id(mut self, id: impl Into<Box<str>>) -> Self {
        self.request_id = Some(id.into());
        self
    }

    /// The new run's id, if it must be known before the run is durable.
    pub fn run_id(mut self, run: RunId) -> Self {
        self.run = Some(run);
        self
    }

    /// The correlation id of the run.
    pub fn correlation_id(mut self, id: impl Into<Box<str>>) -> Self {
        self.correlation_id = Some(id.into());
        self
    }

    /// The tenant of the run.
    pub fn tenant(mut self, tenant: impl Into<Box<str>>) -> Self {
        self.tenant = Some(tenant.into());
        self
    }

    /// From 0 to 9, higher first; 5 by default.
    pub fn priority(mut self, priority: u8) -> Self {
        self.priority = priority.min(9);
        self
    }

    /// A label to find the run by.
    pub fn label(mut self, key: impl Into<Box<str>>, value: impl Into<Box<str>>) -> Self {
        self.labels.insert(key.into(), value.into());
        self
    }

    /// A variable of this run, instead of the definition's value.
    pub fn var(mut self, name: impl Into<Box<str>>, value: impl Serialize) -> Self {
        let json = serde_json::value::to_raw_value(&value);
        let json = json.map_err(|error| error.to_string());
        self.vars.insert(name.into(), json);
        self
    }

    /// Starts the run. On return it is durable.
    ///
    /// # Errors
    /// The workflow is not registered, the trigger does not fit, the request id was used
    /// with another trigger, or the store failed.
    pub async fn start(self) -> Result<RunHandle, StartError> {
        let Prepared(mut published) = self.what.prepare(self.engine).await?;
        if let Some(tenant) = &self.tenant
            && published.frozen.is_none()
        {
            let workflow = published.plan.workflow();
            let version = tenant::version(&self.engine.inner, tenant, workflow).await;
            published.version = version
                .map_err(StartError::Store)?
                .unwrap_or(published.version);
        }
        check_enabled(
            self.engine,
            self.tenant.as_deref(),
            published.plan.workflow(),
        )
        .await?;
        let trigger = self.trigger.map_err(StartError::NotJson)?;
        let vars = self.vars.into_iter();
        let vars = vars.map(|(name, value)| Ok((name, value?)));
        let vars = vars
            .collect::<Result<_, _>>()
            .map_err(StartError::NotJson)?;
        let request = StartRequest {
            tenant: self.tenant,
            trigger: trigger.unwrap_or_else(|| "{}".to_owned()),
            request_id: self.request_id,
            correlation_id: self.correlation_id,
            priority: self.priority,
            labels: self.labels,
            vars,
            ..StartRequest::default()
        };
        let new = NewRun {
            run: self.run,
            request,
            frozen: published.frozen,
            ..NewRun::new(published.plan, published.version, published.digest)
        };
        let started = self.engine.inner.engine.start(&new).await;
        let started = started.map_err(StartError::Refused)?;
        Ok(RunHandle::new(self.engine.clone(), started.run).existing_if(started.existing))
    }
}

async fn check_enabled(
    engine: &Engine,
    tenant: Option<&str>,
    workflow: &str,
) -> Result<(), StartError> {
    let row = engine.inner.engine.store().workflow(tenant, workflow).await;
    let row = row.map_err(StartError::Store)?;
    match row.is_some_and(|row| !row.enabled) {
        true => Err(StartError::Disabled {
            workflow: workflow.into(),
        }),
        false => Ok(()),
    }
}
