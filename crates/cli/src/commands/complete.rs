//! `windlass __complete`: what the word that is being typed can be, one candidate a line with
//! what it is after a tab. Whatever goes wrong, there are fewer candidates and no message.

use clap::{Arg, ArgAction, Command, CommandFactory as _};
use windlass_core::RunStatus;
use windlass_engine::load_latest;
use windlass_store::{RunFilter, TenantFilter, Wait as _};

use crate::args::{Arguments, Complete, Global};
use crate::config::Config;
use crate::exit::{Exit, Failure};
use crate::session::{Session, Settings};

/// How many runs are offered.
const RUNS: usize = 50;

/// How many nodes of a run are offered.
const NODES: usize = 1_000;

/// A value, and what it is.
type Candidate = (String, String);

/// Prints candidates.
pub(crate) fn run(settings: &Settings, arguments: &Complete) -> Result<Exit, Failure> {
    let mut command = Arguments::command();
    command.build();
    let (current, before) = match arguments.words.split_last() {
        Some((current, before)) => (current.as_str(), before),
        None => ("", &[][..]),
    };
    let typed = Typed::read(&command, before);
    let mut text = String::new();
    for (value, about) in candidates(settings, &typed, current) {
        if value.starts_with(current) {
            let about = about.lines().next().unwrap_or_default();
            text.push_str(&format!("{value}\t{about}\n"));
        }
    }
    if !text.is_empty() {
        settings.output.data(&text)?;
    }
    Ok(Exit::Done)
}

/// A command line up to the word that is being typed.
struct Typed<'c> {
    command: &'c Command,
    /// Options with their values.
    options: Vec<(&'c str, &'c str)>,
    positionals: Vec<&'c str>,
    /// The option whose value comes next.
    open: Option<&'c Arg>,
}

impl<'c> Typed<'c> {
    fn read(root: &'c Command, words: &'c [String]) -> Self {
        let mut typed = Self {
            command: root,
            options: Vec::new(),
            positionals: Vec::new(),
            open: None,
        };
        for word in words {
            typed.word(word);
        }
        typed
    }

    fn word(&mut self, word: &'c str) {
        if let Some(option) = self.open.take() {
            self.options.push((option.get_id().as_str(), word));
        } else if let Some(name) = word.strip_prefix("--") {
            let (name, value) = match name.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (name, None),
            };
            let option = option(self.command, name);
            match (option, value) {
                (Some(option), Some(value)) => {
                    self.options.push((option.get_id().as_str(), value));
                }
                (Some(option), None) if takes_value(option) => self.open = Some(option),
                _ => {}
            }
        } else if word.starts_with('-') && word.len() > 1 {
            let short = word.chars().nth(1);
            let mut options = self.command.get_arguments();
            let option = options.find(|option| option.get_short() == short);
            self.open = option.filter(|option| takes_value(option) && word.len() == 2);
        } else if let Some(subcommand) = self.command.find_subcommand(word)
            && self.positionals.is_empty()
        {
            self.command = subcommand;
        } else {
            self.positionals.push(word);
        }
    }

    fn option(&self, id: &str) -> Option<&'c str> {
        let mut options = self.options.iter().rev();
        options
            .find(|(name, _)| *name == id)
            .map(|(_, value)| *value)
    }

    /// What the positional being typed is called: `RUN`, `NODE`.
    fn positional(&self) -> Option<(&'c Arg, String)> {
        let place = self.positionals.len();
        let positionals: Vec<&Arg> = self.command.get_positionals().collect();
        let argument = *positionals.get(place).or(positionals.last())?;
        let names = names(argument);
        // One argument may stand for several words: `RUN NODE JSON`.
        let words: Vec<&str> = names.split(' ').collect();
        let name = words.get(place).or(words.last()).copied();
        Some((argument, name.unwrap_or_default().to_owned()))
    }
}

fn option<'c>(command: &'c Command, name: &str) -> Option<&'c Arg> {
    let mut options = command.get_arguments();
    options.find(|option| option.get_long() == Some(name))
}

fn takes_value(option: &Arg) -> bool {
    matches!(option.get_action(), ArgAction::Set | ArgAction::Append)
}

fn names(argument: &Arg) -> String {
    let names = argument.get_value_names().unwrap_or_default();
    let names: Vec<&str> = names.iter().map(clap::builder::Str::as_str).collect();
    match names.is_empty() {
        true => argument.get_id().as_str().to_uppercase(),
        false => names.join(" "),
    }
}

fn candidates(settings: &Settings, typed: &Typed<'_>, current: &str) -> Vec<Candidate> {
    if let Some(option) = typed.open {
        return values(settings, typed, option, &names(option));
    }
    if let Some(name) = current.strip_prefix("--")
        && let Some((name, _)) = name.split_once('=')
        && let Some(option) = option(typed.command, name)
    {
        let values = values(settings, typed, option, &names(option));
        let full = |(value, about)| (format!("--{name}={value}"), about);
        return values.into_iter().map(full).collect();
    }
    if current.starts_with('-') {
        return options(typed.command);
    }
    if typed.command.has_subcommands() && typed.positionals.is_empty() {
        let subcommands = typed.command.get_subcommands();
        let shown = subcommands.filter(|subcommand| !subcommand.is_hide_set());
        let named = shown.map(|it| (it.get_name().to_owned(), text(it.get_about())));
        return named.collect();
    }
    match typed.positional() {
        Some((argument, name)) => values(settings, typed, argument, &name),
        None => Vec::new(),
    }
}

fn options(command: &Command) -> Vec<Candidate> {
    let options = command.get_arguments();
    let shown = options.filter(|option| option.is_global_set() || !option.is_hide_set());
    shown
        .filter_map(|option| Some((format!("--{}", option.get_long()?), text(option.get_help()))))
        .collect()
}

fn text(styled: Option<&clap::builder::StyledStr>) -> String {
    styled.map(ToString::to_string).unwrap_or_default()
}

/// What an argument can be.
fn values(settings: &Settings, typed: &Typed<'_>, argument: &Arg, name: &str) -> Vec<Candidate> {
    let possible = argument.get_possible_values();
    if !possible.is_empty() {
        let named = possible.iter().filter(|value| !value.is_hide_set());
        return named
            .map(|value| (value.get_name().to_owned(), text(value.get_help())))
            .collect();
    }
    let id = argument.get_id().as_str();
    let found = match name {
        "STATUS" => Ok(statuses()),
        "RUN" | "FILE|RUN" => session(settings, typed).and_then(|it| runs(&it)),
        "NODE" => session(settings, typed).and_then(|it| nodes(&it, typed)),
        "WORKFLOW" => session(settings, typed).and_then(|it| workflows(&it)),
        "ID" if id == "workflow" || is_about_workflows(typed.command) => {
            session(settings, typed).and_then(|it| workflows(&it))
        }
        _ => Ok(Vec::new()),
    };
    found.unwrap_or_default()
}

/// Whether an id in this command is that of a workflow.
fn is_about_workflows(command: &Command) -> bool {
    let about = ["diff", "show", "versions", "disable", "enable"];
    about.contains(&command.get_name())
}

fn statuses() -> Vec<Candidate> {
    let all = [
        RunStatus::Pending,
        RunStatus::Running,
        RunStatus::Paused,
        RunStatus::Succeeded,
        RunStatus::Failed,
        RunStatus::Cancelled,
    ];
    all.map(|status| (status.as_str().to_lowercase(), String::new()))
        .to_vec()
}

/// What the words say about where to look wins over what the script's own call says.
fn session(settings: &Settings, typed: &Typed<'_>) -> Result<Session, Failure> {
    let named = |id: &str| typed.option(id).map(str::to_owned);
    let global = Global {
        output: None,
        json: false,
        data_dir: named("data_dir").map(Into::into),
        server: named("server"),
        token: named("token"),
    };
    match global.data_dir.is_some() || global.server.is_some() {
        true => Session::queries(Settings::new(&Config::resolve(&global)?)?),
        false => Session::queries(settings.clone()),
    }
}

fn runs(session: &Session) -> Result<Vec<Candidate>, Failure> {
    let filter = RunFilter {
        limit: RUNS,
        ..RunFilter::default()
    };
    let rows = session.store.runs(&filter).wait()?.rows;
    let mut found = Vec::with_capacity(rows.len() + 1);
    if let Some(newest) = rows.first() {
        let about = format!("{} {}", newest.workflow, newest.status);
        found.push(("@last".to_owned(), about));
    }
    for row in &rows {
        let about = format!("{} {}", row.workflow, row.status);
        found.push((session.short_id(row.run)?, about));
    }
    Ok(found)
}

/// The nodes of the run that was named.
fn nodes(session: &Session, typed: &Typed<'_>) -> Result<Vec<Candidate>, Failure> {
    let Some(run) = typed.positionals.first() else {
        return Ok(Vec::new());
    };
    let run = session.find_run(run)?;
    let loaded = load_latest(&*session.store, &session.plans, run)?;
    let instances = loaded.run.top_instances().take(NODES);
    let named = instances.map(|node| {
        let status = loaded.run.node_status(node);
        (loaded.run.path(node).into_string(), status.to_string())
    });
    Ok(named.collect())
}

fn workflows(session: &Session) -> Result<Vec<Candidate>, Failure> {
    let rows = session.store.workflows(&TenantFilter::Any).wait()?;
    let named = rows.into_iter().map(|row| {
        let about = row.display_name.map(String::from).unwrap_or_default();
        (row.workflow.into_string(), about)
    });
    Ok(named.collect())
}
