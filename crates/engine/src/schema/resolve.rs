//! What a reference in a schema can mean. Where the rules of a draft would choose one of
//! several targets by base addresses or by the way that led to the reference, all targets are
//! returned: a count over all is no less than one over the chosen target.

use std::collections::HashMap;

use serde_json::Value;
use windlass_core::definition::SchemaProblem;

/// What a reference leads to.
pub(super) enum Target<'s> {
    /// A part of the document.
    Schema(&'s Value),
    /// A schema of schemas.
    Meta,
}

/// Where the schemas of schemas are.
const META: [&str; 2] = ["http://json-schema.org/", "https://json-schema.org/"];

/// The names in a schema that references can use.
pub(super) struct Names<'s> {
    /// The document, and every part of it with an address of its own.
    resources: Vec<&'s Value>,
    anchors: HashMap<&'s str, Vec<&'s Value>>,
    recursive: Vec<&'s Value>,
}

impl<'s> Names<'s> {
    pub(super) fn of(schema: &'s Value) -> Self {
        let mut names = Self {
            resources: vec![schema],
            anchors: HashMap::new(),
            recursive: Vec::new(),
        };
        let mut waiting = vec![schema];
        while let Some(value) = waiting.pop() {
            match value {
                Value::Array(items) => waiting.extend(items),
                Value::Object(members) => {
                    waiting.extend(members.values());
                    names.note(value, std::ptr::eq(value, schema));
                }
                _ => {}
            }
        }
        names
    }

    fn note(&mut self, schema: &'s Value, is_root: bool) {
        for keyword in ["$id", "id"] {
            let Some(id) = schema[keyword].as_str() else {
                continue;
            };
            match id.split_once('#') {
                // Before 2019-09 an id that is only a fragment is an anchor.
                Some((_, name)) if !name.is_empty() => {
                    self.anchors.entry(name).or_default().push(schema);
                }
                _ => {}
            }
            if !is_root {
                self.resources.push(schema);
            }
        }
        for keyword in ["$anchor", "$dynamicAnchor"] {
            if let Some(name) = schema[keyword].as_str() {
                self.anchors.entry(name).or_default().push(schema);
            }
        }
        if schema["$recursiveAnchor"] == true {
            self.recursive.push(schema);
        }
    }

    /// Everything that a reference may mean.
    ///
    /// # Errors
    /// There is nothing that it could mean.
    pub(super) fn targets(
        &self,
        keyword: &str,
        reference: &Value,
    ) -> Result<Vec<Target<'s>>, SchemaProblem> {
        let Some(reference) = reference.as_str() else {
            return Ok(Vec::new());
        };
        if META.iter().any(|meta| reference.starts_with(meta)) && !self.is_own(reference) {
            return Ok(vec![Target::Meta]);
        }
        if self.is_remote(reference) {
            let reference = windlass_core::name::cut(reference, 128).escape_debug();
            let message = format!(
                "it refers to '{reference}', which is outside the schema; references are not \
                 fetched: put what it refers to under '$defs'"
            );
            return Err(SchemaProblem::Invalid(message));
        }
        let (base, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        // A reference to nothing but a fragment stays in its resource, and there is one.
        let resources = match base.is_empty() && self.resources.len() == 1 {
            true => &self.resources[..1],
            false => &self.resources[..],
        };
        let fragment = decoded(fragment);
        let mut found: Vec<&'s Value> = match &*fragment {
            "" => resources.to_vec(),
            pointer if pointer.starts_with('/') => resources
                .iter()
                .filter_map(|resource| resource.pointer(pointer))
                .collect(),
            name => self.anchors.get(name).cloned().unwrap_or_default(),
        };
        if keyword == "$recursiveRef" {
            found.extend(&self.recursive);
        }
        if found.is_empty() {
            let reference = windlass_core::name::cut(reference, 128).escape_debug();
            let message = format!("it refers to '{reference}', which is not in the schema");
            return Err(SchemaProblem::Invalid(message));
        }
        Ok(found.into_iter().map(Target::Schema).collect())
    }

    /// Whether a reference has an address of its own that no part of the document can have:
    /// the end of a part's address is in its `$id`, however its beginning is inherited.
    fn is_remote(&self, reference: &str) -> bool {
        let Some((_, path)) = reference.split_once("://") else {
            return false;
        };
        let last = |text: &str| {
            let path = text.split('#').next().unwrap_or(text);
            path.rsplit('/').next().unwrap_or(path).to_owned()
        };
        let mut ids = self.resources.iter().filter_map(|resource| {
            let id = resource["$id"].as_str().or(resource["id"].as_str());
            id.map(last)
        });
        let name = last(path);
        !ids.any(|id| id == name)
    }

    /// Whether a part of the document has this address.
    fn is_own(&self, reference: &str) -> bool {
        let base = reference.split('#').next();
        let mut resources = self.resources.iter();
        resources.any(|resource| {
            let id = resource["$id"].as_str().or(resource["id"].as_str());
            id.is_some_and(|id| id.split('#').next() == base)
        })
    }
}

/// A fragment without its percent signs.
fn decoded(fragment: &str) -> String {
    let bytes = fragment.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let pair = bytes.get(at + 1..at + 3);
        let pair = pair.and_then(|pair| std::str::from_utf8(pair).ok());
        let byte = pair.and_then(|pair| u8::from_str_radix(pair, 16).ok());
        match byte.filter(|_| bytes[at] == b'%') {
            Some(byte) => {
                decoded.push(byte);
                at += 3;
            }
            None => {
                decoded.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&decoded).into_owned()
}
