//! One GraphQL exchange with Monday. It answers 200 with errors in the body, in three shapes
//! of different age, and counts the complexity of queries against a budget.

use reqwest::Method;
use reqwest::header::AUTHORIZATION;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use windlass_engine::{ActionError, Context};

use crate::Options;
use crate::connector::{Account, Answer, Reason, Service, account};
use crate::http::client::Client;

/// How long to wait where Monday's budget is used up and it names no time: the budget is per
/// minute.
const BUDGET_MS: u64 = 60_000;

/// The Monday that the options name.
pub(super) fn service(options: &Options) -> Service {
    let base = options.addresses.monday.clone();
    Service {
        name: "Monday",
        setting: "WINDLASS_MONDAY_BASE_URL",
        base: Some(base.unwrap_or_else(|| "https://api.monday.com/v2".to_owned())),
        client: Client::new(options.http_allowed.clone()),
    }
}

/// An id, which Monday writes as digits and people as a number or as text.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum Id {
    /// As a number.
    Number(u64),
    /// As text.
    Text(String),
}

impl std::fmt::Display for Id {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => text.trim().fmt(f),
        }
    }
}

/// One attempt's exchanges.
pub(super) struct Api<'a> {
    service: &'a Service,
    pub(super) context: &'a Context,
    account: Account,
}

impl<'a> Api<'a> {
    pub(super) async fn new(
        service: &'a Service,
        context: &'a Context,
        credentials: Option<&str>,
    ) -> Result<Self, ActionError> {
        Ok(Self {
            service,
            context,
            account: account(context, credentials, "MONDAY_TOKEN", None).await?,
        })
    }

    /// Asks, and gives `data` with the answer that it is from.
    pub(super) async fn ask(
        &self,
        query: &str,
        variables: Value,
    ) -> Result<(Value, Answer), ActionError> {
        let url = self.service.url("")?;
        let request = self
            .service
            .request(Method::POST, url)?
            .header(AUTHORIZATION, &self.account.token)
            .json(&json!({ "query": query, "variables": variables }));
        let answer = self.service.exchange(self.context, request).await?;
        let data = understand(&answer)?;
        Ok((data, answer))
    }
}

pub(super) const NOT_UNDERSTOOD: Reason<'_> = Reason::passing(
    "MONDAY_ANSWER_INVALID",
    "the answer is not one of Monday's; check the address in WINDLASS_MONDAY_BASE_URL",
);

/// The data of an answer, or why there is none.
fn understand(answer: &Answer) -> Result<Value, ActionError> {
    let body: Value = answer.json().unwrap_or_default();
    if let Some(fault) = Fault::of(&body) {
        return Err(fault.error(answer));
    }
    match body.get("data") {
        Some(data) if answer.is_success() && data.is_object() => Ok(data.clone()),
        _ => Err(answer.error("Monday", by_status(answer))),
    }
}

fn by_status(answer: &Answer) -> Reason<'static> {
    match answer.status {
        401 => Reason::permanent(
            "MONDAY_UNAUTHORIZED",
            "the token is not valid; set MONDAY_TOKEN",
        ),
        403 => Reason::permanent("MONDAY_FORBIDDEN", "the token lacks a permission"),
        413 => Reason::permanent("MONDAY_TOO_LARGE", "the request is too large"),
        429 => Reason::passing("MONDAY_RATE_LIMITED", "too many requests"),
        _ if answer.is_passing() => {
            Reason::passing("MONDAY_UNAVAILABLE", "Monday cannot answer at the moment")
        }
        200..300 => NOT_UNDERSTOOD,
        _ => Reason::permanent("MONDAY_REFUSED", "the request was refused"),
    }
}

/// An error in an answer's body.
struct Fault {
    /// Monday's own code, where it has one.
    code: String,
    message: String,
    retry_in_ms: Option<u64>,
}

impl Fault {
    fn of(body: &Value) -> Option<Self> {
        let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
        let first = body.get("errors").and_then(Value::as_array);
        let first = first.and_then(|errors| errors.first());
        let inner = |pointer: &str| first.and_then(|error| error.pointer(pointer));
        let message = text(first)
            .or_else(|| text(inner("/message")))
            .or_else(|| text(body.get("error_message")))
            .or_else(|| text(body.get("error")));
        let code = text(inner("/extensions/code")).or_else(|| text(body.get("error_code")));
        if message.is_none() && code.is_none() && first.is_none() {
            return None;
        }
        let message = message.unwrap_or_else(|| "an error without a message".to_owned());
        let seconds = inner("/extensions/retry_in_seconds").and_then(Value::as_u64);
        Some(Self {
            code: code.unwrap_or_default(),
            retry_in_ms: seconds
                .or_else(|| reset_in(&message))
                .map(|seconds| seconds.saturating_mul(1000)),
            message,
        })
    }

    fn error(&self, answer: &Answer) -> ActionError {
        let message = match self.code.as_str() {
            "" => self.message.clone(),
            code => format!("{code}: {}", self.message),
        };
        let reason = Reason {
            message: &message,
            ..self.reason(answer)
        };
        let error = answer.error("Monday", reason);
        let is_limit = reason.code == "MONDAY_RATE_LIMITED";
        match (error.retry_after_ms, self.retry_in_ms) {
            (None, Some(wait)) if reason.retriable => error.retry_after_ms(wait),
            (None, None) if is_limit && self.code.to_lowercase().contains("complexity") => {
                error.retry_after_ms(BUDGET_MS)
            }
            _ => error,
        }
    }

    /// What one of Monday's errors means here, by its documentation.
    fn reason(&self, answer: &Answer) -> Reason<'static> {
        let passing = |code| Reason::passing(code, "");
        let permanent = |code| Reason::permanent(code, "");
        let code = self.code.replace('_', "").to_lowercase();
        let message = self.message.to_lowercase();
        match code.trim_end_matches("exception") {
            "complexity"
            | "complexitybudgetexhausted"
            | "maxconcurrencyexceeded"
            | "ratelimitexceeded"
            | "fieldminuteratelimitexceeded"
            | "minutelimitexceeded"
            | "dailylimitexceeded"
            | "ipratelimitexceeded"
            | "concurrencylimitexceeded" => passing("MONDAY_RATE_LIMITED"),
            // A single query that asks for more than the whole budget never succeeds.
            "maxcomplexityexceeded" => permanent("MONDAY_TOO_LARGE"),
            "internalservererror"
            | "apitemporarilyblocked"
            | "resourcelocked"
            | "cursor"
            | "cursorexpired"
            | "cursorexpirederror" => passing("MONDAY_UNAVAILABLE"),
            "userunauthorized"
            | "userunauthrorized"
            | "missingrequiredpermissions"
            | "unauthorizedfieldortype" => permanent("MONDAY_FORBIDDEN"),
            "notauthenticated" | "unauthenticated" | "unauthorized" => {
                permanent("MONDAY_UNAUTHORIZED")
            }
            "invalidboardid" | "boardnotfound" => permanent("MONDAY_BOARD_NOT_FOUND"),
            "invalidcolumnid" | "columnnotfound" => permanent("MONDAY_COLUMN_NOT_FOUND"),
            "invalidgroupid" | "groupnotfound" => permanent("MONDAY_GROUP_NOT_FOUND"),
            "columnvalue" | "correctedvalue" => permanent("MONDAY_COLUMN_VALUE"),
            "itemnametoolong" | "itemslimitation" => permanent("MONDAY_TOO_LARGE"),
            _ if message.contains("not authenticated") => permanent("MONDAY_UNAUTHORIZED"),
            _ if message.contains("complexity budget") || message.contains("limit exceeded") => {
                passing("MONDAY_RATE_LIMITED")
            }
            _ if message == "internal server error" => passing("MONDAY_UNAVAILABLE"),
            _ if answer.is_success() => permanent("MONDAY_REFUSED"),
            _ => by_status(answer),
        }
    }
}

/// The seconds of "… reset in 25 seconds".
fn reset_in(message: &str) -> Option<u64> {
    let (_, rest) = message.split_once("reset in ")?;
    rest.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(status: u16, body: &Value) -> ActionError {
        let answer = Answer {
            method: "POST".to_owned(),
            url: "https://monday.example/v2".to_owned(),
            status,
            retry_after_ms: None,
            body: body.to_string().into_bytes(),
            excerpt: String::new(),
        };
        understand(&answer).expect_err("an error")
    }

    #[test]
    fn errors_in_the_body_are_told_apart() {
        let new = |code: &str| json!({ "data": {}, "errors": [{ "message": "m", "extensions": { "code": code } }] });
        for (status, body, code, retriable) in [
            (
                200,
                new("COMPLEXITY_BUDGET_EXHAUSTED"),
                "MONDAY_RATE_LIMITED",
                true,
            ),
            (
                200,
                new("UserUnauthorizedException"),
                "MONDAY_FORBIDDEN",
                false,
            ),
            (
                200,
                new("InvalidBoardIdException"),
                "MONDAY_BOARD_NOT_FOUND",
                false,
            ),
            (
                200,
                new("ColumnValueException"),
                "MONDAY_COLUMN_VALUE",
                false,
            ),
            (
                429,
                new("maxConcurrencyExceeded"),
                "MONDAY_RATE_LIMITED",
                true,
            ),
            (
                200,
                json!({ "errors": ["Not Authenticated"] }),
                "MONDAY_UNAUTHORIZED",
                false,
            ),
            (
                200,
                json!({ "error_code": "X", "error_message": "m" }),
                "MONDAY_REFUSED",
                false,
            ),
            (
                500,
                json!({ "error_message": "Internal server error" }),
                "MONDAY_UNAVAILABLE",
                true,
            ),
            (502, json!(null), "MONDAY_UNAVAILABLE", true),
            (200, json!("<html>"), "MONDAY_ANSWER_INVALID", true),
        ] {
            let error = error(status, &body);
            assert_eq!((&*error.code, error.retriable), (code, retriable), "{body}");
        }
    }

    #[test]
    fn the_budget_says_when_it_is_full_again() {
        let old = json!({ "error_code": "ComplexityException",
            "error_message": "Complexity budget exhausted, reset in 25 seconds" });
        assert_eq!(error(200, &old).retry_after_ms, Some(25_000));
        let new = json!({ "errors": [{ "message": "m", "extensions": {
            "code": "COMPLEXITY_BUDGET_EXHAUSTED", "retry_in_seconds": 7 } }] });
        assert_eq!(error(200, &new).retry_after_ms, Some(7_000));
    }
}
