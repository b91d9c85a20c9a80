//! The edges of one graph: written where they leave or where they arrive, by a switch,
//! or implied by `onFailure`.

use std::collections::{BTreeMap, HashMap};

use windlass_expr::{Expression, Scope};

use super::{Edge, EdgeKind, NO_CONDITION, NodeIndex, PlanError, Switch, expression};
use crate::definition::scope::BodyNames;
use crate::definition::{self, When, scope};
use crate::plan::index::Index;

/// The edges of one graph, counted from its first node, with the conditions and switches they hang on.
pub(super) struct Edges {
    pub(super) by_id: Index,
    pub(super) list: Vec<Edge>,
    pub(super) conditions: Vec<Expression>,
    /// Each distinct condition text is compiled once.
    known: HashMap<Box<str>, u32>,
    pub(super) switches: BTreeMap<NodeIndex, Switch>,
    scope: Scope,
}

impl Edges {
    pub(super) fn collect(
        nodes: &[definition::Node],
        names: &BodyNames,
    ) -> Result<Self, PlanError> {
        let by_id = Index::new(nodes.len(), |node| &nodes[node as usize].id);
        let mut edges = Self {
            by_id,
            list: Vec::new(),
            conditions: Vec::new(),
            known: HashMap::new(),
            switches: BTreeMap::new(),
            scope: scope::edge(names),
        };
        for (index, node) in nodes.iter().enumerate() {
            edges.add_node(nodes, index as NodeIndex, node)?;
        }
        edges.sort();
        Ok(edges)
    }

    fn add_node(
        &mut self,
        nodes: &[definition::Node],
        index: NodeIndex,
        node: &definition::Node,
    ) -> Result<(), PlanError> {
        for edge in &node.edges {
            let target = self.resolve(nodes, &edge.target_node)?;
            let condition = match &edge.condition {
                Some(source) => self.compile(source)?,
                None => NO_CONDITION,
            };
            self.push(index, target, edge.when, EdgeKind::Plain, condition);
        }
        if let Some(switch) = &node.switch {
            self.add_switch(nodes, index, switch)?;
        }
        if let Some(target) = &node.on_failure {
            let target = self.resolve(nodes, target)?;
            self.push(
                index,
                target,
                When::Failure,
                EdgeKind::OnFailure,
                NO_CONDITION,
            );
        }
        for source in &node.depends_on {
            let source = self.resolve(nodes, source)?;
            self.push(source, index, When::Success, EdgeKind::Plain, NO_CONDITION);
        }
        Ok(())
    }

    /// A switch has one edge for each distinct target, taken when a case of it is chosen.
    fn add_switch(
        &mut self,
        nodes: &[definition::Node],
        index: NodeIndex,
        switch: &definition::Switch,
    ) -> Result<(), PlanError> {
        let mut cases = BTreeMap::new();
        for (value, target) in &switch.cases {
            cases.insert(value.clone(), self.resolve(nodes, target)?);
        }
        let default = match &switch.default {
            Some(target) => Some(self.resolve(nodes, target)?),
            None => None,
        };
        let mut targets: Vec<NodeIndex> = cases.values().copied().chain(default).collect();
        targets.sort_unstable();
        targets.dedup();
        for target in targets {
            self.push(index, target, switch.when, EdgeKind::Switch, NO_CONDITION);
        }
        let on = expression(&switch.on, &self.scope)?;
        self.switches.insert(index, Switch { on, cases, default });
        Ok(())
    }

    fn push(
        &mut self,
        source: NodeIndex,
        target: NodeIndex,
        when: When,
        kind: EdgeKind,
        condition: u32,
    ) {
        self.list.push(Edge {
            source,
            target,
            when,
            kind,
            condition,
        });
    }

    fn compile(&mut self, source: &str) -> Result<u32, PlanError> {
        if let Some(&index) = self.known.get(source) {
            return Ok(index);
        }
        let compiled = expression(source, &self.scope)?;
        let index = self.conditions.len() as u32;
        self.conditions.push(compiled);
        self.known.insert(source.into(), index);
        Ok(index)
    }

    pub(super) fn resolve(
        &self,
        nodes: &[definition::Node],
        id: &str,
    ) -> Result<NodeIndex, PlanError> {
        self.by_id
            .find(id, |node| &nodes[node as usize].id)
            .ok_or_else(|| PlanError(format!("there is no node '{id}'")))
    }

    /// Sorts by source and drops edges that say the same twice, as `edges` on the
    /// parent and `dependsOn` on the child do.
    fn sort(&mut self) {
        self.list.sort_by_key(|edge| edge.source);
        let mut start = 0;
        let mut kept: Vec<Edge> = Vec::with_capacity(self.list.len());
        let mut seen: std::collections::HashSet<NodeIndex> = std::collections::HashSet::new();
        for edge in &self.list {
            if kept
                .get(start)
                .is_some_and(|first| first.source != edge.source)
            {
                start = kept.len();
                seen.clear();
            }
            let plain_success = edge.kind == EdgeKind::Plain
                && edge.when == When::Success
                && edge.condition == NO_CONDITION;
            if plain_success && !seen.insert(edge.target) {
                continue;
            }
            kept.push(*edge);
        }
        self.list = kept;
    }
}

impl Switch {
    /// The same switch, for nodes counted from the plan's first.
    pub(super) fn shifted(self, first: NodeIndex) -> Self {
        let cases = self.cases.into_iter();
        Self {
            on: self.on,
            cases: cases.map(|(value, node)| (value, first + node)).collect(),
            default: self.default.map(|node| first + node),
        }
    }
}
