//! Messages of a public channel that a subscriber missed before it resumed.
//!
//! Does        for books, returns the original messages from the channel's ring; for trades,
//!             encodes them again from the tape.
//! Holds       1. the messages lead from the subscriber's number to its new cursor, without
//!                duplicates and without gaps;
//!             2. if that is impossible, it returns the reason, and the channel starts as for every
//!                new subscriber.
//! Leaves out  epochs: the host compares them.
//! Costs       books: a look at every frame of a ring; trades: the encoding of the missed ones.
//! Start at    [`PublicChannels::missed`].

use crate::codec::{Channel, ResumeReason, notification, objects};
use pitwire_engine::Engine;
use pitwire_model::TradeSeq;
use pitwire_projections::{PublicTrade, Views};
use pitwire_websocket::payload_of;

use crate::channels::publisher::PublicChannels;
use pitwire_delivery::ChannelId;

/// Maximum trades per message when many are sent at once.
const TRADES_A_MESSAGE: usize = 100;

impl PublicChannels {
    /// Returns the number of the newest message before a cursor created now; `None` for channels
    /// without numbers.
    pub fn number(&self, id: ChannelId, channel: &Channel, engine: &Engine, views: &Views) -> Option<u64> {
        match channel {
            Channel::Book { .. } => self.feeds.get(id).map(|feed| feed.last_number()),
            Channel::Trades { .. } => self.last_sent(channel, engine, views).map(|seq| seq.0),
            _ => None,
        }
    }

    /// Returns the messages between `number` and a cursor created now.
    ///
    /// # Errors
    /// The reason, for example if the messages are too old or exceed `most_bytes`.
    pub fn missed(
        &self,
        id: ChannelId,
        channel: &Channel,
        number: u64,
        most_bytes: usize,
        (engine, views): (&Engine, &Views),
    ) -> Result<Vec<Vec<u8>>, ResumeReason> {
        let missed = match channel {
            Channel::Book { .. } => self.missed_changes(id, number, most_bytes)?,
            Channel::Trades { .. } => self.missed_trades(id, channel, number, most_bytes, (engine, views))?,
            _ => return Err(ResumeReason::NotNumbered),
        };
        if missed.iter().map(Vec::len).sum::<usize>() > most_bytes {
            return Err(ResumeReason::TooMuch);
        }
        Ok(missed)
    }

    fn missed_changes(&self, id: ChannelId, number: u64, most_bytes: usize) -> Result<Vec<Vec<u8>>, ResumeReason> {
        let ring = &self.feeds.get(id).ok_or(ResumeReason::Unknown)?.ring;
        let why = if number < ring.number_before_oldest() { ResumeReason::TooOld } else { ResumeReason::Unknown };
        let mut frames = ring.frames_after(number, most_bytes).ok_or(why)?;
        frames.iter_mut().for_each(unframe);
        Ok(frames)
    }

    fn missed_trades(
        &self,
        id: ChannelId,
        channel: &Channel,
        number: u64,
        most_bytes: usize,
        (engine, views): (&Engine, &Views),
    ) -> Result<Vec<Vec<u8>>, ResumeReason> {
        let market =
            channel.instrument().and_then(|name| engine.instrument_named(name)).ok_or(ResumeReason::Unknown)?;
        let tape = views.tape(market.spec.id).ok_or(ResumeReason::Unknown)?;
        let last = self.last_sent(channel, engine, views).ok_or(ResumeReason::Unknown)?;
        if number > last.0 {
            return Err(ResumeReason::Unknown);
        }
        if number < last.0 && tape.trade(TradeSeq(number + 1)).is_none() {
            return Err(ResumeReason::TooOld);
        }
        let missed: Vec<_> = (number + 1..=last.0).map_while(|seq| tape.trade(TradeSeq(seq))).collect();
        // An encoded trade has more than 100 bytes, so this many cannot fit. Skip the encoding.
        if missed.len() > most_bytes / 100 {
            return Err(ResumeReason::TooMuch);
        }
        let write = |trades: &[&PublicTrade]| {
            notification(self.name(id), |j| {
                j.array(|j| trades.iter().for_each(|trade| objects::public_trade(j, &market.spec, trade)));
            })
        };
        Ok(missed.chunks(TRADES_A_MESSAGE).map(write).collect())
    }

    /// Returns the newest trade that a trades channel has published, or would have published to a
    /// subscriber.
    fn last_sent(&self, channel: &Channel, engine: &Engine, views: &Views) -> Option<TradeSeq> {
        let market = engine.instrument_named(channel.instrument()?)?;
        let instrument = self.instruments.get(market.spec.id.0 as usize)?;
        let waiting = instrument.backlogs[channel.interval() as usize].trades.first();
        let newest = views.tape(market.spec.id)?.trades().back();
        Some(waiting.map_or(newest.map_or(TradeSeq(0), |trade| trade.seq), |trade| TradeSeq(trade.seq.0 - 1)))
    }

    /// Keeps publishing a channel without subscribers, so that a disconnected subscriber can
    /// resume. Counts as a subscriber until [`PublicChannels::unsubscribe`].
    pub fn hold(&mut self, id: ChannelId) {
        if let Some(feed) = self.feeds.get_mut(id) {
            feed.subscribers += 1;
            self.candles += u32::from(feed.is_candle);
        }
    }
}

/// Removes the WebSocket header of a frame.
fn unframe(frame: &mut Vec<u8>) {
    let header = frame.len() - payload_of(frame).len();
    frame.drain(..header);
}
