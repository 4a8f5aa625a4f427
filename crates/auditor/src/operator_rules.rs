//! The first rule that forbids an operator's command.

use pitwire_model::{Bust, Command, FlowSetting, InstrumentId, InstrumentKind, KillScope, Phase, Reject};

use crate::model::VenueModel;
use crate::money::AccountLedger;
use crate::validity::{are_valid_limits, are_valid_rules, are_valid_settings, legal_lots, legal_price};

/// Largest credit line, in units. It keeps sums of balances within 128 bits.
const MOST_UNITS: i128 = 1 << 100;

/// Checks a command against the rules for operators.
///
/// # Errors
/// The reason of the first rule that forbids the command.
pub fn operator_rejection(model: &VenueModel, command: &Command) -> Result<(), Reject> {
    let require = |is_so: bool, reason: Reject| if is_so { Ok(()) } else { Err(reason) };
    match command {
        Command::SetPhase { instrument, phase } => {
            let market = model.known_market(*instrument)?;
            require(*phase != Phase::Deleted, Reject::BadDefinition)?;
            require(market.session.phase != Phase::Deleted, Reject::InstrumentDeleted)
        }
        Command::ChangeSession { instrument, to, reason, .. } => {
            model.known_market(*instrument)?.session.check_change_allowed(*to, *reason)
        }
        Command::ExtendSession { instrument, ends } => {
            let market = model.existing_market(*instrument)?;
            require(market.session.phase.is_call() && *ends >= model.at, Reject::SessionNotAllowed)
        }
        Command::SetRemaining { instrument, .. } | Command::FilterHidden { instrument } => {
            model.existing_market(*instrument).map(|_| ())
        }
        Command::RunBatch { instrument } => model.existing_market(*instrument).map(|_| ()),
        Command::SetTradingRules { instrument, rules } => {
            let market = model.existing_market(*instrument)?;
            require(are_valid_rules(rules), Reject::BadDefinition)?;
            let is_at_work = market.session.phase.is_call()
                || matches!(market.session.phase, Phase::Continuous | Phase::ClosingPriceCross);
            require(rules.allocation == market.rules.allocation || !is_at_work, Reject::SessionNotAllowed)
        }
        Command::SetClosingPrice { instrument, price } => {
            let market = model.existing_market(*instrument)?;
            let is_over = matches!(market.session.phase, Phase::ClosingPriceCross | Phase::PostClose | Phase::Closed);
            require(!is_over, Reject::SessionNotAllowed)?;
            legal_price(*price)
        }
        Command::SetInstrumentLimits { instrument, limits } => {
            require(model.known_market(*instrument)?.session.phase != Phase::Deleted, Reject::InstrumentDeleted)?;
            require(are_valid_limits(limits), Reject::BadDefinition)
        }
        Command::DeleteInstrument { instrument } => {
            require(model.known_market(*instrument)?.session.phase != Phase::Deleted, Reject::InstrumentDeleted)?;
            require(!is_in_use(model, *instrument), Reject::BadDefinition)
        }
        Command::SetAccount { account, settings } => {
            model.known_account(*account)?;
            require(are_valid_settings(settings), Reject::BadDefinition)
        }
        Command::SetCreditLine { account, currency, units } => {
            let holder = model.known_account(*account)?;
            require((currency.0 as usize) < holder.totals.len(), Reject::UnknownCurrency)?;
            require(*units >= 0, Reject::BadDefinition)?;
            require(*units <= MOST_UNITS, Reject::AmountOverflow)
        }
        Command::CloseAccount { account } => {
            require(!model.known_account(*account)?.restrictions.closed, Reject::AccountClosed)
        }
        Command::Kill { scope: KillScope::Order(order), .. } => {
            require(model.orders.contains_key(order), Reject::UnknownOrder)
        }
        Command::Lift { scope: KillScope::Order(_) } => Err(Reject::BadDefinition),
        Command::Kill { scope: KillScope::Account(account), .. }
        | Command::Lift { scope: KillScope::Account(account) } => model.known_account(*account).map(|_| ()),
        Command::BustTrade(bust) => bust_rejection(model, bust),
        Command::DefineFlow { text } => {
            require((1..=FlowSetting::MOST_TEXT_BYTES).contains(&text.len()), Reject::BadDefinition)
        }
        Command::SetFlow(flow) => {
            require((1..=FlowSetting::MOST_RATE_PERCENT).contains(&flow.rate_percent), Reject::BadDefinition)
        }
        _ => Ok(()),
    }
}

fn bust_rejection(model: &VenueModel, bust: &Bust) -> Result<(), Reject> {
    let market = model.known_market(bust.instrument)?;
    model.known_account(bust.buyer).and(model.known_account(bust.seller))?;
    if bust.trade_seq.0 == 0 || bust.trade_seq.0 > market.trades {
        return Err(Reject::UnknownTrade);
    }
    if market.busted.contains(&bust.trade_seq) {
        return Err(Reject::AlreadyBusted);
    }
    legal_lots(bust.lots).and(legal_price(bust.price)).map_err(|_| Reject::BadDefinition)
}

/// Whether an instrument is the index of a perpetual, or an account holds a position in it.
fn is_in_use(model: &VenueModel, instrument: InstrumentId) -> bool {
    let indexes = model.markets.iter().filter(|market| market.session.phase != Phase::Deleted).any(
        |market| matches!(market.spec.kind, InstrumentKind::InversePerpetual { index, .. } if index == instrument),
    );
    let held = |holder: &AccountLedger| holder.positions.get(&instrument).is_some_and(|held| held.lots != 0);
    indexes || model.ledger.accounts.iter().any(held)
}
