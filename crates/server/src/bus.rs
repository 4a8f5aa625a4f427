//! Public channels for gateways: numbered, retained for a while, and published on NATS.
//!
//! Does        after each commit read what channels and URL streams have released, as one more
//!             subscriber; answer the requests of gateways under `/bus`.
//! Holds       1. only durable messages are read, because it reads after the release, like every
//!                subscriber;
//!             2. the start of a channel and its number match: requests to join are answered before
//!                the next turn does anything;
//!             3. memory is bounded to [`KEPT_BYTES`] of batches and [`MOST_CHANNELS`] channels. A
//!                channel that no gateway uses costs nothing;
//!             4. requests without a MAC by the bus key get no information but the refusal.
//! Start at    [`Bus::collect`], [`Bus::request`].

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::fmt::Write as _;
use std::sync::Arc;

use pitwire_deribit::channels::{ChannelCursor, ChannelId, LagPolicy, MissedChange, PublicChannels, SubscriptionStart};
use pitwire_deribit::codec::{Channel, Token};
use pitwire_deribit::{ChannelName, RESUMABLE_NS, RESUMED_BYTES, channel_named};
use pitwire_failure::Failure;
use pitwire_gateway::protocol::{BatchWriter, BusKey, Question, Reply, ReplyOutcome};
use pitwire_gateway::{VenuePublication, VenuePublisher};
use pitwire_net::{ConnectionId, HttpRequest, HttpResponse, Notices};
use pitwire_url_streams::{StreamId, VenueMoment};
use pitwire_websocket::{Opcode, write_frame};
use tracing::error;

use crate::bus::tap_table::TapTable;
use crate::resume::{Resumption, VenueEpoch};
use crate::service::VenueService;

/// A batch ends at this many bytes, or with the turn.
const BATCH_BYTES: usize = 64 * 1024;
/// Retained batches in bytes, for gateways that have missed some.
const KEPT_BYTES: usize = 32 * 1024 * 1024;
/// Batches in one answer, in bytes. Clients wait while they are copied.
const ANSWER_BYTES: usize = 256 * 1024;
const MOST_CHANNELS: usize = 4_096;
/// Time in nanoseconds for which a channel stays published after its last use by a gateway. Readers
/// of a book can resume for the same time at the venue itself.
const LEASE_NS: u64 = RESUMABLE_NS;
const SWEEP_NS: u64 = 1_000_000_000;
/// Pause in nanoseconds per unit of merging work. Merging books for gateways takes about one
/// thirtieth of the venue thread's time at most.
const MERGE_NS: u64 = 100_000;
const MERGE_LEVEL_NS: u64 = 1_000;
/// Most channels that one batch reports as removed. A batch has room for this many of the longest
/// names.
const REMOVALS_PER_BATCH: usize = 128;

pub struct Bus {
    epoch: u64,
    key: BusKey,
    publisher: VenuePublisher,
    channels: TapTable<ChannelId, ChannelCursor>,
    streams: TapTable<StreamId, ()>,
    /// The batch of the current commit.
    open: Option<BatchWriter>,
    /// The sequence number of the newest message.
    last: u64,
    kept: VecDeque<SentBatch>,
    kept_bytes: usize,
    joins: Vec<Join>,
    sweep_ns: u64,
    /// No book is merged before this monotonic time.
    merge_ns: u64,
    refused: u64,
    answered: u64,
}

struct SentBatch {
    first: u64,
    next: u64,
    bytes: Arc<[u8]>,
}

/// A request that waits for the end of the turn.
struct Join {
    from: ConnectionId,
    keep_alive: bool,
    about: QuestionSubject,
    purpose: String,
}

enum QuestionSubject {
    /// The start of a channel.
    Begin(String),
    /// Everything since a change of a book, merged into one change.
    MissedChange(String, u64),
    /// The messages that resumed readers of these channels have missed.
    Resume(Vec<(String, Option<Token>)>),
}

impl Bus {
    /// Starts publishing on NATS.
    ///
    /// # Errors
    ///
    /// Returns a failure if the address or the subject is invalid, or no thread can be started.
    pub fn open(publication: VenuePublication) -> Result<Bus, Failure> {
        let (epoch, key) = (publication.epoch, publication.key.clone());
        let publisher = VenuePublisher::open(publication)?;
        Ok(Bus {
            epoch,
            key,
            publisher,
            channels: TapTable::default(),
            streams: TapTable::default(),
            open: None,
            last: 0,
            kept: VecDeque::new(),
            kept_bytes: 0,
            joins: Vec::new(),
            sweep_ns: 0,
            merge_ns: 0,
            refused: 0,
            answered: 0,
        })
    }

    pub fn is_connected(&self) -> bool {
        self.publisher.is_connected()
    }

    /// Returns whether requests wait, so that the next turn should come at once.
    pub fn has_joins(&self) -> bool {
        !self.joins.is_empty()
    }

    /// Numbers a message of a URL stream that is being released. [`Self::collect`] publishes it.
    pub fn take(&mut self, stream: StreamId, payload: &[u8]) {
        let Some(tap) = self.streams.get_mut(stream) else { return };
        let writer = self.open.get_or_insert_with(|| BatchWriter::new(self.epoch, self.last + 1));
        let written = writer.push(tap.prev, &tap.name, |out| {
            write_frame(out, Opcode::Text, payload);
            Ok::<(), std::convert::Infallible>(())
        });
        if written.is_ok() {
            tap.prev = writer.next() - 1;
        }
        if writer.len() >= BATCH_BYTES
            && let Some(full) = self.open.take()
        {
            self.hand_on(full);
        }
    }

    /// Numbers and publishes everything that has been released.
    pub fn collect(&mut self, publisher: &PublicChannels) {
        let mut due = BinaryHeap::new();
        let mut overrun = Vec::new();
        for (feed, tap) in self.channels.iter_mut() {
            match publisher.peek(*feed, &mut tap.cursor) {
                Ok(Some(place)) => due.push(Reverse((place, *feed))),
                Ok(None) => {}
                Err(_) => overrun.push(*feed),
            }
        }
        let mut writer = self.open.take().unwrap_or_else(|| BatchWriter::new(self.epoch, self.last + 1));
        while let Some(Reverse((_, feed))) = due.pop() {
            let Some(tap) = self.channels.get_mut(feed) else { continue };
            let written = writer.push(tap.prev, &tap.name, |out| publisher.read(feed, &mut tap.cursor, out));
            if written.is_err() {
                overrun.push(feed);
                continue;
            }
            tap.prev = writer.next() - 1;
            if let Ok(Some(place)) = publisher.peek(feed, &mut tap.cursor) {
                due.push(Reverse((place, feed)));
            }
            if writer.len() >= BATCH_BYTES {
                let next = writer.next();
                self.hand_on(std::mem::replace(&mut writer, BatchWriter::new(self.epoch, next)));
            }
        }
        self.hand_on(writer);
        let mut left = Vec::new();
        for feed in overrun {
            // The cursor is read every turn, so this cannot happen. If it does, gateways learn that
            // the channel is gone.
            error!("a channel overran the bus; removing it");
            left.extend(self.channels.remove(feed));
        }
        self.publish_removals(&left);
    }

    /// Reports that channels have been removed. Otherwise a gateway could not tell that a channel
    /// was removed and published again.
    fn publish_removals(&mut self, left: &[(u64, String)]) {
        for names in left.chunks(REMOVALS_PER_BATCH) {
            let mut writer = self.open.take().unwrap_or_else(|| BatchWriter::new(self.epoch, self.last + 1));
            names.iter().for_each(|(prev, name)| writer.push_removal(*prev, name));
            self.hand_on(writer);
        }
    }

    fn hand_on(&mut self, writer: BatchWriter) {
        if writer.is_empty() {
            return;
        }
        let (first, next) = (self.last + 1, writer.next());
        let bytes: Arc<[u8]> = writer.finish().into();
        self.last = next - 1;
        self.kept_bytes += bytes.len();
        self.kept.push_back(SentBatch { first, next, bytes: Arc::clone(&bytes) });
        while self.kept_bytes > KEPT_BYTES && self.kept.len() > 1 {
            if let Some(oldest) = self.kept.pop_front() {
                self.kept_bytes -= oldest.bytes.len();
            }
        }
        self.publisher.send(bytes, next);
    }

    /// Answers a gateway's request. Requests to join are answered in the next turn.
    pub fn request(
        &mut self,
        request: &HttpRequest<'_>,
        instruments: impl FnOnce() -> Vec<String>,
        wall_ms: u64,
        now_ns: u64,
    ) -> HttpResponse {
        let question = Question { method: request.method, target: request.target, body: request.body };
        let purpose = match question.check(&self.key, request.headers.get("authorization"), wall_ms) {
            Ok(purpose) => purpose,
            Err(why) => {
                self.refused += 1;
                return HttpResponse::text(401, why.reason());
            }
        };
        self.answered += 1;
        let body = std::str::from_utf8(request.body).unwrap_or_default();
        let mut reply = self.standing();
        match (request.method, request.path()) {
            ("GET", "/bus/status") => {}
            ("GET", "/bus/from") => match place_of(request.query()) {
                Some((epoch, seq)) if epoch == self.epoch => reply.batches = self.batches_from(seq),
                // The epoch in the answer tells the gateway that the requested one has ended.
                Some(_) => {}
                None => return HttpResponse::text(400, "give epoch and seq"),
            },
            ("POST", "/bus/keep") => reply.names = self.keep(body, now_ns),
            ("GET", "/bus/instruments") => reply.names = instruments(),
            ("POST", "/bus/join") => return self.later(request, QuestionSubject::Begin(body.to_owned()), purpose),
            ("POST", "/bus/merged") => {
                let asked = body.split_once('\n').and_then(|(name, id)| Some((name, id.parse().ok()?)));
                let Some((name, change_id)) = asked else {
                    return HttpResponse::text(400, "give a channel and a change_id, one a line");
                };
                return self.later(request, QuestionSubject::MissedChange(name.to_owned(), change_id), purpose);
            }
            ("POST", "/bus/resume") => {
                let Some(wishes) = wishes_of(body) else {
                    return HttpResponse::text(
                        400,
                        "give a channel and a token or -, parted by a space, one of each a line",
                    );
                };
                return self.later(request, QuestionSubject::Resume(wishes), purpose);
            }
            _ => {
                return HttpResponse::text(404, "the bus has status, from, join, merged, resume, keep and instruments");
            }
        }
        self.seal(&reply, &purpose)
    }

    /// Queues a request until everything released has been published.
    fn later(&mut self, request: &HttpRequest<'_>, about: QuestionSubject, purpose: String) -> HttpResponse {
        let (from, keep_alive) = (request.connection, request.keep_alive);
        self.joins.push(Join { from, keep_alive, about, purpose });
        HttpResponse::later()
    }

    fn standing(&self) -> Reply {
        let oldest = self.kept.front().map_or(self.last + 1, |kept| kept.first);
        Reply { epoch: self.epoch, last: self.last, oldest, ..Reply::default() }
    }

    fn seal(&self, reply: &Reply, purpose: &str) -> HttpResponse {
        let mut bytes = reply.write();
        self.key.seal(purpose, &mut bytes);
        HttpResponse::new(200, "application/octet-stream", bytes)
    }

    fn batches_from(&self, seq: u64) -> Vec<Vec<u8>> {
        let start = self.kept.partition_point(|kept| kept.next <= seq);
        let (mut batches, mut bytes) = (Vec::new(), 0);
        for kept in self.kept.range(start..) {
            if bytes > 0 && bytes + kept.bytes.len() > ANSWER_BYTES {
                break;
            }
            bytes += kept.bytes.len();
            batches.push(kept.bytes.to_vec());
        }
        batches
    }

    /// Extends the use of channels, and returns those that are not published.
    fn keep(&mut self, names: &str, now_ns: u64) -> Vec<String> {
        let mut gone = Vec::new();
        for name in names.lines() {
            let until_ns = now_ns + LEASE_NS;
            if !self.channels.keep(name, until_ns) && !self.streams.keep(name, until_ns) {
                gone.push(name.to_owned());
            }
        }
        gone
    }

    /// Answers the queued requests and removes unused channels. Call it at the start of a turn,
    /// when everything released has been published.
    pub fn attend(&mut self, service: &mut VenueService, life: VenueEpoch, now_ns: u64, notices: &mut Notices) {
        for join in std::mem::take(&mut self.joins) {
            let reply = match &join.about {
                QuestionSubject::Begin(name) => self.join(name, service, now_ns, |_, _| Vec::new()),
                QuestionSubject::MissedChange(name, change_id) => {
                    self.merged(name, *change_id, &service.market_data.publisher, now_ns)
                }
                QuestionSubject::Resume(wishes) => self.resume(wishes, service, life, now_ns),
            };
            let response = self.seal(&reply, &join.purpose);
            notices.respond(join.from, response, join.keep_alive, false);
        }
        if now_ns < self.sweep_ns {
            return;
        }
        self.sweep_ns = now_ns + SWEEP_NS;
        let mut left = self.streams.remove_unused(now_ns, |id| service.market_data.streams.untap(id));
        left.extend(self.channels.remove_unused(now_ns, |feed| service.market_data.publisher.unsubscribe(feed)));
        self.publish_removals(&left);
    }

    /// Publishes a channel, or extends its use. `first` returns the messages to send before the
    /// channel's own start.
    fn join(
        &mut self,
        name: &str,
        service: &mut VenueService,
        now_ns: u64,
        first: impl FnOnce(&VenueService, (&Channel, &SubscriptionStart)) -> Vec<Vec<u8>>,
    ) -> Reply {
        let mut reply = self.standing();
        if let Some(label) = name.strip_prefix(pitwire_gateway::STREAM) {
            self.join_stream(label, service, now_ns, &mut reply);
            return reply;
        }
        let engine = service.venue.engine();
        let channel = match channel_named(engine, name) {
            ChannelName::Malformed => {
                reply.outcome = ReplyOutcome::Malformed;
                return reply;
            }
            // Private channels and drop copies are never published.
            ChannelName::Served(channel) if !channel.is_private() && !is_drop_copy(&channel) => channel,
            ChannelName::Served(_) | ChannelName::Unavailable => {
                reply.outcome = ReplyOutcome::NotHere;
                return reply;
            }
        };
        let Some(subscribed) =
            service.market_data.publisher.subscribe(&channel, engine, service.venue.views(), service.venue.now())
        else {
            reply.outcome = ReplyOutcome::NotHere;
            return reply;
        };
        reply.batches = first(service, (&channel, &subscribed));
        let feed = subscribed.feed;
        let is_known = self.channels.get_mut(feed).is_some();
        if is_known || self.is_full() {
            service.market_data.publisher.unsubscribe(feed);
        }
        if !is_known && self.is_full() {
            reply.outcome = ReplyOutcome::Full;
            return reply;
        }
        let name = || service.market_data.publisher.name(feed).to_owned();
        let tap = self.channels.tap(feed, self.last, now_ns + LEASE_NS, || (name(), subscribed.cursor));
        (reply.since, reply.channel) = (tap.since, tap.name.clone());
        reply.conflates = service.market_data.publisher.lag(feed) == LagPolicy::Latest;
        reply.first = subscribed.first.unwrap_or_default();
        reply
    }

    /// Returns what resumed readers have missed: for each channel the answer to a join, with the
    /// missed messages as its batches.
    fn resume(
        &mut self,
        wishes: &[(String, Option<Token>)],
        service: &mut VenueService,
        life: VenueEpoch,
        now_ns: u64,
    ) -> Reply {
        let (mut reply, mut room) = (self.standing(), RESUMED_BYTES);
        for (name, token) in wishes {
            let of_one = self.join(name, service, now_ns, |service, (channel, subscribed)| {
                let resumption = Resumption::of_public(service, life, (name, channel), subscribed, *token, &mut room);
                let Resumption { mut messages, notice } = resumption;
                messages.push(notice);
                messages
            });
            reply.batches.push(of_one.write());
        }
        reply
    }

    /// Returns one change from `since_change` of a merged book to its newest published message. A
    /// gateway must ask again later if others have asked just now.
    fn merged(&mut self, name: &str, since_change: u64, publisher: &PublicChannels, now_ns: u64) -> Reply {
        let mut reply = self.standing();
        let Some((feed, tap)) = self.channels.named(name) else {
            reply.outcome = ReplyOutcome::NotHere;
            return reply;
        };
        // Messages that have not been published yet would arrive twice.
        if now_ns < self.merge_ns || tap.cursor.number() < publisher.published_id(feed) {
            reply.outcome = ReplyOutcome::Full;
            return reply;
        }
        self.merge_ns = now_ns + MERGE_NS + MERGE_LEVEL_NS * publisher.levels_sent(feed) as u64;
        match publisher.merged(feed, since_change) {
            MissedChange::Same => {}
            MissedChange::Change(change) => reply.first = change,
            MissedChange::Gone => reply.outcome = ReplyOutcome::NotHere,
        }
        reply
    }

    fn is_full(&self) -> bool {
        self.channels.len() + self.streams.len() >= MOST_CHANNELS
    }

    fn join_stream(&mut self, label: &str, service: &mut VenueService, now_ns: u64, reply: &mut Reply) {
        let here =
            VenueMoment { engine: service.venue.engine(), views: service.venue.views(), at: service.venue.now() };
        let Some(tapped) = service.market_data.streams.tap(label, here) else {
            reply.outcome = ReplyOutcome::NotHere;
            return;
        };
        let is_known = self.streams.get_mut(tapped.id).is_some();
        if is_known || self.is_full() {
            service.market_data.streams.untap(tapped.id);
        }
        if !is_known && self.is_full() {
            reply.outcome = ReplyOutcome::Full;
            return;
        }
        let name = || format!("{}{}", pitwire_gateway::STREAM, tapped.label);
        let tap = self.streams.tap(tapped.id, self.last, now_ns + LEASE_NS, || (name(), ()));
        (reply.since, reply.channel) = (tap.since, tap.name.clone());
        reply.conflates = tapped.is_state;
        reply.first = tapped.first;
    }

    /// Writes the metrics of the bus for `/metrics`.
    pub fn render(&self, out: &mut String) {
        let (sent, unsent) = self.publisher.counts();
        let rows = [
            ("bus_connected", "gauge", "1 while NATS is there.", u64::from(self.is_connected())),
            (
                "bus_channels",
                "gauge",
                "Channels that gateways want.",
                (self.channels.len() + self.streams.len()) as u64,
            ),
            ("bus_messages_total", "counter", "Messages numbered for gateways.", self.last),
            ("bus_batches_sent_total", "counter", "Batches handed to NATS.", sent),
            ("bus_batches_unsent_total", "counter", "Batches that NATS had no room for.", unsent),
            ("bus_kept_bytes", "gauge", "Batches kept for gateways that miss some.", self.kept_bytes as u64),
            ("bus_questions_total", "counter", "Questions of gateways.", self.answered),
            ("bus_refused_total", "counter", "Questions not signed with the bus key.", self.refused),
        ];
        for (name, kind, help, value) in rows {
            // Writing to a String cannot fail.
            let _ = writeln!(out, "# HELP pitwire_{name} {help}\n# TYPE pitwire_{name} {kind}\npitwire_{name} {value}");
        }
    }
}

fn is_drop_copy(channel: &Channel) -> bool {
    matches!(channel, Channel::DropCopy { .. })
}

fn wishes_of(body: &str) -> Option<Vec<(String, Option<Token>)>> {
    let wish = |line: &str| {
        // Names of kinds and currencies may contain spaces.
        let (name, token) = line.rsplit_once(' ')?;
        Some((name.to_owned(), if token == "-" { None } else { Some(Token::parse(token)?) }))
    };
    body.lines().map(wish).collect()
}

fn place_of(query: &str) -> Option<(u64, u64)> {
    let (epoch, seq) = query.split_once('&')?;
    Some((epoch.strip_prefix("epoch=")?.parse().ok()?, seq.strip_prefix("seq=")?.parse().ok()?))
}

mod tap_table;
#[cfg(test)]
mod tests;
