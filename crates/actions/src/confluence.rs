//! `confluence.create-page`: makes a page by Confluence's REST API, version 2.
//!
//! A title is unique in its space. The page carries its marker as an anchor at the end of its
//! body, so that a repeated attempt can tell its own page from one that was there before.

use base64::Engine as _;
use reqwest::Method;
use reqwest::header::AUTHORIZATION;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use windlass_engine::{Action, ActionError, Context, Reply};

use crate::Options;
use crate::connector::{Account, Answer, Marker, Reason, Service, account, earliest_ms, moment_ms};
use crate::http::client::Client;

/// Confluence refuses longer titles.
const MAX_TITLE_CHARACTERS: usize = 255;

/// Confluence refuses larger bodies.
const MAX_BODY_BYTES: usize = 5 * 1024 * 1024;

/// Makes a page.
#[derive(Clone, Debug)]
pub struct CreatePage {
    service: Service,
}

/// What to make.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(example = json!({ "space": "PROJECTS", "title": "Apollo - Project Brief",
    "body": "<p>What it is about.</p>" }))]
pub struct Parameters {
    /// The space's key.
    space: String,
    /// The title, at most 255 characters; it is unique in its space.
    title: String,
    /// The body in Confluence's storage format, which is XHTML; empty by default.
    #[serde(default)]
    body: Option<String>,
    /// The id of the page above it; the space's home page without it.
    #[serde(default)]
    parent_id: Option<Value>,
    /// The name of the secret with the token, instead of `CONFLUENCE_TOKEN`; its user is the
    /// secret of that name with `_USER`.
    #[serde(default)]
    credentials: Option<String>,
}

/// What was made.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(example = json!({ "id": "98319",
    "url": "https://acme.atlassian.net/wiki/spaces/PROJECTS/pages/98319" }))]
pub struct Output {
    /// The page's id.
    id: String,
    /// Where to look at it.
    url: String,
}

impl CreatePage {
    /// Makes pages in the Confluence that the options name.
    pub fn new(options: &Options) -> Self {
        Self {
            service: Service {
                name: "Confluence",
                setting: "WINDLASS_CONFLUENCE_BASE_URL",
                base: options.addresses.confluence.clone(),
                client: Client::new(options.http_allowed.clone()),
            },
        }
    }
}

impl Action for CreatePage {
    type Parameters = Parameters;
    type Output = Output;

    fn name(&self) -> &str {
        "confluence.create-page"
    }

    fn description(&self) -> &str {
        "Makes a page in a Confluence space."
    }

    async fn run(
        &self,
        context: Context,
        parameters: Parameters,
    ) -> Result<Reply<Output>, ActionError> {
        check(&parameters)?;
        let name = parameters.credentials.as_deref();
        let user = Some("CONFLUENCE_USER");
        let call = Call {
            service: &self.service,
            context: &context,
            account: account(&context, name, "CONFLUENCE_TOKEN", user).await?,
            marker: Marker::of(&context),
        };
        let output = call.make(&parameters).await?;
        let url = Some(output.url.as_str());
        let links = call.marker.links("confluence", "page", &output.id, url);
        Ok(links
            .into_iter()
            .fold(Reply::new(output), Reply::with_resource))
    }
}

fn check(parameters: &Parameters) -> Result<(), ActionError> {
    let characters = parameters.title.chars().count();
    let bytes = parameters.body.as_ref().map_or(0, String::len);
    if characters == 0 {
        let message = "a page needs a title; 'title' is empty";
        return Err(ActionError::failed("PARAMETERS_INVALID", message));
    }
    let message = if characters > MAX_TITLE_CHARACTERS {
        format!("the title has {characters} characters; Confluence takes {MAX_TITLE_CHARACTERS}")
    } else if bytes > MAX_BODY_BYTES {
        format!("the body has {bytes} bytes; Confluence takes {MAX_BODY_BYTES}")
    } else {
        return Ok(());
    };
    Err(ActionError::failed("CONFLUENCE_TOO_LARGE", message))
}

/// One attempt's exchanges.
struct Call<'a> {
    service: &'a Service,
    context: &'a Context,
    account: Account,
    marker: Marker,
}

/// The fields that are read of the two lists.
#[derive(Deserialize)]
struct List<T> {
    results: Vec<T>,
}

#[derive(Deserialize)]
struct Space {
    id: Value,
    #[serde(default)]
    key: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Page {
    id: Value,
    #[serde(default)]
    title: Option<String>,
    #[serde(default)]
    body: Value,
    #[serde(default)]
    created_at: Option<String>,
    #[serde(default, rename = "_links")]
    links: Value,
}

impl Call<'_> {
    async fn make(&self, parameters: &Parameters) -> Result<Output, ActionError> {
        if let Some(id) = self.marker.made(self.context, "confluence", "page").await? {
            let path = format!("/api/v2/pages/{id}");
            let answer = self.get(&path, &[]).await?;
            let page: Option<Page> = answer.json();
            if let (true, Some(page)) = (answer.is_success(), page) {
                return self.output(&page);
            }
        }
        let space = self.space(&parameters.space).await?;
        if let Some(page) = self.page(&space, &parameters.title).await? {
            return self.existing(page, parameters).await;
        }
        let answer = self.post(&space, parameters).await?;
        if answer.is_success() {
            let page: Option<Page> = answer.json();
            let page = page.ok_or_else(|| answer.error("Confluence", NOT_UNDERSTOOD))?;
            return self.output(&page);
        }
        // Another request may have been faster, also one of an earlier attempt.
        if says_exists(&answer)
            && let Some(page) = self.page(&space, &parameters.title).await?
        {
            return self.existing(page, parameters).await;
        }
        Err(self.refused(&answer))
    }

    async fn space(&self, key: &str) -> Result<String, ActionError> {
        let answer = self.get("/api/v2/spaces", &[("keys", key)]).await?;
        if !answer.is_success() {
            return Err(self.refused(&answer));
        }
        let list: Option<List<Space>> = answer.json();
        let list = list.ok_or_else(|| answer.error("Confluence", NOT_UNDERSTOOD))?;
        let is_it = |space: &Space| {
            let same = |known: &String| known.eq_ignore_ascii_case(key);
            space.key.as_ref().is_none_or(same)
        };
        let space = list.results.iter().find(|space| is_it(space));
        space.map(|space| text(&space.id)).ok_or_else(|| {
            let message = format!("there is no space '{key}', or the account cannot see it");
            let reason = Reason::permanent("CONFLUENCE_SPACE_NOT_FOUND", &message);
            answer.error("Confluence", reason)
        })
    }

    /// The page of this title in the space.
    async fn page(&self, space: &str, title: &str) -> Result<Option<Page>, ActionError> {
        let query = [
            ("space-id", space),
            ("title", title),
            ("body-format", "storage"),
        ];
        let answer = self.get("/api/v2/pages", &query).await?;
        if !answer.is_success() {
            return Err(self.refused(&answer));
        }
        let list: Option<List<Page>> = answer.json();
        let list = list.ok_or_else(|| answer.error("Confluence", NOT_UNDERSTOOD))?;
        let is_it = |page: &Page| page.title.as_deref().is_none_or(|known| known == title);
        Ok(list.results.into_iter().find(is_it))
    }

    /// A page with this title: that of an earlier attempt, or one that is in the way.
    async fn existing(
        &self,
        mut page: Page,
        parameters: &Parameters,
    ) -> Result<Output, ActionError> {
        if !has_body(&page) {
            // Lists may leave it out.
            let path = format!("/api/v2/pages/{}", text(&page.id));
            let answer = self.get(&path, &[("body-format", "storage")]).await?;
            let whole: Option<Page> = answer.json().filter(|_| answer.is_success());
            page = whole.unwrap_or(page);
        }
        let is_ours = if has_body(&page) {
            page.body.to_string().contains(&self.marker.id)
        } else {
            // Without the body, a page made since the run was requested counts as ours.
            let made = page.created_at.as_deref().and_then(moment_ms);
            made >= Some(earliest_ms(self.context, 0))
        };
        if is_ours {
            return self.output(&page);
        }
        let (title, space, id) = (&parameters.title, &parameters.space, text(&page.id));
        let message = format!(
            "Confluence: the space '{space}' has a page '{title}' already (id {id}); choose \
             another title, or remove that page"
        );
        let error = ActionError::failed("CONFLUENCE_PAGE_EXISTS", message);
        Err(error.with_details(&json!({ "id": id, "title": title, "space": space })))
    }

    async fn post(&self, space: &str, parameters: &Parameters) -> Result<Answer, ActionError> {
        let body = parameters.body.as_deref().unwrap_or_default();
        // An anchor shows nothing, and is kept when the page is edited.
        let marked = format!(
            "{body}<ac:structured-macro ac:name=\"anchor\"><ac:parameter ac:name=\"\">windlass-{}\
             </ac:parameter></ac:structured-macro>",
            self.marker.id
        );
        let mut page = json!({
            "spaceId": space,
            "status": "current",
            "title": parameters.title,
            "body": { "representation": "storage", "value": marked },
        });
        if let Some(parent) = &parameters.parent_id {
            page["parentId"] = json!(text(parent));
        }
        let url = self.service.url("/api/v2/pages")?;
        let request = self.service.request(Method::POST, url)?.json(&page);
        self.send(request).await
    }

    async fn get(&self, path: &str, query: &[(&str, &str)]) -> Result<Answer, ActionError> {
        let url = self.service.url(path)?;
        let request = self.service.request(Method::GET, url)?.query(query);
        self.send(request).await
    }

    async fn send(&self, request: reqwest::RequestBuilder) -> Result<Answer, ActionError> {
        let token = &self.account.token;
        let proof = match &self.account.user {
            None => format!("Bearer {token}"),
            Some(user) => {
                let pair = format!("{}:{token}", user.trim());
                let pair = base64::engine::general_purpose::STANDARD.encode(pair);
                self.context.conceal(pair.clone());
                format!("Basic {pair}")
            }
        };
        let request = request
            .header(AUTHORIZATION, proof)
            .header("accept", "application/json");
        self.service.exchange(self.context, request).await
    }

    fn output(&self, page: &Page) -> Result<Output, ActionError> {
        let id = text(&page.id);
        let link = |name: &str| page.links.get(name).and_then(Value::as_str);
        let base = match link("base") {
            Some(base) => base.to_owned(),
            None => self.service.url("")?.to_string(),
        };
        let path = match link("webui") {
            Some(path) => path.to_owned(),
            None => format!("/pages/viewpage.action?pageId={id}"),
        };
        let url = format!("{}{path}", base.trim_end_matches('/'));
        Ok(Output { id, url })
    }

    /// Why an answer is no success, by its status.
    fn refused(&self, answer: &Answer) -> ActionError {
        let said = said(answer);
        let reason = match answer.status {
            401 => Reason::permanent(
                "CONFLUENCE_UNAUTHORIZED",
                "the credentials are not valid; set CONFLUENCE_TOKEN, and CONFLUENCE_USER for \
                 an API token of an account",
            ),
            403 => Reason::permanent("CONFLUENCE_FORBIDDEN", "the account lacks a permission"),
            404 => Reason::permanent(
                "CONFLUENCE_NOT_FOUND",
                "there is no such space or parent page, or WINDLASS_CONFLUENCE_BASE_URL is not \
                 the site's /wiki",
            ),
            _ if says_exists(answer) => Reason::permanent(
                "CONFLUENCE_PAGE_EXISTS",
                "a page of this title exists already; choose another title",
            ),
            409 => Reason::passing("CONFLUENCE_CONFLICT", "the page was changed meanwhile"),
            413 => Reason::permanent("CONFLUENCE_TOO_LARGE", "the page is too large"),
            429 => Reason::passing("CONFLUENCE_RATE_LIMITED", "too many requests"),
            _ if answer.is_passing() => Reason::passing(
                "CONFLUENCE_UNAVAILABLE",
                "Confluence cannot answer at the moment",
            ),
            200..300 => NOT_UNDERSTOOD,
            _ => Reason::permanent("CONFLUENCE_REFUSED", "the request was refused"),
        };
        let message = match said {
            Some(said) => format!("{}: {said}", reason.message),
            None => reason.message.to_owned(),
        };
        let reason = Reason {
            message: &message,
            ..reason
        };
        answer.error("Confluence", reason)
    }
}

const NOT_UNDERSTOOD: Reason<'_> = Reason::passing(
    "CONFLUENCE_ANSWER_INVALID",
    "the answer is not one of Confluence's; check the address in WINDLASS_CONFLUENCE_BASE_URL",
);

fn has_body(page: &Page) -> bool {
    page.body.as_object().is_some_and(|body| !body.is_empty())
}

/// What Confluence says is wrong, in version 2's shape or in the older one.
fn said(answer: &Answer) -> Option<String> {
    let body: Value = answer.json()?;
    let first = body.pointer("/errors/0/title").or(body.get("message"));
    first.and_then(Value::as_str).map(str::to_owned)
}

fn says_exists(answer: &Answer) -> bool {
    let text = answer.excerpt.to_lowercase();
    matches!(answer.status, 400 | 409) && text.contains("title") && text.contains("exist")
}

/// An id as text: version 2 writes texts, and older ones numbers.
fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
