//! What is promised (`promises.toml`, written by people) and what was measured
//! (`figures.json`, written by the task alone).

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};

const PROMISES: &str = "xtask/promises.toml";
const FIGURES: &str = "xtask/figures.json";

pub(super) struct Promises {
    pub(super) promises: Vec<Promise>,
    pub(super) faults: Vec<Fault>,
}

pub(super) struct Promise {
    pub(super) id: String,
    pub(super) text: String,
    /// `FILE::NAME` each.
    pub(super) tests: Vec<String>,
}

pub(super) struct Fault {
    pub(super) name: String,
    pub(super) text: String,
    pub(super) promised: u64,
    pub(super) package: String,
    /// `FILE::NAME`.
    pub(super) test: String,
    pub(super) variables: BTreeMap<String, String>,
}

impl Promises {
    pub(super) fn read(root: &Path) -> Result<Self> {
        let text = fs::read_to_string(root.join(PROMISES)).context(PROMISES)?;
        Self::parse(&text).context(PROMISES)
    }

    pub(super) fn parse(text: &str) -> Result<Self> {
        let table: toml::Table = text.parse()?;
        let list = |name: &str| {
            let items = table.get(name).and_then(toml::Value::as_array);
            items.cloned().unwrap_or_default()
        };
        Ok(Self {
            promises: list("promise").iter().map(promise).collect::<Result<_>>()?,
            faults: list("fault").iter().map(fault).collect::<Result<_>>()?,
        })
    }

    pub(super) fn fault(&self, name: &str) -> Option<&Fault> {
        self.faults.iter().find(|fault| fault.name == name)
    }

    /// Every test that is named.
    pub(super) fn tests(&self) -> impl Iterator<Item = &str> {
        let promised = self.promises.iter().flat_map(|promise| &promise.tests);
        let faults = self.faults.iter().map(|fault| &fault.test);
        promised.chain(faults).map(String::as_str)
    }
}

fn promise(item: &toml::Value) -> Result<Promise> {
    let tests = item.get("tests").and_then(toml::Value::as_array);
    let tests = tests.context("a promise without tests")?;
    Ok(Promise {
        id: word(item, "id")?,
        text: word(item, "text")?,
        tests: tests
            .iter()
            .filter_map(|test| test.as_str().map(str::to_owned))
            .collect(),
    })
}

fn fault(item: &toml::Value) -> Result<Fault> {
    let promised = item.get("promised").and_then(toml::Value::as_integer);
    let variables = item.get("variables").and_then(toml::Value::as_table);
    Ok(Fault {
        name: word(item, "name")?,
        text: word(item, "text")?,
        promised: u64::try_from(promised.context("promised")?)?,
        package: word(item, "package")?,
        test: word(item, "test")?,
        variables: variables
            .into_iter()
            .flatten()
            .filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())))
            .collect(),
    })
}

fn word(item: &toml::Value, key: &str) -> Result<String> {
    let value = item.get(key).and_then(toml::Value::as_str);
    Ok(value
        .with_context(|| format!("'{key}' is missing in {item}"))?
        .to_owned())
}

/// What was last measured, by the fault's name.
pub(super) struct Figures(BTreeMap<String, u64>);

impl Figures {
    pub(super) fn read(root: &Path) -> Result<Self> {
        let path = root.join(FIGURES);
        if !path.exists() {
            return Ok(Self(BTreeMap::new()));
        }
        let value: Value = serde_json::from_str(&fs::read_to_string(path)?).context(FIGURES)?;
        let entries = value.as_object().context(FIGURES)?;
        let figure = |(name, value): (&String, &Value)| Some((name.clone(), value.as_u64()?));
        Ok(Self(entries.iter().filter_map(figure).collect()))
    }

    pub(super) fn write(&self, root: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(&json!(self.0))? + "\n";
        fs::write(root.join(FIGURES), text).context(FIGURES)
    }

    pub(super) fn set(&mut self, name: &str, figure: u64) {
        self.0.insert(name.to_owned(), figure);
    }

    pub(super) fn get(&self, name: &str) -> Option<u64> {
        self.0.get(name).copied()
    }
}
