//! How tasks and leases are named on the wire. A task's id names run, instance and attempt. A
//! lease names the session of this process and a number that it gives once, which hand-out of
//! the attempt it is, since when and to which worker, and carries proof that this server gave
//! it: after a restart, when no table knows it any more, the server can still tell a forged
//! lease from one that it gave, and whose it is.

use std::fmt;
use std::str::FromStr;

use windlass_core::name::cut;
use windlass_core::{Digest, Millis, RunId};
use windlass_store::{Error, WorkKey};

use super::WorkError;
use crate::Backend;
use crate::clock::Clock;

/// Where the key is kept that proves leases.
const KIND: &str = "work";
const KEY: &str = "lease-key";

/// How long a new key waits for those that other processes make.
const SETTLES: std::time::Duration = std::time::Duration::from_millis(500);

/// The bytes of a proof, in hexadecimal digits.
const PROOF_DIGITS: usize = 32;

/// How much of a worker's name a lease carries: requests have at most 512 bytes of lease.
const NAME_BYTES: usize = 200;

/// A worker whose name was lost with the process that gave it the task.
const UNNAMED: &str = "worker";

/// A task, as workers name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskId(pub(crate) WorkKey);

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let WorkKey {
            run,
            instance,
            attempt,
        } = self.0;
        write!(f, "{run}.{instance}.{attempt}")
    }
}

impl FromStr for TaskId {
    type Err = WorkError;

    fn from_str(text: &str) -> Result<Self, WorkError> {
        let read = || {
            let mut parts = text.splitn(3, '.');
            let run: RunId = parts.next()?.parse().ok()?;
            let instance = parts.next()?.parse().ok()?;
            let attempt = parts.next()?.parse().ok()?;
            let id = Self(WorkKey {
                run,
                instance,
                attempt,
            });
            // One spelling only: nothing is known under another.
            (id.to_string() == text).then_some(id)
        };
        read().ok_or(WorkError::TaskNotFound)
    }
}

/// What a lease says of itself, so that a process which never saw it knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LeaseTerms {
    /// Which hand-out of the attempt it is, from 1: of two leases the higher one counts.
    pub(super) generation: u32,
    /// When the first worker got the attempt.
    pub(super) since: Option<Millis>,
    /// The worker that got it.
    pub(super) worker: Box<str>,
}

impl LeaseTerms {
    /// What the name of a lease says; of an older form that says nothing, the least.
    fn of(name: &str) -> Self {
        let read = || {
            let mut parts = name.split('.').skip(2);
            let generation = u32::from_str_radix(parts.next()?, 16).ok()?;
            let since = i64::from_str_radix(parts.next()?, 16).ok()?;
            let worker = String::from_utf8(hex::decode(parts.next()?).ok()?).ok()?;
            Some(Self {
                generation,
                since: Some(Millis(since)),
                worker: worker.into(),
            })
        };
        read().unwrap_or_else(Self::unknown)
    }

    /// Those of a first hand-out of which nothing is known.
    pub(super) fn unknown() -> Self {
        Self {
            generation: 1,
            since: None,
            worker: UNNAMED.into(),
        }
    }
}

impl fmt::Display for LeaseTerms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let since = self.since.map_or(0, |at| at.0);
        write!(f, "{:x}.{since:x}.", self.generation)?;
        f.write_str(&hex::encode(cut(&self.worker, NAME_BYTES)))
    }
}

/// Makes leases and checks their proofs.
pub(super) struct LeaseKey {
    secret: [u8; 32],
    session: u64,
}

impl LeaseKey {
    /// The key of this store, made by the first process that needs one.
    pub(super) async fn of(
        store: &dyn Backend,
        clock: &dyn Clock,
        shared: bool,
    ) -> Result<Self, Error> {
        let kept = store.note_at(KIND, KEY).await?;
        let kept = kept.and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
        let secret = match kept {
            Some(secret) => secret,
            None => {
                let mut secret = [0; 32];
                for part in secret.chunks_mut(8) {
                    part.copy_from_slice(&clock.random_u64().to_le_bytes());
                }
                store.keep_note(KIND, KEY, secret.to_vec()).await?;
                if shared {
                    // Another process may make one at the same time: the last one counts.
                    tokio::time::sleep(SETTLES).await;
                    let kept = store.note_at(KIND, KEY).await?;
                    let kept = kept.and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
                    secret = kept.unwrap_or(secret);
                }
                secret
            }
        };
        Ok(Self {
            secret,
            session: clock.random_u64(),
        })
    }

    /// A lease that was not given before; the number must not be used again by this process.
    pub(super) fn lease(&self, task: TaskId, number: u64, terms: &LeaseTerms) -> Box<str> {
        let session = self.session;
        let name = format!("{session:016x}.{number:x}.{terms}");
        let proof = self.proof(task, &name);
        format!("{name}.{proof}").into()
    }

    /// What a server on this store gave the lease for; nothing if none gave it for this task.
    pub(super) fn terms(&self, task: TaskId, lease: &str) -> Option<LeaseTerms> {
        let (name, proof) = lease.rsplit_once('.')?;
        // Every digit is compared: how long it takes tells nothing of where they differ.
        let right = self.proof(task, name);
        let same = right.bytes().zip(proof.bytes());
        let is_given = proof.len() == right.len() && same.fold(0, |all, (a, b)| all | (a ^ b)) == 0;
        is_given.then(|| LeaseTerms::of(name))
    }

    /// The same, with the number that the lease was given with.
    pub(super) fn given(&self, task: TaskId, lease: &str) -> Option<(u64, LeaseTerms)> {
        let terms = self.terms(task, lease)?;
        let number = lease.split('.').nth(1)?;
        Some((u64::from_str_radix(number, 16).ok()?, terms))
    }

    fn proof(&self, task: TaskId, name: &str) -> String {
        let text = [&self.secret[..], format!("{task} {name}").as_bytes()].concat();
        let mut digits = Digest::of(&text).to_string();
        digits.truncate(PROOF_DIGITS);
        digits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(attempt: u32) -> TaskId {
        let run = "01920000-0000-7000-8000-000000000001"
            .parse()
            .expect("an id");
        TaskId(WorkKey {
            run,
            instance: 7,
            attempt,
        })
    }

    #[test]
    fn a_task_has_one_spelling() {
        let id = task(2);
        let text = id.to_string();
        assert_eq!(text.parse::<TaskId>().expect("the same"), id);
        for bad in [
            "",
            "x",
            "..",
            &text.replace(".7.", ".07."),
            &text.to_uppercase(),
        ] {
            let is_same = *bad == text;
            assert!(is_same || bad.parse::<TaskId>().is_err(), "{bad}");
        }
        assert!(format!("{text}.1").parse::<TaskId>().is_err());
        assert!(text.replace(".7.", ".+7.").parse::<TaskId>().is_err());
    }

    fn terms(worker: &str) -> LeaseTerms {
        LeaseTerms {
            generation: 2,
            since: Some(Millis(1_700_000_000_123)),
            worker: worker.into(),
        }
    }

    fn key(session: u64) -> LeaseKey {
        LeaseKey {
            secret: [9; 32],
            session,
        }
    }

    #[test]
    fn only_a_lease_that_was_given_for_the_task_is_proved() {
        let (before, after) = (key(1), key(2));
        let lease = before.lease(task(1), 5, &terms("w"));
        assert!(after.terms(task(1), &lease).is_some(), "after a restart");
        assert!(after.terms(task(2), &lease).is_none());
        let other = after.lease(task(1), 5, &terms("w"));
        assert_ne!(other, lease, "a session gives its own");
        let mut forged = lease.to_string();
        let last = forged
            .pop()
            .map_or('0', |c| if c == '0' { '1' } else { '0' });
        forged.push(last);
        let newer = lease.replacen(".2.", ".3.", 1);
        for bad in ["", ".", "1", &forged, &newer, &lease[..lease.len() - 1]] {
            assert!(before.terms(task(1), bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn a_lease_tells_a_later_process_whose_it_is_and_since_when() {
        for name in ["w", "a.b/c-7", "wörker ☃"] {
            let lease = key(1).lease(task(1), 5, &terms(name));
            assert_eq!(key(2).terms(task(1), &lease), Some(terms(name)));
        }
        let long = key(1).lease(task(1), u64::MAX, &terms(&"x".repeat(256)));
        assert!(long.len() <= 512, "{}", long.len());
        assert!(key(1).terms(task(1), &long).is_some());
    }

    #[test]
    fn a_lease_of_the_older_form_counts_as_the_first() {
        let name = "0000000000000001.5";
        let lease = format!("{name}.{}", key(1).proof(task(1), name));
        let terms = key(1).terms(task(1), &lease).expect("it was given");
        assert_eq!((terms.generation, terms.since), (1, None));
    }
}
