//! Leases: one holder at a time, given and taken, and sessions that end cleanly or expire.

use crate::{Leases, Partition, ProcessInfo, Role, SessionId, TakenPartition, block_on};

/// Longer than any check takes.
const LONG: u64 = 600_000;

/// Runs every check that needs no time to pass.
pub fn all<S: Leases>(open: &dyn Fn() -> S) {
    every_session_has_its_own_id_and_sees_the_same_partitions(&open());
    a_partition_has_one_holder_until_it_is_given(&open());
    what_is_not_held_cannot_be_given(&open());
    a_session_that_leaves_gives_everything_and_is_over(&open());
    an_unknown_session_is_not_live(&open());
    a_partition_that_does_not_exist_is_not_taken(&open());
    a_process_changes_what_it_says_of_itself(&open());
    renewing_lists_the_live_sessions(&open());
    a_named_lease_has_one_holder_until_it_is_given(&open());
}

/// Runs every check of expiry; the second of a pair lets so many milliseconds pass.
pub fn expiry<S: Leases, A: Fn(u64)>(open: &dyn Fn() -> (S, A)) {
    let (store, pass) = open();
    a_session_that_is_renewed_lives_on(&store, &pass);
    let (store, pass) = open();
    a_session_that_expires_loses_its_partitions_for_good(&store, &pass);
    let (store, pass) = open();
    expired_sessions_are_listed_until_they_are_forgotten(&store, &pass);
    let (store, pass) = open();
    who_takes_a_partition_learns_how_its_last_holder_ended(&store, &pass);
    let (store, pass) = open();
    a_named_lease_ends_with_its_session(&store, &pass);
}

fn join<S: Leases>(store: &S, name: &str, duration_ms: u64) -> SessionId {
    block_on(store.join(&ProcessInfo::named(name), duration_ms))
        .unwrap()
        .session
}

fn take<S: Leases>(store: &S, session: SessionId, partition: u32) -> Vec<TakenPartition> {
    block_on(store.take(session, &[Partition(partition)])).unwrap()
}

fn holder<S: Leases>(store: &S, partition: u32) -> Option<SessionId> {
    let live = block_on(store.sessions()).unwrap();
    let mut holders = live
        .iter()
        .filter(|session| session.partitions.contains(&Partition(partition)));
    let holder = holders.next().map(|session| session.session);
    assert!(holders.next().is_none(), "a partition has two holders");
    holder
}

fn every_session_has_its_own_id_and_sees_the_same_partitions<S: Leases>(store: &S) {
    let a = ProcessInfo {
        host: "h".into(),
        roles: [Role::Api, Role::Worker].into_iter().collect(),
        labels: vec!["gpu".into()],
        slots: 3,
        actions: vec!["act".into()],
        version: "1".into(),
        ..ProcessInfo::named("a")
    };
    let named = [a, ProcessInfo::named("b")];
    let [a, b] = [0, 1].map(|n| block_on(store.join(&named[n], LONG)).unwrap());
    assert!(a.session != b.session && a.partitions == b.partitions);
    assert!(a.partitions > 0);
    let live = block_on(store.sessions()).unwrap();
    let mut expected = [(a.session, &named[0]), (b.session, &named[1])];
    expected.sort_by_key(|(session, _)| *session);
    let listed: Vec<_> = live.iter().map(|it| (it.session, &it.process)).collect();
    assert_eq!(listed, expected, "with what each said of itself");
    for session in &live {
        assert!(session.partitions.is_empty());
        assert!(session.expires_ms <= LONG && session.began_ms < LONG);
        assert!(session.expires_ms > session.began_ms);
    }
    assert!(block_on(store.expired()).unwrap().is_empty());
}

fn a_partition_has_one_holder_until_it_is_given<S: Leases>(store: &S) {
    let (a, b) = (join(store, "a", LONG), join(store, "b", LONG));
    let taken = take(store, a, 0);
    let expected = TakenPartition {
        partition: Partition(0),
        from_expired: None,
    };
    assert_eq!(taken, [expected]);
    assert!(take(store, b, 0).is_empty(), "it is held");
    assert!(take(store, a, 0).is_empty(), "it is held already");
    assert_eq!(holder(store, 0), Some(a));
    block_on(store.give(a, &[Partition(0)])).unwrap();
    assert_eq!(holder(store, 0), None);
    assert_eq!(take(store, b, 0), [expected]);
    assert_eq!(holder(store, 0), Some(b));
}

fn what_is_not_held_cannot_be_given<S: Leases>(store: &S) {
    let (a, b) = (join(store, "a", LONG), join(store, "b", LONG));
    take(store, a, 0);
    block_on(store.give(b, &[Partition(0)])).unwrap();
    assert_eq!(holder(store, 0), Some(a));
}

fn a_session_that_leaves_gives_everything_and_is_over<S: Leases>(store: &S) {
    let a = join(store, "a", LONG);
    take(store, a, 0);
    assert!(block_on(store.renew(a)).unwrap());
    assert!(block_on(store.leave(a)).unwrap());
    assert!(!block_on(store.leave(a)).unwrap());
    assert!(!block_on(store.renew(a)).unwrap());
    assert!(take(store, a, 0).is_empty());
    assert_eq!(holder(store, 0), None);
    // A clean end is not listed.
    assert!(block_on(store.expired()).unwrap().is_empty());
    assert!(!block_on(store.forget_session(a)).unwrap());
    let b = join(store, "b", LONG);
    assert_eq!(take(store, b, 0)[0].from_expired, None);
}

fn an_unknown_session_is_not_live<S: Leases>(store: &S) {
    let a = join(store, "a", LONG);
    let unknown = SessionId(a.0 + 1_000);
    assert!(!block_on(store.renew(unknown)).unwrap());
    assert!(take(store, unknown, 0).is_empty());
    assert!(!block_on(store.leave(unknown)).unwrap());
}

fn a_partition_that_does_not_exist_is_not_taken<S: Leases>(store: &S) {
    let joined = block_on(store.join(&ProcessInfo::named("a"), LONG)).unwrap();
    assert!(take(store, joined.session, joined.partitions).is_empty());
    let all: Vec<Partition> = (0..joined.partitions).map(Partition).collect();
    let taken = block_on(store.take(joined.session, &all)).unwrap();
    assert_eq!(taken.len(), all.len());
}

fn a_session_that_is_renewed_lives_on<S: Leases>(store: &S, pass: &impl Fn(u64)) {
    let a = join(store, "a", 1_000);
    take(store, a, 0);
    for _ in 0..5 {
        pass(600);
        assert!(block_on(store.renew(a)).unwrap());
    }
    assert_eq!(holder(store, 0), Some(a));
}

fn a_session_that_expires_loses_its_partitions_for_good<S: Leases>(store: &S, pass: &impl Fn(u64)) {
    let (a, b) = (join(store, "a", 1_000), join(store, "b", LONG));
    take(store, a, 0);
    pass(999);
    assert!(take(store, b, 0).is_empty(), "it is held until it expires");
    pass(1);
    assert!(!block_on(store.renew(a)).unwrap());
    assert_eq!(holder(store, 0), None);
    assert_eq!(take(store, b, 0).len(), 1);
    assert!(take(store, a, 0).is_empty());
    block_on(store.give(a, &[Partition(0)])).unwrap();
    assert_eq!(holder(store, 0), Some(b));
}

fn expired_sessions_are_listed_until_they_are_forgotten<S: Leases>(store: &S, pass: &impl Fn(u64)) {
    let (a, b) = (join(store, "a", 1_000), join(store, "b", LONG));
    pass(1_000);
    let expired = block_on(store.expired()).unwrap();
    assert_eq!(expired.len(), 1);
    assert_eq!((expired[0].session, &*expired[0].name), (a, "a"));
    // An end that comes too late changes nothing.
    assert!(!block_on(store.leave(a)).unwrap());
    assert_eq!(block_on(store.expired()).unwrap().len(), 1);
    assert!(!block_on(store.forget_session(b)).unwrap());
    assert!(block_on(store.forget_session(a)).unwrap());
    assert!(!block_on(store.forget_session(a)).unwrap());
    assert!(block_on(store.expired()).unwrap().is_empty());
}

fn who_takes_a_partition_learns_how_its_last_holder_ended<S: Leases>(
    store: &S,
    pass: &impl Fn(u64),
) {
    let (a, b) = (join(store, "a", 1_000), join(store, "b", LONG));
    take(store, a, 0);
    pass(1_000);
    assert_eq!(take(store, b, 0)[0].from_expired, Some(a));
    block_on(store.give(b, &[Partition(0)])).unwrap();
    let c = join(store, "c", LONG);
    assert_eq!(take(store, c, 0)[0].from_expired, None);
}

fn a_process_changes_what_it_says_of_itself<S: Leases>(store: &S) {
    let session = join(store, "a", LONG);
    let worker = ProcessInfo {
        roles: [Role::Worker].into_iter().collect(),
        slots: 2,
        ..ProcessInfo::named("a")
    };
    assert!(block_on(store.describe(session, &worker)).unwrap());
    let live = block_on(store.sessions()).unwrap();
    assert_eq!(live[0].process, worker);
    assert!(block_on(store.leave(session)).unwrap());
    assert!(!block_on(store.describe(session, &worker)).unwrap());
}

fn renewing_lists_the_live_sessions<S: Leases>(store: &S) {
    let (a, b) = (join(store, "a", LONG), join(store, "b", LONG));
    take(store, b, 0);
    let listed = block_on(store.renew_and_list(a))
        .unwrap()
        .expect("it is live");
    let of = |it: &crate::LiveSession| (it.session, it.partitions.clone());
    let listed: Vec<_> = listed.iter().map(of).collect();
    assert_eq!(listed, [(a, Vec::new()), (b, vec![Partition(0)])]);
    assert!(block_on(store.leave(a)).unwrap());
    assert_eq!(block_on(store.renew_and_list(a)).unwrap(), None);
}

fn take_named<S: Leases>(store: &S, session: SessionId, name: &str) -> bool {
    block_on(store.take_named(session, name)).unwrap()
}

fn a_named_lease_has_one_holder_until_it_is_given<S: Leases>(store: &S) {
    let (a, b) = (join(store, "a", LONG), join(store, "b", LONG));
    assert!(take_named(store, a, "one") && take_named(store, a, "one"));
    assert!(!take_named(store, b, "one"));
    assert!(take_named(store, b, "other"), "names are apart");
    block_on(store.give_named(b, "one")).unwrap();
    assert!(
        !take_named(store, b, "one"),
        "what is not held is not given"
    );
    block_on(store.give_named(a, "one")).unwrap();
    assert!(take_named(store, b, "one") && !take_named(store, a, "one"));
    assert!(block_on(store.leave(b)).unwrap());
    assert!(!take_named(store, b, "one"), "its session is over");
    assert!(take_named(store, a, "one") && take_named(store, a, "other"));
}

fn a_named_lease_ends_with_its_session<S: Leases>(store: &S, pass: &impl Fn(u64)) {
    let (a, b) = (join(store, "a", 1_000), join(store, "b", LONG));
    assert!(take_named(store, a, "one") && !take_named(store, b, "one"));
    pass(1_000);
    assert!(!take_named(store, a, "one"));
    assert!(take_named(store, b, "one"));
}
