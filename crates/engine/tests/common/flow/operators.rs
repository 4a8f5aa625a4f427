//! Operators' commands: limits near the edge, throttles of a few fills, kills, lifts, and true or
//! false busts.

use pitwire_model::{
    AccountSettings, Bust, Command, CurrencyId, Event, FlowSetting, InstrumentId, InstrumentLimits, KillScope, Label,
    Lots, SelfMatch, Seq, SessionId, Side, Throttle, Ticks, TradeSeq,
};

use super::{Flow, Kind};
use crate::common::world::START;

/// Number of trades that are kept for busts.
const REMEMBERED: usize = 40;

impl Flow {
    pub(super) fn operate(&mut self, kind: Kind, next: Seq) -> Command {
        match kind {
            Kind::SetLimits => {
                let instrument = self.instrument();
                Command::SetInstrumentLimits { instrument, limits: self.limits(instrument) }
            }
            Kind::Delete => Command::DeleteInstrument { instrument: self.instrument() },
            Kind::SetAccount => Command::SetAccount { account: self.account(), settings: self.settings() },
            Kind::SetCreditLine => {
                let currency = if self.rng.one_in(20) { CurrencyId(90) } else { CurrencyId(self.rng.below_u32(4)) };
                let units = self.rng.pick(&[0, 1_000, 1 << 20, 1 << 20, 1 << 100, (1 << 100) + 1, -1]);
                Command::SetCreditLine { account: self.account(), currency, units }
            }
            Kind::Close => Command::CloseAccount { account: self.account() },
            Kind::Kill => Command::Kill { scope: self.scope(), reason: Label::new("why").unwrap_or_default() },
            Kind::Bust => Command::BustTrade(Box::new(self.bust())),
            Kind::SetFlow if self.rng.one_in(4) => {
                let bytes = self.rng.pick(&[0, 1, 60_000, 60_001]);
                Command::DefineFlow { text: "x".repeat(bytes).into() }
            }
            Kind::SetFlow => {
                let rate_percent = self.rng.pick(&[0, 1, 100, 100_000, 100_001]);
                Command::SetFlow(FlowSetting { running: self.rng.one_in(2), rate_percent })
            }
            _ => {
                let instrument = (!self.rng.one_in(3)).then(|| self.instrument());
                Command::Quarantine { seq: Seq(1 + self.rng.below(next.0)), instrument }
            }
        }
    }

    /// Mostly returns a blocked scope, sometimes any.
    pub(super) fn lift(&mut self) -> Command {
        if self.rng.one_in(10) {
            return Command::Lift { scope: self.scope() };
        }
        let at = self.rng.below(self.blocked.len() as u64);
        let at = usize::try_from(at).expect("it is below a length");
        Command::Lift { scope: self.blocked.swap_remove(at) }
    }

    fn scope(&mut self) -> KillScope {
        match self.rng.below(12) {
            0 => KillScope::Venue,
            1..=3 => KillScope::Account(self.account()),
            4..=6 => KillScope::Session(SessionId(self.rng.below_u32(self.terms.sessions + 1))),
            _ => KillScope::Order(self.target().id),
        }
    }

    fn settings(&mut self) -> AccountSettings {
        let executions = if self.rng.one_in(20) { 0 } else { 1 + self.rng.below_u32(6) };
        let window_ns = self.rng.pick(&[1, 3_000, 20_000, 100_000, 1_000_000, 1_000_000, 0]);
        AccountSettings {
            self_match: self.rng.pick(&SelfMatch::ALL),
            max_open_orders: self.rng.one_in(3).then(|| self.rng.below_u32(8)),
            throttle: self.rng.one_in(2).then_some(Throttle { executions, window_ns }),
        }
    }

    /// Returns limits close to the orders of this flow, so that orders fall on both sides of the
    /// limit and on it.
    fn limits(&mut self, instrument: InstrumentId) -> InstrumentLimits {
        let lots = i128::from(self.rng.below(9));
        // Units of one lot at the start price, by instrument.
        let at_start = [50_000, 1_000, 2_000_000].get(instrument.0 as usize).copied().unwrap_or(1);
        let max_lots = self.rng.one_in(3).then(|| Lots(if self.rng.one_in(20) { 0 } else { 1 + self.rng.below(9) }));
        InstrumentLimits {
            max_lots,
            max_notional_units: self.rng.one_in(3).then_some(lots * at_start),
            collar_bps: self.rng.one_in(2).then(|| self.rng.pick(&[0, 10, 30, 45, 60, 200, 5_000, 9_999, 10_000])),
        }
    }

    pub(super) fn remember(&mut self, trade: &Event) {
        let Event::Trade { instrument, trade_seq, price, lots, taker_side, maker_account, taker_account, .. } = *trade
        else {
            return;
        };
        let (buyer, seller) = match taker_side {
            Side::Buy => (taker_account, maker_account),
            Side::Sell => (maker_account, taker_account),
        };
        if self.trades.len() == REMEMBERED {
            self.trades.pop_front();
        }
        let reason = Label::new("fat finger").unwrap_or_default();
        self.trades.push_back(Bust { instrument, trade_seq, price, lots, buyer, seller, reason });
    }

    /// Returns a bust of a real trade, possibly a repeated one. Sometimes it must be refused.
    fn bust(&mut self) -> Bust {
        let nothing = Bust {
            instrument: self.instrument(),
            trade_seq: TradeSeq(1),
            price: START,
            lots: Lots(1),
            buyer: self.account(),
            seller: self.account(),
            reason: Label::NONE,
        };
        let at = usize::try_from(self.rng.below(self.trades.len().max(1) as u64)).expect("it is below a length");
        let known = self.trades.get(at).cloned();
        let is_known = known.is_some();
        let mut bust = known.unwrap_or(nothing);
        match self.rng.below(20) {
            0 => bust.trade_seq = TradeSeq(0),
            1 => bust.trade_seq = TradeSeq(bust.trade_seq.0 + 1_000_000),
            2 => bust.lots = Lots(self.rng.pick(&[0, Lots::MAX_ORDER.0 + 1])),
            3 => bust.price = Ticks(self.rng.pick(&[0, -5, Ticks::MAX_PRICE.0 + 1])),
            4 => bust.buyer.0 += 90,
            5 => bust.seller.0 += 90,
            6 => bust.instrument.0 += 90,
            // The engine does not check these fields.
            7..=12 if self.lies => {
                (bust.buyer, bust.seller) = (self.account(), self.account());
                bust.lots = self.lots();
            }
            _ if !is_known && !self.lies => bust.trade_seq = TradeSeq(0),
            _ => {}
        }
        bust
    }
}
