//! Sealing, keys and the source of secrets, on a store in memory.

use std::sync::Arc;

use windlass_core::Millis;
use windlass_engine::{Backend, NoSecrets, SecretSource};
use windlass_store::{Hooks as _, MemoryStore, Secrets as _, TenantFilter, Wait as _, block_on};

use super::*;

const VALUE: &str = "correct horse battery staple";

struct World {
    store: Arc<MemoryStore>,
    keys: Arc<SecretKeys>,
    folder: tempfile::TempDir,
}

/// What the process's variables would be.
struct Variables;

impl SecretSource for Variables {
    fn secret(&self, name: &str) -> Option<String> {
        Some(format!("variable {name}"))
    }
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self {
            store: Arc::new(MemoryStore::new()),
            keys: Arc::new(SecretKeys::file(folder.path().join("secrets.key"))),
            folder,
        }
    }

    fn set(&self, tenant: Option<&str>, name: &str, value: &str) -> Result<bool, Failure> {
        block_on(set(
            &*self.store,
            &self.keys,
            tenant,
            name,
            value,
            Millis(1),
        ))
    }

    fn source(&self, keys: SecretKeys) -> StoredSecrets {
        let store = Arc::clone(&self.store) as Arc<dyn Backend>;
        StoredSecrets::new(store, Arc::new(keys), Arc::new(Variables))
    }

    fn again(&self) -> SecretKeys {
        SecretKeys::file(self.folder.path().join("secrets.key"))
    }
}

#[test]
fn a_secret_comes_out_as_it_went_in_and_is_stored_sealed() {
    let world = World::new();
    assert!(world.set(None, "API", VALUE).unwrap());
    let first = world.store.secret(None, "API").wait().unwrap().unwrap();
    assert!(!world.set(None, "API", VALUE).unwrap());
    let second = world.store.secret(None, "API").wait().unwrap().unwrap();
    assert_ne!(first, second, "each has a nonce of its own");
    for sealed in [first, second] {
        let words = VALUE.as_bytes();
        assert!(!sealed.windows(words.len()).any(|part| part == words));
    }
    let source = world.source(world.again());
    assert_eq!(source.secret("API").as_deref(), Some(VALUE));
}

#[test]
fn tenants_have_their_own_and_never_the_variables() {
    let world = World::new();
    world.set(Some("acme"), "API", "of acme").unwrap();
    world.set(Some("beta"), "API", "of beta").unwrap();
    let source = world.source(world.again());
    let of = |tenant, name| source.secret_of(tenant, name).wait().unwrap();
    assert_eq!(of(Some("acme"), "API").as_deref(), Some("of acme"));
    assert_eq!(of(Some("beta"), "API").as_deref(), Some("of beta"));
    assert_eq!(of(Some("nobody"), "API"), None);
    assert_eq!(of(Some("acme"), "OTHER"), None);
    assert_eq!(of(None, "API").as_deref(), Some("variable API"));
}

#[test]
fn a_secret_in_anothers_place_does_not_open() {
    let world = World::new();
    world.set(Some("acme"), "API", VALUE).unwrap();
    let sealed = world
        .store
        .secret(Some("acme"), "API")
        .wait()
        .unwrap()
        .unwrap();
    let source = world.source(world.again());
    for (tenant, name) in [(None, "API"), (Some("beta"), "API"), (Some("acme"), "KEY")] {
        block_on(
            world
                .store
                .put_secret(tenant, name, sealed.clone(), Millis(1)),
        )
        .unwrap();
        let error = source.secret_of(tenant, name).wait().unwrap_err();
        assert!(error.message.contains("cannot be read"), "{error:?}");
        assert!(!error.retriable);
    }
}

#[test]
fn every_damaged_byte_and_length_and_a_wrong_key_are_errors() {
    let world = World::new();
    world.set(None, "API", VALUE).unwrap();
    let sealed = world.store.secret(None, "API").wait().unwrap().unwrap();
    let put = |sealed: Vec<u8>| {
        block_on(world.store.put_secret(None, "API", sealed, Millis(1))).unwrap();
    };
    let source = world.source(world.again());
    for at in 0..sealed.len() {
        let mut changed = sealed.clone();
        changed[at] ^= 1;
        put(changed);
        assert!(source.secret_of(None, "API").wait().is_err(), "byte {at}");
        put(sealed[..at].to_vec());
        assert!(source.secret_of(None, "API").wait().is_err(), "length {at}");
    }
    put(sealed);
    assert!(source.secret_of(None, "API").wait().unwrap().is_some());
    let other = SecretKeys::given("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=").unwrap();
    assert!(world.source(other).secret_of(None, "API").wait().is_err());
    let missing = SecretKeys::file(world.folder.path().join("elsewhere.key"));
    assert!(world.source(missing).secret_of(None, "API").wait().is_err());
    let folder = SecretKeys::file(world.folder.path());
    assert!(world.source(folder).secret_of(None, "API").wait().is_err());
}

#[test]
fn the_key_is_made_once_for_its_owner_alone() {
    let world = World::new();
    let path = world.folder.path().join("secrets.key");
    assert!(!path.exists());
    world.set(None, "A", VALUE).unwrap();
    let key = std::fs::read(&path).unwrap();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    world.set(None, "B", VALUE).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), key);
    let left: Vec<_> = std::fs::read_dir(world.folder.path()).unwrap().collect();
    assert_eq!(left.len(), 1, "nothing unfinished stays: {left:?}");
    // Another key is not made while there is something that the old one sealed.
    std::fs::remove_file(&path).unwrap();
    let store = &*world.store;
    let failure = block_on(set(store, &world.again(), None, "C", VALUE, Millis(1))).unwrap_err();
    assert_eq!(failure.code(), "SECRET_KEY_UNUSABLE");
    assert!(!path.exists());
    assert_eq!(
        store
            .secrets(&TenantFilter::Any, None, 99)
            .wait()
            .unwrap()
            .len(),
        2
    );
}

#[test]
fn limits_hold_at_their_edge() {
    let world = World::new();
    let name = "n".repeat(NAME_LIMIT);
    let value = "v".repeat(VALUE_LIMIT_BYTES);
    world.set(None, &name, &value).unwrap();
    assert_eq!(world.source(world.again()).secret(&name), Some(value));
    let code = |name: &str, value: &str| world.set(None, name, value).unwrap_err().code();
    let longer = "n".repeat(NAME_LIMIT + 1);
    for bad in [&*longer, "", "a b", "a/b", "ä", "a.b", "a\0"] {
        assert_eq!(code(bad, "v"), "SECRET_INVALID", "{bad}");
    }
    assert_eq!(code("A", ""), "SECRET_INVALID");
    let larger = "v".repeat(VALUE_LIMIT_BYTES + 1);
    assert_eq!(code("A", &larger), "SECRET_TOO_LARGE");
    assert_eq!(
        world
            .store
            .secrets(&TenantFilter::Any, None, 99)
            .wait()
            .unwrap()
            .len(),
        1
    );
}

#[test]
fn keys_that_are_none_are_refused_and_do_not_show_themselves() {
    for bad in ["", "short", "AAAA", "!!!!"] {
        let failure = SecretKeys::given(bad).unwrap_err();
        assert_eq!(failure.code(), "SECRET_KEY_UNUSABLE");
    }
    let text = "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVphYmNkZWY=";
    let keys = SecretKeys::given(text).unwrap();
    let shown = format!("{keys:?}");
    assert!(!shown.contains("QUJD") && !shown.contains("ABCD") && !shown.contains("65"));
}

#[test]
fn a_secret_is_removed_once() {
    let world = World::new();
    world.set(None, "API", VALUE).unwrap();
    block_on(remove(&*world.store, &world.keys, None, "API")).unwrap();
    let failure = block_on(remove(&*world.store, &world.keys, None, "API")).unwrap_err();
    assert_eq!(failure.code(), "SECRET_NOT_FOUND");
    let store = Arc::clone(&world.store) as Arc<dyn Backend>;
    let nothing = StoredSecrets::new(store, Arc::clone(&world.keys), Arc::new(NoSecrets));
    assert_eq!(nothing.secret("API"), None);
}

/// Everything that is sealed, as it is stored.
fn stored(world: &World) -> Vec<Vec<u8>> {
    let store = &*world.store;
    let mut all: Vec<Vec<u8>> = Vec::new();
    for row in store.secrets(&TenantFilter::Any, None, 99).wait().unwrap() {
        all.extend(
            store
                .secret(row.tenant.as_deref(), &row.name)
                .wait()
                .unwrap(),
        );
    }
    let hooks = store.hooks(&TenantFilter::Any, None, 99).wait().unwrap();
    all.extend(
        hooks
            .into_iter()
            .map(|hook| hook.secret.to_string().into_bytes()),
    );
    all
}

fn hook(world: &World, id: &str) -> MadeHook {
    let making = make_hook(&*world.store, &world.keys, None, (id, "w"), Millis(1));
    block_on(making).unwrap()
}

#[test]
fn what_hooks_are_signed_with_is_sealed() {
    let world = World::new();
    let made = hook(&world, "orders");
    let found = world
        .store
        .hook_of(&made.hook.token)
        .wait()
        .unwrap()
        .unwrap();
    assert!(!found.secret.contains(&made.secret));
    assert_eq!(open_hook(&world.again(), &found).unwrap(), made.secret);
    // Under another name, or another's, it opens nothing.
    for (id, tenant) in [("other", None), ("orders", Some("acme"))] {
        let moved = windlass_store::Hook {
            id: id.into(),
            tenant: tenant.map(Into::into),
            ..found.clone()
        };
        assert!(open_hook(&world.keys, &moved).is_err());
    }
    // One from before they were sealed works, and is sealed.
    let old = windlass_store::Hook {
        id: "old".into(),
        token: windlass_core::Digest::of(b"old"),
        secret: "plain".into(),
        ..found
    };
    assert!(block_on(world.store.put_hook(old.clone(), 9)).unwrap());
    assert_eq!(open_hook(&world.keys, &old).unwrap(), "plain");
    assert_eq!(block_on(seal_hooks(&*world.store, &world.keys)).unwrap(), 1);
    let sealed = world.store.hook_of(&old.token).wait().unwrap().unwrap();
    assert!(!sealed.secret.contains("plain"));
    assert_eq!(open_hook(&world.keys, &sealed).unwrap(), "plain");
    assert_eq!(block_on(seal_hooks(&*world.store, &world.keys)).unwrap(), 0);
    for bad in ["", "a b", "ä"] {
        let making = make_hook(&*world.store, &world.keys, None, (bad, "w"), Millis(1));
        assert_eq!(block_on(making).err().unwrap().code(), "HOOK_INVALID");
    }
}

#[test]
fn a_new_key_opens_everything_and_the_old_one_nothing() {
    let world = World::new();
    world.set(None, "A", VALUE).unwrap();
    world.set(Some("acme"), "A", "another").unwrap();
    let made = hook(&world, "orders");
    let old = std::fs::read_to_string(world.folder.path().join("secrets.key")).unwrap();
    let before = stored(&world);
    let rotated = block_on(rotate(&*world.store, &world.keys)).unwrap();
    assert_eq!((rotated.secrets, rotated.hooks), (2, 1));
    for (was, is) in before.iter().zip(stored(&world)) {
        assert_ne!(*was, is);
    }
    let key = std::fs::read_to_string(world.folder.path().join("secrets.key")).unwrap();
    assert_ne!(key, old);
    assert_eq!(key.lines().count(), 1);
    // A process that has the key in memory, and one that reads it anew.
    for keys in [Arc::clone(&world.keys), Arc::new(world.again())] {
        let store = Arc::clone(&world.store) as Arc<dyn Backend>;
        let source = StoredSecrets::new(store, Arc::clone(&keys), Arc::new(NoSecrets));
        assert_eq!(source.secret("A").as_deref(), Some(VALUE));
        let theirs = source.secret_of(Some("acme"), "A").wait().unwrap();
        assert_eq!(theirs.as_deref(), Some("another"));
        let found = world
            .store
            .hook_of(&made.hook.token)
            .wait()
            .unwrap()
            .unwrap();
        assert_eq!(open_hook(&keys, &found).unwrap(), made.secret);
    }
    let with_old = world.source(SecretKeys::given(old.trim()).unwrap());
    assert!(with_old.secret_of(None, "A").wait().is_err());
}

/// Wherever a change of keys breaks off, everything can be opened, and the next try ends it.
#[test]
fn a_change_of_keys_that_broke_off_is_ended_by_the_next() {
    let world = World::new();
    world.set(None, "A", VALUE).unwrap();
    world.set(None, "B", "other").unwrap();
    let made = hook(&world, "orders");
    // The new key is in the file, and one of three is sealed with it.
    let ring = world.keys.begin_change().unwrap();
    let sealed = seal::seal(&ring, None, "A", VALUE).unwrap();
    block_on(world.store.put_secret(None, "A", sealed, Millis(1))).unwrap();
    let found = || {
        world
            .store
            .hook_of(&made.hook.token)
            .wait()
            .unwrap()
            .unwrap()
    };
    let opens = || {
        let source = world.source(world.again());
        assert_eq!(source.secret("A").as_deref(), Some(VALUE));
        assert_eq!(source.secret("B").as_deref(), Some("other"));
        assert_eq!(open_hook(&world.again(), &found()).unwrap(), made.secret);
    };
    opens();
    let rotated = block_on(rotate(&*world.store, &world.again())).unwrap();
    assert_eq!((rotated.secrets, rotated.hooks), (1, 1));
    opens();
    // A value that no key opens keeps the old key alive.
    block_on(
        world
            .store
            .put_secret(None, "C", b"nonsense".to_vec(), Millis(1)),
    )
    .unwrap();
    let failure = block_on(rotate(&*world.store, &world.again())).unwrap_err();
    assert!(failure.message.contains("'C'"), "{}", failure.message);
    opens();
    let key = std::fs::read_to_string(world.folder.path().join("secrets.key")).unwrap();
    assert_eq!(key.lines().count(), 2);
    block_on(remove(&*world.store, &world.keys, None, "C")).unwrap();
    block_on(rotate(&*world.store, &world.again())).unwrap();
    opens();
}

#[test]
fn a_key_that_is_not_there_cannot_be_changed() {
    let world = World::new();
    let failure = block_on(rotate(&*world.store, &world.keys)).unwrap_err();
    assert_eq!(failure.code(), "SECRET_KEY_MISSING");
}

#[test]
fn a_given_key_is_changed_by_giving_both() {
    let (old, new) = (
        "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVphYmNkZWY=",
        "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
    );
    let world = World::new();
    let keys = SecretKeys::given(old).unwrap();
    block_on(set(&*world.store, &keys, None, "A", VALUE, Millis(1))).unwrap();
    let failure = block_on(rotate(&*world.store, &keys)).unwrap_err();
    assert_eq!(failure.code(), "SECRET_KEY_UNUSABLE");
    let both = SecretKeys::given(&format!("{new} {old}")).unwrap();
    assert_eq!(block_on(rotate(&*world.store, &both)).unwrap().secrets, 1);
    let source = world.source(SecretKeys::given(new).unwrap());
    assert_eq!(source.secret("A").as_deref(), Some(VALUE));
}

#[test]
fn the_shared_key_is_the_first_that_was_seen_until_it_is_changed() {
    let world = World::new();
    let (old, new) = (
        "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
        "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=",
    );
    let given = |text: &str| SecretKeys::given(text).unwrap();
    let check = |keys: &SecretKeys, reads| block_on(check_shared_key(&*world.store, keys, reads));
    let none = SecretKeys::shared(None);
    check(&none, true).expect("there is no key to compare with");
    check(&given(old), true).expect("it is the first");
    check(&given(old), false).expect("it is the same");
    check(&none, false).expect("it reads no secret");
    for (keys, reads) in [(&none, true), (&given(new), true), (&given(new), false)] {
        let refused = check(keys, reads).expect_err("it is not the key");
        assert_eq!(refused.kind, FailureKind::SecretKeyUnusable);
    }
    let both = given(&format!("{new} {old}"));
    check(&both, true).expect("the old one is among them");
    block_on(rotate(&*world.store, &both)).expect("a new key");
    check(&given(new), true).expect("it is the key now");
    check(&given(old), true).expect_err("it is not the key any more");
}

#[test]
fn the_first_shared_key_opens_what_was_sealed_before() {
    let world = World::new();
    world.set(Some("t"), "API", VALUE).expect("it is set");
    let other = SecretKeys::given("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=").unwrap();
    let check = |keys: &SecretKeys| block_on(check_shared_key(&*world.store, keys, true));
    check(&other).expect_err("it opens nothing");
    check(&world.again()).expect("it sealed the secret");
}
