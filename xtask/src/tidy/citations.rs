//! Citations of docs/semantics.md: `semantics §5`, or `semantics §2–§5, §7`, leads to a
//! section that the page has, and so does a link to one of its headings. The sign `§`
//! means that page alone; sections of other documents are written out ("RFC 8259,
//! section 6"), so that the two cannot be confused.

use std::collections::BTreeSet;

use super::{Finding, links};

/// The page whose sections are cited.
pub(super) const PAGE: &str = "docs/semantics.md";

const SIGN: char = '§';

/// What may stand between two sections of one citation.
const BETWEEN: [&str; 6] = [", ", " and ", ", and ", "–", " to ", "-"];

/// These files name what they refuse.
const SELF: &str = "xtask/src/tidy/";

/// What can be cited of the page.
#[derive(Debug, Default)]
pub(super) struct Sections {
    /// `5`, `5.2`.
    numbers: BTreeSet<String>,
    /// `5-attempts`, as links name headings.
    anchors: BTreeSet<String>,
}

impl Sections {
    /// Reads the headings of the page: `## 5. Attempts`, `### 5.2 Retry`.
    pub(super) fn of(page: &str) -> Self {
        let mut sections = Self::default();
        let mut fenced = false;
        for line in page.lines() {
            if line.starts_with("```") {
                fenced = !fenced;
            }
            let title = line.trim_start_matches('#');
            if fenced || title.len() == line.len() || !title.starts_with(' ') {
                continue;
            }
            let title = title.trim();
            sections.anchors.insert(anchor(title));
            let number = number(title);
            if !number.is_empty() {
                sections.numbers.insert(number.to_owned());
            }
        }
        sections
    }
}

pub(super) fn check(file: &str, content: &str, sections: &Sections, findings: &mut Vec<Finding>) {
    if file.starts_with(SELF) {
        return;
    }
    for (index, line) in content.lines().enumerate() {
        check_signs(file, index, line, sections, findings);
        if file.ends_with(".md") {
            check_links(file, index, line, sections, findings);
        }
    }
}

fn check_signs(
    file: &str,
    index: usize,
    line: &str,
    sections: &Sections,
    findings: &mut Vec<Finding>,
) {
    let mut before = String::new();
    let mut continues = false;
    for (place, part) in line.split(SIGN).enumerate() {
        let cited = number(part.trim_start());
        // The sign is also a character that data may hold.
        if place == 0 || cited.is_empty() {
            before.push_str(part);
            continues = false;
            continue;
        }
        let names_page = before.to_lowercase().ends_with("semantics ");
        let is_formed = part.starts_with(cited)
            && (file == PAGE || names_page || (continues && BETWEEN.contains(&before.as_str())));
        if !is_formed {
            let message = format!(
                "cite the rules of a run as `semantics {SIGN}{cited}`, and another document as \
                 `section {cited}` of it"
            );
            findings.push(Finding::at(file, index, message));
        } else if !sections.numbers.contains(cited) {
            let message = format!("{PAGE} has no section {cited}");
            findings.push(Finding::at(file, index, message));
        }
        continues = is_formed;
        before = part.trim_start()[cited.len()..].to_owned();
    }
}

fn check_links(
    file: &str,
    index: usize,
    line: &str,
    sections: &Sections,
    findings: &mut Vec<Finding>,
) {
    for target in links::targets(line) {
        let Some((path, anchor)) = target.split_once('#') else {
            continue;
        };
        let leads_to_page = match path {
            "" => file == PAGE,
            path => links::resolve(file, path).as_deref() == Some(PAGE),
        };
        if leads_to_page && !sections.anchors.contains(anchor) {
            let message = format!("{PAGE} has no heading `#{anchor}`");
            findings.push(Finding::at(file, index, message));
        }
    }
}

/// The number that a text begins with: digits, and more digits after single dots.
fn number(text: &str) -> &str {
    let mut end = 0;
    for part in text.split('.') {
        let digits = part
            .find(|character: char| !character.is_ascii_digit())
            .unwrap_or(part.len());
        if digits == 0 {
            break;
        }
        let dot = usize::from(end > 0);
        end += dot + digits;
        if digits < part.len() {
            break;
        }
    }
    &text[..end]
}

/// The name of a heading in links: small letters, digits, and hyphens for spaces.
fn anchor(title: &str) -> String {
    title
        .to_lowercase()
        .chars()
        .filter(|&character| character.is_alphanumeric() || " -_".contains(character))
        .map(|character| if character == ' ' { '-' } else { character })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: &str = "\
# Semantics

## 2. Edges
## 3. Joins
### 3.1 Partial joins
## 10. Ancestry, and `verify`

```sh
## 4. no heading
```
";

    fn findings(file: &str, content: &str) -> Vec<String> {
        let mut findings = Vec::new();
        check(file, content, &Sections::of(RULES), &mut findings);
        findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn citations_of_sections_that_are_there_hold() {
        for line in [
            "//! Edges (semantics §2), and joins (semantics §3.1).",
            "/// Semantics §10, from the written formula.",
            "# semantics §3: joins that do not wait for all.",
            "//! By the letter of semantics §2, §3 and §10.",
            "see semantics §2–§3, §10; and semantics §3.",
        ] {
            assert!(findings("a/src/b.rs", line).is_empty(), "{line}");
            assert!(
                findings("a/tests/fixtures/b.txt", line).is_empty(),
                "{line}"
            );
        }
    }

    #[test]
    fn a_citation_that_leads_nowhere_is_found() {
        assert_eq!(
            findings("a/src/b.rs", "//! A.\n/// As semantics §14 says.\n"),
            ["a/src/b.rs:2: docs/semantics.md has no section 14"]
        );
        assert_eq!(findings("b.txt", "# semantics §2, §4, §3.2").len(), 2);
        assert_eq!(findings("b.md", "semantics §1").len(), 1);
        // What stands in a block of code is no heading.
        assert_eq!(findings("b.md", "semantics §4").len(), 1);
    }

    #[test]
    fn a_citation_names_its_document() {
        let wrong = "a/src/b.rs:1: cite the rules of a run as `semantics §3`, and another \
                     document as `section 3` of it";
        assert_eq!(findings("a/src/b.rs", "/// The rule of §3."), [wrong]);
        assert_eq!(findings("a/src/b.rs", "/// RFC 6901 §3."), [wrong]);
        assert_eq!(
            findings("a/src/b.rs", "/// As semantics § 3 says."),
            [wrong]
        );
        assert_eq!(
            findings("a/src/b.rs", "/// semantics §2 but RFC 6901 §3"),
            [wrong]
        );
        // One that is formed wrong leads no list.
        assert_eq!(findings("a/src/b.rs", "/// §2, §3").len(), 2);
        assert!(findings("a/src/b.rs", "/// RFC 6901, section 3.").is_empty());
    }

    #[test]
    fn the_page_cites_itself_by_number_alone() {
        assert!(findings(PAGE, "As §3.1 and §2 say.").is_empty());
        assert_eq!(
            findings(PAGE, "As §5 says."),
            ["docs/semantics.md:1: docs/semantics.md has no section 5"]
        );
    }

    #[test]
    fn a_sign_without_a_number_is_data() {
        assert!(findings("a/src/b.rs", "assert_eq!(\"§\".len(), 2); // § or ¶").is_empty());
    }

    #[test]
    fn links_lead_to_headings_of_the_page() {
        let file = "docs/definitions.md";
        assert!(findings(file, "[a](semantics.md#3-joins) [b](semantics.md)").is_empty());
        assert!(findings(file, "[a](semantics.md#31-partial-joins)").is_empty());
        assert!(findings(PAGE, "[a](#10-ancestry-and-verify)").is_empty());
        assert!(findings(file, "[a](#joins) [b](errors.md#nodes)").is_empty());
        assert_eq!(
            findings(file, "[a](semantics.md#4-the-end)"),
            ["docs/definitions.md:1: docs/semantics.md has no heading `#4-the-end`"]
        );
        assert_eq!(findings("README.md", "[a](docs/semantics.md#5)").len(), 1);
        assert_eq!(findings(PAGE, "[a](#4-no-heading)").len(), 1);
    }

    #[test]
    fn without_the_page_no_citation_leads_anywhere() {
        let mut findings = Vec::new();
        check("b.txt", "semantics §2", &Sections::of(""), &mut findings);
        assert_eq!(findings.len(), 1);
    }
}
