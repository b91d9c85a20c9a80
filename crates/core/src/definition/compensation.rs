//! `compensation` of a definition (semantics §11): when what succeeded is undone, and what a
//! compensation that fails for good does to the others. A plain word stands for the first alone.
//! It must not know how a run is undone.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

/// When compensations run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum CompensationPolicy {
    /// When the run fails.
    #[default]
    OnFailure,
    /// When the run fails or is cancelled.
    OnFailureOrCancel,
    /// When an operator says so.
    Manual,
}

/// What a compensation that fails for good does to those that would follow it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum OnCompensationError {
    /// The others still run.
    #[default]
    Continue,
    /// No other starts until an operator retries it or leaves it out.
    Stop,
}

/// When compensations run, and what one that fails does to the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Written", into = "Written")]
pub struct CompensationSettings {
    /// When they run.
    pub when: CompensationPolicy,
    /// What one that fails for good does to those that would follow it.
    pub on_error: OnCompensationError,
}

impl From<CompensationPolicy> for CompensationSettings {
    fn from(when: CompensationPolicy) -> Self {
        Self {
            when,
            ..Self::default()
        }
    }
}

/// The two forms of the document.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Written {
    Policy(CompensationPolicy),
    Settings(WrittenSettings),
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WrittenSettings {
    /// When compensations run.
    #[serde(default)]
    when: CompensationPolicy,
    /// What a compensation that fails for good does to those that would follow it.
    #[serde(default)]
    on_error: OnCompensationError,
}

impl From<Written> for CompensationSettings {
    fn from(written: Written) -> Self {
        match written {
            Written::Policy(when) => when.into(),
            Written::Settings(WrittenSettings { when, on_error }) => Self { when, on_error },
        }
    }
}

/// A plain word where that says it all, so that a definition keeps its digest.
impl From<CompensationSettings> for Written {
    fn from(settings: CompensationSettings) -> Self {
        let CompensationSettings { when, on_error } = settings;
        match on_error {
            OnCompensationError::Continue => Self::Policy(when),
            OnCompensationError::Stop => Self::Settings(WrittenSettings { when, on_error }),
        }
    }
}

/// One of the words, or an object: the form that the structural check reads, as that of a join.
impl JsonSchema for CompensationSettings {
    fn schema_name() -> Cow<'static, str> {
        "Compensation".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = CompensationPolicy::json_schema(generator);
        let mut settings = WrittenSettings::json_schema(generator).to_value();
        settings["description"] = "When, and what a failed compensation does.".into();
        if let Some(options) = schema.get_mut("oneOf").and_then(|it| it.as_array_mut()) {
            options.push(settings);
        }
        schema
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> CompensationSettings {
        serde_json::from_str(text).expect("a compensation")
    }

    #[test]
    fn a_word_and_an_object_are_read_and_the_shorter_is_written() {
        let word = read(r#""manual""#);
        assert_eq!(word, CompensationPolicy::Manual.into());
        assert_eq!(read(r#"{"when": "manual"}"#), word);
        assert_eq!(read(r#"{"when": "manual", "onError": "continue"}"#), word);
        assert_eq!(serde_json::to_string(&word).expect("JSON"), r#""manual""#);
        let stop = read(r#"{"onError": "stop"}"#);
        assert_eq!(stop.when, CompensationPolicy::OnFailure);
        assert_eq!(
            serde_json::to_string(&stop).expect("JSON"),
            r#"{"when":"onFailure","onError":"stop"}"#
        );
    }
}
