//! Commands of operators: limits, credit, closing, deleting, kills, busts, simulated flow and
//! quarantine.

use pitwire_model::{
    AccountId, AccountSettings, Bust, CancelReason, Command, CurrencyId, Event, FlowSetting, InstrumentId,
    InstrumentKind, InstrumentLimits, KillScope, Label, Phase, Reject, Seq, SessionReason, Side,
};

use crate::leaving::cancel_matching;
use crate::reporting::close_reporting;
use crate::state::{MAX_UNITS, VenueState};
use crate::trading::settle_positions;
use crate::validity::{are_valid_limits, are_valid_settings, is_valid_price, is_valid_quantity};

/// Executes a command of the operator.
///
/// # Errors
/// The first rule that forbids the command.
pub fn run_operator_command(venue: &mut VenueState, command: &Command, out: &mut Vec<Event>) -> Result<(), Reject> {
    match command {
        Command::SetInstrumentLimits { instrument, limits } => set_limits(venue, *instrument, *limits, out),
        Command::DeleteInstrument { instrument } => delete_instrument(venue, *instrument, out),
        Command::SetAccount { account, settings } => set_account(venue, *account, *settings, out),
        Command::SetCreditLine { account, currency, units } => set_credit_line(venue, *account, *currency, *units, out),
        Command::CloseAccount { account } => close_account(venue, *account, out),
        Command::Kill { scope, reason } => kill(venue, *scope, reason, out),
        Command::Lift { scope } => lift_kill(venue, *scope, out),
        Command::BustTrade(bust) => bust_trade(venue, bust, out),
        Command::SetFlow(flow) => set_flow(venue, *flow, out),
        Command::DefineFlow { text } => define_flow(text, out),
        Command::Quarantine { seq, instrument } => {
            quarantine(venue, *seq, *instrument, out);
            Ok(())
        }
        other => unreachable!("{other:?} is dispatched elsewhere"),
    }
}

fn set_limits(
    venue: &mut VenueState,
    instrument: InstrumentId,
    limits: InstrumentLimits,
    out: &mut Vec<Event>,
) -> Result<(), Reject> {
    let market = venue.markets.get_mut(instrument.0 as usize).ok_or(Reject::UnknownInstrument)?;
    if market.session.phase == Phase::Deleted {
        return Err(Reject::InstrumentDeleted);
    }
    if !are_valid_limits(&limits) {
        return Err(Reject::BadDefinition);
    }
    market.spec.limits = limits;
    out.push(Event::InstrumentLimitsSet { instrument, limits });
    Ok(())
}

fn delete_instrument(venue: &mut VenueState, instrument: InstrumentId, out: &mut Vec<Event>) -> Result<(), Reject> {
    let market = venue.market(instrument).ok_or(Reject::UnknownInstrument)?;
    if market.session.phase == Phase::Deleted {
        return Err(Reject::InstrumentDeleted);
    }
    let is_index = venue.markets.iter().any(|other| {
        let of = match other.spec.kind {
            InstrumentKind::InversePerpetual { index, .. } => Some(index),
            InstrumentKind::Spot { .. } => None,
        };
        other.session.phase != Phase::Deleted && of == Some(instrument)
    });
    let mut holdings = venue.accounts.iter().filter_map(|account| account.holdings.get(&instrument));
    if is_index || holdings.any(|holding| holding.lots != 0) {
        return Err(Reject::BadDefinition);
    }
    cancel_matching(venue, |market, _| market.spec.id == instrument, CancelReason::InstrumentDeleted, out);
    close_reporting(venue, instrument, SessionReason::Operator, out);
    venue.markets[instrument.0 as usize].session.phase = Phase::Deleted;
    out.push(Event::PhaseChanged { instrument, phase: Phase::Deleted });
    Ok(())
}

fn set_account(
    venue: &mut VenueState,
    account: AccountId,
    settings: AccountSettings,
    out: &mut Vec<Event>,
) -> Result<(), Reject> {
    let holder = venue.known_account(account)?;
    if !are_valid_settings(&settings) {
        return Err(Reject::BadDefinition);
    }
    holder.spec.settings = settings;
    (holder.window, holder.executions) = (0, 0);
    out.push(Event::AccountSet { account, settings });
    Ok(())
}

fn set_credit_line(
    venue: &mut VenueState,
    account: AccountId,
    currency: CurrencyId,
    units: i128,
    out: &mut Vec<Event>,
) -> Result<(), Reject> {
    let currencies = venue.currencies.len();
    let holder = venue.known_account(account)?;
    if currency.0 as usize >= currencies {
        return Err(Reject::UnknownCurrency);
    }
    if units < 0 {
        return Err(Reject::BadDefinition);
    }
    if units > MAX_UNITS {
        return Err(Reject::AmountOverflow);
    }
    holder.credit_lines.insert(currency, units);
    out.push(Event::CreditLineSet { account, currency, units });
    Ok(())
}

fn close_account(venue: &mut VenueState, account: AccountId, out: &mut Vec<Event>) -> Result<(), Reject> {
    if venue.known_account(account)?.closed {
        return Err(Reject::AccountClosed);
    }
    cancel_matching(venue, |_, order| order.account == account, CancelReason::AccountClosed, out);
    venue.known_account(account)?.closed = true;
    out.push(Event::AccountClosed { account });
    Ok(())
}

fn kill(venue: &mut VenueState, scope: KillScope, reason: &Label, out: &mut Vec<Event>) -> Result<(), Reject> {
    match scope {
        KillScope::Order(order) => _ = venue.find_order(order).ok_or(Reject::UnknownOrder)?,
        KillScope::Session(session) => _ = venue.killed_sessions.insert(session),
        KillScope::Account(account) => venue.known_account(account)?.killed = true,
        KillScope::Venue => venue.venue_killed = true,
    }
    let cancelled = cancel_matching(
        venue,
        |_, order| match scope {
            KillScope::Order(only) => order.id == only,
            KillScope::Session(session) => order.session == session,
            KillScope::Account(account) => order.account == account,
            KillScope::Venue => true,
        },
        CancelReason::Killed,
        out,
    );
    out.push(Event::Killed { scope, cancelled, reason: reason.clone() });
    Ok(())
}

fn lift_kill(venue: &mut VenueState, scope: KillScope, out: &mut Vec<Event>) -> Result<(), Reject> {
    match scope {
        KillScope::Order(_) => return Err(Reject::BadDefinition),
        KillScope::Session(session) => _ = venue.killed_sessions.remove(&session),
        KillScope::Account(account) => {
            let holder = venue.known_account(account)?;
            (holder.killed, holder.throttled) = (false, false);
            (holder.window, holder.executions) = (0, 0);
        }
        KillScope::Venue => venue.venue_killed = false,
    }
    out.push(Event::Lifted { scope });
    Ok(())
}

fn bust_trade(venue: &mut VenueState, bust: &Bust, out: &mut Vec<Event>) -> Result<(), Reject> {
    let market = venue.market(bust.instrument).ok_or(Reject::UnknownInstrument)?;
    venue.account(bust.buyer).ok_or(Reject::UnknownAccount)?;
    venue.account(bust.seller).ok_or(Reject::UnknownAccount)?;
    if !(1..=market.trade_count).contains(&bust.trade_seq.0) {
        return Err(Reject::UnknownTrade);
    }
    if market.busted.contains(&bust.trade_seq) {
        return Err(Reject::AlreadyBusted);
    }
    if !is_valid_quantity(bust.lots.0) || !is_valid_price(bust.price) {
        return Err(Reject::BadDefinition);
    }
    let market = &mut venue.markets[bust.instrument.0 as usize];
    market.busted.insert(bust.trade_seq);
    market.closing.remove_trade(bust.trade_seq.0, bust.price, bust.lots.0);
    // A bust settles the trade in reverse: the buyer sells.
    let parties = [(bust.buyer, Side::Sell), (bust.seller, Side::Buy)];
    venue.settle_money(bust.instrument, parties, bust.price, bust.lots.0);
    out.push(Event::TradeBusted(Box::new(bust.clone())));
    settle_positions(venue, bust.instrument, out);
    Ok(())
}

fn set_flow(venue: &mut VenueState, flow: FlowSetting, out: &mut Vec<Event>) -> Result<(), Reject> {
    if !(1..=FlowSetting::MOST_RATE_PERCENT).contains(&flow.rate_percent) {
        return Err(Reject::BadDefinition);
    }
    venue.flow = flow;
    out.push(Event::FlowSet(flow));
    Ok(())
}

fn define_flow(text: &str, out: &mut Vec<Event>) -> Result<(), Reject> {
    match text.len() {
        1..=FlowSetting::MOST_TEXT_BYTES => {
            out.push(Event::FlowDefined);
            Ok(())
        }
        _ => Err(Reject::BadDefinition),
    }
}

fn quarantine(venue: &mut VenueState, seq: Seq, instrument: Option<InstrumentId>, out: &mut Vec<Event>) {
    out.push(Event::Quarantined { seq });
    let Some(instrument) = instrument else { return };
    let Some(market) = venue.markets.get_mut(instrument.0 as usize) else { return };
    if market.session.phase != Phase::Deleted {
        market.halt(venue.now);
        out.push(Event::PhaseChanged { instrument, phase: Phase::Halted });
    }
}
