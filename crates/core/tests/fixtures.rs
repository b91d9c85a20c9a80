//! The state machine plays the text fixtures: each is a statement of the contract
//! (semantics §2–§7, §10–§12), to be read like prose. `fixtures/README.md` describes them.
//! `UPDATE_FIXTURES=1` rewrites what each command leads to; review every line that it changes.

use windlass_test_support::fixture;

fn check(name: &str) {
    let expected = fixture::text(name);
    let actual = fixture::play(&expected);
    if std::env::var_os("UPDATE_FIXTURES").is_some() {
        std::fs::write(fixture::path(name), actual).expect("a writable fixture");
        return;
    }
    let difference = expected
        .lines()
        .zip(actual.lines())
        .enumerate()
        .find(|(_, (expected, actual))| expected != actual);
    if let Some((number, (expected, actual))) = difference {
        let line = number + 1;
        panic!("{name}.txt, line {line}:\n  expected: {expected}\n  actual:   {actual}");
    }
    assert_eq!(expected, actual, "{name}.txt ends differently");
}

macro_rules! fixtures {
    ($($name:ident),* $(,)?) => {
        $(
            #[test]
            fn $name() {
                check(stringify!($name));
            }
        )*

        #[test]
        fn every_file_is_run() {
            for name in fixture::names() {
                assert!([$(stringify!($name)),*].contains(&&*name), "{name} is not run");
            }
        }
    };
}

fixtures!(
    edges,
    joins,
    endings,
    causes,
    stopping,
    fail_fast,
    levels,
    attempts,
    reattempt,
    expressions,
    ancestry,
    loops,
    for_each,
    repeats,
    scopes,
    partial_joins,
    purging,
    waits,
    children,
    sagas,
    compensations,
    by_hand,
    reattempt_bodies,
    reuse,
    healing,
    rules,
    stored,
    requests
);
