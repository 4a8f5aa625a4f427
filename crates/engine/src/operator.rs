//! An operator's word on instruments, accounts and the resident flow.
//!
//! Holds       a change of limits touches no resting order; only a deletion or a closing does, and it is for good.
//! Leaves out  kills (`kill`) and busts (`bust`).

use pitwire_model::{
    AccountId, AccountSettings, CancelReason, CurrencyId, Event, FlowSetting, InstrumentId, InstrumentKind,
    InstrumentLimits, Lots, Phase, Reject, Seq, SessionReason,
};

use crate::define::MOST_UNITS;
use crate::engine::{Engine, EventSink};

/// A collar this wide would not bound a sale at all.
const WHOLE_BPS: u32 = 10_000;

pub(crate) fn check_limits(limits: InstrumentLimits) -> Result<(), Reject> {
    let sane = limits.max_lots.is_none_or(|lots| lots > Lots::ZERO)
        && limits.max_notional_units.is_none_or(|units| units > 0)
        && limits.collar_bps.is_none_or(|bps| bps < WHOLE_BPS);
    if sane { Ok(()) } else { Err(Reject::BadDefinition) }
}

pub(crate) fn check_settings(settings: AccountSettings) -> Result<(), Reject> {
    let sane = settings.throttle.is_none_or(|throttle| throttle.executions > 0 && throttle.window_ns > 0);
    if sane { Ok(()) } else { Err(Reject::BadDefinition) }
}

impl Engine {
    pub(crate) fn set_limits(
        &mut self,
        instrument: InstrumentId,
        limits: InstrumentLimits,
        out: &mut impl EventSink,
    ) -> Result<(), Reject> {
        let market = self.markets.get_mut(instrument.0 as usize).ok_or(Reject::UnknownInstrument)?;
        if market.phase == Phase::Deleted {
            return Err(Reject::InstrumentDeleted);
        }
        check_limits(limits)?;
        market.spec.limits = limits;
        market.limited = limits != InstrumentLimits::default();
        out.emit(Event::InstrumentLimitsSet { instrument, limits });
        Ok(())
    }

    pub(crate) fn delete_instrument(
        &mut self,
        instrument: InstrumentId,
        out: &mut impl EventSink,
    ) -> Result<(), Reject> {
        let market = self.market(instrument).ok_or(Reject::UnknownInstrument)?;
        if market.phase == Phase::Deleted {
            return Err(Reject::InstrumentDeleted);
        }
        let is_index = self.markets.iter().any(|other| {
            let of = matches!(other.spec.kind, InstrumentKind::InversePerpetual { index, .. } if index == instrument);
            of && other.phase != Phase::Deleted
        });
        if is_index || self.accounts.iter().any(|account| account.position(instrument).lots != 0) {
            return Err(Reject::BadDefinition);
        }
        self.take_off_where(Some(instrument), CancelReason::InstrumentDeleted, |_, _| true, out);
        let market = &mut self.markets[instrument.0 as usize];
        market.end_reporting(SessionReason::Operator, out);
        market.phase = Phase::Deleted;
        market.judge();
        out.emit(Event::PhaseChanged { instrument, phase: Phase::Deleted });
        Ok(())
    }

    pub(crate) fn set_account(
        &mut self,
        account: AccountId,
        settings: AccountSettings,
        out: &mut impl EventSink,
    ) -> Result<(), Reject> {
        let holder = self.accounts.get_mut(account.0 as usize).ok_or(Reject::UnknownAccount)?;
        check_settings(settings)?;
        holder.spec.settings = settings;
        holder.forget_executions();
        holder.judge();
        out.emit(Event::AccountSet { account, settings });
        Ok(())
    }

    pub(crate) fn set_credit_line(
        &mut self,
        account: AccountId,
        currency: CurrencyId,
        units: i128,
        out: &mut impl EventSink,
    ) -> Result<(), Reject> {
        self.account(account).ok_or(Reject::UnknownAccount)?;
        self.currency(currency).ok_or(Reject::UnknownCurrency)?;
        match units {
            ..0 => return Err(Reject::BadDefinition),
            0..=MOST_UNITS => {}
            _ => return Err(Reject::AmountOverflow),
        }
        let lines = &mut self.accounts[account.0 as usize].standing.credit_lines;
        if units == 0 {
            lines.remove(&currency)
        } else {
            lines.insert(currency, units)
        };
        out.emit(Event::CreditLineSet { account, currency, units });
        Ok(())
    }

    pub(crate) fn close_account(&mut self, account: AccountId, out: &mut impl EventSink) -> Result<(), Reject> {
        let holder = self.accounts.get_mut(account.0 as usize).ok_or(Reject::UnknownAccount)?;
        if holder.is_closed() {
            return Err(Reject::AccountClosed);
        }
        holder.standing.closed = true;
        holder.judge();
        self.take_off_where(None, CancelReason::AccountClosed, |owner, _| owner == account, out);
        out.emit(Event::AccountClosed { account });
        Ok(())
    }

    pub(crate) fn set_flow(&mut self, flow: FlowSetting, out: &mut impl EventSink) -> Result<(), Reject> {
        if !(1..=FlowSetting::MOST_RATE_PERCENT).contains(&flow.rate_percent) {
            return Err(Reject::BadDefinition);
        }
        self.flow = flow;
        out.emit(Event::FlowSet(flow));
        Ok(())
    }

    /// Never refused: it stands in the log because another command could not be applied.
    pub(crate) fn quarantine(&mut self, seq: Seq, instrument: Option<InstrumentId>, out: &mut impl EventSink) {
        out.emit(Event::Quarantined { seq });
        let market = instrument.and_then(|instrument| self.markets.get_mut(instrument.0 as usize));
        if let Some(market) = market.filter(|market| market.phase != Phase::Deleted) {
            if market.phase == Phase::Continuous {
                market.day.end_continuous(self.now);
            }
            market.break_off();
            out.emit(Event::PhaseChanged { instrument: market.spec.id, phase: Phase::Halted });
        }
    }
}
