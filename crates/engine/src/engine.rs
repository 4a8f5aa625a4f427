//! The venue's one state machine: dispatches each command to what it concerns.

use pitwire_model::{
    Command, Currency, Epoch, Event, FlowSetting, InstrumentId, InstrumentKind, SessionId, Stamped, Ticks, VenueDay,
    VenueNanos,
};

use crate::account::Account;
use crate::index::OrderIndex;
use crate::kill::TradingBlocks;
use crate::look_ahead::{LookAhead, UpcomingCommand};
use crate::market::Market;

/// Where events go. A `Vec<Event>` is one.
pub trait EventSink {
    fn emit(&mut self, event: Event);
}

impl EventSink for Vec<Event> {
    #[inline]
    fn emit(&mut self, event: Event) {
        self.push(event);
    }
}

#[derive(Debug, Default)]
pub struct Engine {
    pub(crate) epoch: Epoch,
    /// Venue time of the command being applied.
    pub(crate) now: VenueNanos,
    /// The last place in time that an order was given.
    pub(crate) times: u64,
    /// The venue day that is; zero before the first has begun.
    pub(crate) day: VenueDay,
    /// The same as orders carry it.
    pub(crate) entry_day: u16,
    /// When it closes.
    pub(crate) closes: VenueNanos,
    pub(crate) currencies: Vec<Currency>,
    pub(crate) accounts: Vec<Account>,
    pub(crate) markets: Vec<Market>,
    pub(crate) orders: OrderIndex,
    pub(crate) flow: FlowSetting,
    /// The highest number an accepted order has come from.
    pub(crate) last_session: SessionId,
    pub(crate) blocks: TradingBlocks,
    /// Guesses: no part of any image.
    pub(crate) ahead: LookAhead,
    /// What is applied was let in or refused under rule version 1. No part of any image: see [`Engine::follow`].
    pub(crate) first_rules: bool,
}

/// Of the rules by which this engine plays, which every group of a journal names.
///
/// Version 1 let a market order be good till cancelled, which meant nothing, and asked an order that cannot rest about
/// post-only before it asked about its display.
pub const RULE_VERSION: u16 = 2;

/// So many books and what they look at lie at hand anyway.
const FEW_MARKETS: usize = 64;

impl Engine {
    pub fn new() -> Self {
        Self::default()
    }

    /// What is applied from now on was first applied under these rules: a replay says so group by group, and a venue that
    /// goes on says [`RULE_VERSION`], which is what a new engine follows.
    pub fn follow(&mut self, rule_version: u16) {
        self.first_rules = rule_version < 2;
    }

    /// Makes room for so many live orders ahead of time.
    pub fn reserve(&mut self, instrument: InstrumentId, orders: usize) {
        self.orders.reserve(orders);
        if let Some(market) = self.markets.get_mut(instrument.0 as usize) {
            market.book.reserve(orders);
        }
    }

    /// HOT. Before a command is applied, by whoever holds those behind it too: see [`ahead`](crate::ahead). `coming(n)`
    /// is the command `n` places behind. Changes nothing.
    #[inline]
    pub fn look_ahead(&mut self, coming: impl Fn(usize) -> Option<UpcomingCommand>) {
        let Engine { ahead, orders, markets, .. } = self;
        let many = markets.len() > FEW_MARKETS;
        ahead.look(orders, |at| markets.get(at.0 as usize).map(|market| &market.book), many, coming);
    }

    /// Applies one command. All branching on the kind of command happens here.
    #[inline]
    pub fn apply(&mut self, stamped: &Stamped, out: &mut impl EventSink) {
        self.now = stamped.at;
        match &stamped.command {
            Command::Enter(order) => self.enter(order, out),
            Command::Cancel { account, order } => self.cancel(*account, *order, out),
            Command::Amend(amend) => self.amend(*amend, out),
            Command::CloseWindow => out.emit(Event::WindowClosed),
            _ => self.apply_rare(stamped, out),
        }
    }

    #[cold]
    fn apply_rare(&mut self, stamped: &Stamped, out: &mut impl EventSink) {
        let done = match &stamped.command {
            Command::CancelAll { account, which, reason } => {
                self.cancel_all(*account, which, *reason, out);
                Ok(())
            }
            Command::SampleIndex => {
                self.sample_index(out);
                Ok(())
            }
            Command::EndDay => {
                self.end_day(out);
                Ok(())
            }
            Command::StartEpoch { epoch } => {
                self.start_epoch(*epoch, out);
                Ok(())
            }
            Command::AddCurrency(currency) => self.add_currency(currency, out),
            Command::AddInstrument(spec) => self.add_instrument(spec, out),
            Command::AddAccount(spec) => self.add_account(spec, out),
            Command::Deposit { account, currency, units } => self.deposit(*account, *currency, *units, out),
            Command::SetPhase { instrument, phase } => self.set_phase(*instrument, *phase, out),
            Command::SetFlow(flow) => self.set_flow(*flow, out),
            Command::SetInstrumentLimits { instrument, limits } => self.set_limits(*instrument, *limits, out),
            Command::DeleteInstrument { instrument } => self.delete_instrument(*instrument, out),
            Command::SetAccount { account, settings } => self.set_account(*account, *settings, out),
            Command::SetCreditLine { account, currency, units } => {
                self.set_credit_line(*account, *currency, *units, out)
            }
            Command::CloseAccount { account } => self.close_account(*account, out),
            Command::Kill { scope, reason } => self.kill(*scope, reason, out),
            Command::Lift { scope } => self.lift(*scope, out),
            Command::BustTrade(bust) => self.bust_trade(bust, out),
            Command::Quarantine { seq, instrument } => {
                self.quarantine(*seq, *instrument, out);
                Ok(())
            }
            Command::Enter(_) | Command::Cancel { .. } | Command::Amend(_) | Command::CloseWindow => Ok(()),
            Command::ChangeSession { instrument, to, reason, due: _, ends } => {
                self.change_session(*instrument, *to, *reason, *ends, out)
            }
            Command::BeginDay { day, closes } => {
                self.begin_day(*day, *closes, out);
                Ok(())
            }
            Command::PassTime => {
                self.pass_time(out);
                Ok(())
            }
            Command::ExtendSession { instrument, ends } => self.extend_session(*instrument, *ends, out),
            Command::SetRemaining { instrument, remaining } => self.set_remaining(*instrument, *remaining, out),
            Command::FilterHidden { instrument } => self.filter_hidden(*instrument, out),
            Command::RunBatch { instrument } => self.end_batch(*instrument, out),
            Command::SetTradingRules { instrument, rules } => self.set_trading_rules(*instrument, rules, out),
            Command::SetClosingPrice { instrument, price } => self.set_closing_price(*instrument, *price, out),
            Command::SetReporting { instrument, open, reason, due: _, ends } => {
                self.set_reporting(*instrument, *open, *reason, *ends, out)
            }
            Command::ReportTrade(report) => self.report_trade(stamped.seq, report, out),
            Command::AnswerReport { account, report, confirm } => self.answer_report(*account, *report, *confirm, out),
        };
        if let Err(reason) = done {
            out.emit(Event::CommandRefused { reason });
        }
    }

    /// Index: the mid of the index instrument, in this contract's ticks. Mark: the contract's own mid, held within
    /// half a percent of the index.
    fn sample_index(&mut self, out: &mut impl EventSink) {
        for at in 0..self.markets.len() {
            let InstrumentKind::InversePerpetual { index, .. } = self.markets[at].spec.kind else { continue };
            let Some(source) = self.markets.get(index.0 as usize) else { continue };
            let price = source.spec.price(source.mid());
            let market = &mut self.markets[at];
            // Ticks of two instruments may differ: whole ticks, rounded down.
            let scale = price.scale.max(market.spec.tick.scale);
            let (Some(value), Some(tick)) = (price.rescaled(scale), market.spec.tick.rescaled(scale)) else { continue };
            let Ok(index) = i64::try_from(value / tick) else { continue };
            let band = index / 200;
            market.index = Ticks(index.max(1));
            market.mark = Ticks(market.mid().0.clamp(index - band, index + band).max(1));
            out.emit(Event::IndexSampled { instrument: market.spec.id, index: market.index, mark: market.mark });
        }
    }
}
