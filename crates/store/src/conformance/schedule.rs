//! Schedules: kept whole, listed in order, found when they are due, moved on only as they
//! were read.

use crate::block_on::Wait;
use windlass_core::Millis;

use super::{Backend, run_id};
use crate::{CatchUp, Fired, Overlap, Schedule, TenantFilter, block_on};

/// Runs every check of this file.
pub fn all<S: Backend>(open: &dyn Fn() -> S) {
    a_schedule_keeps_every_field(&open());
    a_replaced_schedule_keeps_what_it_did_last(&open());
    schedules_are_listed_by_id(&open());
    a_tenant_has_so_many_and_no_more(&open());
    the_due_come_earliest_first(&open());
    only_what_was_read_moves_on(&open());
    tenants_have_their_own(&open());
}

fn schedule(id: &str, tenant: Option<&str>) -> Schedule {
    Schedule {
        id: id.into(),
        tenant: tenant.map(Into::into),
        workflow: "sample".into(),
        cron: Some("0 9 * * *".into()),
        every_ms: None,
        timezone: "UTC".into(),
        trigger: "{}".into(),
        labels: Default::default(),
        priority: 5,
        enabled: true,
        catch_up: CatchUp::One,
        overlap: Overlap::Allow,
        changed_at: Millis(1),
        next_at: Some(Millis(10)),
        last_at: None,
        last_run: None,
        last_error: None,
        revision: 1,
        damage: None,
    }
}

fn put<S: Backend>(store: &S, schedule: &Schedule) {
    assert!(block_on(store.put_schedule(schedule.clone(), 100)).unwrap());
}

fn fired(schedule: &Schedule, at: i64, next_at: Option<i64>) -> Fired {
    Fired {
        id: schedule.id.clone(),
        tenant: schedule.tenant.clone(),
        revision: schedule.revision,
        at: Millis(at),
        run: Some(run_id(1)),
        error: None,
        next_at: next_at.map(Millis),
    }
}

fn a_schedule_keeps_every_field<S: Backend>(store: &S) {
    assert_eq!(store.schedule(None, "a").wait().unwrap(), None);
    assert_eq!(store.next_schedule().wait().unwrap(), None);
    let full = Schedule {
        cron: None,
        every_ms: Some(u64::from(u32::MAX) * 1000),
        timezone: "Europe/Zurich".into(),
        trigger: "{\"text\":\"quo\\\"te é\"}".into(),
        labels: [("team".into(), "é \"x\"".into())].into(),
        priority: 9,
        enabled: false,
        catch_up: CatchUp::All,
        overlap: Overlap::Skip,
        changed_at: Millis(-5),
        next_at: None,
        ..schedule("a", Some("acme"))
    };
    let plain = Schedule {
        trigger: format!("\"{}\"", "x".repeat(256 << 10)).into(),
        catch_up: CatchUp::None,
        ..schedule("b", None)
    };
    for schedule in [&full, &plain] {
        put(store, schedule);
        let tenant = schedule.tenant.as_deref();
        let found = store.schedule(tenant, &schedule.id).wait().unwrap();
        assert_eq!(found.as_ref(), Some(schedule));
    }
    assert_eq!(
        store.schedules(&TenantFilter::Any, None, 9).wait().unwrap(),
        [full, plain]
    );
}

fn a_replaced_schedule_keeps_what_it_did_last<S: Backend>(store: &S) {
    let first = schedule("a", None);
    put(store, &first);
    assert!(block_on(store.mark_fired(fired(&first, 10, Some(20)))).unwrap());
    let other = Schedule {
        workflow: "other".into(),
        next_at: Some(Millis(30)),
        revision: 0,
        damage: None,
        ..first
    };
    put(store, &other);
    let expected = Schedule {
        last_at: Some(Millis(10)),
        last_run: Some(run_id(1)),
        revision: 2,
        ..other
    };
    assert_eq!(store.schedule(None, "a").wait().unwrap(), Some(expected));
}

fn schedules_are_listed_by_id<S: Backend>(store: &S) {
    for (id, tenant) in [
        ("c", None),
        ("a", Some("beta")),
        ("a", None),
        ("b", Some("acme")),
        ("a", Some("acme")),
    ] {
        put(store, &schedule(id, tenant));
    }
    let list = |tenant: &TenantFilter, after: Option<(&str, Option<&str>)>, limit| {
        let found = store.schedules(tenant, after, limit).wait().unwrap();
        let names = found.into_iter().map(|it| (it.id, it.tenant));
        names
            .map(|(id, tenant)| format!("{id}@{}", tenant.unwrap_or_default()))
            .collect::<Vec<_>>()
    };
    let any = TenantFilter::Any;
    let everything = ["a@", "a@acme", "a@beta", "b@acme", "c@"];
    assert_eq!(list(&any, None, 9), everything);
    assert_eq!(list(&any, Some(("a", None)), 2), ["a@acme", "a@beta"]);
    assert_eq!(list(&any, Some(("a", Some("beta"))), 9), ["b@acme", "c@"]);
    assert!(list(&any, Some(("c", None)), 9).is_empty());
    assert!(list(&any, None, 0).is_empty());
    let acme = TenantFilter::Only(Some("acme".into()));
    assert_eq!(list(&acme, None, 9), ["a@acme", "b@acme"]);
    assert_eq!(list(&acme, Some(("a", Some("acme"))), 9), ["b@acme"]);
    assert_eq!(list(&TenantFilter::Only(None), None, 9), ["a@", "c@"]);
}

fn a_tenant_has_so_many_and_no_more<S: Backend>(store: &S) {
    let try_put = |id: &str, tenant| block_on(store.put_schedule(schedule(id, tenant), 2)).unwrap();
    assert!(try_put("a", None));
    assert!(try_put("b", None));
    assert!(!try_put("c", None), "one too many");
    assert_eq!(store.schedule(None, "c").wait().unwrap(), None);
    assert!(try_put("b", None), "replacing needs no room");
    assert!(try_put("a", Some("acme")), "others have room of their own");
    assert!(block_on(store.remove_schedule(None, "a")).unwrap());
    assert!(try_put("c", None));
}

fn the_due_come_earliest_first<S: Backend>(store: &S) {
    for (id, next_at) in [
        ("a", Some(30)),
        ("b", Some(10)),
        ("c", None),
        ("d", Some(20)),
    ] {
        let next_at = next_at.map(Millis);
        put(
            store,
            &Schedule {
                next_at,
                ..schedule(id, None)
            },
        );
    }
    let due = |until, limit| -> Vec<Box<str>> {
        let found = store.due_schedules(Millis(until), limit).wait().unwrap();
        found.into_iter().map(|it| it.id).collect()
    };
    assert_eq!(store.next_schedule().wait().unwrap(), Some(Millis(10)));
    assert!(due(9, 9).is_empty());
    assert_eq!(due(10, 9), ["b".into()]);
    assert_eq!(due(30, 2), ["b".into(), "d".into()]);
    assert_eq!(due(i64::MAX, 9).len(), 3);
    let read = store.schedule(None, "b").wait().unwrap().unwrap();
    assert!(block_on(store.mark_fired(fired(&read, 10, Some(40)))).unwrap());
    assert_eq!(store.next_schedule().wait().unwrap(), Some(Millis(20)));
    assert!(block_on(store.remove_schedule(None, "d")).unwrap());
    assert_eq!(store.next_schedule().wait().unwrap(), Some(Millis(30)));
}

fn only_what_was_read_moves_on<S: Backend>(store: &S) {
    put(store, &schedule("a", None));
    let read = store.schedule(None, "a").wait().unwrap().unwrap();
    put(store, &schedule("a", None));
    let late = fired(&read, 10, Some(20));
    assert!(!block_on(store.mark_fired(late.clone())).unwrap());
    let present = store.schedule(None, "a").wait().unwrap().unwrap();
    assert_eq!((present.next_at, present.last_at), (Some(Millis(10)), None));
    let wrong = Fired {
        run: None,
        error: Some("it is disabled".into()),
        ..fired(&present, 10, Some(20))
    };
    assert!(block_on(store.mark_fired(wrong)).unwrap());
    let moved = store.schedule(None, "a").wait().unwrap().unwrap();
    assert_eq!(moved.last_error.as_deref(), Some("it is disabled"));
    assert_eq!(moved.last_run, None);
    assert!(block_on(store.mark_fired(fired(&moved, 20, None))).unwrap());
    let ended = store.schedule(None, "a").wait().unwrap().unwrap();
    assert_eq!((ended.next_at, ended.last_error), (None, None));
    assert_eq!(ended.last_run, Some(run_id(1)));
    assert!(block_on(store.remove_schedule(None, "a")).unwrap());
    assert!(!block_on(store.mark_fired(late)).unwrap(), "it is gone");
}

fn tenants_have_their_own<S: Backend>(store: &S) {
    put(store, &schedule("a", Some("acme")));
    assert_eq!(store.schedule(None, "a").wait().unwrap(), None);
    assert_eq!(store.schedule(Some("beta"), "a").wait().unwrap(), None);
    assert!(!block_on(store.remove_schedule(None, "a")).unwrap());
    assert!(!block_on(store.remove_schedule(Some("beta"), "a")).unwrap());
    assert!(block_on(store.remove_schedule(Some("acme"), "a")).unwrap());
    assert!(!block_on(store.remove_schedule(Some("acme"), "a")).unwrap());
}
