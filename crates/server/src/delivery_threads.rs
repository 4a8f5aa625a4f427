//! DeliveryThreads of the publisher under a loop: started when somebody first needs them, heard by the loop, ended beside it.
//!
//! Does        start them, bring the loop what their connections say and who has left, end them on a thread of its own.
//! Holds       1. halls never wait for the loop: what is said is queued, and the loop is woken;
//!             2. the queue is bounded; whoever asks more than it is answered is not read from meanwhile.
//! Start at    [`DeliveryThreads::start`], [`DeliveryThreads::hear`].

use std::collections::VecDeque;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;

use pitwire_net::Waker;
use pitwire_publisher::{
    Answer, ClientMessage, CloseCode, DeliveryHandler, LagAnswer, Limits, Options, Publisher, Reply, Request, StreamId,
    SubscriberId, SubscriberSetup, weight,
};
use tracing::error;

/// Of what connections have said and nobody has looked at.
const HEARD_MOST: usize = 8_192;
/// Most of it that is looked at in one turn of the loop; orders must not wait for more.
const HEARD_AT_A_TIME: usize = 32;
/// ... and so many bytes. No message is longer: a thousand names of streams have room in half of it.
const HEARD_BYTES: usize = 64 * 1024;
/// DeliveryThreads have their own copy of every stream: a few, on a machine with many cores.
const HALLS_MOST: usize = 4;

pub struct DeliveryThreads {
    limits: Limits,
    running: Option<Arc<Publisher>>,
    said: Receiver<(SubscriberId, String)>,
    left: Receiver<(u64, ThreadEvent)>,
    asked: Receiver<Behind>,
    /// Each with how many texts there had been when it left.
    leaving: VecDeque<(u64, ThreadEvent)>,
    /// Who waits to be brought up to date: each at most once for each of its streams.
    behind: VecDeque<Behind>,
    /// So many have been heard.
    heard: u64,
    ear: Arc<InboundQueue>,
    ending: Option<JoinHandle<()>>,
}

/// The halls' side of what is heard.
struct InboundQueue {
    said: SyncSender<(SubscriberId, String)>,
    /// Texts that have been put there, or are just about to be.
    put: AtomicU64,
    left: Sender<(u64, ThreadEvent)>,
    asked: Sender<Behind>,
    waker: Waker,
}

impl DeliveryHandler for InboundQueue {
    /// DeliveryThreads accept nothing themselves.
    fn open(&self, _: &Request<'_>) -> Result<SubscriberSetup, Answer> {
        Err(Answer::text(404, "connect to the venue's own port"))
    }

    fn said(&self, from: SubscriberId, said: ClientMessage<'_>, reply: &mut Reply) {
        match said {
            ClientMessage::Text(text) if text.len() > HEARD_BYTES => {
                reply.close(CloseCode::TooBig, "a request is at most 64 KiB")
            }
            ClientMessage::Text(text) if self.put(from, text) => {
                reply.wait();
                self.waker.wake();
            }
            ClientMessage::Text(_) => {
                reply.close(CloseCode::TryAgainLater, "too many requests: connect again in a moment")
            }
            ClientMessage::Binary(_) => reply.close(CloseCode::Unsupported, "send JSON as text frames"),
        }
    }

    fn behind(&self, who: SubscriberId, stream: StreamId, read: u64) {
        // Once the loop is gone nobody is brought up to date any more.
        if self.asked.send(Behind { who, stream, read }).is_ok() {
            self.waker.wake();
        }
    }

    fn left(&self, from: SubscriberId) {
        self.leaves(ThreadEvent::Left(from));
    }
}

impl InboundQueue {
    fn put(&self, from: SubscriberId, text: &str) -> bool {
        // Counted first: whoever leaves behind it must not seem to have left before.
        self.put.fetch_add(1, Ordering::SeqCst);
        let is_put = self.said.try_send((from, text.to_owned())).is_ok();
        if !is_put {
            self.put.fetch_sub(1, Ordering::SeqCst);
        }
        is_put
    }

    fn leaves(&self, how: ThreadEvent) {
        // Once the loop is gone nobody waits for it any more.
        if self.left.send((self.put.load(Ordering::SeqCst), how)).is_ok() {
            self.waker.wake();
        }
    }
}

/// A reader of a stream whose lag is [`Ask`](pitwire_publisher::LagPolicy::Ask) has fallen behind. To be followed by
/// [`Order::LagAnswer`], unless it leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Behind {
    pub who: SubscriberId,
    pub stream: StreamId,
    /// The number of the last message that it has got.
    pub read: u64,
}

/// What one turn of the loop may still hear.
pub struct TurnBudget {
    texts: usize,
    bytes: usize,
    has_begun: bool,
}

/// What a connection in the halls has done. It leaves after all that it said.
pub enum ThreadEvent {
    /// To be followed by [`Order::Heard`], or soon no more of it is read.
    Text(SubscriberId, String),
    Left(SubscriberId),
}

impl Default for TurnBudget {
    fn default() -> Self {
        TurnBudget { texts: HEARD_AT_A_TIME, bytes: HEARD_BYTES, has_begun: false }
    }
}

/// Something to be done in the halls, in its turn among messages.
pub enum Order {
    Adopt(Box<Adopted>),
    Tell(SubscriberId, Vec<u8>),
    Join(SubscriberId, StreamId),
    Leave(SubscriberId, StreamId),
    /// Nobody reads it: its next message comes behind this number.
    Begin(StreamId, u64),
    LagAnswer(Behind, LagAnswer),
    Close(SubscriberId, CloseCode, String),
    /// A text of so many bytes has been acted on, and the answers told: the next may be read.
    Heard(SubscriberId, usize),
}

/// A socket on its way into a hall.
pub struct Adopted {
    pub socket: TcpStream,
    pub tls: Option<pitwire_net::Session>,
    pub tag: SubscriberId,
    /// What was read behind the handshake.
    pub rest: Vec<u8>,
    /// The answer to the handshake, if it has not been sent.
    pub hello: Vec<u8>,
    pub opening: SubscriberSetup,
}

impl Order {
    pub fn carry_out(self, halls: &Publisher) {
        match self {
            Order::Adopt(adopted) => {
                let Adopted { socket, tls, tag, rest, hello, opening } = *adopted;
                halls.adopt_open(socket, tls, tag, rest, hello, opening);
            }
            Order::Tell(tag, payload) => halls.tell(tag, &payload),
            Order::Join(tag, ring) => halls.join(tag, ring),
            Order::Leave(tag, ring) => halls.leave(tag, ring),
            Order::Begin(ring, number) => halls.begin(ring, number),
            Order::LagAnswer(Behind { who, stream, read }, how) => halls.go_on(who, stream, read, how),
            Order::Close(tag, code, reason) => halls.close(tag, code, &reason),
            Order::Heard(tag, bytes) => halls.heard(tag, weight(bytes)),
        }
    }
}

impl DeliveryThreads {
    /// `waker` wakes the loop in whose turns [`Self::said`] is called.
    pub fn new(limits: Limits, waker: &Waker) -> DeliveryThreads {
        let ((say, said), (leave, left), (ask, asked)) = (sync_channel(HEARD_MOST), channel(), channel());
        let ear = InboundQueue { said: say, put: AtomicU64::new(0), left: leave, asked: ask, waker: waker.clone() };
        DeliveryThreads {
            limits,
            running: None,
            said,
            left,
            asked,
            leaving: VecDeque::new(),
            behind: VecDeque::new(),
            heard: 0,
            ear: Arc::new(ear),
            ending: None,
        }
    }

    /// The halls, started if they were not. An error is for whoever asked for them.
    pub fn start(&mut self) -> Result<Arc<Publisher>, String> {
        if let Some(halls) = &self.running {
            return Ok(Arc::clone(halls));
        }
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let halls = cores.saturating_sub(1).clamp(1, HALLS_MOST);
        let options = Options { threads: halls, limits: self.limits.clone(), ..Options::default() };
        let programme: Arc<dyn DeliveryHandler> = Arc::clone(&self.ear) as _;
        match Publisher::start(options, programme) {
            Ok(halls) => Ok(Arc::clone(self.running.insert(Arc::new(halls)))),
            Err(error) => {
                error!(%error, "cannot start the threads that serve streams");
                Err("streams cannot be served just now".into())
            }
        }
    }

    pub fn running(&self) -> Option<&Arc<Publisher>> {
        self.running.as_ref()
    }

    /// The next thing to be heard, as long as this turn has attention left. The rest is heard in the next, which comes
    /// at once.
    pub fn hear(&mut self, attention: &mut TurnBudget) -> Option<ThreadEvent> {
        if !std::mem::replace(&mut attention.has_begun, true) {
            // What they had said is in the queue by now: it is heard first.
            self.leaving.extend(self.left.try_iter());
        }
        // All that it said has been heard, whatever others go on saying.
        if let Some((_, leaving)) = self.leaving.pop_front_if(|(said, _)| *said <= self.heard) {
            return Some(leaving);
        }
        if attention.texts == 0 || attention.bytes == 0 {
            self.ear.waker.wake();
            return None;
        }
        match self.said.try_recv() {
            Ok((tag, text)) => {
                self.heard += 1;
                attention.texts -= 1;
                attention.bytes = attention.bytes.saturating_sub(text.len());
                Some(ThreadEvent::Text(tag, text))
            }
            Err(_) => self.leaving.pop_front().map(|(_, leaving)| leaving),
        }
    }

    /// The next who waits to be brought up to date.
    pub fn next_behind(&mut self) -> Option<Behind> {
        self.behind.extend(self.asked.try_iter());
        self.behind.pop_front()
    }

    /// It is for the next turn, which comes at once.
    pub fn put_off(&mut self, behind: Behind) {
        self.behind.push_front(behind);
        self.ear.waker.wake();
    }

    /// Everybody is told goodbye, on a thread of its own: readers may take their time. It is over when this is dropped.
    pub fn stop(&mut self, reason: &'static str) {
        let Some(halls) = self.running.take() else { return };
        let stop = move || {
            if let Err(error) = halls.stop(reason) {
                error!(%error, "a thread that served streams has failed");
            }
        };
        self.ending = std::thread::Builder::new().name("halls".into()).spawn(stop).ok();
    }
}

impl Drop for DeliveryThreads {
    fn drop(&mut self) {
        if let Some(ending) = self.ending.take() {
            // What went wrong it has said itself.
            let _ = ending.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What one turn hears: the number of a text's connection, or minus that of one that has left.
    fn turn(halls: &mut DeliveryThreads) -> Vec<i64> {
        let mut attention = TurnBudget::default();
        let number = |SubscriberId(id)| i64::try_from(id).unwrap();
        std::iter::from_fn(|| halls.hear(&mut attention))
            .map(|heard| match heard {
                ThreadEvent::Text(tag, _) => number(tag),
                ThreadEvent::Left(tag) => -number(tag),
            })
            .collect()
    }

    #[test]
    fn whoever_leaves_is_heard_behind_its_own_texts_however_many_others_have_waiting() {
        let mut halls = DeliveryThreads::new(Limits::default(), &Waker::default());
        let ear = Arc::clone(&halls.ear);
        assert!((0..10).all(|_| ear.put(SubscriberId(1), "a") && ear.put(SubscriberId(2), "b")));
        ear.leaves(ThreadEvent::Left(SubscriberId(1)));
        assert!((0..100).all(|_| ear.put(SubscriberId(2), "b")));
        let first = turn(&mut halls);
        let at = first.iter().position(|heard| *heard == -1).expect("it has left");
        assert_eq!((at, first.iter().filter(|heard| **heard == 1).count()), (20, 10));
        assert_eq!(first.len(), HEARD_AT_A_TIME + 1);
        // A text that found no room is not waited for.
        while ear.put(SubscriberId(2), "b") {}
        ear.leaves(ThreadEvent::Left(SubscriberId(3)));
        let rest: Vec<i64> = (0..HEARD_MOST / HEARD_AT_A_TIME + 2).flat_map(|_| turn(&mut halls)).collect();
        assert_eq!((rest.len(), rest.last()), (HEARD_MOST + 1, Some(&-3)));
    }
}
