//! Channels across instruments: trades by kind and currency, instruments' states, the drop copy.

use crate::codec::{Interval, objects, rules};
use pitwire_engine::Engine;
use pitwire_model::{AccountId, Event, InstrumentId, InstrumentSpec, KillScope, Phase};
use pitwire_projections::PublicTrade;

use crate::channels::feed::FeedId;

/// Which instruments a channel by kind and currency means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct InstrumentFamily {
    pub kind: String,
    pub currency: String,
}

impl InstrumentFamily {
    pub fn covers(&self, spec: &InstrumentSpec, engine: &Engine) -> bool {
        objects::is_of_family(spec, engine.currencies(), &self.kind, &self.currency)
    }
}

/// `trades.{kind}.{currency}.{interval}`.
#[derive(Debug)]
pub(super) struct TradesFeed {
    pub feed: FeedId,
    pub family: InstrumentFamily,
    pub interval: Interval,
    pub pending: Vec<(InstrumentId, PublicTrade)>,
}

/// `instrument.state.{kind}.{currency}`.
#[derive(Debug)]
pub(super) struct StateFeed {
    pub feed: FeedId,
    pub family: InstrumentFamily,
}

/// Whether a session takes orders.
fn is_open(phase: Phase) -> bool {
    rules::session(phase).is_some_and(|row| row.enter)
}

/// The dialect's word for what has just happened to an instrument.
pub(super) fn state_word(event: &Event) -> Option<(InstrumentId, &'static str)> {
    match event {
        Event::InstrumentAdded(spec) => Some((spec.id, "created")),
        Event::PhaseChanged { instrument, phase } => Some((
            *instrument,
            match phase {
                Phase::Deleted => "terminated",
                phase if is_open(*phase) => "started",
                _ => "closed",
            },
        )),
        // Between sessions that both take orders, or neither, nothing starts or closes.
        Event::SessionChanged { instrument, from, to, .. } => {
            let word = match (is_open(*from), is_open(*to)) {
                (false, true) => "started",
                (true, false) => "closed",
                _ => return None,
            };
            Some((*instrument, word))
        }
        _ => None,
    }
}

/// `drop_copy.{account}`; of all accounts without one.
#[derive(Debug)]
pub(super) struct DropCopyFeed {
    pub feed: FeedId,
    pub account: Option<AccountId>,
}

/// The accounts whose drop copy has this event, each with whether it is a trade's taker (of one made beside the book,
/// its buyer), and its instrument.
pub(super) fn parties(event: &Event, engine: &Engine) -> (Vec<(AccountId, bool)>, Option<InstrumentId>) {
    match event {
        Event::Accepted { account, instrument, .. }
        | Event::Cancelled { account, instrument, .. }
        | Event::Amended { account, instrument, .. }
        | Event::Parked { account, instrument, .. }
        | Event::Injected { account, instrument, .. }
        | Event::Triggered { account, instrument, .. }
        | Event::Refreshed { account, instrument, .. } => (vec![(*account, false)], Some(*instrument)),
        Event::Rejected { account, .. }
        | Event::AmendRefused { account, .. }
        | Event::CancelRefused { account, .. }
        | Event::ThrottleTripped { account } => (vec![(*account, false)], None),
        Event::Trade { instrument, maker_account, taker_account, .. } => {
            (vec![(*taker_account, true), (*maker_account, false)], Some(*instrument))
        }
        Event::TradeBusted(bust) => (vec![(bust.buyer, false), (bust.seller, false)], Some(bust.instrument)),
        Event::TradeReported { trade, .. } => {
            (vec![(trade.account, false), (trade.counterparty, false)], Some(trade.instrument))
        }
        Event::ReportEnded { account, counterparty, instrument, .. } => {
            (vec![(*account, false), (*counterparty, false)], Some(*instrument))
        }
        Event::OffBookTrade(made) => (vec![(made.buyer, true), (made.seller, false)], Some(made.instrument)),
        Event::Killed { scope, .. } | Event::Lifted { scope } => (concerned(*scope, engine), None),
        _ => (Vec::new(), None),
    }
}

/// Sessions and orders are told by the cancels they cause; a kill of the venue concerns everyone.
fn concerned(scope: KillScope, engine: &Engine) -> Vec<(AccountId, bool)> {
    match scope {
        KillScope::Account(account) => vec![(account, false)],
        KillScope::Venue => engine.accounts().iter().map(|account| (account.spec.id, false)).collect(),
        KillScope::Order(_) | KillScope::Session(_) => Vec::new(),
    }
}
