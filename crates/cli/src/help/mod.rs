//! How help is laid out: commands in groups, examples under each command, and the options of
//! every command in one place.

mod examples;

use std::fmt::Write as _;

use clap::Command;
use clap::builder::StyledStr;

use examples::EXAMPLES;

/// The commands by what they are for, as the documentation has them.
const GROUPS: [(&str, &[&str]); 6] = [
    ("Running", &["run", "start", "serve", "dev"]),
    (
        "Definitions",
        &[
            "validate",
            "simulate",
            "graph",
            "publish",
            "workflows",
            "diff",
            "schema",
            "actions",
        ],
    ),
    (
        "Looking at runs",
        &["runs", "show", "watch", "result", "events", "why", "blob"],
    ),
    (
        "Acting on runs",
        &[
            "cancel",
            "pause",
            "resume",
            "reattempt",
            "fork",
            "signal",
            "set-result",
            "skip",
            "compensate",
        ],
    ),
    (
        "Setting up",
        &["schedules", "hooks", "pools", "secrets", "token"],
    ),
    (
        "Upkeep",
        &[
            "export",
            "import",
            "verify",
            "rebuild",
            "backup",
            "restore",
            "dead-letters",
            "query",
            "cluster",
            "migrate",
            "doctor",
            "config",
            "completions",
            "bench",
        ],
    ),
];

const BOLD: (&str, &str) = ("\u{1b}[1m\u{1b}[4m", "\u{1b}[0m");

fn heading(text: &str) -> String {
    format!("{}{text}:{}", BOLD.0, BOLD.1)
}

/// The command line with its help laid out. Options of every command are told once, in the
/// help of the program itself.
pub(crate) fn arranged(command: Command) -> Command {
    let global: Vec<_> = command
        .get_arguments()
        .filter(|argument| argument.is_global_set())
        .map(|argument| argument.get_id().clone())
        .collect();
    let options = global_options(&command);
    let mut command = command;
    for id in &global {
        command = command.mut_arg(id, |argument| argument.hide(true));
    }
    let names: Vec<String> = command
        .get_subcommands()
        .map(|subcommand| subcommand.get_name().to_owned())
        .collect();
    for name in &names {
        command = command.mut_subcommand(name, with_examples);
    }
    let groups = groups(&command);
    command.help_template(StyledStr::from(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n{groups}\n{}\n{{options}}\n\n{}\n{options}\n\
         `windlass COMMAND --help` has examples. Documentation: docs/cli.md\n",
        heading("Options"),
        heading("Options of every command"),
    )))
}

fn with_examples(command: Command) -> Command {
    let examples = EXAMPLES
        .iter()
        .find(|(name, _)| *name == command.get_name());
    let mut text = String::new();
    if let Some((_, examples)) = examples {
        let _ = writeln!(text, "{}", heading("Examples"));
        let width = examples.iter().map(|(line, _)| line.chars().count());
        let width = width.max().unwrap_or(0).min(COLUMN);
        for (line, what) in *examples {
            // Writing to a string cannot fail.
            let _ = match line.chars().count() > COLUMN {
                true => writeln!(text, "  {line}\n  {:width$}  # {what}", ""),
                false => writeln!(text, "  {line:width$}  # {what}"),
            };
        }
        text.push('\n');
    }
    text.push_str("Options of every command (--json, --data-dir, --server, …): windlass --help");
    command.after_help(StyledStr::from(text))
}

/// Where what an example does stands beside it.
const COLUMN: usize = 52;

/// The commands in their groups; one that no group has comes last.
fn groups(command: &Command) -> String {
    let shown: Vec<&Command> = command
        .get_subcommands()
        .filter(|subcommand| !subcommand.is_hide_set())
        .collect();
    let width = shown.iter().map(|it| it.get_name().len()).max();
    let width = width.unwrap_or(0);
    let grouped: Vec<&str> = GROUPS
        .iter()
        .flat_map(|(_, names)| *names)
        .copied()
        .collect();
    let others: Vec<&str> = shown
        .iter()
        .map(|subcommand| subcommand.get_name())
        .filter(|name| !grouped.contains(name))
        .collect();
    let mut text = String::new();
    for (title, names) in GROUPS.iter().copied().chain([("Others", &*others)]) {
        let mut lines = String::new();
        for name in names {
            let Some(subcommand) = shown.iter().find(|it| it.get_name() == *name) else {
                continue;
            };
            let about = subcommand.get_about().map(ToString::to_string);
            let _ = writeln!(lines, "  {name:width$}  {}", about.unwrap_or_default());
        }
        if !lines.is_empty() {
            let _ = write!(text, "\n{}\n{lines}", heading(title));
        }
    }
    text
}

fn global_options(command: &Command) -> String {
    let mut text = String::new();
    for argument in command.get_arguments().filter(|it| it.is_global_set()) {
        let names = argument
            .get_value_names()
            .filter(|_| argument.get_action().takes_values());
        let value = names.and_then(|names| names.first());
        let value = value.map(|name| format!(" <{name}>")).unwrap_or_default();
        let option = format!("--{}{value}", argument.get_long().unwrap_or_default());
        let about = argument.get_help().map(ToString::to_string);
        let _ = writeln!(text, "      {option:20}  {}", about.unwrap_or_default());
    }
    text
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::args::Arguments;

    fn command() -> Command {
        arranged(Arguments::command())
    }

    fn shown(command: &Command) -> impl Iterator<Item = &Command> {
        let subcommands = command.get_subcommands();
        subcommands.filter(|it| !it.is_hide_set() && it.get_name() != "help")
    }

    #[test]
    fn every_command_has_a_group_and_three_examples_that_can_be_read() {
        let command = command();
        for subcommand in shown(&command) {
            let name = subcommand.get_name();
            let groups = GROUPS.iter().filter(|(_, names)| names.contains(&name));
            assert_eq!(groups.count(), 1, "{name} has no group, or several");
            let examples = EXAMPLES.iter().find(|(of, _)| *of == name);
            let (_, examples) = examples.unwrap_or_else(|| panic!("{name} has no examples"));
            assert!(
                examples.len() >= 3,
                "{name} has {} examples",
                examples.len()
            );
            for (line, _) in *examples {
                let words = words(line);
                let read = self::command().try_get_matches_from(&words);
                let read = read.map(drop).map_err(|error| error.to_string());
                assert_eq!(read, Ok(()), "{line}");
                assert!(
                    words.iter().any(|word| word == name),
                    "{line} is not about {name}"
                );
            }
        }
    }

    /// The words of a line, as a shell reads it up to a pipe.
    fn words(line: &str) -> Vec<String> {
        let (mut words, mut word, mut quote) = (Vec::new(), String::new(), None);
        let line = line.rsplit(" | windlass ").next().unwrap_or(line);
        let line = match line.starts_with("windlass") {
            true => line.to_owned(),
            false => format!("windlass {line}"),
        };
        for letter in line.split(" > ").next().unwrap_or_default().chars() {
            match (letter, quote) {
                ('\'' | '"', None) => quote = Some(letter),
                (letter, Some(open)) if letter == open => quote = None,
                (' ', None) => words.push(std::mem::take(&mut word)),
                (letter, _) => word.push(letter),
            }
        }
        words.push(word);
        words.retain(|word| !word.is_empty());
        words
    }

    /// The commands of each table of the page, in the order of its groups.
    #[test]
    fn the_page_of_commands_has_the_same_groups() {
        let page = include_str!("../../../../docs/cli.md");
        let (_, mut rest) = page.split_once("## Commands").expect("a chapter");
        let mut tables = Vec::new();
        for (title, names) in GROUPS {
            let start = [format!("\n{title}:"), format!("\n{title}. ")];
            let place = start.iter().find_map(|start| rest.find(start));
            let place = place.unwrap_or_else(|| panic!("docs/cli.md has no group '{title}'"));
            let (before, after) = rest.split_at(place + 1);
            tables.push(before);
            rest = after;
            assert!(!names.is_empty());
        }
        tables.push(rest.split("\n## ").next().unwrap_or_default());
        for ((title, names), table) in GROUPS.iter().zip(&tables[1..]) {
            for name in *names {
                let is_row = |line: &&str| {
                    let row = line.strip_prefix("| ").unwrap_or_default();
                    let command = format!("`windlass {name}");
                    let mut ends = row
                        .match_indices(&*command)
                        .map(|(at, _)| at + command.len());
                    ends.any(|end| row[end..].starts_with([' ', '`']))
                };
                let is_there = table.lines().any(|line| is_row(&line));
                assert!(is_there, "docs/cli.md: no row of '{name}' under '{title}'");
            }
        }
    }

    #[test]
    fn the_options_of_every_command_are_told_once() {
        let mut command = command();
        let program = command.render_long_help().to_string();
        assert!(program.contains("--data-dir <DIR>"), "{program}");
        for title in ["Running:", "Looking at runs:", "Acting on runs:", "Upkeep:"] {
            assert!(program.contains(title), "{title} in {program}");
        }
        command.build();
        let show = command.find_subcommand_mut("show").expect("a command");
        let help = show.render_long_help().to_string();
        assert!(!help.contains("--data-dir <DIR>"), "{help}");
        assert!(
            help.contains("Examples:") && help.contains("windlass --help"),
            "{help}"
        );
    }
}
