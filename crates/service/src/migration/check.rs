//! One digest over everything that a store holds: two stores with the same digest hold the same.
//! Parts are digested one by one and summed, so their order does not matter.

use windlass_core::Digest;
use windlass_store::{Error, TenantFilter};

use super::Movable;

/// How much is read together.
const PAGE: usize = 500;

/// A sum of digests.
#[derive(Default)]
struct Sum {
    low: u128,
    high: u128,
    count: u64,
}

impl Sum {
    fn add(&mut self, parts: &[&[u8]]) {
        let mut bytes = Vec::new();
        for part in parts {
            bytes.extend((part.len() as u64).to_be_bytes());
            bytes.extend(*part);
        }
        let digest = Digest::of(&bytes).0;
        let half = |at: usize| {
            let mut half = [0; 16];
            half.copy_from_slice(&digest[at..at + 16]);
            u128::from_be_bytes(half)
        };
        self.low = self.low.wrapping_add(half(0));
        self.high = self.high.wrapping_add(half(16));
        self.count += 1;
    }

    fn digest(&self) -> Digest {
        let mut bytes = Vec::new();
        bytes.extend(self.low.to_be_bytes());
        bytes.extend(self.high.to_be_bytes());
        bytes.extend(self.count.to_be_bytes());
        Digest::of(&bytes)
    }
}

/// The digest of a store: the heads of all logs with their chains of checksums, definitions,
/// schedules, hooks, secrets, dead letters, claims, and how many entries the audit log has.
///
/// # Errors
/// The store failed.
pub async fn fingerprint(store: &dyn Movable) -> Result<Digest, Error> {
    let mut sum = Sum::default();
    runs(store, &mut sum).await?;
    definitions(store, &mut sum).await?;
    rows(store, &mut sum).await?;
    claims(store, &mut sum).await?;
    let audit = store.audit(&TenantFilter::Any, None, 1).await?;
    let audit = audit.first().map_or(0, |(number, _)| *number);
    sum.add(&[b"audit", &audit.to_be_bytes()]);
    Ok(sum.digest())
}

async fn runs(store: &dyn Movable, sum: &mut Sum) -> Result<(), Error> {
    let mut after = None;
    loop {
        let page = store.logged_runs(after, PAGE).await?;
        let Some(last) = page.last() else {
            return Ok(());
        };
        after = Some(*last);
        for run in page {
            let head = store.head(run).await?;
            sum.add(&[
                b"run",
                run.as_bytes(),
                &head.sequence.to_be_bytes(),
                &head.append_id.to_be_bytes(),
                &head.chain,
            ]);
        }
    }
}

async fn definitions(store: &dyn Movable, sum: &mut Sum) -> Result<(), Error> {
    for workflow in store.workflows(&TenantFilter::Any).await? {
        let tenant = workflow.tenant.as_deref();
        for row in store.versions(tenant, &workflow.workflow).await? {
            sum.add(&[
                b"definition",
                tenant.unwrap_or_default().as_bytes(),
                workflow.workflow.as_bytes(),
                &row.version.to_be_bytes(),
                &row.digest.0,
                &row.signature.0,
                &[workflow.enabled.into()],
            ]);
        }
    }
    Ok(())
}

async fn rows(store: &dyn Movable, sum: &mut Sum) -> Result<(), Error> {
    let any = TenantFilter::Any;
    let mut after: Option<(Box<str>, Option<Box<str>>)> = None;
    loop {
        let cursor = after.as_ref().map(|it| (&*it.0, it.1.as_deref()));
        let page = store.schedules(&any, cursor, PAGE).await?;
        let Some(last) = page.last() else { break };
        after = Some((last.id.clone(), last.tenant.clone()));
        for row in page {
            // How often it was put differs.
            let row = windlass_store::Schedule { revision: 0, ..row };
            sum.add(&[b"schedule", format!("{row:?}").as_bytes()]);
        }
    }
    after = None;
    loop {
        let cursor = after.as_ref().map(|it| (&*it.0, it.1.as_deref()));
        let page = store.hooks(&any, cursor, PAGE).await?;
        let Some(last) = page.last() else { break };
        after = Some((last.id.clone(), last.tenant.clone()));
        for row in page {
            let tenant = row.tenant.as_deref().unwrap_or_default();
            let [id, workflow, secret] =
                [&row.id, &row.workflow, &row.secret].map(|it| it.as_bytes());
            sum.add(&[
                b"hook",
                tenant.as_bytes(),
                id,
                workflow,
                secret,
                &row.token.0,
            ]);
        }
    }
    after = None;
    loop {
        let cursor = after.as_ref().map(|it| (&*it.0, it.1.as_deref()));
        let page = store.secrets(&any, cursor, PAGE).await?;
        let Some(last) = page.last() else { break };
        after = Some((last.name.clone(), last.tenant.clone()));
        for row in page {
            let tenant = row.tenant.as_deref();
            let sealed = store.secret(tenant, &row.name).await?.unwrap_or_default();
            let tenant = tenant.unwrap_or_default().as_bytes();
            sum.add(&[b"secret", tenant, row.name.as_bytes(), &sealed]);
        }
    }
    let mut last_pool = None;
    loop {
        let page = store.pools(&any, last_pool.as_ref(), PAGE).await?;
        let Some(last) = page.last() else { break };
        last_pool = Some(last.pool.clone());
        for row in page {
            let tenant = row.pool.tenant.as_deref().unwrap_or_default().as_bytes();
            let name = row.pool.name.as_bytes();
            sum.add(&[b"pool", tenant, name, &row.slots.to_le_bytes()]);
        }
    }
    let mut before = None;
    loop {
        let page = store.dead_letters(&any, before, PAGE).await?;
        let Some(last) = page.last() else {
            return Ok(());
        };
        before = Some(last.run);
        for row in page {
            let reason = row.reason.as_bytes();
            sum.add(&[b"letter", row.run.as_bytes(), reason, &row.payload]);
        }
    }
}

async fn claims(store: &dyn Movable, sum: &mut Sum) -> Result<(), Error> {
    let mut after: Option<windlass_store::StoredClaim> = None;
    loop {
        let cursor = after.as_ref().map(|it| (&*it.namespace, &*it.key));
        let page = store.claims(cursor, PAGE).await?;
        let Some(last) = page.last().cloned() else {
            return Ok(());
        };
        for claim in &page {
            let (namespace, key) = (claim.namespace.as_bytes(), claim.key.as_bytes());
            sum.add(&[b"claim", namespace, key, &claim.value]);
        }
        after = Some(last);
    }
}
