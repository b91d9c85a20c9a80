//! The OpenAPI 3.1 document, put together from the declarations of the routes.
//!
//! Schemas are those of `schemars`: its dialect, JSON Schema 2020-12, is the one of
//! OpenAPI 3.1, and definitions and parameters of actions have their schemas from it
//! already, so that a type has one schema and not two.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use bytes::Bytes;
use http::Method;
use schemars::JsonSchema;
use schemars::generate::{SchemaGenerator, SchemaSettings};
use serde_json::{Map, Value, json};

use super::access::{Access, Rate, TokenScope};
use super::naming::for_generators;
use crate::code;
use crate::error::{Code, ErrorBody};
use crate::failures::{STORE_FULL, STORE_UNAVAILABLE};

/// An operation of the document, while its handler describes it.
pub struct Operation<'g> {
    generator: &'g mut SchemaGenerator,
    parameters: Vec<Value>,
    body: Option<Value>,
    answers: BTreeMap<u16, Value>,
    errors: Vec<Code>,
}

/// A route as it was declared, from which its operation is written.
pub(super) struct Declared {
    pub(super) method: Method,
    pub(super) path: &'static str,
    pub(super) access: Access,
    pub(super) errors: Vec<Code>,
    pub(super) about: &'static str,
    pub(super) name: fn() -> String,
    /// Adds what the types of the handler say.
    pub(super) describe: fn(&mut Operation<'_>),
}

impl Declared {
    fn operation(&self, generator: &mut SchemaGenerator) -> Value {
        let mut operation = Operation::new(generator);
        (self.describe)(&mut operation);
        assert!(
            operation.body.is_none() || self.access.body_limit() > 0,
            "{} {} reads a body: give its access a limit",
            self.method,
            self.path
        );
        operation.finish(self)
    }
}

/// The document of a server, written when it is first asked for: most servers never are, and
/// writing it takes more work and memory than all else that starting one does.
pub(crate) struct Document {
    declared: Vec<Declared>,
    written: OnceLock<Bytes>,
}

impl Document {
    pub(super) fn of(declared: Vec<Declared>) -> Self {
        Self {
            declared,
            written: OnceLock::new(),
        }
    }

    /// The document if it was written before.
    pub(crate) fn known(&self) -> Option<Bytes> {
        self.written.get().cloned()
    }

    /// The document as JSON. The first call takes a while.
    pub(crate) fn text(&self) -> Bytes {
        let write = || {
            let document = of(&self.declared);
            let text = serde_json::to_vec(&document).expect("a JSON value is always JSON");
            text.into()
        };
        self.written.get_or_init(write).clone()
    }
}

impl<'g> Operation<'g> {
    fn new(generator: &'g mut SchemaGenerator) -> Self {
        Self {
            generator,
            parameters: Vec::new(),
            body: None,
            answers: BTreeMap::new(),
            errors: Vec::new(),
        }
    }

    /// Adds the fields of a struct as parameters in `path` or `query`.
    pub fn parameters<T: JsonSchema>(&mut self, location: &str) {
        let schema = Value::from(T::json_schema(self.generator));
        let required = |name: &str| {
            let listed = schema["required"].as_array();
            location == "path" || listed.is_some_and(|names| names.iter().any(|n| n == name))
        };
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            let mut shape = property.clone();
            if location == "query" {
                not_empty(&mut shape);
            }
            let mut parameter = json!({
                "name": name, "in": location, "required": required(name), "schema": shape,
            });
            if let Some(about) = property.get("description") {
                parameter["description"] = about.clone();
            }
            self.parameters.push(parameter);
        }
    }

    /// Adds a header that the client may send, with as many bytes as it may have.
    pub fn header(&mut self, name: &str, about: &str, longest: Option<usize>) {
        let schema = match longest {
            Some(longest) => json!({"type": "string", "minLength": 1, "maxLength": longest}),
            None => json!({"type": "string"}),
        };
        self.parameters.push(json!({
            "name": name, "in": "header", "required": false, "description": about,
            "schema": schema,
        }));
        self.implies(code::HEADER_INVALID);
    }

    /// Adds the body, and the codes that go with having one.
    pub fn body<T: JsonSchema>(&mut self, media: &[&str], required: bool) {
        let schema = self.generator.subschema_for::<T>();
        let content: Map<String, Value> = media
            .iter()
            .map(|media| ((*media).to_owned(), json!({"schema": schema})))
            .collect();
        self.body = Some(json!({"required": required, "content": content}));
        for code in [
            code::BODY_TOO_LARGE,
            code::BODY_INCOMPLETE,
            code::MEDIA_TYPE_UNSUPPORTED,
            code::REQUEST_TIMEOUT,
            code::BODY_MEMORY_EXHAUSTED,
            code::BODY_SPOOL_FAILED,
        ] {
            self.implies(code);
        }
    }

    /// Adds an answer with a body.
    pub fn answer<T: JsonSchema>(&mut self, status: u16, media: &str, about: &str) {
        let schema = self.generator.subschema_for::<T>();
        let answer = self
            .answers
            .entry(status)
            .or_insert_with(|| json!({"description": about, "headers": headers(), "content": {}}));
        answer["content"][media] = json!({"schema": schema});
    }

    /// Adds an answer without a body.
    pub fn empty(&mut self, status: u16, about: &str) {
        let answer = json!({"description": about, "headers": headers()});
        self.answers.insert(status, answer);
    }

    /// Adds a code that reading the request may fail with.
    pub fn implies(&mut self, code: Code) {
        if !self.errors.contains(&code) {
            self.errors.push(code);
        }
    }

    fn finish(mut self, declared: &Declared) -> Value {
        for code in &declared.errors {
            self.implies(*code);
            // What cannot be used may also be full.
            if *code == STORE_UNAVAILABLE {
                self.implies(STORE_FULL);
            }
        }
        self.imply_checks(declared.access);
        let schema = self.generator.subschema_for::<ErrorBody>();
        let mut codes: Vec<&Code> = self.errors.iter().collect();
        codes.sort_by_key(|code| (code.status, code.code));
        for group in codes.chunk_by(|a, b| a.status == b.status) {
            let answer = failure(group, &schema.clone().into());
            self.answers.entry(group[0].status).or_insert(answer);
        }
        let access = declared.access;
        let mut operation = json!({
            "operationId": (declared.name)(),
            "summary": declared.about,
            "tags": [tag(declared.path)],
            "security": security(access.scope()),
            "responses": self.answers.into_iter()
                .map(|(status, answer)| (status.to_string(), answer))
                .collect::<Map<_, _>>(),
            "x-scope": access.scope().name(),
            "x-rate": access.rate_class(),
            "x-body-limit": access.body_limit(),
            "x-error-codes": codes.iter().map(|code| code.code).collect::<Vec<_>>(),
        });
        if !self.parameters.is_empty() {
            operation["parameters"] = self.parameters.into();
        }
        if let Some(body) = self.body {
            operation["requestBody"] = body;
        }
        operation
    }

    fn imply_checks(&mut self, access: Access) {
        if access.scope() != TokenScope::Public {
            self.implies(code::UNAUTHENTICATED);
            self.implies(code::FORBIDDEN);
        }
        if access.rate_class() != Rate::Free {
            self.implies(code::RATE_LIMITED);
        }
        self.implies(code::HOST_NOT_ALLOWED);
        self.implies(code::CONNECTIONS_EXHAUSTED);
        self.implies(code::BODY_TOO_LARGE);
        self.implies(code::URI_TOO_LONG);
        self.implies(code::HEADERS_TOO_LARGE);
        self.implies(code::INTERNAL);
        self.implies(code::TIMED_OUT);
    }
}

/// The document of these routes.
pub(super) fn of(declared: &[Declared]) -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
        settings.meta_schema = None;
    });
    let mut generator = settings.into_generator();
    let mut paths = Map::new();
    for route in declared {
        let operation = route.operation(&mut generator);
        let methods = paths
            .entry(route.path.replace("{*", "{"))
            .or_insert_with(|| Value::Object(Map::new()));
        methods[route.method.as_str().to_ascii_lowercase()] = operation;
    }
    let schemas = generator.take_definitions(false);
    let scopes: Map<String, Value> = TokenScope::CARRIED
        .iter()
        .map(|scope| (scope.name().to_owned(), json!("")))
        .collect();
    for_generators(json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Windlass",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "A durable workflow engine. Scopes are claims of the bearer token: "
                .to_owned() + &scopes.keys().cloned().collect::<Vec<_>>().join(", "),
        },
        "jsonSchemaDialect": "https://json-schema.org/draft/2020-12/schema",
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"},
            },
        },
    }))
}

/// The name of an operation: the handler's module and function, `executions.list`.
pub(super) fn name_of<H>() -> String {
    let path = std::any::type_name::<H>();
    let mut parts = path.rsplit("::");
    let function = parts.next().unwrap_or_default();
    match parts.next() {
        Some(module) => format!("{module}.{function}"),
        None => function.to_owned(),
    }
}

/// The group of a path: its first word after the prefix.
fn tag(path: &str) -> &str {
    path.trim_start_matches("/api/v1")
        .trim_start_matches("/api")
        .split('/')
        .find(|part| !part.is_empty())
        .unwrap_or("server")
}

/// A public route says so with an empty list; OpenAPI 3.1, section 4.8.10.
fn security(scope: TokenScope) -> Value {
    match scope {
        TokenScope::Public => json!([]),
        scope => json!([{"bearer": [scope.name()]}]),
    }
}

fn failure(codes: &[&Code], schema: &Value) -> Value {
    let titles: Vec<String> = codes
        .iter()
        .map(|code| format!("`{}`: {}", code.code, code.title))
        .collect();
    json!({
        "description": titles.join("; "),
        "headers": headers(),
        "content": {
            "application/json": {"schema": schema},
            "application/problem+json": {"schema": {"type": "object"}},
        },
    })
}

fn headers() -> Value {
    json!({"X-Correlation-Id": {"schema": {"type": "string"}, "description":
        "The request's own, or a new one"}})
}
/// A text in a query is never empty: that would be a parameter without a value.
fn not_empty(schema: &mut Value) {
    let is_text = match &schema["type"] {
        Value::String(kind) => kind == "string",
        Value::Array(kinds) => kinds.iter().any(|kind| kind == "string"),
        _ => false,
    };
    if is_text && schema.get("enum").is_none() && schema.get("minLength").is_none() {
        schema["minLength"] = json!(1);
    }
    if let Some(items) = schema.get_mut("items") {
        not_empty(items);
    }
}
