//! Several processes share one list of sessions; each answer comes when the test gives it.

use windlass_core::event::After;
use windlass_store::{Error, Leases, MemoryStore, Partition, ProcessInfo, Role, block_on};

use super::{LeaseOptions, Ownership, OwnershipEffect, OwnershipInput};

const ALL: [Partition; 4] = [Partition(0), Partition(1), Partition(2), Partition(3)];

/// One process, and what the runtime had to do beyond calls of the backend.
struct Owner {
    machine: Ownership,
    store: MemoryStore,
    told: Vec<OwnershipEffect>,
}

fn store() -> MemoryStore {
    let store = MemoryStore::new();
    store.set_partitions(4);
    // The tests expire sessions by leaving them.
    store.set_lease_clock(|| 0);
    store
}

impl Owner {
    fn new(store: &MemoryStore) -> Self {
        Self {
            machine: Ownership::new(LeaseOptions::default()),
            store: store.clone(),
            told: Vec::new(),
        }
    }

    fn started(store: &MemoryStore) -> Self {
        let mut owner = Self::new(store);
        owner.handle(OwnershipInput::Start, 0);
        owner
    }

    /// Takes an input, and answers every call of the backend at once.
    fn handle(&mut self, input: OwnershipInput, now: u64) {
        self.machine.handle(input, now);
        self.answer_all(now);
    }

    fn answer_all(&mut self, now: u64) {
        while let Some(effect) = self.machine.poll_effect() {
            let store = &self.store;
            let input = match effect {
                OwnershipEffect::Join { duration_ms } => OwnershipInput::Joined(block_on(
                    store.join(&ProcessInfo::named("p"), duration_ms),
                )),
                OwnershipEffect::Renew(id) => OwnershipInput::Renewed(block_on(store.renew(id))),
                OwnershipEffect::ListSessions(id) => {
                    OwnershipInput::Listed(id, block_on(store.sessions()))
                }
                OwnershipEffect::Take(id, partitions) => {
                    OwnershipInput::Taken(id, block_on(store.take(id, &partitions)))
                }
                OwnershipEffect::Give(id, partitions) => {
                    OwnershipInput::Given(id, block_on(store.give(id, &partitions)))
                }
                OwnershipEffect::Leave(id) => OwnershipInput::Left(block_on(store.leave(id))),
                OwnershipEffect::Ring => continue,
                other => {
                    self.told.push(other);
                    continue;
                }
            };
            self.machine.handle(input, now);
        }
    }

    fn pass(&mut self, now: u64) {
        self.machine.handle_deadline(now);
        self.answer_all(now);
    }

    fn told(&mut self) -> Vec<OwnershipEffect> {
        std::mem::take(&mut self.told)
    }

    fn works_on(&self, now: u64) -> Vec<Partition> {
        let all = ALL.into_iter();
        all.filter(|it| self.machine.may_work(*it, now)).collect()
    }
}

fn unavailable() -> Error {
    Error::Unavailable("as the test wants".to_owned())
}

#[test]
fn the_first_process_takes_everything_and_recovers_it() {
    let mut owner = Owner::started(&store());
    assert_eq!(owner.works_on(0), ALL);
    let recovered = ALL.map(|it| OwnershipEffect::Recover(it, After::Stop));
    assert_eq!(owner.told(), recovered);
}

#[test]
fn a_second_process_gets_half_once_the_first_has_released_it() {
    let store = store();
    let mut first = Owner::started(&store);
    let mut second = Owner::started(&store);
    first.told();
    assert_eq!(second.works_on(0), []);
    first.handle(OwnershipInput::Rung, 10);
    let released = [Partition(2), Partition(3)];
    assert_eq!(first.told(), released.map(OwnershipEffect::Release));
    // Nothing is appended from the moment that decides it, and nothing given before it is
    // released.
    assert_eq!(first.works_on(10), ALL[..2]);
    second.handle(OwnershipInput::Rung, 10);
    assert_eq!(second.works_on(10), []);
    first.handle(OwnershipInput::Released(Partition(2)), 20);
    second.handle(OwnershipInput::Rung, 20);
    assert_eq!(second.works_on(20), [Partition(2)]);
    // The other is given when its time is over.
    first.pass(1_009);
    second.handle(OwnershipInput::Rung, 1_009);
    assert_eq!(second.works_on(1_009), [Partition(2)]);
    first.pass(1_010);
    second.handle(OwnershipInput::Rung, 1_010);
    assert_eq!(second.works_on(1_010), released);
    assert_eq!(
        second.told(),
        released.map(|it| OwnershipEffect::Recover(it, After::Stop))
    );
}

#[test]
fn a_process_that_is_not_renewed_stops_before_its_session_expires() {
    let mut owner = Owner::started(&store());
    assert_eq!(owner.works_on(7_999), ALL);
    assert_eq!(owner.works_on(8_000), []);
    // The answer counts from when it was asked for, not from when it came.
    owner.machine.handle_deadline(3_000);
    assert!(matches!(
        owner.machine.poll_effect(),
        Some(OwnershipEffect::Renew(_))
    ));
    assert_eq!(owner.machine.next_deadline(), Some(10_000), "one at a time");
    owner.handle(OwnershipInput::Renewed(Ok(true)), 9_000);
    assert_eq!(owner.works_on(10_999), ALL, "it goes on with what it had");
    assert_eq!(owner.works_on(11_000), []);
}

#[test]
fn a_renewal_that_failed_is_repeated_soon() {
    let mut owner = Owner::started(&store());
    owner.machine.handle_deadline(3_000);
    owner.machine.poll_effect();
    owner.handle(OwnershipInput::Renewed(Err(unavailable())), 3_100);
    assert_eq!(owner.machine.next_deadline(), Some(3_600));
    owner.pass(3_600);
    assert_eq!(owner.works_on(11_599), ALL);
}

#[test]
fn a_process_whose_session_is_over_drops_everything_and_joins_again() {
    let store = store();
    let mut owner = Owner::started(&store);
    owner.told();
    let session = block_on(store.sessions()).unwrap()[0].session;
    block_on(store.leave(session)).unwrap();
    owner.pass(3_000);
    assert_eq!(owner.told()[0], OwnershipEffect::Forfeit);
    assert_eq!(owner.works_on(3_000), ALL, "taken anew");
    assert!(block_on(store.sessions()).unwrap()[0].session > session);
}

#[test]
fn a_list_without_the_own_session_means_that_it_is_over() {
    let store = store();
    let mut owner = Owner::started(&store);
    owner.told();
    let session = block_on(store.sessions()).unwrap()[0].session;
    block_on(store.leave(session)).unwrap();
    owner.handle(OwnershipInput::Rung, 100);
    assert_eq!(owner.told()[0], OwnershipEffect::Forfeit);
}

#[test]
fn what_a_dead_process_held_is_recovered_as_after_a_death() {
    let store = store();
    let time = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
    let clock = std::sync::Arc::clone(&time);
    store.set_lease_clock(move || clock.load(std::sync::atomic::Ordering::SeqCst));
    let dead = Owner::started(&store);
    drop(dead);
    let mut owner = Owner::started(&store);
    assert_eq!(owner.works_on(0), []);
    time.store(10_000, std::sync::atomic::Ordering::SeqCst);
    let mut owner_two = Owner::new(&store);
    owner_two.handle(OwnershipInput::Start, 10_000);
    let recovered = ALL.map(|it| OwnershipEffect::Recover(it, After::Death));
    assert_eq!(owner_two.told(), recovered);
    // The first one's session is over as well: it begins anew.
    owner.pass(10_000);
    assert_eq!(owner.told(), [], "it held nothing");
}

#[test]
fn a_process_that_stops_releases_everything_then_leaves() {
    let store = store();
    let mut owner = Owner::started(&store);
    owner.told();
    owner.handle(OwnershipInput::Stop, 100);
    assert_eq!(owner.told(), ALL.map(OwnershipEffect::Release));
    assert_eq!(owner.works_on(100), []);
    for partition in &ALL[..3] {
        owner.handle(OwnershipInput::Released(*partition), 200);
    }
    assert!(!owner.machine.is_over());
    owner.pass(1_100);
    assert!(owner.machine.is_over());
    assert!(block_on(store.sessions()).unwrap().is_empty());
    assert!(block_on(store.expired()).unwrap().is_empty(), "a clean end");
    assert_eq!(owner.machine.next_deadline(), None);
}

#[test]
fn lost_answers_to_taking_and_giving_are_made_good_by_the_list() {
    let store = store();
    let mut owner = Owner::new(&store);
    owner.machine.handle(OwnershipInput::Start, 0);
    // Everything is answered but the taking, which happens all the same.
    loop {
        match owner.machine.poll_effect() {
            Some(OwnershipEffect::Join { duration_ms }) => {
                let joined = block_on(store.join(&ProcessInfo::named("p"), duration_ms));
                owner.machine.handle(OwnershipInput::Joined(joined), 0);
            }
            Some(OwnershipEffect::ListSessions(id)) => {
                let listed = block_on(store.sessions());
                owner.machine.handle(OwnershipInput::Listed(id, listed), 0);
            }
            Some(OwnershipEffect::Take(id, partitions)) => {
                block_on(store.take(id, &partitions)).unwrap();
                break;
            }
            other => assert_eq!(other, Some(OwnershipEffect::Ring)),
        }
    }
    let session = block_on(store.sessions()).unwrap()[0].session;
    owner.handle(OwnershipInput::Taken(session, Err(unavailable())), 10);
    assert_eq!(owner.works_on(10), []);
    owner.handle(OwnershipInput::Rung, 20);
    assert_eq!(owner.works_on(20), ALL);
    // The other way round: the backend freed one, and the answer was lost.
    let other = block_on(store.join(&ProcessInfo::named("other"), 10_000))
        .unwrap()
        .session;
    block_on(store.give(session, &ALL[3..])).unwrap();
    block_on(store.take(other, &ALL[3..])).unwrap();
    owner.told();
    owner.handle(OwnershipInput::Rung, 30);
    assert!(owner.told().contains(&OwnershipEffect::Release(ALL[3])));
    assert!(!owner.machine.holds(ALL[3]));
}

/// The list was read before the partition was given, and answered after.
#[test]
fn a_list_from_before_a_partition_was_given_is_read_again() {
    let store = store();
    let mut owner = Owner::started(&store);
    let _other = Owner::started(&store);
    owner.handle(OwnershipInput::Rung, 10);
    owner.machine.handle(OwnershipInput::Rung, 20);
    let session = block_on(store.sessions()).unwrap()[0].session;
    let look = Some(OwnershipEffect::ListSessions(session));
    assert_eq!(owner.machine.poll_effect(), look);
    let old = block_on(store.sessions());
    owner.handle(OwnershipInput::Released(Partition(3)), 30);
    owner.told();
    owner.handle(OwnershipInput::Listed(session, old), 40);
    assert!(!owner.machine.holds(Partition(3)));
    assert_eq!(owner.told(), []);
}

#[test]
fn a_session_that_is_found_to_be_over_during_its_renewal_is_followed_by_one_other() {
    let store = store();
    let mut owner = Owner::started(&store);
    let session = block_on(store.sessions()).unwrap()[0].session;
    block_on(store.leave(session)).unwrap();
    owner.machine.handle_deadline(3_000);
    let renew = Some(OwnershipEffect::Renew(session));
    assert_eq!(owner.machine.poll_effect(), renew);
    owner.handle(OwnershipInput::Rung, 3_010);
    assert!(block_on(store.sessions()).unwrap().is_empty());
    owner.handle(OwnershipInput::Renewed(Ok(false)), 3_020);
    assert_eq!(block_on(store.sessions()).unwrap().len(), 1);
    assert_eq!(owner.works_on(3_020), ALL);
}

/// The partitions were taken for a session that is over when the answer comes.
#[test]
fn an_answer_to_a_session_that_is_over_counts_for_no_other() {
    let store = store();
    let mut owner = Owner::new(&store);
    owner.machine.handle(OwnershipInput::Start, 0);
    owner.machine.poll_effect();
    let first = block_on(store.join(&ProcessInfo::named("p"), 10_000)).unwrap();
    let joined = OwnershipInput::Joined(Ok(first));
    owner.machine.handle(joined, 0);
    let listed = block_on(store.sessions());
    let listed = OwnershipInput::Listed(first.session, listed);
    owner.machine.handle(listed, 0);
    let taken = block_on(store.take(first.session, &ALL)).unwrap();
    block_on(store.leave(first.session)).unwrap();
    while owner.machine.poll_effect().is_some() {}
    owner.pass(3_000);
    owner.told();
    owner.handle(OwnershipInput::Taken(first.session, Ok(taken)), 3_020);
    assert_eq!(owner.told(), []);
}

#[test]
fn held_partitions_are_looked_through_without_any_wake_up() {
    let mut owner = Owner::started(&store());
    owner.told();
    for now in [3_000, 6_000, 9_000, 10_000] {
        owner.pass(now);
    }
    assert_eq!(owner.told(), ALL.map(OwnershipEffect::Sweep));
}

#[test]
fn a_process_that_leaves_hands_everything_over_and_keeps_its_session() {
    let store = store();
    let mut owner = Owner::started(&store);
    let mut heir = Owner::started(&store);
    owner.told();
    assert!(!owner.machine.has_handed_over());
    owner.handle(OwnershipInput::HandOver, 10);
    assert_eq!(owner.told(), ALL.map(OwnershipEffect::Release));
    assert_eq!(owner.works_on(10), []);
    for partition in ALL {
        assert!(!owner.machine.has_handed_over());
        owner.handle(OwnershipInput::Released(partition), 20);
    }
    assert!(owner.machine.has_handed_over() && !owner.machine.is_over());
    // It says that it is no orchestrator any more, so that another takes all of it.
    let session = owner.machine.session(20).expect("it stays");
    let worker = ProcessInfo {
        roles: [Role::Worker].into_iter().collect(),
        ..ProcessInfo::named("p")
    };
    assert!(block_on(store.describe(session, &worker)).unwrap());
    heir.handle(OwnershipInput::Rung, 20);
    assert_eq!(heir.works_on(20), ALL);
    // It is renewed, and takes nothing.
    owner.pass(3_000);
    owner.handle(OwnershipInput::Rung, 3_000);
    assert_eq!(owner.machine.session(9_000), Some(session));
    assert_eq!(owner.works_on(3_000), []);
    owner.handle(OwnershipInput::Stop, 4_000);
    assert!(owner.machine.is_over());
    assert_eq!(block_on(store.sessions()).unwrap().len(), 1);
}
