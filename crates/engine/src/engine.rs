//! The venue's state machine. It passes each command to the code that handles it.

use pitwire_model::{
    AccountId, Command, Epoch, Event, FlowSetting, InstrumentId, Reject, Seq, SequencedCommand, SessionId,
};

use crate::account_table::AccountTable;
use crate::auction::CrossView;
use crate::blocks::TradingBlocks;
use crate::clock::VenueClock;
use crate::command_end::MarketCommand;
use crate::event_sink::EventSink;
use crate::funds::Funds;
use crate::index::OrderIndex;
use crate::instrument_commands::InstrumentCommands;
use crate::look_ahead::{LookAhead, UpcomingCommand};
use crate::market::Market;
use crate::market_context::MarketContext;
use crate::market_table::MarketTable;
use crate::rule_version::RuleVersion;
use crate::trade_reports::TradeReports;

/// The matching engine: all instruments, accounts and live orders of a venue.
///
/// Equal commands produce equal events, to the byte, on every machine.
#[derive(Debug, Default)]
pub struct Engine {
    pub(crate) epoch: Epoch,
    pub(crate) clock: VenueClock,
    pub(crate) accounts: AccountTable,
    pub(crate) markets: MarketTable,
    pub(crate) orders: OrderIndex,
    pub(crate) flow: FlowSetting,
    /// Highest session number of any accepted order.
    pub(crate) last_session: SessionId,
    pub(crate) blocks: TradingBlocks,
    /// Cache prefetching; not part of an image.
    pub(crate) look_ahead: LookAhead,
    /// Rules that commands follow. Not part of an image: see [`Engine::follow`].
    pub(crate) rules: RuleVersion,
}

/// With at most this many markets, their books stay in the cache without prefetching.
const FEW_MARKETS: usize = 64;

impl Engine {
    pub fn new() -> Self {
        Self::default()
    }

    /// Selects the rule version of the commands that follow. A replay calls this for each group of
    /// the journal, and then with [`RULE_VERSION`](crate::RULE_VERSION), which a new engine
    /// follows.
    pub fn follow(&mut self, rule_version: u16) {
        self.rules = RuleVersion(rule_version);
    }

    /// Allocates memory for this many live orders, all of them on `instrument`.
    pub fn reserve(&mut self, instrument: InstrumentId, orders: usize) {
        self.orders.reserve(orders);
        if let Some(market) = self.markets.get_mut(instrument) {
            market.book.reserve(orders);
        }
    }

    /// HOT. Prefetches what later commands will touch; see [`look_ahead`](crate::look_ahead).
    /// Called before a command is applied. `upcoming(n)` returns the command `n` places later.
    /// Changes no state.
    #[inline]
    pub fn look_ahead(&mut self, upcoming: impl Fn(usize) -> Option<UpcomingCommand>) {
        let Engine { look_ahead, orders, markets, .. } = self;
        let markets = markets.as_slice();
        let many = markets.len() > FEW_MARKETS;
        look_ahead.prefetch(orders, |at| markets.get(at.0 as usize).map(|market| &market.book), many, upcoming);
    }

    /// Applies one command and writes its events to `out`.
    #[inline]
    pub fn apply(&mut self, stamped: &SequencedCommand, out: &mut impl EventSink) {
        self.clock.now = stamped.at;
        match &stamped.command {
            Command::Enter(order) => self.enter(order, out),
            Command::Cancel { account, order } => self.cancel(*account, *order, out),
            Command::Amend(amend) => self.amend(*amend, out),
            Command::CloseWindow => out.emit(Event::WindowClosed),
            _ => self.apply_rare(stamped, out),
        }
    }

    #[cold]
    fn apply_rare(&mut self, stamped: &SequencedCommand, out: &mut impl EventSink) {
        let result = match &stamped.command {
            Command::Enter(_) | Command::Cancel { .. } | Command::Amend(_) | Command::CloseWindow => Ok(()),
            Command::CancelAll { account, which, reason } => {
                self.cancel_all(*account, which, *reason, out);
                Ok(())
            }
            Command::SampleIndex => {
                self.markets.sample_index(out);
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
            Command::SetPhase { instrument, phase } => {
                self.on(*instrument).and_then(|commands| commands.set_phase(*phase, out))
            }
            Command::SetFlow(flow) => self.set_flow(*flow, out),
            Command::DefineFlow { text } => Self::define_flow(text, out),
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
            Command::ChangeSession { instrument, to, reason, due: _, ends } => {
                self.on(*instrument).and_then(|commands| commands.change_session(*to, *reason, *ends, out))
            }
            Command::BeginDay { day, closes } => {
                self.begin_day(*day, *closes, out);
                Ok(())
            }
            Command::PassTime => {
                self.pass_time(out);
                Ok(())
            }
            Command::ExtendSession { instrument, ends } => {
                self.on(*instrument).and_then(|commands| commands.extend_session(*ends, out))
            }
            Command::SetRemaining { instrument, remaining } => {
                self.on(*instrument).and_then(|commands| commands.set_remaining(*remaining, out))
            }
            Command::FilterHidden { instrument } => {
                self.on(*instrument).and_then(|commands| commands.filter_hidden(out))
            }
            Command::RunBatch { instrument } => self.on(*instrument).and_then(|commands| commands.end_batch(out)),
            Command::SetTradingRules { instrument, rules } => {
                self.on(*instrument).and_then(|commands| commands.set_trading_rules(rules, out))
            }
            Command::SetClosingPrice { instrument, price } => {
                self.on(*instrument).and_then(|commands| commands.set_closing_price(*price, out))
            }
            Command::SetReporting { instrument, open, reason, due: _, ends } => {
                self.trade_reports().set_hours(*instrument, *open, *reason, *ends, out)
            }
            Command::ReportTrade(report) => self.trade_reports().report(stamped.seq, report, out),
            Command::AnswerReport { account, report, confirm } => self.answer_report(*account, *report, *confirm, out),
            Command::SpendSignature(_) => Ok(()),
        };
        if let Err(reason) = result {
            out.emit(Event::CommandRefused { reason });
        }
    }

    /// Returns an existing market with everything else that a command on it may change.
    #[inline]
    pub(crate) fn context(&mut self, instrument: InstrumentId) -> MarketContext<'_> {
        MarketContext {
            market: &mut self.markets.as_mut_slice()[instrument.0 as usize],
            accounts: self.accounts.as_mut_slice(),
            orders: &mut self.orders,
            clock: &mut self.clock,
        }
    }

    /// Returns the commands about one instrument.
    ///
    /// # Errors
    /// `UnknownInstrument`.
    pub(crate) fn on(&mut self, instrument: InstrumentId) -> Result<InstrumentCommands<'_>, Reject> {
        self.market(instrument).ok_or(Reject::UnknownInstrument)?;
        Ok(InstrumentCommands { context: self.context(instrument) })
    }

    fn answer_report(
        &mut self,
        account: AccountId,
        report: Seq,
        confirm: bool,
        out: &mut impl EventSink,
    ) -> Result<(), Reject> {
        if let Some(trade) = self.trade_reports().answer(account, report, confirm, out)? {
            self.follow_positions(trade.instrument, [trade.buyer, trade.seller], out);
        }
        Ok(())
    }

    /// Reduces the reduce-only orders of two accounts whose positions changed outside the book.
    pub(crate) fn follow_positions(
        &mut self,
        instrument: InstrumentId,
        accounts: [AccountId; 2],
        out: &mut impl EventSink,
    ) {
        let mut context = self.context(instrument);
        if context.market.reduce_only.is_empty() {
            return;
        }
        let mut command = MarketCommand::begin(&mut context, out);
        accounts.into_iter().for_each(|account| command.out.add_traded(account));
        command.finish();
    }

    pub(crate) fn funds(&self) -> Funds<'_> {
        Funds { accounts: self.accounts.as_slice(), markets: self.markets.as_slice() }
    }

    fn trade_reports(&mut self) -> TradeReports<'_> {
        TradeReports { markets: &mut self.markets, accounts: &mut self.accounts, blocks: &self.blocks }
    }

    pub(crate) fn cross_view<'a>(&'a self, market: &'a Market) -> CrossView<'a> {
        CrossView { market, accounts: self.accounts.as_slice(), orders: &self.orders }
    }
}
