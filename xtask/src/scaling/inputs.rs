//! What the model starts from (`scaling.toml`, written by people): each figure with what it says
//! and where it is from. It knows nothing of what is computed from them.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

pub(super) const FILE: &str = "xtask/scaling.toml";

/// Where a figure is from: in the table each has its own heading.
pub(super) const SOURCES: [&str; 3] = ["measured", "layout", "assumed"];

pub(super) struct Input {
    pub(super) name: String,
    pub(super) value: u64,
    pub(super) text: String,
    /// One of [`SOURCES`].
    pub(super) source: String,
}

pub(super) struct Inputs(pub(super) Vec<Input>);

impl Inputs {
    pub(super) fn read(root: &Path) -> Result<Self> {
        let text = fs::read_to_string(root.join(FILE)).context(FILE)?;
        Self::parse(&text).context(FILE)
    }

    pub(super) fn parse(text: &str) -> Result<Self> {
        let table: toml::Table = text.parse()?;
        let items = table.get("input").and_then(toml::Value::as_array);
        let items = items.context("there is no [[input]]")?;
        let inputs = items.iter().map(input).collect::<Result<Vec<_>>>()?;
        for (index, input) in inputs.iter().enumerate() {
            if inputs[..index].iter().any(|it| it.name == input.name) {
                bail!("'{}' is there twice", input.name);
            }
        }
        Ok(Self(inputs))
    }

    /// The figure of that name. None is zero: the model divides by them.
    pub(super) fn get(&self, name: &str) -> Result<u64> {
        let found = self.0.iter().find(|it| it.name == name);
        Ok(found
            .with_context(|| format!("there is no input '{name}'"))?
            .value)
    }
}

fn input(item: &toml::Value) -> Result<Input> {
    let word = |key: &str| -> Result<String> {
        let value = item.get(key).and_then(toml::Value::as_str);
        let value = value.with_context(|| format!("'{key}' is missing in {item}"))?;
        Ok(value.to_owned())
    };
    let value = item.get("value").and_then(toml::Value::as_integer);
    let value = u64::try_from(value.with_context(|| format!("no value in {item}"))?)?;
    let source = word("source")?;
    if value == 0 || !SOURCES.contains(&&*source) {
        bail!("{item} has the value 0, or a source that is none of {SOURCES:?}");
    }
    Ok(Input {
        name: word("name")?,
        value,
        text: word("text")?,
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "[[input]]\nname = 'a'\nvalue = 7\ntext = 't'\nsource = 'measured'\n";

    #[test]
    fn a_figure_that_is_missing_zero_or_doubled_is_refused() {
        let inputs = Inputs::parse(ONE).expect("it is whole");
        assert_eq!(inputs.get("a").expect("it is there"), 7);
        assert!(inputs.get("b").is_err());
        assert!(Inputs::parse(&ONE.repeat(2)).is_err());
        assert!(Inputs::parse(&ONE.replace('7', "0")).is_err());
        assert!(Inputs::parse(&ONE.replace("measured", "guessed")).is_err());
        assert!(Inputs::parse("").is_err());
    }
}
