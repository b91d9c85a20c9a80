//! Hooks in memory.

use std::future::ready;

use windlass_core::Digest;

use super::answer;
use super::schedule::{ScheduleKey, key};
use crate::{Error, Hook, Hooks, MemoryStore, Pending, TenantFilter};

impl Hooks for MemoryStore {
    fn put_hook(&self, hook: Hook, most: usize) -> Pending<'_, Result<bool, Error>> {
        let hooks = &mut self.state().hooks;
        let key: ScheduleKey = key(hook.tenant.as_deref(), &hook.id);
        if !hooks.contains_key(&key) {
            let own = hooks.keys().filter(|(_, tenant)| *tenant == key.1);
            if own.count() >= most {
                return Box::pin(ready(Ok(false)));
            }
        }
        hooks.insert(key, hook);
        Box::pin(ready(Ok(true)))
    }

    fn hook_of(&self, token: &Digest) -> Pending<'_, Result<Option<Hook>, Error>> {
        answer(|| {
            let state = self.state();
            let found = state.hooks.values().find(|hook| hook.token == *token);
            Ok(found.cloned())
        })
    }

    fn hooks(
        &self,
        tenant: &TenantFilter,
        after: Option<(&str, Option<&str>)>,
        limit: usize,
    ) -> Pending<'_, Result<Vec<Hook>, Error>> {
        answer(|| {
            let after = after.map(|(id, tenant)| key(tenant, id));
            let state = self.state();
            let rest = state
                .hooks
                .iter()
                .filter(|(key, _)| after.as_ref().is_none_or(|after| *key > after));
            let meant = rest.filter(|((_, owner), _)| tenant.matches(owner.as_deref()));
            Ok(meant.take(limit).map(|(_, hook)| hook.clone()).collect())
        })
    }

    fn remove_hook(&self, tenant: Option<&str>, id: &str) -> Pending<'_, Result<bool, Error>> {
        let removed = self.state().hooks.remove(&key(tenant, id));
        Box::pin(ready(Ok(removed.is_some())))
    }
}
