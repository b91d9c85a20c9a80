//! What a process of a cluster says of itself when it begins a session: its roles, what its
//! workers can do, and where it runs. Other processes read it; only its writer changes it.

use serde::{Deserialize, Serialize};

/// A part of the work of a cluster that a process may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Answers requests over HTTP, and appends the first records of runs.
    Api,
    /// Owns partitions, and decides on the runs in them.
    Orchestrator,
    /// Calls actions.
    Worker,
    /// Starts runs by schedules, and applies retention.
    Scheduler,
}

impl Role {
    /// Each of them.
    pub const ALL: [Self; 4] = [Self::Api, Self::Orchestrator, Self::Worker, Self::Scheduler];

    /// Its name outside the program.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Api => "api",
            Self::Orchestrator => "orchestrator",
            Self::Worker => "worker",
            Self::Scheduler => "scheduler",
        }
    }
}

/// The roles of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<String>", into = "Vec<&'static str>")]
pub struct Roles([bool; Role::ALL.len()]);

impl Roles {
    /// Every role.
    pub const ALL: Self = Self([true; Role::ALL.len()]);

    /// Whether the process has a role.
    pub fn has(self, role: Role) -> bool {
        self.0[role as usize]
    }

    /// Each role that the process has.
    pub fn iter(self) -> impl Iterator<Item = Role> {
        Role::ALL.into_iter().filter(move |role| self.has(*role))
    }
}

impl Default for Roles {
    fn default() -> Self {
        Self::ALL
    }
}

impl FromIterator<Role> for Roles {
    fn from_iter<I: IntoIterator<Item = Role>>(roles: I) -> Self {
        let mut own = Self([false; Role::ALL.len()]);
        roles
            .into_iter()
            .for_each(|role| own.0[role as usize] = true);
        own
    }
}

impl From<Vec<String>> for Roles {
    /// A role that this version of the program does not know is passed over.
    fn from(names: Vec<String>) -> Self {
        let known = |name: String| Role::ALL.into_iter().find(|it| it.as_str() == name);
        names.into_iter().filter_map(known).collect()
    }
}

impl From<Roles> for Vec<&'static str> {
    fn from(roles: Roles) -> Self {
        roles.iter().map(Role::as_str).collect()
    }
}

/// What a process says of itself. The stored form only grows: what an older process does not
/// say has its default, which is that of a process with every role.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ProcessInfo {
    /// The name that it gave itself, unique per process.
    pub name: Box<str>,
    /// The machine that it runs on.
    pub host: Box<str>,
    /// Its roles.
    pub roles: Roles,
    /// The labels of its workers.
    pub labels: Vec<Box<str>>,
    /// How many actions it runs at once.
    pub slots: u32,
    /// The action types that its workers call.
    pub actions: Vec<Box<str>>,
    /// The version of its program.
    pub version: Box<str>,
}

impl ProcessInfo {
    /// A process with every role, of which only the name is known.
    pub fn named(name: &str) -> Self {
        Self {
            name: name.into(),
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_process_has_every_role_and_a_newer_ones_role_is_passed_over() {
        let older: ProcessInfo = serde_json::from_str(r#"{"name":"p"}"#).expect("readable");
        assert_eq!(older, ProcessInfo::named("p"));
        assert!(Role::ALL.into_iter().all(|role| older.roles.has(role)));
        let newer = r#"{"name":"p","roles":["worker","oracle"],"more":1}"#;
        let newer: ProcessInfo = serde_json::from_str(newer).expect("readable");
        assert_eq!(newer.roles.iter().collect::<Vec<_>>(), [Role::Worker]);
        let text = serde_json::to_string(&newer).expect("texts and numbers");
        assert!(text.contains(r#""roles":["worker"]"#), "{text}");
    }
}
