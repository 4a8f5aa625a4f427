//! Kills: what is stopped stays stopped until somebody lifts it.
//!
//! Holds       an order passes only if neither the venue, nor its account, nor its session is killed.
//! Costs       kill: the orders of all books, plus sorting those it takes; an order while nothing is stopped: one test.
//! Start at    `Engine::kill`, then `Engine::check_standing`.

use std::collections::BTreeSet;

use pitwire_model::{CancelReason, Epoch, Event, InstrumentId, KillScope, Label, OrderId, Phase, Reject, SessionId};

use crate::account::Account;
use crate::engine::{Engine, EventSink};
use crate::market::Market;
use crate::rule_tables::session_permissions;

/// Stops that belong to no account.
#[derive(Debug, Default)]
pub(crate) struct TradingBlocks {
    any: bool,
    venue: bool,
    sessions: BTreeSet<SessionId>,
}

impl TradingBlocks {
    pub fn new(venue: bool, sessions: BTreeSet<SessionId>) -> Self {
        TradingBlocks { any: venue || !sessions.is_empty(), venue, sessions }
    }

    /// HOT. Whether anything at all is stopped.
    #[inline]
    pub fn any(&self) -> bool {
        self.any
    }

    pub fn venue(&self) -> bool {
        self.venue
    }

    pub fn has(&self, session: SessionId) -> bool {
        self.sessions.contains(&session)
    }

    pub fn sessions(&self) -> impl Iterator<Item = SessionId> {
        self.sessions.iter().copied()
    }

    fn set(&mut self, scope: KillScope, stopped: bool) {
        match scope {
            KillScope::Venue => self.venue = stopped,
            KillScope::Session(session) if stopped => _ = self.sessions.insert(session),
            KillScope::Session(session) => _ = self.sessions.remove(&session),
            KillScope::Order(_) | KillScope::Account(_) => {}
        }
        self.any = self.venue || !self.sessions.is_empty();
    }

    fn forget_sessions(&mut self) {
        self.sessions.clear();
        self.any = self.venue;
    }
}

impl Engine {
    /// Why an order may not enter, if anything about its instrument, account or session says so; in the order of the
    /// rules.
    #[cold]
    pub(crate) fn check_standing(&self, market: &Market, account: &Account, session: SessionId) -> Result<(), Reject> {
        if market.phase == Phase::Deleted {
            return Err(Reject::InstrumentDeleted);
        }
        self.check_blocks(account, session)?;
        if session_permissions(market.phase).enter { Ok(()) } else { Err(Reject::NotOpen) }
    }

    #[cold]
    pub(crate) fn check_blocks(&self, account: &Account, session: SessionId) -> Result<(), Reject> {
        match () {
            () if account.is_closed() => Err(Reject::AccountClosed),
            () if self.blocks.venue || account.is_killed() || self.blocks.has(session) => Err(Reject::Killed),
            () if account.is_throttled() => Err(Reject::ExecutionThrottle),
            () => Ok(()),
        }
    }

    pub(crate) fn kill(&mut self, scope: KillScope, reason: &Label, out: &mut impl EventSink) -> Result<(), Reject> {
        let cancelled = match scope {
            KillScope::Order(order) => self.kill_order(order, out)?,
            KillScope::Session(session) => {
                self.take_off_where(None, CancelReason::Killed, |_, origin| origin.session == session, out)
            }
            KillScope::Account(account) => {
                let holder = self.accounts.get_mut(account.0 as usize).ok_or(Reject::UnknownAccount)?;
                holder.standing.killed = true;
                holder.judge();
                self.take_off_where(None, CancelReason::Killed, |owner, _| owner == account, out)
            }
            KillScope::Venue => self.take_off_where(None, CancelReason::Killed, |_, _| true, out),
        };
        self.blocks.set(scope, true);
        out.emit(Event::Killed { scope, cancelled, reason: reason.clone() });
        Ok(())
    }

    fn kill_order(&mut self, order: OrderId, out: &mut impl EventSink) -> Result<u32, Reject> {
        let (instrument, slot): (InstrumentId, _) = self.orders.get(order).ok_or(Reject::UnknownOrder)?;
        self.cancel_special(instrument, slot, CancelReason::Killed, out);
        Ok(1)
    }

    pub(crate) fn lift(&mut self, scope: KillScope, out: &mut impl EventSink) -> Result<(), Reject> {
        match scope {
            KillScope::Order(_) => return Err(Reject::BadDefinition),
            KillScope::Account(account) => {
                let holder = self.accounts.get_mut(account.0 as usize).ok_or(Reject::UnknownAccount)?;
                (holder.standing.killed, holder.standing.throttled) = (false, false);
                holder.forget_executions();
                holder.judge();
            }
            KillScope::Session(_) | KillScope::Venue => self.blocks.set(scope, false),
        }
        out.emit(Event::Lifted { scope });
        Ok(())
    }

    /// Sessions end with the epoch they began in.
    pub(crate) fn start_epoch(&mut self, epoch: Epoch, out: &mut impl EventSink) {
        self.take_off_where(None, CancelReason::Disconnected, |_, origin| origin.cancel_on_disconnect, out);
        self.epoch = epoch;
        self.blocks.forget_sessions();
        out.emit(Event::EpochStarted { epoch });
    }
}
