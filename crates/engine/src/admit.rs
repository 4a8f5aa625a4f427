//! An order that is not plain, or comes to a market that is not: all of the checks, and where it goes.
//!
//! Holds       the first check that fails is the answer, in the order of the rulebook (4); until all have passed nothing
//!             changes; none of them looks at a hidden order.
//! Leaves out  what it does when it acts: `aggress`, `auction`.
//! Start at    `Engine::enter_special`.

use pitwire_model::{
    Allocation, Event, Lots, NewOrder, OrderType, Phase, PostOnly, Reject, RemainingSessions, Side, Ticks, TimeInForce,
    VenueDay,
};

use crate::account::Account;
use crate::book::OrderOrigin;
use crate::controls::within_band;
use crate::engine::{Engine, EventSink};
use crate::enter::{check_price, whole_lots};
use crate::expiry::{LAST_DAY, LONGEST_DAYS};
use crate::limits::peak_of;
use crate::live::PublicEventTracker;
use crate::market::Market;
use crate::matching::{IncomingOrder, end_of_book};
use crate::rule_tables::{
    MatchingMode, OrderKind, TableAnswer, Tif, kind_cell, session_permissions, tif_cell, type_cell,
};
use crate::special::{UndisplayedOrder, UndisplayedState};

/// What becomes of an order that has been let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AdmittedAction {
    /// Waits for its session.
    Park,
    /// A stop waits for its price.
    Wait,
    /// Matched and rested as its session does.
    Act,
}

impl Engine {
    #[cold]
    pub(crate) fn enter_special(&mut self, order: &NewOrder, out: &mut impl EventSink) {
        let (incoming, fate) = match self.check_special(order) {
            Err(reason) => return out.emit(Event::Rejected { order: order.id, account: order.account, reason }),
            Ok(admitted) => admitted,
        };
        let instrument = order.instrument;
        let (touch, mut out) = (self.touch_of(instrument), PublicEventTracker::new(out));
        let out = &mut out;
        self.last_session = self.last_session.max(order.session);
        self.times = incoming.origin.time;
        if let TimeInForce::GoodTillTime { at } = order.tif {
            let Engine { markets, orders, .. } = self;
            let times = &mut markets[instrument.0 as usize].special.times;
            times.set(order.id, at, |other| orders.contains(other));
        }
        out.emit(Event::Accepted {
            order: order.id,
            account: order.account,
            instrument,
            side: order.side,
            order_type: priced(order.order_type, incoming.price),
            lots: order.lots,
            tif: order.tif,
            display: order.display,
        });
        match fate {
            AdmittedAction::Act => self.act(&incoming, out),
            AdmittedAction::Wait | AdmittedAction::Park => self.set_aside(order, &incoming, fate, out),
        }
        self.conclude(instrument, touch, out);
    }

    fn set_aside(
        &mut self,
        order: &NewOrder,
        incoming: &IncomingOrder,
        fate: AdmittedAction,
        out: &mut impl EventSink,
    ) {
        let IncomingOrder { id, account, instrument, side, open, ordered, peak, bound, origin, .. } = *incoming;
        let place = if fate == AdmittedAction::Wait { UndisplayedState::Unelected } else { UndisplayedState::Parked };
        let kind = priced(order.order_type, incoming.price);
        let kept = UndisplayedOrder {
            id,
            account,
            side,
            place,
            kind,
            open,
            ordered,
            display: peak,
            bound,
            mode: order.self_match,
            origin,
        };
        self.keep(instrument, kept);
        if fate == AdmittedAction::Park {
            out.emit(Event::Parked { order: id, account, instrument, open: order.lots });
        }
    }

    /// An order that is not set aside meets its session.
    fn act(&mut self, order: &IncomingOrder, out: &mut impl EventSink) {
        let market = &self.markets[order.instrument.0 as usize];
        match session_permissions(market.phase).matching {
            MatchingMode::Continuous if !market.batches() => self.aggress(order, out),
            MatchingMode::ClosingPrice => self.cross(order, out),
            MatchingMode::Continuous | MatchingMode::Uncross | MatchingMode::Nothing => self.join(order, out),
        }
    }

    fn check_special(&self, order: &NewOrder) -> Result<(IncomingOrder, AdmittedAction), Reject> {
        let market = self.market(order.instrument).ok_or(Reject::UnknownInstrument)?;
        let account = self.account(order.account).ok_or(Reject::UnknownAccount)?;
        self.check_standing(market, account, order.session)?;
        let lots = whole_lots(order.lots)?;
        check_price(order.order_type.limit_price())?;
        check_price(order.order_type.stop_price())?;
        if self.orders.contains(order.id) {
            return Err(Reject::DuplicateOrderId);
        }
        let answer = market.check_tables(order)?;
        let mut incoming = self.incoming_new(order, account, lots);
        market.check_schedule(incoming.origin.tif)?;
        market.check_terms(order, &mut incoming)?;
        market.check_hidden(order, &mut incoming)?;
        self.check_expiry(order.tif)?;
        market.check_band(order.order_type.limit_price())?;
        if order.post_only != PostOnly::No {
            incoming.price = market.placed(order.side, incoming.price, order.post_only)?;
            incoming.limit = incoming.price;
        }
        let fate = match answer {
            TableAnswer::Park if order.order_type.stop_price().is_some() => AdmittedAction::Wait,
            TableAnswer::Park => AdmittedAction::Park,
            TableAnswer::Reject | TableAnswer::Immediate | TableAnswer::Active => AdmittedAction::Act,
        };
        let waits = answer != TableAnswer::Immediate || market.batches();
        if waits && order.order_type.limit_price().is_none() {
            market.bind(&mut incoming, account);
        }
        market.check_limits_special(&mut incoming, waits)?;
        if waits {
            market.check_room(account)?;
        }
        if account.is_limited() {
            self.check_funds_special(market, &incoming, waits)?;
        }
        Ok((incoming, fate))
    }

    fn incoming_new(&self, order: &NewOrder, account: &Account, lots: u32) -> IncomingOrder {
        let price = order.order_type.limit_price();
        let tif = Tif::of(order.tif);
        let day = match order.tif {
            // What lies beyond 16 bits check 9 refuses.
            TimeInForce::GoodTillDate { day } => u16::try_from(day.0).unwrap_or(u16::MAX),
            _ => self.entry_day,
        };
        IncomingOrder {
            id: order.id,
            account: order.account,
            instrument: order.instrument,
            side: order.side,
            price: price.unwrap_or(Ticks::ZERO),
            limit: price.unwrap_or(end_of_book(order.side)),
            bound: Ticks::ZERO,
            open: lots,
            ordered: lots,
            peak: 0,
            minimum: 0,
            day: tif == Tif::Day,
            rests: price.is_some() && tif.rests(),
            whole: tif == Tif::FillOrKill,
            mode: order.self_match.unwrap_or(account.spec.settings.self_match),
            origin: OrderOrigin {
                time: self.times + 1,
                session: order.session,
                group: order.match_group,
                day,
                tif,
                cancel_on_disconnect: order.cancel_on_disconnect,
            },
        }
    }

    /// 4.9. A GTD order's date, a GTT order's time.
    pub(crate) fn check_expiry(&self, tif: TimeInForce) -> Result<(), Reject> {
        match tif {
            TimeInForce::GoodTillTime { at } if at <= self.now => Err(Reject::ExpiryPassed),
            TimeInForce::GoodTillTime { at } if at > self.closes => Err(Reject::ExpiryTooFar),
            TimeInForce::GoodTillDate { day } if day < self.day => Err(Reject::ExpiryPassed),
            TimeInForce::GoodTillDate { day: VenueDay(day) }
                if day > LAST_DAY.min(self.day.0.saturating_add(LONGEST_DAYS)) =>
            {
                Err(Reject::ExpiryTooFar)
            }
            _ => Ok(()),
        }
    }
}

/// The type as it is from now on: a post-only order's price may have moved.
fn priced(order_type: OrderType, price: Ticks) -> OrderType {
    match order_type {
        OrderType::Limit { .. } => OrderType::Limit { price },
        other => other,
    }
}

impl Market {
    /// 4.4 and 4.5: the tables. What an order that is let in does next.
    fn check_tables(&self, order: &NewOrder) -> Result<TableAnswer, Reject> {
        let (kind, tif) = (OrderKind::of(order), Tif::of(order.tif));
        if type_cell(kind, tif).answer == TableAnswer::Reject {
            let is_iceberg = kind == OrderKind::Iceberg;
            return Err(if is_iceberg { Reject::DisplayOutOfRange } else { Reject::TifNotAllowedForType });
        }
        let (by_tif, by_kind) = (tif_cell(self.phase, tif).answer, kind_cell(self.phase, kind).answer);
        if by_tif == TableAnswer::Reject || (self.batches() && tif == Tif::FillOrKill) {
            return Err(Reject::TifNotAllowedInSession);
        }
        if by_kind == TableAnswer::Reject || (self.batches() && kind == OrderKind::Hidden) {
            return Err(Reject::TypeNotAllowedInSession);
        }
        // A market order for the cross is at home there.
        let waits_in_cross =
            self.phase == Phase::ClosingPriceCross && kind == OrderKind::Market && tif == Tif::ClosingCross;
        Ok(if waits_in_cross { TableAnswer::Active } else { by_tif.min(by_kind) })
    }

    /// 4.6.
    fn check_schedule(&self, tif: Tif) -> Result<(), Reject> {
        let comes = |phase: Phase| self.phase == phase || self.special.remaining.holds(phase);
        let is_there = match tif {
            Tif::OpeningCall => comes(Phase::OpeningCall),
            Tif::ClosingCall => comes(Phase::ClosingCall),
            Tif::IntradayCall => comes(Phase::IntradayCall),
            Tif::ClosingCross => comes(Phase::ClosingPriceCross),
            Tif::AnyCall => self.phase.is_call() || holds_call(self.special.remaining),
            _ => true,
        };
        if is_there { Ok(()) } else { Err(Reject::NoAuctionScheduled) }
    }

    /// 4.7. The peak of an iceberg, and whether post-only makes sense.
    fn check_terms(&self, order: &NewOrder, incoming: &mut IncomingOrder) -> Result<(), Reject> {
        let is_limit = matches!(order.order_type, OrderType::Limit { .. });
        let may_rest = incoming.rests && !matches!(order.order_type, OrderType::Hidden { .. });
        if order.post_only != PostOnly::No && !(is_limit && may_rest && self.takes_post_only()) {
            return Err(Reject::PostOnlyNotAllowed);
        }
        if order.display.is_some() && !may_rest {
            return Err(Reject::DisplayOutOfRange);
        }
        incoming.peak = peak_of(order.display, incoming.ordered)?;
        Ok(())
    }

    pub(crate) fn takes_post_only(&self) -> bool {
        self.phase == Phase::Continuous && self.rules.allocation != Allocation::FrequentBatch
    }

    /// 4.8.
    fn check_hidden(&self, order: &NewOrder, incoming: &mut IncomingOrder) -> Result<(), Reject> {
        let OrderType::Hidden { minimum_execution, .. } = order.order_type else { return Ok(()) };
        let reserve = self.rules.minimum_reserve.unwrap_or(Lots::ZERO);
        if order.lots < reserve {
            return Err(Reject::QuantityBelowReserve);
        }
        incoming.minimum = self.minimum_of(minimum_execution, incoming.open)?;
        Ok(())
    }

    /// A minimum execution size that an order with so much open may have.
    pub(crate) fn minimum_of(&self, minimum: Lots, open: u32) -> Result<u32, Reject> {
        let least = self.rules.minimum_reserve.unwrap_or(Lots::ZERO).max(Lots(1));
        let fits = minimum >= least && minimum <= Lots(u64::from(open));
        u32::try_from(minimum.0).ok().filter(|_| fits).ok_or(Reject::MinimumExecutionOutOfRange)
    }

    /// 4.10.
    pub(crate) fn check_band(&self, price: Option<Ticks>) -> Result<(), Reject> {
        let (Some(price), Some(pct), Some(reference)) = (price, self.rules.band_pct, self.special.static_reference)
        else {
            return Ok(());
        };
        if within_band(price, reference, pct) { Ok(()) } else { Err(Reject::PriceOutsideBand) }
    }

    /// Bounds an order without a price that is going to wait: by the collar, or, that a limited account can reserve for a
    /// buy, by what else there is.
    fn bind(&self, order: &mut IncomingOrder, account: &Account) {
        let usual = if account.is_limited() && order.side == Side::Buy { self.usual_bound() } else { None };
        let collar = self.spec.limits.collar_bps.map(|bps| self.collar_edge(order.side, bps));
        if let Some(bound) = collar.or(usual) {
            (order.bound, order.limit) = (bound, bound);
        }
    }

    /// The highest price a buy without a price may cost where no collar says so: the band's edge, else twice the
    /// reference.
    fn usual_bound(&self) -> Option<Ticks> {
        let edge = self.rules.band_pct.zip(self.special.static_reference).map(|(pct, reference)| {
            let reference = i128::from(reference.0);
            reference + reference * i128::from(pct) / 100
        });
        let bound = edge.or_else(|| self.reference().map(|reference| 2 * i128::from(reference.0)))?;
        Some(Ticks(i64::try_from(bound).unwrap_or(i64::MAX).clamp(1, Ticks::MAX_PRICE.0)))
    }

    /// HOT. Whether one more order may stay here.
    #[inline]
    pub(crate) fn check_room(&self, account: &Account) -> Result<(), Reject> {
        if self.live_orders() >= self.spec.max_resting_orders {
            return Err(Reject::BookFull);
        }
        if account.open_orders >= account.most_open_orders { Err(Reject::TooManyOpenOrders) } else { Ok(()) }
    }

    /// Orders in the book and beside it.
    #[inline]
    pub(crate) fn live_orders(&self) -> u32 {
        self.book.resting_orders() + self.kept
    }
}

fn holds_call(remaining: RemainingSessions) -> bool {
    Phase::ALL.into_iter().any(|phase| phase.is_scheduled_call() && remaining.holds(phase))
}
