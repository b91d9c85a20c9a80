//! Relative links in prose lead to tracked files or folders. Whether a site still
//! answers is not asked: a check that needs the network fails for the wrong reasons.

use std::collections::BTreeSet;

use super::Finding;

pub(super) fn check(
    file: &str,
    content: &str,
    files: &BTreeSet<String>,
    findings: &mut Vec<Finding>,
) {
    let mut fenced = false;
    for (index, line) in content.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        if fenced {
            continue;
        }
        for target in targets(line) {
            if !leads_somewhere(file, target, files) {
                findings.push(Finding::at(
                    file,
                    index,
                    format!("the link `{target}` leads nowhere"),
                ));
            }
        }
    }
}

/// The targets of `[text](target)` outside `code`.
pub(super) fn targets(line: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut in_code = false;
    let mut rest = line;
    while let Some(place) = rest.find(['`', ']']) {
        let code_mark = rest[place..].starts_with('`');
        rest = &rest[place + 1..];
        if code_mark {
            in_code = !in_code;
        } else if !in_code
            && let Some(after) = rest.strip_prefix('(')
            && let Some((inside, _)) = after.split_once(')')
        {
            let target = inside.split_whitespace().next().unwrap_or_default();
            found.push(target.trim_matches(['<', '>']));
        }
    }
    found
}

fn leads_somewhere(file: &str, target: &str, files: &BTreeSet<String>) -> bool {
    let path = target.split(['#', '?']).next().unwrap_or_default();
    if path.is_empty() || path.contains("://") || path.starts_with("mailto:") {
        return true;
    }
    let Some(path) = resolve(file, path) else {
        return false;
    };
    let folder = format!("{path}/");
    path.is_empty()
        || files.contains(&path)
        || files
            .range(folder.clone()..)
            .next()
            .is_some_and(|next| next.starts_with(&folder))
}

/// The path from the workspace's root, or nothing if it leaves the workspace.
pub(super) fn resolve(file: &str, path: &str) -> Option<String> {
    let mut parts: Vec<&str> = match path.strip_prefix('/') {
        Some(_) => Vec::new(),
        None => {
            let mut parts: Vec<&str> = file.split('/').collect();
            parts.pop();
            parts
        }
    };
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken(file: &str, content: &str) -> usize {
        let files = ["README.md", "docs/run.md", "crates/core/src/lib.rs"];
        let files = files.into_iter().map(str::to_owned).collect();
        let mut findings = Vec::new();
        check(file, content, &files, &mut findings);
        findings.len()
    }

    #[test]
    fn links_to_files_and_folders_hold() {
        assert_eq!(
            broken("README.md", "[a](docs/run.md#start) and [b](crates/core)"),
            0
        );
        assert_eq!(
            broken("docs/run.md", "[up](../README.md) [root](/docs/run.md)"),
            0
        );
        assert_eq!(
            broken("docs/run.md", "[here](#start) [out](https://example.com)"),
            0
        );
    }

    #[test]
    fn links_that_lead_nowhere_are_found() {
        assert_eq!(broken("README.md", "[a](docs/runs.md)"), 1);
        assert_eq!(broken("docs/run.md", "[a](README.md) ![b](x.png)"), 2);
        assert_eq!(broken("README.md", "[a](../outside.md)"), 1);
    }

    #[test]
    fn code_is_not_prose() {
        assert_eq!(broken("README.md", "`[a](b.md)`\n```\n[a](b.md)\n```\n"), 0);
    }
}
