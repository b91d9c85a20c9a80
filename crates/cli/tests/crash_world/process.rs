//! The binary as a process that is killed: by itself at a place, or from outside at a time.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use rustix::process::{Pid, Signal, kill_process_group};

use super::World;

/// No command here takes nearly as long, on the slowest machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// When a process is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kill {
    /// By itself, at a place, when it passes it for the nth time.
    At(&'static str, u64),
    /// By itself, so many steps after it began something for the nth time.
    During(&'static str, u64, u32),
    /// From outside, after some time.
    After(Duration),
    /// From outside, when a thread makes a system call for the nth time, before the call
    /// does anything. Needs `strace`, which `cargo xtask test` installs.
    #[allow(dead_code, reason = "not every test has it traced")]
    Call(&'static str, u64),
}

impl fmt::Display for Kill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::At(point, count) => write!(f, "{point}:{count}"),
            Self::During(point, count, steps) => write!(f, "{point}:{count}:{steps}"),
            Self::After(time) => write!(f, "after {time:?}"),
            Self::Call(call, count) => write!(f, "{call} {count}"),
        }
    }
}

/// How a process ended.
#[derive(Debug)]
pub(crate) struct Ended {
    /// Its exit code; none if it was killed.
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    pub(crate) fn was_killed(&self) -> bool {
        self.code.is_none()
    }

    /// The runs that it said exist, each with the nodes that it said have ended, and how.
    /// A line that the kill cut short says nothing.
    pub(crate) fn acknowledged(&self) -> BTreeMap<String, BTreeMap<String, String>> {
        let mut runs: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
        let mut current = None;
        for line in self.stderr.split_inclusive('\n') {
            let Some(line) = line.strip_suffix('\n') else {
                continue;
            };
            if let Some(rest) = line.strip_prefix("crash ") {
                // The line about the end has more than an id before its colon.
                if let Some((run, _)) = rest.split_once(": ").filter(|(run, _)| !run.contains(' '))
                {
                    runs.entry(run.to_owned()).or_default();
                    current = Some(run.to_owned());
                }
            } else if let Some(run) = &current
                && let Some((node, rest)) = line.trim().split_once(": ")
                && !rest.ends_with("(to be tried again)")
                && let Some(status) = rest.split([' ', ':']).next()
                && ["Succeeded", "Failed", "Skipped"].contains(&status)
            {
                let nodes = runs.entry(run.clone()).or_default();
                nodes.insert(node.to_owned(), status.to_owned());
            }
        }
        runs
    }
}

impl World {
    /// Runs the binary here, and kills it or lets it kill itself.
    pub(crate) fn windlass(&self, arguments: &[&str], kill: Option<Kill>) -> Result<Ended> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let (out, err) = (format!("{number}.out"), format!("{number}.err"));
        // Files, not pipes: what was written before the kill is whole, and no reader has to
        // wait for it.
        let mut command = program(kill);
        command
            .args(arguments)
            .current_dir(self.root())
            .env("WINDLASS_CHECKPOINT_BYTES", "65536")
            .env("WINDLASS_COMMITS_BEFORE_GROWTH", "4")
            .env("WINDLASS_STILL_RUNNING_MS", "2")
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(File::create(self.path(&out))?)
            .stderr(File::create(self.path(&err))?);
        if let Some(kill @ (Kill::At(..) | Kill::During(..))) = kill {
            command.env("WINDLASS_CRASH_AT", kill.to_string());
        }
        let mut child = command.spawn()?;
        if let Some(Kill::After(time)) = kill {
            thread::sleep(time);
            child.kill()?;
        }
        let status = wait(&mut child)?;
        // Programs that outlived it must not append later, when effects are counted.
        if let (None, Some(group)) = (status.code(), Pid::from_raw(child.id().cast_signed())) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        Ok(Ended {
            code: status.code(),
            stdout: fs::read_to_string(self.path(&out))?,
            stderr: fs::read_to_string(self.path(&err))?,
        })
    }
}

/// The binary, traced if the kernel is to say when it dies.
fn program(kill: Option<Kill>) -> Command {
    let binary = env!("CARGO_BIN_EXE_windlass");
    let Some(Kill::Call(call, count)) = kill else {
        return Command::new(binary);
    };
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-o", "/dev/null", "-e"]);
    command.arg(format!("trace={call}")).arg("-e");
    command.arg(format!("inject={call}:signal=KILL:when={count}"));
    command.arg(binary);
    command
}

fn wait(child: &mut Child) -> Result<ExitStatus> {
    let began = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            if !matches!(status.signal(), None | Some(9)) {
                bail!("the process died of {status}");
            }
            return Ok(status);
        }
        if began.elapsed() > PATIENCE {
            child.kill()?;
            bail!("the process did not end");
        }
        thread::sleep(Duration::from_millis(2));
    }
}
