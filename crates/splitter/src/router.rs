//! Between what is cut and who gets it: counts, stops at the limit, keeps what must be answered.
//!
//! Holds       1. exactly so many trades are dealt as the limit says;
//!             2. a statistics line falls between two trades, never inside a run of them.
//! Start at    `objects` of [`Router`].

use pitwire_feed::{Object, ObjectSink};

use crate::clock::{epoch_ns, mono_ns};
use crate::receive_area::ReceiveBuffer;
use crate::stats::{FeedMeter, Moment};
use crate::transport::Transport;

/// A control frame's payload (RFC 6455 section 5.5).
const MAX_CONTROL: usize = 125;

pub(crate) struct Router {
    pub sinks: Vec<Box<dyn Transport>>,
    pub meter: FeedMeter,
    /// Trades that may still be dealt.
    left: u64,
    /// Of the latest ping, until it is answered: answering it answers those before it.
    ping: Option<ControlBody>,
    close: Option<(Option<u16>, ControlBody)>,
}

#[derive(Clone, Copy)]
pub(crate) struct ControlBody {
    bytes: [u8; MAX_CONTROL],
    len: usize,
}

impl ControlBody {
    fn of(body: &[u8]) -> Self {
        let (mut bytes, len) = ([0; MAX_CONTROL], body.len().min(MAX_CONTROL));
        bytes[..len].copy_from_slice(&body[..len]);
        ControlBody { bytes, len }
    }

    pub fn body(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

pub(crate) fn moment() -> Moment {
    Moment { mono_ns: mono_ns(), epoch_ns: epoch_ns() }
}

impl Router {
    pub fn new(sinks: Vec<Box<dyn Transport>>, meter: FeedMeter, limit: Option<u64>) -> Self {
        Router { sinks, meter, left: limit.unwrap_or(u64::MAX), ping: None, close: None }
    }

    pub fn connected(&mut self) {
        (self.ping, self.close) = (None, None);
        self.meter.connected(moment());
        let connection = self.meter.totals.connections;
        self.sinks.iter_mut().for_each(|sink| sink.connected(connection));
    }

    /// Where the next bytes are best received: the first who wants them somewhere has the workers.
    pub fn receive_buffer(&mut self) -> Option<ReceiveBuffer> {
        self.sinks.iter_mut().find_map(|sink| sink.receive_buffer())
    }

    pub fn commit_received(&mut self, bytes: usize) {
        self.sinks.iter_mut().for_each(|sink| sink.commit_received(bytes));
    }

    /// Whether as many trades have been dealt as were wanted.
    pub fn is_done(&self) -> bool {
        self.left == 0
    }

    pub fn hand_over(&mut self) {
        self.sinks.iter_mut().for_each(|sink| sink.hand_over());
    }

    pub fn is_behind(&self) -> bool {
        self.sinks.iter().any(|sink| sink.is_behind())
    }

    /// A record of the splitter's own, to every worker of everybody.
    pub fn note(&mut self, workers: u32, record: &[u8]) {
        for sink in &mut self.sinks {
            (0..workers).for_each(|worker| sink.note(worker, record));
        }
    }

    pub fn take_ping(&mut self) -> Option<ControlBody> {
        self.ping.take()
    }

    pub fn take_close(&mut self) -> Option<(Option<u16>, ControlBody)> {
        self.close.take()
    }
}

impl ObjectSink for Router {
    #[inline]
    fn frames(&mut self, frames: u64) {
        self.meter.totals.frames = frames;
    }

    #[inline]
    fn objects(&mut self, text: &[u8], objects: &[Object]) {
        let mut rest = objects;
        while !rest.is_empty() && self.left > 0 && self.close.is_none() {
            let now = (rest.len() as u64).min(self.meter.room()).min(self.left);
            // No more than `rest` is long.
            let (run, later) = rest.split_at(usize::try_from(now).unwrap_or(rest.len()));
            for sink in &mut self.sinks {
                sink.deal(text, run);
            }
            self.left -= now;
            self.meter.dealt(now, moment);
            rest = later;
        }
    }

    fn ping(&mut self, body: &[u8]) {
        self.ping = Some(ControlBody::of(body));
    }

    fn pong(&mut self, _: &[u8]) {}

    fn close(&mut self, code: Option<u16>, reason: &[u8]) {
        self.close.get_or_insert((code, ControlBody::of(reason)));
    }
}
