//! Acting: each command is a request, and the server's answer is what became of it.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};
use windlass_core::{RunId, RunStatus};
use windlass_engine::action::Description;
use windlass_engine::{CommandError, StartRequest, Started, check_payload};
use windlass_service::start_body::StartBody;
use windlass_store::Published;

use super::failures;
use super::question::Question;
use super::server::Server;
use super::shapes::Page;
use crate::args::{Include, Show};
use crate::command::{CommandRequest, RunCommand};
use crate::exit::{Exit, Failure};
use crate::forking::ForkAsked;
use crate::launch::Launch;
use crate::overrides::Overrides;
use crate::source::PreparedDefinition;

/// How often a run is asked for while there is no answer, and the pause between.
const TRIES: usize = 3;
const PAUSE: Duration = Duration::from_millis(300);

pub(super) fn read<T: DeserializeOwned>(server: &Server, bytes: &[u8]) -> Result<T, Failure> {
    serde_json::from_slice(bytes).map_err(|error| failures::foreign(server.address(), error))
}

pub(super) fn written(body: &impl Serialize) -> Result<Vec<u8>, Failure> {
    serde_json::to_vec(body).map_err(|error| Failure::new(Exit::Invalid, "USAGE", error))
}

/// Text that was checked to be JSON, or the failure that it is without a server.
fn raw(
    text: &str,
    failure: fn(windlass_engine::PayloadError) -> CommandError,
) -> Result<Box<RawValue>, Failure> {
    check_payload(text, []).map_err(failure)?;
    RawValue::from_string(text.to_owned())
        .map_err(|error| Failure::new(Exit::Invalid, "RESULT_INVALID", error))
}

#[derive(Deserialize)]
struct Acted {
    status: String,
}

/// Does something to a run; gives how it stands then.
pub(crate) fn act(
    server: &Server,
    run: RunId,
    request: &CommandRequest,
) -> Result<RunStatus, Failure> {
    let run = run.to_string();
    let url = |what: &str| server.url(&["executions", &run, what]);
    let question = match route(request)? {
        Some((what, mut body)) => {
            if let Some(reason) = &request.actor.reason {
                body.insert("reason", to_raw(reason)?);
            }
            Question::post(url(what), written(&body)?)
        }
        None => {
            let mut url = url("import");
            if let Some(reason) = &request.actor.reason {
                url.query_pairs_mut().append_pair("reason", reason);
            }
            Question::post(url, request.body.as_bytes().to_vec())
        }
    };
    let acted: Acted = read(server, &server.ask(question).map_err(perhaps)?)?;
    let status = acted.status.parse();
    status.map_err(|_| failures::foreign(server.address(), "a status that is none"))
}

/// A request that was on its way when the connection broke may have taken effect.
fn perhaps(failure: Failure) -> Failure {
    match failure.exit {
        Exit::Unreachable => {
            let hint = failure.hint.clone().unwrap_or_default();
            failure.hint(format!(
                "it may have been done all the same: `windlass events RUN` tells; {hint}"
            ))
        }
        _ => failure,
    }
}

type Body = BTreeMap<&'static str, Box<RawValue>>;

fn to_raw(value: &impl Serialize) -> Result<Box<RawValue>, Failure> {
    to_raw_value(value).map_err(|error| Failure::new(Exit::Invalid, "USAGE", error))
}

/// A command's route and what its body says; none is an import, whose body is the graph.
fn route(request: &CommandRequest) -> Result<Option<(&'static str, Body)>, Failure> {
    let body = |pairs: Vec<(&'static str, Box<RawValue>)>| pairs.into_iter().collect::<Body>();
    Ok(Some(match &request.command {
        RunCommand::Cancel { compensate } => {
            ("cancel", body(vec![("compensate", to_raw(compensate)?)]))
        }
        RunCommand::Pause => ("pause", Body::new()),
        RunCommand::Resume => ("resume", Body::new()),
        RunCommand::Reattempt { nodes } => ("reattempt", body(vec![("nodes", to_raw(nodes)?)])),
        RunCommand::Signal { name } => {
            let payload = raw(&request.body, CommandError::SignalInvalid)?;
            let name = to_raw(name)?;
            ("signal", body(vec![("name", name), ("payload", payload)]))
        }
        RunCommand::SetResult { node } => {
            let output = raw(&request.body, CommandError::ResultInvalid)?;
            let node = to_raw(node)?;
            ("set-result", body(vec![("node", node), ("output", output)]))
        }
        RunCommand::Skip { node } => ("skip", body(vec![("node", to_raw(node)?)])),
        RunCommand::Compensate => ("compensate", Body::new()),
        RunCommand::RetryCompensation { nodes } => {
            ("compensate", body(vec![("retry", to_raw(nodes)?)]))
        }
        RunCommand::SkipCompensation { nodes } => {
            ("compensate", body(vec![("skip", to_raw(nodes)?)]))
        }
        RunCommand::Import => return Ok(None),
    }))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StartedShape {
    execution_id: RunId,
    existing: bool,
}

impl From<StartedShape> for Started {
    fn from(started: StartedShape) -> Self {
        Self {
            run: started.execution_id,
            existing: started.existing,
        }
    }
}

/// Starts a run: of the version with the definition's content, which is published if it is
/// new, or of a graph that belongs to the run alone.
pub(crate) fn start(
    server: &Server,
    newest: Option<u32>,
    request: &Launch,
) -> Result<Started, Failure> {
    /// The graph beside what every start has.
    #[derive(Serialize)]
    struct OwnGraph<'a> {
        graph: &'a RawValue,
        #[serde(flatten)]
        start: StartBody,
    }
    let (definition, asked) = (&request.definition, &request.request);
    windlass_engine::check_trigger(&definition.plan, &asked.trigger)?;
    let not_json = |error| Failure::new(Exit::Invalid, "TRIGGER_NOT_JSON", error);
    let mut start = StartBody {
        trigger: Some(RawValue::from_string(asked.trigger.clone()).map_err(not_json)?),
        request_id: asked.request_id.as_deref().map(Into::into),
        labels: Some(asked.labels.clone()),
        vars: Some(asked.vars.clone()),
        ..StartBody::default()
    };
    if request.frozen {
        let text = String::from_utf8_lossy(&definition.text);
        let graph = serde_json::from_str(&text).map_err(not_json)?;
        let body = written(&OwnGraph { graph, start })?;
        return begin(server, server.url(&["executions"]), body);
    }
    start.version = Some(match newest {
        Some(version) => version,
        // A run of a file says so itself where a child is missing.
        None => publish(server, definition, true)?.version,
    });
    let workflow = definition.plan.workflow();
    let url = server.url(&["workflows", workflow, "execute"]);
    begin(server, url, written(&start)?)
}

/// A run as JSON text, as `show` asks for it.
pub(crate) fn execution(server: &Server, asked: &Show) -> Result<Vec<u8>, Failure> {
    let mut url = server.url(&["executions", &asked.run]);
    let include = asked.include.iter().map(|include| match include {
        Include::Actions => "actions",
        Include::Resources => "resources",
        Include::Events => "events",
    });
    let include = include.collect::<Vec<_>>().join(",");
    if !include.is_empty() {
        url.query_pairs_mut().append_pair("include", &include);
    }
    if asked.expand && asked.nodes.is_empty() {
        url.query_pairs_mut().append_pair("nodes", "all");
    }
    for node in &asked.nodes {
        url.query_pairs_mut().append_pair("nodes", node);
    }
    server.ask(Question::get(url))
}

/// Starts a run of a published workflow.
pub(crate) fn execute(
    server: &Server,
    workflow: &str,
    version: Option<u32>,
    asked: &StartRequest,
) -> Result<Started, Failure> {
    let not_json = |error| Failure::new(Exit::Invalid, "TRIGGER_NOT_JSON", error);
    let body = StartBody {
        trigger: Some(RawValue::from_string(asked.trigger.clone()).map_err(not_json)?),
        request_id: asked.request_id.as_deref().map(Into::into),
        labels: Some(asked.labels.clone()),
        priority: Some(asked.priority),
        version,
        ..StartBody::default()
    };
    let url = server.url(&["workflows", workflow, "execute"]);
    begin(server, url, written(&body)?)
}

/// Asks for a run until there is an answer: the request id lets it start once.
fn begin(server: &Server, url: url::Url, body: Vec<u8>) -> Result<Started, Failure> {
    let mut tries = TRIES;
    loop {
        tries -= 1;
        match server.ask(Question::post(url.clone(), body.clone())) {
            Ok(answer) => return Ok(read::<StartedShape>(server, &answer)?.into()),
            // If the process has ended, the next holder is asked.
            Err(failure) if server.is_gone(&failure) => return Err(failure),
            Err(failure) if failure.code == "SERVER_UNREACHABLE" && tries > 0 => {
                std::thread::sleep(PAUSE);
            }
            Err(failure) => return Err(failure),
        }
    }
}

/// Starts a run from an old one.
pub(crate) fn fork(server: &Server, asked: &ForkAsked) -> Result<Started, Failure> {
    // What cannot be read as a change is refused as it is without a server.
    Overrides::parse(&asked.set)?;
    let mut set = Map::new();
    for change in &asked.set {
        let (key, value) = change.split_once('=').unwrap_or((change, ""));
        let value = serde_json::from_str(value).unwrap_or_else(|_| Value::from(value));
        set.insert(key.to_owned(), value);
    }
    let mut body = json!({
        "from": asked.from, "set": set, "newest": asked.newest, "version": asked.version,
        "requestId": asked.request_id, "reason": asked.actor.reason,
    });
    if asked.reuse_compensated {
        body["reuseCompensated"] = true.into();
    }
    let url = server.url(&["executions", &asked.origin.to_string(), "fork"]);
    begin(server, url, written(&body)?)
}

/// Publishes a definition.
pub(crate) fn publish(
    server: &Server,
    definition: &PreparedDefinition,
    allow_unknown: bool,
) -> Result<Published, Failure> {
    #[derive(Deserialize)]
    struct Shape {
        version: u32,
        created: bool,
    }
    let mut url = server.url(&["workflows"]);
    if allow_unknown {
        url.query_pairs_mut().append_pair("allowUnknown", "true");
    }
    let answer = server.ask(Question::post(url, definition.text.to_vec()))?;
    let Shape { version, created } = read(server, &answer)?;
    Ok(Published { version, created })
}

/// Allows or refuses new runs of a workflow.
pub(crate) fn set_enabled(server: &Server, workflow: &str, enabled: bool) -> Result<(), Failure> {
    let question = match enabled {
        true => Question::post(
            server.url(&["workflows", workflow, "enable"]),
            b"{}".to_vec(),
        ),
        false => Question {
            method: reqwest::Method::DELETE,
            ..Question::get(server.url(&["workflows", workflow]))
        },
    };
    server.ask(question).map(|_| ())
}

/// The actions that the server's runs can call.
pub(crate) fn actions(server: &Server) -> Result<Vec<Description>, Failure> {
    #[derive(Deserialize)]
    struct Shape {
        name: String,
        description: String,
        parameters: schemars::Schema,
        output: schemars::Schema,
    }
    let answer = server.get(server.url(&["actions"]))?;
    let actions: Page<Shape> = read(server, &answer)?;
    let describe = |shape: Shape| Description {
        name: shape.name,
        description: shape.description,
        parameters: shape.parameters,
        output: shape.output,
    };
    Ok(actions.items.into_iter().map(describe).collect())
}

/// The processes that work on the server's runs.
pub(crate) fn cluster(server: &Server) -> Result<serde_json::Value, Failure> {
    let answer = server.get(server.url(&["cluster"]))?;
    read(server, &answer)
}
