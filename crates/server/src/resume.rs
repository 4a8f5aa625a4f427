//! Resumed subscriptions: the missed messages, and how long a channel stays resumable.
//!
//! Does        compare a token with this start of the venue; send the missed messages and the
//!             notice.
//! Holds       1. the missed messages end where the subscriber's cursor begins, on the venue thread
//!                or on a delivery thread;
//!             2. a book channel is kept up to date for [`RESUMABLE_NS`] after a resumable
//!                subscriber has gone, once per channel.
//! Leaves out  the choice of the messages: `crates/deribit/src/channels/missed.rs`.
//! Start at    [`Resumption::of_public`], [`RetainedChannels`].

use std::collections::BTreeMap;

use pitwire_deribit::RESUMABLE_NS;
use pitwire_deribit::channels::{ChannelId, PublicChannels, SubscriptionStart};
use pitwire_deribit::codec::{CatchUpSource, Channel, ResumeReason, Token, write_resumption};
use pitwire_model::VenueNanos;

use crate::service::VenueService;

/// The current start of the venue, to which tokens refer.
#[derive(Clone, Copy, Debug)]
pub struct VenueEpoch {
    pub epoch: u64,
    /// Whether the messages of earlier starts are in the log of this one.
    pub remembers: bool,
}

impl VenueEpoch {
    /// `epoch` is that of the log. Without a log every start is the first, so the wall clock in
    /// milliseconds replaces the epoch.
    pub fn new(epoch: u64, is_durable: bool, wall_ns: u64) -> VenueEpoch {
        VenueEpoch { epoch: if is_durable { epoch } else { wall_ns / 1_000_000 }, remembers: is_durable }
    }

    fn follows(self, epoch: u64) -> bool {
        self.remembers && epoch < self.epoch
    }
}

/// Messages for a resumed subscriber, in order. They precede every new message.
pub struct Resumption {
    pub messages: Vec<Vec<u8>>,
    pub notice: Vec<u8>,
}

impl Resumption {
    /// Resumes a public channel. `room` is the unused part of `RESUMED_BYTES`.
    pub fn of_public(
        service: &VenueService,
        life: VenueEpoch,
        (name, channel): (&str, &Channel),
        subscribed: &SubscriptionStart,
        token: Option<Token>,
        room: &mut usize,
    ) -> Resumption {
        let (engine, views) = (service.venue.engine(), service.venue.views());
        let missed = |from: Token, room: usize| {
            if from.part != 0 {
                return Err(ResumeReason::Unknown);
            }
            service.market_data.publisher.missed(subscribed.feed, channel, from.number, room, (engine, views))
        };
        let number = service.market_data.publisher.number(subscribed.feed, channel, engine, views);
        let found = match (number, token) {
            (None, _) => Err(ResumeReason::NotNumbered),
            (_, None) => Err(ResumeReason::New),
            (_, Some(token)) if token.epoch == life.epoch => {
                missed(token, *room).map(|missed| (CatchUpSource::Messages, missed))
            }
            // The stored trades of a later start contain those that the earlier one sent.
            (_, Some(token)) if life.follows(token.epoch) && matches!(channel, Channel::Trades { .. }) => {
                missed(token, *room).map(|missed| (CatchUpSource::History(ResumeReason::OtherEpoch), missed))
            }
            _ => Err(ResumeReason::OtherEpoch),
        };
        let (caught_up, messages) = found.unwrap_or_else(|why| match &subscribed.first {
            Some(first) => (CatchUpSource::Snapshot(why), vec![first.clone()]),
            None => (CatchUpSource::Nothing(why), Vec::new()),
        });
        if !matches!(caught_up, CatchUpSource::Snapshot(_)) {
            *room = room.saturating_sub(messages.iter().map(Vec::len).sum());
        }
        let token = number.map(|number| Token { epoch: life.epoch, number, part: 0 });
        let mut notice = Vec::new();
        write_resumption(&mut notice, name, caught_up, token);
        Resumption { messages, notice }
    }

    /// Answers for a channel that this connection has already. It continues as before.
    pub fn without_replay(name: &str) -> Resumption {
        let mut notice = Vec::new();
        write_resumption(&mut notice, name, CatchUpSource::Nothing(ResumeReason::AlreadySubscribed), None);
        Resumption { messages: Vec::new(), notice }
    }
}

/// Channels that are kept up to date for absent resumable subscribers, each with its end.
#[derive(Debug, Default)]
pub struct RetainedChannels {
    until: BTreeMap<ChannelId, VenueNanos>,
}

impl RetainedChannels {
    /// Keeps a channel whose subscriber was cut off without unsubscribing.
    pub fn hold(&mut self, feed: ChannelId, now: VenueNanos, publisher: &mut PublicChannels) {
        if self.until.insert(feed, VenueNanos(now.0.saturating_add(RESUMABLE_NS))).is_none() {
            publisher.hold(feed);
        }
    }

    pub fn let_go(&mut self, now: VenueNanos, publisher: &mut PublicChannels) {
        self.until.retain(|feed, until| {
            let is_kept = *until > now;
            if !is_kept {
                publisher.unsubscribe(*feed);
            }
            is_kept
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_channel_is_held_once_and_for_so_long_after_the_last_has_gone() {
        let engine = pitwire_engine::Engine::new();
        let mut publisher = PublicChannels::new(&engine);
        let (mut held, feed) = (RetainedChannels::default(), ChannelId::default());
        held.hold(feed, VenueNanos(5), &mut publisher);
        held.hold(feed, VenueNanos(9), &mut publisher);
        held.let_go(VenueNanos(8 + RESUMABLE_NS), &mut publisher);
        assert_eq!(held.until.len(), 1);
        held.let_go(VenueNanos(9 + RESUMABLE_NS), &mut publisher);
        assert!(held.until.is_empty());
    }
}
