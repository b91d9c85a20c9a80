//! The request for a run over HTTP: the one type that the API reads, its OpenAPI document shows
//! and the client writes.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use windlass_core::name::ShortText;

/// The request for a run.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[schemars(rename = "ExecuteBody")]
pub struct StartBody {
    /// Unique per tenant and workflow; a second request returns the first run.
    #[schemars(length(min = 1, max = 256))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// The run's trigger.
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Value>")]
    pub trigger: Option<Box<RawValue>>,
    /// From 0 to 9; higher begins first.
    #[schemars(range(max = 9))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<u8>,
    /// The run's labels: keys that match the pattern of names, values of at most 256 bytes.
    #[schemars(with = "Option<BTreeMap<String, ShortText>>")]
    #[schemars(extend("maxProperties" = 64))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<Box<str>, Box<str>>>,
    /// The correlation id of the run; the request's own, if it is left out.
    #[schemars(length(min = 1, max = 256))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<String>,
    /// The run's tenant; it must be the token's.
    #[schemars(length(min = 1, max = 128))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant_id: Option<String>,
    /// The version; the newest, if it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
    /// Variables instead of the definition's own, which must declare them.
    #[schemars(with = "Option<BTreeMap<String, Value>>")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vars: Option<BTreeMap<Box<str>, Box<RawValue>>>,
}

/// A value that was given: null is one, and not the same as none.
///
/// # Errors
/// The value is not JSON.
pub fn given<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_nothing_else_is_said() {
        let text = r#"{"requestId":"r","trigger":null,"labels":{"a":"b"},"version":3}"#;
        let body: StartBody = serde_json::from_str(text).expect("a body");
        assert_eq!(body.trigger.as_ref().map(|it| it.get()), Some("null"));
        assert_eq!(serde_json::to_string(&body).expect("JSON"), text);
        let nothing = serde_json::to_string(&StartBody::default()).expect("JSON");
        assert_eq!(nothing, "{}");
        assert!(serde_json::from_str::<StartBody>(r#"{"trigggr":1}"#).is_err());
    }
}
