//! The codes of failures that come before a handler: from the connection, the token, the
//! limits, and the reading of parameters and bodies.

use crate::error::Code;

/// There is no such route.
pub const ROUTE_NOT_FOUND: Code = Code::new(404, "ROUTE_NOT_FOUND", "No such route");
/// The route exists, with other methods.
pub const METHOD_NOT_ALLOWED: Code =
    Code::new(405, "METHOD_NOT_ALLOWED", "The route has no such method");
/// The body is larger than its route allows.
pub const BODY_TOO_LARGE: Code = Code::new(413, "BODY_TOO_LARGE", "The body is too large");
/// The body is of a type that the route does not read.
pub const MEDIA_TYPE_UNSUPPORTED: Code = Code::new(
    415,
    "MEDIA_TYPE_UNSUPPORTED",
    "The body is of a type that is not read here",
);
/// The body is not JSON.
pub const BODY_MALFORMED: Code = Code::new(400, "BODY_MALFORMED", "The body is not JSON");
/// The body is JSON, and does not fit its schema.
pub const BODY_INVALID: Code = Code::new(400, "BODY_INVALID", "The body does not fit its schema");
/// The body broke off.
pub const BODY_INCOMPLETE: Code = Code::new(400, "BODY_INCOMPLETE", "The body broke off");
/// A query parameter is unknown or has an impossible value.
pub const QUERY_INVALID: Code = Code::new(400, "QUERY_INVALID", "A query parameter is wrong");
/// A part of the path has an impossible value.
pub const PATH_INVALID: Code = Code::new(400, "PATH_INVALID", "A part of the path is wrong");
/// A header has an impossible value.
pub const HEADER_INVALID: Code = Code::new(400, "HEADER_INVALID", "A header is wrong");
/// The body did not arrive in time.
pub const REQUEST_TIMEOUT: Code =
    Code::new(408, "REQUEST_TIMEOUT", "The body did not arrive in time");
/// The URI is longer than the limit.
pub const URI_TOO_LONG: Code = Code::new(414, "URI_TOO_LONG", "The URI is too long");
/// The headers are larger than the limit.
pub const HEADERS_TOO_LARGE: Code =
    Code::new(431, "HEADERS_TOO_LARGE", "The headers are too large");
/// There is no token, or it is not valid.
pub const UNAUTHENTICATED: Code = Code::new(401, "UNAUTHENTICATED", "A valid token is needed");
/// The token does not carry the scope.
pub const FORBIDDEN: Code = Code::new(403, "FORBIDDEN", "The token lacks a scope");
/// The request names the server by a name that is not its own.
pub const HOST_NOT_ALLOWED: Code = Code::new(
    403,
    "HOST_NOT_ALLOWED",
    "The server is not known by this name",
);
/// Too many requests.
pub const RATE_LIMITED: Code = Code::new(429, "RATE_LIMITED", "Too many requests");
/// The server failed; the request is not the cause.
pub const INTERNAL: Code = Code::new(500, "INTERNAL", "Something broke");
/// The bodies in memory, or those on disk, leave no room for this one.
pub const BODY_MEMORY_EXHAUSTED: Code = Code::new(
    503,
    "BODY_MEMORY_EXHAUSTED",
    "There is no room for the body now",
);
/// A large body could not be kept on disk while it arrived.
pub const BODY_SPOOL_FAILED: Code =
    Code::new(503, "BODY_SPOOL_FAILED", "The body cannot be kept on disk");
/// The connections, or the client's share of them, are used up.
pub const CONNECTIONS_EXHAUSTED: Code = Code::new(
    503,
    "CONNECTIONS_EXHAUSTED",
    "Too many connections or requests at once",
);
/// The server is not ready, or about to stop.
pub const UNAVAILABLE: Code = Code::new(503, "UNAVAILABLE", "The server is not ready");
/// The answer took longer than the limit.
pub const TIMED_OUT: Code = Code::new(503, "TIMED_OUT", "The answer took too long");

/// All of them, for the documentation.
pub const ALL: &[Code] = &[
    ROUTE_NOT_FOUND,
    METHOD_NOT_ALLOWED,
    BODY_TOO_LARGE,
    MEDIA_TYPE_UNSUPPORTED,
    BODY_MALFORMED,
    BODY_INVALID,
    BODY_INCOMPLETE,
    QUERY_INVALID,
    PATH_INVALID,
    HEADER_INVALID,
    REQUEST_TIMEOUT,
    URI_TOO_LONG,
    HEADERS_TOO_LARGE,
    UNAUTHENTICATED,
    FORBIDDEN,
    HOST_NOT_ALLOWED,
    RATE_LIMITED,
    INTERNAL,
    BODY_MEMORY_EXHAUSTED,
    BODY_SPOOL_FAILED,
    CONNECTIONS_EXHAUSTED,
    UNAVAILABLE,
    TIMED_OUT,
];
