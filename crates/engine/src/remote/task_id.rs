//! How tasks and leases are named on the wire. A task's id names run, instance and attempt. A
//! lease names the session of this process and a number that it gives once, and carries proof
//! that this server gave it: after a restart, when no table knows it any more, the server can
//! still tell a forged lease from one that it gave.

use std::fmt;
use std::str::FromStr;

use windlass_core::{Digest, RunId};
use windlass_store::{Error, WorkKey};

use super::WorkError;
use crate::Backend;
use crate::clock::Clock;

/// Where the key is kept that proves leases.
const KIND: &str = "work";
const KEY: &str = "lease-key";

/// The bytes of a proof, in hexadecimal digits.
const PROOF_DIGITS: usize = 32;

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

/// Makes leases and checks their proofs.
pub(super) struct LeaseKey {
    secret: [u8; 32],
    session: u64,
}

impl LeaseKey {
    /// The key of this store, made by the first process that needs one.
    pub(super) async fn of(store: &dyn Backend, clock: &dyn Clock) -> Result<Self, Error> {
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
                secret
            }
        };
        Ok(Self {
            secret,
            session: clock.random_u64(),
        })
    }

    /// A lease that was not given before; the number must not be used again by this process.
    pub(super) fn lease(&self, task: TaskId, number: u64) -> Box<str> {
        let name = format!("{:016x}.{number:x}", self.session);
        let proof = self.proof(task, &name);
        format!("{name}.{proof}").into()
    }

    /// Whether a server on this store gave the lease for this task.
    pub(super) fn gave(&self, task: TaskId, lease: &str) -> bool {
        let Some((name, proof)) = lease.rsplit_once('.') else {
            return false;
        };
        // Every digit is compared: how long it takes tells nothing of where they differ.
        let right = self.proof(task, name);
        let same = right.bytes().zip(proof.bytes());
        proof.len() == right.len() && same.fold(0, |all, (a, b)| all | (a ^ b)) == 0
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

    #[test]
    fn only_a_lease_that_was_given_for_the_task_is_proved() {
        let key = |session| LeaseKey {
            secret: [9; 32],
            session,
        };
        let (before, after) = (key(1), key(2));
        let lease = before.lease(task(1), 5);
        assert!(after.gave(task(1), &lease), "also after a restart");
        assert!(!after.gave(task(2), &lease));
        assert_ne!(after.lease(task(1), 5), lease, "a session gives its own");
        let mut forged = lease.to_string();
        let last = forged
            .pop()
            .map_or('0', |c| if c == '0' { '1' } else { '0' });
        forged.push(last);
        for bad in ["", ".", "1", &forged, &lease[..lease.len() - 1]] {
            assert!(!before.gave(task(1), bad), "{bad}");
        }
    }
}
