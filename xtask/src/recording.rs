//! The recording in the README: the real binary runs, is killed, and carries the run on. What it
//! wrote, line by line and when, becomes a picture that plays by itself (`docs/images`).

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// Where the picture is.
const PICTURE: &str = "docs/images/kill-and-resume.svg";

/// The step whose end is the moment of the kill.
const KILLED_AFTER: &str = "check: Succeeded";

/// The columns of the terminal that is drawn; longer lines are cut.
const COLUMNS: usize = 84;

/// How long typing a command takes in the picture, for each letter.
const TYPED: Duration = Duration::from_millis(35);

/// A line, and when it appears.
#[derive(Debug, PartialEq, Eq)]
struct Shown {
    at: Duration,
    look: Look,
    text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    Command,
    Output,
    Comment,
}

/// Records the story with this binary, or with a debug build, and writes the picture.
pub(crate) fn run(root: &Path, binary: Option<&Path>) -> Result<()> {
    let binary = match binary {
        Some(binary) => binary.canonicalize()?,
        None => built(root)?,
    };
    let folder = std::env::temp_dir().join(format!("windlass-recording-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    let recorded = record(root, &binary, &folder);
    fs::remove_dir_all(&folder)?;
    let picture = root.join(PICTURE);
    fs::write(&picture, drawn(&recorded?))?;
    println!("wrote {PICTURE}");
    Ok(())
}

fn built(root: &Path) -> Result<PathBuf> {
    let mut build = Command::new("cargo");
    let status = build
        .args(["build", "--quiet", "--bin", "windlass"])
        .current_dir(root)
        .status()?;
    if !status.success() {
        bail!("the build failed");
    }
    Ok(root.join("target/debug/windlass"))
}

fn record(root: &Path, binary: &Path, folder: &Path) -> Result<Vec<Shown>> {
    let example = root.join("examples/patient.json");
    fs::copy(example, folder.join("patient.json"))?;
    let mut story = Story::default();
    story.command("windlass run patient.json");
    story.follow(binary, folder, &["run", "patient.json"], Some(KILLED_AFTER))?;
    story.say(
        Look::Comment,
        "# kill -9: the process is gone in the middle of a step",
    );
    story.command("windlass resume @last");
    story.follow(binary, folder, &["resume", "@last"], None)?;
    story.say(Look::Comment, "# finished steps did not run again");
    Ok(story.shown)
}

/// What appears, and the time that has passed.
#[derive(Default)]
struct Story {
    shown: Vec<Shown>,
    time: Duration,
}

impl Story {
    fn say(&mut self, look: Look, text: &str) {
        let mut letters = text.chars();
        let mut text: String = letters.by_ref().take(COLUMNS).collect();
        if letters.next().is_some() {
            text.pop();
            text.push('…');
        }
        let at = self.time;
        self.shown.push(Shown { at, look, text });
    }

    fn command(&mut self, text: &str) {
        self.time += TYPED * u32::try_from(text.len()).unwrap_or(0);
        self.say(Look::Command, text);
    }

    /// Runs the program and takes every line when it comes; kills it after this one.
    fn follow(
        &mut self,
        binary: &Path,
        folder: &Path,
        arguments: &[&str],
        until: Option<&str>,
    ) -> Result<()> {
        let mut child = Command::new(binary)
            .args(arguments)
            .current_dir(folder)
            .env("NO_COLOR", "1")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {}", binary.display()))?;
        let began = (Instant::now(), self.time);
        for line in lines(&mut child) {
            self.time = began.1 + began.0.elapsed();
            self.say(Look::Output, &line);
            if until.is_some_and(|until| line.contains(until)) {
                // Some way into the next step.
                std::thread::sleep(Duration::from_millis(1200));
                self.time = began.1 + began.0.elapsed();
                child.kill()?;
                break;
            }
        }
        child.wait()?;
        Ok(())
    }
}

/// The lines of both streams, in the order in which they come.
fn lines(child: &mut Child) -> mpsc::Receiver<String> {
    let (send, receive) = mpsc::channel();
    let read = |stream: Option<Box<dyn std::io::Read + Send>>| {
        let send = send.clone();
        let Some(stream) = stream else { return };
        std::thread::spawn(move || {
            for line in BufReader::new(stream).lines().map_while(Result::ok) {
                if send.send(line).is_err() {
                    return;
                }
            }
        });
    };
    read(child.stderr.take().map(|it| Box::new(it) as Box<_>));
    read(child.stdout.take().map(|it| Box::new(it) as Box<_>));
    receive
}

const LINE: usize = 20;
const MARGIN: usize = 20;

/// The picture. Where nothing plays, everything is shown.
fn drawn(shown: &[Shown]) -> String {
    let width = COLUMNS * 8 + 2 * MARGIN;
    let height = shown.len() * LINE + 2 * MARGIN + 24;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"A run is killed and resumed\">\n\
         <style>\n\
         text {{ font: 13.3px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; \
         fill: #c9d1d9; white-space: pre; }}\n\
         .command {{ fill: #ffffff; font-weight: 600; }}\n\
         .comment {{ fill: #ff7b72; }}\n\
         .good {{ fill: #56d364; }}\n\
         .line {{ animation: appear 1s steps(1) both; }}\n\
         @keyframes appear {{ from {{ opacity: 0; }} to {{ opacity: 1; }} }}\n\
         </style>\n\
         <rect width=\"{width}\" height=\"{height}\" rx=\"10\" fill=\"#0d1117\"/>\n\
         <circle cx=\"20\" cy=\"18\" r=\"5\" fill=\"#ff5f57\"/>\
         <circle cx=\"38\" cy=\"18\" r=\"5\" fill=\"#febc2e\"/>\
         <circle cx=\"56\" cy=\"18\" r=\"5\" fill=\"#28c840\"/>\n"
    );
    for (row, line) in shown.iter().enumerate() {
        let y = MARGIN + 24 + (row + 1) * LINE - 6;
        let (class, mark) = match line.look {
            Look::Command => ("command", "$ "),
            Look::Comment => ("comment", ""),
            Look::Output if line.text.contains("Succeeded") => ("good", ""),
            Look::Output => ("output", ""),
        };
        // Writing to a string cannot fail.
        let _ = writeln!(
            svg,
            "<text class=\"line {class}\" x=\"{MARGIN}\" y=\"{y}\" \
             style=\"animation-duration:{:.2}s\">{mark}{}</text>",
            line.at.as_secs_f64().max(0.01),
            escaped(&line.text)
        );
    }
    svg.push_str("</svg>\n");
    svg
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_appear_one_after_the_other_and_stay_in_the_picture() {
        let mut story = Story::default();
        story.command("windlass run a.json");
        story.time += Duration::from_secs(2);
        story.say(Look::Output, "  a <b>: Succeeded");
        story.say(Look::Output, &"x".repeat(200));
        let svg = drawn(&story.shown);
        assert!(
            svg.contains("animation-duration:0.67s\">$ windlass run a.json</text>"),
            "{svg}"
        );
        assert!(
            svg.contains("animation-duration:2.67s\">  a &lt;b&gt;: Succeeded</text>"),
            "{svg}"
        );
        let longest = story
            .shown
            .iter()
            .map(|line| line.text.chars().count())
            .max();
        assert_eq!(longest, Some(COLUMNS));
    }
}
