//! Dead letters of runs that another process owns. What the owner counted must be forgotten there,
//! and the record that ends the run must be the owner's, so requeueing and purging are offered to
//! the owner like commands. The caller is answered when the owner has done it or refused it.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use windlass_core::RunId;
use windlass_core::event::Actor;
use windlass_store::{Bell, InboxItem, Offer, OfferAnswer, RunRow};

use super::wire;
use crate::command::CommandError;
use crate::engine::Engine;
use crate::load::LoadError;

/// Items of this module.
pub(super) const LETTERS: &str = "letter/";

/// How often the answer is looked for, in case no bell was heard.
const LOOK: Duration = Duration::from_millis(250);

/// What is to become of a dead letter, as it is offered.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "do")]
pub(crate) enum LetterCommand {
    Requeue,
    Purge { actor: Actor },
}

#[derive(Serialize, Deserialize)]
struct OfferedLetter {
    v: u32,
    #[serde(flatten)]
    command: LetterCommand,
}

impl LetterCommand {
    /// One of a kind for each run: a caller that asks again gets the answer to the first request.
    fn item(&self) -> String {
        let name = match self {
            Self::Requeue => "requeue",
            Self::Purge { .. } => "purge",
        };
        format!("{LETTERS}{name}")
    }

    fn bytes(&self) -> Vec<u8> {
        let offered = OfferedLetter {
            v: 1,
            command: self.clone(),
        };
        serde_json::to_vec(&offered).expect("texts always serialise")
    }
}

impl Engine {
    /// Lets the owner of a run requeue or purge its dead letter. `false` if there is no letter.
    ///
    /// # Errors
    /// The store failed, the owner refused it, or no owner has taken it in time.
    pub(crate) async fn ask_owner_for_letter(
        &self,
        row: &RunRow,
        command: LetterCommand,
    ) -> Result<bool, CommandError> {
        let (run, store, key) = (row.run, self.store(), command.item());
        if !row.dead {
            return Ok(false);
        }
        let offer = Offer {
            run,
            partition: row.partition,
            key: key.as_str().into(),
            bytes: command.bytes(),
        };
        let first = store.offer(vec![offer.clone()]).await.map_err(failed)?;
        if first != [true] {
            if self.letter_refusal(run, &key).await?.is_some() {
                // An earlier caller did not wait for it.
                store.offer(vec![offer]).await.map_err(failed)?;
            }
            let _ = store.ring(&[Bell::Offered(row.partition, run)]).await;
        }
        let until = Instant::now() + Duration::from_millis(self.shared().owned.command_ms());
        loop {
            // Before the answer is read, so that no bell is missed.
            let heard = self.shared().owned.changed_elsewhere();
            match store.answer(run, &key).await.map_err(failed)? {
                None => return Ok(true),
                Some(OfferAnswer::Refused(_)) => {
                    let reason = self.letter_refusal(run, &key).await?.unwrap_or_default();
                    return Err(LoadError::Definition(reason).into());
                }
                Some(OfferAnswer::Waiting) if Instant::now() >= until => {
                    return Err(CommandError::LetterWaits);
                }
                Some(OfferAnswer::Waiting) => {}
            }
            let bell = async {
                match heard {
                    Some(heard) => heard.await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = bell => {}
                () = tokio::time::sleep(LOOK) => {}
                () = self.stopped() => return Err(CommandError::Stopped),
            }
        }
    }

    /// Why the owner refused an item, which is removed by that.
    async fn letter_refusal(&self, run: RunId, key: &str) -> Result<Option<String>, CommandError> {
        let answer = self.store().answer(run, key).await.map_err(failed)?;
        let Some(OfferAnswer::Refused(reason)) = answer else {
            return Ok(None);
        };
        self.store().discard(run, key).await.map_err(failed)?;
        Ok(Some(String::from_utf8_lossy(&reason).into_owned()))
    }

    /// Does what another process offered; an item stays if this process does not own the run, or
    /// the store is away.
    pub(super) async fn consume_letter(&self, run: RunId, item: &InboxItem) {
        if wire::is_newer(item) {
            return;
        }
        let offered = serde_json::from_slice::<OfferedLetter>(&item.bytes).ok();
        let done = match offered.map(|it| it.command) {
            Some(LetterCommand::Requeue) => self.requeue_here(run).await,
            Some(LetterCommand::Purge { actor }) => self.purge_here(run, actor).await,
            None => Err(wire::unreadable(run, &item.key)),
        };
        let answered = match done {
            Ok(_) => self.store().discard(run, &item.key).await,
            Err(error) if self.is_lost(&error) => return,
            Err(error) => {
                let reason = error.to_string();
                self.store().refuse(run, &item.key, reason.as_bytes()).await
            }
        };
        if answered.is_ok() {
            self.ring_for(run);
        }
    }
}

fn failed(error: windlass_store::Error) -> CommandError {
    LoadError::Store(error).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As versions of the program wrote them, one a line; later versions must read them.
    const RECORDED: &str = include_str!("../../tests/wire/letters-1.jsonl");

    #[test]
    fn recorded_letters_are_read_and_written_again() {
        let actor = Actor {
            by: Some("ana".into()),
            ..Actor::default()
        };
        let commands = [LetterCommand::Requeue, LetterCommand::Purge { actor }];
        let lines: Vec<&str> = RECORDED.lines().collect();
        assert_eq!(lines.len(), commands.len());
        for (line, command) in lines.into_iter().zip(commands) {
            let read: OfferedLetter = serde_json::from_str(line).expect("a letter");
            assert_eq!(read.command.bytes(), line.as_bytes());
            assert_eq!(command.bytes(), line.as_bytes());
            assert_eq!(read.command.item(), command.item());
        }
    }
}
