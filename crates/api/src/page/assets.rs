//! The files of the page, which the binary has in it: compressed once, tagged by their content.
//!
//! The page names its files under the digest of all of them, `/assets/DIGEST/app.js`, so that
//! a browser can keep them for ever and never mixes two versions. Without the digest a file is
//! the present one, which the browser asks about each time.

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

use super::{html, secure};
use crate::answer::Tag;
use crate::route::{Operation, Output};

/// Names below `web/`, and contents.
const FILES: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/page_files.rs"));

/// How many digits of the digest an address has.
const DIGITS: usize = 16;

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
        let digest = digest.finalize();
        let digest = hex::encode(digest);
        let index = files.iter().find(|(name, _)| *name == "index.html");
        let index = index.and_then(|(_, content)| std::str::from_utf8(content).ok());
        let served = files.iter().filter(|(name, _)| *name != "index.html");
        Self {
            files: served
                .map(|(name, content)| (*name, File::new(name, content)))
                .collect(),
            index: index.expect("web/index.html is text"),
            digest: digest[..DIGITS].to_owned(),
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

    /// The page with a title and content, which is HTML.
    pub(super) fn index(&self, title: &str, content: &str) -> String {
        let version = format!("{}+{}", env!("CARGO_PKG_VERSION"), self.digest);
        let mut title_text = html::Text::default();
        title_text.text(title);
        let meta = "<meta name=\"windlass-version\" content=\"";
        self.index
            .replace("\"/assets/", &format!("\"/assets/{}/", self.digest))
            .replace(meta, &format!("{meta}{version}"))
            .replacen("<!--windlass:title-->", title_text.as_str(), 1)
            .replacen("<!--windlass:content-->", content, 1)
    }
}

impl File {
    fn new(name: &str, content: &'static [u8]) -> Self {
        let gzip = compressed(content).filter(|gzip| gzip.len() < content.len());
        Self {
            media: media(name),
            plain: Bytes::from_static(content),
            gzip,
            tag: Tag::of(&[content]),
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
        (
            "app.js",
            b"import './lib/dom.js'; // aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        ),
        ("lib/dom.js", b"export {}"),
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
        let fixed = format!("{}/lib/dom.js", bundle.digest);
        let answer = bundle.find(&fixed, &HeaderMap::new()).expect("it is there");
        let response = answer.into_response();
        let cache = "public, max-age=31536000, immutable";
        assert_eq!(response.headers()[header::CACHE_CONTROL], cache);
        let present = bundle.find("lib/dom.js", &HeaderMap::new());
        let present = present.expect("it is there").into_response();
        assert_eq!(present.headers()[header::CACHE_CONTROL], "no-cache");
        for missing in [
            "0123456789abcdef/app.js",
            "index.html",
            "../app.js",
            "",
            "lib",
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
        let text = bundle.index("a </title><script>", "<p>b</p>");
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
            text.contains("<title>a &lt;/title&gt;&lt;script&gt;</title>"),
            "{text}"
        );
        assert!(text.contains("<main><p>b</p></main>"), "{text}");
    }
}
