//! A Confluence with one space.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::{ServiceReply, ServiceRequest, StubServer, ok};

pub const TOKEN: &str = "confluence-token-1";
pub const SPACE: &str = "PROJECTS";

/// The server, and the pages of its space.
pub struct Confluence {
    pub server: StubServer,
    pages: Arc<Mutex<Vec<Value>>>,
}

impl Confluence {
    pub fn start() -> Self {
        Self::new(true)
    }

    /// One whose lists leave the bodies of pages out.
    pub fn without_bodies_in_lists() -> Self {
        Self::new(false)
    }

    fn new(bodies: bool) -> Self {
        let pages: Arc<Mutex<Vec<Value>>> = Arc::default();
        let shared = Arc::clone(&pages);
        let server = StubServer::start(move |request| handle(request, &shared, bodies));
        Self { server, pages }
    }

    /// The site's `/wiki`.
    pub fn address(&self) -> String {
        format!("{}/wiki", self.server.url)
    }

    pub fn pages(&self) -> Vec<Value> {
        self.pages.lock().expect("pages").clone()
    }

    /// A page that a person made.
    pub fn put(&self, title: &str) {
        let page = json!({ "id": "7", "title": title, "createdAt": "2099-01-01T00:00:00Z",
            "body": { "storage": { "value": "<p>by hand</p>" } }, "_links": {} });
        self.pages.lock().expect("pages").push(page);
    }
}

fn refuse(status: u16, title: &str) -> ServiceReply {
    let error = json!({ "status": status, "code": "X", "title": title, "detail": null });
    ServiceReply::Json(status, Vec::new(), json!({ "errors": [error] }))
}

fn handle(request: &ServiceRequest, pages: &Mutex<Vec<Value>>, bodies: bool) -> ServiceReply {
    // "me:confluence-token-1"
    let basic = "Basic bWU6Y29uZmx1ZW5jZS10b2tlbi0x";
    let proof = request.header("authorization");
    if proof != format!("Bearer {TOKEN}") && proof != basic {
        return refuse(401, "Unauthorized");
    }
    let mut pages = pages.lock().expect("pages");
    match (request.method.as_str(), request.path.as_str()) {
        ("GET", "/wiki/api/v2/spaces") => {
            let found = request.parameter("keys") == SPACE;
            let space = found.then(|| json!({ "id": "98306", "key": SPACE, "name": "Projects" }));
            ok(json!({ "results": space.into_iter().collect::<Vec<_>>(), "_links": {} }))
        }
        ("GET", "/wiki/api/v2/pages") => {
            let title = request.parameter("title");
            let mut found: Vec<Value> = pages.clone();
            found.retain(|page| page["title"] == title);
            for page in found.iter_mut().filter(|_| !bodies) {
                page["body"] = json!({});
            }
            ok(json!({ "results": found, "_links": {} }))
        }
        ("POST", "/wiki/api/v2/pages") => {
            let asked = request.json();
            if asked["spaceId"] != "98306" {
                return refuse(404, "No space");
            }
            if pages.iter().any(|page| page["title"] == asked["title"]) {
                return refuse(400, "A page with this title already exists in this space");
            }
            let id = (98319 + pages.len()).to_string();
            let page = json!({
                "id": id, "title": asked["title"], "parentId": asked["parentId"],
                "createdAt": "2099-01-01T00:00:00Z",
                "body": { "storage": asked["body"] },
                "_links": { "base": "https://acme.atlassian.example/wiki",
                    "webui": format!("/spaces/{SPACE}/pages/{id}") },
            });
            pages.push(page.clone());
            ok(page)
        }
        ("GET", path) => {
            let id = path.strip_prefix("/wiki/api/v2/pages/").unwrap_or_default();
            let page = pages.iter().find(|page| page["id"] == id);
            page.map_or_else(|| refuse(404, "Not found"), |page| ok(page.clone()))
        }
        _ => refuse(404, "Not found"),
    }
}
