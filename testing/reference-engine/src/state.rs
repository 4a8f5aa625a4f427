//! The state of the venue.

use std::collections::BTreeSet;

use pitwire_model::{
    AccountId, Currency, Epoch, FlowSetting, InstrumentId, OrderId, Phase, Reject, SelfMatch, Seq, SessionId,
    TradeReport, VenueDay, VenueNanos,
};

use crate::account::ReferenceAccount;
use crate::market::ReferenceMarket;
use crate::order::ReferenceOrder;

/// Largest balance and credit line, in units. It keeps sums of balances within 128 bits.
pub const MAX_UNITS: i128 = 1 << 100;

/// The state of the reference engine. No part of it is derived from another part.
#[derive(Debug, Default)]
pub struct VenueState {
    pub epoch: Epoch,
    /// Venue time of the current command.
    pub now: VenueNanos,
    pub day: VenueDay,
    /// Closing time of the venue day.
    pub closes: VenueNanos,
    pub flow: FlowSetting,
    pub last_session: SessionId,
    pub venue_killed: bool,
    pub killed_sessions: BTreeSet<SessionId>,
    pub currencies: Vec<Currency>,
    pub markets: Vec<ReferenceMarket>,
    pub accounts: Vec<ReferenceAccount>,
    /// The last priority number.
    pub last_priority: u64,
    /// Trade reports that wait for an answer, in no particular order.
    pub reports: Vec<(Seq, TradeReport)>,
}

impl VenueState {
    pub fn market(&self, id: InstrumentId) -> Option<&ReferenceMarket> {
        self.markets.get(id.0 as usize)
    }

    /// Returns the index of an instrument in `markets`.
    ///
    /// # Errors
    /// `UnknownInstrument` or `InstrumentDeleted`.
    pub fn existing_market(&self, id: InstrumentId) -> Result<usize, Reject> {
        let market = self.market(id).ok_or(Reject::UnknownInstrument)?;
        if market.session.phase == Phase::Deleted {
            return Err(Reject::InstrumentDeleted);
        }
        Ok(id.0 as usize)
    }

    pub fn account(&self, id: AccountId) -> Option<&ReferenceAccount> {
        self.accounts.get(id.0 as usize)
    }

    /// # Errors
    /// `UnknownAccount`.
    pub fn known_account(&mut self, account: AccountId) -> Result<&mut ReferenceAccount, Reject> {
        self.accounts.get_mut(account.0 as usize).ok_or(Reject::UnknownAccount)
    }

    /// Returns a live order and its instrument.
    pub fn find_order(&self, id: OrderId) -> Option<(InstrumentId, ReferenceOrder)> {
        self.markets.iter().find_map(|market| Some((market.spec.id, *market.get(id)?)))
    }

    pub fn next_priority(&mut self) -> u64 {
        self.last_priority += 1;
        self.last_priority
    }

    /// Returns the self-match prevention mode of an account.
    pub fn self_match_mode(&self, account: AccountId) -> SelfMatch {
        self.accounts[account.0 as usize].spec.settings.self_match
    }
}
