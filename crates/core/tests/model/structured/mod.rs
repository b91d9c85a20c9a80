//! A deliberately naive model of a run with bodies, joins that need not wait for all,
//! timers, signals and compensations (semantics §2–§5, §7, §11).
//!
//! It reads the definition itself, keeps a tree of names, and after each step draws
//! every consequence by going round until nothing changes. Where several consequences
//! are due at once, they are drawn in this order, one at a time:
//!
//! 1. edges resolve and joins of `all` decide (`route`);
//! 2. what is ready opens;
//! 3. joins of `any` and `atLeast` decide, in definition order;
//! 4. a failure that no failure edge took stops its scope, under `failFast`;
//! 5. loops that have begun go on, in definition order, inner ones before outer ones
//!    (`rounds`);
//! 6. one loop or wait that is open begins: in the scope that was opened first, the first
//!    in definition order.

pub(crate) mod expression;
pub(crate) mod generate;
pub(crate) mod read;
pub(crate) mod report;
pub(crate) mod rounds;
pub(crate) mod route;
pub(crate) mod run;
pub(crate) mod scope;
pub(crate) mod undo;

pub(crate) use run::Model;
pub(crate) use scope::Status;

use serde_json::{Value, json};

/// A worker's word on an attempt.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Word {
    Success(Value),
    Failure,
    Retriable,
    Skip,
    /// It stopped because it was asked to.
    Stopped,
}

/// Something that is done to a run.
#[derive(Clone, Debug)]
pub(crate) enum Move {
    Start,
    Word(String, u32, Word),
    /// The time of a waiting instance has come.
    Fire(String),
    Signal(String, Value),
    Cancel,
    TimeOut,
    GraceEnds,
    /// A word on the compensation that is next.
    Undone(Word),
}

/// What a node's failure is stored as, in the way of `Word`.
pub(crate) fn error_of(word: &Word) -> Value {
    match word {
        Word::Retriable => error("BUSY", true, Value::Null),
        _ => error("BOOM", false, Value::Null),
    }
}

/// An error without its message, which is the engine's to word.
pub(crate) fn error(code: &str, retriable: bool, details: Value) -> Value {
    let mut error = json!({ "code": code, "retriable": retriable });
    if !details.is_null() {
        error["details"] = details;
    }
    error
}
