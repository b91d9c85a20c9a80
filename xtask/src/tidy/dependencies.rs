//! What deny.toml says of dependencies, checked from `cargo tree` and Cargo.lock: licences,
//! crates in two versions, and where crates come from. `cargo deny check` does the same and
//! looks for advisories besides, but would have to be built first.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result, bail};
use toml::Table;

use super::Finding;
use crate::test::cargo_command;

/// The file with the lists.
const FILE: &str = "deny.toml";

/// A package of the dependency tree.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Package {
    name: String,
    version: String,
    /// An SPDX expression.
    license: String,
}

/// Checks the dependencies of the workspace.
///
/// # Errors
/// cargo or a file could not be read.
pub(super) fn check(root: &Path, findings: &mut Vec<Finding>) -> Result<()> {
    let read = |file: &str| std::fs::read_to_string(root.join(file)).context(file.to_owned());
    let rules: Table = read(FILE)?.parse().context(FILE)?;
    let lock: Table = read("Cargo.lock")?.parse().context("Cargo.lock")?;
    let mut packages = BTreeSet::new();
    for target in texts(&rules, "graph", "targets") {
        packages.extend(tree(root, &target)?);
    }
    let messages = [judged(&rules, &packages), sources(&rules, &lock)].concat();
    let finding = |message| Finding::whole(FILE, message);
    findings.extend(messages.into_iter().map(finding));
    Ok(())
}

/// The packages that a target is built and tested with.
fn tree(root: &Path, target: &str) -> Result<Vec<Package>> {
    let output = cargo_command()
        .args(["tree", "--workspace", "--all-features", "--locked"])
        .args(["--edges", "normal,build,dev", "--prefix", "none"])
        .args(["--format", "{p}\t{l}", "--target", target])
        .current_dir(root)
        .output()
        .context("cargo tree")?;
    if !output.status.success() {
        bail!("cargo tree: {}", String::from_utf8_lossy(&output.stderr));
    }
    let text = String::from_utf8(output.stdout).context("cargo tree")?;
    Ok(text.lines().filter_map(package).collect())
}

/// A line of the tree: the name, the version and what else there is to say, then the licence.
fn package(line: &str) -> Option<Package> {
    let (package, license) = line.split_once('\t')?;
    let mut words = package.split(' ');
    Some(Package {
        name: words.next()?.to_owned(),
        version: words.next()?.trim_start_matches('v').to_owned(),
        license: license.trim_end_matches(" (*)").to_owned(),
    })
}

/// What of the packages breaks the rules.
fn judged(rules: &Table, packages: &BTreeSet<Package>) -> Vec<String> {
    let allowed = texts(rules, "licenses", "allow");
    let banned = crates(rules, "deny");
    let mut messages = Vec::new();
    for package in packages {
        let Package {
            name,
            version,
            license,
        } = package;
        if !is_allowed(license, &allowed) {
            messages.push(format!("{name} {version} has the licence '{license}'"));
        }
        if banned.contains(name.as_str()) {
            messages.push(format!("{name} is banned"));
        }
    }
    messages.extend(duplicates(packages, &crates(rules, "skip")));
    messages
}

/// The packages of the lock file that come from a place on no list.
fn sources(rules: &Table, lock: &Table) -> Vec<String> {
    let registries = texts(rules, "sources", "allow-registry");
    let packages = lock.get("package").and_then(toml::Value::as_array);
    let mut messages = Vec::new();
    for package in packages.into_iter().flatten() {
        let text = |key: &str| package.get(key).and_then(toml::Value::as_str);
        let Some(source) = text("source") else {
            continue;
        };
        let registry = source.strip_prefix("registry+");
        if !registry.is_some_and(|registry| registries.contains(registry)) {
            let name = text("name").unwrap_or_default();
            messages.push(format!("{name} comes from {source}, which is on no list"));
        }
    }
    messages
}

/// Crates in several versions of which more than one is on no list, and lines of the list that
/// name no such crate.
fn duplicates(packages: &BTreeSet<Package>, skipped: &BTreeSet<String>) -> Vec<String> {
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for package in packages {
        let known = versions.entry(&package.name).or_default();
        known.insert(&package.version);
    }
    let key = |name: &str, version: &str| format!("{name}@{version}");
    let mut messages = Vec::new();
    for (name, versions) in &versions {
        let unlisted: Vec<&str> = versions
            .iter()
            .copied()
            .filter(|version| !skipped.contains(&key(name, version)))
            .collect();
        if unlisted.len() > 1 {
            let versions = unlisted.join(" and ");
            messages.push(format!(
                "{name} is used as {versions}; align them, or list the older under bans.skip"
            ));
        }
    }
    for entry in skipped {
        let (name, version) = entry.split_once('@').unwrap_or((entry, ""));
        let is_double = versions
            .get(name)
            .is_some_and(|known| known.len() > 1 && known.contains(version));
        if !is_double {
            messages.push(format!(
                "bans.skip names {entry}, which is no second version"
            ));
        }
    }
    messages
}

/// The texts of a list.
fn texts(rules: &Table, table: &str, key: &str) -> BTreeSet<String> {
    let list = rules.get(table).and_then(|table| table.get(key));
    let list = list.and_then(toml::Value::as_array).into_iter().flatten();
    list.filter_map(|entry| entry.as_str().map(str::to_owned))
        .collect()
}

/// The crates that a list of `bans` names.
fn crates(rules: &Table, key: &str) -> BTreeSet<String> {
    let list = rules.get("bans").and_then(|bans| bans.get(key));
    let list = list.and_then(toml::Value::as_array).into_iter().flatten();
    list.filter_map(|entry| entry.get("crate")?.as_str().map(str::to_owned))
        .collect()
}

/// Whether an SPDX expression can be met with the allowed licences.
fn is_allowed(expression: &str, allowed: &BTreeSet<String>) -> bool {
    // Old manifests separate alternatives by a slash.
    let spaced = expression
        .replace('/', " OR ")
        .replace('(', " ( ")
        .replace(')', " ) ");
    let mut words = spaced.split_whitespace().peekable();
    let met = alternatives(&mut words, allowed);
    met && words.next().is_none()
}

type Words<'a> = std::iter::Peekable<std::str::SplitWhitespace<'a>>;

fn alternatives(words: &mut Words<'_>, allowed: &BTreeSet<String>) -> bool {
    let mut met = conjunction(words, allowed);
    while words.next_if_eq(&"OR").is_some() {
        met |= conjunction(words, allowed);
    }
    met
}

fn conjunction(words: &mut Words<'_>, allowed: &BTreeSet<String>) -> bool {
    let mut met = license(words, allowed);
    while words.next_if_eq(&"AND").is_some() {
        met &= license(words, allowed);
    }
    met
}

fn license(words: &mut Words<'_>, allowed: &BTreeSet<String>) -> bool {
    match words.next() {
        Some("(") => {
            let met = alternatives(words, allowed);
            met & (words.next() == Some(")"))
        }
        Some(name) => match words.next_if_eq(&"WITH") {
            None => allowed.contains(name),
            Some(_) => {
                let exception = words.next().unwrap_or_default();
                allowed.contains(&format!("{name} WITH {exception}"))
            }
        },
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: &str = r#"
        [licenses]
        allow = ["MIT", "Apache-2.0"]
        [bans]
        deny = [{ crate = "openssl-sys" }]
        skip = [{ crate = "syn@2.0.0", reason = "old" }]
        [sources]
        allow-registry = ["https://registry"]
    "#;

    fn findings(list: &[(&str, &str, &str)]) -> Vec<String> {
        let lines = list.iter();
        let lines = lines.map(|(name, version, license)| format!("{name} v{version}\t{license}"));
        let packages = lines.map(|line| package(&line).unwrap()).collect();
        judged(&RULES.parse().unwrap(), &packages)
    }

    #[test]
    fn a_line_of_the_tree_is_a_package() {
        for line in [
            "syn v2.0.0\tMIT",
            "syn v2.0.0 (proc-macro)\tMIT (*)",
            "syn v2.0.0 (/some/folder)\tMIT",
        ] {
            let read = package(line).unwrap();
            let read = (&*read.name, &*read.version, &*read.license);
            assert_eq!(read, ("syn", "2.0.0", "MIT"), "{line}");
        }
        assert!(package("").is_none());
    }

    #[test]
    fn second_versions_must_be_listed_and_lists_must_be_needed() {
        let syn = |version| ("syn", version, "MIT");
        assert!(findings(&[syn("2.0.0"), syn("3.0.0")]).is_empty());
        assert_eq!(findings(&[syn("3.0.0")]).len(), 1, "a line too many");
        let third = findings(&[syn("2.0.0"), syn("3.0.0"), syn("4.0.0")]);
        assert_eq!(third.len(), 1);
        assert!(third[0].contains("3.0.0 and 4.0.0"), "{third:?}");
    }

    #[test]
    fn licences_sources_and_bans_are_kept_to() {
        let with = |name, license| {
            let syn = ["2.0.0", "3.0.0"].map(|version| ("syn", version, "MIT"));
            findings(&[syn[0], syn[1], (name, "1.0.0", license)]).len()
        };
        assert_eq!(with("a", "MIT OR GPL-3.0"), 0);
        assert_eq!(with("a", "GPL-3.0"), 1);
        assert_eq!(with("a", ""), 1);
        assert_eq!(with("openssl-sys", "MIT"), 1);
        let lock = |source: &str| {
            let lock = format!("[[package]]\nname = \"a\"\n{source}\n");
            sources(&RULES.parse().unwrap(), &lock.parse().unwrap()).len()
        };
        assert_eq!(lock(""), 0, "ours");
        assert_eq!(lock("source = \"registry+https://registry\""), 0);
        assert_eq!(lock("source = \"registry+https://other\""), 1);
        assert_eq!(lock("source = \"git+https://host/a\""), 1);
    }

    #[test]
    fn expressions_are_read_as_spdx_has_them() {
        let allowed = ["MIT", "Apache-2.0", "Apache-2.0 WITH LLVM-exception"];
        let allowed = allowed.map(str::to_owned).into();
        for (expression, met) in [
            ("MIT/Apache-2.0", true),
            ("GPL-3.0 OR MIT", true),
            ("GPL-3.0 AND MIT", false),
            ("(MIT OR GPL-3.0) AND Apache-2.0", true),
            ("(MIT OR Apache-2.0) AND Unicode-3.0", false),
            ("Apache-2.0 WITH LLVM-exception", true),
            ("GPL-2.0 WITH Classpath-exception-2.0", false),
            ("MIT MIT", false),
        ] {
            assert_eq!(is_allowed(expression, &allowed), met, "{expression}");
        }
    }
}
