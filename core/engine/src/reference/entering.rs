//! Entering: the checks in the order of the rules, then what follows from an accepted order.

use pitwire_model::{
    AccountId, CancelReason, Event, InstrumentId, Lots, NewOrder, OrderType, Phase, PostOnly, Reject, SelfMatch,
    SessionId, Side, Ticks, TimeInForce,
};

use super::matching::{Incoming, cancelled};
use super::{Market, Order, ReferenceEngine};

pub(super) fn legal_lots(lots: u64) -> bool {
    (1..=Lots::MAX_ORDER.0).contains(&lots)
}

pub(super) fn legal_price(price: Ticks) -> bool {
    (1..=Ticks::MAX_PRICE.0).contains(&price.0)
}

fn may_rest(new: &NewOrder) -> bool {
    let is_limit = matches!(new.order_type, OrderType::Limit { .. });
    is_limit && matches!(new.tif, TimeInForce::Day | TimeInForce::GoodTillCancel)
}

impl Market {
    /// The highest price a buyer and the lowest price a seller may ask to trade at.
    pub(super) fn collar(&self, side: Side) -> Option<Ticks> {
        let bps = i64::from(self.spec.limits.collar_bps?);
        let reference = self.last.unwrap_or(self.spec.start_price).0;
        Some(match side {
            Side::Buy => Ticks(reference * (10_000 + bps) / 10_000),
            Side::Sell => Ticks(((reference * (10_000 - bps) + 9_999) / 10_000).max(1)),
        })
    }

    /// Where a post-only order with this price goes.
    pub(super) fn post_only_price(&self, side: Side, price: Ticks, post_only: PostOnly) -> Result<Ticks, Reject> {
        let best = self.best(side.opposite());
        let would_trade = best.is_some_and(|best| match side {
            Side::Buy => price >= best,
            Side::Sell => price <= best,
        });
        match (post_only, best) {
            (PostOnly::Reject, Some(_)) if would_trade => Err(Reject::PostOnlyWouldTrade),
            (PostOnly::Reprice, Some(best)) if would_trade => {
                let short = if side == Side::Buy { Ticks(best.0 - 1) } else { Ticks(best.0 + 1) };
                if legal_price(short) { Ok(short) } else { Err(Reject::PostOnlyNoPlace) }
            }
            _ => Ok(price),
        }
    }
}

impl ReferenceEngine {
    pub(super) fn enter(&mut self, asked: &NewOrder, out: &mut Vec<Event>) {
        let new = match self.may_enter(asked) {
            Ok(new) => new,
            Err(reason) => {
                out.push(Event::Rejected { order: asked.id, account: asked.account, reason });
                return;
            }
        };
        self.last_session = self.last_session.max(new.session);
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
        let said = out.len();
        let incoming = self.incoming(&new);
        if new.tif == TimeInForce::FillOrKill && self.reachable_lots(new.instrument, &incoming) < new.lots.0 {
            let order = incoming.order;
            out.push(cancelled(new.instrument, &order, order.price, CancelReason::FillOrKill));
            return;
        }
        let left = self.trade(new.instrument, incoming, out);
        self.place(&new, left, out);
        // The book changed if any of its levels did.
        if out[said..].iter().any(|event| matches!(event, Event::Level { .. })) {
            self.markets[new.instrument.0 as usize].tell_change(out);
        }
    }

    /// What becomes of the part that did not trade.
    fn place(&mut self, new: &NewOrder, left: Incoming, out: &mut Vec<Event>) {
        let order = left.order;
        if order.open == 0 {
            return;
        }
        if left.met_its_own {
            out.push(cancelled(new.instrument, &order, order.price, CancelReason::SelfMatch));
        } else if may_rest(new) {
            self.rest(new.instrument, order, out);
        } else {
            out.push(cancelled(new.instrument, &order, order.price, CancelReason::ImmediateRemainder));
        }
    }

    pub(super) fn incoming(&self, new: &NewOrder) -> Incoming {
        let order = Order {
            id: new.id,
            account: new.account,
            side: new.side,
            day: new.tif == TimeInForce::Day,
            price: new.order_type.limit_price().unwrap_or(Ticks(0)),
            open: new.lots.0,
            shown: 0,
            peak: new.display,
            ordered: new.lots.0,
            arrival: 0,
            group: new.match_group,
            session: new.session,
            cancel_on_disconnect: new.cancel_on_disconnect,
        };
        let market = &self.markets[new.instrument.0 as usize];
        let limit = new.order_type.limit_price().or_else(|| market.collar(new.side));
        let mode = new.self_match.unwrap_or_else(|| self.self_match_of(new.account));
        Incoming { order, limit, mode, met_its_own: false }
    }

    pub(super) fn self_match_of(&self, account: AccountId) -> SelfMatch {
        self.accounts[account.0 as usize].spec.settings.self_match
    }

    /// The order with its final price.
    fn may_enter(&self, asked: &NewOrder) -> Result<NewOrder, Reject> {
        let market = self.market(asked.instrument).ok_or(Reject::UnknownInstrument)?;
        let account = self.account(asked.account).ok_or(Reject::UnknownAccount)?;
        if market.phase == Phase::Deleted {
            return Err(Reject::InstrumentDeleted);
        }
        if account.closed {
            return Err(Reject::AccountClosed);
        }
        self.not_blocked(asked.account, asked.session)?;
        if market.phase != Phase::Continuous {
            return Err(Reject::NotOpen);
        }
        if !legal_lots(asked.lots.0) {
            return Err(Reject::QuantityOutOfRange);
        }
        if asked.order_type.limit_price().is_some_and(|price| !legal_price(price)) {
            return Err(Reject::PriceOutOfRange);
        }
        if self.find(asked.id).is_some() {
            return Err(Reject::DuplicateOrderId);
        }
        if asked.post_only != PostOnly::No && !may_rest(asked) {
            return Err(Reject::PostOnlyNotAllowed);
        }
        if asked.display.is_some_and(|display| !may_rest(asked) || !(1..=asked.lots.0).contains(&display.0)) {
            return Err(Reject::DisplayOutOfRange);
        }
        let mut new = asked.clone();
        if let OrderType::Limit { price } = asked.order_type {
            new.order_type = OrderType::Limit { price: market.post_only_price(asked.side, price, asked.post_only)? };
        }
        self.within_limits(new.instrument, new.side, new.order_type.limit_price(), new.lots.0)?;
        if may_rest(&new) && market.orders.len() >= market.spec.max_resting_orders as usize {
            return Err(Reject::BookFull);
        }
        let most = account.spec.settings.max_open_orders;
        if may_rest(&new) && most.is_some_and(|most| self.open_orders(new.account) >= most as usize) {
            return Err(Reject::TooManyOpenOrders);
        }
        if !self.affords_entry(&new) {
            return Err(Reject::NotEnoughFunds);
        }
        Ok(new)
    }

    /// Kills first, then the account's throttle.
    pub(super) fn not_blocked(&self, account: AccountId, session: SessionId) -> Result<(), Reject> {
        let account = &self.accounts[account.0 as usize];
        if self.venue_killed || account.killed || self.killed_sessions.contains(&session) {
            return Err(Reject::Killed);
        }
        if account.throttled { Err(Reject::ExecutionThrottle) } else { Ok(()) }
    }

    fn open_orders(&self, account: AccountId) -> usize {
        let all = self.markets.iter().flat_map(|market| &market.orders);
        all.filter(|order| order.account == account).count()
    }

    /// What an operator allows one order to be. No price: a market order.
    pub(super) fn within_limits(
        &self,
        instrument: InstrumentId,
        side: Side,
        price: Option<Ticks>,
        lots: u64,
    ) -> Result<(), Reject> {
        let market = &self.markets[instrument.0 as usize];
        let limits = market.spec.limits;
        if limits.max_lots.is_some_and(|most| lots > most.0) {
            return Err(Reject::QuantityAboveLimit);
        }
        if limits.max_notional_units.is_some_and(|most| self.notional(instrument, side, price, lots) > most) {
            return Err(Reject::NotionalAboveLimit);
        }
        match (price, market.collar(side), side) {
            (Some(price), Some(edge), Side::Buy) if price > edge => Err(Reject::PriceAboveCollar),
            (Some(price), Some(edge), Side::Sell) if price < edge => Err(Reject::PriceBelowCollar),
            _ => Ok(()),
        }
    }
}
