//! The values expressions compute with.

use std::marker::PhantomData;

use crate::Error;

/// What an expression comes to, borrowed from its inputs where possible.
#[derive(Clone, Debug)]
pub enum Value<'a> {
    /// JavaScript's `undefined`.
    Undefined(PhantomData<&'a ()>),
}

impl Value<'_> {
    /// JavaScript's truthiness.
    pub fn is_truthy(&self) -> bool {
        false
    }

    /// Whether this is `undefined`.
    pub fn is_undefined(&self) -> bool {
        true
    }

    /// JavaScript's `String(value)`.
    pub fn to_display_string(&self) -> Result<String, Error> {
        Ok("undefined".to_owned())
    }

    /// Appends what `JSON.stringify` gives.
    pub fn write_json(&self, out: &mut String) -> Result<(), Error> {
        out.push_str("null");
        Ok(())
    }

    /// The value as plain JSON.
    pub fn to_json(&self) -> Result<serde_json::Value, Error> {
        Ok(serde_json::Value::Null)
    }
}
