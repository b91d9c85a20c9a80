//! How a command and its refusal are written into the inbox: JSON that processes of other
//! versions read. What cannot be read is refused, or reported as it is; it never stops a walk.

use serde::{Deserialize, Serialize};
use windlass_core::command::{CommandRequest, RunCommand};
use windlass_core::event::{Actor, RequestKey};
use windlass_core::plan::AmbiguousName;
use windlass_core::run::Refusal;
use windlass_core::{Digest, RunId};
use windlass_orchestrator::supervisor::command_item_key;
use windlass_store::InboxItem;

use crate::command::CommandError;
use crate::load::{LoadError, Unavailable};
use crate::payload::PayloadError;

/// The version of what is written here.
const VERSION: u32 = 1;

/// The first version did not say so.
fn first() -> u32 {
    1
}

#[derive(Deserialize)]
struct Versioned {
    #[serde(default = "first")]
    v: u32,
}

/// A command as it is offered.
#[derive(Serialize, Deserialize)]
struct OfferedCommand {
    #[serde(default = "first")]
    v: u32,
    command: RunCommand,
    body: String,
    actor: Actor,
}

/// A refusal as its caller reads it.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RefusedCommand {
    /// Digest of the command: another one may have been offered under the same key.
    #[serde(default)]
    command: Option<Digest>,
    because: Because,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Because {
    Refused {
        refusal: Refusal,
        nodes: Vec<String>,
    },
    UnknownNode(String),
    AmbiguousNode {
        name: Box<str>,
        nodes: Vec<String>,
    },
    SignalInvalid(PayloadError),
    SignalName,
    ResultInvalid(PayloadError),
    /// The run cannot be worked on.
    Unavailable(Unavailable),
    /// The run, or the item itself, cannot be read.
    Unreadable(String),
    KeyInvalid,
}

/// The bytes of an offer.
pub(super) fn encode(request: &CommandRequest) -> Vec<u8> {
    let offered = OfferedCommand {
        v: VERSION,
        command: request.command.clone(),
        body: request.body.to_string(),
        actor: request.actor.clone(),
    };
    serde_json::to_vec(&offered).expect("texts and lists always serialise")
}

/// Whether a newer version of the program wrote an item: an owner of that version decides on it.
pub(super) fn is_newer(item: &InboxItem) -> bool {
    let read = serde_json::from_slice(&item.bytes);
    read.is_ok_and(|Versioned { v }| v > VERSION)
}

/// The command of an item, if it is one under its own key.
pub(super) fn decode(item: &InboxItem) -> Option<CommandRequest> {
    let offered: OfferedCommand = serde_json::from_slice(&item.bytes).ok()?;
    let key = offered.actor.request.as_deref()?;
    (command_item_key(&key.key) == item.key).then_some(CommandRequest {
        command: offered.command,
        body: offered.body.into(),
        actor: offered.actor,
    })
}

/// The bytes of a refusal.
pub(super) fn refusal(request: Option<&CommandRequest>, error: CommandError) -> Vec<u8> {
    let key = request.and_then(|request| request.actor.request.as_deref());
    let because = match error {
        CommandError::Refused { refusal, nodes } => Because::Refused { refusal, nodes },
        CommandError::UnknownNode(node) => Because::UnknownNode(node),
        CommandError::AmbiguousNode(AmbiguousName { name, nodes }) => {
            Because::AmbiguousNode { name, nodes }
        }
        CommandError::SignalInvalid(error) => Because::SignalInvalid(error),
        CommandError::SignalName => Because::SignalName,
        CommandError::ResultInvalid(error) => Because::ResultInvalid(error),
        CommandError::KeyInvalid => Because::KeyInvalid,
        // The caller's process asks for the parent, before it offers the command.
        error @ (CommandError::ParentEnded { .. } | CommandError::NotAwaited { .. }) => {
            Because::Refused {
                refusal: Refusal::NotNow(error.to_string().into()),
                nodes: Vec::new(),
            }
        }
        CommandError::Load(LoadError::Unavailable(why)) => Because::Unavailable(why),
        CommandError::Load(LoadError::Definition(why)) => Because::Unreadable(why),
        error @ (CommandError::Load(_)
        | CommandError::OwnerUnavailable { .. }
        | CommandError::LetterWaits
        | CommandError::Stopped) => Because::Unreadable(error.to_string()),
    };
    let refused = RefusedCommand {
        command: key.map(|key| key.command),
        because,
    };
    serde_json::to_vec(&refused).expect("texts and numbers always serialise")
}

/// The refusal that the caller with this key gets.
pub(super) fn refused(key: &RequestKey, reason: &[u8]) -> Refused {
    let Ok(RefusedCommand { command, because }) = serde_json::from_slice(reason) else {
        let unknown = "its owner refused the command, for a reason that this version of the \
                       program does not know";
        let refusal = Refusal::NotNow(unknown.into());
        return Refused::This(CommandError::Refused {
            refusal,
            nodes: Vec::new(),
        });
    };
    if command.is_some_and(|command| command != key.command) {
        return Refused::Another;
    }
    Refused::This(match because {
        Because::Refused { refusal, nodes } => CommandError::Refused { refusal, nodes },
        Because::UnknownNode(node) => CommandError::UnknownNode(node),
        Because::AmbiguousNode { name, nodes } => {
            CommandError::AmbiguousNode(AmbiguousName { name, nodes })
        }
        Because::SignalInvalid(error) => CommandError::SignalInvalid(error),
        Because::SignalName => CommandError::SignalName,
        Because::ResultInvalid(error) => CommandError::ResultInvalid(error),
        Because::KeyInvalid => CommandError::KeyInvalid,
        Because::Unavailable(why) => LoadError::Unavailable(why).into(),
        Because::Unreadable(why) => LoadError::Definition(why).into(),
    })
}

/// Which command a refusal is about.
pub(super) enum Refused {
    /// The caller's.
    This(CommandError),
    /// Another one, which was offered under the same key.
    Another,
}

/// The error of a caller whose key was used for another command.
pub(super) fn key_reused(key: &RequestKey) -> CommandError {
    CommandError::Refused {
        refusal: Refusal::KeyReused(key.key.clone()),
        nodes: Vec::new(),
    }
}

/// The error of an item that is no command.
pub(super) fn unreadable(run: RunId, key: &str) -> CommandError {
    let why = format!("the command '{key}' that was offered to run {run} cannot be read");
    LoadError::Definition(why).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> CommandRequest {
        let signal = RunCommand::Signal { name: "go".into() };
        let actor = Actor {
            by: Some("ana".into()),
            ..Actor::default()
        };
        signal.by(actor).with(r#"{"a":1}"#).keyed(Some("k"))
    }

    fn item(key: &str, bytes: Vec<u8>) -> InboxItem {
        let key = key.into();
        let number = 1;
        InboxItem { number, key, bytes }
    }

    #[test]
    fn a_command_is_read_as_it_was_offered() {
        let request = request();
        let read = decode(&item("command/k", encode(&request))).expect("a command");
        assert_eq!(read.command, request.command);
        assert_eq!((read.body, read.actor), (request.body, request.actor));
    }

    /// As versions of the program wrote them, one a line; later versions must read them.
    const RECORDED: &str = include_str!("../../tests/wire/commands-1.jsonl");

    #[test]
    fn recorded_commands_are_read() {
        let mut lines = RECORDED.lines();
        let unversioned = lines.next().expect("one that does not say its version");
        let read = decode(&item("command/k", unversioned.into())).expect("a command");
        assert_eq!(read.command, request().command);
        let line = lines.next().expect("one of this version");
        let read = decode(&item("command/k", line.into())).expect("a command");
        assert_eq!(String::from_utf8(encode(&read)).expect("text"), line);
        assert_eq!(encode(&request()), line.as_bytes());
        assert!(lines.next().is_none());
    }

    #[test]
    fn a_command_of_a_newer_version_is_left_alone() {
        let current = String::from_utf8(encode(&request())).expect("text");
        let newer = current.replacen("\"v\":1", "\"v\":2", 1);
        assert!(is_newer(&item("command/k", newer.into())));
        assert!(!is_newer(&item("command/k", current.into())));
        assert!(!is_newer(&item("command/k", b"{}".to_vec())));
    }

    #[test]
    fn an_item_under_another_key_or_of_other_bytes_is_no_command() {
        assert!(decode(&item("command/other", encode(&request()))).is_none());
        assert!(decode(&item("command/k", b"{}".to_vec())).is_none());
        let keyless: CommandRequest = RunCommand::Pause.by(Actor::default());
        assert!(decode(&item("command/k", encode(&keyless))).is_none());
    }

    #[test]
    fn every_refusal_reaches_its_caller_as_the_owner_worded_it() {
        let request = request();
        let key = request.actor.request.clone().expect("a key");
        let refusals = [
            Refusal::NotNow("the run is paused already".into()),
            Refusal::InTheWay(vec![3]),
            Refusal::UnknownSignal("go".into()),
            Refusal::RunEnded,
            Refusal::KeyReused("k".into()),
        ];
        let refused_as = |refusal| CommandError::Refused {
            refusal,
            nodes: vec!["a".to_owned()],
        };
        let others = [
            CommandError::UnknownNode("a/b".to_owned()),
            CommandError::AmbiguousNode(AmbiguousName {
                name: "Tell".into(),
                nodes: vec!["n_1".to_owned(), "n_2".to_owned()],
            }),
            CommandError::SignalInvalid(PayloadError::Invalid(vec![("/a".into(), "no".into())])),
            CommandError::SignalName,
            CommandError::ResultInvalid(PayloadError::TooDeep(9)),
            LoadError::Unavailable(Unavailable::Dead).into(),
            LoadError::Definition("gone".to_owned()).into(),
        ];
        for error in refusals.map(refused_as).into_iter().chain(others) {
            let worded = format!("{error:?}");
            let bytes = refusal(Some(&request), error);
            let Refused::This(read) = refused(&key, &bytes) else {
                panic!("{worded} is about another command");
            };
            assert_eq!(format!("{read:?}"), worded);
        }
    }

    #[test]
    fn a_refusal_of_another_command_under_the_same_key_is_recognised() {
        let bytes = refusal(Some(&request()), CommandError::SignalName);
        let pause: CommandRequest = RunCommand::Pause.by(Actor::default());
        let key = pause.keyed(Some("k")).actor.request.expect("a key");
        assert!(matches!(refused(&key, &bytes), Refused::Another));
        assert!(matches!(refused(&key, b"new"), Refused::This(_)));
    }
}
