//! Wake-ups: plain messages without JetStream, which may be lost. The bell of a partition rings
//! after the database has what this process published before: its owner, who looks at rows, finds
//! them. The others are about what is not in rows.
//!
//! What comes with the inbox and the work queue rings by itself when this process has it
//! (`mirror.rs`): a bell that was rung for it by another process may be heard before.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use async_nats::{Client, Subscriber};
use futures_util::StreamExt as _;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use windlass_core::RunId;
use windlass_store::{Bell, Error, Listener, Partition, Pending, Wakes};

use crate::error::unavailable;
use crate::store::{NatsStore, blockable};

/// How often a listener looks whether the connection was lost meanwhile.
const LOOK: Duration = Duration::from_secs(1);

fn written(bells: &[Bell]) -> String {
    let each = bells.iter().map(|bell| match bell {
        Bell::Sessions => "sessions".to_owned(),
        Bell::Partition(partition) => format!("partition {partition}"),
        Bell::Run(run) => format!("run {run}"),
        Bell::Watch(partition, run) => format!("watch {partition} {run}"),
        Bell::Offered(partition, run) => format!("offered {partition} {run}"),
        Bell::Definitions => "definitions".to_owned(),
        Bell::Work => "work".to_owned(),
        Bell::Requests => "requests".to_owned(),
    });
    each.collect::<Vec<_>>().join("\n")
}

/// A bell; one that a newer process rings and this one does not know is passed over.
fn read(line: &str) -> Option<Bell> {
    let mut parts = line.split(' ');
    let kind = parts.next()?;
    let mut partition = || parts.next()?.parse().ok().map(Partition);
    Some(match kind {
        "sessions" => Bell::Sessions,
        "partition" => Bell::Partition(partition()?),
        "run" => Bell::Run(parts.next()?.parse::<RunId>().ok()?),
        "watch" | "offered" => {
            let partition = partition()?;
            let run = parts.next()?.parse::<RunId>().ok()?;
            match kind {
                "watch" => Bell::Watch(partition, run),
                _ => Bell::Offered(partition, run),
            }
        }
        "definitions" => Bell::Definitions,
        "work" => Bell::Work,
        "requests" => Bell::Requests,
        _ => return None,
    })
}

impl Wakes for NatsStore {
    fn ring(&self, bells: &[Bell]) -> Pending<'_, Result<(), Error>> {
        let text = written(bells);
        let of_rows = bells.iter().any(|bell| matches!(bell, Bell::Partition(_)));
        self.task(move |inner| async move {
            if of_rows {
                inner.barrier().await?;
            }
            let sent = inner
                .client
                .publish(inner.names.bells(), text.into_bytes().into());
            sent.await
                .map_err(|error| unavailable("a bell cannot be rung", &error))
        })
    }

    fn listen(&self) -> Pending<'_, Result<Box<dyn Listener>, Error>> {
        NatsStore::task(self, move |inner| async move {
            let listening = inner.client.subscribe(inner.names.bells()).await;
            let bells = listening.map_err(|error| unavailable("bells cannot be heard", &error))?;
            // The server has the subscription when this returns.
            let flushed = inner.client.flush().await;
            flushed.map_err(|error| unavailable("bells cannot be heard", &error))?;
            let rung = inner.bells.listener();
            let gathering = gather(inner.client.clone(), bells, Arc::clone(&rung));
            let task = tokio::spawn(gathering);
            let heard: Box<dyn Listener> = Box::new(Heard { rung, task });
            Ok(heard)
        })
    }
}

/// The listeners of this process.
#[derive(Default)]
pub(crate) struct Bells {
    listeners: Mutex<Vec<Weak<Rung>>>,
}

impl Bells {
    fn listeners(&self) -> MutexGuard<'_, Vec<Weak<Rung>>> {
        let listeners = self.listeners.lock();
        listeners.unwrap_or_else(PoisonError::into_inner)
    }

    fn listener(&self) -> Arc<Rung> {
        let rung = Arc::new(Rung::default());
        let mut listeners = self.listeners();
        listeners.retain(|it| it.strong_count() > 0);
        listeners.push(Arc::downgrade(&rung));
        rung
    }

    /// Rings in this process alone.
    pub(crate) fn ring(&self, bell: Bell) {
        for listener in self.listeners().iter().filter_map(Weak::upgrade) {
            listener.waiting().0.insert(bell);
            listener.changed.notify_one();
        }
    }

    /// Bells may have been lost.
    pub(crate) fn lost(&self) {
        for listener in self.listeners().iter().filter_map(Weak::upgrade) {
            listener.lost();
        }
    }
}

/// What has rung and was not heard yet.
#[derive(Default)]
struct Rung {
    waiting: Mutex<(BTreeSet<Bell>, bool)>,
    changed: Notify,
}

impl Rung {
    fn waiting(&self) -> MutexGuard<'_, (BTreeSet<Bell>, bool)> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, payload: &[u8]) {
        let text = String::from_utf8_lossy(payload);
        self.waiting().0.extend(text.lines().filter_map(read));
        self.changed.notify_one();
    }

    fn lost(&self) {
        self.waiting().1 = true;
        self.changed.notify_one();
    }
}

/// Gathers bells on the store's threads.
async fn gather(client: Client, mut bells: Subscriber, rung: Arc<Rung>) {
    let connects = || client.statistics().connects.load(Ordering::Relaxed);
    let mut known = connects();
    loop {
        match tokio::time::timeout(LOOK, bells.next()).await {
            Ok(Some(message)) => rung.add(&message.payload),
            Ok(None) => return rung.lost(),
            Err(_) => {}
        }
        if connects() != known {
            known = connects();
            rung.lost();
        }
    }
}

struct Heard {
    rung: Arc<Rung>,
    task: JoinHandle<()>,
}

impl Drop for Heard {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Heard {
    async fn next(&mut self) -> Result<Vec<Bell>, Error> {
        loop {
            // Registered before the look, so that what comes in between is noticed.
            let changed = self.rung.changed.notified();
            let (bells, lost) = std::mem::take(&mut *self.rung.waiting());
            if lost {
                let lost = "the connection to NATS was lost; bells may have been lost";
                return Err(Error::Unavailable(lost.into()));
            }
            if !bells.is_empty() {
                return Ok(bells.into_iter().collect());
            }
            changed.await;
        }
    }
}

impl Listener for Heard {
    fn hear(&mut self) -> Pending<'_, Result<Vec<Bell>, Error>> {
        blockable(self.next())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_core::Millis;

    #[test]
    fn every_bell_comes_back() {
        let run = RunId::new(Millis(1), [7; 10]);
        let bells = [
            Bell::Sessions,
            Bell::Partition(Partition(3)),
            Bell::Run(run),
            Bell::Watch(Partition(4), run),
            Bell::Offered(Partition(4), run),
            Bell::Definitions,
            Bell::Work,
            Bell::Requests,
        ];
        let back: Vec<Bell> = written(&bells).lines().filter_map(read).collect();
        assert_eq!(back, bells);
        assert_eq!(read("of a newer process"), None);
    }
}
