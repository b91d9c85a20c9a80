//! The pages of a list, by the header `Link` or by a cursor that an expression finds. A page
//! leads only to its own origin: the request's credentials go with it.

use serde_json::{Value, json};
use url::Url;
use windlass_engine::{ActionError, Reply};
use windlass_expr::{Document, Expression, ExpressionLimits, Reference, Scope};

use super::parameters::Paginate;
use super::response::{self, Page};
use super::{Call, Output, guard, invalid, text};

const DEFAULT_PAGES: usize = 100;

/// Reads all pages, and puts their items together.
pub(super) async fn read(
    call: &Call<'_>,
    paginate: &Paginate,
) -> Result<Reply<Output>, ActionError> {
    let cursor = compiled("cursor", paginate.cursor.as_deref())?;
    let items = compiled("items", paginate.items.as_deref())?;
    let most = paginate.max_pages.unwrap_or(DEFAULT_PAGES);
    let limit = response::limit(call.parameters);
    let mut url = call.url.clone();
    let (mut all, mut bytes, mut seen) = (Vec::new(), 0, Vec::new());
    loop {
        seen.push(url.clone());
        let page = call.page(url.clone()).await?;
        bytes += page.bytes;
        if bytes > limit as u64 {
            let message = format!("the pages have more than {limit} bytes together");
            return Err(ActionError::failed("OUTPUT_LIMIT", message));
        }
        match found(items.as_ref(), &page)? {
            Value::Array(list) => all.extend(list),
            Value::Null => {}
            one => all.push(one),
        }
        let next = match &cursor {
            None => link(&page),
            Some(cursor) => leads_to(call, paginate, &page, &found(Some(cursor), &page)?)?,
        };
        let Some(next) = next else {
            let meta = json!({ "bytes": bytes, "pages": seen.len() });
            let page = Page {
                body: Value::Array(all),
                ..page
            };
            return Ok(Reply::new(page.output(Some(seen.len()))).with_meta(&meta));
        };
        if next.origin() != call.url.origin() {
            return Err(wrong(
                "the next page is on another origin, which gets no credentials",
            ));
        }
        if seen.contains(&next) {
            return Err(wrong("a page leads to one that was read before"));
        }
        if seen.len() >= most {
            return Err(wrong(&format!(
                "there are more than {most} pages; raise 'maxPages' or ask for less"
            )));
        }
        url = next;
    }
}

fn wrong(message: &str) -> ActionError {
    ActionError::failed("HTTP_PAGINATION", message)
}

fn compiled(name: &str, source: Option<&str>) -> Result<Option<Expression>, ActionError> {
    let Some(source) = source else {
        return Ok(None);
    };
    let scope = Scope::new(&["body", "headers", "status"], &[]);
    let compiled = Expression::compile(source, &scope, &ExpressionLimits::default());
    compiled.map(Some).map_err(|problems| {
        let problem = problems.first().map(ToString::to_string);
        let problem = problem.unwrap_or_default();
        invalid(format!(
            "paginate.{name} is no usable expression: {problem}"
        ))
    })
}

/// The value of an expression on a page; without one, the body.
fn found(expression: Option<&Expression>, page: &Page) -> Result<Value, ActionError> {
    let Some(expression) = expression else {
        return Ok(page.body.clone());
    };
    let failed = |error: &dyn std::fmt::Display| {
        let source = expression.source();
        wrong(&format!(
            "'{source}' cannot be evaluated on a page: {error}"
        ))
    };
    let parse = |value: Value| {
        let text = value.to_string();
        Document::parse(text).map_err(|error| failed(&error))
    };
    let mut inputs = Vec::new();
    for reference in expression.references() {
        inputs.push(parse(match reference {
            Reference::Value(name) if &**name == "body" => page.body.clone(),
            Reference::Value(name) if &**name == "headers" => json!(page.headers),
            _ => json!(page.status),
        })?);
    }
    let inputs: Vec<Option<&Document>> = inputs.iter().map(Some).collect();
    let value = expression.evaluate(&inputs, &ExpressionLimits::default());
    let value = value.map_err(|error| failed(&error))?;
    if value.is_undefined() {
        return Ok(Value::Null);
    }
    value.to_json().map_err(|error| failed(&error))
}

/// Where a cursor leads; nothing on the last page.
fn leads_to(
    call: &Call<'_>,
    paginate: &Paginate,
    page: &Page,
    cursor: &Value,
) -> Result<Option<Url>, ActionError> {
    if matches!(cursor, Value::Null | Value::Bool(false)) || cursor == "" {
        return Ok(None);
    }
    let cursor = text(cursor);
    let Some(name) = &paginate.parameter else {
        let current = guard::parse(&page.url)?;
        let next = current.join(&cursor);
        return next
            .map(Some)
            .map_err(|_| wrong(&format!("'{cursor}' is not the address of a page")));
    };
    let mut next = call.url.clone();
    let kept: Vec<(String, String)> = next
        .query_pairs()
        .filter(|(known, _)| known != name)
        .map(|(known, value)| (known.into_owned(), value.into_owned()))
        .collect();
    next.query_pairs_mut()
        .clear()
        .extend_pairs(kept)
        .append_pair(name, &cursor);
    Ok(Some(next))
}

/// The address of `rel="next"` (RFC 8288).
fn link(page: &Page) -> Option<Url> {
    let header = page.headers.get("link")?;
    let current = Url::parse(&page.url).ok()?;
    let mut rest = header.as_str();
    while let Some(start) = rest.find('<') {
        let end = start + rest[start..].find('>')?;
        let target = &rest[start + 1..end];
        rest = &rest[end + 1..];
        let parameters = &rest[..rest.find('<').unwrap_or(rest.len())];
        let is_next = parameters.split(';').any(|parameter| {
            let (name, value) = parameter.split_once('=').unwrap_or_default();
            let value = value.trim().trim_end_matches(',').trim().trim_matches('"');
            name.trim().eq_ignore_ascii_case("rel")
                && value
                    .split_whitespace()
                    .any(|rel| rel.eq_ignore_ascii_case("next"))
        });
        if is_next {
            return current.join(target).ok();
        }
    }
    None
}
