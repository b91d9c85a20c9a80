//! `cargo xtask api`: tests the API from outside. Schemathesis reads the OpenAPI document of a
//! real server and sends requests that fit it and requests that do not; the server must answer
//! as its document says, and never with a 5xx.

mod server;

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::test::{self, retried, timed};
use server::Server;

/// The same requests every time.
const SEED: &str = "20240917";

/// Requests per operation and phase. Their number ends a round: with a time, the tool goes on
/// until it is over, and a quicker machine sends other requests.
const EXAMPLES: &str = "30";

/// What every answer must be.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,\
                      response_schema_conformance,response_headers_conformance,\
                      ignored_auth,unsupported_method,allow_header_conformance";

/// Requests that do not fit the document must be refused, except on the route that validates
/// definitions.
const REFUSALS: &str = "negative_data_rejection";
const NOT_REFUSED: &str = "/api/v1/workflows/validate";

/// The route that waits up to half a minute for its answer, which is longer than the tool does.
const WAITS: &str = "/api/v1/workers/poll";

/// Installs the tool and lets it at the server: a release build, unless a binary is named.
///
/// # Errors
/// What could not be installed or started, or that something was found.
pub(crate) fn run(root: &Path, binary: Option<&Path>) -> Result<()> {
    let target = target(root)?;
    let pins = root.join("xtask").join("schemathesis.txt");
    let tool = environment(&target, "schemathesis", &pins)?
        .join("bin")
        .join("st");
    let scratch = target.join("api-check");
    let binary = match binary {
        Some(binary) => binary.canonicalize().context("there is no such binary")?,
        None => {
            test::cargo(root, &["build", "--release", "--package", "windlass-cli"])?;
            target.join("release").join("windlass")
        }
    };
    timed("schemathesis", || {
        let server = Server::start(&binary, root, &scratch)?;
        let outcome = question(
            &tool,
            &server,
            &scratch,
            &["--checks", CHECKS, "--exclude-path", WAITS],
        );
        let refusals = [
            ["--checks", REFUSALS],
            ["--exclude-path", NOT_REFUSED],
            ["--exclude-path", WAITS],
        ];
        let refusals = refusals.concat();
        let outcome = outcome.and_then(|()| question(&tool, &server, &scratch, &refusals));
        let stopped = server.stop();
        outcome?;
        stopped
    })
    .context("repeat it with: cargo xtask api")
}

fn question(tool: &Path, server: &Server, scratch: &Path, what: &[&str]) -> Result<()> {
    let settings = scratch.join("schemathesis.toml");
    fs::write(&settings, server.settings()).context("the tool's settings cannot be written")?;
    let status = Command::new(tool)
        .arg("--config-file")
        .arg(&settings)
        .args(["run", &format!("{}/api/openapi.json", server.url())])
        .args(what)
        .args(["--header", &server.authorization()])
        .args(["--seed", SEED, "--max-examples", EXAMPLES])
        .args(["--request-timeout", "20"])
        // How fast the tool makes requests says something of the machine, not of the server.
        .args(["--suppress-health-check", "too_slow"])
        .args(["--generation-database", "none", "--no-color"])
        .args(["--continue-on-failure", "--warnings", "off"])
        .current_dir(scratch)
        .stdin(Stdio::null())
        .status()
        .context("schemathesis could not be started")?;
    if !status.success() {
        bail!(
            "schemathesis found something; the server's log is {}",
            server.log().display()
        );
    }
    Ok(())
}

/// Where cargo builds, which may be anywhere.
pub(crate) fn target(root: &Path) -> Result<PathBuf> {
    let output = test::cargo_command()
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .current_dir(root)
        .output()
        .context("cargo could not be started")?;
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout)
        .context("cargo metadata did not say where it builds")?;
    let folder = metadata["target_directory"].as_str();
    let folder = folder.context("cargo metadata names no target directory")?;
    Ok(PathBuf::from(folder))
}

/// A Python environment in a folder of its own with the packages of a requirements file, made
/// anew when that file has changed.
pub(crate) fn environment(target: &Path, name: &str, requirements: &Path) -> Result<PathBuf> {
    let file = requirements.display();
    let pins =
        fs::read_to_string(requirements).with_context(|| format!("{file} cannot be read"))?;
    let folder = target.join(name);
    let stamp = folder.join("installed.txt");
    if fs::read_to_string(&stamp).is_ok_and(|had| had == pins) {
        return Ok(folder);
    }
    timed(&format!("install {name}"), || {
        let made = command(
            "python3",
            [
                "-m".as_ref(),
                "venv".as_ref(),
                "--clear".as_ref(),
                folder.as_os_str(),
            ],
        );
        made.context(
            "these checks need python3 with venv (on Debian: apt-get install python3-venv)",
        )?;
        let pip = folder.join("bin").join("pip");
        let words = ["install", "--quiet", "--disable-pip-version-check", "-r"];
        retried(|| {
            let arguments = words.iter().map(OsStr::new);
            command(&pip, arguments.chain([requirements.as_os_str()]))
        })
        .with_context(|| format!("the packages of {file} could not be installed from PyPI"))?;
        fs::write(&stamp, &pins).context("the mark of the installation cannot be written")
    })?;
    Ok(folder)
}

fn command<'a>(
    program: impl AsRef<OsStr>,
    arguments: impl IntoIterator<Item = &'a OsStr>,
) -> Result<()> {
    let program = program.as_ref();
    let name = program.display();
    let status = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .status()
        .with_context(|| format!("{name} could not be started"))?;
    if !status.success() {
        bail!("{name} ended with {status}");
    }
    Ok(())
}
