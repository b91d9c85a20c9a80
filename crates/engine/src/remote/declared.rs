//! The action types that workers have declared, by tenant. They are remembered across
//! restarts, so that a node of a type whose workers are away waits for them. A poll that
//! repeats a declaration writes nothing, but about once an hour that the type is still used.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use windlass_core::Millis;
use windlass_core::definition::SchemaProblem;
use windlass_store::Error;

use super::WorkError;
use crate::Backend;
use crate::payload::check_schema;
use crate::turns::Tenant;

/// How many types a tenant may have.
pub const ACTION_LIMIT: usize = 1_000;

/// The largest schema of a type's parameters, in bytes of its text.
pub const DECLARED_SCHEMA_BYTES: usize = 64 * 1024;

/// How long after its last poll a type is forgotten: 30 days.
const FORGOTTEN_MS: i64 = 30 * 24 * 3_600_000;

/// How often it is written that a type is still used.
const SEEN_AGAIN_MS: i64 = 3_600_000;

/// How often a type that changes is written: two versions of a worker that declare it
/// differently take turns with every poll.
const CHANGED_MS: i64 = 10_000;

/// What notes of declarations are kept as.
const KIND: &str = "action";

/// How many notes are read at once.
const PAGE: usize = 1_000;

/// How the check of a schema says that a pattern cannot be used.
const NO_PATTERN: &str = "is not a \"regex\"";

/// A type, as a worker declares it.
#[derive(Clone, Debug)]
pub struct Declaration {
    /// The type.
    pub action: Box<str>,
    /// JSON Schema of its parameters, if the worker has one.
    pub parameters: Option<Box<RawValue>>,
    /// What it does.
    pub description: Option<Box<str>>,
}

/// A type that workers have declared.
#[derive(Clone, Debug)]
pub struct DeclaredAction {
    /// The type.
    pub action: Box<str>,
    /// JSON Schema of its parameters, if the last worker had one.
    pub parameters: Option<Arc<str>>,
    /// What it does.
    pub description: Option<Box<str>>,
    /// When a worker asked for work of this type last.
    pub last_seen: Millis,
    /// When this was written last.
    saved: Millis,
}

/// The stored form.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct StoredDeclaration {
    v: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    parameters: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    description: Option<Box<str>>,
    last_seen: Millis,
}

type Actions = BTreeMap<Box<str>, DeclaredAction>;

/// The types of all tenants that this process has met.
#[derive(Default)]
pub(crate) struct Declarations {
    tenants: Mutex<HashMap<Tenant, Actions>>,
    /// Reading a tenant's, and changing them.
    changing: tokio::sync::Mutex<()>,
}

impl Declarations {
    fn tenants(&self) -> MutexGuard<'_, HashMap<Tenant, Actions>> {
        self.tenants.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a worker has declared the type.
    pub(crate) async fn knows(
        &self,
        store: &dyn Backend,
        tenant: Option<&str>,
        action: &str,
        now: Millis,
    ) -> Result<bool, Error> {
        self.load(store, tenant).await?;
        Ok(self.find(tenant, action, now).is_some())
    }

    /// The same, where another process may have written what a worker declared to it.
    pub(crate) async fn knows_now(
        &self,
        store: &dyn Backend,
        tenant: Option<&str>,
        action: &str,
        now: Millis,
    ) -> Result<bool, Error> {
        if self.knows(store, tenant, action, now).await? {
            return Ok(true);
        }
        self.tenants().remove(&tenant.map(Into::into));
        self.knows(store, tenant, action, now).await
    }

    /// A type of a tenant that was read.
    pub(super) fn find(
        &self,
        tenant: Option<&str>,
        action: &str,
        now: Millis,
    ) -> Option<DeclaredAction> {
        let tenants = self.tenants();
        let found = tenants.get(&tenant.map(Into::into))?.get(action)?;
        (!is_forgotten(found, now)).then(|| found.clone())
    }

    /// All types of a tenant, by name.
    pub(super) async fn list(
        &self,
        store: &dyn Backend,
        tenant: Option<&str>,
        now: Millis,
    ) -> Result<Vec<DeclaredAction>, Error> {
        self.load(store, tenant).await?;
        let tenants = self.tenants();
        let own = tenants.get(&tenant.map(Into::into));
        let own = own.into_iter().flat_map(BTreeMap::values);
        Ok(own.filter(|it| !is_forgotten(it, now)).cloned().collect())
    }

    /// Reads what a tenant has declared, once.
    async fn load(&self, store: &dyn Backend, tenant: Option<&str>) -> Result<(), Error> {
        let tenant: Tenant = tenant.map(Into::into);
        if self.tenants().contains_key(&tenant) {
            return Ok(());
        }
        let _reading = self.changing.lock().await;
        if self.tenants().contains_key(&tenant) {
            return Ok(());
        }
        let actions = read(store, tenant.as_deref()).await?;
        self.tenants().insert(tenant, actions);
        Ok(())
    }

    /// A worker asks for work of these types: they are declared by that. Either all of them
    /// are, or none.
    pub(super) async fn declare(
        &self,
        store: &dyn Backend,
        tenant: Option<&str>,
        declared: &[Declaration],
        now: Millis,
    ) -> Result<(), WorkError> {
        unambiguous(declared)?;
        self.load(store, tenant).await?;
        if self.seen_again(tenant, declared, now) {
            return Ok(());
        }
        self.check(tenant, declared).await?;
        let _changing = self.changing.lock().await;
        let (changed, forgotten) = self.changes(tenant, declared, now)?;
        for action in changed {
            let key = note_key(tenant, &action.action);
            if now.0 - action.saved.0 >= CHANGED_MS {
                store.keep_note(KIND, &key, action.kept()).await?;
            }
            let mut tenants = self.tenants();
            let own = tenants.entry(tenant.map(Into::into)).or_default();
            let saved = match now.0 - action.saved.0 >= CHANGED_MS {
                true => now,
                false => action.saved,
            };
            own.insert(action.action.clone(), DeclaredAction { saved, ..action });
        }
        for action in forgotten {
            store.forget_note(KIND, &note_key(tenant, &action)).await?;
            let mut tenants = self.tenants();
            tenants
                .entry(tenant.map(Into::into))
                .or_default()
                .remove(&action);
        }
        Ok(())
    }

    /// Notes that all of these were asked for again, if nothing has to be written for it.
    fn seen_again(&self, tenant: Option<&str>, declared: &[Declaration], now: Millis) -> bool {
        let mut tenants = self.tenants();
        let Some(own) = tenants.get_mut(&tenant.map(Into::into)) else {
            return false;
        };
        let same = declared.iter().all(|declaration| {
            let known = own.get(&declaration.action);
            known.is_some_and(|known| {
                known.is(declaration)
                    && !is_forgotten(known, now)
                    && now.0 - known.saved.0 < SEEN_AGAIN_MS
            })
        });
        for declaration in declared.iter().filter(|_| same) {
            if let Some(known) = own.get_mut(&declaration.action) {
                known.last_seen = now;
            }
        }
        same
    }

    /// Checks the schemas that are new, where no other work waits for it.
    async fn check(&self, tenant: Option<&str>, declared: &[Declaration]) -> Result<(), WorkError> {
        let new: Vec<Declaration> = {
            let tenants = self.tenants();
            let own = tenants.get(&tenant.map(Into::into));
            let known = |it: &Declaration| own.and_then(|own| own.get(&it.action));
            let is_new = |it: &&Declaration| !known(it).is_some_and(|known| known.is(it));
            let new = declared.iter().filter(|it| it.parameters.is_some());
            new.filter(is_new).cloned().collect()
        };
        if new.is_empty() {
            return Ok(());
        }
        let checked = tokio::task::spawn_blocking(move || new.iter().try_for_each(check));
        checked.await.map_err(|_| WorkError::Stopped)?
    }

    /// What has to be written, and what makes room for it.
    fn changes(
        &self,
        tenant: Option<&str>,
        declared: &[Declaration],
        now: Millis,
    ) -> Result<(Vec<DeclaredAction>, Vec<Box<str>>), WorkError> {
        let tenants = self.tenants();
        let none = BTreeMap::new();
        let own = tenants.get(&tenant.map(Into::into)).unwrap_or(&none);
        let names: HashSet<&str> = declared.iter().map(|it| &*it.action).collect();
        let is_over = |it: &&DeclaredAction| is_forgotten(it, now) && !names.contains(&*it.action);
        let forgotten: Vec<Box<str>> = own
            .values()
            .filter(is_over)
            .map(|it| it.action.clone())
            .collect();
        let new = names
            .iter()
            .filter(|name| !own.contains_key(**name))
            .count();
        if own.len() - forgotten.len() + new > ACTION_LIMIT {
            return Err(WorkError::TooManyActions);
        }
        let mut changed = Vec::new();
        for declaration in declared {
            let known = own.get(&declaration.action);
            changed.push(DeclaredAction {
                action: declaration.action.clone(),
                parameters: declaration.parameters.as_ref().map(|it| it.get().into()),
                description: declaration.description.clone(),
                last_seen: now,
                saved: known.map_or(Millis(i64::MIN / 2), |known| known.saved),
            });
        }
        Ok((changed, forgotten))
    }
}

impl DeclaredAction {
    /// A type as a server lists it.
    pub fn listed(action: &str, parameters: Option<Arc<str>>, now: Millis) -> Self {
        Self {
            action: action.into(),
            parameters,
            description: None,
            last_seen: now,
            saved: now,
        }
    }

    fn is(&self, declaration: &Declaration) -> bool {
        let parameters = declaration.parameters.as_ref().map(|it| it.get());
        self.parameters.as_deref() == parameters && self.description == declaration.description
    }

    fn kept(&self) -> Vec<u8> {
        let parameters = self.parameters.as_deref();
        let parameters = parameters.and_then(|text| RawValue::from_string(text.to_owned()).ok());
        let kept = StoredDeclaration {
            v: 1,
            parameters,
            description: self.description.clone(),
            last_seen: self.last_seen,
        };
        serde_json::to_vec(&kept).expect("its keys are text")
    }
}

/// One poll may name a type twice, but not in two ways.
fn unambiguous(declared: &[Declaration]) -> Result<(), WorkError> {
    let mut seen: HashMap<&str, &Declaration> = HashMap::new();
    let text = |it: &Declaration| it.parameters.as_ref().map(|schema| schema.get().to_owned());
    for one in declared {
        if let Some(other) = seen.insert(&one.action, one)
            && (text(other) != text(one) || other.description != one.description)
        {
            return Err(WorkError::Contradicted(one.action.clone()));
        }
    }
    Ok(())
}

fn is_forgotten(action: &DeclaredAction, now: Millis) -> bool {
    now.0 - action.last_seen.0 >= FORGOTTEN_MS
}

/// A tenant's name has no control characters, and is not empty.
fn note_key(tenant: Option<&str>, action: &str) -> String {
    format!("{}\n{action}", tenant.unwrap_or_default())
}

async fn read(store: &dyn Backend, tenant: Option<&str>) -> Result<Actions, Error> {
    let prefix = note_key(tenant, "");
    let mut actions = Actions::new();
    let mut after = prefix.clone();
    loop {
        let page = store.notes(KIND, Some(&after), PAGE).await?;
        let Some((last, _)) = page.last() else {
            return Ok(actions);
        };
        after = last.to_string();
        for (key, bytes) in &page {
            let Some(action) = key.strip_prefix(&*prefix) else {
                return Ok(actions);
            };
            // One that cannot be read is declared again by the next poll.
            let Ok(kept) = serde_json::from_slice::<StoredDeclaration>(bytes) else {
                continue;
            };
            let declared = DeclaredAction {
                action: action.into(),
                parameters: kept.parameters.map(|it| it.get().into()),
                description: kept.description,
                last_seen: kept.last_seen,
                saved: kept.last_seen,
            };
            actions.insert(action.into(), declared);
        }
    }
}

fn check(declaration: &Declaration) -> Result<(), WorkError> {
    let Some(schema) = &declaration.parameters else {
        return Ok(());
    };
    let refused = |reason: String, limit| WorkError::SchemaInvalid {
        action: declaration.action.clone(),
        reason,
        limit,
    };
    let size = schema.get().len();
    if size > DECLARED_SCHEMA_BYTES {
        let reason = format!("it has {size} bytes; it may have {DECLARED_SCHEMA_BYTES}");
        return Err(refused(reason, true));
    }
    match check_schema(schema.get()) {
        Ok(_) => Ok(()),
        Err(SchemaProblem::Invalid(reason)) if reason.ends_with(NO_PATTERN) => {
            let why = "it is malformed, or too large to compile";
            Err(refused(format!("{reason}: {why}"), false))
        }
        Err(SchemaProblem::Invalid(reason)) => Err(refused(reason, false)),
        Err(SchemaProblem::Limit(reason)) => Err(refused(reason, true)),
    }
}
