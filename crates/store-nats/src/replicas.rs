//! How many servers keep each stream: what a process that starts changes of it, and what health
//! says of it. It knows nothing of what the streams hold.
//!
//! | the settings name | a stream that has fewer | a stream that has more |
//! | --- | --- | --- |
//! | nothing | stays | stays |
//! | a number | is raised | stays |
//! | a number, by a server | is raised | is lowered |

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use async_nats::jetstream::stream::{Info, PeerInfo};

use crate::settings::Settings;

/// A server that the leader of a stream has not heard for so long is away. The servers hear each
/// other every second, and call one of them offline later.
const SILENT: Duration = Duration::from_secs(10);

/// How many replicas streams are to have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Replicas {
    named: Option<usize>,
    lowers: bool,
    /// What the other streams have, if there are any.
    there: Option<usize>,
}

impl Replicas {
    /// No stream is changed.
    pub(crate) const AS_THEY_ARE: Self = Self {
        named: None,
        lowers: false,
        there: None,
    };

    /// What the settings ask for, where streams have so many now.
    pub(crate) fn wanted(settings: &Settings, there: Option<usize>) -> Self {
        Self {
            named: settings.replicas,
            lowers: settings.lowers_replicas,
            there,
        }
    }

    /// What a stream that has so many is to have.
    pub(crate) fn of_found(self, found: usize) -> usize {
        match self.named {
            Some(named) if self.lowers => named,
            Some(named) => named.max(found),
            None => found,
        }
    }

    /// What a stream gets that is made now.
    pub(crate) fn of_new(self) -> usize {
        match self.there {
            Some(there) => self.of_found(there),
            None => self.named.unwrap_or(1),
        }
    }
}

/// What is worth knowing of the replicas of these streams: the least number, streams that have
/// fewer than the others or than the settings name, and servers that lack messages.
pub(crate) fn facts(named: Option<usize>, streams: &[Info]) -> Vec<(String, String)> {
    let counts = || streams.iter().map(kept_by);
    let least = counts().min().unwrap_or_default();
    let most = counts().max().max(named).unwrap_or_default();
    let mut facts = vec![("nats_replicas".to_owned(), least.to_string())];
    for stream in streams.iter().filter(|it| kept_by(it) < most) {
        let text = format!(
            "{} has {} of {most} replicas",
            stream.config.name,
            kept_by(stream)
        );
        facts.push(("nats_replicas_missing".to_owned(), text));
    }
    let (mut offline, mut behind) = (BTreeMap::new(), BTreeMap::new());
    for stream in streams {
        let peers = stream.cluster.iter().flat_map(|it| &it.replicas);
        for peer in peers.filter(|it| is_away(it) || !it.current) {
            let servers = match is_away(peer) {
                true => &mut offline,
                false => &mut behind,
            };
            let lacking: &mut BTreeSet<&str> = servers.entry(&*peer.name).or_default();
            lacking.insert(&stream.config.name);
        }
    }
    for (name, servers) in [("nats_offline", offline), ("nats_behind", behind)] {
        for (server, streams) in servers {
            let streams: Vec<&str> = streams.into_iter().collect();
            let text = format!("{server}, with replicas of {}", streams.join(", "));
            facts.push((name.to_owned(), text));
        }
    }
    facts
}

fn is_away(peer: &PeerInfo) -> bool {
    peer.offline || (!peer.current && peer.active >= SILENT)
}

/// How many servers are to keep a stream. One that was removed from the cluster leaves fewer than
/// the configuration says.
fn kept_by(stream: &Info) -> usize {
    let configured = stream.config.num_replicas;
    match &stream.cluster {
        // The leader is not in the list.
        Some(cluster) => configured.min(cluster.replicas.len() + 1),
        None => configured,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_raised_for_any_setting_and_lowered_for_a_server_alone() {
        let wanted = |named, lowers, there| Replicas {
            named,
            lowers,
            there,
        };
        for (named, lowers, there, expected) in [
            (None, false, None, 1),
            (None, true, None, 1),
            (None, true, Some(3), 3),
            (Some(3), false, None, 3),
            (Some(3), false, Some(1), 3),
            (Some(1), false, Some(3), 3),
            (Some(1), true, Some(3), 1),
        ] {
            let replicas = wanted(named, lowers, there);
            assert_eq!(replicas.of_new(), expected, "{replicas:?}");
            let found = there.map(|it| replicas.of_found(it));
            assert!(found.is_none_or(|it| it == expected), "{replicas:?}");
        }
        assert_eq!(Replicas::AS_THEY_ARE.of_found(3), 3);
    }

    fn stream(name: &str, replicas: usize, peers: &str) -> Info {
        let info = format!(
            r#"{{"config":{{"name":"{name}","retention":"limits","discard":"new","storage":"file",
            "num_replicas":{replicas},"deny_purge":false}},"created":"2026-01-01T00:00:00Z",
            "state":{{"messages":0,"bytes":0,"first_seq":0,"first_ts":"2026-01-01T00:00:00Z",
            "last_seq":0,"last_ts":"2026-01-01T00:00:00Z","consumer_count":0}},
            "cluster":{{"leader":"a","replicas":[{peers}]}},"ts":"2026-01-01T00:00:00Z"}}"#
        );
        serde_json::from_str(&info).unwrap()
    }

    #[test]
    fn streams_with_fewer_replicas_and_servers_that_are_away_are_named() {
        let peer = |name: &str, current: bool, offline: bool| {
            format!(r#"{{"name":"{name}","current":{current},"offline":{offline},"active":1}}"#)
        };
        let whole = format!("{},{}", peer("b", true, false), peer("c", false, true));
        let streams = [
            stream("LOG_0", 3, &whole),
            stream("LOG_1", 3, &whole),
            stream("WORK", 3, &peer("b", false, false)),
            stream("INBOX", 1, ""),
        ];
        let told: Vec<String> = facts(None, &streams)
            .into_iter()
            .map(|(name, text)| format!("{name}: {text}"))
            .collect();
        let expected = [
            "nats_replicas: 1",
            "nats_replicas_missing: WORK has 2 of 3 replicas",
            "nats_replicas_missing: INBOX has 1 of 3 replicas",
            "nats_offline: c, with replicas of LOG_0, LOG_1",
            "nats_behind: b, with replicas of WORK",
        ];
        assert_eq!(told, expected);
        let alone = facts(Some(3), &streams[3..]);
        assert_eq!(alone[1].1, "INBOX has 1 of 3 replicas");
    }
}
