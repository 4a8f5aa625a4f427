//! Channels across instruments: trades by kind and currency, instrument states, the drop copy.

use crate::codec::{Interval, objects, rules};
use pitwire_engine::Engine;
use pitwire_model::{AccountId, Event, InstrumentId, InstrumentSpec, KillScope, Phase};
use pitwire_projections::PublicTrade;

use pitwire_delivery::ChannelId;

/// The instruments that a channel selects by kind and currency.
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
    pub feed: ChannelId,
    pub family: InstrumentFamily,
    pub interval: Interval,
    pub pending: Vec<(InstrumentId, PublicTrade)>,
}

/// `instrument.state.{kind}.{currency}`.
#[derive(Debug)]
pub(super) struct StateFeed {
    pub feed: ChannelId,
    pub family: InstrumentFamily,
}

/// Returns whether a session accepts orders.
fn is_open(phase: Phase) -> bool {
    rules::session(phase).is_some_and(|row| row.enter)
}

/// Returns the protocol's word for an event of an instrument.
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
        // If both sessions accept orders, or neither does, the instrument neither starts nor
        // closes.
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

/// `drop_copy.{account}`, or all accounts if `account` is `None`.
#[derive(Debug)]
pub(super) struct DropCopyFeed {
    pub feed: ChannelId,
    pub account: Option<AccountId>,
}

/// Returns the accounts whose drop copy contains this event, and its instrument. The flag marks the
/// taker of a trade, or the buyer of an off-book trade.
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

/// Returns the accounts affected by a kill. Kills of orders and sessions show up as the cancels
/// that they cause.
fn concerned(scope: KillScope, engine: &Engine) -> Vec<(AccountId, bool)> {
    match scope {
        KillScope::Account(account) => vec![(account, false)],
        KillScope::Venue => engine.accounts().iter().map(|account| (account.spec.id, false)).collect(),
        KillScope::Order(_) | KillScope::Session(_) => Vec::new(),
    }
}
