//! The caller's side: a command for a run of another process is offered to it, and answered by
//! the record that carried it out or by a refusal, never by the offer alone.

use std::time::Duration;

use tokio::sync::futures::Notified;
use tokio::time::Instant;
use windlass_core::command::{CommandRequest, RunCommand};
use windlass_core::event::RequestKey;
use windlass_core::run::{Answered, Refusal};
use windlass_core::{RunId, RunStatus};
use windlass_orchestrator::supervisor::{
    CommandOffer, KeyInLog, OfferEnd, OfferStep, command_item_key,
};
use windlass_store::{Bell, Error, Offer, OfferAnswer, Partition};

use super::wire::{self, Refused};
use crate::command::{CommandAnswer, CommandError};
use crate::engine::Engine;
use crate::load::{LoadError, Unavailable};
use crate::names::is_request_id;

impl Engine {
    /// Carries a command out where several processes share the store: here, if the run is this
    /// process's, else through its owner.
    pub(crate) async fn command_shared(
        &self,
        run: RunId,
        request: CommandRequest,
    ) -> Result<CommandAnswer, CommandError> {
        let row = self.store().run(run).await.map_err(LoadError::from)?;
        let row = row.ok_or(LoadError::NotFound(run))?;
        let partition = row.partition;
        let awake = !row.status.is_final() && row.status != RunStatus::Paused;
        if awake && request.actor.request.is_none() && request.command == RunCommand::Resume {
            // With a key it would be recorded as done: `decide` keeps what a caller may repeat.
            let refusal = Refusal::NotNow("the run is not paused".into());
            let nodes = Vec::new();
            return Err(CommandError::Refused { refusal, nodes });
        }
        let request = self.with_key(request);
        let key = request.actor.request.as_deref();
        let key = key.filter(|key| is_request_id(&key.key));
        let key = key.cloned().ok_or(CommandError::KeyInvalid)?;
        if self.shared().owned.holds(partition) {
            match self.command_here(run, request.clone()).await {
                Err(error) if self.is_elsewhere(&error) => {}
                done => return done,
            }
        }
        let offering = Offering {
            engine: self,
            run,
            partition,
            key: &key,
            item: command_item_key(&key.key),
            request: &request,
            began: Instant::now(),
        };
        offering.carry_out().await
    }

    /// The request under its key, or under a new one, by which its answer is found.
    fn with_key(&self, request: CommandRequest) -> CommandRequest {
        match request.actor.request {
            Some(_) => request,
            None => {
                let clock = &self.options().clock;
                let (high, low) = (clock.random_u64(), clock.random_u64());
                request.keyed(Some(format!("{high:016x}{low:016x}")))
            }
        }
    }

    /// Whether an error says that the run is not this process's any more. What became of a
    /// command that was under way is then found by its key.
    fn is_elsewhere(&self, error: &CommandError) -> bool {
        match error {
            CommandError::Load(LoadError::Unavailable(Unavailable::Elsewhere)) => true,
            CommandError::Stopped => !self.is_stopping(),
            _ => false,
        }
    }
}

/// How many items may wait for a run before no further command is offered to it.
const INBOX_LIMIT: usize = 10_000;

/// A command on its way to the owner of its run.
struct Offering<'e> {
    engine: &'e Engine,
    run: RunId,
    partition: Partition,
    key: &'e RequestKey,
    /// Its key in the inbox.
    item: Box<str>,
    request: &'e CommandRequest,
    began: Instant,
}

impl Offering<'_> {
    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Executes the steps that the supervisor names, until there is an answer.
    async fn carry_out(&self) -> Result<CommandAnswer, CommandError> {
        let engine = self.engine;
        let patience = engine.shared().owned.command_ms();
        let mut offer = CommandOffer::new(self.now(), patience);
        let mut status = None;
        let mut heard = None;
        let (mut is_checked, mut is_first) = (false, false);
        let mut step = offer.begin();
        loop {
            step = match step {
                OfferStep::ReadLog => match self.read_log().await {
                    Ok((found, answered)) => {
                        status = answered.map(|answered| answered.status());
                        offer.log_read(found)
                    }
                    Err(error) => self.again(&mut offer, error)?,
                },
                OfferStep::Offer => {
                    if !std::mem::replace(&mut is_checked, true) {
                        // What is wrong in itself is refused before it is offered.
                        engine.resolved(self.run, self.request).await?;
                        self.has_room().await?;
                    }
                    match engine.store().offer(vec![self.offer()]).await {
                        Ok(first) => {
                            is_first = first == [true];
                            offer.offered(is_first)
                        }
                        Err(error) => return Err(LoadError::Store(error).into()),
                    }
                }
                OfferStep::Ring => {
                    // A hint, which the store gives for the first offer: the owner also looks by
                    // itself.
                    if !is_first {
                        let bell = Bell::Offered(self.partition, self.run);
                        let _ = engine.store().ring(&[bell]).await;
                    }
                    offer.rung()
                }
                OfferStep::ReadAnswer => {
                    // Before the answer is read, so that no bell is missed.
                    heard = engine.shared().owned.changed_elsewhere();
                    match engine.store().answer(self.run, &self.item).await {
                        Ok(Some(OfferAnswer::Refused(reason))) if self.is_another(&reason) => {
                            return Err(wire::key_reused(self.key));
                        }
                        Ok(answer) => offer.answer_read(answer, self.now()),
                        Err(error) => self.again(&mut offer, LoadError::Store(error).into())?,
                    }
                }
                OfferStep::Wait(until) => {
                    self.wait(heard.take(), until).await?;
                    offer.waited()
                }
                OfferStep::Discard => {
                    // One that stays is removed with the run.
                    let _ = engine.store().discard(self.run, &self.item).await;
                    offer.discarded()
                }
                OfferStep::End(OfferEnd::Taken { repeated }) => {
                    return Ok(CommandAnswer { status, repeated });
                }
                OfferStep::End(OfferEnd::Refused(reason)) => {
                    return Err(match wire::refused(self.key, &reason) {
                        Refused::This(error) => error,
                        Refused::Another => wire::key_reused(self.key),
                    });
                }
                OfferStep::End(OfferEnd::Unavailable) => {
                    let key = self.key.key.clone();
                    return Err(CommandError::OwnerUnavailable { key });
                }
            };
        }
    }

    /// Whether the run's inbox takes one more: an owner that is away must not let it grow
    /// without bound.
    async fn has_room(&self) -> Result<(), CommandError> {
        let waiting = self.engine.store().waiting_items(self.run, INBOX_LIMIT);
        if waiting.await.map_err(LoadError::Store)? < INBOX_LIMIT {
            return Ok(());
        }
        let message = format!(
            "{INBOX_LIMIT} items wait for the owner of run {}; repeat the command when it has \
             taken them",
            self.run
        );
        Err(LoadError::Store(Error::Unavailable(message)).into())
    }

    fn offer(&self) -> Offer {
        Offer {
            run: self.run,
            partition: self.partition,
            key: self.item.clone(),
            bytes: wire::encode(self.request),
        }
    }

    fn is_another(&self, reason: &[u8]) -> bool {
        matches!(wire::refused(self.key, reason), Refused::Another)
    }

    async fn read_log(&self) -> Result<(KeyInLog, Option<Answered>), CommandError> {
        let run = self.engine.load_beside(self.run).await?.run;
        let found = KeyInLog::of(&run, self.key);
        let found = found.map_err(|refusal| CommandError::refused(&run, refusal))?;
        let answered = run.answer_to(self.key).ok().flatten().cloned();
        Ok((found, answered))
    }

    /// The step after an error of the store, or the error.
    fn again(
        &self,
        offer: &mut CommandOffer,
        error: CommandError,
    ) -> Result<OfferStep, CommandError> {
        match error {
            CommandError::Load(LoadError::Store(_)) => offer.failed(self.now()).ok_or(error),
            error => Err(error),
        }
    }

    /// Waits for a bell, or until a time.
    async fn wait(&self, heard: Option<Notified<'_>>, until: u64) -> Result<(), CommandError> {
        let rest = Duration::from_millis(until.saturating_sub(self.now()));
        let bell = async {
            match heard {
                Some(heard) => heard.await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = bell => Ok(()),
            () = tokio::time::sleep(rest) => Ok(()),
            () = self.engine.stopped() => Err(CommandError::Stopped),
        }
    }
}
