//! The check in front of every handler: token, scope, rate, body, time.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::RequestExt;
use axum::body::Body;
use axum::extract::{RawPathParams, Request, State};
use axum::middleware::{FromFnLayer, Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use futures_util::future::BoxFuture;
use http::uri::Authority;
use http::{HeaderMap, HeaderValue, Method, header};

use super::access::{Access, Rate, TokenScope};
use crate::answer::Streaming;
use crate::auth::{Auth, Principal};
use crate::bodies::{Arrival, Bodies, BodyOptions, TooLarge};
use crate::body::{self, Bounded};
use crate::code;
use crate::correlation::Correlation;
use crate::error::ApiError;
use crate::extract::{AnswerBy, Peer};
use crate::fair;
use crate::figure::Figure;
use crate::hosts::Hosts;
use crate::limit::{self, BucketKey, Budget, Limiter, RateDecision, RequestKind};
use crate::serve::{Claimed, Seated};
use crate::stream::Polite;

/// What guards all routes.
pub struct RequestGate {
    options: GateOptions,
    auth: Auth,
    limiter: Limiter,
    bodies: Arc<Bodies>,
    watch: Option<Box<Watch>>,
}

/// A request that was answered, as [`RequestGate::watched`] reports it.
#[derive(Debug, Clone, Copy)]
pub struct Exchange<'a> {
    /// The route's pattern.
    pub route: &'static str,
    /// The method.
    pub method: &'a str,
    /// The status of the answer.
    pub status: u16,
    /// How long it took until the answer began.
    pub took: Duration,
    /// The request's correlation id.
    pub correlation: Option<&'a str>,
}

type Watch = dyn Fn(&Exchange<'_>) + Send + Sync;

/// How routes are guarded.
#[derive(Debug, Clone)]
pub struct GateOptions {
    /// How long a handler may take until its answer begins.
    pub request_timeout: Duration,
    /// How long a body may take to arrive.
    pub body_timeout: Duration,
    /// Origins whose pages may ask; none by default. `*` stands for all.
    pub origins: Vec<String>,
    /// What a token may change or start.
    pub token_rate: Budget,
    /// What a token may read.
    pub read_rate: Budget,
    /// What may be asked of a workflow, by all tokens of a tenant together.
    pub workflow_rate: Budget,
    /// Whether requests are counted where there are no tokens: all of them together, as if
    /// they came with one.
    pub limit_without_auth: bool,
    /// Where the server listens; without tokens, requests must name that address as their host.
    pub listen: Option<SocketAddr>,
    /// Further host names that requests may use: `name`, `name:port` or `*.name`.
    pub allow_hosts: Vec<String>,
    /// How bodies are held, of all requests together.
    pub bodies: BodyOptions,
}

impl Default for GateOptions {
    fn default() -> Self {
        Self {
            request_timeout: Duration::from_secs(60),
            body_timeout: Duration::from_secs(30),
            origins: Vec::new(),
            token_rate: Budget::per_minute(60, 120),
            read_rate: Budget::per_minute(600, 600),
            workflow_rate: Budget::OFF,
            limit_without_auth: false,
            listen: None,
            allow_hosts: Vec::new(),
            bodies: BodyOptions::default(),
        }
    }
}

impl RequestGate {
    /// A gate that lets through what `auth` and the options allow.
    #[must_use]
    pub fn new(auth: Auth, options: GateOptions) -> Self {
        let limiter = Limiter::new(options.read_rate, options.token_rate, options.workflow_rate);
        Self {
            bodies: Arc::new(Bodies::new(&options.bodies)),
            options,
            auth,
            limiter,
            watch: None,
        }
    }

    /// The same, calling `watch` for every request that was answered.
    #[must_use]
    pub fn watched(mut self, watch: impl Fn(&Exchange<'_>) + Send + Sync + 'static) -> Self {
        self.watch = Some(Box::new(watch));
        self
    }

    /// What the metrics page shows of bodies.
    pub fn figures(&self) -> impl Fn() -> Vec<Figure> + Send + Sync + 'static {
        let bodies = Arc::clone(&self.bodies);
        move || bodies.figures()
    }

    pub(super) fn origins(&self) -> &[String] {
        &self.options.origins
    }

    /// The host names that requests may use, where they are checked.
    pub(super) fn hosts(&self) -> Option<Hosts> {
        let options = &self.options;
        (!self.auth.is_on()).then(|| Hosts::new(options.listen, &options.allow_hosts))
    }

    /// Whether requests need a token.
    pub(super) fn asks_for_tokens(&self) -> bool {
        self.auth.is_on()
    }

    /// Whether only the owner of the process can ask.
    pub(super) fn is_owners(&self) -> bool {
        self.auth.is_owners()
    }

    /// The principal of the request, or the refusal.
    async fn principal(&self, access: Access, headers: &HeaderMap) -> Result<Principal, ApiError> {
        if access.scope() == TokenScope::Public {
            return Ok(Principal::anonymous());
        }
        let principal = self.auth.principal(headers).await?;
        principal.require(access.scope())?;
        Ok(principal)
    }

    /// Whose share of memory and connections a request takes: that of its tenant or subject,
    /// and where no token says, that of the address it comes from, for each hook its own.
    fn client(&self, access: Access, request: &Request) -> BucketKey {
        if let Some(principal) = request.extensions().get::<Principal>()
            && access.scope() != TokenScope::Public
            && self.auth.is_on()
        {
            return principal.client();
        }
        let peer = request.extensions().get::<Peer>().and_then(|peer| peer.0);
        let address = peer.map_or([0; 16], |peer| fair::address(peer.ip()));
        match access.rate_class() {
            Rate::Hook => limit::key(&[&address, request.uri().path().as_bytes()]),
            _ => address,
        }
    }

    /// Whether a page of another origin sends the request, which a browser allows without a
    /// preflight. Without tokens nothing else tells such a request from one of a local user.
    fn is_foreign(&self, request: &Request) -> bool {
        if self.auth.is_on() || request.method().is_safe() {
            return false;
        }
        let Some(origin) = request.headers().get(header::ORIGIN) else {
            return false;
        };
        let origin = origin.to_str().unwrap_or_default();
        let origins = &self.options.origins;
        let allowed = origins.iter().any(|it| it == "*" || it == origin);
        let host = request.headers().get(header::HOST);
        let host = host.and_then(|host| host.to_str().ok());
        // HTTP/2 has it in the address.
        let host = host.or_else(|| request.uri().authority().map(Authority::as_str));
        let own = origin.split_once("://").map(|(_, host)| host);
        !allowed && (own.is_none() || own != host)
    }

    /// Counts the connection, or the request on it, for the client of its token.
    fn claim(
        &self,
        access: Access,
        principal: &Principal,
        request: &Request,
    ) -> Result<Option<Claimed>, ApiError> {
        if !self.auth.is_on() || access.scope() == TokenScope::Public {
            return Ok(None);
        }
        let seated = request.extensions().get::<Seated>();
        seated.map(|it| it.claim(principal.client())).transpose()
    }

    /// Counts the request; the tightest of its budgets decides.
    async fn count(
        &self,
        access: Access,
        principal: &Principal,
        request: &mut Request,
    ) -> Option<RateDecision> {
        let kind = RequestKind::of(request.method());
        if access.rate_class() == Rate::Free {
            let is_public = access.scope() == TokenScope::Public;
            return self.limiter.untouched(kind).filter(|_| !is_public);
        }
        if !self.auth.is_on() && !self.options.limit_without_auth {
            return self.limiter.untouched(kind);
        }
        if access.rate_class() == Rate::Hook {
            return self.hook(request).await;
        }
        let token = self.limiter.token(kind, &principal.token_key);
        if access.rate_class() == Rate::Token
            || token.as_ref().is_some_and(RateDecision::is_refused)
        {
            return token;
        }
        let workflow = self.workflow(principal, request).await;
        [token, workflow]
            .into_iter()
            .flatten()
            .min_by_key(|verdict| (!verdict.is_refused(), verdict.remaining))
    }

    /// Says the limit in an answer to a request that is not counted.
    pub(super) fn tell_limit(&self, method: &Method, response: &mut Response) {
        if let Some(verdict) = self.limiter.untouched(RequestKind::of(method)) {
            tell(&verdict, response);
        }
    }

    async fn hook(&self, request: &mut Request) -> Option<RateDecision> {
        let parameters = request.extract_parts::<RawPathParams>().await.ok()?;
        let (_, token) = parameters.iter().find(|(name, _)| *name == "token")?;
        self.limiter.hook(token)
    }

    async fn workflow(&self, principal: &Principal, request: &mut Request) -> Option<RateDecision> {
        let parameters = request.extract_parts::<RawPathParams>().await.ok()?;
        let (_, id) = parameters.iter().find(|(name, _)| *name == "id")?;
        self.limiter.workflow(principal.tenant.as_deref(), id)
    }
}

impl std::fmt::Debug for RequestGate {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Gate")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

/// The gate, as one route needs it.
pub(super) struct Guard {
    gate: Arc<RequestGate>,
    access: Access,
    route: &'static str,
}

type Check = fn(State<Arc<Guard>>, Request, Next) -> BoxFuture<'static, Response>;

impl Guard {
    pub(super) fn new(gate: Arc<RequestGate>, access: Access, route: &'static str) -> Self {
        Self {
            gate,
            access,
            route,
        }
    }

    pub(super) fn layer<T>(self) -> FromFnLayer<Check, Arc<Self>, T> {
        let check: Check = |State(guard), request, next| Box::pin(check(guard, request, next));
        from_fn_with_state(Arc::new(self), check)
    }
}

async fn check(guard: Arc<Guard>, request: Request, next: Next) -> Response {
    let Some(watch) = &guard.gate.watch else {
        return admit(&guard, request, next).await;
    };
    let began = Instant::now();
    let method = request.method().clone();
    let correlation = request.extensions().get::<Correlation>().cloned();
    let response = admit(&guard, request, next).await;
    watch(&Exchange {
        route: guard.route,
        method: method.as_str(),
        status: response.status().as_u16(),
        took: began.elapsed(),
        correlation: correlation.as_ref().map(Correlation::as_str),
    });
    response
}

async fn admit(guard: &Guard, mut request: Request, next: Next) -> Response {
    let Guard { gate, access, .. } = guard;
    if access.scope() != TokenScope::Public && gate.is_foreign(&request) {
        return code::FORBIDDEN
            .error("the request comes from a page of another origin")
            .hint("name the origin in `cors_origins`, if it may ask")
            .into_response();
    }
    let principal = match gate.principal(*access, request.headers()).await {
        Ok(principal) => principal,
        Err(error) => return error.into_response(),
    };
    let verdict = gate.count(*access, &principal, &mut request).await;
    let claimed = gate.claim(*access, &principal, &request);
    let refused = verdict.as_ref().filter(|verdict| verdict.is_refused());
    let mut response = match (refused, claimed) {
        (Some(verdict), _) => limited(verdict).into_response(),
        (None, Err(error)) => error.into_response(),
        (None, Ok(claimed)) => {
            let credential = principal.credential();
            request.extensions_mut().insert(principal);
            let mut response = pass(guard, request, next).await;
            if let Some(credential) = credential
                && response.extensions().get::<Streaming>().is_some()
            {
                let auth = gate.auth.clone();
                response = response.map(|body| Body::new(Polite::expiring(body, auth, credential)));
            }
            if let Some(claimed) = claimed {
                response.extensions_mut().insert(claimed);
            }
            response
        }
    };
    if let Some(verdict) = verdict {
        tell(&verdict, &mut response);
    }
    response
}

fn tell(verdict: &RateDecision, response: &mut Response) {
    let headers = response.headers_mut();
    headers.insert("x-ratelimit-limit", verdict.limit.into());
    headers.insert("x-ratelimit-remaining", verdict.remaining.into());
}

/// Lets the request through, with its body and its time bounded.
async fn pass(guard: &Guard, mut request: Request, next: Next) -> Response {
    let limit = guard.access.body_limit();
    let announced = announced(&request);
    let too_large = announced.is_some_and(|length| length > limit);
    if too_large && !guard.access.reads_beginning() {
        return body::too_large(limit).into_response();
    }
    if too_large {
        request.extensions_mut().insert(TooLarge);
    }
    let options = &guard.gate.options;
    let timeout = options.body_timeout;
    // Kept here until the request is answered, and the body with it.
    let _arrival = (limit > 0).then(|| {
        let client = guard.gate.client(guard.access, &request);
        let arrival = Arrival::new(&guard.gate.bodies, client, announced);
        request.extensions_mut().insert(Arc::clone(&arrival));
        arrival
    });
    let answer_by = AnswerBy(tokio::time::Instant::now() + options.request_timeout);
    request.extensions_mut().insert(answer_by);
    let request = request.map(|body| Body::new(Bounded::new(body, limit, timeout)));
    match tokio::time::timeout(options.request_timeout, next.run(request)).await {
        Ok(response) => response,
        Err(_) => code::TIMED_OUT
            .error("the answer took too long; it is not known how far the request came")
            .header(header::RETRY_AFTER, HeaderValue::from_static("1"))
            .into_response(),
    }
}

fn announced(request: &Request) -> Option<u64> {
    let length = request.headers().get(header::CONTENT_LENGTH)?;
    length.to_str().ok()?.parse().ok()
}

fn limited(verdict: &RateDecision) -> ApiError {
    code::RATE_LIMITED
        .error(format!(
            "too many requests; {} at once are allowed, and the next in {} s",
            verdict.limit, verdict.retry_after
        ))
        .header(header::RETRY_AFTER, verdict.retry_after.into())
}
