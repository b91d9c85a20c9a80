//! The variables of a run, and how many bytes they have together. Must not know where a
//! value comes from, nor whether it may be set: that is decided before.

use std::collections::BTreeMap;

use super::Run;
use super::environment::Held;
use crate::value::Stored;

/// What a variable counts for in the limit: its name and its JSON text.
pub fn var_bytes(name: &str, value_bytes: u64) -> u64 {
    name.len() as u64 + value_bytes
}

impl Run {
    /// Sets variables; what each had before is replaced.
    pub(super) fn put_vars(&mut self, vars: &BTreeMap<Box<str>, Stored>) {
        for (name, value) in vars {
            self.vars_bytes -= self.var_bytes(name);
            self.vars_bytes += var_bytes(name, value.size());
            self.vars.insert(name.clone(), Held::new(value));
        }
    }

    /// What all variables count for together.
    pub fn vars_bytes(&self) -> u64 {
        self.vars_bytes
    }

    /// What a variable of this name counts for now; 0 if the run has none.
    pub(super) fn var_bytes(&self, name: &str) -> u64 {
        let held = self.vars.get(name);
        held.map_or(0, |held| var_bytes(name, held.size()))
    }

    /// What all variables count for, from the variables themselves.
    pub(super) fn count_vars_bytes(&self) -> u64 {
        let vars = self.vars.iter();
        vars.map(|(name, held)| var_bytes(name, held.size())).sum()
    }
}
