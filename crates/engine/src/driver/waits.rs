//! Callers that wait for the end of a run.

use tokio::sync::oneshot;

/// Adds a caller to those that wait for a run. Those that have gone are forgotten whenever the list
/// is full, so that it has a few places for each caller that waits, and adding one costs the same however
/// many wait.
pub(super) fn add_wait<T>(waits: &mut Vec<oneshot::Sender<T>>, reply: oneshot::Sender<T>) {
    if waits.len() == waits.capacity() {
        waits.retain(|reply| !reply.is_closed());
        waits.reserve(waits.len().max(4));
    }
    waits.push(reply);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_that_have_gone_are_forgotten_and_those_that_wait_are_not() {
        let mut waits = Vec::new();
        let mut there = Vec::new();
        for at in 0..10_000 {
            let (reply, answer) = oneshot::channel::<u32>();
            add_wait(&mut waits, reply);
            if at % 1_000 == 0 {
                there.push(answer);
            }
            assert!(waits.len() <= 4 + 4 * there.len(), "{} wait", waits.len());
        }
        for reply in waits {
            let _ = reply.send(7);
        }
        assert_eq!(there.len(), 10);
        for mut answer in there {
            assert_eq!(answer.try_recv(), Ok(7));
        }
    }
}
