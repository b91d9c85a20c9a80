//! A new run from an old one.

use serde::Serialize;
use windlass_engine::{Clock as _, SystemClock};
use windlass_service::Failure;
use windlass_service::forking::{ForkAsked, prepare};

use super::{RunHandle, json};

/// What a fork is to be. See [`RunHandle::fork`].
#[must_use = "a request does nothing until it is started"]
pub struct ForkRequest {
    origin: RunHandle,
    asked: ForkAsked,
}

impl RunHandle {
    /// A new run from this one: these nodes and everything after them run again, the recorded
    /// results of the rest are reused.
    pub fn fork<N: Into<String>>(&self, from: impl IntoIterator<Item = N>) -> ForkRequest {
        ForkRequest {
            origin: self.clone(),
            asked: ForkAsked {
                origin: self.run,
                run: SystemClock.new_run_id(),
                from: from.into_iter().map(Into::into).collect(),
                set: Vec::new(),
                newest: false,
                version: None,
                reuse_compensated: false,
                request_id: None,
                actor: self.actor.clone(),
            },
        }
    }
}

impl ForkRequest {
    /// Changes `trigger.x`, `vars.x` or `nodes.N.parameters.x`.
    pub fn set(mut self, path: &str, value: impl Serialize) -> Self {
        self.asked.set.push(format!("{path}={}", json(value)));
        self
    }

    /// Takes the newest version of the workflow instead of the old run's.
    pub fn newest(mut self) -> Self {
        self.asked.newest = true;
        self
    }

    /// Reuses results that compensation has undone; without it those nodes run again.
    pub fn reuse_compensated(mut self) -> Self {
        self.asked.reuse_compensated = true;
        self
    }

    /// A request id, which makes a repeated request harmless.
    pub fn request_id(mut self, id: impl Into<Box<str>>) -> Self {
        self.asked.request_id = Some(id.into());
        self
    }

    /// Starts the new run. On return it is durable.
    ///
    /// # Errors
    /// The old run cannot be read or has no such node, or the request does not fit.
    pub async fn start(self) -> Result<RunHandle, Failure> {
        let Self { origin, asked } = self;
        let engine = origin.engine.inner().clone();
        let preparing = tokio::task::spawn_blocking(move || {
            prepare(&**engine.store(), engine.plans(), engine.values(), &asked)
        });
        let forked = preparing.await.map_err(|error| {
            Failure::new(windlass_service::failure::FailureKind::LoadFailed, error)
        })??;
        let started = origin.engine.inner().start(&forked.new_run).await?;
        Ok(RunHandle::new(origin.engine, started.run).existing_if(started.existing))
    }
}
