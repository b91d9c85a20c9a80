//! The files of the page, which the binary has in it: compressed once, tagged by their content.
//!
//! The page names its files under the digest of all of them, `/assets/DIGEST/app.js`, so that
//! a browser can keep them for ever and never mixes two versions. Without the digest a file is
//! the present one, which the browser asks about each time.
//!
//! All modules are one file, and all styles are one.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::LazyLock;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use sha2::{Digest as _, Sha256};

use super::content::Content;
use super::{html, join, secure};
use crate::answer::Tag;
use crate::route::{Operation, Output};

/// Names below `web/`, and contents.
const FILES: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/page_files.rs"));

/// How many digits of the digest an address has.
const DIGITS: usize = 16;

/// The module with which every page begins, and the name of all of them together.
const ENTRY: &str = "app.js";

/// The name of all styles together.
const STYLES: &str = "app.css";

static BUNDLE: LazyLock<Bundle> = LazyLock::new(|| Bundle::new(FILES));

/// All files of the page.
pub(super) struct Bundle {
    files: BTreeMap<&'static str, File>,
    index: &'static str,
    digest: String,
}

#[derive(Clone)]
struct File {
    media: &'static str,
    plain: Bytes,
    /// Compressed, where that is smaller.
    gzip: Option<Bytes>,
    tag: Tag,
}

impl Bundle {
    /// Those in the binary.
    pub(super) fn get() -> &'static Self {
        &BUNDLE
    }

    fn new(files: &'static [(&'static str, &'static [u8])]) -> Self {
        let mut digest = Sha256::new();
        for (name, content) in files {
            digest.update((name.len() as u64).to_be_bytes());
            digest.update(name);
            digest.update((content.len() as u64).to_be_bytes());
            digest.update(content);
        }
        let digest = hex::encode(digest.finalize());
        let digest = digest[..DIGITS].to_owned();
        let text = |ending: &str| -> BTreeMap<_, _> {
            let files = files.iter().filter(|(name, _)| name.ends_with(ending));
            let text = |it| std::str::from_utf8(it).expect("what is written by hand is text");
            files
                .map(|(name, content)| (*name, text(content)))
                .collect()
        };
        let mut served: BTreeMap<_, _> = files
            .iter()
            .filter(|(name, _)| ![".html", ".js", ".css"].iter().any(|it| name.ends_with(it)))
            .map(|(name, content)| (*name, File::new(name, Bytes::from_static(content))))
            .collect();
        let modules = join::modules(ENTRY, &text(".js"));
        let styles: String = text(".css").into_values().collect();
        for (name, content) in [(ENTRY, modules), (STYLES, styles)] {
            served.insert(name, File::new(name, Bytes::from(content)));
        }
        Self {
            files: served,
            index: text("index.html")["index.html"],
            digest,
        }
    }

    /// A file by the rest of its address, if there is one.
    pub(super) fn find(&self, path: &str, headers: &HeaderMap) -> Option<Answer> {
        let (name, is_fixed) = match path.split_once('/') {
            Some((digest, name)) if digest == self.digest => (name, true),
            _ => (path, false),
        };
        let file = self.files.get(name)?.clone();
        Some(Answer {
            is_known: file.tag.is_known(headers),
            takes_gzip: takes_gzip(headers),
            is_fixed,
            file,
        })
    }

    /// The page with what stands in it.
    pub(super) fn index(&self, content: &Content) -> String {
        let version = format!("{}+{}", env!("CARGO_PKG_VERSION"), self.digest);
        let mut title_text = html::Text::default();
        title_text.text(&content.title);
        let meta = "<meta name=\"windlass-version\" content=\"";
        self.index
            .replace("\"/assets/", &format!("\"/assets/{}/", self.digest))
            .replace(meta, &format!("{meta}{version}"))
            .replacen("<!--windlass:title-->", title_text.as_str(), 1)
            .replacen("<!--windlass:content-->", content.body(), 1)
    }
}

impl File {
    fn new(name: &str, content: Bytes) -> Self {
        Self {
            media: media(name),
            gzip: compressed(&content).filter(|gzip| gzip.len() < content.len()),
            tag: Tag::of(&[&content]),
            plain: content,
        }
    }
}

fn compressed(content: &[u8]) -> Option<Bytes> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(content).ok()?;
    encoder.finish().ok().map(Bytes::from)
}

fn media(name: &str) -> &'static str {
    match name.rsplit('.').next() {
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        Some("ico") => "image/x-icon",
        Some("woff2") => "font/woff2",
        Some("json") => "application/json",
        _ => "application/octet-stream",
    }
}

/// Whether the client takes compressed answers; one that gives it no weight does not.
fn takes_gzip(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::ACCEPT_ENCODING).into_iter();
    let values = values.filter_map(|value| value.to_str().ok());
    let mut codings = values.flat_map(|value| value.split(','));
    codings.any(|coding| {
        let mut parts = coding.split(';').map(str::trim);
        let is_gzip = parts
            .next()
            .is_some_and(|name| name.eq_ignore_ascii_case("gzip"));
        let weight = parts.find_map(|part| part.strip_prefix("q="));
        is_gzip && weight.is_none_or(|weight| weight.parse::<f32>().is_ok_and(|it| it > 0.0))
    })
}

/// A file, as the client takes it.
pub(super) struct Answer {
    file: File,
    is_known: bool,
    takes_gzip: bool,
    /// Whether the address names the content.
    is_fixed: bool,
}

impl IntoResponse for Answer {
    fn into_response(self) -> Response {
        let gzip = self.file.gzip.filter(|_| self.takes_gzip);
        let mut response = match (self.is_known, &gzip) {
            (true, _) => StatusCode::NOT_MODIFIED.into_response(),
            (false, Some(gzip)) => Response::new(Body::from(gzip.clone())),
            (false, None) => Response::new(Body::from(self.file.plain)),
        };
        let headers = response.headers_mut();
        let media = HeaderValue::from_static(self.file.media);
        headers.insert(header::CONTENT_TYPE, media);
        headers.insert(header::ETAG, self.file.tag.header());
        headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
        let cache = match self.is_fixed {
            true => "public, max-age=31536000, immutable",
            false => "no-cache",
        };
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(cache));
        if gzip.is_some() && !self.is_known {
            headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        secure(headers);
        response
    }
}

impl Output for Answer {
    fn describe(operation: &mut Operation<'_>) {
        operation.answer::<String>(200, "text/javascript", "A file");
        operation.answer::<String>(200, "text/css", "A file");
        operation.answer::<String>(200, "image/svg+xml", "A file");
        operation.empty(304, "It is the one that `If-None-Match` names");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All of the page, as it travels.
    const BUDGET: usize = 150 * 1024;

    const SAMPLE: &[(&str, &[u8])] = &[
        (
            "index.html",
            b"<meta name=\"windlass-version\" content=\"\"><title><!--windlass:title--></title>\
              <script src=\"/assets/app.js\"></script><main><!--windlass:content--></main>",
        ),
        ("app.js", b"import './lib/dom.js';"),
        ("css/base.css", b"a {}\n"),
        ("css/run.css", b"b {}\n"),
        ("icon.svg", b"<svg/>"),
        (
            "lib/dom.js",
            b"export const h = 1; // aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        ),
    ];

    fn headers(list: &[(header::HeaderName, &'static str)]) -> HeaderMap {
        let values = list.iter();
        values
            .map(|(name, value)| (name.clone(), HeaderValue::from_static(value)))
            .collect()
    }

    #[test]
    fn the_page_stays_within_its_budget() {
        let bundle = Bundle::get();
        let travels = |file: &File| file.gzip.as_ref().unwrap_or(&file.plain).len();
        let files: usize = bundle.files.values().map(travels).sum();
        let index = compressed(bundle.index.as_bytes()).map_or(0, |index| index.len());
        assert!(
            files + index <= BUDGET,
            "{} bytes compressed",
            files + index
        );
    }

    #[test]
    fn addresses_with_the_digest_are_kept_and_those_of_other_versions_missing() {
        let bundle = Bundle::new(SAMPLE);
        let fixed = format!("{}/icon.svg", bundle.digest);
        let answer = bundle.find(&fixed, &HeaderMap::new()).expect("it is there");
        let response = answer.into_response();
        let cache = "public, max-age=31536000, immutable";
        assert_eq!(response.headers()[header::CACHE_CONTROL], cache);
        let present = bundle.find("icon.svg", &HeaderMap::new());
        let present = present.expect("it is there").into_response();
        assert_eq!(present.headers()[header::CACHE_CONTROL], "no-cache");
        for missing in [
            "0123456789abcdef/app.js",
            "index.html",
            "../app.js",
            "",
            "lib/dom.js",
        ] {
            assert!(
                bundle.find(missing, &HeaderMap::new()).is_none(),
                "{missing}"
            );
        }
    }

    #[test]
    fn a_file_is_compressed_and_known_by_its_tag() {
        let bundle = Bundle::new(SAMPLE);
        let gzip = headers(&[(header::ACCEPT_ENCODING, "br, gzip;q=0.5")]);
        let response = bundle
            .find("app.js", &gzip)
            .expect("a file")
            .into_response();
        assert_eq!(response.headers()[header::CONTENT_ENCODING], "gzip");
        let tag = response.headers()[header::ETAG].clone();
        let none = headers(&[(header::ACCEPT_ENCODING, "gzip;q=0")]);
        let response = bundle
            .find("app.js", &none)
            .expect("a file")
            .into_response();
        assert!(!response.headers().contains_key(header::CONTENT_ENCODING));
        let mut known = HeaderMap::new();
        known.insert(header::IF_NONE_MATCH, tag);
        let response = bundle
            .find("app.js", &known)
            .expect("a file")
            .into_response();
        assert_eq!(response.status(), StatusCode::NOT_MODIFIED);
    }

    #[test]
    fn the_page_names_its_files_by_the_digest_and_escapes_its_title() {
        let bundle = Bundle::new(SAMPLE);
        let mut body = html::Text::default();
        body.markup("<p>b</p>");
        let content = Content::new("a </title><script>", body);
        let text = bundle.index(&content);
        let digest = &bundle.digest;
        assert!(
            text.contains(&format!("src=\"/assets/{digest}/app.js\"")),
            "{text}"
        );
        assert!(
            text.contains(&format!("content=\"0.1.0+{digest}\"")),
            "{text}"
        );
        assert!(
            text.contains("<title>a &lt;/title&gt;&lt;script&gt; · Windlass</title>"),
            "{text}"
        );
        assert!(text.contains("<main><p>b</p></main>"), "{text}");
    }

    #[test]
    fn all_modules_are_one_file_and_all_styles_are_one() {
        let bundle = Bundle::new(SAMPLE);
        let text = |name: &str| String::from_utf8_lossy(&bundle.files[name].plain).into_owned();
        assert_eq!(text("app.css"), "a {}\nb {}\n");
        let modules = text("app.js");
        assert!(modules.contains("$need(\"lib/dom.js\");"), "{modules}");
        assert!(modules.contains("return { h };"), "{modules}");
    }

    #[test]
    fn every_module_that_another_needs_is_in_the_file() {
        let bundle = Bundle::get();
        let text = String::from_utf8_lossy(&bundle.files[ENTRY].plain);
        for part in text.split("$need(\"").skip(1) {
            let name = part.split('"').next().unwrap_or_default();
            assert!(
                text.contains(&format!("\n\"{name}\": () => {{\n")),
                "{name}"
            );
        }
        for line in text.lines() {
            let is_left = ["import ", "export "].iter().any(|it| line.starts_with(it));
            assert!(!is_left && !line.contains("import.meta"), "{line}");
        }
    }

    #[test]
    fn every_file_that_the_page_names_is_served() {
        let bundle = Bundle::get();
        let text = bundle.index(&Content::shell("Runs"));
        let names: Vec<_> = text.split("\"/assets/").skip(1).collect();
        assert_eq!(names.len(), 3, "{text}");
        for name in names {
            let name = name.split('"').next().unwrap_or_default();
            assert!(bundle.find(name, &HeaderMap::new()).is_some(), "{name}");
        }
    }
}
