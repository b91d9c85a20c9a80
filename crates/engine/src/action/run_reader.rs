//! What an action may read of the run that it serves. The records that made its node ready are
//! durable, so the log has everything that came before it.

use std::sync::Arc;

use tokio::sync::OnceCell;
use windlass_core::run::Run;
use windlass_core::{NodeStatus, RunId};

use super::ActionError;
use crate::Backend;
use crate::blocking::blocking;
use crate::load::{LoadError, load_latest};
use crate::plans::Plans;
use crate::values::ValueReader;

/// Reads a run, once for each attempt.
#[derive(Clone)]
pub(crate) struct RunReader {
    plans: Plans,
    values: ValueReader,
    run: Arc<OnceCell<Arc<Run>>>,
}

impl RunReader {
    pub(crate) fn new(plans: &Plans, values: &ValueReader) -> Self {
        Self {
            plans: plans.clone(),
            values: values.clone(),
            run: Arc::default(),
        }
    }

    async fn run(&self, store: &Arc<dyn Backend>, id: RunId) -> Result<&Arc<Run>, ActionError> {
        let load = || async {
            let (store, plans) = (Arc::clone(store), self.plans.clone());
            let loaded = match blocking(move || load_latest(&*store, &plans, id)).await {
                Ok(loaded) => loaded.map_err(|error| unreadable(&error)),
                Err(error) => Err(unreadable(&LoadError::Definition(error.to_string()))),
            };
            loaded.map(|loaded| Arc::new(loaded.run))
        };
        self.run.get_or_try_init(load).await
    }

    pub(super) async fn trigger(
        &self,
        store: &Arc<dyn Backend>,
        id: RunId,
    ) -> Result<Arc<str>, ActionError> {
        let run = self.run(store, id).await?;
        let text = self.values.resolve(&run.queued().trigger).await;
        text.map_err(|error| unreadable(&LoadError::Store(error)))
    }

    /// The output of the node that this name means to `reader`: an inner scope shadows those
    /// around it.
    pub(super) async fn output(
        &self,
        store: &Arc<dyn Backend>,
        id: RunId,
        reader: &str,
        name: &str,
    ) -> Result<Arc<str>, ActionError> {
        let run = self.run(store, id).await?;
        let mut scope = reader;
        let node = loop {
            let outer = scope.rfind('/').map(|end| &scope[..end]);
            let path = match outer {
                Some(outer) => format!("{outer}/{name}"),
                None => name.to_owned(),
            };
            let path = run
                .plan()
                .named_path(&path)
                .map_err(|error| ActionError::failed("NODE_AMBIGUOUS", error.to_string()))?;
            match (run.resolve(&path), outer) {
                (Some(node), _) => break node,
                (None, Some(outer)) => scope = outer.rsplit_once('[').map_or("", |it| it.0),
                (None, None) => {
                    let message = format!("the run has no node '{name}' that '{reader}' can read");
                    return Err(ActionError::failed("NODE_NOT_FOUND", message));
                }
            }
        };
        let status = run.node_status(node);
        let value = run.value(node).filter(|_| status == NodeStatus::Succeeded);
        let Some(value) = value else {
            let message = format!("'{name}' has no output: it is {status}");
            return Err(ActionError::failed("OUTPUT_MISSING", message));
        };
        let text = self.values.read(id, &value).await;
        text.map_err(|error| unreadable(&LoadError::Store(error)))
    }
}

fn unreadable(error: &LoadError) -> ActionError {
    ActionError::retriable("RUN_UNREADABLE", format!("the run cannot be read: {error}"))
}
