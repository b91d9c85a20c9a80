//! A server, finding by finding: whether it answers, is ready, fits this program, has the same
//! time, takes the token, and which limits it keeps.

use serde_json::Value;

use super::{Findings, Grade};
use crate::moment::now;
use crate::remote::{self, Probed, Server};
use windlass_service::run_list::RunSelection;

/// A clock that is this far off makes signatures and tokens fail.
const CLOCK_MS: i64 = 30_000;
const CLOCK_LOST_MS: i64 = 300_000;

/// An answer that takes longer is worth a word.
const SLOW_MS: u128 = 1000;

/// The limits that are printed, with their units.
const TOLD: [(&str, &str); 4] = [
    ("payloadBytes", "bytes a payload"),
    ("connections", "connections"),
    ("requestsPerMinutePerToken", "requests a minute and token"),
    ("requestTimeoutMs", "ms a request"),
];

/// Checks a server.
pub(super) fn check(server: &Server, findings: &mut Findings) {
    let live = match remote::probe(server, &["health", "live"]) {
        Ok(live) => live,
        Err(failure) => {
            let what = "check the address, and whether the server runs";
            findings.add("server", Grade::Error, failure.message, what);
            return;
        }
    };
    check_live(server, &live, findings);
    check_clock(&live, findings);
    check_ready(server, findings);
    check_version(server, findings);
    check_limits(server, findings);
    check_letters(server, findings);
    check_cluster(server, findings);
}

/// Runs that the server's engine gave up; a token that may not see runs learns nothing.
fn check_letters(server: &Server, findings: &mut Findings) {
    let mut selection = RunSelection::default();
    selection.filter.dead = Some(true);
    selection.filter.limit = 100;
    let Ok((letters, next)) = remote::list_runs(server, &selection) else {
        return;
    };
    let more = if next.is_some() { "at least " } else { "" };
    match letters.len() {
        0 => findings.add("dead letters", Grade::Ok, "none".to_owned(), ""),
        count => {
            let text = format!("{more}{count} that no process executes");
            let what = "see `windlass dead-letters`, then requeue or purge them";
            findings.add("dead letters", Grade::Warn, text, what);
        }
    }
}

/// Whether processes live for all that is to be done; a token that may not see it learns nothing.
fn check_cluster(server: &Server, findings: &mut Findings) {
    let answer = remote::probe(server, &["api", "v1", "cluster"]);
    let Some(answer) = answer.ok().filter(|answer| answer.status == 200) else {
        return;
    };
    let cluster: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let sessions = cluster["sessions"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    let lives = |role: &str| {
        let has = |it: &Value| {
            it["roles"]
                .as_array()
                .is_some_and(|it| it.contains(&role.into()))
        };
        sessions.iter().any(has)
    };
    let lacking = [
        (
            "orchestrator",
            "runs that were started wait, and those that have begun stand still",
        ),
        ("worker", "no process calls actions; workers over HTTP may"),
        ("scheduler", "schedules, retention and jobs wait"),
    ];
    let mut is_whole = true;
    for (role, follows) in lacking.iter().filter(|(role, _)| !lives(role)) {
        is_whole = false;
        let what = format!("start a process with --role {role}");
        findings.add(
            "cluster",
            Grade::Warn,
            format!("no {role} is live: {follows}"),
            what,
        );
    }
    let partitions = cluster["partitions"].as_array().into_iter().flatten();
    let unowned = partitions.filter(|it| it["owner"].is_null()).count();
    if unowned > 0 && lives("orchestrator") {
        is_whole = false;
        let text = format!("no process owns {unowned} partitions");
        let what = "an orchestrator takes them within seconds; ask again";
        findings.add("cluster", Grade::Warn, text, what);
    }
    if is_whole {
        let text = match sessions.len() {
            1 => "1 process, with every role".to_owned(),
            count => format!("{count} processes live, with every role among them"),
        };
        findings.add("cluster", Grade::Ok, text, "");
    }
}

fn check_live(server: &Server, live: &Probed, findings: &mut Findings) {
    let text = format!(
        "{} answers in {} ms",
        server.address(),
        live.took.as_millis()
    );
    match live.status {
        200 if live.took.as_millis() > SLOW_MS => {
            findings.add(
                "server",
                Grade::Warn,
                text,
                "look at its load, and at the way there",
            );
        }
        200 => findings.add("server", Grade::Ok, text, ""),
        // The probes may require a token.
        401 | 403 => findings.add("server", Grade::Ok, text, ""),
        status => {
            let text = format!("{} answers with status {status}", server.address());
            let what = "something else than Windlass may answer there";
            findings.add("server", Grade::Error, text, what);
        }
    }
}

fn check_clock(live: &Probed, findings: &mut Findings) {
    let Some(date) = live.date else {
        let text = "the server does not tell its time".to_owned();
        findings.add("clock", Grade::Warn, text, "a proxy may leave it out");
        return;
    };
    let apart = (now().0 - date.0).abs();
    let text = match apart {
        // The server's clock is given in whole seconds, and the response took a while.
        0..2000 => "the server has the same time".to_owned(),
        _ => format!("the server's clock is {} s off", apart / 1000),
    };
    let what = "set the clocks: tokens, schedules and signatures rest on them";
    match apart {
        CLOCK_LOST_MS.. => findings.add("clock", Grade::Error, text, what),
        CLOCK_MS.. => findings.add("clock", Grade::Warn, text, what),
        _ => findings.add("clock", Grade::Ok, text, ""),
    }
}

fn check_ready(server: &Server, findings: &mut Findings) {
    let ready = match remote::probe(server, &["health", "ready"]) {
        Ok(ready) => ready,
        Err(failure) => {
            findings.add("ready", Grade::Error, failure.message, "ask again");
            return;
        }
    };
    match ready.status {
        200 => {
            let text = "it takes and begins runs".to_owned();
            findings.add("ready", Grade::Ok, text, "");
            warn(&ready, findings);
        }
        401 | 403 => {
            let text = "it tells that only with a token".to_owned();
            findings.add("ready", Grade::Warn, text, "give a token with --token");
        }
        _ => {
            let what = "look at the server's log";
            findings.add("ready", Grade::Error, refusal(&ready), what);
        }
    }
}

/// What the server says will go wrong.
fn warn(ready: &Probed, findings: &mut Findings) {
    let body: Value = serde_json::from_slice(&ready.body).unwrap_or_default();
    for warning in body["warnings"].as_array().into_iter().flatten() {
        if let Some(message) = warning["message"].as_str() {
            let what = "look at the server's log";
            findings.add("ready", Grade::Warn, message.to_owned(), what);
        }
    }
}

/// What the server says, with its details.
fn refusal(answer: &Probed) -> String {
    let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let message = body["error"]["message"].as_str();
    let mut text = message
        .unwrap_or("it answers with nothing that is known")
        .to_owned();
    for detail in body["error"]["details"].as_array().into_iter().flatten() {
        if let (Some(place), Some(what)) = (detail["pointer"].as_str(), detail["message"].as_str())
        {
            text.push_str(&format!("; {}: {what}", place.trim_start_matches('/')));
        }
    }
    text
}

fn check_version(server: &Server, findings: &mut Findings) {
    let own = env!("CARGO_PKG_VERSION");
    let answer = remote::probe(server, &["api", "openapi.json"]);
    let document = answer.ok().filter(|answer| answer.status == 200);
    let document = document.and_then(|answer| serde_json::from_slice::<Value>(&answer.body).ok());
    let version = document
        .as_ref()
        .and_then(|it| it["info"]["version"].as_str());
    match version {
        Some(version) if version == own => {
            let text = format!("version {version}, as this command");
            findings.add("version", Grade::Ok, text, "");
        }
        Some(version) => {
            let text = format!("version {version}, and this command is {own}");
            let what = "use the same, where one says that it does not know an event";
            findings.add("version", Grade::Warn, text, what);
        }
        None => {
            let text = "it does not tell its version".to_owned();
            findings.add("version", Grade::Warn, text, "");
        }
    }
}

/// Whether the token is taken, and what is allowed.
fn check_limits(server: &Server, findings: &mut Findings) {
    let answer = match remote::probe(server, &["api", "v1", "limits"]) {
        Ok(answer) => answer,
        Err(failure) => {
            findings.add("token", Grade::Error, failure.message, "ask again");
            return;
        }
    };
    match answer.status {
        200 => findings.add("token", Grade::Ok, token_words(server).to_owned(), ""),
        401 => {
            let what = "give one with --token or WINDLASS_TOKEN; `windlass token` makes some";
            findings.add("token", Grade::Error, refusal(&answer), what);
        }
        403 => {
            let what = "it needs the scope read at least";
            findings.add("token", Grade::Error, refusal(&answer), what);
        }
        429 => findings.add("token", Grade::Warn, refusal(&answer), "ask again later"),
        _ => findings.add("token", Grade::Error, refusal(&answer), ""),
    }
    if answer.status != 200 {
        return;
    }
    let limits: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let told = TOLD.iter().filter_map(|(key, words)| {
        let number = limits[*key].as_u64()?;
        Some(format!("{number} {words}"))
    });
    let told: Vec<String> = told.collect();
    findings.add("limits", Grade::Ok, told.join(", "), "");
}

fn token_words(server: &Server) -> &'static str {
    match server.has_token() {
        true => "it is taken",
        false => "none is given, and none is needed",
    }
}
