//! Handlers that describe themselves: plain async functions whose arguments and answers
//! all know their schemas.

use std::future::Future;

use axum::handler::Handler;
use axum::response::IntoResponse;

use super::Operation;
use crate::error::ApiError;

/// An argument of a handler that says what the client must send.
pub trait Input {
    /// Adds parameters, a body, and the codes that reading them may fail with.
    fn describe(operation: &mut Operation<'_>);
}

/// An answer that says what the client gets.
pub trait Output: IntoResponse {
    /// Adds status, type and schema.
    fn describe(operation: &mut Operation<'_>);
}

/// A handler: an async function of [`Input`]s to `Result<Output, ApiError>`, of which only
/// the last may read the body.
pub trait Endpoint<M, S>: Handler<M, S> {
    /// Adds what its arguments and its answer are.
    fn describe(operation: &mut Operation<'_>);
}

impl<F, Fut, S, R> Endpoint<((),), S> for F
where
    F: Handler<((),), S> + FnOnce() -> Fut,
    Fut: Future<Output = Result<R, ApiError>>,
    R: Output,
{
    fn describe(operation: &mut Operation<'_>) {
        R::describe(operation);
    }
}

macro_rules! endpoint {
    ($($argument:ident),+) => {
        impl<F, Fut, S, R, M, $($argument),+> Endpoint<(M, $($argument,)+), S> for F
        where
            F: Handler<(M, $($argument,)+), S> + FnOnce($($argument),+) -> Fut,
            Fut: Future<Output = Result<R, ApiError>>,
            R: Output,
            $($argument: Input,)+
        {
            fn describe(operation: &mut Operation<'_>) {
                $($argument::describe(operation);)+
                R::describe(operation);
            }
        }
    };
}

endpoint!(A);
endpoint!(A, B);
endpoint!(A, B, C);
endpoint!(A, B, C, D);
endpoint!(A, B, C, D, E);
endpoint!(A, B, C, D, E, G);
endpoint!(A, B, C, D, E, G, H);
endpoint!(A, B, C, D, E, G, H, I);
