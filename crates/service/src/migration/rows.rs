//! Copies what is not a log. Every function can be repeated.

use windlass_store::{
    DeadLetter, Error, Fired, InboxBounds, NewDefinition, Offer, Partitions, RunFilter,
    StoredClaim, TenantFilter,
};

use super::runs::row_in;
use super::{Copied, Movable};

/// How much is read together.
const PAGE: usize = 500;

/// More schedules or hooks than any tenant has.
const NO_LIMIT: usize = usize::MAX;

/// Notes about processes that are gone.
const SESSIONS: &str = "session";

pub(super) async fn definitions(
    source: &dyn Movable,
    target: &dyn Movable,
    copied: &mut Copied,
) -> Result<(), Error> {
    for workflow in source.workflows(&TenantFilter::Any).await? {
        let (tenant, id) = (workflow.tenant.as_deref(), &*workflow.workflow);
        let there = target.workflow(tenant, id).await?;
        let there = there.map_or(0, |row| row.version);
        for version in there + 1..=workflow.version {
            let row = source.definition(tenant, id, Some(version)).await?;
            let row = row
                .ok_or_else(|| Error::NotFound(format!("version {version} of workflow '{id}'")))?;
            let definition = NewDefinition {
                tenant: row.tenant,
                workflow: row.workflow,
                display_name: workflow.display_name.clone(),
                digest: row.digest,
                text: row.text.into(),
                signature: row.signature,
                at: row.at,
            };
            let published = target.publish(definition).await?;
            if published.version != version {
                let got = published.version;
                let message = format!("version {version} of '{id}' became version {got}");
                return Err(Error::Unavailable(message));
            }
            copied.definitions += 1;
        }
        target.set_enabled(tenant, id, workflow.enabled).await?;
    }
    Ok(())
}

pub(super) async fn rest(
    source: &dyn Movable,
    target: &dyn Movable,
    copied: &mut Copied,
) -> Result<(), Error> {
    claims(source, target, copied).await?;
    schedules(source, target, copied).await?;
    hooks(source, target, copied).await?;
    secrets(source, target, copied).await?;
    pools(source, target, copied).await?;
    dead_letters(source, target, copied).await?;
    inbox(source, target).await?;
    notes(source, target).await?;
    audit(source, target, copied).await
}

async fn claims(
    source: &dyn Movable,
    target: &dyn Movable,
    copied: &mut Copied,
) -> Result<(), Error> {
    let mut after: Option<StoredClaim> = None;
    loop {
        let cursor = after.as_ref().map(|it| (&*it.namespace, &*it.key));
        let page = source.claims(cursor, PAGE).await?;
        let Some(last) = page.last().cloned() else {
            return Ok(());
        };
        copied.claims += page.len() as u64;
        target.put_claims(page).await?;
        after = Some(last);
    }
}

async fn schedules(
    source: &dyn Movable,
    target: &dyn Movable,
    copied: &mut Copied,
) -> Result<(), Error> {
    let any = TenantFilter::Any;
    let mut after: Option<(Box<str>, Option<Box<str>>)> = None;
    loop {
        let cursor = after.as_ref().map(|it| (&*it.0, it.1.as_deref()));
        let page = source.schedules(&any, cursor, PAGE).await?;
        let Some(last) = page.last() else {
            return Ok(());
        };
        after = Some((last.id.clone(), last.tenant.clone()));
        for schedule in page {
            let (tenant, id) = (schedule.tenant.clone(), schedule.id.clone());
            let (at, run, error) = (
                schedule.last_at,
                schedule.last_run,
                schedule.last_error.clone(),
            );
            let next_at = schedule.next_at;
            target.put_schedule(schedule, NO_LIMIT).await?;
            let put = target.schedule(tenant.as_deref(), &id).await?;
            // What happened at its last time is no part of what is put.
            if let (Some(at), Some(put)) = (at, put) {
                let fired = Fired {
                    id,
                    tenant,
                    revision: put.revision,
                    at,
                    run,
                    error,
                    next_at,
                };
                target.mark_fired(fired).await?;
            }
            copied.schedules += 1;
        }
    }
}

async fn hooks(
    source: &dyn Movable,
    target: &dyn Movable,
    copied: &mut Copied,
) -> Result<(), Error> {
    let any = TenantFilter::Any;
    let mut after: Option<(Box<str>, Option<Box<str>>)> = None;
    loop {
        let cursor = after.as_ref().map(|it| (&*it.0, it.1.as_deref()));
        let page = source.hooks(&any, cursor, PAGE).await?;
        let Some(last) = page.last() else {
            return Ok(());
        };
        after = Some((last.id.clone(), last.tenant.clone()));
        for hook in page {
            target.put_hook(hook, NO_LIMIT).await?;
            copied.hooks += 1;
        }
    }
}

async fn secrets(
    source: &dyn Movable,
    target: &dyn Movable,
    copied: &mut Copied,
) -> Result<(), Error> {
    let any = TenantFilter::Any;
    let mut after: Option<(Box<str>, Option<Box<str>>)> = None;
    loop {
        let cursor = after.as_ref().map(|it| (&*it.0, it.1.as_deref()));
        let page = source.secrets(&any, cursor, PAGE).await?;
        let Some(last) = page.last() else {
            return Ok(());
        };
        after = Some((last.name.clone(), last.tenant.clone()));
        for row in page {
            let tenant = row.tenant.as_deref();
            if let Some(sealed) = source.secret(tenant, &row.name).await? {
                target
                    .put_secret(tenant, &row.name, sealed, row.updated_at)
                    .await?;
                copied.secrets += 1;
            }
        }
    }
}

/// Pools with their sizes. Which attempts hold slots follows from the runs.
async fn pools(
    source: &dyn Movable,
    target: &dyn Movable,
    copied: &mut Copied,
) -> Result<(), Error> {
    let mut after = None;
    loop {
        let page = source.pools(&TenantFilter::Any, after.as_ref(), PAGE);
        let page = page.await?;
        let Some(last) = page.last() else {
            return Ok(());
        };
        after = Some(last.pool.clone());
        for row in page {
            target.put_pool(row).await?;
            copied.pools += 1;
        }
    }
}

async fn dead_letters(
    source: &dyn Movable,
    target: &dyn Movable,
    copied: &mut Copied,
) -> Result<(), Error> {
    let mut before = None;
    loop {
        let page = source
            .dead_letters(&TenantFilter::Any, before, PAGE)
            .await?;
        let Some(last) = page.last() else { break };
        before = Some(last.run);
        for letter in page {
            target.add_dead_letter(letter).await?;
            copied.dead_letters += 1;
        }
    }
    // Runs whose letters were purged while they could not be read stay dead without one.
    let mut filter = RunFilter {
        limit: PAGE,
        ..RunFilter::default()
    };
    loop {
        let page = source.runs(&filter).await?;
        for row in page.rows.iter().filter(|row| row.dead) {
            if source.dead_letter(row.run).await?.is_some() {
                continue;
            }
            let letter = DeadLetter {
                run: row.run,
                tenant: row.tenant.clone(),
                workflow: row.workflow.clone(),
                reason: "purged".into(),
                payload: b"{}".to_vec(),
                deliveries: 0,
                at: row.created_at,
                damage: None,
            };
            target.add_dead_letter(letter).await?;
            target.purge(row.run).await?;
        }
        match page.next {
            Some(next) => filter.before = Some(next),
            None => return Ok(()),
        }
    }
}

/// Commands that no owner has decided on.
async fn inbox(source: &dyn Movable, target: &dyn Movable) -> Result<(), Error> {
    let mut after = None;
    loop {
        let runs = source.offered(&Partitions::All, after, PAGE).await?;
        let Some(last) = runs.last() else {
            return Ok(());
        };
        after = Some(*last);
        for run in runs {
            let Some(row) = row_in(source, target, run).await? else {
                continue;
            };
            let mut place = 0;
            loop {
                let bounds = InboxBounds::default();
                let items = source.inbox_page(run, place, bounds).await?;
                let Some(last) = items.last() else { break };
                place = last.number;
                let offers = items.into_iter().map(|item| Offer {
                    run,
                    partition: row.partition,
                    key: item.key,
                    bytes: item.bytes,
                });
                target.offer(offers.collect()).await?;
            }
        }
    }
}

async fn notes(source: &dyn Movable, target: &dyn Movable) -> Result<(), Error> {
    for kind in source.note_kinds().await? {
        if &*kind == SESSIONS {
            continue;
        }
        let mut after: Option<Box<str>> = None;
        loop {
            let page = source.notes(&kind, after.as_deref(), PAGE).await?;
            let Some(last) = page.last() else { break };
            after = Some(last.0.clone());
            for (key, bytes) in page {
                target.keep_note(&kind, &key, bytes).await?;
            }
        }
    }
    Ok(())
}

/// The target's entries are the first of the source's: what it has is counted and passed over.
async fn audit(
    source: &dyn Movable,
    target: &dyn Movable,
    copied: &mut Copied,
) -> Result<(), Error> {
    let any = TenantFilter::Any;
    let newest = async |store: &dyn Movable| -> Result<u64, Error> {
        let last = store.audit(&any, None, 1).await?;
        Ok(last.first().map_or(0, |(number, _)| *number))
    };
    let (end, mut skip) = (newest(source).await?, newest(target).await?);
    let (mut from, step) = (0, PAGE as u64);
    while from < end {
        let page = source.audit(&any, Some(from + step + 1), PAGE).await?;
        let page = page.into_iter().filter(|(number, _)| *number > from);
        let mut entries: Vec<_> = page.map(|(_, entry)| entry).collect();
        entries.reverse();
        from += step;
        let known = skip.min(entries.len() as u64);
        skip -= known;
        entries.drain(..known as usize);
        copied.audit += entries.len() as u64;
        if !entries.is_empty() {
            target.note(entries).await?;
        }
    }
    Ok(())
}
