//! Entering: the checks in the order of the rules, then what becomes of an accepted order.

use pitwire_model::{
    AccountId, Event, InstrumentId, Lots, NewOrder, OrderType, Phase, PostOnly, Reject, SelfMatch, SessionId, Side,
    Ticks, TimeInForce,
};

use super::tables::{Answer, answer_to_tif, answer_to_type, column, permits, type_takes};
use super::{Kind, Market, Order, Place, ReferenceEngine};

const MOST_DAYS: u32 = 90;
/// 2149-06-06.
const LAST_DAY: u32 = 65_535;

pub(super) fn legal_lots(lots: u64) -> bool {
    (1..=Lots::MAX_ORDER.0).contains(&lots)
}

pub(super) fn legal_price(price: Ticks) -> bool {
    (1..=Ticks::MAX_PRICE.0).contains(&price.0)
}

/// Priced, in sight, and not for at once.
pub(super) fn may_rest(kind: Kind, tif: TimeInForce) -> bool {
    let acts_at_once = matches!(tif, TimeInForce::ImmediateOrCancel | TimeInForce::FillOrKill);
    matches!(kind, Kind::Limit | Kind::StopLimit) && !acts_at_once
}

fn kind_of(order_type: OrderType) -> Kind {
    match order_type {
        OrderType::Limit { .. } => Kind::Limit,
        OrderType::Market => Kind::Market,
        OrderType::Hidden { .. } => Kind::Hidden,
        OrderType::Stop { .. } => Kind::Stop,
        OrderType::StopLimit { .. } => Kind::StopLimit,
    }
}

/// An order with another limit price.
fn with_price(order_type: OrderType, price: Ticks) -> OrderType {
    match order_type {
        OrderType::Limit { .. } => OrderType::Limit { price },
        OrderType::Hidden { minimum_execution, .. } => OrderType::Hidden { price, minimum_execution },
        OrderType::StopLimit { stop, .. } => OrderType::StopLimit { stop, price },
        unpriced => unpriced,
    }
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

    pub(super) fn takes_post_only(&self, kind: Kind, tif: TimeInForce) -> bool {
        self.trades_on_entry() && kind == Kind::Limit && may_rest(kind, tif)
    }

    /// Whether the price of an order lies where the band lets it.
    pub(super) fn in_band(&self, price: Ticks) -> bool {
        let (Some(band), Some(fixed)) = (self.rules().band_pct, self.fixed) else { return true };
        i128::from((price.0 - fixed.0).abs()) * 100 <= i128::from(band) * i128::from(fixed.0)
    }

    /// Whether the session an order is for runs, or still comes today.
    fn comes(&self, tif: TimeInForce) -> bool {
        let any = |phases: &[Phase]| phases.iter().any(|phase| self.phase == *phase || self.remaining.holds(*phase));
        match tif {
            TimeInForce::OpeningCall => any(&[Phase::OpeningCall]),
            TimeInForce::ClosingCall => any(&[Phase::ClosingCall]),
            TimeInForce::IntradayCall => any(&[Phase::IntradayCall]),
            TimeInForce::ClosingCross => any(&[Phase::ClosingPriceCross]),
            TimeInForce::AnyCall => {
                let scheduled = [Phase::OpeningCall, Phase::FcoCall, Phase::IntradayCall, Phase::ClosingCall];
                self.phase.is_call() || any(&scheduled)
            }
            _ => true,
        }
    }

    fn answer(&self, kind: Kind, tif: TimeInForce, has_display: bool) -> Result<Answer, Reject> {
        let of_tif = answer_to_tif(self.phase, tif);
        if of_tif == Answer::Reject || (self.is_batching() && tif == TimeInForce::FillOrKill) {
            return Err(Reject::TifNotAllowedInSession);
        }
        let of_type = answer_to_type(self.phase, column(kind, has_display));
        if of_type == Answer::Reject || (self.is_batching() && kind == Kind::Hidden) {
            return Err(Reject::TypeNotAllowedInSession);
        }
        if self.phase == Phase::ClosingPriceCross && kind == Kind::Market && tif == TimeInForce::ClosingCross {
            return Ok(Answer::Active);
        }
        let both = [of_tif, of_type];
        let first = [Answer::Park, Answer::Immediate].into_iter().find(|answer| both.contains(answer));
        Ok(first.unwrap_or(Answer::Active))
    }
}

/// An order that passed every check, and what becomes of it.
struct Admitted {
    order: Order,
    order_type: OrderType,
    answer: Answer,
}

impl ReferenceEngine {
    pub(super) fn enter(&mut self, asked: &NewOrder, out: &mut Vec<Event>) {
        let Admitted { mut order, order_type, answer } = match self.may_enter(asked) {
            Ok(admitted) => admitted,
            Err(reason) => {
                out.push(Event::Rejected { order: asked.id, account: asked.account, reason });
                return;
            }
        };
        self.last_session = self.last_session.max(asked.session);
        out.push(Event::Accepted {
            order: asked.id,
            account: asked.account,
            instrument: asked.instrument,
            side: asked.side,
            order_type,
            lots: asked.lots,
            tif: asked.tif,
            display: asked.display,
        });
        let at = asked.instrument.0 as usize;
        let since = out.len();
        order.time = self.next_time();
        if answer == Answer::Park {
            self.set_aside(at, order, out);
        } else {
            let mode = order.mode.take().unwrap_or_else(|| self.self_match_of(order.account));
            self.act_on_entry(at, order, mode, out);
        }
        let fresh = (order.kind == Kind::Hidden).then_some(order.id);
        self.settle(at, fresh, out);
        self.conclude(at, since, out);
    }

    /// By the session that runs.
    pub(super) fn act_on_entry(&mut self, at: usize, order: Order, mode: SelfMatch, out: &mut Vec<Event>) {
        let market = &self.markets[at];
        if market.trades_on_entry() {
            self.act(at, order, mode, out);
        } else if market.phase == Phase::ClosingPriceCross {
            self.arrive(at, order, mode, out);
        } else {
            self.join(at, order, out);
        }
    }

    fn set_aside(&mut self, at: usize, mut order: Order, out: &mut Vec<Event>) {
        let is_stop = matches!(order.kind, Kind::Stop | Kind::StopLimit);
        order.place = if is_stop { Place::Unelected } else { Place::Parked };
        self.keep(at, order);
        let market = &self.markets[at];
        if !is_stop {
            let Order { id, account, open, .. } = order;
            out.push(Event::Parked { order: id, account, instrument: market.spec.id, open: Lots(open) });
        } else if market.phase == Phase::Continuous && market.is_due(&order) {
            self.trigger(at, order.id, out);
            self.act_elected(at, out);
        }
    }

    pub(super) fn self_match_of(&self, account: AccountId) -> SelfMatch {
        self.accounts[account.0 as usize].spec.settings.self_match
    }

    fn may_enter(&self, asked: &NewOrder) -> Result<Admitted, Reject> {
        let market = self.market(asked.instrument).ok_or(Reject::UnknownInstrument)?;
        let account = self.account(asked.account).ok_or(Reject::UnknownAccount)?;
        if market.phase == Phase::Deleted {
            return Err(Reject::InstrumentDeleted);
        }
        if account.closed {
            return Err(Reject::AccountClosed);
        }
        self.not_blocked(asked.account, asked.session)?;
        if !permits(market.phase).enter {
            return Err(Reject::NotOpen);
        }
        if !legal_lots(asked.lots.0) {
            return Err(Reject::QuantityOutOfRange);
        }
        let prices = [asked.order_type.limit_price(), asked.order_type.stop_price()];
        if prices.into_iter().flatten().any(|price| !legal_price(price)) {
            return Err(Reject::PriceOutOfRange);
        }
        if self.find(asked.id).is_some() {
            return Err(Reject::DuplicateOrderId);
        }
        let kind = kind_of(asked.order_type);
        let is_iceberg = kind == Kind::Limit && asked.display.is_some();
        if !type_takes(asked.tif, column(kind, is_iceberg)) {
            return Err(if is_iceberg { Reject::DisplayOutOfRange } else { Reject::TifNotAllowedForType });
        }
        let answer = market.answer(kind, asked.tif, is_iceberg)?;
        if !market.comes(asked.tif) {
            return Err(Reject::NoAuctionScheduled);
        }
        if asked.post_only != PostOnly::No && !market.takes_post_only(kind, asked.tif) {
            return Err(Reject::PostOnlyNotAllowed);
        }
        let fits = |display: &Lots| may_rest(kind, asked.tif) && (1..=asked.lots.0).contains(&display.0);
        if asked.display.is_some_and(|display| !fits(&display)) {
            return Err(Reject::DisplayOutOfRange);
        }
        if let OrderType::Hidden { minimum_execution, .. } = asked.order_type {
            market.legal_hidden(asked.lots.0, asked.lots.0, minimum_execution.0)?;
        }
        self.legal_expiry(asked.tif)?;
        let mut order_type = asked.order_type;
        if let Some(price) = asked.order_type.limit_price() {
            if !market.in_band(price) {
                return Err(Reject::PriceOutsideBand);
            }
            order_type = with_price(order_type, market.post_only_price(asked.side, price, asked.post_only)?);
        }
        let order = self.order_of(asked, kind, order_type, answer);
        self.afford(market, &order, answer)?;
        Ok(Admitted { order, order_type, answer })
    }

    /// Limits, room, funds.
    fn afford(&self, market: &Market, order: &Order, answer: Answer) -> Result<(), Reject> {
        let at_once = answer == Answer::Immediate && !market.is_batching();
        let instrument = market.spec.id;
        self.within_limits(instrument, order, at_once)?;
        if !at_once && market.orders.len() >= market.spec.max_resting_orders as usize {
            return Err(Reject::BookFull);
        }
        let most = self.accounts[order.account.0 as usize].spec.settings.max_open_orders;
        if !at_once && most.is_some_and(|most| self.open_orders(order.account) >= most as usize) {
            return Err(Reject::TooManyOpenOrders);
        }
        if self.affords_entry(instrument, order, at_once) { Ok(()) } else { Err(Reject::NotEnoughFunds) }
    }

    fn order_of(&self, asked: &NewOrder, kind: Kind, order_type: OrderType, answer: Answer) -> Order {
        let market = &self.markets[asked.instrument.0 as usize];
        let at_once = answer == Answer::Immediate && !market.is_batching();
        let mut order = Order {
            id: asked.id,
            account: asked.account,
            side: asked.side,
            kind,
            place: Place::Active,
            tif: asked.tif,
            price: order_type.limit_price().unwrap_or(Ticks(0)),
            stop: order_type.stop_price().unwrap_or(Ticks(0)),
            minimum: match order_type {
                OrderType::Hidden { minimum_execution, .. } => minimum_execution.0,
                _ => 0,
            },
            bound: None,
            open: asked.lots.0,
            shown: 0,
            peak: asked.display,
            ordered: asked.lots.0,
            time: 0,
            entered: self.day,
            group: asked.match_group,
            mode: asked.self_match,
            session: asked.session,
            cancel_on_disconnect: asked.cancel_on_disconnect,
        };
        if !order.has_price() {
            let waits_for_funds = !at_once && order.side == Side::Buy && self.is_limited(order.account);
            let bound = market.collar(order.side).or_else(|| market.bound_of_buys().filter(|_| waits_for_funds));
            order.bound = bound.map(|bound| bound.min(Ticks::MAX_PRICE));
        }
        order
    }

    pub(super) fn legal_expiry(&self, tif: TimeInForce) -> Result<(), Reject> {
        match tif {
            TimeInForce::GoodTillTime { at } if at <= self.now => Err(Reject::ExpiryPassed),
            TimeInForce::GoodTillTime { at } if at > self.closes => Err(Reject::ExpiryTooFar),
            TimeInForce::GoodTillDate { day } if day < self.day => Err(Reject::ExpiryPassed),
            TimeInForce::GoodTillDate { day } if day.0 > LAST_DAY.min(self.day.0.saturating_add(MOST_DAYS)) => {
                Err(Reject::ExpiryTooFar)
            }
            _ => Ok(()),
        }
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

    /// What an operator allows one order to be.
    pub(super) fn within_limits(&self, instrument: InstrumentId, order: &Order, at_once: bool) -> Result<(), Reject> {
        let market = &self.markets[instrument.0 as usize];
        let limits = market.spec.limits;
        if limits.max_lots.is_some_and(|most| order.open > most.0) {
            return Err(Reject::QuantityAboveLimit);
        }
        if limits.max_notional_units.is_some_and(|most| self.notional(instrument, order, at_once) > most) {
            return Err(Reject::NotionalAboveLimit);
        }
        match (market.collar(order.side), order.side) {
            (Some(edge), Side::Buy) if order.has_price() && order.price > edge => Err(Reject::PriceAboveCollar),
            (Some(edge), Side::Sell) if order.has_price() && order.price < edge => Err(Reject::PriceBelowCollar),
            _ => Ok(()),
        }
    }
}

impl Market {
    /// MRS and MES, of a total and what is open of it.
    pub(super) fn legal_hidden(&self, total: u64, open: u64, minimum: u64) -> Result<(), Reject> {
        let reserve = self.rules().minimum_reserve.map_or(0, |reserve| reserve.0);
        if total < reserve {
            return Err(Reject::QuantityBelowReserve);
        }
        if !(1..=open).contains(&minimum) || minimum < reserve {
            return Err(Reject::MinimumExecutionOutOfRange);
        }
        Ok(())
    }

    /// How far a buy of a limited account goes when nothing else bounds it.
    fn bound_of_buys(&self) -> Option<Ticks> {
        let band = self.rules().band_pct.zip(self.fixed);
        let edge = band.map(|(band, fixed)| fixed.0.saturating_mul(100 + i64::from(band)) / 100);
        let twice = self.reference().map(|reference| reference.0 * 2);
        edge.or(twice).map(|price| Ticks(price.min(Ticks::MAX_PRICE.0)))
    }
}
