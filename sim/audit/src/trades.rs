//! A trade and what it makes due: the next part of an iceberg, the throttle of either side.

use pitwire_model::{AccountId, Event, InstrumentId, Lots, Phase, Side, Throttle, Ticks};

use crate::book::Live;
use crate::tape::Traded;
use crate::turn::{Taker, Turn};
use crate::{Auditor, Judged, offence};

impl Auditor {
    pub(crate) fn see_trade(&mut self, turn: &mut Turn, event: &Event) -> Judged {
        let Event::Trade { instrument, trade_seq, price, lots, maker, maker_open, taker_open, .. } = *event else {
            return Ok(());
        };
        let resting = self.judge_parties(turn, event)?;
        let Some(taker) = turn.taker.as_mut() else { return Ok(()) };
        if turn.untold.is_some_and(|untold| untold != (instrument, resting.side, price)) {
            return turn.nothing_untold();
        }
        let most = resting.shown.min(taker.order.open);
        if lots.is_zero() || lots.0 != most {
            offence!("trade {trade_seq} of {lots}, and {most} were to be had");
        }
        if (maker_open.0, taker_open.0) != (resting.open - lots.0, taker.order.open - lots.0) {
            offence!(
                "trade {trade_seq} of {lots} does not leave {maker_open} of its maker and {taker_open} of its taker"
            );
        }
        taker.order.open = taker_open.0;
        let buyer_is_taker = taker.order.side == Side::Buy;
        let (taker_account, maker_account) = (taker.order.account, resting.account);
        let (buyer, seller) =
            if buyer_is_taker { (taker_account, maker_account) } else { (maker_account, taker_account) };
        self.tape.remember(instrument, trade_seq, Traded { price, lots, buyer, seller });
        let market = &mut self.markets[instrument.0 as usize];
        (market.trades, market.last) = (trade_seq.0, Some(price));
        if maker_open.is_zero() {
            self.forget(&resting);
        } else {
            market.book.shrink(&resting, lots.0);
            let left = Live { open: maker_open.0, shown: resting.shown - lots.0, ..resting };
            turn.refresh = (left.shown == 0).then_some(maker);
            self.orders.insert(maker, left);
        }
        turn.untold = Some((instrument, resting.side, price));
        turn.touch(instrument)?;
        if let Some(taker) = &turn.taker {
            self.settle(&resting, taker, lots.0)?;
        }
        for account in [maker_account, taker_account] {
            if self.count_execution(account) {
                turn.trips.push_back(account);
            }
        }
        Ok(())
    }

    /// Whether these two orders were to trade now at this price. Returns the maker as it was.
    fn judge_parties(&self, turn: &Turn, event: &Event) -> Judged<Live> {
        let Event::Trade {
            instrument, trade_seq, price, taker_side, maker, maker_account, taker, taker_account, ..
        } = *event
        else {
            return Err(format!("{event:?} is no trade"));
        };
        let named = (taker, taker_account, instrument, taker_side);
        let incoming = turn
            .taker
            .as_ref()
            .filter(|taker| (taker.order.id, taker.order.account, taker.order.instrument, taker.order.side) == named);
        let Some(incoming) = incoming else {
            offence!("trade {trade_seq} names order {taker} as its taker, which entered nothing");
        };
        let market = &self.markets[instrument.0 as usize];
        if market.phase != Phase::Continuous {
            offence!("trade {trade_seq} while instrument {instrument} is {}", market.phase.name());
        }
        if trade_seq.0 != market.trades + 1 {
            offence!("trade {trade_seq} follows trade {}", market.trades);
        }
        let Some(resting) = self.orders.get(&maker).filter(|resting| resting.instrument == instrument) else {
            offence!("trade {trade_seq} with order {maker}, which does not rest there");
        };
        if resting.side == taker_side || resting.account != maker_account {
            offence!("trade {trade_seq} tells order {maker} as another than it is");
        }
        if price != resting.price {
            offence!("trade {trade_seq} at {price}, and its maker rests at {}", resting.price);
        }
        if !incoming.reaches(price) {
            offence!("trade {trade_seq} at {price} is worse than the limit of order {taker}");
        }
        if market.book.first(resting.side) != Some(maker) {
            let better = market.book.best(resting.side) != Some(price);
            offence!("trade {trade_seq} passes over {}", if better { "a better price" } else { "an older order" });
        }
        if incoming.stopped || incoming.must_not_meet(resting) {
            offence!("trade {trade_seq} is with order {maker}, of the same member, or after meeting one");
        }
        Ok(*resting)
    }

    fn settle(&mut self, maker: &Live, taker: &Taker, lots: u64) -> Judged {
        self.ledger.release(maker.account, self.cost(maker, lots));
        let order = &taker.order;
        let spends = self.cost(&Live { price: maker.price, ..*order }, lots);
        if taker.is_market {
            self.ledger.can_spend(order.account, spends)?;
        } else {
            self.ledger.release(order.account, self.cost(order, lots));
        }
        let parties = [(order.account, order.side), (maker.account, maker.side)];
        let market = &self.markets[maker.instrument.0 as usize];
        self.ledger.settle(&market.spec, &market.terms, parties, maker.price, lots);
        Ok(())
    }

    pub(crate) fn see_refreshed(&mut self, turn: &mut Turn, event: &Event) -> Judged {
        let Event::Refreshed { order, account, instrument, side, price, shown } = *event else { return Ok(()) };
        let Some(mut live) = turn.refresh.take().filter(|due| *due == order).and_then(|_| self.orders.remove(&order))
        else {
            offence!("order {order} was refreshed and had no need of it");
        };
        let due = (live.account, live.instrument, live.side, live.price, Lots(live.fresh_part()));
        if (account, instrument, side, price, shown) != due {
            offence!("order {order} was refreshed as {event:?}, and it is {live:?}");
        }
        self.markets[instrument.0 as usize].book.remove(&live);
        live.shown = shown.0;
        self.join(live);
        Ok(())
    }

    pub(crate) fn see_tripped(&mut self, turn: &mut Turn, account: AccountId) -> Judged {
        if turn.trips.pop_front() != Some(account) {
            offence!("account {account} was stopped by its throttle, which was not due");
        }
        Ok(())
    }

    /// Counts a fill; whether it is the one that trips the account's throttle.
    fn count_execution(&mut self, account: AccountId) -> bool {
        let Some(Throttle { executions, window_ns }) = self.names.accounts[account.0 as usize].settings.throttle else {
            return false;
        };
        let standing = &mut self.ledger.accounts[account.0 as usize].standing;
        let window = self.at.0.checked_div(window_ns).unwrap_or(0);
        let counted = if standing.window == window { standing.executions } else { 0 };
        (standing.window, standing.executions) = (window, counted.saturating_add(1));
        let trips = standing.executions > executions && !standing.throttled;
        standing.throttled |= trips;
        trips
    }

    /// A bust moves back what its trade moved: who bought sells, and first.
    pub(crate) fn give_back(&mut self, instrument: InstrumentId, traded: &Traded) {
        let parties = [(traded.buyer, Side::Sell), (traded.seller, Side::Buy)];
        let market = &self.markets[instrument.0 as usize];
        let price: Ticks = traded.price;
        self.ledger.settle(&market.spec, &market.terms, parties, price, traded.lots.0);
    }
}
