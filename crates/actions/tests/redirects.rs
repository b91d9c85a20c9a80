//! What follows a redirect, and what does not.

use crate::one_node::{answer, run_node, run_with_secret, server};
use serde_json::{Value, json};

const SECRET: &str = "s3cr3t-w0rd";

/// One node that is redirected from one origin to another; what each was asked.
async fn redirected(status: &str, parameters: Value) -> (Value, String, Option<String>) {
    let (target, mut reached) = server(answer("200 OK", "", "there")).await;
    let location = format!("location: {target}/next\r\n");
    let (url, mut asked) = server(answer(status, &location, "")).await;
    let mut parameters = parameters;
    let path = parameters["path"].take();
    parameters.as_object_mut().unwrap().remove("path");
    parameters["url"] = json!(format!("{url}/{}", path.as_str().unwrap_or_default()));
    let allowed = &["127.0.0.1"];
    let (node, _) = run_with_secret("http.request", parameters, allowed, SECRET).await;
    let first = asked
        .try_recv()
        .unwrap_or_else(|_| panic!("nothing was asked: {node}"));
    (node, first, reached.try_recv().ok())
}

#[tokio::test]
async fn secrets_do_not_follow_to_another_origin() {
    let headers = json!({
        "Authorization": "Bearer public",
        "Cookie": "a=b",
        "X-Api-Key": "{{ secrets.X }}",
        "X-Made-Of-It": "n{{ secrets.X.length }}",
        "X-Plain": "stays",
    });
    for status in [
        "301 Moved",
        "302 Found",
        "303 Other",
        "307 Temporary",
        "308 Permanent",
    ] {
        let parameters = json!({ "headers": headers, "path": "?key={{ secrets.X }}" });
        let (node, first, second) = redirected(status, parameters).await;
        assert_eq!(node["output"]["body"], "there", "{node}");
        for part in ["bearer public", "a=b", SECRET, "x-made-of-it", "x-plain"] {
            assert!(first.to_lowercase().contains(part), "{part}: {first}");
        }
        let second = second.unwrap().to_lowercase();
        assert!(second.starts_with("get /next "), "{second}");
        assert!(second.contains("x-plain: stays"), "{second}");
        for part in [
            "authorization",
            "cookie",
            "x-api-key",
            "x-made",
            "referer",
            SECRET,
        ] {
            assert!(!second.contains(part), "{status}, {part}: {second}");
        }
    }
}

#[tokio::test]
async fn a_body_with_a_secret_is_not_sent_to_another_origin() {
    for body in [
        json!("k={{ secrets.X }}"),
        json!({ "k": "{{ secrets.X }}" }),
    ] {
        for status in ["307 Temporary", "308 Permanent"] {
            let parameters = json!({ "method": "POST", "body": body });
            let (node, _, second) = redirected(status, parameters).await;
            assert_eq!(node["error"]["code"], "HTTP_REDIRECT", "{node}");
            let message = node["error"]["message"].as_str().unwrap();
            assert!(message.contains("another origin"), "{message}");
            assert_eq!(second, None);
        }
        // A POST that becomes a GET has no body.
        let (node, _, second) =
            redirected("302 Found", json!({ "method": "POST", "body": body })).await;
        assert_eq!(node["status"], "Succeeded", "{node}");
        let second = second.unwrap();
        assert!(
            second.starts_with("GET /next ") && !second.contains("k="),
            "{second}"
        );
    }
}

#[tokio::test]
async fn a_body_without_a_secret_follows_where_the_method_stays() {
    let parameters = json!({
        "method": "POST", "body": { "a": 1 }, "headers": { "X-Api-Key": "{{ secrets.X }}" },
    });
    let (node, _, second) = redirected("307 Temporary", parameters).await;
    assert_eq!(node["status"], "Succeeded", "{node}");
    let second = second.unwrap().to_lowercase();
    assert!(second.starts_with("post /next "), "{second}");
    assert!(
        second.ends_with(r#"{"a":1}"#) && !second.contains("x-api-key"),
        "{second}"
    );
}

#[tokio::test]
async fn an_address_that_shows_a_secret_is_not_followed_to_another_origin() {
    let (target, mut reached) = server(answer("200 OK", "", "")).await;
    for form in [SECRET.to_owned(), "czNjcjN0LXcwcmQ".to_owned()] {
        let location = format!("location: {target}/?echo={form}\r\n");
        let (url, _asked) = server(answer("302 Found", &location, "")).await;
        let parameters = json!({ "url": format!("{url}/?k={{{{ secrets.X }}}}") });
        let (node, _) = run_with_secret("http.request", parameters, &["127.0.0.1"], SECRET).await;
        assert_eq!(node["error"]["code"], "HTTP_REDIRECT", "{node}");
    }
    assert!(reached.try_recv().is_err());
}

#[tokio::test]
async fn within_an_origin_everything_follows_and_ten_times_at_most() {
    let (url, mut asked) = server(answer("307 Again", "location: /again\r\n", "")).await;
    let parameters = json!({
        "url": url, "method": "PUT", "body": "{{ secrets.X }}",
        "headers": { "Authorization": "{{ secrets.X }}" },
    });
    let (node, _) = run_with_secret("http.request", parameters, &["127.0.0.1"], SECRET).await;
    assert_eq!(node["error"]["code"], "HTTP_REDIRECT", "{node}");
    for round in 0..11 {
        let asked = asked.try_recv().unwrap();
        assert_eq!(asked.matches(SECRET).count(), 2, "{round}: {asked}");
    }
    assert!(
        asked.try_recv().is_err(),
        "ten redirects are eleven requests"
    );
}

#[tokio::test]
async fn redirects_are_left_alone_if_asked() {
    let (url, mut asked) = server(answer("302 Found", "location: /x\r\n", "")).await;
    let parameters = json!({ "url": url, "followRedirects": false });
    let node = run_node("http.request", parameters, &["127.0.0.1"]).await;
    assert_eq!(node["output"]["status"], 302, "{node}");
    asked.try_recv().unwrap();
    assert!(asked.try_recv().is_err());
}
