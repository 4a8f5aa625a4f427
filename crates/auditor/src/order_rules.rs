//! Checks of one order that entries and amends share: the rule tables, the terms of the order, kills
//! and throttles, expiries, and reasons of refusal.

use pitwire_model::{
    AccountId, CurrencyId, Lots, NewOrder, OrderType, Phase, PostOnly, Reject, SessionId, TimeInForce,
};

use crate::market::MarketState;
use crate::model::VenueModel;
use crate::orders::{LiveOrderKind, kind_of};
use crate::rule_tables::{TableAnswer, column, tables};
use crate::violation::{CheckResult, fail};

/// Whether an order may be good for so long.
pub fn check_expiry(model: &VenueModel, tif: TimeInForce) -> Result<(), Reject> {
    match tif {
        TimeInForce::GoodTillTime { at } if at <= model.at => Err(Reject::ExpiryPassed),
        TimeInForce::GoodTillTime { at } if model.venue_day.is_none_or(|(_, closes)| at > closes) => {
            Err(Reject::ExpiryTooFar)
        }
        TimeInForce::GoodTillDate { day } if day < model.today() => Err(Reject::ExpiryPassed),
        TimeInForce::GoodTillDate { day } if day > model.last_expiry_day() => Err(Reject::ExpiryTooFar),
        _ => Ok(()),
    }
}

/// Whether nothing keeps the account or the session from trading.
pub fn check_not_blocked(model: &VenueModel, account: AccountId, session: SessionId) -> Result<(), Reject> {
    let standing = &model.ledger.accounts[account.0 as usize].restrictions;
    if model.kills.venue || standing.killed || model.kills.sessions.contains(&session) {
        return Err(Reject::Killed);
    }
    if standing.throttled { Err(Reject::ExecutionThrottle) } else { Ok(()) }
}

/// `cost` is what the order spends of its currency, where that is known.
pub fn check_refusal(
    model: &VenueModel,
    due: Option<Reject>,
    told: Reject,
    account: AccountId,
    cost: Option<(CurrencyId, i128)>,
) -> CheckResult {
    let limited = || model.ledger.accounts.get(account.0 as usize).is_some_and(|holder| holder.limited);
    match due {
        Some(due) if due == told => Ok(()),
        None if told == Reject::NotEnoughFunds && limited() => match cost {
            Some(cost) if model.ledger.could_spend(account, cost) => {
                fail!(S1, "account {account} was refused for want of {} of currency {}, and has it", cost.1, cost.0)
            }
            _ => Ok(()),
        },
        Some(due) => fail!(M5, "refused as {}, and the first rule broken is {}", told.name(), due.name()),
        None => fail!(M5, "refused as {}, which was not so", told.name()),
    }
}

impl MarketState {
    /// The same under rule version 1.
    pub fn version_1_answer(&self, new: &NewOrder) -> Result<TableAnswer, Reject> {
        let column = column(new.order_type, new.display.is_some());
        if column == "iceberg" && !new.tif.rests() && new.post_only != PostOnly::No {
            return Err(Reject::PostOnlyNotAllowed);
        }
        if column == "market" && new.tif == TimeInForce::GoodTillCancel {
            return self.table_answer(&NewOrder { tif: TimeInForce::Day, ..new.clone() });
        }
        self.table_answer(new)
    }

    /// What the tables make of an order here and now.
    pub fn table_answer(&self, new: &NewOrder) -> Result<TableAnswer, Reject> {
        let column = column(new.order_type, new.display.is_some());
        if !tables().allows_type(new.tif, column) {
            let is_immediate_iceberg = column == "iceberg" && !new.tif.rests();
            let reason = if is_immediate_iceberg { Reject::DisplayOutOfRange } else { Reject::TifNotAllowedForType };
            return Err(reason);
        }
        let (by_tif, by_type) = tables().cells(self.session.phase, new.tif, column);
        if by_tif == TableAnswer::Reject || (self.is_batched_now() && new.tif == TimeInForce::FillOrKill) {
            return Err(Reject::TifNotAllowedInSession);
        }
        if by_type == TableAnswer::Reject || (self.is_batched_now() && column == "hidden") {
            return Err(Reject::TypeNotAllowedInSession);
        }
        let is_cross_market = self.session.phase == Phase::ClosingPriceCross
            && new.tif == TimeInForce::ClosingCross
            && matches!(new.order_type, OrderType::Market);
        Ok(if is_cross_market { TableAnswer::Active } else { by_tif.min(by_type) })
    }

    /// Whether the session that an order is for runs, or still comes.
    pub fn check_session_scheduled(&self, tif: TimeInForce) -> Result<(), Reject> {
        let comes = |phase: Phase| self.session.phase == phase || self.session.remaining.holds(phase);
        let is_there = match tif {
            TimeInForce::OpeningCall => comes(Phase::OpeningCall),
            TimeInForce::ClosingCall => comes(Phase::ClosingCall),
            TimeInForce::IntradayCall => comes(Phase::IntradayCall),
            TimeInForce::ClosingCross => comes(Phase::ClosingPriceCross),
            TimeInForce::AnyCall => {
                let scheduled = Phase::ALL.into_iter().filter(|phase| phase.is_scheduled_call());
                self.session.phase.is_call() || scheduled.into_iter().any(comes)
            }
            _ => true,
        };
        if is_there { Ok(()) } else { Err(Reject::NoAuctionScheduled) }
    }

    /// Post-only, display, and what is asked of hidden orders.
    pub fn check_order_terms(&self, new: &NewOrder) -> Result<(), Reject> {
        let rests = may_rest(kind_of(new.order_type), new.tif);
        if new.post_only != PostOnly::No {
            let is_limit = matches!(new.order_type, OrderType::Limit { .. });
            self.check_post_only_allowed(rests && is_limit)?;
        }
        if new.display.is_some_and(|display| !rests || display.is_zero() || display > new.lots) {
            return Err(Reject::DisplayOutOfRange);
        }
        match new.order_type {
            OrderType::Hidden { minimum_execution, .. } => {
                self.check_hidden_sizes(new.lots.0, new.lots.0, minimum_execution.0)
            }
            _ => Ok(()),
        }
    }

    pub fn check_post_only_allowed(&self, is_fit: bool) -> Result<(), Reject> {
        let is_fit = is_fit && self.session.phase == Phase::Continuous && !self.is_batched();
        if is_fit { Ok(()) } else { Err(Reject::PostOnlyNotAllowed) }
    }

    /// Whether a hidden order is large enough, and its minimum neither too small nor too large.
    pub fn check_hidden_sizes(&self, ordered: u64, open: u64, minimum: u64) -> Result<(), Reject> {
        let reserve = self.rules.minimum_reserve.unwrap_or(Lots::ZERO).0;
        if ordered < reserve {
            return Err(Reject::QuantityBelowReserve);
        }
        if minimum < 1 || minimum > open || minimum < reserve {
            return Err(Reject::MinimumExecutionOutOfRange);
        }
        Ok(())
    }
}

/// Whether an order of this kind may show a part of itself.
pub fn may_rest(kind: LiveOrderKind, tif: TimeInForce) -> bool {
    matches!(kind, LiveOrderKind::Limit | LiveOrderKind::StopLimit) && tif.rests()
}
