//! A trade: told as it is due, paid for, counted; and what it makes due at once.

use pitwire_model::{AccountId, CancelReason, Event, InstrumentId, Lots, OrderId, Side, Throttle, Ticks, TradeKind};

use crate::book::Live;
use crate::fault::{Fault, Judged, Promise, offence};
use crate::limits::worse;
use crate::tape::Traded;
use crate::turn::Turn;
use crate::{Auditor, TradeSeq};

/// A trade that is due, each order as it is before it.
#[derive(Clone, Copy, Debug)]
pub struct Deal {
    pub maker: Live,
    pub taker: Live,
    pub price: Ticks,
    pub lots: u64,
    pub kind: TradeKind,
    /// Whether the taker has set aside what it may spend; else it must have it free.
    pub taker_reserves: bool,
}

impl Deal {
    /// The event that tells of it.
    fn told_as(&self, number: u64) -> Event {
        let Deal { maker, taker, price, lots, kind, .. } = *self;
        Event::Trade {
            instrument: maker.instrument,
            trade_seq: TradeSeq(number),
            price,
            lots: Lots(lots),
            taker_side: taker.side,
            maker: maker.id,
            maker_account: maker.account,
            maker_open: Lots(maker.open - lots),
            taker: taker.id,
            taker_account: taker.account,
            taker_open: Lots(taker.open - lots),
            kind,
        }
    }
}

impl Auditor {
    /// The next event must be this trade. Money moves and is counted; the two orders stay as they are.
    pub(crate) fn see_trade(&mut self, turn: &mut Turn<'_>, deal: &Deal) -> Judged {
        let Deal { maker, taker, price, lots, kind, .. } = *deal;
        let instrument = maker.instrument;
        let due = deal.told_as(self.markets[instrument.0 as usize].trades + 1);
        match self.peek(turn)? {
            Some(told) if *told == due => turn.pass(),
            Some(told @ Event::Trade { .. }) => return Err(self.misdealt(deal, told)),
            Some(Event::Cancelled { order, reason, .. }) if *order == taker.id => {
                offence!(M5, "order {order} expired while it could still trade ({reason:?}): {lots} at {price}");
            }
            Some(Event::Cancelled { order, reason, .. }) if *order == maker.id => {
                offence!(M4, "order {order} was cancelled ({reason:?}) out of order: it was to trade {lots} at {price}")
            }
            Some(Event::Level { side, price: at, .. }) if (*side, *at) == (taker.side, taker.price) => {
                let (bid, offer) = if taker.side == Side::Buy { (at, &maker.price) } else { (&maker.price, at) };
                offence!(
                    M3,
                    "order {} could trade and the book is left with a bid of {bid} and an offer of {offer}",
                    taker.id
                )
            }
            Some(event @ Event::Level { .. }) => return Err(self.out_of_place(event)),
            Some(Event::Refreshed { order, .. }) => offence!(M2, "order {order} was refreshed and had no need of it"),
            Some(Event::Triggered { order, .. }) => {
                offence!(M5, "order {order} was elected before order {} had its {lots} at {price}", taker.id)
            }
            Some(Event::Breached { .. }) => offence!(M8, "a trade at {price} was kept back, and breaches nothing"),
            other => {
                let said = other.map_or("nothing".to_owned(), |event| format!("{event:?}"));
                if matches!(kind, TradeKind::Continuous | TradeKind::Filter) {
                    offence!(M3, "order {} and order {} were to trade {lots} at {price}: {said}", taker.id, maker.id);
                }
                offence!(M6, "order {} and order {} were to trade {lots} at {price}: {said}", maker.id, taker.id);
            }
        }
        let Some(Event::Trade { trade_seq, .. }) = Some(&due) else { return Ok(()) };
        let (buyer, seller) = match taker.side {
            Side::Buy => (taker.account, maker.account),
            Side::Sell => (maker.account, taker.account),
        };
        self.tape.remember(instrument, *trade_seq, Traded { price, lots: Lots(lots), buyer, seller });
        self.count_trade(instrument, trade_seq.0, price, lots, kind);
        self.settle(deal)?;
        for account in [maker.account, taker.account] {
            if self.count_execution(account) {
                turn.trips.push_back(account);
            }
        }
        Ok(())
    }

    /// Which promise a trade breaks that is told and is not the one that was due.
    fn misdealt(&self, due: &Deal, told: &Event) -> Fault {
        let Event::Trade {
            instrument,
            trade_seq,
            price,
            lots,
            taker_side,
            maker,
            taker,
            maker_open,
            taker_open,
            kind,
            ..
        } = *told
        else {
            return Fault { promise: Promise::S1, sentence: format!("{told:?} is no trade") };
        };
        let fault = |promise, sentence| Fault { promise, sentence };
        let market = &self.markets[due.maker.instrument.0 as usize];
        if instrument != due.maker.instrument {
            return fault(
                Promise::M8,
                format!("trade {trade_seq} is in instrument {instrument}, where nothing trades"),
            );
        }
        if trade_seq.0 != market.trades + 1 {
            return fault(Promise::F1, format!("trade {trade_seq} follows trade {}", market.trades));
        }
        if kind != due.kind {
            return fault(Promise::M8, format!("trade {trade_seq} is told as {kind:?} and is {:?}", due.kind));
        }
        for order in [&due.maker, &due.taker] {
            if order.reach().is_some_and(|limit| worse(order.side, price, limit)) {
                let sentence = format!("trade {trade_seq} at {price} is worse than the limit of order {}", order.id);
                return fault(Promise::M1, sentence);
            }
        }
        let by_one_price = !matches!(kind, TradeKind::Continuous | TradeKind::Cross);
        if by_one_price && price != due.price {
            let sentence = format!("trade {trade_seq} at {price}, and the one price is {}", due.price);
            return fault(Promise::M6, sentence);
        }
        if !by_one_price && taker != due.taker.id {
            let sentence = format!("trade {trade_seq} names order {taker} as its taker, which entered nothing");
            return fault(Promise::M4, sentence);
        }
        if maker != due.maker.id || taker != due.taker.id {
            return fault(Promise::M2, self.passed_over(due, trade_seq, maker, taker));
        }
        if taker_side != due.taker.side {
            return fault(Promise::M4, format!("trade {trade_seq} tells order {maker} as another than it is"));
        }
        if price != due.price && due.maker.is_hidden() {
            let sentence = format!("trade {trade_seq} at {price}, and hidden order {maker} gives {} here", due.price);
            return fault(Promise::M1, sentence);
        }
        if price != due.price {
            return fault(Promise::M1, format!("trade {trade_seq} at {price}, and its maker rests at {}", due.price));
        }
        if lots.0 != due.lots {
            let promise = if by_one_price { Promise::M6 } else { Promise::M4 };
            return fault(promise, format!("trade {trade_seq} of {lots}, and {} were to be had", due.lots));
        }
        let told = format!("trade {trade_seq} of {lots} does not leave {maker_open} of its maker and {taker_open}");
        fault(Promise::M4, format!("{told} of its taker"))
    }

    fn passed_over(&self, due: &Deal, number: TradeSeq, maker: OrderId, taker: OrderId) -> String {
        let (wrong, right) = if maker == due.maker.id { (taker, due.taker) } else { (maker, due.maker) };
        let Some(other) = self.orders.get(&wrong).filter(|order| order.instrument == right.instrument) else {
            return format!("trade {number} with order {wrong}, which does not rest there; order {} does", right.id);
        };
        let what = if other.side != right.side || other.reach() != right.reach() {
            "a better price"
        } else if other.is_hidden() != right.is_hidden() {
            "a visible order for a hidden one"
        } else {
            "an older order"
        };
        format!("trade {number} passes over {what}: order {} was to trade, and order {wrong} did", right.id)
    }

    fn settle(&mut self, deal: &Deal) -> Judged {
        let Deal { maker, taker, price, lots, .. } = *deal;
        self.ledger.release(maker.account, self.cost(&maker, lots));
        if deal.taker_reserves {
            self.ledger.release(taker.account, self.cost(&taker, lots));
        } else {
            let spends = self.markets[maker.instrument.0 as usize].terms.cost(taker.side, price, lots);
            self.ledger.can_spend(taker.account, spends)?;
        }
        let parties = [(taker.account, taker.side), (maker.account, maker.side)];
        let market = &self.markets[maker.instrument.0 as usize];
        self.ledger.settle(&market.spec, &market.terms, parties, price, lots);
        Ok(())
    }

    /// A resting order has traded in continuous trading: what is left of it, and what that makes due.
    pub(crate) fn after_fill(&mut self, turn: &mut Turn<'_>, maker: &Live, lots: u64) -> Judged {
        let left = Live { open: maker.open - lots, shown: maker.shown.saturating_sub(lots), ..*maker };
        self.level_changes(turn, maker);
        let book = &mut self.markets[maker.instrument.0 as usize].book;
        book.shrink(maker, maker.shown - left.shown, lots);
        self.orders.insert(left.id, left);
        if left.open == 0 {
            self.forget(turn, &left);
        } else if left.is_on_show() && left.shown == 0 {
            self.see_refreshed(turn, left.id)?;
        }
        self.see_trips(turn)?;
        if left.is_hidden() && left.open > 0 && left.open < left.minimum {
            self.see_leaving(turn, left.id, CancelReason::BelowMinimumExecution)?;
        }
        Ok(())
    }

    /// An iceberg whose shown part is used up shows its next, last in its queue.
    pub(crate) fn see_refreshed(&mut self, turn: &mut Turn<'_>, order: OrderId) -> Judged {
        let Some(before) = self.orders.get(&order).copied() else { return Ok(()) };
        let after = Live { shown: before.fresh_part(), ..before };
        let due = Event::Refreshed {
            order,
            account: after.account,
            instrument: after.instrument,
            side: after.side,
            price: after.price,
            shown: Lots(after.shown),
        };
        match turn.upcoming() {
            Some(told) if *told == due => turn.pass(),
            Some(told @ Event::Refreshed { .. }) => {
                offence!(M2, "order {order} was refreshed as {told:?}, and it is {after:?}");
            }
            _ => offence!(M2, "order {order} has shown all it shows and was not refreshed"),
        }
        let arrival = self.next_arrival();
        self.become_other(turn, &before, Live { arrival, ..after });
        Ok(())
    }

    /// The throttles that a fill has tripped, the maker's first.
    pub(crate) fn see_trips(&mut self, turn: &mut Turn<'_>) -> Judged {
        while let Some(account) = turn.trips.pop_front() {
            match turn.upcoming() {
                Some(Event::ThrottleTripped { account: told }) if *told == account => turn.pass(),
                _ => offence!(S1, "account {account} traded more often than it may and was not stopped"),
            }
        }
        if let Some(Event::ThrottleTripped { account }) = turn.upcoming() {
            offence!(S1, "account {account} was stopped by its throttle, which was not due");
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
