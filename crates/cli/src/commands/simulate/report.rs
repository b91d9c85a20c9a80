//! The report of a simulation, for people and for programs.

use windlass_core::RunStatus;
use windlass_service::simulate::{Summary, as_json, one_as_json};
use windlass_sim::account::{Account, Ending};
use windlass_sim::simulate::Simulation;

use super::Simulate;
use crate::exit::Failure;
use crate::moment::duration;
use crate::output::Output;
use crate::paint::{BOLD, DIM, GREEN, RED, YELLOW, paint, run_glyph, run_style};
use crate::session::Settings;
use crate::table::{Cell, Table};

/// A list names this many; `--json` has them all.
const NAMED: usize = 12;

/// Reports all runs.
pub(super) fn all(
    settings: &Settings,
    arguments: &Simulate,
    simulation: &Simulation,
    summary: &Summary,
) -> Result<(), Failure> {
    let output = &settings.output;
    if output.json {
        return output.json(&as_json(simulation, summary));
    }
    let mut text = heading(output, simulation, summary);
    text.push_str(&endings(output, summary));
    text.push_str(&durations(output, summary));
    text.push_str(&failures(output, summary));
    text.push_str(&never(output, summary));
    text.push_str(&problems(output, summary));
    let seed = summary.endings.first().map_or(0, |ended| ended.seed);
    let hint = format!("repeat one: {} --seed {seed}", command(arguments));
    text.push_str(&format!("\n{}\n", paint(output.color, DIM, &hint)));
    output.data(&text)
}

/// The command without its number of seeds.
fn command(arguments: &Simulate) -> String {
    let mut words = vec![
        "windlass simulate".to_owned(),
        quoted(&arguments.file.display().to_string()),
    ];
    words.extend(
        arguments
            .trigger
            .iter()
            .map(|it| format!("--trigger {}", quoted(it))),
    );
    let lists = [
        ("--fail", &arguments.fail),
        ("--delay", &arguments.delay),
        ("--returns", &arguments.returns),
        ("--signal", &arguments.signals),
    ];
    for (option, values) in lists {
        words.extend(values.iter().map(|it| format!("{option} {}", quoted(it))));
    }
    if arguments.no_crashes {
        words.push("--no-crashes".to_owned());
    }
    words.join(" ")
}

fn quoted(text: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./=:@%,".contains(letter);
    if text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

fn heading(output: &Output, simulation: &Simulation, summary: &Summary) -> String {
    let name = paint(output.color, BOLD, simulation.plan.workflow());
    let crashes = match summary.crashes {
        0 => String::new(),
        1 => ", 1 crash".to_owned(),
        count => format!(", {count} crashes"),
    };
    let runs = summary.runs;
    let noun = if runs == 1 { "run" } else { "runs" };
    format!("{name}: {runs} simulated {noun}{crashes}\n\n")
}

fn endings(output: &Output, summary: &Summary) -> String {
    let mut table = Table::new(&[">share", ">runs", ">seed", "ending"]);
    for ended in &summary.endings {
        let share = 100.0 * ended.runs as f64 / summary.runs.max(1) as f64;
        let style = match &ended.ending {
            Ending::Finished { status, .. } => run_style(*status),
            _ => YELLOW,
        };
        table.row([
            format!("{share:.1} %").into(),
            ended.runs.to_string().into(),
            ended.seed.to_string().into(),
            Cell::styled(words(&ended.ending), style),
        ]);
    }
    table.render(output)
}

fn words(ending: &Ending) -> String {
    match ending {
        Ending::Finished {
            status,
            code,
            nodes,
            handled,
            compensated,
        } => {
            let mut text = format!("{} {status}", run_glyph(*status));
            if let Some(code) = code {
                text.push_str(&format!(" {code}"));
            }
            if !nodes.is_empty() {
                text.push_str(&format!(": {}", listed(nodes)));
            }
            if !handled.is_empty() {
                text.push_str(&format!(", after {} failed", listed(handled)));
            }
            match compensated {
                Some(true) => text.push_str(", undone"),
                Some(false) => text.push_str(", undone in part"),
                None => {}
            }
            text
        }
        Ending::Stuck(signals) if signals.is_empty() => "! can make no progress".to_owned(),
        Ending::Stuck(signals) => format!("! waits for ever for signal {}", listed(signals)),
        Ending::TooManySteps => "! given up: too many steps".to_owned(),
        Ending::TooLong => "! given up: not ended after a year".to_owned(),
        Ending::RuleBroken => "! stopped: Windlass broke one of its own rules".to_owned(),
    }
}

fn listed<T: AsRef<str>>(names: &[T]) -> String {
    let shown: Vec<&str> = names.iter().take(NAMED).map(AsRef::as_ref).collect();
    let more = names.len().saturating_sub(NAMED);
    match more {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

fn title(output: &Output, text: &str) -> String {
    format!("\n{}\n", paint(output.color, BOLD, text))
}

fn durations(output: &Output, summary: &Summary) -> String {
    let Some(times) = &summary.durations else {
        return String::new();
    };
    let mut text = title(output, "Duration, in virtual time");
    let all = [
        ("min", times.min),
        ("median", times.median),
        ("p95", times.p95),
        ("max", times.max),
    ];
    let all =
        all.map(|(name, time)| format!("{} {}", paint(output.color, DIM, name), duration(time)));
    text.push_str(&format!("  {}\n", all.join("   ")));
    text
}

fn failures(output: &Output, summary: &Summary) -> String {
    if summary.failures.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&[">attempts", ">runs", "node", "code", "message"]);
    for ((node, code), failed) in summary.failures.iter().take(NAMED) {
        table.row([
            failed.attempts.to_string().into(),
            failed.runs.to_string().into(),
            node.clone().into(),
            Cell::styled(code.clone(), RED),
            windlass_service::text::one_line(&failed.message).into(),
        ]);
    }
    format!(
        "{}{}",
        title(output, "Failed attempts"),
        table.render(output)
    )
}

/// What never happened, and what always did.
fn never(output: &Output, summary: &Summary) -> String {
    let mut lines = Vec::new();
    if !summary.never_ran.is_empty() {
        lines.push(format!("never ran: {}", listed(&summary.never_ran)));
    }
    for (condition, asked) in &summary.conditions {
        let what = match (asked.asked, asked.taken) {
            (0, _) => "condition never asked",
            (_, 0) => "condition never true",
            (all, taken) if all == taken => "condition always true",
            _ => continue,
        };
        let (node, target, when) = (&condition.node, &condition.target, condition.when);
        let times = asked.asked;
        let asked = if times > 0 {
            format!(", asked {times} times")
        } else {
            String::new()
        };
        lines.push(format!("{what}: {node} → {target} ({when}{asked})"));
    }
    if lines.is_empty() {
        let all = "every node ran, and every condition was true and false";
        return format!("\n{}\n", paint(output.color, GREEN, all));
    }
    let lines = lines.iter().map(|line| format!("  {line}\n"));
    format!(
        "{}{}",
        title(output, "Not everything happened"),
        lines.collect::<String>()
    )
}

fn problems(output: &Output, summary: &Summary) -> String {
    let found = windlass_service::simulate::problems(summary);
    if found.is_empty() {
        return String::new();
    }
    let lines = found
        .iter()
        .map(|line| format!("  {}\n", paint(output.color, YELLOW, line)));
    format!("{}{}", title(output, "Problems"), lines.collect::<String>())
}

/// Reports one run, and tells what happened in it.
pub(super) fn one(
    settings: &Settings,
    simulation: &Simulation,
    account: &Account,
) -> Result<(), Failure> {
    let output = &settings.output;
    if output.json {
        return output.json(&one_as_json(simulation, account));
    }
    let mut table = Table::new(&[">after", "what"]);
    for (after, words) in &account.story {
        table.row([duration(*after).into(), words.clone().into()]);
    }
    let style = match account.ending {
        Ending::Finished {
            status: RunStatus::Succeeded,
            ..
        } => GREEN,
        Ending::Finished { .. } => RED,
        _ => YELLOW,
    };
    let ending = paint(output.color, style, &words(&account.ending));
    let (name, seed) = (simulation.plan.workflow(), account.seed);
    let text = format!(
        "{}: seed {seed}\n\n{}\n{ending} after {}\n",
        paint(output.color, BOLD, name),
        table.render(output),
        duration(account.duration_ms),
    );
    output.data(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endings_that_are_none_say_what_they_are() {
        let broken = words(&Ending::RuleBroken);
        assert!(broken.contains("Windlass broke one of its own rules"));
        assert_eq!(words(&Ending::Stuck(Vec::new())), "! can make no progress");
        let waits = words(&Ending::Stuck(vec!["go".into()]));
        assert_eq!(waits, "! waits for ever for signal go");
    }
}
