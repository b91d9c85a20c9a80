//! A graph that belongs to one run alone, as JSON: `{version, signature, frozenAt, nodes}`,
//! and beside them what else a definition has. `export` and the library write it; `import`,
//! `validate`, `run` and the library read it. The nodes are an object by id, or a list as
//! definitions have them. What is wrong with such a file has its place in the file itself.

mod slices;

use serde_json::Value;
use serde_json::value::RawValue;
use windlass_core::Digest;
use windlass_core::definition::{
    Definition, DefinitionSource, Parsed, Problem, Rewritten, Severity, problem_at, signature,
};
use windlass_engine::FROZEN_AT;

use crate::definition::{Surroundings, check_beside, check_rewritten, invalid};
use crate::failure::{Failure, FailureKind};
use crate::moment::now;
use crate::source::{PreparedDefinition, build};
use slices::Slices;

/// The version of the format.
pub const VERSION: u64 = 1;

/// The workflow of graphs that name none.
pub const WORKFLOW: &str = "dynamic";

/// What a text has: a definition, or a graph that belongs to one run alone, checked.
pub struct CheckedSource<'t> {
    /// The definition, or the one that the graph stands for.
    pub parsed: Parsed<'t>,
    /// Whether it is a graph.
    pub frozen: bool,
}

/// Why a text was not accepted.
pub enum SourceError {
    /// It is a graph that cannot be read at all.
    Unreadable(Failure),
    /// Everything that is wrong with it, sorted by place.
    Problems(Vec<Problem>),
    /// It is a graph that was changed after it was signed.
    Changed(Box<ChangedGraph>),
}

/// A graph whose signature is not that of its nodes.
pub struct ChangedGraph {
    /// What it says, if that is a digest.
    pub signed: Option<Digest>,
    /// What its nodes have.
    pub found: Digest,
    /// The same as a problem of the file.
    pub problem: Problem,
}

impl SourceError {
    /// The failure of a command that needed the text. A graph that was changed after it was
    /// signed has a code of its own.
    pub fn into_failure(self, name: &str, text: &[u8]) -> Failure {
        match self {
            Self::Unreadable(failure) => failure,
            Self::Problems(problems) => invalid(name, text, &problems),
            Self::Changed(changed) => {
                let message = format!("{name}: {}", changed.problem.message);
                Failure::new(FailureKind::SignatureMismatch, message).hint(SIGN_ANEW)
            }
        }
    }

    /// What is wrong with each place of the file; one that cannot be read at all is wrong at its
    /// beginning.
    pub fn into_problems(self, name: &str) -> Vec<Problem> {
        match self {
            Self::Unreadable(failure) => vec![Problem {
                code: failure.code(),
                severity: Severity::Error,
                message: failure.message,
                pointer: String::new(),
                line: 1,
                column: 1,
                length: 1,
                suggestion: failure.hint,
                file: name.to_owned(),
            }],
            Self::Problems(problems) => problems,
            Self::Changed(changed) => vec![changed.problem],
        }
    }
}

const SIGNATURE_MISMATCH: &str = FailureKind::SignatureMismatch.code();

const SIGN_ANEW: &str = "remove `signature` from a graph that you have changed, or freeze it anew";

/// Which texts are graphs, and whose.
#[derive(Clone, Copy, Default)]
pub struct Expected<'a> {
    /// The workflow of a graph that names none.
    pub workflow: Option<&'a str>,
    /// Whether a text is a graph that names no workflow, or lists its nodes by id, though nothing
    /// else of an exported graph is in it.
    pub plain_graphs: bool,
    /// What it is checked against besides its own text.
    pub surroundings: Surroundings<'a>,
}

/// Checks a text: a definition, or a graph.
///
/// # Errors
/// Everything that is wrong with it; the signature too, if it has one that does not fit.
pub fn check_source<'t>(
    name: &str,
    text: &'t [u8],
    expected: Expected<'_>,
) -> Result<CheckedSource<'t>, SourceError> {
    let Some(graph) = GraphFile::read(name, text, expected)? else {
        let parsed = check_beside(name, text, &expected.surroundings);
        let parsed = parsed.map_err(SourceError::Problems)?;
        let frozen = false;
        return Ok(CheckedSource { parsed, frozen });
    };
    let parsed = graph.check(expected)?;
    let frozen = true;
    Ok(CheckedSource { parsed, frozen })
}

/// Checks a text and builds what may be run of it; warnings are not mentioned.
///
/// # Errors
/// As for [`check_source`].
pub fn prepare(
    name: &str,
    text: &[u8],
    expected: Expected<'_>,
) -> Result<PreparedDefinition, Failure> {
    let checked = check_source(name, text, expected);
    let checked = checked.map_err(|error| error.into_failure(name, text))?;
    build(checked.parsed.definition, checked.parsed.json)
}

/// When a graph was frozen, as its definition says.
pub fn frozen_at(definition: &Definition) -> Option<&str> {
    definition.labels.get(FROZEN_AT).map(|at| &**at)
}

/// A graph as a file has it.
struct GraphFile<'t> {
    source: DefinitionSource<'t>,
    members: Slices<'t>,
    /// The ids of its nodes, where they are an object by id.
    ids: Option<Vec<String>>,
}

impl<'t> GraphFile<'t> {
    /// A graph; nothing if the text is something else, a definition perhaps. One that was
    /// changed by hand may have lost its signature.
    fn read(
        name: &str,
        text: &'t [u8],
        expected: Expected<'_>,
    ) -> Result<Option<Self>, SourceError> {
        let Ok(members) = serde_json::from_slice::<Slices<'t>>(text) else {
            return Ok(None);
        };
        let has = |key: &str| members.get(key).is_some();
        let Some(nodes) = members.get("nodes") else {
            return Ok(None);
        };
        let by_id = nodes.get().trim_start().starts_with('{');
        let exported = has("signature") || (has("version") && has(FROZEN_AT));
        let plain = by_id || !has("id") || has("version") || has(FROZEN_AT);
        if !(exported || expected.plain_graphs && plain) {
            return Ok(None);
        }
        check_version(&members, name).map_err(SourceError::Unreadable)?;
        let ids = by_id.then(|| serde_json::from_str::<Slices<'_>>(nodes.get()));
        let ids = ids.and_then(Result::ok);
        let ids = ids.map(|nodes| nodes.iter().map(|node| node.key.to_string()).collect());
        let source = DefinitionSource::new(name, text);
        Ok(Some(Self {
            source,
            members,
            ids,
        }))
    }

    fn check(&self, expected: Expected<'_>) -> Result<Parsed<'static>, SourceError> {
        let rewritten = self.rewritten(expected.workflow).map_err(|reason| {
            let message = format!("{} is no frozen graph: {reason}", self.source.name);
            SourceError::Unreadable(Failure::new(FailureKind::DefinitionInvalid, message))
        })?;
        let checked = check_rewritten(&self.source, &rewritten, &expected.surroundings);
        let mut parsed = checked.map_err(|problems| SourceError::Problems(self.own(problems)))?;
        parsed.warnings = self.own(parsed.warnings);
        match self.misfit(&parsed.definition) {
            Some(changed) => Err(SourceError::Changed(Box::new(changed))),
            None => Ok(parsed),
        }
    }

    /// The problems with pointers into the file.
    fn own(&self, mut problems: Vec<Problem>) -> Vec<Problem> {
        let Some(ids) = &self.ids else {
            return problems;
        };
        for problem in &mut problems {
            let Some(rest) = problem.pointer.strip_prefix("/nodes/") else {
                continue;
            };
            let (number, inner) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            let id = number.parse().ok().and_then(|at: usize| ids.get(at));
            if let Some(id) = id {
                let id = id.replace('~', "~0").replace('/', "~1");
                problem.pointer = format!("/nodes/{id}{inner}");
            }
        }
        problems
    }

    /// The problem of a graph that is not the one that was signed.
    fn misfit(&self, definition: &Definition) -> Option<ChangedGraph> {
        let written = self.members.get("signature")?;
        let signed: Option<Digest> = serde_json::from_str(written.get()).ok();
        let found = signature(definition);
        if signed == Some(found) {
            return None;
        }
        let message = match signed {
            Some(signed) => format!(
                "the graph was changed after it was frozen: it is signed {signed}, its nodes \
                 {found}"
            ),
            None => format!("the graph has a signature that is none; its nodes have {found}"),
        };
        let at = (SIGNATURE_MISMATCH, "/signature");
        let mut problem = problem_at(&self.source, written.get(), at, message);
        problem.suggestion = Some(SIGN_ANEW.to_owned());
        Some(ChangedGraph {
            signed,
            found,
            problem,
        })
    }

    /// The definition that the graph stands for.
    fn rewritten(&self, workflow: Option<&str>) -> serde_json::Result<Rewritten> {
        let file = self.source.text;
        let mut out = Rewritten::default();
        let mut separator = "{";
        for member in self.members.iter() {
            let own = [
                "version",
                "signature",
                FROZEN_AT,
                "inFlight",
                "labels",
                "nodes",
            ];
            if own.contains(&&*member.key) || member.value.get() == "null" {
                continue;
            }
            out.push(separator);
            member.copy(file, &mut out);
            separator = ",";
        }
        if self.members.get("id").is_none() {
            let id = serde_json::to_string(workflow.unwrap_or(WORKFLOW))?;
            out.push(&format!("{separator}\"id\":{id}"));
            separator = ",";
        }
        out.push(&format!("{separator}\"inFlight\":\"pinned\""));
        self.write_labels(&mut out)?;
        out.push(",");
        self.write_nodes(&mut out)?;
        out.push("}");
        Ok(out)
    }

    /// The labels, among them when the graph was frozen. Labels that are something else are for
    /// the check of the definition.
    fn write_labels(&self, out: &mut Rewritten) -> serde_json::Result<()> {
        let file = self.source.text;
        let frozen_at = self.members.get(FROZEN_AT);
        let frozen_at = frozen_at.and_then(|raw| serde_json::from_str::<String>(raw.get()).ok());
        let frozen_at = frozen_at.unwrap_or_else(|| now().to_string());
        let frozen_at = serde_json::to_string(&frozen_at)?;
        let labels = self.members.get("labels").filter(|raw| raw.get() != "null");
        let read = labels.map(|raw| serde_json::from_str::<Slices<'_>>(raw.get()));
        match (labels, read) {
            (Some(raw), Some(Err(_))) => {
                out.push(",\"labels\":");
                out.copy(file, raw.get());
            }
            (_, read) => {
                out.push(",\"labels\":{");
                let read = read.and_then(Result::ok).unwrap_or_default();
                for member in read.iter().filter(|member| member.key != FROZEN_AT) {
                    member.copy(file, out);
                    out.push(",");
                }
                out.push(&format!("\"{FROZEN_AT}\":{frozen_at}}}"));
            }
        }
        Ok(())
    }

    /// The nodes as a definition lists them, in the order of the text.
    fn write_nodes(&self, out: &mut Rewritten) -> serde_json::Result<()> {
        let file = self.source.text;
        let nodes = self.members.member("nodes").expect("a graph has nodes");
        if self.ids.is_none() {
            nodes.copy(file, out);
            return Ok(());
        }
        nodes.copy_key(file, out);
        out.push("[");
        let nodes: Slices<'_> = serde_json::from_str(nodes.value.get())?;
        for (at, node) in nodes.iter().enumerate() {
            out.push(if at > 0 { ",{\"id\":" } else { "{\"id\":" });
            node.copy_id(file, out);
            match serde_json::from_str::<Slices<'_>>(node.value.get()) {
                Ok(members) => {
                    let said = |key: &str| key != "id";
                    let present = members.iter().filter(|it| it.value.get() != "null");
                    for member in present.filter(|it| said(&it.key)) {
                        out.push(",");
                        member.copy(file, out);
                    }
                }
                Err(error) => {
                    let reason = format!("the node '{}': {error}", node.key);
                    return Err(serde::de::Error::custom(reason));
                }
            }
            out.push("}");
        }
        out.push("]");
        Ok(())
    }
}

fn check_version(members: &Slices<'_>, name: &str) -> Result<(), Failure> {
    let Some(raw) = members.get("version") else {
        return Ok(());
    };
    let version = serde_json::from_str::<Value>(raw.get()).unwrap_or_default();
    match version.as_u64() {
        Some(VERSION) => Ok(()),
        _ => {
            let version = RawValue::get(raw);
            let message = format!("{name} has version {version}, and this program reads {VERSION}");
            Err(Failure::new(FailureKind::GraphVersion, message))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const PLAIN: Expected<'_> = Expected {
        workflow: None,
        plain_graphs: true,
        surroundings: Surroundings {
            declared: &[],
            unknown_workflows: None,
        },
    };

    fn definition(text: &str) -> Value {
        let graph = GraphFile::read("g.json", text.as_bytes(), Expected::default());
        let Ok(Some(graph)) = graph else {
            panic!("{text} is a graph");
        };
        let rewritten = graph.rewritten(None).expect("a definition");
        serde_json::from_str(rewritten.json()).expect("JSON")
    }

    fn problems(text: &str) -> Vec<Problem> {
        match check_source("g.json", text.as_bytes(), PLAIN) {
            Err(error) => error.into_problems("g.json"),
            Ok(_) => panic!("{text} is refused"),
        }
    }

    #[test]
    fn nodes_keep_the_order_of_the_text() {
        let read = definition(
            r#"{"version":1,"signature":"x","frozenAt":"T","id":"w",
                "nodes":{"z":{"name":null,"actionType":"a"},"b":{"dependsOn":["z"]}}}"#,
        );
        assert_eq!(read["id"], "w");
        assert_eq!(read["labels"]["frozenAt"], "T");
        assert_eq!(read["nodes"][0], json!({"id": "z", "actionType": "a"}));
        assert_eq!(read["nodes"][1], json!({"id": "b", "dependsOn": ["z"]}));
        assert!(read.get("signature").is_none() && read.get("version").is_none());
    }

    #[test]
    fn numbers_keep_their_digits() {
        let digits = "123456789012345678901234567890";
        for nodes in [
            format!(r#"{{"a":{{"actionType":"x","parameters":{{"n":{digits},"g":1.50}}}}}}"#),
            format!(r#"[{{"id":"a","actionType":"x","parameters":{{"n":{digits},"g":1.50}}}}]"#),
        ] {
            let text = format!(r#"{{"version":1,"vars":{{"v":{digits}}},"nodes":{nodes}}}"#);
            let prepared = prepare("the graph", text.as_bytes(), PLAIN).expect("a graph");
            let text = String::from_utf8(prepared.text.to_vec()).expect("text");
            assert_eq!(text.matches(digits).count(), 2, "{text}");
            assert!(text.contains("1.50"), "{text}");
        }
    }

    #[test]
    fn a_graph_needs_neither_a_name_nor_a_signature() {
        let node = r#"{"id":"n_00000001","actionType":"core.echo"}"#;
        for text in [
            format!(r#"{{"nodes":[{node}]}}"#),
            format!(r#"{{"version":1,"nodes":[{node}]}}"#),
            r#"{"nodes":{"n_00000001":{"actionType":"core.echo"}}}"#.to_owned(),
        ] {
            let checked = check_source("the graph", text.as_bytes(), PLAIN);
            let Ok(checked) = checked else {
                panic!("{text} is a graph");
            };
            let definition = checked.parsed.definition;
            assert_eq!(&*definition.id, WORKFLOW, "{text}");
            assert_eq!(&*definition.nodes[0].id, "n_00000001");
            assert!(frozen_at(&definition).is_some());
        }
        for signature in ["\"00\"", "null", "7"] {
            let text = format!(r#"{{"version":1,"signature":{signature},"nodes":[{node}]}}"#);
            let failure = prepare("the graph", text.as_bytes(), PLAIN);
            let failure = failure.map(drop).expect_err("refused");
            assert_eq!(failure.code(), "SIGNATURE_MISMATCH", "{signature}");
        }
    }

    #[test]
    fn definitions_are_something_else() {
        let read =
            |text: &'static str| GraphFile::read("g.json", text.as_bytes(), Expected::default());
        for text in [r#"{"id":"w","nodes":[]}"#, "id: w", "[", "[1]"] {
            assert!(matches!(read(text), Ok(None)), "{text}");
        }
        let unsigned = r#"{"version":1,"frozenAt":"T","id":"w","nodes":{"a":{}}}"#;
        assert_eq!(definition(unsigned)["nodes"], json!([{"id": "a"}]));
        let newer = read(r#"{"version":2,"signature":"x","nodes":{}}"#);
        let Err(SourceError::Unreadable(failure)) = newer else {
            panic!("it is newer");
        };
        assert_eq!(failure.code(), "GRAPH_VERSION");
    }

    #[test]
    fn places_are_those_of_the_file() {
        let text = "{\n \"version\": 1, \"frozenAt\": \"T\",\n \"nodes\": {\n  \"a\": {\"actionType\": \
                    \"core.echo\"},\n  \"b\": {\"name\": null,\n    \"dependOn\": [\"a\"], \
                    \"actionType\": \"core.echo\"}}}";
        let found = problems(text);
        let place = |problem: &Problem| (problem.line, problem.column, problem.pointer.clone());
        assert_eq!(place(&found[0]), (6, 5, "/nodes/b/dependOn".to_owned()));
        let dangling = text
            .replace("dependOn", "dependsOn")
            .replace("[\"a\"]", "[\"x\"]");
        let found = problems(&dangling);
        assert_eq!(found[0].code, "UNKNOWN_NODE");
        assert_eq!((found[0].line, found[0].column), (6, 19));
        let signed = text
            .replace("dependOn", "dependsOn")
            .replace("\"T\",\n", "\"T\",\n \"signature\": \"00\",");
        let found = problems(&signed);
        assert_eq!(found[0].code, "SIGNATURE_MISMATCH");
        assert_eq!((found[0].line, found[0].column), (3, 15));
    }
}
