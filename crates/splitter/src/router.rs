//! Between the object reader and the transports: counts, stops at the limit, keeps control frames
//! to answer.
//!
//! Holds       1. exactly as many trades are routed as the limit says;
//!             2. a statistics line is due between two trades, never inside a run of them.
//! Start at    `objects` of [`Router`].

use pitwire_feed::{Object, ObjectSink};

use crate::clock::{epoch_ns, mono_ns};
use crate::receive_area::ReceiveBuffer;
use crate::stats::{FeedMeter, Moment};
use crate::transport::Transport;

/// Largest payload of a control frame (RFC 6455 section 5.5).
const MAX_CONTROL: usize = 125;

pub(crate) struct Router {
    pub sinks: Vec<Box<dyn Transport>>,
    pub meter: FeedMeter,
    /// Trades that may still be routed.
    left: u64,
    /// Body of the latest ping that was not answered. One pong answers all earlier pings.
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

    /// Returns where the next bytes are best received, if a transport has a preference.
    pub fn receive_buffer(&mut self) -> Option<ReceiveBuffer> {
        self.sinks.iter_mut().find_map(|sink| sink.receive_buffer())
    }

    pub fn commit_received(&mut self, bytes: usize) {
        self.sinks.iter_mut().for_each(|sink| sink.commit_received(bytes));
    }

    /// Returns whether the limit is reached.
    pub fn is_done(&self) -> bool {
        self.left == 0
    }

    pub fn hand_over(&mut self) {
        self.sinks.iter_mut().for_each(|sink| sink.hand_over());
    }

    pub fn has_pending(&self) -> bool {
        self.sinks.iter().any(|sink| sink.has_pending())
    }

    /// Sends a record of the splitter itself to every worker of every transport.
    pub fn send_note(&mut self, workers: u32, record: &[u8]) {
        for sink in &mut self.sinks {
            (0..workers).for_each(|worker| sink.send_note(worker, record));
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
            // At most the length of `rest`.
            let (run, later) = rest.split_at(usize::try_from(now).unwrap_or(rest.len()));
            for sink in &mut self.sinks {
                sink.send_objects(text, run);
            }
            self.left -= now;
            self.meter.routed(now, moment);
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
