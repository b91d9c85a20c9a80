//! The language against a real JavaScript engine: every part of it must mean the same.
//!
//! Needs `node`; without it these tests fail rather than pass unseen.

use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::{Value as Json, json};

use crate::limits::Budget;
use crate::text::Text;
use crate::value::Value;
use crate::{Document, Expression, ExpressionLimits, Scope};

/// The questions for both engines.
pub(super) struct Question {
    pub(super) source: String,
    pub(super) trigger: Json,
}

/// Compares the answers to every question; shows each difference.
pub(super) fn compare(questions: &[Question]) {
    let expected = ask_node(questions);
    assert_eq!(
        expected.len(),
        questions.len(),
        "node answered another number of questions"
    );
    // A case in which both fail proves nothing.
    let values = expected.iter().filter(|answer| answer.is_ok()).count();
    assert!(
        values * 2 > questions.len(),
        "only {values} of {} expressions have a value",
        questions.len()
    );
    let mut differences = Vec::new();
    for (question, expected) in questions.iter().zip(&expected) {
        let ours = answer(question);
        let same = match (&ours, expected) {
            (Ok(ours), Ok(theirs)) => ours == theirs,
            // JavaScript has a limit to the length of a string too.
            (Err(ours), Err(theirs)) => {
                !ours.contains("EXPRESSION_LIMIT") || theirs.contains("Invalid string length")
            }
            _ => false,
        };
        if !same {
            let trigger = &question.trigger;
            differences.push(format!(
                "{}\n  trigger  {trigger}\n  ours     {ours:?}\n  node     {expected:?}",
                question.source
            ));
        }
    }
    assert!(
        differences.is_empty(),
        "{} of {} expressions differ:\n{}",
        differences.len(),
        questions.len(),
        differences
            .iter()
            .take(40)
            .cloned()
            .collect::<Vec<_>>()
            .join("\n")
    );
}

fn ask_node(questions: &[Question]) -> Vec<Result<String, String>> {
    let mut child = Command::new("node")
        .args(["-e", include_str!("oracle.js")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("these tests compare with JavaScript and need `node` in the path");
    let mut input = String::new();
    for question in questions {
        let line = json!({ "source": question.source, "names": ["trigger"], "values": [question.trigger] });
        input.push_str(&line.to_string());
        input.push('\n');
    }
    let mut stdin = child.stdin.take().unwrap();
    #[expect(
        clippy::disallowed_methods,
        reason = "node is fed and read at the same time"
    )]
    let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(output.status.success(), "node failed");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines()
        .map(|line| {
            let answer: Json = serde_json::from_str(line).unwrap();
            match answer["ok"].as_str() {
                Some(shown) => Ok(shown.to_owned()),
                None => Err(answer["error"].to_string()),
            }
        })
        .collect()
}

fn answer(question: &Question) -> Result<String, String> {
    let limits = ExpressionLimits::default();
    let scope = Scope::new(&["trigger"], &[]);
    let expression = Expression::compile(&question.source, &scope, &limits)
        .map_err(|problems| format!("{} {}", problems[0].code, problems[0].message))?;
    let trigger = Document::from(&question.trigger);
    let inputs = vec![Some(&trigger); expression.references().len()];
    let value = expression
        .evaluate(&inputs, &limits)
        .map_err(|error| format!("{} {}", error.code, error.message))?;
    Ok(show(&value))
}

/// A text that tells apart what JSON does not: the counterpart of `show` in `oracle.js`.
fn show(value: &Value<'_>) -> String {
    match value {
        Value::Undefined => "undefined".to_owned(),
        Value::Number(number) if *number == 0.0 && number.is_sign_negative() => "-0".to_owned(),
        Value::Array(list) => {
            let items: Vec<String> = list.iter().map(|item| show(&item)).collect();
            format!("[{}]", items.join(","))
        }
        Value::Object(record) => {
            let properties: Vec<String> = record
                .entries(&mut Budget::new(&ExpressionLimits::default()))
                .unwrap()
                .map(|(key, value)| format!("{}:{}", quoted(&key), show(&value)))
                .collect();
            format!("{{{}}}", properties.join(","))
        }
        Value::String(text) => quoted(text),
        other => other.to_display_string().unwrap(),
    }
}

fn quoted(text: &Text<'_>) -> String {
    let mut budget = Budget::new(&ExpressionLimits::default());
    crate::json::stringify(&Value::String(text.clone()), None, "", &mut budget).unwrap()
}

#[test]
fn every_listed_expression_means_what_javascript_means() {
    let trigger: Json = serde_json::from_str(include_str!("trigger.json")).unwrap();
    let lines = include_str!("expressions.txt").lines();
    let questions: Vec<_> = lines
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| Question {
            source: line.to_owned(),
            trigger: trigger.clone(),
        })
        .collect();
    compare(&questions);
}
