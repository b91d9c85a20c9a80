//! OpenTelemetry collectors on loopback: they decode spans with the protocol's own types, over
//! HTTP as protobuf and over gRPC.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};

use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use prost::Message as _;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Identity, ServerTlsConfig};

use crate::services::{ServiceReply, ServiceRequest, StubServer};

/// A span as a collector decoded it.
#[derive(Clone, Debug)]
pub struct CollectedSpan {
    pub trace: String,
    pub id: String,
    pub parent: Option<String>,
    pub name: String,
    pub start: u64,
    pub end: u64,
    pub failed: bool,
    pub tags: BTreeMap<String, String>,
    /// The attributes of its resource.
    pub resource: BTreeMap<String, String>,
}

/// A collector over HTTP.
#[derive(Clone)]
pub struct HttpCollector {
    pub address: String,
    server: StubServer,
}

impl HttpCollector {
    /// Answers with these statuses in turn, and the last one for ever.
    pub fn start(statuses: &'static [u16]) -> Self {
        let mut statuses = statuses.iter().copied();
        let mut status = 200;
        let server = StubServer::start(move |_| {
            status = statuses.next().unwrap_or(status);
            let headers = vec![("content-type", "application/x-protobuf".to_owned())];
            let body = ExportTraceServiceResponse::default().encode_to_vec();
            ServiceReply::Bytes(status, headers, body)
        });
        let address = server.url.clone();
        Self { address, server }
    }

    pub fn requests(&self) -> Vec<ServiceRequest> {
        self.server.seen("")
    }

    /// The spans of all requests, accepted or not.
    pub fn spans(&self) -> Vec<CollectedSpan> {
        let requests = self.server.seen("/v1/traces");
        let decode = |request: &ServiceRequest| {
            assert_eq!(request.header("content-type"), "application/x-protobuf");
            ExportTraceServiceRequest::decode(&*request.body).expect("OTLP as protobuf")
        };
        requests.iter().map(decode).flat_map(spans_of).collect()
    }
}

/// A call that a gRPC collector took: its ASCII metadata, and what it says.
pub type GrpcCall = (BTreeMap<String, String>, ExportTraceServiceRequest);

/// A collector over gRPC.
#[derive(Clone)]
pub struct GrpcCollector {
    pub address: String,
    calls: Arc<Mutex<Vec<GrpcCall>>>,
}

impl GrpcCollector {
    /// Takes spans until the test ends.
    pub fn start() -> Self {
        Self::with(tonic::transport::Server::builder(), |at| {
            format!("http://{at}")
        })
    }

    /// The same over TLS, as `localhost`, with a certificate and its key in PEM.
    pub fn start_tls(certificate: &str, key: &str) -> Self {
        let identity = Identity::from_pem(certificate, key);
        let tls = ServerTlsConfig::new().identity(identity);
        let server = tonic::transport::Server::builder().tls_config(tls);
        Self::with(server.expect("a certificate"), |at| {
            format!("https://localhost:{}", at.port())
        })
    }

    fn with(mut server: tonic::transport::Server, name: impl Fn(SocketAddr) -> String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = name(listener.local_addr().expect("an address"));
        listener.set_nonblocking(true).expect("a listener");
        let calls = Arc::default();
        let service = Calls(Arc::clone(&calls));
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime");
            runtime.block_on(async {
                let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
                server
                    .add_service(TraceServiceServer::new(service))
                    .serve_with_incoming(TcpIncoming::from(listener))
                    .await
                    .expect("a server");
            });
        });
        Self { address, calls }
    }

    /// The metadata of each call so far.
    pub fn metadata(&self) -> Vec<BTreeMap<String, String>> {
        let calls = self.calls.lock().expect("the calls");
        calls.iter().map(|(metadata, _)| metadata.clone()).collect()
    }

    /// The spans of all calls.
    pub fn spans(&self) -> Vec<CollectedSpan> {
        let calls = self.calls.lock().expect("the calls");
        let requests = calls.iter().map(|(_, request)| request.clone());
        requests.flat_map(spans_of).collect()
    }
}

struct Calls(Arc<Mutex<Vec<GrpcCall>>>);

#[tonic::async_trait]
impl TraceService for Calls {
    async fn export(
        &self,
        request: tonic::Request<ExportTraceServiceRequest>,
    ) -> Result<tonic::Response<ExportTraceServiceResponse>, tonic::Status> {
        let headers = request.metadata().clone().into_headers();
        let text = headers
            .iter()
            .filter_map(|(name, value)| Some((name.to_string(), value.to_str().ok()?.to_owned())));
        let call = (text.collect(), request.into_inner());
        self.0.lock().expect("the calls").push(call);
        Ok(tonic::Response::new(ExportTraceServiceResponse::default()))
    }
}

fn spans_of(request: ExportTraceServiceRequest) -> Vec<CollectedSpan> {
    let mut spans = Vec::new();
    for resource_spans in request.resource_spans {
        let resource = resource_spans.resource.unwrap_or_default();
        let resource = tags(&resource.attributes);
        for scope_spans in resource_spans.scope_spans {
            let scope = scope_spans.scope.unwrap_or_default();
            assert_eq!(scope.name, "windlass");
            let collected = scope_spans.spans.iter();
            spans.extend(collected.map(|span| collected_span(span, &resource)));
        }
    }
    spans
}

fn collected_span(span: &Span, resource: &BTreeMap<String, String>) -> CollectedSpan {
    CollectedSpan {
        trace: hex(&span.trace_id),
        id: hex(&span.span_id),
        parent: Some(hex(&span.parent_span_id)).filter(|parent| !parent.is_empty()),
        name: span.name.clone(),
        start: span.start_time_unix_nano,
        end: span.end_time_unix_nano,
        failed: span
            .status
            .as_ref()
            .is_some_and(|status| status.code() == StatusCode::Error),
        tags: tags(&span.attributes),
        resource: resource.clone(),
    }
}

fn tags(attributes: &[KeyValue]) -> BTreeMap<String, String> {
    let text = |value: &Option<AnyValue>| match value.as_ref().and_then(|it| it.value.as_ref()) {
        Some(Value::StringValue(text)) => text.clone(),
        Some(Value::BoolValue(truth)) => truth.to_string(),
        Some(Value::IntValue(number)) => number.to_string(),
        other => panic!("an attribute that Windlass does not write: {other:?}"),
    };
    let attributes = attributes.iter();
    attributes
        .map(|it| (it.key.clone(), text(&it.value)))
        .collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
