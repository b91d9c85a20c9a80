//! What connectors share: the addresses of their services, credentials, one bounded exchange,
//! and how to recognise the object of an earlier attempt. It knows HTTP and secrets, and no
//! service.

mod answer;
mod credentials;
mod marker;
mod service;

pub(crate) use answer::{Answer, Reason};
pub(crate) use credentials::{Account, account};
pub(crate) use marker::{Claims, Marker, earliest_ms, moment_ms};
pub(crate) use service::Service;

/// The addresses of the connectors' services. A service that has only one address is reached
/// there by default.
#[derive(Clone, Debug, Default)]
pub struct Addresses {
    /// Slack's Web API; by default `https://slack.com/api`.
    pub slack: Option<String>,
    /// Monday's GraphQL endpoint; by default `https://api.monday.com/v2`.
    pub monday: Option<String>,
    /// The Confluence site's `/wiki`.
    pub confluence: Option<String>,
    /// The mail server: `smtp://host:25`, `smtp+starttls://host:587` or `smtps://host:465`.
    pub smtp: Option<String>,
    /// The sender of mail where the node does not name one.
    pub smtp_from: Option<String>,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    /// The texts in a source that look like a connector's code.
    fn codes(text: &str, found: &mut BTreeSet<String>) {
        for part in text.split('"').filter(|part| part.len() < 40) {
            let prefixes = ["SLACK_", "MONDAY_", "CONFLUENCE_", "EMAIL_", "CONNECTOR_"];
            let is_code = |letter: char| letter.is_ascii_uppercase() || letter == '_';
            if prefixes.iter().any(|prefix| part.starts_with(prefix)) && part.chars().all(is_code) {
                found.insert(part.to_owned());
            }
        }
    }

    fn sources(folder: &Path, found: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                sources(&path, found);
            } else {
                codes(&std::fs::read_to_string(&path).expect("a source"), found);
            }
        }
    }

    #[test]
    fn every_code_of_a_connector_is_documented() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let page = std::fs::read_to_string(root.join("../../docs/errors.md")).expect("the page");
        let mut found = BTreeSet::new();
        sources(&root.join("src"), &mut found);
        // Secrets and prefixes are named alike, and are no codes.
        for other in [
            "SLACK_TOKEN",
            "MONDAY_TOKEN",
            "CONFLUENCE_TOKEN",
            "CONFLUENCE_USER",
        ] {
            found.remove(other);
        }
        found.retain(|code| !code.ends_with('_'));
        assert!(found.contains("SLACK_RATE_LIMITED"), "{found:?}");
        let missing: Vec<_> = found
            .iter()
            .filter(|code| !page.contains(&format!("| `{code}` |")))
            .collect();
        assert!(missing.is_empty(), "docs/errors.md lacks {missing:?}");
    }
}
