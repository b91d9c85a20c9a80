//! Evaluating the concurrency key of a run that is asked for: at once if that takes little,
//! else on an evaluator's thread, so that a start never holds up other requests.

use std::collections::BTreeMap;

use windlass_core::concurrency::{ConcurrencyRule, KeyError, StartFacts};
use windlass_core::definition::JsonText;
use windlass_core::event::ConcurrencyKey;
use windlass_expr::Meter;

use crate::engine::Engine;
use crate::evaluators::Turn;
use crate::limits::limits;
use crate::start::StartError;

/// Triggers and variables of more bytes than this together are not read where requests wait.
const AT_ONCE_BYTES: usize = 4 * 1024;

impl Engine {
    /// The gate that a run of this tenant must pass, if its definition has one.
    ///
    /// # Errors
    /// The key cannot be evaluated, or is no key.
    pub(crate) async fn gate(
        &self,
        concurrency: Option<&ConcurrencyRule>,
        tenant: Option<&str>,
        asked: &StartFacts<'_>,
    ) -> Result<Option<ConcurrencyKey>, StartError> {
        let Some(concurrency) = concurrency else {
            return Ok(None);
        };
        let full = limits().values.expressions;
        let vars: usize = asked.vars.values().map(|value| value.get().len()).sum();
        let is_small = asked.trigger.len() + vars <= AT_ONCE_BYTES;
        if is_small || concurrency.is_constant() {
            let gate = concurrency.gate(asked, &full.inline(), &mut Meter::default());
            if !matches!(gate, Err(KeyError { is_limit: true, .. })) {
                return gate.map(Some).map_err(StartError::ConcurrencyKey);
            }
        }
        let turn = Turn {
            tenant: tenant.map(Into::into),
            run: asked.run,
        };
        let (concurrency, asked) = (concurrency.clone(), Owned::new(asked));
        let gate = self.evaluators().run(turn, move |interrupt| {
            let vars = asked.vars.iter();
            let vars = vars.map(|(name, value)| (name.clone(), value)).collect();
            let asked = StartFacts {
                trigger: &asked.trigger,
                workflow: &asked.workflow,
                version: asked.version,
                run: asked.run,
                vars: &vars,
            };
            concurrency.gate(&asked, &full, &mut Meter::interrupted_by(interrupt))
        });
        let gate = gate.await.ok_or(StartError::Stopped)?;
        gate.map(Some).map_err(StartError::ConcurrencyKey)
    }
}

/// What is asked for, for another thread.
struct Owned {
    run: windlass_core::RunId,
    workflow: Box<str>,
    version: u32,
    trigger: Box<str>,
    vars: BTreeMap<Box<str>, JsonText>,
}

impl Owned {
    fn new(asked: &StartFacts<'_>) -> Self {
        let vars = asked.vars.iter();
        Self {
            run: asked.run,
            workflow: asked.workflow.into(),
            version: asked.version,
            trigger: asked.trigger.into(),
            vars: vars
                .map(|(name, value)| (name.clone(), (*value).clone()))
                .collect(),
        }
    }
}
