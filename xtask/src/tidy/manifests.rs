//! What the packages may depend on: the pure crates on a short list, our crates on
//! each other in one direction, none on what tests share, and every package on the
//! workspace's lints.
//!
//! Only normal and build dependencies count; tests may use what they like.

use toml::Table;

use super::Finding;

/// The packages a pure crate may depend on, and why.
struct Allowed {
    package: &'static str,
    dependencies: &'static [(&'static str, &'static str)],
}

const ALLOWED: &[Allowed] = &[
    Allowed {
        package: "windlass-expr",
        dependencies: &[
            ("indexmap", "objects keep the order of their keys"),
            ("libm", "the same floating-point results on every machine"),
            ("ryu-js", "numbers are written as JavaScript writes them"),
            ("serde", "JSON is checked without being built"),
            ("serde_json", "values are JSON"),
            ("strsim", "suggests the nearest name"),
        ],
    },
    Allowed {
        package: "windlass-core",
        dependencies: &[
            ("hex", "digests are written in hexadecimal"),
            ("indexmap", "maps keep the order of the document"),
            ("saphyr-parser", "definitions may be written in YAML"),
            (
                "schemars",
                "the schema of definitions derives from the types",
            ),
            ("serde", "definitions and events are read and written"),
            ("serde_json", "values are JSON"),
            ("sha2", "digests and ancestry"),
            ("strsim", "suggests the nearest name"),
            ("uuid", "identifiers of runs; made elsewhere"),
            ("windlass-expr", "conditions and templates"),
        ],
    },
    Allowed {
        package: "windlass-orchestrator",
        dependencies: &[
            ("serde", "how a session ended is kept"),
            ("serde_json", "values are JSON"),
            ("windlass-core", "the state machine it holds many of"),
            ("windlass-store", "the contract of appends and inboxes"),
        ],
    },
];

/// Our crates that each of ours may use; one that is missing here may use any.
const DIRECTION: &[(&str, &[&str])] = &[
    ("windlass-expr", &[]),
    ("windlass-core", &["windlass-expr"]),
    ("windlass-store", &["windlass-expr", "windlass-core"]),
    (
        "windlass-orchestrator",
        &["windlass-expr", "windlass-core", "windlass-store"],
    ),
    ("windlass-store-embedded", BACKEND),
    ("windlass-store-postgres", BACKEND),
    // Its relational side is the other store.
    (
        "windlass-store-nats",
        &[
            "windlass-expr",
            "windlass-core",
            "windlass-store",
            "windlass-store-postgres",
        ],
    ),
    (
        "windlass-engine",
        &[
            "windlass-expr",
            "windlass-core",
            "windlass-store",
            "windlass-orchestrator",
        ],
    ),
    (
        "windlass-actions",
        &["windlass-expr", "windlass-core", "windlass-engine"],
    ),
    // It watches an engine and knows neither stores nor who shows what it saw.
    ("windlass-telemetry", &["windlass-core", "windlass-engine"]),
    ("windlass-macros", &[]),
    (
        "windlass",
        &[
            "windlass-expr",
            "windlass-core",
            "windlass-store",
            "windlass-store-embedded",
            "windlass-store-postgres",
            "windlass-orchestrator",
            "windlass-engine",
            "windlass-actions",
            "windlass-service",
            "windlass-macros",
        ],
    ),
    // It draws definitions and statuses, and knows neither a store nor the engine.
    ("windlass-graph", &["windlass-expr", "windlass-core"]),
    (
        "windlass-service",
        &[
            "windlass-expr",
            "windlass-core",
            "windlass-graph",
            "windlass-store",
            "windlass-orchestrator",
            "windlass-engine",
            "windlass-actions",
            "windlass-sim",
        ],
    ),
    (
        "windlass-api",
        &[
            "windlass-expr",
            "windlass-core",
            "windlass-graph",
            "windlass-store",
            "windlass-engine",
            "windlass-service",
        ],
    ),
];

/// What the tests of several crates share: nothing that ships may know it.
const TEST_SUPPORT: &str = "windlass-test-support";

/// The package of the binary that ships.
const BINARY: &str = "windlass-cli";

/// A backend sees the contract and what it stores, never the engine.
const BACKEND: &[&str] = &["windlass-expr", "windlass-core", "windlass-store"];

pub(super) fn check(file: &str, content: &str, findings: &mut Vec<Finding>) {
    let manifest: Table = match content.parse() {
        Ok(manifest) => manifest,
        Err(error) => {
            findings.push(Finding::whole(file, format!("not TOML: {error}")));
            return;
        }
    };
    check_profiles(file, &manifest, findings);
    let Some(package) = manifest
        .get("package")
        .and_then(|package| package.get("name"))
        .and_then(|name| name.as_str())
    else {
        return;
    };
    check_lints(file, &manifest, findings);
    for (dependency, line) in dependencies(&manifest, content) {
        if let Some(reason) = refusal(package, &dependency) {
            findings.push(Finding {
                file: file.to_owned(),
                line,
                message: reason,
            });
        }
    }
}

/// Cargo drops `strip` of a profile for a package that has settings of its own there, and ships its
/// symbols: 9 MB of them.
fn check_profiles(file: &str, manifest: &Table, findings: &mut Vec<Finding>) {
    let profiles = manifest
        .get("profile")
        .and_then(|profiles| profiles.as_table());
    for name in ["release", "dist"] {
        let packages = profiles
            .and_then(|profiles| profiles.get(name))
            .and_then(|profile| profile.get("package"));
        if packages.is_some_and(|packages| packages.get(BINARY).is_some()) {
            let message = format!(
                "{BINARY} has settings in the profile {name}: cargo would not strip the binary"
            );
            findings.push(Finding::whole(file, message));
        }
    }
}

fn check_lints(file: &str, manifest: &Table, findings: &mut Vec<Finding>) {
    // A workspace of its own, as fuzzing needs, has nothing to inherit.
    if manifest.contains_key("workspace") {
        return;
    }
    let inherits = manifest
        .get("lints")
        .and_then(|lints| lints.get("workspace"))
        .and_then(|workspace| workspace.as_bool());
    if inherits != Some(true) {
        findings.push(Finding::whole(
            file,
            "inherit the workspace's lints: `[lints]` with `workspace = true`",
        ));
    }
}

/// Normal and build dependencies, those of single platforms included, with the line
/// that names each.
fn dependencies(manifest: &Table, content: &str) -> Vec<(String, Option<usize>)> {
    let platforms = manifest
        .get("target")
        .and_then(|target| target.as_table())
        .into_iter()
        .flat_map(|target| target.values())
        .filter_map(|platform| platform.as_table());
    let mut found = Vec::new();
    for table in std::iter::once(manifest).chain(platforms) {
        for kind in ["dependencies", "build-dependencies"] {
            let Some(list) = table.get(kind).and_then(|list| list.as_table()) else {
                continue;
            };
            for (key, value) in list {
                // A renamed dependency counts by its real name.
                let name = value
                    .get("package")
                    .and_then(|name| name.as_str())
                    .unwrap_or(key);
                found.push((name.to_owned(), line_of(content, key)));
            }
        }
    }
    found
}

fn line_of(content: &str, key: &str) -> Option<usize> {
    content
        .lines()
        .position(|line| {
            line.trim_start()
                .strip_prefix(key)
                .is_some_and(|rest| rest.starts_with(['.', ' ', '=']))
        })
        .map(|index| index + 1)
}

/// Why the package may not use the dependency.
fn refusal(package: &str, dependency: &str) -> Option<String> {
    if dependency == TEST_SUPPORT {
        return Some(format!("{TEST_SUPPORT} is a dev-dependency alone"));
    }
    if dependency.starts_with("windlass")
        && let Some((_, allowed)) = DIRECTION.iter().find(|(name, _)| *name == package)
        && !allowed.contains(&dependency)
    {
        return Some(format!("{package} must not know {dependency}"));
    }
    let allowed = ALLOWED.iter().find(|allowed| allowed.package == package)?;
    let known = allowed
        .dependencies
        .iter()
        .any(|(name, _)| *name == dependency);
    (!known).then(|| {
        format!("{package} is pure: {dependency} is not on its list of dependencies in xtask")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(package: &str, rest: &str) -> Vec<String> {
        let manifest =
            format!("[package]\nname = \"{package}\"\n[lints]\nworkspace = true\n{rest}");
        let mut findings = Vec::new();
        check("Cargo.toml", &manifest, &mut findings);
        findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_pure_crate_keeps_to_its_list() {
        assert_eq!(
            findings(
                "windlass-core",
                "[dependencies]\nserde = \"1\"\nrand = \"0.9\"\n"
            ),
            [
                "Cargo.toml:7: windlass-core is pure: rand is not on its list of dependencies \
                 in xtask"
            ]
        );
        assert!(findings("windlass-core", "[dev-dependencies]\nrand = \"0.9\"\n").is_empty());
        assert!(findings("windlass-engine", "[dependencies]\ntokio = \"1\"\n").is_empty());
    }

    #[test]
    fn renaming_or_choosing_a_platform_hides_nothing() {
        let renamed = "[dependencies]\nserde = { package = \"rand\", version = \"1\" }\n";
        assert_eq!(findings("windlass-core", renamed).len(), 1);
        let platform = "[target.'cfg(unix)'.dependencies]\nlibc = \"1\"\n";
        assert_eq!(findings("windlass-expr", platform).len(), 1);
    }

    #[test]
    fn our_crates_point_one_way() {
        let uses = |package: &str, other: &str| {
            findings(
                package,
                &format!("[dependencies]\n{other}.workspace = true\n"),
            )
            .len()
        };
        assert_eq!(uses("windlass-core", "windlass-expr"), 0);
        assert_eq!(uses("windlass-expr", "windlass-core"), 1);
        assert_eq!(uses("windlass-store", "windlass-orchestrator"), 1);
        assert_eq!(uses("windlass-store-embedded", "windlass-store"), 0);
        assert_eq!(uses("windlass-store-embedded", "windlass-engine"), 1);
        assert_eq!(uses("windlass-engine", "windlass-store-embedded"), 1);
        assert_eq!(uses("windlass-actions", "windlass-store"), 1);
        assert_eq!(uses("windlass-cli", "windlass-store-embedded"), 0);
        assert_eq!(uses("windlass", "windlass-macros"), 0);
        assert_eq!(uses("windlass", "windlass-cli"), 1);
        assert_eq!(uses("windlass-macros", "windlass"), 1);
        assert_eq!(uses("windlass-engine", "windlass"), 1);
    }

    #[test]
    fn what_tests_share_is_a_dev_dependency() {
        let line = "windlass-test-support.workspace = true";
        let uses = |kind: &str| findings("windlass-cli", &format!("[{kind}]\n{line}\n")).len();
        assert_eq!(uses("dependencies"), 1);
        assert_eq!(uses("dev-dependencies"), 0);
    }

    #[test]
    fn the_package_of_the_binary_has_no_settings_that_would_keep_its_symbols() {
        let found = |profile: &str, package: &str| {
            let manifest = format!("[profile.{profile}.package.{package}]\nopt-level = 0\n");
            let mut findings = Vec::new();
            check("Cargo.toml", &manifest, &mut findings);
            findings.len()
        };
        assert_eq!(found("dist", "windlass-cli"), 1);
        // The other inherits from it.
        assert_eq!(found("release", "windlass-cli"), 1);
        assert_eq!(found("dev", "windlass-cli"), 0);
        assert_eq!(found("dist", "windlass-engine"), 0);
    }

    #[test]
    fn every_package_inherits_the_lints() {
        let mut findings = Vec::new();
        check("Cargo.toml", "[package]\nname = \"x\"\n", &mut findings);
        assert_eq!(findings.len(), 1);
        findings.clear();
        check("Cargo.toml", "[workspace]\n", &mut findings);
        let alone = "[package]\nname = \"x\"\n[workspace]\n";
        check("Cargo.toml", alone, &mut findings);
        assert!(findings.is_empty());
    }
}
