//! A crate whose integration tests are one binary lists every file of them: one that is
//! left out would never run, and nothing else would say so.

use std::collections::BTreeSet;

use super::Finding;

pub(super) fn check(
    file: &str,
    content: &str,
    files: &BTreeSet<String>,
    findings: &mut Vec<Finding>,
) {
    let Some(folder) = file.strip_suffix("tests/main.rs") else {
        return;
    };
    let folder = format!("{folder}tests/");
    let listed: BTreeSet<&str> = content
        .lines()
        .filter_map(|line| line.trim().strip_prefix("mod ")?.strip_suffix(';'))
        .collect();
    for tested in files {
        let Some(name) = tested
            .strip_prefix(&folder)
            .and_then(|name| name.strip_suffix(".rs"))
        else {
            continue;
        };
        if name != "main" && !name.contains('/') && !listed.contains(name) {
            let message = format!("its tests never run: write `mod {name};` in {file}");
            findings.push(Finding::whole(tested, message));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_tests_that_is_not_listed_is_found() {
        let files = ["a/tests/main.rs", "a/tests/b.rs", "a/tests/c.rs"];
        let shared = ["a/tests/world/mod.rs", "other/tests/d.rs"];
        let files = files.into_iter().chain(shared).map(str::to_owned).collect();
        let mut findings = Vec::new();
        check(
            "a/tests/main.rs",
            "mod b;\nmod world;\n",
            &files,
            &mut findings,
        );
        let [finding] = findings.as_slice() else {
            panic!("one finding expected: {findings:?}");
        };
        assert_eq!(finding.file, "a/tests/c.rs");
        check("a/src/main.rs", "", &files, &mut findings);
        assert_eq!(findings.len(), 1, "{findings:?}");
    }
}
