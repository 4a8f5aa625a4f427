//! Entering, amending and cancelling, step by step as the rules tell it.

use pitwire_model::{
    AccountId, Amend, CancelFilter, CancelReason, Event, InstrumentId, Lots, NewOrder, OrderId, OrderType, Phase,
    Priority, Reject, Side, Ticks, TimeInForce, TradeSeq,
};

use super::{Market, Order, ReferenceEngine};

impl Market {
    fn tell_level(&self, side: Side, price: Ticks, out: &mut Vec<Event>) {
        let at_price = self.orders.iter().filter(|order| order.side == side && order.price == price);
        let lots = Lots(at_price.map(|order| order.open).sum());
        out.push(Event::Level { instrument: self.spec.id, side, price, lots });
    }

    fn tell_change(&mut self, out: &mut Vec<Event>) {
        self.change_id += 1;
        out.push(Event::BookChanged { instrument: self.spec.id, change_id: self.change_id });
    }

    fn remove(&mut self, id: OrderId) -> Order {
        let at = self.orders.iter().position(|order| order.id == id).expect("the caller has seen it");
        self.orders.remove(at)
    }

    /// Takes an order out and says so, the book's own word excepted.
    fn expel(&mut self, id: OrderId, reason: CancelReason, out: &mut Vec<Event>) {
        let order = self.remove(id);
        out.push(cancelled(self.spec.id, &order, order.price, reason));
        self.tell_level(order.side, order.price, out);
    }
}

fn cancelled(instrument: InstrumentId, order: &Order, price: Ticks, reason: CancelReason) -> Event {
    Event::Cancelled {
        order: order.id,
        account: order.account,
        instrument,
        side: order.side,
        price,
        open: Lots(order.open),
        reason,
    }
}

fn legal_lots(lots: u64) -> bool {
    (1..=Lots::MAX_ORDER.0).contains(&lots)
}

fn legal_price(price: Ticks) -> bool {
    (1..=Ticks::MAX_PRICE.0).contains(&price.0)
}

impl ReferenceEngine {
    pub(super) fn enter(&mut self, new: &NewOrder, out: &mut Vec<Event>) {
        if let Err(reason) = self.may_enter(new) {
            out.push(Event::Rejected { order: new.id, account: new.account, reason });
            return;
        }
        out.push(Event::Accepted {
            order: new.id,
            account: new.account,
            instrument: new.instrument,
            side: new.side,
            order_type: new.order_type,
            lots: new.lots,
            tif: new.tif,
            display: new.display,
        });
        let limit = new.order_type.limit_price();
        let order = Order {
            id: new.id,
            account: new.account,
            side: new.side,
            day: new.tif == TimeInForce::Day,
            price: limit.unwrap_or(Ticks(0)),
            open: new.lots.0,
            ordered: new.lots.0,
            arrival: 0,
        };
        let left = self.trade(new.instrument, order, limit, out);
        if left.open > 0 && may_rest(new) {
            self.rest(new.instrument, left, out);
        } else if left.open > 0 {
            out.push(cancelled(new.instrument, &left, left.price, CancelReason::ImmediateRemainder));
        }
        // Nothing traded and nothing rests: nothing public happened.
        if left.open < new.lots.0 || may_rest(new) {
            self.markets[new.instrument.0 as usize].tell_change(out);
        }
    }

    fn may_enter(&self, new: &NewOrder) -> Result<(), Reject> {
        let market = self.market(new.instrument).ok_or(Reject::UnknownInstrument)?;
        self.account(new.account).ok_or(Reject::UnknownAccount)?;
        if market.phase != Phase::Continuous {
            return Err(Reject::NotOpen);
        }
        if !legal_lots(new.lots.0) {
            return Err(Reject::QuantityOutOfRange);
        }
        if new.order_type.limit_price().is_some_and(|price| !legal_price(price)) {
            return Err(Reject::PriceOutOfRange);
        }
        if self.find(new.id).is_some() {
            return Err(Reject::DuplicateOrderId);
        }
        if may_rest(new) && market.orders.len() >= market.spec.max_resting_orders as usize {
            return Err(Reject::BookFull);
        }
        if !self.affords_entry(new) {
            return Err(Reject::NotEnoughFunds);
        }
        Ok(())
    }

    fn find(&self, id: OrderId) -> Option<(InstrumentId, Order)> {
        self.markets.iter().find_map(|market| {
            let order = market.orders.iter().find(|order| order.id == id)?;
            Some((market.spec.id, *order))
        })
    }

    /// Trades an order against the other side as far as its limit and its quantity go; returns it as it is then.
    fn trade(
        &mut self,
        instrument: InstrumentId,
        mut taker: Order,
        limit: Option<Ticks>,
        out: &mut Vec<Event>,
    ) -> Order {
        let other = taker.side.opposite();
        while taker.open > 0 {
            let market = &self.markets[instrument.0 as usize];
            let Some(price) = market.best(other) else { break };
            let reaches = match (limit, taker.side) {
                (None, _) => true,
                (Some(limit), Side::Buy) => price <= limit,
                (Some(limit), Side::Sell) => price >= limit,
            };
            if !reaches {
                break;
            }
            for maker in market.queue(other).into_iter().take_while(|maker| maker.price == price) {
                if taker.open > 0 {
                    self.fill(instrument, &maker, &mut taker, out);
                }
            }
            self.markets[instrument.0 as usize].tell_level(other, price, out);
        }
        taker
    }

    fn fill(&mut self, instrument: InstrumentId, maker: &Order, taker: &mut Order, out: &mut Vec<Event>) {
        let lots = maker.open.min(taker.open);
        let market = &mut self.markets[instrument.0 as usize];
        let resting = market.orders.iter_mut().find(|order| order.id == maker.id).expect("it was just queued");
        resting.open -= lots;
        taker.open -= lots;
        let maker_open = resting.open;
        if maker_open == 0 {
            market.remove(maker.id);
        }
        market.trades += 1;
        market.last = Some(maker.price);
        out.push(Event::Trade {
            instrument,
            trade_seq: TradeSeq(market.trades),
            price: maker.price,
            lots: Lots(lots),
            taker_side: taker.side,
            maker: maker.id,
            maker_account: maker.account,
            maker_open: Lots(maker_open),
            taker: taker.id,
            taker_account: taker.account,
            taker_open: Lots(taker.open),
        });
        let parties = [(taker.account, taker.side), (maker.account, maker.side)];
        self.settle(instrument, parties, maker.price, lots);
    }

    /// Joins the end of its queue.
    fn rest(&mut self, instrument: InstrumentId, mut order: Order, out: &mut Vec<Event>) {
        self.arrivals += 1;
        order.arrival = self.arrivals;
        let market = &mut self.markets[instrument.0 as usize];
        market.orders.push(order);
        market.tell_level(order.side, order.price, out);
        if !market.spec.is_spot() {
            self.accounts[order.account.0 as usize].holdings.entry(instrument).or_default();
        }
    }

    pub(super) fn amend(&mut self, amend: &Amend, out: &mut Vec<Event>) {
        match self.may_amend(amend) {
            Err(reason) => out.push(Event::AmendRefused { order: amend.order, account: amend.account, reason }),
            Ok((instrument, order, open)) => self.apply_amend(amend, instrument, order, open, out),
        }
    }

    /// The order as it stands, and what will be open of it.
    fn may_amend(&self, amend: &Amend) -> Result<(InstrumentId, Order, u64), Reject> {
        let (instrument, order) = self.find(amend.order).ok_or(Reject::UnknownOrder)?;
        if order.account != amend.account {
            return Err(Reject::NotOwner);
        }
        if self.markets[instrument.0 as usize].phase != Phase::Continuous {
            return Err(Reject::NotOpen);
        }
        let filled = order.ordered - order.open;
        let (total, open) = match amend.priority {
            Priority::KeepWhenReduced => (amend.lots.0, amend.lots.0.saturating_sub(filled)),
            Priority::AlwaysLose => (amend.lots.0.saturating_add(filled), amend.lots.0),
        };
        // What was asked for must be an order's quantity, and so must what the order's total becomes.
        if !legal_lots(amend.lots.0) || !legal_lots(total) {
            return Err(Reject::QuantityOutOfRange);
        }
        if !legal_price(amend.price) {
            return Err(Reject::PriceOutOfRange);
        }
        if open == 0 {
            return Err(Reject::AmountAlreadyFilled);
        }
        if !self.affords_amend(instrument, &order, amend.price, open) {
            return Err(Reject::NotEnoughFunds);
        }
        Ok((instrument, order, open))
    }

    fn apply_amend(&mut self, amend: &Amend, instrument: InstrumentId, before: Order, open: u64, out: &mut Vec<Event>) {
        let keeps = amend.priority == Priority::KeepWhenReduced && amend.price == before.price && open <= before.open;
        let filled = before.ordered - before.open;
        let after = Order { price: amend.price, open, ordered: filled + open, ..before };
        out.push(Event::Amended {
            order: after.id,
            account: after.account,
            instrument,
            side: after.side,
            price: after.price,
            lots: Lots(after.ordered),
            open: Lots(open),
            kept_priority: keeps,
            display: amend.display,
        });
        let market = &mut self.markets[instrument.0 as usize];
        market.remove(before.id);
        if keeps {
            market.orders.push(after); // its arrival, and so its place, unchanged
            market.tell_level(after.side, after.price, out);
        } else {
            market.tell_level(before.side, before.price, out);
            let left = self.trade(instrument, after, Some(after.price), out);
            if left.open > 0 {
                self.rest(instrument, left, out);
            }
        }
        self.markets[instrument.0 as usize].tell_change(out);
    }

    pub(super) fn cancel(&mut self, account: AccountId, order: OrderId, out: &mut Vec<Event>) {
        let refused = |reason| Event::CancelRefused { order, account, reason };
        match self.find(order) {
            None => out.push(refused(Reject::UnknownOrder)),
            Some((_, found)) if found.account != account => out.push(refused(Reject::NotOwner)),
            Some((instrument, _)) => {
                let market = &mut self.markets[instrument.0 as usize];
                market.expel(order, CancelReason::Requested, out);
                market.tell_change(out);
            }
        }
    }

    pub(super) fn cancel_all(
        &mut self,
        account: AccountId,
        which: &CancelFilter,
        reason: CancelReason,
        out: &mut Vec<Event>,
    ) {
        let concerned = |market: &Market| !matches!(which, CancelFilter::Instrument(only) if *only != market.spec.id);
        let leaves = |order: &Order| {
            order.account == account
                && match which {
                    CancelFilter::All | CancelFilter::Instrument(_) => true,
                    CancelFilter::Session(_) => false,
                    CancelFilter::Listed(orders) => orders.contains(&order.id),
                }
        };
        self.expel_all(concerned, leaves, reason, out);
    }

    pub(super) fn end_day(&mut self, out: &mut Vec<Event>) {
        self.expel_all(|_| true, |order| order.day, CancelReason::DayEnded, out);
        out.push(Event::DayEnded);
    }

    fn expel_all(
        &mut self,
        concerned: impl Fn(&Market) -> bool,
        leaves: impl Fn(&Order) -> bool,
        reason: CancelReason,
        out: &mut Vec<Event>,
    ) {
        for market in self.markets.iter_mut().filter(|market| concerned(market)) {
            let mut ids: Vec<OrderId> =
                market.orders.iter().filter(|order| leaves(order)).map(|order| order.id).collect();
            ids.sort();
            for id in &ids {
                market.expel(*id, reason, out);
            }
            if !ids.is_empty() {
                market.tell_change(out);
            }
        }
    }
}

fn may_rest(new: &NewOrder) -> bool {
    matches!(new.order_type, OrderType::Limit { .. }) && new.tif != TimeInForce::ImmediateOrCancel
}
