//! What a person sees on a real terminal of 80 columns: `script` of util-linux gives the binary a
//! pseudo-terminal.

use std::process::Command;

use windlass_test_support::process::{Ended, World};

const LONG: &str = "no capacity in any of the regions that were asked; the service asks its \
                    clients to try again after a short while, and to say which order it was";

/// Runs a command on a terminal; what it wrote is in `stdout`.
fn on_terminal(world: &World, arguments: &[&str]) -> Ended {
    let command = world.command(arguments);
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<String> = words
        .map(|word| format!("'{}'", word.to_string_lossy()))
        .collect();
    let line = format!("stty cols 80 rows 24; {}", words.join(" "));
    let mut script = Command::new("script");
    script.args(["-qec", &line, "/dev/null"]);
    script.current_dir(world.path());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => script.env(name, value),
            None => script.env_remove(name),
        };
    }
    script.env("TERM", "xterm-256color").env_remove("NO_COLOR");
    script.stdin(std::process::Stdio::null());
    let output = script
        .output()
        .expect("`script` of util-linux is needed here");
    Ended::new(output)
}

/// The text without what moves the cursor or colours it.
fn plain(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\x1b') {
        out.push_str(before);
        let end = after.find(|c: char| c.is_ascii_alphabetic());
        rest = end.map_or("", |end| &after[end + 1..]);
    }
    out.push_str(rest);
    out.replace('\r', "")
}

/// The words of all lines, as if the terminal were wide enough.
fn unwrapped(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_run_ends_with_a_verdict_its_causes_and_the_next_command() {
    let world = World::new();
    let refused = format!(
        r#"{{"id":"refused","nodes":[
          {{"id":"n_1","name":"Charge card","actionType":"core.fail",
            "parameters":{{"code":"HTTP_503","message":"{LONG}","retriable":false}}}},
          {{"id":"after","actionType":"core.echo","dependsOn":["n_1"]}}]}}"#
    );
    world.definition("refused.json", &refused);
    let ended = on_terminal(&world, &["run", "refused.json"]);
    assert_eq!(ended.code, 1, "{}", ended.stdout);
    let text = &ended.stdout;
    let verdict = text.find("✗ refused Failed").expect("a verdict");
    assert!(
        text[..verdict].ends_with("\x1b[31m"),
        "it is not red: {text:?}"
    );
    let shown = plain(text);
    for line in shown.lines() {
        assert!(line.chars().count() <= 80, "{line:?} is cut or wraps");
    }
    let (_, end) = shown.split_once("✗ refused Failed").expect("a verdict");
    let words = unwrapped(end);
    assert!(words.contains("1 failed, 1 blocked"), "{shown}");
    assert!(
        words.contains(&format!("✗ n_1 (Charge card) HTTP_503: {LONG}")),
        "{shown}"
    );
    assert!(words.contains("next: windlass reattempt "), "{shown}");
    assert!(words.contains("or: windlass show "), "{shown}");
    let good = r#"{"id":"good","nodes":[{"id":"a","actionType":"core.echo"}]}"#;
    world.definition("good.json", good);
    let ended = on_terminal(&world, &["run", "good.json"]);
    assert_eq!(ended.code, 0, "{}", ended.stdout);
    assert!(
        ended.stdout.contains("\x1b[32m✓ good Succeeded"),
        "{:?}",
        ended.stdout
    );
}

/// What a person on call reads on a terminal of 80 columns has the whole message.
#[test]
fn lists_nodes_and_events_wrap_and_are_not_cut() {
    let world = World::new();
    let refused = format!(
        r#"{{"id":"a-workflow-with-a-long-name","nodes":[
          {{"id":"charge","actionType":"core.fail",
            "parameters":{{"code":"HTTP_503","message":"{LONG}","retriable":false}}}}]}}"#
    );
    world.definition("refused.json", &refused);
    let label = [
        "run",
        "refused.json",
        "-q",
        "--label",
        "team=accounts-payable",
    ];
    world.run(&label).expect(1);
    for arguments in [
        &["runs"][..],
        &["show", "@last"],
        &["show", "@last", "charge"],
        &["why", "@last"],
        &["events", "@last"],
        &["graph", "@last"],
    ] {
        let ended = on_terminal(&world, arguments);
        assert_eq!(ended.code, 0, "{}", ended.stdout);
        let shown = plain(&ended.stdout);
        let is_drawn = arguments[0] == "graph";
        assert!(
            is_drawn || unwrapped(&shown).contains(LONG),
            "{arguments:?}:\n{shown}"
        );
        assert!(
            ended.stdout.contains("\x1b[31m"),
            "{arguments:?} has no red"
        );
        assert!(!shown.contains("u001b"), "colours as text:\n{shown}");
        // A command is one line, which the terminal itself wraps.
        let lines = shown.lines().filter(|line| !line.contains(" windlass "));
        for line in lines {
            assert!(line.chars().count() <= 80, "{line:?} is cut or wraps");
        }
    }
}

#[test]
fn retries_waits_and_loops_are_drawn_also_after_resume() {
    let world = World::new();
    let live = format!(
        r#"{{"id":"live","nodes":[
          {{"id":"call","actionType":"core.fail",
            "parameters":{{"code":"HTTP_503","message":"{LONG}","retriable":true}},
            "policies":{{"retry":{{"maxAttempts":5,"baseDelayMs":600000,"maxDelayMs":600000,
              "jitter":false}}}}}},
          {{"id":"gate","waitForSignal":{{"name":"approved"}}}},
          {{"id":"regions","forEach":{{"items":[1,2],"body":{{"nodes":[
            {{"id":"shops","forEach":{{"items":[1,2,3],"body":{{"nodes":[
              {{"id":"count","actionType":"core.sleep","parameters":{{"ms":600000}}}},
              {{"id":"send","dependsOn":["count"],"actionType":"core.echo"}}]}}}}}}]}}}}}}]}}"#
    );
    world.definition("live.json", &live);
    for arguments in [&["run", "live.json"][..], &["resume", "@last"]] {
        let arguments = [arguments, &["--wait", "15"]].concat();
        let ended = on_terminal(&world, &arguments);
        assert_eq!(ended.code, 7, "{}", ended.stdout);
        let shown = plain(&ended.stdout);
        let line = |part: &str| {
            let found = shown.lines().find(|line| line.contains(part));
            found.unwrap_or_else(|| panic!("{part} is missing:\n{shown}"))
        };
        assert!(
            line("◷ call").contains("attempt 2 of 5, next in "),
            "{shown}"
        );
        assert!(line("◷ gate").contains("waiting for signal 'approved'"));
        assert!(line("windlass signal ").ends_with(" approved"));
        assert!(line("↻ regions ").contains("0/2 done"));
        assert!(line("↻ regions[0]/shops").contains("0/3 done"));
        // Two nodes, and two in each of three shops of two regions.
        line(" 0/14");
        // The last line is one command, which the terminal itself wraps.
        let (drawn, _) = shown.split_once("the run has not ended").expect("an end");
        for line in drawn.lines() {
            assert!(line.chars().count() <= 80, "{line:?} is cut or wraps");
        }
    }
}
