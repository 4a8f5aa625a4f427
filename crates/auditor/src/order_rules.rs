//! Checks of one order that entries and amends share: the rule tables, the terms of the order,
//! kills and throttles, expiries, and reasons of refusal.

use pitwire_model::{
    AccountId, CurrencyId, Lots, NewOrder, OrderType, Phase, PostOnly, Reject, SessionId, TimeInForce,
};

use crate::market::MarketState;
use crate::model::VenueModel;
use crate::orders::{LiveOrderKind, kind_of};
use crate::rule_tables::{TableAnswer, column, tables};
use crate::violation::{CheckResult, fail};

/// Checks the expiry of an order.
///
/// # Errors
/// `ExpiryPassed` if the expiry is not in the future, `ExpiryTooFar` if it is after the end of the
/// venue day or after the last day that a date may name.
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

/// Checks that neither a kill nor the throttle blocks the account or the session.
///
/// # Errors
/// `Killed` or `ExecutionThrottle`.
pub fn check_not_blocked(model: &VenueModel, account: AccountId, session: SessionId) -> Result<(), Reject> {
    let restrictions = &model.ledger.accounts[account.0 as usize].restrictions;
    if model.kills.venue || restrictions.killed || model.kills.sessions.contains(&session) {
        return Err(Reject::Killed);
    }
    if restrictions.throttled { Err(Reject::ExecutionThrottle) } else { Ok(()) }
}

/// Checks the reason of a refusal. `cost` is the cost of the order in a currency, if known.
///
/// # Errors
/// M5 if another rule is broken first, or none. S1 if a limited account was refused for lack of
/// funds that it has.
pub fn check_refusal(
    model: &VenueModel,
    expected: Option<Reject>,
    actual: Reject,
    account: AccountId,
    cost: Option<(CurrencyId, i128)>,
) -> CheckResult {
    let limited = || model.ledger.accounts.get(account.0 as usize).is_some_and(|holder| holder.limited);
    match expected {
        Some(expected) if expected == actual => Ok(()),
        None if actual == Reject::NotEnoughFunds && limited() => match cost {
            Some(cost) if model.ledger.could_spend(account, cost) => {
                fail!(S1, "account {account} was refused for lack of {} of currency {}, but has it", cost.1, cost.0)
            }
            _ => Ok(()),
        },
        Some(expected) => fail!(M5, "refused as {}, but the first broken rule is {}", actual.name(), expected.name()),
        None => fail!(M5, "refused as {}, but that reason does not apply", actual.name()),
    }
}

impl MarketState {
    /// Applies the rule tables under rule version 1.
    ///
    /// # Errors
    /// `PostOnlyNotAllowed` for an immediate iceberg that is post-only, and the errors of
    /// [`Self::table_answer`].
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

    /// Applies the rule tables to an order in the current session.
    ///
    /// # Errors
    /// `TifNotAllowedForType` if the type never has this time in force, `DisplayOutOfRange` for an
    /// immediate iceberg, `TifNotAllowedInSession` or `TypeNotAllowedInSession` if the session or
    /// the batch refuses it.
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

    /// Checks that the session an order is for is running or still scheduled today.
    ///
    /// # Errors
    /// `NoAuctionScheduled` if that session neither runs nor comes today.
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

    /// Checks post-only and display.
    ///
    /// # Errors
    /// `PostOnlyNotAllowed` if the order cannot rest or is not a limit order, or outside continuous
    /// trading. `DisplayOutOfRange` if the displayed part is zero, above the quantity, or belongs
    /// to an order that cannot rest.
    pub fn check_order_terms(&self, new: &NewOrder) -> Result<(), Reject> {
        let rests = may_rest(kind_of(new.order_type), new.tif);
        if new.post_only != PostOnly::No {
            let is_limit = matches!(new.order_type, OrderType::Limit { .. });
            self.check_post_only_allowed(rests && is_limit)?;
        }
        if new.display.is_some_and(|display| !rests || display.is_zero() || display > new.lots) {
            return Err(Reject::DisplayOutOfRange);
        }
        Ok(())
    }

    /// Checks that an iceberg of `lots` displays at least the smallest share of the instrument.
    ///
    /// # Errors
    /// `DisplayOutOfRange` if it displays less.
    pub fn check_min_display(&self, display: Option<Lots>, lots: Lots) -> Result<(), Reject> {
        let shown_pct = |display: Lots| u128::from(display.0) * 100 / u128::from(lots.0.max(1));
        let is_small = |display: Lots| shown_pct(display) < u128::from(self.rules.min_display_pct);
        if display.is_some_and(is_small) { Err(Reject::DisplayOutOfRange) } else { Ok(()) }
    }

    /// Checks that an order that fits post-only meets a session that has it.
    ///
    /// # Errors
    /// `PostOnlyNotAllowed` unless `is_fit`, in continuous trading, without batches.
    pub fn check_post_only_allowed(&self, is_fit: bool) -> Result<(), Reject> {
        let is_fit = is_fit && self.session.phase == Phase::Continuous && !self.is_batched();
        if is_fit { Ok(()) } else { Err(Reject::PostOnlyNotAllowed) }
    }

    /// Checks the size and the minimum execution of a hidden order.
    ///
    /// # Errors
    /// `QuantityBelowReserve` if the quantity is below the minimum reserve size,
    /// `MinimumExecutionOutOfRange` if the minimum is zero, above the open quantity or below the
    /// reserve.
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

/// Whether an order of this kind may rest with a display.
pub fn may_rest(kind: LiveOrderKind, tif: TimeInForce) -> bool {
    matches!(kind, LiveOrderKind::Limit | LiveOrderKind::StopLimit) && tif.rests()
}
