//! Names that were given up for the terms of the field. A page or a file that brings one back
//! is found here, before a reader has to look it up.
//!
//! Only identifiers are looked at: code, and what stands in backticks. Prose, strings and
//! stored names are free to use the words.

use super::Finding;

/// A name that is gone, and what is used instead.
const GONE: [(&str, &str); 51] = [
    ("Adoption", "AcquireMode"),
    ("Alarm", "Timer"),
    ("Buried", "DeadLettered"),
    ("Carrier", "LocalEngine"),
    ("ChildTold", "ParentCommand"),
    ("Clerk", "ChildCoordinator"),
    ("Deed", "RunCommand"),
    ("EngineStanding", "EngineStats"),
    ("Errand", "FileWork"),
    ("Fed", "StreamItem"),
    ("Feed", "RunEventStream"),
    ("Glance", "DefinitionHeader"),
    ("Hand", "Actor"),
    ("Hub", "EventFanout"),
    ("InLine", "QueueReason"),
    ("Intake", "Enqueuer"),
    ("Manner", "WaitOptions"),
    ("Met", "DamagedRows"),
    ("Parcel", "FileJob"),
    ("Passage", "AcquireResult"),
    ("Standing", "WaitingNode"),
    ("Taking", "AcquireOptions"),
    ("Todo", "PendingDecision"),
    ("Told", "a name for what is told"),
    ("Watched", "AttemptTracker"),
    ("Wave", "RoutingQueue"),
    ("Wish", "UserAction"),
    ("WorkStanding", "WorkState"),
    ("WorkerStanding", "WorkerInfo"),
    ("adoption", "mode"),
    ("aside_gates", "parked_gates"),
    ("bury", "add_dead_letter"),
    ("carry_on", "recover"),
    ("clerk", "child_coordinator"),
    ("culprit", "suspect"),
    ("deed", "command"),
    ("dig_out", "restore"),
    ("give_back", "vacuum"),
    ("glance", "partial_decode"),
    ("guilty", "suspect"),
    ("hub", "event_fanout"),
    ("in_line", "queue_reason"),
    ("intake", "enqueue"),
    ("leave_word", "record_clean_shutdown"),
    ("parcel", "file_job"),
    ("put_aside", "park"),
    ("spoil", "inject_defect"),
    ("standing_words", "format_wait_state"),
    ("stop_hand", "stop_actor"),
    ("take_over", "recover"),
    ("take_up", "acquire"),
];

/// These files name what they refuse.
const SELF: &str = "xtask/src/tidy/";

pub(super) fn check(file: &str, content: &str, findings: &mut Vec<Finding>) {
    if file.starts_with(SELF) || file == "CHANGELOG.md" {
        return;
    }
    let is_code = file.ends_with(".rs");
    for (index, line) in content.lines().enumerate() {
        let names = match is_code {
            true => identifiers(line),
            false => quoted(line),
        };
        for (gone, instead) in GONE {
            if has_word(&names, gone) {
                let message = format!("`{gone}` is a name that was given up; use `{instead}`");
                findings.push(Finding::at(file, index, message));
            }
        }
    }
}

/// The code of a line without its strings, and what its comment has in backticks.
fn identifiers(line: &str) -> String {
    let mut code = String::new();
    let mut in_string = false;
    let mut characters = line.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '\\' if in_string => {
                characters.next();
            }
            '"' => in_string = !in_string,
            '/' if !in_string && line[at..].starts_with("//") => {
                return code + " " + &quoted(&line[at..]);
            }
            _ if !in_string => code.push(character),
            _ => {}
        }
    }
    code
}

/// What stands in backticks.
fn quoted(line: &str) -> String {
    let inside = line.split('`').skip(1).step_by(2);
    inside.collect::<Vec<_>>().join(" ")
}

fn has_word(text: &str, word: &str) -> bool {
    let is_part = |character: char| character.is_alphanumeric() || character == '_';
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    })
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
    fn a_name_that_was_given_up_is_found_in_code_and_in_backticks() {
        let message = "`Hand` is a name that was given up; use `Actor`";
        assert_eq!(
            findings("a/src/b.rs", "fn f() {}\nfn g(by: Hand) {}\n"),
            [format!("a/src/b.rs:2: {message}")]
        );
        assert_eq!(
            findings("a/src/b.rs", "/// See [`Hand`].\n"),
            [format!("a/src/b.rs:1: {message}")]
        );
        assert_eq!(
            findings("docs/b.md", "The event has a `Hand`.\n"),
            [format!("docs/b.md:1: {message}")]
        );
        assert_eq!(findings("a/src/b.rs", "x.put_aside(run).culprit").len(), 2);
    }

    #[test]
    fn prose_strings_and_longer_names_may_have_the_word() {
        for line in [
            "/// Hand an attempt to a worker, and `SetByHand` is an event.",
            "let text = \"Hand \\\" Hand\"; // Hand",
            "let handed = hand_out(SetByHand);",
        ] {
            assert!(findings("a/src/b.rs", line).is_empty(), "{line}");
        }
        assert!(findings("docs/b.md", "The clerk and the culprit.").is_empty());
        assert!(findings("CHANGELOG.md", "`Hand` is now `Actor`.").is_empty());
    }

    #[test]
    fn the_list_is_sorted_and_names_nothing_twice() {
        assert!(GONE.is_sorted_by(|a, b| a.0 < b.0));
    }
}
