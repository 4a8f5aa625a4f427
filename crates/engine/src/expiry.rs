//! Time passes and days end: what expires by them.
//!
//! Costs       a time: the orders that expire, by a queue; a day's end: the live orders of all books.
//! Start at    `Engine::pass_time`, `Engine::end_day`.

use pitwire_model::{
    CancelReason, Event, OrderId, RemainingSessions, SessionReason, TimeInForce, VenueDay, VenueNanos,
};

use crate::book::{OrderOrigin, Slot};
use crate::engine::{Engine, EventSink};
use crate::live::PublicEventTracker;
use crate::market::Market;
use crate::rule_tables::Tif;
use crate::special::UndisplayedState;

/// A GTC order lives through so many days after that of its entry; a GTD order's date is no farther off.
pub(crate) const LONGEST_DAYS: u32 = 90;

/// 2149-06-06. No order is good till a later date, whatever the venue day.
pub(crate) const LAST_DAY: u32 = u16::MAX as u32;

impl Engine {
    pub(crate) fn begin_day(&mut self, day: VenueDay, closes: VenueNanos, out: &mut impl EventSink) {
        self.set_day(day, closes);
        out.emit(Event::DayBegun { day });
    }

    pub(crate) fn set_day(&mut self, day: VenueDay, closes: VenueNanos) {
        (self.day, self.closes) = (day, closes);
        self.entry_day = u16::try_from(day.0).unwrap_or(u16::MAX);
    }

    /// Orders that are good till a time that has come expire, but for those of a call, which has its uncross first.
    pub(crate) fn pass_time(&mut self, out: &mut impl EventSink) {
        let now = self.now;
        for at in 0..self.markets.len() {
            let market = &self.markets[at];
            let waits = market.phase.is_call() || market.special.times.next().is_none_or(|next| next > now);
            if waits {
                continue;
            }
            let instrument = market.spec.id;
            let due: Vec<OrderId> = market.special.times.due(now).collect();
            let (touch, mut out) = (self.touch_of(instrument), PublicEventTracker::new(out));
            for order in due {
                let found = self.orders.get(order).filter(|(of, _)| *of == instrument).map(|(_, slot)| slot);
                if let Some(slot) = found.filter(|slot| self.markets[at].tif_of(*slot) == Tif::GoodTillTime) {
                    self.take_off(instrument, slot, CancelReason::TimeReached, &mut out);
                }
                self.markets[at].special.times.forget(order);
            }
            self.conclude(instrument, touch, &mut out);
        }
    }

    pub(crate) fn end_day(&mut self, out: &mut impl EventSink) {
        for at in 0..self.markets.len() {
            self.markets[at].end_reporting(SessionReason::Scheduled, out);
            self.end_day_of(at, out);
        }
        out.emit(Event::DayEnded);
    }

    fn end_day_of(&mut self, at: usize, out: &mut impl EventSink) {
        let instrument = self.markets[at].spec.id;
        let found = self.live_slots(at, |_, _| true);
        let (touch, mut out) = (self.touch_of(instrument), PublicEventTracker::new(out));
        let mut acted = false;
        for (_, slot) in found {
            let market = &self.markets[at];
            if market.is_active_any_call(slot) {
                self.park(instrument, slot, &mut out);
            } else if let Some(reason) = market.reason_of_day(slot, self.day) {
                self.take_off(instrument, slot, reason, &mut out);
            } else {
                continue;
            }
            acted = true;
        }
        if acted {
            self.conclude(instrument, touch, &mut out);
        }
        let market = &mut self.markets[at];
        let special = &mut market.special;
        special.previous_close = special.closing.take().map(|(price, _)| price).or(special.previous_close);
        special.remaining = RemainingSessions::default();
        market.day_ended();
    }
}

impl Market {
    pub(crate) fn tif_of(&self, slot: Slot) -> Tif {
        match self.special.get(slot) {
            Some(order) => order.origin.tif,
            None if slot.is_kept() => Tif::Day,
            None => self.book.origin(slot).tif,
        }
    }

    /// An order's time in force with its date or time.
    pub(crate) fn tif_with_date(&self, order: OrderId, origin: OrderOrigin) -> TimeInForce {
        match origin.tif {
            Tif::Day => TimeInForce::Day,
            Tif::GoodTillCancel => TimeInForce::GoodTillCancel,
            Tif::ImmediateOrCancel => TimeInForce::ImmediateOrCancel,
            Tif::FillOrKill => TimeInForce::FillOrKill,
            Tif::GoodTillDate => TimeInForce::GoodTillDate { day: VenueDay(u32::from(origin.day)) },
            Tif::GoodTillTime => TimeInForce::GoodTillTime { at: self.special.times.of(order).unwrap_or_default() },
            Tif::OpeningCall => TimeInForce::OpeningCall,
            Tif::AnyCall => TimeInForce::AnyCall,
            Tif::IntradayCall => TimeInForce::IntradayCall,
            Tif::ClosingCall => TimeInForce::ClosingCall,
            Tif::ClosingCross => TimeInForce::ClosingCross,
        }
    }

    /// Why an order does not outlive the day.
    fn reason_of_day(&self, slot: Slot, today: VenueDay) -> Option<CancelReason> {
        let kept = self.special.get(slot);
        let origin = kept.map_or_else(|| self.book.origin(slot), |order| order.origin);
        let is_active_market = kept.is_some_and(|order| {
            order.is_market() && matches!(order.place, UndisplayedState::Unpriced | UndisplayedState::Elected)
        });
        if is_active_market {
            return Some(CancelReason::DayEnded);
        }
        let day = u32::from(origin.day);
        match origin.tif {
            Tif::GoodTillCancel => {
                (day > 0 && today.0.saturating_sub(day) >= LONGEST_DAYS).then_some(CancelReason::NinetyDays)
            }
            Tif::GoodTillDate => (day <= today.0).then_some(CancelReason::DateReached),
            Tif::AnyCall => None,
            Tif::Day
            | Tif::ImmediateOrCancel
            | Tif::FillOrKill
            | Tif::GoodTillTime
            | Tif::OpeningCall
            | Tif::IntradayCall
            | Tif::ClosingCall
            | Tif::ClosingCross => Some(CancelReason::DayEnded),
        }
    }
}
