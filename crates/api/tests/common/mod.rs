//! A server on a free port, with routes of a sample, and a client that sees raw bytes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::extract::{FromRef, State};
use futures_util::{FutureExt, StreamExt};
use http::Method;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use windlass_api::answer::{Accepted, EventStream, NoContent, Page};
use windlass_api::auth::{Auth, Principal};
use windlass_api::extract::{Json, Path, Query, RawDocument};
use windlass_api::health::{self, Probes, http_limits};
use windlass_api::route::{Access, GateOptions, Rate, RequestGate, Routes};
use windlass_api::serve::{Drained, Server, ServerOptions};
use windlass_api::{ApiError, Code, Detail, HeadLimits, ServerSentEvent};

/// Long enough for a busy machine; a test that reaches it has failed.
pub(crate) const LONG: Duration = Duration::from_secs(60);

pub(crate) const THING_NOT_FOUND: Code = Code::new(404, "THING_NOT_FOUND", "No such thing");
pub(crate) const BODY_LIMIT: u64 = 1000;
pub(crate) const LARGE_LIMIT: u64 = 4 * 1024 * 1024;

#[derive(Clone)]
pub(crate) struct Sample {
    pub(crate) release: CancellationToken,
    pub(crate) unready: Arc<AtomicBool>,
    pub(crate) auth: Auth,
}

impl FromRef<Sample> for Probes {
    fn from_ref(sample: &Sample) -> Self {
        let unready = Arc::clone(&sample.unready);
        let ready = move || {
            let unready = unready.load(Ordering::Relaxed);
            async move {
                match unready {
                    true => Err(vec![Detail::new("/store", "it does not answer")]),
                    false => Ok(()),
                }
            }
            .boxed()
        };
        let options = ServerOptions::new("127.0.0.1:0".parse().unwrap());
        let limits = http_limits(&options, &GateOptions::default(), &HeadLimits::default());
        let probes = Self::new(ready, || async { "up 1\n".to_owned() }.boxed(), limits);
        probes.with_auth(sample.auth.clone())
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct ThingPath {
    id: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListQuery {
    /// How many.
    limit: Option<u32>,
    /// Labels, all of which must be there.
    #[serde(default)]
    label: Vec<String>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Thing {
    name: String,
    #[serde(default)]
    sizes: Vec<u8>,
}

async fn list(
    principal: Principal,
    Query(query): Query<ListQuery>,
) -> Result<Json<Page<String>>, ApiError> {
    let mut items = query.label;
    items.push(format!(
        "{}:{}",
        principal.subject,
        query.limit.unwrap_or(10)
    ));
    Ok(Json(Page { items, next: None }))
}

async fn show(Path(path): Path<ThingPath>) -> Result<Json<Thing>, ApiError> {
    match path.id.as_str() {
        "panic" => panic!("a secret detail"),
        "missing" => Err(THING_NOT_FOUND.error("there is no such thing")),
        id => Ok(Json(Thing {
            name: id.to_owned(),
            sizes: Vec::new(),
        })),
    }
}

async fn make(
    Path(path): Path<ThingPath>,
    Json(thing): Json<Thing>,
) -> Result<Accepted<Thing>, ApiError> {
    Ok(Accepted {
        location: format!("/api/v1/things/{}", path.id),
        body: thing,
    })
}

async fn delete(Path(_): Path<ThingPath>) -> Result<NoContent, ApiError> {
    Ok(NoContent)
}

/// Answers when the test lets it.
async fn slow(State(sample): State<Sample>) -> Result<Json<String>, ApiError> {
    sample.release.cancelled().await;
    Ok(Json("done".to_owned()))
}

async fn events() -> Result<EventStream<Value>, ApiError> {
    let first =
        futures_util::stream::iter([ServerSentEvent::json("first", Some("1"), &Value::Null)]);
    Ok(EventStream::new(
        first.chain(futures_util::stream::pending()),
    ))
}

/// Says how long the body was, when the test lets it.
async fn measure(
    State(sample): State<Sample>,
    document: RawDocument<Value>,
) -> Result<Json<usize>, ApiError> {
    if document.yaml {
        sample.release.cancelled().await;
    }
    Ok(Json(document.bytes.len()))
}

async fn remove_all() -> Result<NoContent, ApiError> {
    Ok(NoContent)
}

pub(crate) fn routes(gate: RequestGate) -> Routes<Sample> {
    let mut routes = Routes::new(gate);
    health::add(&mut routes, Access::public());
    let thing = "/api/v1/things/{id}";
    routes
        .add(
            Method::GET,
            "/api/v1/things",
            Access::read(),
            &[],
            "Lists",
            list,
        )
        .add(
            Method::GET,
            thing,
            Access::read(),
            &[THING_NOT_FOUND],
            "Shows",
            show,
        )
        .add(
            Method::DELETE,
            thing,
            Access::manage(),
            &[],
            "Deletes",
            delete,
        )
        .add(
            Method::POST,
            thing,
            Access::execute().rate(Rate::Workflow).body(BODY_LIMIT),
            &[],
            "Makes",
            make,
        )
        .add(
            Method::GET,
            "/api/v1/slow",
            Access::read(),
            &[],
            "Waits",
            slow,
        )
        .add(
            Method::GET,
            "/api/v1/events",
            Access::read(),
            &[],
            "Tells",
            events,
        )
        .add(
            Method::POST,
            "/api/v1/measure",
            Access::execute().body(LARGE_LIMIT),
            &[],
            "Measures",
            measure,
        )
        .add(
            Method::DELETE,
            "/api/v1/things",
            Access::admin(),
            &[],
            "Deletes all",
            remove_all,
        );
    routes
}

pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) probe_address: Option<SocketAddr>,
    pub(crate) release: CancellationToken,
    pub(crate) unready: Arc<AtomicBool>,
    pub(crate) shutdown: CancellationToken,
    pub(crate) task: JoinHandle<Drained>,
    /// What is counted of bodies.
    pub(crate) bodies: Box<dyn Fn() -> Vec<windlass_api::Figure>>,
}

type Change = Box<dyn FnOnce(&mut ServerOptions)>;

#[derive(Default)]
pub(crate) struct Setup {
    pub(crate) auth: Option<Auth>,
    pub(crate) gate: GateOptions,
    pub(crate) head: HeadLimits,
    pub(crate) change: Option<Change>,
}

impl Setup {
    pub(crate) fn server(mut self, change: impl FnOnce(&mut ServerOptions) + 'static) -> Self {
        self.change = Some(Box::new(change));
        self
    }

    pub(crate) async fn start(self) -> Running {
        let mut options = ServerOptions::new("127.0.0.1:0".parse().unwrap());
        if let Some(change) = self.change {
            change(&mut options);
        }
        let auth = self.auth.unwrap_or_else(Auth::off);
        let gate = RequestGate::new(auth.clone(), self.gate);
        let bodies = Box::new(gate.figures());
        let release = CancellationToken::new();
        let unready = Arc::new(AtomicBool::new(false));
        let sample = Sample {
            release: release.clone(),
            unready: Arc::clone(&unready),
            auth,
        };
        let router = routes(gate).build(sample, self.head);
        let server = Server::bind(options).await.unwrap();
        let address = server.local_addr().expect("it listens");
        let probe_address = server.probe_addr();
        let shutdown = CancellationToken::new();
        let task = tokio::spawn(server.run(router, shutdown.clone()));
        Running {
            address,
            probe_address,
            release,
            unready,
            shutdown,
            task,
            bodies,
        }
    }
}

/// An answer, taken apart.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The code of a failure, after a look at its shape.
    pub(crate) fn code(&self) -> String {
        let body = self.json();
        let error = &body["error"];
        assert_eq!(
            error["correlationId"].as_str(),
            self.header("x-correlation-id"),
            "{self:?}"
        );
        assert!(
            error["message"]
                .as_str()
                .is_some_and(|text| !text.is_empty())
        );
        assert!(
            error["timestamp"]
                .as_str()
                .is_some_and(|at| at.ends_with('Z'))
        );
        assert!(error["details"].is_array());
        assert_eq!(self.header("content-type"), Some("application/json"));
        error["code"].as_str().unwrap().to_owned()
    }
}

impl Running {
    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Bytes of bodies in memory.
    pub(crate) fn body_bytes(&self) -> usize {
        let figures = (self.bodies)();
        let mut figures = figures.into_iter();
        let memory = figures.find(|it| it.name == "windlass_http_body_memory_bytes");
        memory.unwrap().value as usize
    }

    /// A connection from 127.0.0.`number`.
    pub(crate) async fn connect_from(&self, number: u8) -> TcpStream {
        let socket = TcpSocket::new_v4().unwrap();
        socket
            .bind(SocketAddr::from(([127, 0, 0, number], 0)))
            .unwrap();
        socket.connect(self.address).await.unwrap()
    }

    /// Sends bytes from 127.0.0.`number` and reads one answer, if there is one.
    pub(crate) async fn send_from(&self, number: u8, request: impl AsRef<[u8]>) -> Option<Answer> {
        let mut stream = self.connect_from(number).await;
        // A server that refuses may close before all of it is sent.
        let _ = stream.write_all(request.as_ref()).await;
        read_answer(&mut stream).await
    }

    /// Sends bytes on a connection of their own and reads one answer.
    pub(crate) async fn send(&self, request: impl AsRef<[u8]>) -> Answer {
        let mut stream = self.connect().await;
        stream.write_all(request.as_ref()).await.unwrap();
        read_answer(&mut stream).await.expect("an answer")
    }

    /// A request with headers, each ended by a line break.
    pub(crate) async fn ask(&self, line: &str, headers: &str, body: &str) -> Answer {
        let length = match body.len() {
            0 => String::new(),
            length => format!("Content-Length: {length}\r\n"),
        };
        self.send(format!(
            "{line} HTTP/1.1\r\nHost: localhost\r\n{headers}{length}\r\n{body}"
        ))
        .await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.ask(&format!("GET {path}"), "", "").await
    }

    pub(crate) async fn stop(self) -> Drained {
        self.shutdown.cancel();
        tokio::time::timeout(LONG, self.task)
            .await
            .unwrap()
            .unwrap()
    }
}

/// Reads an answer with a length; nothing if the connection ends before.
pub(crate) async fn read_answer(stream: &mut TcpStream) -> Option<Answer> {
    tokio::time::timeout(LONG, read_answer_without_limit(stream))
        .await
        .expect("an answer in time")
}

async fn read_answer_without_limit(stream: &mut TcpStream) -> Option<Answer> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break at;
        }
        let mut buffer = [0; 4096];
        match stream.read(&mut buffer).await {
            Ok(count) if count > 0 => bytes.extend_from_slice(&buffer[..count]),
            _ => return None,
        }
    };
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let mut answer = Answer {
        status: head[9..12].parse().unwrap(),
        head,
        body: bytes[end + 4..].to_vec(),
    };
    let length: usize = answer
        .header("content-length")
        .map_or(0, |length| length.parse().unwrap());
    while answer.body.len() < length {
        let mut buffer = [0; 4096];
        let count = stream.read(&mut buffer).await.unwrap();
        assert!(count > 0, "the answer broke off: {answer:?}");
        answer.body.extend_from_slice(&buffer[..count]);
    }
    Some(answer)
}
