//! Nodes by the names that people gave them: a name that belongs to one node alone is as good
//! as its id, in each part of a path.

use std::borrow::Cow;
use std::fmt;

use super::{GraphIndex, NodeIndex, Plan, TOP};

/// A name that several nodes have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AmbiguousName {
    /// The name.
    pub name: Box<str>,
    /// The paths of the nodes that have it.
    pub nodes: Vec<String>,
}

impl fmt::Display for AmbiguousName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "'{}' is the name of {} nodes; give the id of one: {}",
            self.name,
            self.nodes.len(),
            self.nodes.join(", ")
        )
    }
}

impl std::error::Error for AmbiguousName {}

/// What is left of a path after one of its nodes.
enum Rest<'t> {
    /// The node is what the path names.
    Nothing,
    /// `[3]`, or `[3]/` and what is in the body.
    Iteration(&'t str, Option<&'t str>),
}

impl Plan {
    /// The path that a text means: each of its parts is an id or, where no node of that scope
    /// has such an id, a name that one node alone has. A text that means no node of the graph
    /// comes back as it is.
    ///
    /// # Errors
    /// A name belongs to several nodes.
    pub fn named_path<'t>(&self, text: &'t str) -> Result<Cow<'t, str>, AmbiguousName> {
        let mut found = self.paths_of(TOP, text);
        match found.len() {
            0 => Ok(text.into()),
            1 => Ok(found.remove(0).into()),
            _ => Err(AmbiguousName {
                name: text.into(),
                nodes: found,
            }),
        }
    }

    /// The name for people of the node that an instance's path leads to.
    pub fn name_at(&self, path: &str) -> Option<&str> {
        self.name(self.node_at(path)?)
    }

    /// The node that an instance's path leads to.
    pub fn node_at(&self, path: &str) -> Option<NodeIndex> {
        let mut graph = Some(TOP);
        let mut node = None;
        for part in path.split('/') {
            let id = part.split('[').next().unwrap_or(part);
            let found = self.find(graph?, id)?;
            graph = self.body(found);
            node = Some(found);
        }
        node
    }

    /// The paths that a text can mean in a scope.
    fn paths_of(&self, graph: GraphIndex, text: &str) -> Vec<String> {
        let end = text.find(['[', '/']).unwrap_or(text.len());
        if let Some(node) = self.find(graph, &text[..end])
            && let Some(rest) = rest(&text[end..])
        {
            return self.below(node, &rest);
        }
        let nodes = self.graphs()[graph as usize].nodes();
        let named = nodes.filter_map(|node| {
            let rest = rest(text.strip_prefix(self.name(node)?)?)?;
            Some(self.below(node, &rest))
        });
        named.flatten().collect()
    }

    fn below(&self, node: NodeIndex, rest: &Rest<'_>) -> Vec<String> {
        let id = self.id(node);
        match *rest {
            Rest::Nothing => vec![id.to_owned()],
            Rest::Iteration(number, None) => vec![format!("{id}[{number}]")],
            Rest::Iteration(number, Some(inner)) => {
                let inside = self.body(node).map(|body| self.paths_of(body, inner));
                let inside = inside.unwrap_or_default().into_iter();
                inside
                    .map(|inner| format!("{id}[{number}]/{inner}"))
                    .collect()
            }
        }
    }
}

fn rest(text: &str) -> Option<Rest<'_>> {
    if text.is_empty() {
        return Some(Rest::Nothing);
    }
    let (number, after) = text.strip_prefix('[')?.split_once(']')?;
    number.parse::<u32>().ok()?;
    match after.strip_prefix('/') {
        Some(inner) => Some(Rest::Iteration(number, Some(inner))),
        None => after.is_empty().then_some(Rest::Iteration(number, None)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Plan {
        let definition = serde_json::from_str(
            r#"{"id":"w","nodes":[
              {"id":"n_1","name":"Charge card","actionType":"a"},
              {"id":"n_2","name":"Tell / twice","actionType":"a"},
              {"id":"n_3","name":"Tell","actionType":"a"},
              {"id":"n_4","name":"Tell","actionType":"a"},
              {"id":"Tell2","name":"n_1","actionType":"a"},
              {"id":"each","name":"All [of] them","forEach":{"items":[1],
                "body":{"nodes":[{"id":"in","name":"Inner","actionType":"a"}]}}}]}"#,
        );
        Plan::build(definition.expect("a definition")).expect("a plan")
    }

    #[test]
    fn a_unique_name_is_as_good_as_an_id() {
        let plan = plan();
        for (text, path) in [
            ("n_1", "n_1"),
            ("Charge card", "n_1"),
            ("Tell / twice", "n_2"),
            ("each[3]/Inner", "each[3]/in"),
            ("All [of] them[3]/Inner", "each[3]/in"),
            ("All [of] them[3]", "each[3]"),
            ("each[x]/Inner", "each[x]/Inner"),
            ("nothing", "nothing"),
            ("", ""),
        ] {
            assert_eq!(plan.named_path(text).expect("one node"), path, "{text}");
        }
    }

    #[test]
    fn a_path_leads_to_its_name() {
        let plan = plan();
        assert_eq!(plan.name_at("n_1"), Some("Charge card"));
        assert_eq!(plan.name_at("each[7]/in"), Some("Inner"));
        assert_eq!(plan.name_at("each[7]/out"), None);
        assert_eq!(plan.name_at("n_1/in"), None);
    }

    #[test]
    fn a_name_of_several_nodes_is_refused_with_their_ids() {
        let error = plan().named_path("Tell").expect_err("two nodes");
        assert_eq!(error.nodes, ["n_3", "n_4"]);
        assert!(error.to_string().contains("n_3, n_4"), "{error}");
    }
}
