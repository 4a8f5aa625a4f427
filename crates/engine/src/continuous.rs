//! An order meets the displayed book of a plain market.
//!
//! Holds       a fill-or-kill order fills completely or leaves the book unchanged.
//! Costs       the orders that are filled or cancelled and the levels that are swept; twice that
//!             for fill or kill.
//! Start at    [`MarketContext::match_and_rest`].

use pitwire_model::{CancelReason, TradeSeq};

use crate::account::Account;
use crate::book::FillEstimate;
use crate::closing_price::TradeTotals;
use crate::event_sink::EventSink;
use crate::fill_executor::{FillExecutor, TradeCounters};
use crate::incoming::IncomingOrder;
use crate::market::Market;
use crate::market_context::MarketContext;

impl Market {
    /// Estimates what an order would trade with now.
    pub(crate) fn estimate_fill(&self, order: &IncomingOrder, accounts: &[Account]) -> FillEstimate {
        if !self.plain {
            return self.estimate_controlled_fill(order, accounts);
        }
        self.book.estimate_fill(order.side, Some(order.limit), u64::from(order.open), |resting, origin| {
            order.maker_action(resting.owner.account(), origin.group)
        })
    }
}

impl MarketContext<'_> {
    /// HOT. Trades what can be traded, then rests or cancels the remainder. Returns whether the
    /// displayed book changed.
    #[inline(always)]
    pub fn match_and_rest(&mut self, order: &IncomingOrder, out: &mut impl EventSink) -> bool {
        if order.fill_or_kill && !self.fills_completely(order) {
            out.emit(order.cancelled(order.open, CancelReason::FillOrKill));
            return false;
        }
        let MarketContext { accounts, market, orders, clock } = self;
        let Market { book, settlement, trades, last, closing_inputs, .. } = &mut **market;
        let before = *trades;
        let counters = TradeCounters { trades, last, last_priority: &mut clock.last_priority };
        let mut executor = FillExecutor::new(order, *settlement, clock.now, counters, accounts, orders, out);
        let open = book.sweep(order.side, Some(order.limit), order.open, &mut executor);
        let (cancelled_maker, stopped, tick_lots) = (executor.cancelled_maker, executor.stopped, executor.tick_lots);
        if open < order.open {
            let (first, lots) = (TradeSeq(before.0 + 1), u64::from(order.open - open));
            let price = last.unwrap_or(order.price);
            closing_inputs.add_trades(clock.now, TradeTotals { first, last: *trades, lots, tick_lots, price });
        }
        if open == 0 {
            return true;
        }
        if order.may_rest && !stopped {
            self.rest(order, open, out);
            return true;
        }
        let reason = if stopped { CancelReason::SelfMatch } else { CancelReason::ImmediateRemainder };
        out.emit(order.cancelled(open, reason));
        open < order.open || cancelled_maker
    }

    #[cold]
    fn fills_completely(&self, order: &IncomingOrder) -> bool {
        self.market.estimate_fill(order, self.accounts).lots == u64::from(order.open)
    }
}
