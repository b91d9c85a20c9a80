//! One node of a definition as the plan holds it: common parts inline, the rest boxed.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::{
    Builder, GraphIndex, Level, Node, NodeIndex, Parameters, PlanError, Rare, Switch, expression,
    template,
};
use crate::definition::expressions::is_bare;
use crate::definition::scope::BodyNames;
use crate::definition::{self, Isolation, Join, JsonText, Retry, scope};
use crate::plan::Compensate;
use crate::plan::structure::{Delay, ForEach, RetryUntil, Signal, Structure, Subworkflow, While};
use crate::value::compact;

/// Interned action types.
#[derive(Default)]
pub(super) struct Actions {
    names: Vec<Box<str>>,
    index: HashMap<Box<str>, u32>,
}

impl Actions {
    pub(super) fn into_names(self) -> Vec<Arc<str>> {
        self.names.into_iter().map(Arc::from).collect()
    }

    fn intern(&mut self, name: Box<str>) -> u32 {
        if let Some(&index) = self.index.get(&name) {
            return index;
        }
        let index = self.names.len() as u32;
        self.names.push(name.clone());
        self.index.insert(name, index);
        index
    }
}

/// Marks a node that is no call of an action.
const NO_ACTION: u32 = u32::MAX;

impl Builder {
    pub(super) fn node(
        &mut self,
        node: definition::Node,
        graph: GraphIndex,
        switch: Option<Switch>,
    ) -> Result<Node, PlanError> {
        let names = self.graphs[graph as usize].names.clone();
        let action = node.action_type.clone();
        let rare = self.rare(&node, &names, switch)?;
        let structure = self.structure(node.for_each, node.while_loop, node.retry_until, &names)?;
        let structure = match structure {
            Some(structure) => Some(structure),
            None => leaf(node.subworkflow, node.wait_for_signal, node.delay, &names)?,
        };
        if action.is_none() && structure.is_none() {
            let message = format!("node '{}' is nothing", node.id);
            return Err(PlanError(message));
        }
        let parameters = match (action.as_deref(), node.parameters) {
            (Some("core.script"), Some(text)) => Some(script_parameters(&text)),
            // Compact, so that an output's digest says what it holds and not how it was typed.
            (_, Some(text)) => Some(compact(text.get()).into()),
            (_, None) => None,
        };
        let texts = self.texts.add(&node.id, parameters.as_deref());
        let too_long = || PlanError("the definition is too long".to_owned());
        let rare = Rare { structure, ..rare };
        Ok(Node {
            texts: texts.ok_or_else(too_long)?,
            action: action.map_or(NO_ACTION, |action| self.actions.intern(action)),
            rare: rare.is_needed().then(|| Box::new(rare)),
        })
    }

    fn rare(
        &mut self,
        node: &definition::Node,
        names: &BodyNames,
        switch: Option<Switch>,
    ) -> Result<Rare, PlanError> {
        let policies = node.policies.as_deref().cloned().unwrap_or_default();
        let scope = scope::set_vars(names);
        let mut set_vars = Vec::new();
        for (name, text) in node.set_vars.iter().flat_map(|vars| vars.iter()) {
            set_vars.push((name.clone(), template(text, &scope)?));
        }
        let compensate = node.compensate.as_deref().map(|compensate| {
            let policies = compensate.policies.as_deref().cloned().unwrap_or_default();
            let text = compensate.parameters.as_ref();
            let text = text.map(|text| match &*compensate.action_type {
                "core.script" => script_parameters(text),
                _ => compact(text.get()).into(),
            });
            Compensate {
                action: self.actions.intern(compensate.action_type.clone()),
                parameters: text.map(|text| Box::new(Parameters::new(text))),
                timeout_ms: policies.timeout_ms,
                retry: policies.retry,
            }
        });
        Ok(Rare {
            name: node.name.clone(),
            timeout_ms: policies.timeout_ms,
            retry: policies.retry,
            set_vars,
            switch,
            join: node.join.unwrap_or_default(),
            compensate,
            structure: None,
            requires: node.requires.clone(),
            priority: node.priority,
            pool: node.pool.clone(),
        })
    }

    /// The loops; their bodies are queued as graphs of their own.
    fn structure(
        &mut self,
        each: Option<Box<definition::ForEach>>,
        repeat: Option<Box<definition::While>>,
        retry: Option<Box<definition::RetryUntil>>,
        names: &BodyNames,
    ) -> Result<Option<Structure>, PlanError> {
        if let Some(each) = each {
            let items = template(&each.items, &scope::plain(names))?;
            let item_name = each.item_name.clone();
            let limit = match each.parallel {
                Some(false) => 1,
                _ => each.max_concurrency.unwrap_or(u32::MAX),
            };
            return Ok(Some(Structure::ForEach(ForEach {
                items,
                limit,
                on_item_failure: each.on_item_failure,
                body: self.queue(each.body, names.body(item_name.as_deref())),
                item_name,
            })));
        }
        let scope = scope::loop_condition(names);
        if let Some(repeat) = repeat {
            return Ok(Some(Structure::While(While {
                condition: expression(&repeat.condition, &scope)?,
                max_iterations: repeat.max_iterations.unwrap_or(1000),
                body: self.queue(repeat.body, names.body(None)),
            })));
        }
        let Some(retry) = retry else { return Ok(None) };
        let until = retry.until.as_deref();
        let until = until.map(|until| expression(until, &scope)).transpose()?;
        Ok(Some(Structure::RetryUntil(RetryUntil {
            until,
            max_attempts: retry.max_attempts,
            backoff: retry.backoff.map(|backoff| Retry {
                max_attempts: retry.max_attempts,
                strategy: backoff.strategy,
                base_delay_ms: backoff.base_delay_ms,
                backoff_factor: backoff.backoff_factor,
                max_delay_ms: backoff.max_delay_ms,
                jitter: backoff.jitter,
            }),
            body: self.queue(retry.body, names.body(None)),
        })))
    }

    /// Queues a body; graphs are added in the order in which they are queued.
    fn queue(&mut self, body: definition::Body, names: BodyNames) -> GraphIndex {
        self.waiting.push_back(Level {
            nodes: body.nodes,
            start_node: body.start_node,
            output: body.output,
            names,
            owner: Some(self.nodes.len() as NodeIndex),
        });
        (self.graphs.len() + self.waiting.len()) as GraphIndex - 1
    }
}

/// A child run, a signal or a delay.
fn leaf(
    child: Option<Box<definition::Subworkflow>>,
    signal: Option<Box<definition::WaitForSignal>>,
    delay: Option<Box<definition::Delay>>,
    names: &BodyNames,
) -> Result<Option<Structure>, PlanError> {
    if let Some(child) = child {
        let scope = scope::subworkflow_output(names);
        let output = child.output.as_ref();
        let output = output.map(|text| template(text, &scope)).transpose()?;
        return Ok(Some(Structure::Subworkflow(Subworkflow {
            input: template(&child.input, &scope::plain(names))?,
            output,
            workflow: child.workflow_id,
            version: child.version,
            isolation: child.isolation,
        })));
    }
    if let Some(signal) = signal {
        return Ok(Some(Structure::Signal(Signal {
            name: signal.name,
            timeout_ms: signal.timeout_ms,
            schema: signal.schema,
        })));
    }
    let Some(delay) = delay else { return Ok(None) };
    Ok(Some(Structure::Delay(match (delay.ms, delay.until) {
        (Some(ms), _) => Delay::For(ms),
        (None, Some(until)) => Delay::Until(template(&until, &scope::plain(names))?),
        (None, None) => return Err(PlanError("a delay without a time".to_owned())),
    })))
}

impl Rare {
    /// Whether a node needs any of it.
    fn is_needed(&self) -> bool {
        self.name.is_some()
            || self.timeout_ms.is_some()
            || self.retry.is_some()
            || !self.set_vars.is_empty()
            || self.switch.is_some()
            || self.join != Join::All
            || self.compensate.is_some()
            || self.structure.is_some()
            || !self.requires.is_empty()
            || self.priority.is_some()
            || self.pool.is_some()
    }

    /// Whether it is a child run that is undone with its parent.
    pub(super) fn is_transactional(&self) -> bool {
        matches!(&self.structure, Some(Structure::Subworkflow(child))
            if child.isolation == Isolation::Transactional)
    }
}

/// `core.script` takes a bare expression, which is the template of its own value.
fn script_parameters(text: &JsonText) -> Box<str> {
    let parsed = serde_json::from_str::<BTreeMap<String, serde_json::Value>>(text.get());
    let Ok(mut parameters) = parsed else {
        return text.get().into();
    };
    if let Some(serde_json::Value::String(expression)) = parameters.get_mut("expression")
        && is_bare(expression)
    {
        *expression = format!("{{{{ {expression} }}}}");
    }
    serde_json::json!(parameters).to_string().into()
}
