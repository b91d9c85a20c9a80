//! The two connections for wake-ups: one that notifies and one that listens, each opened when it
//! is first needed. Notifications never go with an append: `NOTIFY` takes a lock on the whole
//! database when it commits. An offer or an item of the queue that comes alone brings its own. A ring
//! that comes alone goes out at once. Once several came together, many runs are at work, and those of
//! the next few milliseconds share a notification.

use std::collections::hash_map::RandomState;
use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;
use std::hash::{BuildHasher as _, Hasher as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use tokio::runtime::Handle;
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_postgres::{AsyncMessage, Client};
use windlass_core::RunId;
use windlass_store::{Bell, Error, InboxItem, Offer, Partition};

use crate::connect::{Access, Kind, quoted};
use crate::error::from_postgres;
use crate::store::closed;
use crate::wakes::Ear;

/// Rings within this time after several that went out together go out together, too.
const GATHER: Duration = Duration::from_millis(5);

/// A notification holds less than 8,000 bytes.
const MOST_BYTES: usize = 7_000;

/// A longer offer does not go with its bell.
const MOST_ITEM: usize = 3_000;

/// How long a new listener waits for its own sign before it sends it again, and how often.
const SIGN_TIME: Duration = Duration::from_secs(2);
const MOST_SIGNS: usize = 5;

/// How long the listener waits before it connects again.
const FIRST_WAIT: Duration = Duration::from_millis(50);
const LONGEST_WAIT: Duration = Duration::from_secs(2);

/// The channel of bells.
pub(crate) fn channel(schema: &str) -> String {
    format!("windlass_{schema}")
}

/// Bells, or the sign of a listener that is about to begin.
struct Ring {
    bells: Vec<Bell>,
    sign: Option<String>,
    reply: oneshot::Sender<Result<(), Error>>,
}

/// The wake-ups of one process.
pub(crate) struct Bells {
    rings: mpsc::UnboundedSender<Ring>,
    tower: Arc<Tower>,
    tasks: [JoinHandle<()>; 2],
}

/// What the listening task shares with callers.
#[derive(Default)]
struct Tower {
    state: Mutex<Ears>,
    wanted: Notify,
    /// Whether the connection listens now.
    listens: watch::Sender<bool>,
}

#[derive(Default)]
struct Ears {
    ears: Vec<Weak<Ear>>,
    signs: HashMap<String, oneshot::Sender<Arc<Ear>>>,
}

impl Bells {
    pub(crate) fn start(access: &Access, schema: &str, items: &str, home: &Handle) -> Self {
        let channel = channel(schema);
        let channels = [channel.clone(), items.to_owned()];
        let (rings, receiver) = mpsc::unbounded_channel();
        let tower = Arc::new(Tower::default());
        let notifier = Notifier {
            access: access.clone(),
            channel: channel.clone(),
            client: None,
        };
        let notifying = home.spawn(notifier.run(receiver));
        let listening = home.spawn(listen(access.clone(), channels, Arc::clone(&tower)));
        Self {
            rings,
            tower,
            tasks: [notifying, listening],
        }
    }

    pub(crate) async fn ring(&self, bells: Vec<Bell>) -> Result<(), Error> {
        match bells.is_empty() {
            true => Ok(()),
            false => self.send(bells, None).await,
        }
    }

    /// Rings without waiting until the bells went out.
    pub(crate) fn ring_beside(&self, bells: Vec<Bell>) {
        if bells.is_empty() {
            return;
        }
        let reply = oneshot::channel().0;
        // A hint, also of a store that is closed.
        let _ = self.rings.send(Ring {
            bells,
            sign: None,
            reply,
        });
    }

    async fn send(&self, bells: Vec<Bell>, sign: Option<String>) -> Result<(), Error> {
        let (reply, answer) = oneshot::channel();
        let ring = Ring { bells, sign, reply };
        self.rings.send(ring).map_err(|_| closed())?;
        answer.await.map_err(|_| closed())?
    }

    /// A new listener. It begins when it hears its own sign, so that it hears nothing that was
    /// rung before, and everything after.
    pub(crate) async fn listen(&self) -> Result<Arc<Ear>, Error> {
        for _ in 0..MOST_SIGNS {
            let sign = format!("t{:016x}", RandomState::new().build_hasher().finish());
            let (begin, begun) = oneshot::channel();
            self.tower.ears().signs.insert(sign.clone(), begin);
            self.tower.wanted.notify_one();
            let mut listens = self.tower.listens.subscribe();
            let heard = async {
                // What is sent before that would not come back.
                let ready = listens.wait_for(|listens| *listens).await;
                drop(ready.map_err(|_| closed())?);
                self.send(Vec::new(), Some(sign.clone())).await?;
                begun.await.map_err(|_| closed())
            };
            let heard = timeout(SIGN_TIME, heard).await;
            self.tower.ears().signs.remove(&sign);
            if let Ok(ear) = heard {
                return ear;
            }
        }
        let text = "the database does not deliver notifications; connect to it directly, not \
                    through a pooler of transactions";
        Err(Error::Unavailable(text.into()))
    }
}

impl Drop for Bells {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl Tower {
    fn ears(&self) -> MutexGuard<'_, Ears> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn each(&self, tell: impl Fn(&Ear)) {
        self.ears().ears.retain(|ear| match ear.upgrade() {
            Some(ear) => {
                tell(&ear);
                true
            }
            None => false,
        });
    }

    /// Any role may notify a channel whose name it can guess. So items are believed only from their
    /// own channel, whose name stands in the schema; from another, their run is read.
    fn heard(&self, payload: &str, has_items: bool) {
        let (mut bells, mut items, mut unread) = (Vec::new(), Vec::new(), Vec::new());
        for word in payload.split(',') {
            let Some(bell) = bell(word) else {
                self.begin(word);
                continue;
            };
            bells.push(bell);
            match (bell, item(word).filter(|_| has_items)) {
                (_, Some(item)) => items.push(item),
                (Bell::Offered(_, run), None) => unread.push(run),
                _ => {}
            }
        }
        if !bells.is_empty() {
            self.each(|ear| ear.rung(&bells, &items, &unread));
        }
    }

    fn begin(&self, sign: &str) {
        let mut ears = self.ears();
        if let Some(begin) = ears.signs.remove(sign) {
            let ear = Arc::new(Ear::default());
            ears.ears.push(Arc::downgrade(&ear));
            // A caller that gave up has no ear.
            let _ = begin.send(ear);
        }
    }
}

/// The bell for an offer, with the offer in it if it is short: the owner need not read it.
pub(crate) fn with_item(offer: &Offer) -> String {
    let bell = word(Bell::Offered(offer.partition, offer.run));
    let is_plain = |it: u8| it.is_ascii_graphic() && it != b',' && it != b'.';
    if offer.bytes.len() > MOST_ITEM || offer.key.len() > 200 || !offer.key.bytes().all(is_plain) {
        return bell;
    }
    let mut text = format!("{bell}.{}.", offer.key);
    for byte in &offer.bytes {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// The offer in a bell.
fn item(word: &str) -> Option<(RunId, InboxItem)> {
    let mut parts = word.strip_prefix('o')?.splitn(4, '.').skip(1);
    let run = parts.next()?.parse().ok()?;
    let (key, hex) = (parts.next()?, parts.next()?);
    let digits: Option<Vec<u8>> = hex
        .bytes()
        .map(|it| u8::try_from(char::from(it).to_digit(16)?).ok())
        .collect();
    let bytes = digits?
        .chunks_exact(2)
        .map(|it| it[0] << 4 | it[1])
        .collect();
    let item = InboxItem {
        number: 0,
        key: key.into(),
        bytes,
    };
    Some((run, item))
}

fn word(bell: Bell) -> String {
    match bell {
        Bell::Sessions => "s".into(),
        Bell::Definitions => "d".into(),
        Bell::Work => "w".into(),
        Bell::Requests => "q".into(),
        Bell::Partition(partition) => format!("p{partition}"),
        Bell::Run(run) => format!("r{run}"),
        Bell::Watch(partition, run) => format!("v{partition}.{run}"),
        Bell::Offered(partition, run) => format!("o{partition}.{run}"),
    }
}

/// `None` for the sign of a listener, or what a newer program rings.
fn bell(word: &str) -> Option<Bell> {
    match word {
        "s" => return Some(Bell::Sessions),
        "d" => return Some(Bell::Definitions),
        "w" => return Some(Bell::Work),
        "q" => return Some(Bell::Requests),
        _ => {}
    }
    let (kind, rest) = word.split_at_checked(1)?;
    match kind {
        "p" => rest
            .parse()
            .ok()
            .map(|number| Bell::Partition(Partition(number))),
        "r" => rest.parse().ok().map(Bell::Run),
        "o" | "v" => {
            let (partition, rest) = rest.split_once('.')?;
            let run = rest.split('.').next()?;
            let (partition, run) = (Partition(partition.parse().ok()?), run.parse().ok()?);
            Some(match kind {
                "o" => Bell::Offered(partition, run),
                _ => Bell::Watch(partition, run),
            })
        }
        _ => None,
    }
}

struct Notifier {
    access: Access,
    channel: String,
    client: Option<Client>,
}

const NOTIFY: &str = "select pg_notify($1, p) from unnest($2::text[]) p";

impl Notifier {
    async fn run(mut self, mut rings: mpsc::UnboundedReceiver<Ring>) {
        let mut quiet_until = Instant::now();
        while let Some(first) = rings.recv().await {
            sleep_until(quiet_until).await;
            let mut waiting = vec![first];
            while let Ok(next) = rings.try_recv() {
                waiting.push(next);
            }
            let sent = self.notify(&payloads(&waiting)).await;
            // A chain whose nodes another process works on rings once for each node: waiting
            // would make every node as long as the pause.
            if waiting.len() > 1 {
                quiet_until = Instant::now() + GATHER;
            }
            for ring in waiting {
                // A caller that is gone does not need its answer.
                let _ = ring.reply.send(sent.clone());
            }
        }
    }

    async fn notify(&mut self, payloads: &[String]) -> Result<(), Error> {
        let client = match self.client.take().filter(|client| !client.is_closed()) {
            Some(client) => client,
            None => self.access.open(Kind::Wakes).await?.0,
        };
        let sent = client.execute(NOTIFY, &[&self.channel, &payloads]).await;
        match sent {
            Ok(_) => {
                self.client = Some(client);
                Ok(())
            }
            Err(error) => Err(from_postgres(&error)),
        }
    }
}

/// Each bell once, in as few notifications as hold them.
fn payloads(rings: &[Ring]) -> Vec<String> {
    let bells: BTreeSet<Bell> = rings
        .iter()
        .flat_map(|ring| ring.bells.iter().copied())
        .collect();
    let bells = bells.into_iter().map(word);
    let signs = rings.iter().filter_map(|ring| ring.sign.clone());
    let mut payloads: Vec<String> = Vec::new();
    // A listener that begins here has not heard the bells before its sign.
    for word in bells.chain(signs) {
        match payloads.last_mut() {
            Some(last) if last.len() + word.len() < MOST_BYTES => {
                // Writing to a string does not fail.
                let _ = write!(last, ",{word}");
            }
            _ => payloads.push(word),
        }
    }
    payloads
}

/// Listens for as long as the store is open, and connects again when the connection is lost.
async fn listen(access: Access, channels: [String; 2], tower: Arc<Tower>) {
    tower.wanted.notified().await;
    let mut wait = FIRST_WAIT;
    loop {
        let lost = match hear_all(&access, &channels, &tower, &mut wait).await {
            Ok(()) => Error::Unavailable("the connection for notifications was closed".into()),
            Err(error) => error,
        };
        tower.listens.send_replace(false);
        tower.each(|ear| ear.missed(&lost));
        sleep(wait).await;
        wait = (wait * 2).min(LONGEST_WAIT);
    }
}

async fn hear_all(
    access: &Access,
    channels: &[String; 2],
    tower: &Arc<Tower>,
    wait: &mut Duration,
) -> Result<(), Error> {
    let opened = access.config.connect(access.tls.clone()).await;
    let (client, mut connection) = opened.map_err(|error| access.away(&error))?;
    let mut messages = stream::poll_fn(move |context| connection.poll_message(context));
    let (hears, items_channel) = (Arc::clone(tower), channels[1].clone());
    let hearing = async move {
        while let Some(message) = messages.next().await {
            match message {
                Ok(AsyncMessage::Notification(told)) => {
                    hears.heard(told.payload(), told.channel() == items_channel);
                }
                Ok(_) => {}
                Err(error) => return Err(from_postgres(&error)),
            }
        }
        Ok(())
    };
    let listening = async {
        let [bells, items] = channels.each_ref().map(|it| quoted(it));
        let sql = format!("listen {bells}; listen {items}");
        let begun = client.batch_execute(&sql).await;
        begun.map_err(|error| from_postgres(&error))?;
        *wait = FIRST_WAIT;
        // Listeners of an earlier connection may have missed something.
        let again = Error::Unavailable("notifications were interrupted".into());
        tower.each(|ear| ear.missed(&again));
        tower.listens.send_replace(true);
        // The client keeps the connection open.
        std::future::pending::<Result<(), Error>>().await
    };
    tokio::select! {
        heard = hearing => heard,
        failed = listening => failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_core::Millis;

    #[test]
    fn bells_are_written_and_read_each_once() {
        let run = RunId::new(Millis(5), [3; 10]);
        let all = [
            Bell::Sessions,
            Bell::Definitions,
            Bell::Work,
            Bell::Requests,
            Bell::Partition(Partition(63)),
            Bell::Run(run),
            Bell::Watch(Partition(7), run),
            Bell::Offered(Partition(7), run),
        ];
        for one in all {
            assert_eq!(bell(&word(one)), Some(one));
        }
        let offer = |key: &str, bytes: &[u8]| Offer {
            run,
            partition: Partition(7),
            key: key.into(),
            bytes: bytes.to_vec(),
        };
        let short = with_item(&offer("outcome/7/2/2a", b"{,.\x00}"));
        assert_eq!(bell(&short), Some(Bell::Offered(Partition(7), run)));
        let (of, brought) = item(&short).expect("it is short");
        assert_eq!(
            (of, &*brought.key, &*brought.bytes),
            (run, "outcome/7/2/2a", &b"{,.\x00}"[..])
        );
        for apart in [
            offer("outcome/1", &[0; MOST_ITEM + 1]),
            offer("a,b", b"1"),
            offer("a.b", b"1"),
        ] {
            let word = with_item(&apart);
            assert_eq!(bell(&word), Some(Bell::Offered(Partition(7), run)));
            assert!(item(&word).is_none() && !word.contains(','));
        }
        assert_eq!(bell("t00"), None);
        assert_eq!(bell(""), None);
        assert_eq!(bell("é"), None);
        let ring = |bells: &[Bell], sign: Option<&str>| Ring {
            bells: bells.to_vec(),
            sign: sign.map(Into::into),
            reply: oneshot::channel().0,
        };
        let rings = [ring(&all[..1], Some("t1")), ring(&all[..1], None)];
        assert_eq!(payloads(&rings), ["s,t1"]);
        let many: Vec<Bell> = (0..5000).map(|n| Bell::Partition(Partition(n))).collect();
        let payloads = payloads(&[ring(&many, None)]);
        assert!(payloads.len() > 1 && payloads.iter().all(|it| it.len() < 8000));
        let words: usize = payloads.iter().map(|it| it.split(',').count()).sum();
        assert_eq!(words, many.len());
    }
}
