//! Figures of the whole program, measured on itself as a child process: how soon it
//! answers, and how much memory a node costs.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use super::{Report, Scratch, Sizes, graphs, recover};
use crate::exit::{Exit, Failure};

/// How often a short command is started; the median counts.
const STARTS: usize = 15;

pub(crate) fn measure(scratch: &Scratch, sizes: Sizes, report: &mut Report) -> Result<(), Failure> {
    let program = std::env::current_exe().map_err(|error| failed(&error))?;
    let folder = scratch.fresh();
    std::fs::create_dir_all(&folder).map_err(|error| failed(&error))?;
    let one = write(&folder, "one", &graphs::chain("one", 1, "core.echo"))?;
    let help = median(STARTS, || start(Command::new(&program).arg("--help")))?;
    let data = folder.join("data");
    let run = |file: &Path| {
        let mut command = Command::new(&program);
        command
            .args(["run", "--json", "--data-dir"])
            .arg(&data)
            .arg(file);
        command
    };
    let one_node = median(STARTS, || start(&mut run(&one)))?;
    report.add(
        "process",
        json!({
            "helpMilliseconds": milliseconds(help),
            "oneNodeRunMilliseconds": milliseconds(one_node),
            "target": "help in 20 ms, a one-node run in 100 ms",
        }),
    );
    let tenth = sizes.graph / 10;
    let small = write(
        &folder,
        "small",
        &graphs::fan_out("small", tenth - 2, "core.echo"),
    )?;
    let large = write(
        &folder,
        "large",
        &graphs::fan_out("large", sizes.graph - 2, "core.echo"),
    )?;
    let validate = median(3, || {
        start(Command::new(&program).arg("validate").arg(&large))
    })?;
    let base = resident(&mut run(&one))?;
    let (small_time, _) = resident(&mut run(&small))?;
    let (large_time, large_memory) = resident(&mut run(&large))?;
    let extra = large_memory
        .zip(base.1)
        .map(|(large, one)| large.saturating_sub(one));
    report.add(
        "graph",
        json!({
            "nodes": sizes.graph,
            "validateSeconds": validate.as_secs_f64(),
            "runSeconds": large_time.as_secs_f64(),
            "timesATenth": large_time.as_secs_f64() / small_time.as_secs_f64(),
            "bytesPerNode": extra.map(|bytes| bytes / sizes.graph as u64),
            "target": "validated in 1 s, under 1024 bytes a node, at most 11 times a tenth",
        }),
    );
    report.add("while", rounds(&folder, sizes, &run)?);
    // It is killed before its end.
    let long = graphs::rounds("long", sizes.rounds * 10);
    let long = write(&folder, "long", &long)?;
    let killed = folder.join("killed");
    let recovered = recover::measure(&program, &killed, &long, sizes.rounds)?;
    report.add("recover", recovered);
    Ok(())
}

/// What a round of a loop costs in memory: the peak of many rounds against that of a
/// twentieth of them.
fn rounds(
    folder: &Path,
    sizes: Sizes,
    run: &dyn Fn(&Path) -> Command,
) -> Result<serde_json::Value, Failure> {
    let few = sizes.rounds / 20;
    let small = write(folder, "few", &graphs::rounds("few", few))?;
    let large = write(folder, "many", &graphs::rounds("many", sizes.rounds))?;
    let (_, small) = resident(&mut run(&small))?;
    let (time, large) = resident(&mut run(&large))?;
    let extra = large.zip(small);
    let extra = extra.map(|(large, small)| large.saturating_sub(small));
    Ok(json!({
        "rounds": sizes.rounds,
        "seconds": time.as_secs_f64(),
        "peakBytes": large,
        "bytesPerRound": extra.map(|bytes| bytes as f64 / (sizes.rounds - few) as f64),
        "target": "flat memory: under 100 bytes a round",
    }))
}

fn write(folder: &Path, name: &str, text: &str) -> Result<std::path::PathBuf, Failure> {
    let path = folder.join(format!("{name}.json"));
    std::fs::write(&path, text).map_err(|error| failed(&error))?;
    Ok(path)
}

fn start(command: &mut Command) -> Result<Duration, Failure> {
    let begun = Instant::now();
    let status = quiet(command).status().map_err(|error| failed(&error))?;
    let took = begun.elapsed();
    if status.success() {
        Ok(took)
    } else {
        Err(failed(&status))
    }
}

/// Runs a command; its time and its largest resident size in bytes, where the system tells.
fn resident(command: &mut Command) -> Result<(Duration, Option<u64>), Failure> {
    let begun = Instant::now();
    let mut child = quiet(command).spawn().map_err(|error| failed(&error))?;
    let status = format!("/proc/{}/status", child.id());
    let mut peak = None;
    // The kernel keeps the high-water mark; it must be read while the process lives.
    let ended = loop {
        if let Some(bytes) = high_water(&status) {
            peak = Some(bytes.max(peak.unwrap_or(0)));
        }
        match child.try_wait().map_err(|error| failed(&error))? {
            Some(ended) => break ended,
            None => std::thread::sleep(Duration::from_micros(500)),
        }
    };
    if ended.success() {
        Ok((begun.elapsed(), peak))
    } else {
        Err(failed(&ended))
    }
}

/// The largest resident size of a process so far, by its status file.
pub(super) fn high_water(path: &str) -> Option<u64> {
    let text = std::fs::read_to_string(path).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kibibytes * 1024)
}

pub(super) fn quiet(command: &mut Command) -> &mut Command {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
}

fn median(
    count: usize,
    mut measure: impl FnMut() -> Result<Duration, Failure>,
) -> Result<Duration, Failure> {
    let mut times = (0..count)
        .map(|_| measure())
        .collect::<Result<Vec<_>, _>>()?;
    times.sort_unstable();
    Ok(times[times.len() / 2])
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

pub(super) fn failed(error: &dyn std::fmt::Display) -> Failure {
    Failure::new(
        Exit::Storage,
        "BENCH_PROCESS",
        format!("a measured process failed: {error}"),
    )
}
