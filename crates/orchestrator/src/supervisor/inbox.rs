//! A command for a run that another process owns: how its caller offers it and learns what
//! became of it ([`CommandOffer`]), and what the owner does with an item of the inbox
//! ([`CommandItem`]). Both are small state machines that name the next step; the runtime carries
//! it out and answers.
//!
//! Only the log answers the caller with success: a record names the command's key. An offer
//! that stands after the caller has given up is carried out later, and a caller that comes again
//! with the same key gets its answer.
//!
//! ```text
//! caller  read log ─┬ key known ────────────────────────────────▶ taken
//!                   └ unknown ─▶ offer, ring ─▶ read answer ─┬ waiting ─▶ wait, or give up
//!                                                           ├ refused ─▶ discard ─▶ read log ─▶ refused
//!                                                           └ gone ────▶ read log
//! owner   read run ─┬ none ──────────────▶ discard
//!                   ├ key known ─────────▶ discard, ring
//!                   └ else execute ─┬ taken ───▶ ring: its record consumed the item
//!                                   ├ refused ─▶ refuse, ring
//!                                   └ lost ────▶ leave it for the next walk
//! ```

use windlass_core::event::RequestKey;
use windlass_core::run::{KEPT_ANSWERS, Refusal, Run};
use windlass_store::OfferAnswer;

/// How soon a caller looks by itself, in case no bell is heard: each time after twice as long,
/// up to the most.
const FIRST_LOOK_MS: u64 = 10;
const MOST_LOOK_MS: u64 = 1_000;

/// The inbox key of a command with this idempotency key: other kinds of items have other
/// prefixes.
pub fn command_item_key(key: &str) -> Box<str> {
    format!("command/{key}").into()
}

/// What a run's log says of an idempotency key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyInLog {
    /// A record carried the command out.
    Known,
    /// No record did.
    Unknown,
    /// The log keeps as many keys as it can, and this is not one of them: a record that named
    /// it may be too old.
    Forgotten,
}

impl KeyInLog {
    /// Looks for a key.
    ///
    /// # Errors
    /// The key was used for another command.
    pub fn of(run: &Run, key: &RequestKey) -> Result<Self, Refusal> {
        Ok(match run.answer_to(key)? {
            Some(_) => Self::Known,
            None if run.answered().count() < KEPT_ANSWERS => Self::Unknown,
            None => Self::Forgotten,
        })
    }
}

/// What the caller's runtime does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OfferStep {
    /// Read what the log says of the key; answer with [`CommandOffer::log_read`].
    ReadLog,
    /// Offer the command; answer with [`CommandOffer::offered`].
    Offer,
    /// Ring the run's partition, and call [`CommandOffer::rung`].
    Ring,
    /// Read what became of the offer; answer with [`CommandOffer::answer_read`].
    ReadAnswer,
    /// Wait until a bell rings for the run, or until this time; then [`CommandOffer::waited`].
    Wait(u64),
    /// Discard the refused item, whose reason the caller has, and call
    /// [`CommandOffer::discarded`].
    Discard,
    /// Answer the caller.
    End(OfferEnd),
}

/// What the caller gets as its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OfferEnd {
    /// A record carried the command out.
    Taken {
        /// Whether another request with the same key asked for it before this one.
        repeated: bool,
    },
    /// The owner refused it, for this reason.
    Refused(Vec<u8>),
    /// No owner has decided on it in time. The offer stands.
    Unavailable,
}

/// A command on its way to the owner of its run. Times are milliseconds of the caller's own
/// monotonic clock.
#[derive(Debug)]
pub struct CommandOffer {
    give_up_at: u64,
    /// Whether an offer under the key was made by this caller.
    offered: bool,
    /// Whether another request with the same key came first.
    repeated: bool,
    reason: Option<Vec<u8>>,
    look_ms: u64,
}

impl CommandOffer {
    /// Begins; the caller is answered `patience_ms` from now at the latest.
    pub fn new(now: u64, patience_ms: u64) -> Self {
        Self {
            give_up_at: now.saturating_add(patience_ms),
            offered: false,
            repeated: false,
            reason: None,
            look_ms: FIRST_LOOK_MS,
        }
    }

    /// The first step.
    pub fn begin(&self) -> OfferStep {
        OfferStep::ReadLog
    }

    /// What the log says of the key.
    pub fn log_read(&mut self, found: KeyInLog) -> OfferStep {
        let repeated = self.repeated || !self.offered;
        match (found, self.reason.take()) {
            (KeyInLog::Known, _) => OfferStep::End(OfferEnd::Taken { repeated }),
            (_, Some(reason)) => OfferStep::End(OfferEnd::Refused(reason)),
            (found, None) => self.not_found(found),
        }
    }

    fn not_found(&self, found: KeyInLog) -> OfferStep {
        match found {
            KeyInLog::Known | KeyInLog::Unknown => OfferStep::Offer,
            // An item that is gone may have been consumed by a record that is too old to be
            // found: offering it again could carry it out twice.
            KeyInLog::Forgotten if self.offered => OfferStep::End(OfferEnd::Unavailable),
            KeyInLog::Forgotten => OfferStep::Offer,
        }
    }

    /// The offer is durable; `first` says whether no other was there under the key.
    pub fn offered(&mut self, first: bool) -> OfferStep {
        self.repeated |= !first;
        self.offered = true;
        OfferStep::Ring
    }

    /// The owner was rung.
    pub fn rung(&self) -> OfferStep {
        OfferStep::ReadAnswer
    }

    /// What became of the offer.
    pub fn answer_read(&mut self, answer: Option<OfferAnswer>, now: u64) -> OfferStep {
        match answer {
            Some(OfferAnswer::Waiting) if now >= self.give_up_at => {
                OfferStep::End(OfferEnd::Unavailable)
            }
            Some(OfferAnswer::Waiting) => self.wait(now),
            Some(OfferAnswer::Refused(reason)) => {
                self.reason = Some(reason);
                OfferStep::Discard
            }
            None => OfferStep::ReadLog,
        }
    }

    /// A bell rang, or the time is over.
    pub fn waited(&self) -> OfferStep {
        OfferStep::ReadAnswer
    }

    /// The refused item is gone. A request that was repeated with the key may have been carried
    /// out since: then that is the answer.
    pub fn discarded(&self) -> OfferStep {
        OfferStep::ReadLog
    }

    /// The store failed. A caller that has offered keeps trying until its time is over.
    pub fn failed(&mut self, now: u64) -> Option<OfferStep> {
        let tries = self.offered && now < self.give_up_at;
        tries.then(|| self.wait(now))
    }

    fn wait(&mut self, now: u64) -> OfferStep {
        let look_at = now + self.look_ms;
        self.look_ms = (2 * self.look_ms).min(MOST_LOOK_MS);
        OfferStep::Wait(self.give_up_at.min(look_at))
    }
}

/// What the owner's runtime does next with an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ItemStep {
    /// Read the run; answer with [`CommandItem::run_read`].
    ReadRun,
    /// Give the command to the run, which consumes the item with its record; answer with
    /// [`CommandItem::executed`].
    Execute,
    /// Refuse the item with the reason that the run gave, or because it cannot be read, and
    /// ring for the run.
    Refuse,
    /// Discard the item, and ring for the run: its caller finds the answer in the log.
    Discard,
    /// Ring for the run: its caller finds the answer in the log.
    Ring,
    /// Nothing now: the next walk finds the item again.
    Leave,
}

/// How a command that was offered went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ItemAnswer {
    /// A record carried it out, now or before.
    Taken,
    /// The run's state does not allow it, or it is wrong in itself.
    Refused,
    /// The run is gone, with its log.
    NoRun,
    /// The outcome is not known, or the run cannot be worked on here now.
    Lost,
}

/// An item of the inbox that is a command.
#[derive(Clone, Copy, Debug, Default)]
pub struct CommandItem;

impl CommandItem {
    /// The first step; `readable` says whether its bytes are a command under its key.
    pub fn begin(self, readable: bool) -> ItemStep {
        match readable {
            true => ItemStep::ReadRun,
            false => ItemStep::Refuse,
        }
    }

    /// What the log of the run says of the key; `None` if there is no run. A key that was used
    /// for another command is refused by the run.
    pub fn run_read(self, found: Option<Result<KeyInLog, Refusal>>) -> ItemStep {
        match found {
            None | Some(Ok(KeyInLog::Known)) => ItemStep::Discard,
            Some(_) => ItemStep::Execute,
        }
    }

    /// How the command went.
    pub fn executed(self, answer: ItemAnswer) -> ItemStep {
        match answer {
            ItemAnswer::Taken => ItemStep::Ring,
            ItemAnswer::Refused => ItemStep::Refuse,
            ItemAnswer::NoRun => ItemStep::Discard,
            ItemAnswer::Lost => ItemStep::Leave,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An offer that stands.
    fn offered(patience_ms: u64) -> CommandOffer {
        let mut offer = CommandOffer::new(0, patience_ms);
        assert_eq!(offer.begin(), OfferStep::ReadLog);
        assert_eq!(offer.log_read(KeyInLog::Unknown), OfferStep::Offer);
        assert_eq!(offer.offered(true), OfferStep::Ring);
        assert_eq!(offer.rung(), OfferStep::ReadAnswer);
        offer
    }

    fn taken(repeated: bool) -> OfferStep {
        OfferStep::End(OfferEnd::Taken { repeated })
    }

    #[test]
    fn success_is_answered_by_the_log_alone() {
        let mut offer = offered(20_000);
        let waiting = Some(OfferAnswer::Waiting);
        assert_eq!(offer.answer_read(waiting, 10), OfferStep::Wait(20));
        assert_eq!(offer.waited(), OfferStep::ReadAnswer);
        assert_eq!(offer.answer_read(None, 30), OfferStep::ReadLog);
        assert_eq!(offer.log_read(KeyInLog::Known), taken(false));
    }

    #[test]
    fn a_key_that_the_log_knows_is_not_offered() {
        let mut offer = CommandOffer::new(0, 20_000);
        assert_eq!(offer.log_read(KeyInLog::Known), taken(true));
    }

    #[test]
    fn a_caller_that_finds_an_offer_under_its_key_waits_for_the_first_answer() {
        let mut offer = CommandOffer::new(0, 20_000);
        offer.log_read(KeyInLog::Unknown);
        assert_eq!(offer.offered(false), OfferStep::Ring);
        assert_eq!(offer.answer_read(None, 5), OfferStep::ReadLog);
        assert_eq!(offer.log_read(KeyInLog::Known), taken(true));
    }

    #[test]
    fn a_refusal_is_read_once_and_its_item_discarded() {
        let mut offer = offered(20_000);
        let refused = OfferAnswer::Refused(b"no".to_vec());
        assert_eq!(offer.answer_read(Some(refused), 5), OfferStep::Discard);
        assert_eq!(offer.discarded(), OfferStep::ReadLog);
        let end = OfferEnd::Refused(b"no".to_vec());
        assert_eq!(offer.log_read(KeyInLog::Unknown), OfferStep::End(end));
    }

    #[test]
    fn a_refused_command_that_was_repeated_and_carried_out_since_is_taken() {
        let mut offer = offered(20_000);
        offer.answer_read(Some(OfferAnswer::Refused(b"no".to_vec())), 5);
        offer.discarded();
        assert_eq!(offer.log_read(KeyInLog::Known), taken(false));
    }

    #[test]
    fn a_caller_gives_up_after_its_patience_and_the_offer_stands() {
        let mut offer = offered(1_500);
        let waiting = || Some(OfferAnswer::Waiting);
        for (now, until) in [(0, 10), (10, 30), (30, 70)] {
            assert_eq!(offer.answer_read(waiting(), now), OfferStep::Wait(until));
        }
        for _ in 0..9 {
            offer.answer_read(waiting(), 100);
        }
        assert_eq!(offer.answer_read(waiting(), 100), OfferStep::Wait(1_100));
        assert_eq!(offer.answer_read(waiting(), 800), OfferStep::Wait(1_500));
        let unavailable = OfferStep::End(OfferEnd::Unavailable);
        assert_eq!(offer.answer_read(waiting(), 1_500), unavailable);
        assert_eq!(offer.failed(1_500), None);
        assert_eq!(offer.failed(100), Some(OfferStep::Wait(1_100)));
    }

    #[test]
    fn an_item_that_another_caller_discarded_is_offered_again_unless_its_key_may_be_forgotten() {
        let mut offer = offered(20_000);
        assert_eq!(offer.log_read(KeyInLog::Unknown), OfferStep::Offer);
        let unavailable = OfferStep::End(OfferEnd::Unavailable);
        assert_eq!(offer.log_read(KeyInLog::Forgotten), unavailable);
        let mut new = CommandOffer::new(0, 20_000);
        assert_eq!(new.log_read(KeyInLog::Forgotten), OfferStep::Offer);
    }

    #[test]
    fn an_owner_carries_out_what_is_new_and_discards_what_the_log_knows() {
        let item = CommandItem;
        assert_eq!(item.begin(false), ItemStep::Refuse);
        assert_eq!(item.begin(true), ItemStep::ReadRun);
        assert_eq!(item.run_read(None), ItemStep::Discard);
        assert_eq!(item.run_read(Some(Ok(KeyInLog::Known))), ItemStep::Discard);
        assert_eq!(
            item.run_read(Some(Ok(KeyInLog::Unknown))),
            ItemStep::Execute
        );
        let reused = Err(Refusal::KeyReused("k".into()));
        assert_eq!(item.run_read(Some(reused)), ItemStep::Execute);
        let executed = |answer| item.executed(answer);
        assert_eq!(executed(ItemAnswer::Taken), ItemStep::Ring);
        assert_eq!(executed(ItemAnswer::Refused), ItemStep::Refuse);
        assert_eq!(executed(ItemAnswer::NoRun), ItemStep::Discard);
        assert_eq!(executed(ItemAnswer::Lost), ItemStep::Leave);
    }
}
