//! What only this backend promises: a commit whose answer is lost is neither doubled nor dropped,
//! racing processes leave no gap, one bad append does not take the others with it, and
//! connections come back.

use std::time::Duration;

use crate::common::{open, schema, settings, sql, value};
use windlass_core::{Digest, Millis};
use windlass_store::conformance::{must_append, record, row, run_id};
use windlass_store::{
    Append, AppendError, Bell, Blob, Blobs as _, Catalogue as _, Claim, DeadLetter,
    DeadLetters as _, Error, Head, Log, NewDefinition, Partition, Projections as _, Queries as _,
    RunRow, Wait as _, Wakes as _, WriterId, block_on, checksum,
};
use windlass_store_postgres::{PostgresStore, Settings};
use windlass_test_support::postgres::{Proxy, server};

fn one(store: &PostgresStore, append: Append) -> Result<Head, AppendError> {
    let mut answers = block_on(store.append(vec![append]));
    assert_eq!(answers.len(), 1);
    answers.remove(0).map(|appended| appended.head)
}

/// A store behind a proxy, with one writer, which is connected.
fn behind(proxy: &Proxy) -> PostgresStore {
    let url = server().at(proxy.address());
    let settings = Settings::parse(&url).unwrap().writers(1).pool(1);
    let settings = settings.answer_time(Duration::from_secs(5));
    PostgresStore::open(&settings).unwrap()
}

#[test]
fn a_commit_whose_answer_is_lost_is_neither_doubled_nor_dropped() {
    let proxy = Proxy::to(&server().address());
    let store = behind(&proxy);
    let run = run_id(1);
    let head = must_append(&store, record(run, Head::NONE, 1, b"first"));
    // The statement is prepared, so that nothing but its answer is missing below.
    let mut head = must_append(&store, record(run, head, 2, b"second"));
    let mut written = 0;
    let given = std::env::var("WINDLASS_FAULTS").ok();
    let faults: u64 = given.map_or(18, |text| text.parse().unwrap());
    for n in 3..3 + faults {
        let append = record(run, head, n, b"next");
        let expected = checksum::next_head(&append);
        proxy.drop_answers(true);
        let before = proxy.dropped();
        let answer = one(&store, append);
        proxy.drop_answers(false);
        assert!(proxy.dropped() > before, "an answer was on its way");
        let Err(AppendError::Unknown {
            append: Some(back), ..
        }) = answer
        else {
            panic!("without an answer the outcome is unknown, not {answer:?}");
        };
        // The cut came after the commit or before it; the same append settles that.
        let found = store.head(run).wait().unwrap();
        assert!(
            found == expected || found == head,
            "nothing else was written"
        );
        match one(&store, *back) {
            Ok(made) => assert_eq!(made, expected),
            Err(AppendError::Conflict(found)) => {
                assert_eq!(found, expected, "the head is the one that the record makes");
                written += 1;
            }
            other => panic!("it is written once: {other:?}"),
        }
        head = expected;
    }
    let records = store.read(run, 1, usize::MAX).wait().unwrap();
    assert_eq!(records.len() as u64, 2 + faults);
    assert!(written > 0, "some were committed without an answer");
    println!("figure answers-lost {faults}");
}

#[test]
fn without_a_database_nothing_is_written_and_everything_resumes() {
    let proxy = Proxy::to(&server().address());
    let store = behind(&proxy);
    let run = run_id(1);
    let head = must_append(&store, record(run, Head::NONE, 1, b"first"));
    proxy.refuse(true);
    proxy.cut();
    let mut next = record(run, head, 2, b"next");
    // The first may have been on its way; after that there is no connection to send on.
    let refused = loop {
        match one(&store, next) {
            Err(AppendError::Unknown { append, .. }) => next = *append.unwrap(),
            other => break other,
        }
    };
    let Err(AppendError::Failed(Error::Unavailable(text))) = refused else {
        panic!("nothing was written: {refused:?}");
    };
    assert!(text.contains("cannot be reached"), "{text}");
    assert!(matches!(store.head(run).wait(), Err(Error::Unavailable(_))));
    proxy.refuse(false);
    assert_eq!(store.head(run).wait().unwrap(), head);
    let head = must_append(&store, record(run, head, 2, b"next"));
    assert_eq!(store.head(run).wait().unwrap(), head);
}

#[test]
fn racing_writers_leave_no_gap() {
    let settings = settings();
    let (runs, rounds) = (6u64, 40u64);
    let threads = (0..4u64).map(|writer| {
        let settings = settings.clone();
        std::thread::spawn(move || {
            let store = PostgresStore::open(&settings).unwrap();
            let mut heads = vec![Head::NONE; runs as usize];
            let mut wins = 0u64;
            for round in 0..rounds {
                let batch = (0..runs).map(|n| Append {
                    writer: WriterId(writer),
                    row: Some(row(run_id(n))),
                    claims: vec![Claim {
                        namespace: "race",
                        key: format!("{round}/{n}").into(),
                        value: vec![writer as u8],
                    }],
                    ..record(
                        run_id(n),
                        heads[n as usize],
                        writer * 1000 + round,
                        b"raced",
                    )
                });
                // Each process sends its batch in an order of its own.
                let mut batch: Vec<Append> = batch.collect();
                batch.rotate_left((writer as usize + round as usize) % runs as usize);
                let order: Vec<usize> = batch
                    .iter()
                    .map(|append| (0..runs).position(|n| run_id(n) == append.run).unwrap())
                    .collect();
                for (at, answer) in order.into_iter().zip(block_on(store.append(batch))) {
                    match answer {
                        Ok(appended) => {
                            wins += 1;
                            heads[at] = appended.head;
                        }
                        Err(AppendError::Conflict(head)) => heads[at] = head,
                        Err(AppendError::Held { .. }) => {}
                        Err(other) => panic!("{other:?}"),
                    }
                }
            }
            wins
        })
    });
    let threads: Vec<_> = threads.collect();
    let wins: u64 = threads.into_iter().map(|it| it.join().unwrap()).sum();
    let store = PostgresStore::open(&settings).unwrap();
    let mut records = 0;
    for n in 0..runs {
        let log = store.read(run_id(n), 1, usize::MAX).wait().unwrap();
        assert_eq!(
            log.last().unwrap().head(),
            store.head(run_id(n)).wait().unwrap()
        );
        records += log.len() as u64;
    }
    assert_eq!(
        wins, records,
        "every win is a record, and every record a win"
    );
    assert!(wins >= runs, "every run was begun by one of them");
}

#[test]
fn one_bad_append_fails_alone() {
    let url = server().fresh();
    let store = PostgresStore::open(&Settings::parse(&url).unwrap().pool(1)).unwrap();
    let schema = schema(&url);
    sql(&format!(
        "create function {schema}.refuse() returns trigger language plpgsql as $$ begin \
         if new.body = 'poison' then raise exception 'poison'; end if; return new; end $$; \
         create trigger refuse before insert on {schema}.record for each row \
         execute function {schema}.refuse()"
    ));
    let batch = (0..33u64).map(|n| {
        let bytes: &[u8] = if n == 20 { b"poison" } else { b"good" };
        record(run_id(n), Head::NONE, n, bytes)
    });
    let answers = block_on(store.append(batch.collect()));
    for (n, answer) in answers.iter().enumerate() {
        match answer {
            Err(AppendError::Failed(Error::Unavailable(text))) if n == 20 => {
                assert!(text.contains("poison"), "{text}");
            }
            Ok(_) if n != 20 => {}
            other => panic!("append {n}: {other:?}"),
        }
    }
    assert_eq!(store.logged_runs(None, 100).wait().unwrap().len(), 32);
}

#[test]
fn a_row_that_another_program_locks_fails_its_own_append_alone() {
    let url = server().fresh();
    let store = PostgresStore::open(&Settings::parse(&url).unwrap().pool(1)).unwrap();
    let schema = schema(&url).to_owned();
    let locked = one(&store, record(run_id(1), Head::NONE, 1, b"first")).unwrap();
    let free = one(&store, record(run_id(2), Head::NONE, 2, b"first")).unwrap();
    let id = run_id(1);
    let hold = format!(
        "begin; select from {schema}.head where run = '{id}' for update; select pg_sleep(60)"
    );
    // It ends when its connection is ended below.
    let holder = std::thread::spawn(move || sql(&hold));
    let held = format!(
        "select count(*) from pg_stat_activity where state = 'active' \
         and query like '%{schema}.head%' and query not like '%pg_stat_activity%' \
         and wait_event = 'PgSleep'"
    );
    while value(&held) == "0" {
        std::thread::yield_now();
    }
    let batch = vec![
        record(run_id(1), locked, 3, b"second"),
        record(run_id(2), free, 4, b"second"),
    ];
    let answers = block_on(store.append(batch));
    sql(&format!(
        "select pg_terminate_backend(pid) from pg_stat_activity \
         where query like '%{schema}.head%' and wait_event = 'PgSleep'"
    ));
    assert!(holder.join().is_err(), "its connection was ended");
    assert!(
        matches!(&answers[0], Err(AppendError::Failed(Error::Timeout(_)))),
        "{answers:?}"
    );
    assert!(answers[1].is_ok(), "{answers:?}");
    one(&store, record(run_id(1), locked, 5, b"second")).unwrap();
}

#[test]
fn what_jsonb_refuses_is_never_in_the_way() {
    let url = server().fresh();
    let store = PostgresStore::open(&Settings::parse(&url).unwrap().pool(1)).unwrap();
    let odd = "null \0, sign \u{2400} and \u{2400}.";
    let full = RunRow {
        tenant: Some(odd.into()),
        workflow: odd.into(),
        request_id: odd.into(),
        labels: [(odd.into(), odd.into())].into(),
        error_code: Some(odd.into()),
        error_message: Some(odd.into()),
        gate: Some(odd.into()),
        ..row(run_id(1))
    };
    let append = Append {
        row: Some(full.clone()),
        ..record(run_id(1), Head::NONE, 1, b"odd")
    };
    must_append(&store, append);
    assert_eq!(store.run(run_id(1)).wait().unwrap(), Some(full));
    let texts = [
        r#"{"a":"\u0000"}"#,
        r#"["\ud800"]"#,
        "[1e999999]",
        r#"{"plain":1}"#,
    ];
    for (text, version) in texts.into_iter().zip(1..) {
        let new = NewDefinition {
            tenant: None,
            workflow: "odd".into(),
            display_name: None,
            digest: Digest::of(text.as_bytes()),
            text: text.as_bytes().into(),
            signature: Digest::of(b""),
            at: Millis(1),
        };
        assert_eq!(store.publish(new).wait().unwrap().version, version);
        let stored = store.definition(None, "odd", None).wait().unwrap().unwrap();
        assert_eq!(stored.text, text.as_bytes());
    }
    let schema = schema(&url);
    let shown = |version: u32| {
        value(&format!(
            "select definition_json from {schema}.workflow_definitions where version = {version}"
        ))
    };
    assert!(shown(1).contains("$reference") && shown(3).contains("$reference"));
    assert_eq!(shown(4), r#"{"plain": 1}"#);
    let read = value(&format!("select {schema}.definition_text('', 'odd', 1)"));
    assert_eq!(read, texts[0], "a reader gets the text by a function");
    let letter = DeadLetter {
        run: run_id(1),
        tenant: None,
        workflow: "odd".into(),
        reason: odd.into(),
        payload: b"\xff no json".to_vec(),
        deliveries: 1,
        at: Millis(1),
        damage: None,
    };
    store.add_dead_letter(letter.clone()).wait().unwrap();
    assert_eq!(store.dead_letter(run_id(1)).wait().unwrap(), Some(letter));
}

#[test]
fn values_and_definitions_of_a_newer_form_are_refused_by_name_and_kept() {
    let url = server().fresh();
    let store = PostgresStore::open(&Settings::parse(&url).unwrap().pool(1)).unwrap();
    let schema = schema(&url);
    let blob = |bytes: &[u8]| Blob {
        digest: Digest::of(bytes),
        bytes: bytes.into(),
    };
    // Each way on which a value is stored.
    let appended = Append {
        blobs: vec![blob(b"appended")],
        uses: vec![Digest::of(b"appended")],
        ..record(run_id(1), Head::NONE, 1, b"uses")
    };
    must_append(&store, appended);
    store.put_blob(blob(b"put")).wait().unwrap();
    store.hold_blob(blob(b"held")).wait().unwrap();
    let new = NewDefinition {
        tenant: None,
        workflow: "w".into(),
        display_name: None,
        digest: Digest::of(b"{}"),
        text: b"{}"[..].into(),
        signature: Digest::of(b""),
        at: Millis(1),
    };
    store.publish(new).wait().unwrap();
    let too_new = |error: Error| {
        let Error::TooNew(text) = error else {
            panic!("not {error}");
        };
        assert!(text.contains("envelope version 2"), "{text}");
    };
    let set = |envelope: u16| {
        sql(&format!(
            "update {schema}.blob set envelope = {envelope}; \
             update {schema}.workflow_definitions set envelope = {envelope}"
        ));
    };
    set(2);
    for bytes in [&b"appended"[..], b"put", b"held"] {
        too_new(store.blob(&Digest::of(bytes)).wait().unwrap_err());
    }
    too_new(store.definition(None, "w", None).wait().unwrap_err());
    assert_eq!(store.versions(None, "w").wait().unwrap().len(), 1);
    // The projector leaves it to a newer program, and does not look at it again and again.
    assert!(store.unplanned(9).wait().unwrap().is_empty());
    assert!(!store.look("me", 1000).wait().unwrap().definitions);
    set(1);
    for bytes in [&b"appended"[..], b"put", b"held"] {
        assert_eq!(
            store.blob(&Digest::of(bytes)).wait().unwrap().unwrap(),
            bytes
        );
    }
    assert_eq!(
        store
            .definition(None, "w", None)
            .wait()
            .unwrap()
            .unwrap()
            .text,
        b"{}"
    );
    assert_eq!(store.unplanned(9).wait().unwrap().len(), 1);
}

#[test]
fn a_claim_that_names_the_run_is_its_own() {
    let url = server().fresh();
    let store = PostgresStore::open(&Settings::parse(&url).unwrap().pool(1)).unwrap();
    let run = run_id(1);
    let schema = schema(&url);
    sql(&format!(
        "insert into {schema}.claim values ('request', 'r', convert_to('{run}', 'UTF8'))"
    ));
    let claiming = |n: u64| Append {
        claims: vec![Claim {
            namespace: "request",
            key: "r".into(),
            value: run_id(n).to_string().into_bytes(),
        }],
        ..record(run_id(n), Head::NONE, n, b"claims")
    };
    let refused = one(&store, claiming(2));
    assert!(
        matches!(refused, Err(AppendError::Held { .. })),
        "{refused:?}"
    );
    assert!(one(&store, claiming(1)).is_ok());
}

/// Any role of the database can notify the channel of bells, whose name follows from the schema's.
#[test]
fn an_outcome_that_another_role_notifies_is_not_believed() {
    let url = server().fresh();
    let store = PostgresStore::open(&Settings::parse(&url).unwrap().pool(2)).unwrap();
    let mut listener = store.listen().wait().unwrap();
    let run = run_id(1);
    let bell = [Bell::Offered(Partition(0), run)];
    let notify = |channel: &str| {
        sql(&format!(
            "select pg_notify('{channel}', 'o0.{run}.outcome/1/1/1.7b7d')"
        ));
    };
    let schema = schema(&url);
    notify(&format!("windlass_{schema}"));
    assert_eq!(listener.hear().wait().unwrap(), bell);
    assert!(listener.brought().is_empty(), "the run's inbox is read");
    // The name of the channel of outcomes stands where only the program's role reads it.
    let items = format!("select value from {schema}.windlass_meta where key = 'items_channel'");
    notify(&value(&items));
    assert_eq!(listener.hear().wait().unwrap(), bell);
    let brought = listener.brought();
    assert_eq!((brought.len(), &*brought[0].1.bytes), (1, &b"{}"[..]));
}

#[test]
fn a_lost_connection_for_notifications_is_told_and_comes_back() {
    let proxy = Proxy::to(&server().address());
    let store = behind(&proxy);
    let mut listener = store.listen().wait().unwrap();
    store.ring(&[Bell::Work]).wait().unwrap();
    assert_eq!(listener.hear().wait().unwrap(), [Bell::Work]);
    proxy.cut();
    assert!(listener.hear().wait().is_err(), "bells may have been lost");
    // The next listener begins when notifications are delivered again.
    let mut second = loop {
        match store.listen().wait() {
            Ok(second) => break second,
            Err(_) => std::thread::yield_now(),
        }
    };
    while store.ring(&[Bell::Sessions]).wait().is_err() {}
    assert_eq!(second.hear().wait().unwrap(), [Bell::Sessions]);
    let heard = loop {
        if let Ok(heard) = listener.hear().wait() {
            break heard;
        }
    };
    assert_eq!(heard, [Bell::Sessions], "the first one hears again, too");
}

#[test]
fn values_of_one_batch_are_stored_once_and_for_the_winners() {
    let store = open();
    let blob = |text: &str| Blob {
        digest: Digest::of(text.as_bytes()),
        bytes: text.as_bytes().into(),
    };
    must_append(&store, record(run_id(9), Head::NONE, 1, b"there"));
    let with = |n: u64, blobs: Vec<Blob>| Append {
        blobs,
        ..record(run_id(n), Head::NONE, 2, b"with values")
    };
    let batch = vec![
        with(1, vec![blob("shared"), blob("shared")]),
        with(2, vec![blob("shared")]),
        with(9, vec![blob("of the loser")]),
    ];
    let answers = block_on(store.append(batch));
    assert!(answers[0].is_ok() && answers[1].is_ok());
    assert!(matches!(answers[2], Err(AppendError::Conflict(_))));
    use windlass_store::{Blobs as _, Retention as _};
    let there = |text: &str| store.blob(&blob(text).digest).wait().unwrap().is_some();
    assert!(there("shared") && !there("of the loser"));
    let uses = |n| {
        store
            .uses(run_id(n), &blob("shared").digest)
            .wait()
            .unwrap()
    };
    assert!(uses(1) && uses(2) && !uses(9));
}

#[test]
fn a_server_without_tls_is_refused_if_tls_is_required() {
    let url = format!("{}?sslmode=require", server().url());
    let refused = PostgresStore::open(&Settings::parse(&url).unwrap());
    let text = refused.unwrap_err().to_string();
    assert!(text.contains("TLS") && text.contains("sslmode"), "{text}");
}

#[test]
fn a_caller_may_block_on_answers_inside_a_task() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(async {
        let store = PostgresStore::connect(&settings()).await.unwrap();
        let mut head = Head::NONE;
        // More than tokio lets one task receive before it yields.
        for n in 0..300u64 {
            head = must_append(&store, record(run_id(1), head, n, b"blocked on"));
            assert_eq!(store.head(run_id(1)).wait().unwrap(), head);
        }
        let mut listener = store.listen().wait().unwrap();
        for _ in 0..200 {
            store.ring(&[Bell::Work]).wait().unwrap();
            assert_eq!(listener.hear().wait().unwrap(), [Bell::Work]);
        }
    });
}

#[test]
fn entries_of_many_callers_share_turns_and_leave_no_gap() {
    use windlass_store::{Audit as _, AuditEntry, TenantFilter};
    let store = open();
    let entry = |n: u64| AuditEntry {
        at: Millis(1_700_000_000_000),
        tenant: None,
        by: format!("caller {n}").into(),
        from: "here".into(),
        what: "start".into(),
        target: "run".into(),
        detail: "".into(),
        damage: None,
    };
    let callers = (0..40u64).map(|n| {
        let store = store.clone();
        std::thread::spawn(move || store.note(vec![entry(n), entry(n)]).wait().unwrap())
    });
    for caller in callers.collect::<Vec<_>>() {
        caller.join().unwrap();
    }
    let all = store.audit(&TenantFilter::Any, None, 100).wait().unwrap();
    let numbers: Vec<u64> = all.iter().rev().map(|(number, _)| *number).collect();
    assert_eq!(numbers, (1..=80).collect::<Vec<_>>());
    for pair in all.chunks(2) {
        assert_eq!(
            pair[0].1.by, pair[1].1.by,
            "the entries of a caller are together"
        );
    }
}

/// Lets no statement write to a table until the returned value is dropped.
fn locked(url: &str, table: &str) -> std::sync::mpsc::Sender<()> {
    let (unlock, unlocked) = std::sync::mpsc::channel::<()>();
    let (ready, begun) = std::sync::mpsc::channel();
    let lock = format!("lock table {}.{table} in exclusive mode", schema(url));
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let connected = tokio_postgres::connect(server().url(), tokio_postgres::NoTls).await;
            let (mut client, connection) = connected.unwrap();
            tokio::spawn(connection);
            let work = client.transaction().await.unwrap();
            work.batch_execute(&lock).await.unwrap();
            ready.send(()).unwrap();
            let _ = unlocked.recv();
            work.commit().await.unwrap();
        });
    });
    begun.recv().unwrap();
    unlock
}

/// In how many transactions the rows of a table were written.
fn transactions(url: &str, table: &str) -> usize {
    let count = format!(
        "select count(distinct xmin::text) from {}.{table}",
        schema(url)
    );
    value(&count).parse().unwrap()
}

#[test]
fn calls_of_many_callers_share_statements_and_each_gets_its_own_answer() {
    use windlass_store::conformance::inbox::offer_of;
    use windlass_store::{Inbox as _, WorkItem, WorkKey, WorkQueue as _};
    let url = server().fresh();
    let store = PostgresStore::open(&Settings::parse(&url).unwrap().pool(4)).unwrap();
    let unlock = locked(&url, "inbox");
    let offers = (0..100u64).map(|n| {
        let key = format!("k{}", n % 50);
        store.offer(vec![offer_of(run_id(1), &key, b"x")])
    });
    let offers: Vec<_> = offers.collect();
    drop(unlock);
    let answers = windlass_store::block_on(futures_util::future::join_all(offers));
    let first: Vec<bool> = answers.into_iter().map(|it| it.unwrap()[0]).collect();
    assert_eq!(first.iter().filter(|first| **first).count(), 50);
    let all = transactions(&url, "inbox");
    assert!(all <= 4, "two that begin at once, then the rest: {all}");
    let unlock = locked(&url, "work");
    let item = |n: u64| WorkItem {
        key: WorkKey {
            run: run_id(n % 50),
            instance: 1,
            attempt: 1,
        },
        tenant: None,
        action: "act".into(),
        requires: Vec::new(),
        priority: 5,
        payload: Vec::new(),
    };
    let pushes: Vec<_> = (0..100).map(|n| store.push(vec![item(n)])).collect();
    drop(unlock);
    let answers = windlass_store::block_on(futures_util::future::join_all(pushes));
    assert!(answers.into_iter().all(|it| it.is_ok()));
    let all = transactions(&url, "work");
    assert!(all <= 4, "{all}");
}

#[test]
fn a_call_that_the_database_refuses_fails_alone() {
    use windlass_store::Inbox as _;
    use windlass_store::conformance::inbox::offer_of;
    let url = server().fresh();
    let store = PostgresStore::open(&Settings::parse(&url).unwrap().pool(4)).unwrap();
    let unlock = locked(&url, "inbox");
    // No index takes a key of that length, unless it shrinks when it is compressed.
    let long: String = (0..20_000u64)
        .map(|n| char::from(33 + (n * n * 7 % 89) as u8))
        .collect();
    let long = (0..4_000u64).fold(long, |text, n| {
        let digest = windlass_core::Digest::of(&n.to_be_bytes());
        text + &digest.to_string()
    });
    let offers = (0..40u64).map(|n| match n {
        20 => store.offer(vec![offer_of(run_id(1), &long, b"x")]),
        _ => store.offer(vec![offer_of(run_id(1), &format!("k{n}"), b"x")]),
    });
    let offers: Vec<_> = offers.collect();
    drop(unlock);
    let answers = windlass_store::block_on(futures_util::future::join_all(offers));
    let failed: Vec<usize> = (0..40).filter(|&n| answers[n].is_err()).collect();
    assert_eq!(failed, [20]);
    assert_eq!(store.inbox(run_id(1)).wait().unwrap().len(), 39);
}
