//! Rules of every text file: nothing of the machine it was written on, no stray
//! whitespace in prose and code, nothing huge.

use super::Finding;

/// A larger file belongs somewhere else, or is made by a build.
const MAX_BYTES: usize = 1024 * 1024;

/// The first page says what Windlass is and leads to the rest: a longer one is not read.
const README: (&str, usize) = ("README.md", 199);

/// Folders of one machine.
const MACHINE_PATHS: [&str; 3] = ["/work/", "/home/", "/root/"];

/// Where one machine takes its packages from. The lock file names the public index
/// by its repository, which is none of these.
const REGISTRY_HOSTS: [&str; 7] = [
    "index.crates.io",
    "static.crates.io",
    "registry.npmjs.org",
    "files.pythonhosted.org",
    "pypi.org/simple",
    "jfrog.io",
    "/artifactory/",
];

/// The only source of packages in the lock file.
const PUBLIC_INDEX: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Files in which stray whitespace is looked for.
const SPACED: [&str; 5] = [".rs", ".md", ".py", ".ts", ".mjs"];

/// These files name what they refuse.
const SELF: &str = "xtask/src/tidy/";

pub(super) fn check_size(file: &str, bytes: usize, findings: &mut Vec<Finding>) {
    if bytes > MAX_BYTES {
        findings.push(Finding::whole(
            file,
            format!("{bytes} bytes; a file of the repository has at most {MAX_BYTES}"),
        ));
    }
}

pub(super) fn check(file: &str, content: &str, findings: &mut Vec<Finding>) {
    let lines = content.lines().count();
    if file == README.0 && lines > README.1 {
        let message = format!("{lines} lines; it has at most {}", README.1);
        findings.push(Finding::whole(file, message));
    }
    let spaced = SPACED.iter().any(|extension| file.ends_with(extension));
    for (index, line) in content.lines().enumerate() {
        if spaced {
            check_whitespace(file, index, line, findings);
        }
        if file.ends_with("Cargo.lock") {
            check_source(file, index, line, findings);
        }
        if !file.starts_with(SELF) {
            check_machine(file, index, line, findings);
        }
    }
}

fn check_whitespace(file: &str, index: usize, line: &str, findings: &mut Vec<Finding>) {
    if line.contains('\t') {
        findings.push(Finding::at(file, index, "a tab; use spaces"));
    }
    if line.ends_with([' ', '\t', '\r']) {
        findings.push(Finding::at(
            file,
            index,
            "whitespace at the end of the line",
        ));
    }
}

fn check_machine(file: &str, index: usize, line: &str, findings: &mut Vec<Finding>) {
    for path in MACHINE_PATHS {
        let own = line.match_indices(path).any(|(start, _)| {
            // A folder of that name in the middle of a longer path is no machine path.
            !line[..start].ends_with(|character: char| {
                character.is_alphanumeric() || "._-})".contains(character)
            })
        });
        if own {
            findings.push(Finding::at(
                file,
                index,
                format!("`{path}` is a folder of one machine"),
            ));
        }
    }
    for host in REGISTRY_HOSTS {
        if line.contains(host) {
            findings.push(Finding::at(
                file,
                index,
                format!("`{host}` is where one machine takes its packages from"),
            ));
        }
    }
}

fn check_source(file: &str, index: usize, line: &str, findings: &mut Vec<Finding>) {
    if let Some(source) = line.strip_prefix("source = ")
        && source.trim_matches('"') != PUBLIC_INDEX
    {
        findings.push(Finding::at(
            file,
            index,
            "packages come from the public index only",
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(file: &str, content: &str) -> Vec<String> {
        let mut findings = Vec::new();
        check(file, content, &mut findings);
        findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn whitespace_is_checked_in_prose_and_code() {
        assert_eq!(
            findings("README.md", "fine\nnot \n\tnor\n"),
            [
                "README.md:2: whitespace at the end of the line",
                "README.md:3: a tab; use spaces"
            ]
        );
        assert_eq!(findings("clients/python/a.py", "go \n").len(), 1);
        assert!(findings("Makefile", "\tgo \n").is_empty());
    }

    #[test]
    fn the_first_page_stays_short() {
        let long = "a line\n".repeat(200);
        assert_eq!(findings("README.md", &long).len(), 1);
        assert!(findings("README.md", &long[7..]).is_empty());
        assert!(findings("docs/cli.md", &long).is_empty());
    }

    #[test]
    fn the_machine_stays_out() {
        assert_eq!(
            findings("README.md", "cd /home/me/windlass\n"),
            ["README.md:1: `/home/` is a folder of one machine"]
        );
        assert_eq!(findings("a.toml", "path = \"/work/x\"\n").len(), 1);
        assert_eq!(findings("a.md", "file:///root/x\n").len(), 1);
        assert!(findings("a.md", "https://example.com/home/page\n").is_empty());
        assert!(findings("a.md", "{base}/work/{id}\n").is_empty());
        assert!(findings("a.md", "the /health route\n").is_empty());
    }

    #[test]
    fn registries_stay_out() {
        assert_eq!(findings("a.md", "https://static.crates.io/x\n").len(), 1);
        let public = format!("source = \"{PUBLIC_INDEX}\"\n");
        assert!(findings("Cargo.lock", &public).is_empty());
        assert_eq!(
            findings(
                "Cargo.lock",
                "source = \"registry+https://mirror.test/index\"\n"
            ),
            ["Cargo.lock:1: packages come from the public index only"]
        );
    }

    #[test]
    fn a_huge_file_is_refused() {
        let mut findings = Vec::new();
        check_size("a.bin", MAX_BYTES, &mut findings);
        assert!(findings.is_empty());
        check_size("a.bin", MAX_BYTES + 1, &mut findings);
        assert_eq!(findings.len(), 1);
    }
}
