//! Routes, declared once. From one declaration come the route, its check of token, scope,
//! rate and body, and its place in the OpenAPI document. There is no other way to add one,
//! so a route without a scope cannot exist.

mod access;
mod document;
mod endpoint;
mod guard;
mod naming;

use std::sync::Arc;

use axum::Router;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{MethodFilter, on};
use http::Method;
use serde_json::Value;

pub use access::{Access, Rate, TokenScope};
use document::Declared;
pub(crate) use document::Document;
pub use document::Operation;
pub use endpoint::{Endpoint, Input, Output};
pub use guard::{Exchange, GateOptions, RequestGate};

use crate::code;
use crate::cors;
use crate::error::Code;
use crate::front::{self, Front, HeadLimits};

/// The routes of a server, as they are declared.
pub struct Routes<S> {
    router: Router<S>,
    gate: Arc<RequestGate>,
    declared: Vec<Declared>,
}

impl<S: Clone + Send + Sync + 'static> Routes<S> {
    /// No routes yet; those that are added are guarded by the gate.
    #[must_use]
    pub fn new(gate: RequestGate) -> Self {
        Self {
            router: Router::new(),
            gate: Arc::new(gate),
            declared: Vec::new(),
        }
    }

    /// Adds a route: method, path (`/api/v1/executions/{id}`), what it needs, the codes its
    /// handler fails with, what it does in a sentence, and the handler, whose types say the
    /// rest. Codes that come before the handler (token, limits, parameters) are added.
    ///
    /// # Panics
    ///
    /// If the method is not one of a route, or if the route exists already.
    pub fn add<M, H>(
        &mut self,
        method: Method,
        path: &'static str,
        access: Access,
        errors: &[Code],
        about: &'static str,
        handler: H,
    ) -> &mut Self
    where
        H: Endpoint<M, S>,
        M: 'static,
    {
        self.declared.push(Declared {
            method: method.clone(),
            path,
            access,
            errors: errors.to_vec(),
            about,
            name: document::name_of::<H>,
            describe: H::describe,
        });
        let filter = MethodFilter::try_from(method).expect("a method of a route");
        let guard = guard::Guard::new(Arc::clone(&self.gate), access, path);
        let route = on(filter, handler).route_layer(guard.layer());
        self.router = std::mem::take(&mut self.router).route(path, route);
        self
    }

    /// Whether requests need a token.
    pub(crate) fn asks_for_tokens(&self) -> bool {
        self.gate.asks_for_tokens()
    }

    /// The OpenAPI document of what was added so far.
    ///
    /// # Panics
    ///
    /// If a handler takes a body and its access gives it no room.
    #[must_use]
    pub fn document(&self) -> Value {
        document::of(&self.declared)
    }

    /// The router: what was added, the document and its page, and answers for all else.
    pub fn build(mut self, state: S, head: HeadLimits) -> Router {
        crate::docs::add(&mut self);
        let document = Document::of(self.declared);
        let (unknown, other) = (Arc::clone(&self.gate), Arc::clone(&self.gate));
        let router = self
            .router
            .fallback(async move |method: Method| no_route(&unknown, &method))
            .method_not_allowed_fallback(async move |method: Method| no_method(&other, &method))
            .with_state(state)
            .layer(axum::Extension(Arc::new(document)));
        let router = match cors::layer(self.gate.origins()) {
            Some(layer) => router.layer(layer),
            None => router,
        };
        let front = Front {
            limits: head,
            hosts: self.gate.hosts(),
            owner: self.gate.is_owners(),
        };
        router.layer(axum::middleware::from_fn_with_state(
            Arc::new(front),
            front::front,
        ))
    }
}

impl<S> std::fmt::Debug for Routes<S> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let paths = self.declared.iter().map(|route| route.path);
        formatter.debug_list().entries(paths).finish()
    }
}

fn no_route(gate: &RequestGate, method: &Method) -> Response {
    let error = code::ROUTE_NOT_FOUND.error("there is no such route; /api/docs lists them");
    let mut response = error.into_response();
    gate.tell_limit(method, &mut response);
    response
}

fn no_method(gate: &RequestGate, method: &Method) -> Response {
    let error = code::METHOD_NOT_ALLOWED.error(format!("the route has no method {method}"));
    let mut response = error.into_response();
    gate.tell_limit(method, &mut response);
    response
}
