//! Which of an attempt's parameters were rendered with secrets.
//!
//! They are rendered twice, with the secrets and with what stands in the record for each
//! expression that reads one. Where the two differ, a secret has a part in it, whatever an
//! expression made of it.

use std::sync::Arc;

use serde_json::Value;
use windlass_core::value::Payload;

use crate::render::Rendered;
use crate::scrub::{REDACTED, scrub_text};

/// See the module; empty where no secret was used.
#[derive(Clone, Default)]
pub(crate) struct Secrecy(Option<Arc<Both>>);

struct Both {
    given: Arc<str>,
    recorded: Option<Payload>,
    secrets: Vec<String>,
}

impl Secrecy {
    pub(crate) fn of(rendered: &Rendered) -> Self {
        if rendered.secrets.is_empty() {
            return Self(None);
        }
        Self(Some(Arc::new(Both {
            given: Arc::clone(&rendered.text),
            recorded: rendered.recorded.clone(),
            secrets: rendered.secrets.clone(),
        })))
    }

    pub(crate) fn is_secret(&self, pointer: &str) -> bool {
        self.0.as_ref().is_some_and(|both| {
            let (given, recorded) = both.parse();
            given.pointer(pointer) != recorded.pointer(pointer)
        })
    }

    pub(crate) fn members(&self, pointer: &str) -> Vec<String> {
        let Some(both) = &self.0 else {
            return Vec::new();
        };
        let (given, recorded) = both.parse();
        let recorded = recorded.pointer(pointer);
        let members = given.pointer(pointer).and_then(Value::as_object);
        let is_secret = |(name, value): &(&String, &Value)| {
            recorded.and_then(|object| object.get(name)) != Some(value)
        };
        let secret = members.into_iter().flatten().filter(is_secret);
        secret.map(|(name, _)| name.clone()).collect()
    }

    pub(crate) fn secrets(&self) -> &[String] {
        self.0.as_ref().map_or(&[], |both| &both.secrets)
    }

    pub(crate) fn reveals(&self, text: &str) -> bool {
        let secrets = self.0.as_ref().map(|both| both.secrets.as_slice());
        secrets.is_some_and(|secrets| scrub_text(text, secrets) != text)
    }
}

/// Shorter texts that an expression made of a secret are not taken for secrets: the outputs of
/// actions have them by chance.
const LEAST_DERIVED: usize = 8;

/// The texts that expressions made of secrets, except those that the template has itself, such as
/// one of two names that a condition chooses.
pub(crate) fn derived(given: &str, recorded: &str, template: &str) -> Vec<String> {
    let parse = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_default();
    let mut texts = Vec::new();
    differences(&parse(given), &parse(recorded), &mut texts);
    texts.retain(|text| text.len() >= LEAST_DERIVED && !template.contains(text.as_str()));
    texts
}

fn differences(given: &Value, recorded: &Value, texts: &mut Vec<String>) {
    match (given, recorded) {
        (Value::Object(given), Value::Object(recorded)) => {
            for (key, value) in given {
                differences(value, recorded.get(key).unwrap_or(&Value::Null), texts);
            }
        }
        (Value::Array(given), Value::Array(recorded)) => {
            for (place, value) in given.iter().enumerate() {
                differences(value, recorded.get(place).unwrap_or(&Value::Null), texts);
            }
        }
        (given, recorded) if given == recorded => {}
        (Value::String(text), Value::String(recorded)) => texts.push(between(text, recorded)),
        (Value::String(text), _) => texts.push(text.clone()),
        (Value::Object(members), _) => {
            members
                .values()
                .for_each(|value| differences(value, &Value::Null, texts));
        }
        (Value::Array(items), _) => {
            items
                .iter()
                .for_each(|value| differences(value, &Value::Null, texts));
        }
        _ => {}
    }
}

/// What stands in a text where the record has the stand-in; all of it where there are several.
fn between(text: &str, recorded: &str) -> String {
    let mut around = recorded.split(REDACTED);
    let inner = match (around.next(), around.next(), around.next()) {
        (Some(before), Some(after), None) => text
            .strip_prefix(before)
            .and_then(|text| text.strip_suffix(after)),
        _ => None,
    };
    inner.unwrap_or(text).to_owned()
}

impl Both {
    fn parse(&self) -> (Value, Value) {
        let parse = |text: &str| serde_json::from_str(text).unwrap_or_default();
        let recorded = self.recorded.as_ref();
        let recorded = recorded.map_or(Value::Null, |payload| parse(payload.text()));
        (parse(&self.given), recorded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secrecy(given: &str, recorded: &str) -> Secrecy {
        Secrecy::of(&Rendered {
            text: given.into(),
            recorded: Some(Payload::new(recorded)),
            secrets: vec!["hunter22".to_owned()],
        })
    }

    #[test]
    fn what_differs_from_the_record_is_secret() {
        let secrecy = secrecy(
            r#"{"url": "u", "headers": {"a": "1", "sum": "9f", "key": "hunter22"}, "body": 1}"#,
            r#"{"url": "u", "headers": {"a": "1", "sum": "07", "key": "[redacted]"}, "body": 1}"#,
        );
        let mut members = secrecy.members("/headers");
        members.sort();
        assert_eq!(members, ["key", "sum"]);
        assert!(!secrecy.is_secret("/url") && !secrecy.is_secret("/body"));
        assert!(secrecy.is_secret("/headers"));
        assert!(secrecy.reveals("https://x/?k=hunter22") && !secrecy.reveals("https://x/"));
    }

    #[test]
    fn what_an_expression_makes_of_a_secret_is_secret_and_its_own_words_are_not() {
        let template = r#"{"a":"{{ secrets.S.toUpperCase() }}","b":"x {{ secrets.S.slice(2) }}!",
            "c":"{{ secrets.S ? 'production' : 'staging' }}","d":"{{ JSON.parse(secrets.J) }}"}"#;
        let given = r#"{"a":"HUNTER22","b":"x nter22-long!","c":"production",
            "d":{"url":"https://live.example","n":[1,"short"]},"e":"plain and long"}"#;
        let recorded = r#"{"a":"[redacted]","b":"x [redacted]!","c":"[redacted]",
            "d":"[redacted]","e":"plain and long"}"#;
        let mut texts = derived(given, recorded, template);
        texts.sort();
        assert_eq!(texts, ["HUNTER22", "https://live.example", "nter22-long"]);
    }

    #[test]
    fn what_could_not_be_recorded_is_secret_and_without_secrets_nothing_is() {
        let all = secrecy(r#"{"headers": {"a": "1"}, "body": 1}"#, r#""[redacted]""#);
        assert_eq!(all.members("/headers"), ["a"]);
        assert!(all.is_secret("/body"));
        let none = Secrecy::default();
        assert!(none.members("/headers").is_empty());
        assert!(!none.is_secret("/body") && !none.reveals("hunter22"));
    }
}
