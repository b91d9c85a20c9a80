//! One node: its kind, its numbers, its sources, and the body inside it.

use std::borrow::Cow;

use super::level::{Level, Scene};
use super::{Moment, Site, Validator};
use crate::definition::codes;
use crate::definition::expressions::is_bare;
use crate::definition::path::Path;
use crate::definition::problem::SourceLocation;
use crate::definition::repair::STAND_IN;
use crate::definition::schema::KINDS;
use crate::definition::scope::RESERVED;
use crate::definition::types::{Body, Isolation, Join, Node, Pool};
use crate::name::is_key_name;
use crate::printable::cut;

impl<'d> Validator<'d, '_> {
    pub(super) fn node(
        &mut self,
        level: &Level<'d, '_>,
        at: usize,
        node: &'d Node,
        path: &Path<'_>,
    ) {
        self.kind(node, path);
        if let Some(Join::AtLeast(count)) = node.join {
            let incoming = level.graph.incoming(at).len();
            if count as usize > incoming && level.complete {
                let message = format!(
                    "node '{}' waits for {count} edges, but {incoming} arrive",
                    node.id
                );
                let pointer = path.key("join").key("atLeast").pointer();
                self.findings.error(codes::INVALID_JOIN, message, pointer);
            }
        }
        if let Some(action) = &node.action_type {
            self.action(action, &path.key("actionType"));
            self.literals(action, node.parameters.as_ref(), path);
        }
        if let Some(pool) = node.pool.as_deref().filter(|_| node.action_type.is_some()) {
            self.pool(pool, &path.key("pool"));
        }
        self.around(level, at, node, path);
        self.inside(level, at, node, path);
    }

    fn kind(&mut self, node: &Node, path: &Path<'_>) {
        let given = [
            node.action_type.is_some(),
            node.for_each.is_some(),
            node.while_loop.is_some(),
            node.retry_until.is_some(),
            node.subworkflow.is_some(),
            node.wait_for_signal.is_some(),
            node.delay.is_some(),
        ];
        let count = given.iter().filter(|given| **given).count();
        if count == 1 {
            self.misplaced(node, path);
            return;
        }
        if count == 0 && (&*node.id == STAND_IN || self.left_out.has(&path.pointer())) {
            // A member that was left out may have said what the node is.
            return;
        }
        let (message, place) = if count == 0 {
            let message = format!("node '{}' has none of {}", node.id, KINDS.join(", "));
            (message, path.pointer())
        } else {
            let keys: Vec<_> = KINDS
                .into_iter()
                .zip(given)
                .filter_map(|(key, given)| given.then_some(key))
                .collect();
            let second = keys.get(1).copied().unwrap_or_default();
            let message = format!(
                "node '{}' has {}, but a node is only one thing",
                node.id,
                keys.join(" and ")
            );
            (message, path.key(second).pointer())
        };
        let finding = self.findings.error(codes::NODE_KIND, message, place);
        if count > 1 {
            finding.at(SourceLocation::Key);
        }
    }

    /// Keys that only some kinds take.
    fn misplaced(&mut self, node: &Node, path: &Path<'_>) {
        let retries = node.action_type.is_some() || node.subworkflow.is_some();
        let policies = node.policies.as_deref();
        if policies.is_some_and(|policies| policies.retry.is_some()) && !retries {
            let message = "only actions and subworkflows take 'retry'".to_owned();
            let pointer = path.key("policies").key("retry").pointer();
            self.findings
                .error(codes::MISPLACED_KEY, message, pointer)
                .at(SourceLocation::Key);
        }
        if policies.is_some_and(|policies| policies.timeout_ms.is_some()) && !retries {
            let message = "only actions and subworkflows take 'timeoutMs'".to_owned();
            let suggestion = node
                .wait_for_signal
                .is_some()
                .then(|| "a wait's time is 'waitForSignal.timeoutMs'".to_owned());
            let pointer = path.key("policies").key("timeoutMs").pointer();
            self.findings
                .error(codes::MISPLACED_KEY, message, pointer)
                .at(SourceLocation::Key)
                .suggest(suggestion);
        }
        if node.parameters.is_some() && node.action_type.is_none() {
            let message = "only actions take 'parameters'".to_owned();
            let suggestion = node
                .subworkflow
                .is_some()
                .then(|| "a subworkflow's trigger is its 'input'".to_owned());
            let pointer = path.key("parameters").pointer();
            self.findings
                .error(codes::MISPLACED_KEY, message, pointer)
                .at(SourceLocation::Key)
                .suggest(suggestion);
        }
        if node.pool.is_some() && node.action_type.is_none() {
            let message = "only actions take 'pool': nothing of this node is with a worker";
            let is_loop =
                node.for_each.is_some() || node.while_loop.is_some() || node.retry_until.is_some();
            let suggestion =
                is_loop.then(|| "give it to the actions of the loop's body".to_owned());
            let pointer = path.key("pool").pointer();
            self.findings
                .error(codes::MISPLACED_KEY, message.to_owned(), pointer)
                .at(SourceLocation::Key)
                .suggest(suggestion);
        }
    }

    /// Pools are configured beside definitions: publishing looks them up.
    fn pool(&mut self, pool: &Pool, path: &Path<'_>) {
        if is_key_name(&pool.name) && &*pool.name != STAND_IN {
            let message = format!("whether there is a pool '{}' was not checked", pool.name);
            self.findings
                .warning(codes::POOL_UNCHECKED, message, path.key("name").pointer());
        }
    }

    fn action(&mut self, action: &str, path: &Path<'_>) {
        let Some(known) = self.options.known_actions else {
            return;
        };
        // A text that is not a name was reported as such.
        let is_name = is_key_name(action) && action != STAND_IN;
        if is_name && !known.contains(action) {
            let message = format!("no action '{action}' is known here");
            let suggestion = self
                .suggester
                .did_you_mean(action, known.iter().map(String::as_str));
            self.findings
                .warning(codes::UNKNOWN_ACTION, message, path.pointer())
                .suggest(suggestion);
        }
    }

    /// What an action is called with.
    fn parameters(
        &mut self,
        level: &Level<'d, '_>,
        when: (Moment, Site),
        action: Option<&str>,
        json: &'d str,
        path: &Path<'_>,
    ) {
        match action {
            Some("core.script") => self.script(level, when, json, path),
            _ => self.template(level, when.0, when.1, json, path),
        }
    }

    /// `core.script` takes a bare expression, unless it is a template already.
    fn script(
        &mut self,
        level: &Level<'d, '_>,
        (moment, site): (Moment, Site),
        json: &'d str,
        path: &Path<'_>,
    ) {
        #[derive(serde::Deserialize)]
        struct Script<'a> {
            #[serde(borrow)]
            expression: Cow<'a, str>,
        }
        let Ok(Script { expression }) = serde_json::from_str::<Script<'d>>(json) else {
            // The action itself refuses parameters of another shape.
            return self.template(level, moment, site, json, path);
        };
        if !is_bare(&expression) {
            return self.template(level, moment, site, json, path);
        }
        let path = path.key("expression");
        match expression {
            Cow::Borrowed(plain) => self.expression(level, moment, site, plain, &path),
            Cow::Owned(text) => {
                self.unescaped_expression(level, moment, site, &text, &path);
            }
        }
    }

    /// What every kind of node may have.
    fn around(&mut self, level: &Level<'d, '_>, at: usize, node: &'d Node, path: &Path<'_>) {
        let before = Moment::Before(at);
        let after = Moment::After(at);
        if let Some(parameters) = &node.parameters {
            let path = path.key("parameters");
            let action = node.action_type.as_deref();
            let when = (before, Site::Parameters);
            self.parameters(level, when, action, parameters.get(), &path);
        }
        for (number, edge) in node.edges.iter().enumerate() {
            if let Some(condition) = &edge.condition {
                let edges = path.key("edges");
                let edge = edges.index(number);
                let path = edge.key("condition");
                self.expression(level, after, Site::Edge, condition, &path);
            }
        }
        if let Some(switch) = &node.switch {
            let path = path.key("switch");
            self.expression(level, after, Site::Edge, &switch.on, &path.key("on"));
        }
        for (name, template) in node.set_vars.iter().flat_map(|vars| vars.iter()) {
            let path = path.key("setVars");
            let path = path.key(name);
            self.template(level, after, Site::SetVars, template.get(), &path);
        }
        if let Some(compensate) = &node.compensate {
            let path = path.key("compensate");
            let child = node.subworkflow.as_ref();
            if child.is_some_and(|child| child.isolation == Isolation::Transactional) {
                let message = "a transactional child is undone by its own compensations, and \
                               this one is not called";
                let pointer = path.pointer();
                self.findings
                    .warning(codes::COMPENSATE_UNUSED, message.to_owned(), pointer);
            }
            let action = &*compensate.action_type;
            self.action(action, &path.key("actionType"));
            self.literals(action, compensate.parameters.as_ref(), &path);
            if let Some(parameters) = &compensate.parameters {
                let path = path.key("parameters");
                let action = Some(&*compensate.action_type);
                let when = (Moment::End, Site::Compensate);
                self.parameters(level, when, action, parameters.get(), &path);
            }
        }
    }

    /// A text without a template never is a list: an expression was meant.
    fn items(&mut self, items: &str, path: &Path<'_>) {
        let Ok(text) = serde_json::from_str::<String>(items) else {
            return;
        };
        if text.contains("{{") || text == STAND_IN {
            return;
        }
        let text = text.trim();
        let meant = match text.strip_prefix("$.") {
            Some(rest) => format!("trigger.{rest}"),
            None => text.to_owned(),
        };
        let message = format!(
            "'items' is the text '{}', and must be a list",
            cut(text, 60)
        );
        let remedy = match meant.is_empty() || meant.len() > 60 {
            true => "write a list, or a template such as \"{{ trigger.items }}\"".to_owned(),
            false => format!("for the value of an expression write \"{{{{ {meant} }}}}\""),
        };
        self.findings
            .error(codes::ITEMS_NOT_A_LIST, message, path.pointer())
            .suggest(Some(remedy));
    }

    /// What the node is.
    fn inside(&mut self, level: &Level<'d, '_>, at: usize, node: &'d Node, path: &Path<'_>) {
        let before = Moment::Before(at);
        if let Some(for_each) = &node.for_each {
            let path = path.key("forEach");
            let items = for_each.items.get();
            self.template(level, before, Site::Plain, items, &path.key("items"));
            self.items(items, &path.key("items"));
            let name = for_each.item_name.as_deref();
            if let Some(name) = name.filter(|name| RESERVED.contains(name)) {
                let message = format!("'{name}' has a meaning of its own");
                let pointer = path.key("itemName").pointer();
                self.findings.error(codes::INVALID_VALUE, message, pointer);
            }
            self.body(level, at, &for_each.body, name, &path);
        }
        if let Some(repeat) = &node.while_loop {
            let path = path.key("while");
            let site = Site::LoopCondition;
            let condition = path.key("condition");
            self.expression(level, before, site, &repeat.condition, &condition);
            self.body(level, at, &repeat.body, None, &path);
        }
        if let Some(repeat) = &node.retry_until {
            let path = path.key("retryUntil");
            if let Some(until) = &repeat.until {
                let site = Site::LoopCondition;
                self.expression(level, before, site, until, &path.key("until"));
            }
            self.body(level, at, &repeat.body, None, &path);
        }
        self.leaf(level, at, node, path);
    }

    fn leaf(&mut self, level: &Level<'d, '_>, at: usize, node: &'d Node, path: &Path<'_>) {
        let before = Moment::Before(at);
        if let Some(child) = &node.subworkflow {
            let path = path.key("subworkflow");
            self.known_workflow(child, &path);
            let input = child.input.get();
            self.template(level, before, Site::Plain, input, &path.key("input"));
            if let Some(output) = &child.output {
                let site = Site::SubworkflowOutput;
                self.template(level, before, site, output.get(), &path.key("output"));
            }
        }
        if let Some(wait) = &node.wait_for_signal
            && let Some(schema) = &wait.schema
        {
            let path = path.key("waitForSignal");
            self.schema(schema, &path.key("schema"));
        }
        if let Some(delay) = &node.delay {
            let path = path.key("delay");
            let given = delay.ms.is_some() != delay.until.is_some();
            if !given && !self.left_out.has(&path.pointer()) {
                let message = "a delay needs exactly one of 'ms' and 'until'".to_owned();
                self.findings
                    .error(codes::INVALID_DELAY, message, path.pointer());
            }
            if let Some(until) = &delay.until {
                self.template(level, before, Site::Plain, until.get(), &path.key("until"));
            }
        }
    }

    fn body(
        &mut self,
        level: &Level<'d, '_>,
        at: usize,
        body: &'d Body,
        item_name: Option<&str>,
        path: &Path<'_>,
    ) {
        let path = path.key("body");
        let limit = self.options.limits.body_depth;
        if level.depth >= limit {
            let message = format!("bodies are nested deeper than {limit}");
            self.findings
                .error(codes::BODY_DEPTH, message, path.pointer());
            return;
        }
        let scene = Scene {
            nodes: &body.nodes,
            start_node: body.start_node.as_deref(),
            output: body.output.as_ref(),
            names: self.checker.body(level.names, item_name),
            depth: level.depth + 1,
        };
        self.level(&scene, &path, Some((level, at)));
    }
}
