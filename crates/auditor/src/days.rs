//! What time does to orders: expiries, the end of a day, its beginning (rulebook 6).
//!
//! Holds       no expiry is missed and none comes early: every live order is looked at.

use std::collections::BTreeMap;

use pitwire_model::{CancelReason, Event, InstrumentId, OrderId, SessionReason, TimeInForce, VenueDay};

use crate::Auditor;
use crate::book::{Kind, Live, Place};
use crate::fault::{Judged, offence};
use crate::turn::Turn;

/// How many days an order that is good till cancelled lives.
const MOST_DAYS: u32 = 90;

impl Auditor {
    /// Orders whose time has come expire, in every instrument that holds no call.
    pub(crate) fn judge_passing(&mut self, turn: &mut Turn<'_>) -> Judged {
        let now = self.at;
        let mut due: BTreeMap<InstrumentId, Vec<OrderId>> = BTreeMap::new();
        for (instrument, at, order) in &self.timed {
            if *at <= now && !self.market_of(*instrument).phase.is_call() {
                due.entry(*instrument).or_default().push(*order);
            }
        }
        for (instrument, orders) in due {
            let before = self.market_of(instrument).book.touch();
            for order in orders {
                self.see_leaving(turn, order, CancelReason::TimeReached)?;
            }
            self.settle_book(turn, instrument, Some(before), None)?;
            self.conclude(turn, instrument)?;
        }
        self.nothing_follows(turn)
    }

    pub(crate) fn judge_day_end(&mut self, turn: &mut Turn<'_>) -> Judged {
        for instrument in (0..).map(InstrumentId).take(self.markets.len()) {
            self.see_hours_end(turn, instrument, SessionReason::Scheduled)?;
            let before = self.market_of(instrument).book.touch();
            let mine: Vec<Live> = self.orders.values().filter(|live| live.instrument == instrument).copied().collect();
            for order in mine {
                if order.tif == TimeInForce::AnyCall && order.is_active() {
                    self.see_parked(turn, &order)?;
                } else if let Some(reason) = self.day_ends(&order) {
                    self.see_leaving(turn, order.id, reason)?;
                }
            }
            self.settle_book(turn, instrument, Some(before), None)?;
            self.conclude(turn, instrument)?;
            let market = self.market_mut(instrument);
            market.close.end_day();
            market.day = Default::default();
            market.remaining = Default::default();
        }
        if !matches!(self.peek(turn)?, Some(Event::DayEnded)) {
            if let Some(Event::Cancelled { order, reason, .. }) = self.peek(turn)? {
                offence!(M5, "order {order} was cancelled ({reason:?}) and this day's end does not end it");
            }
            offence!(M5, "the day was to end and did not");
        }
        turn.pass();
        self.nothing_follows(turn)
    }

    /// Whether this day's end is an order's, and why.
    fn day_ends(&self, order: &Live) -> Option<CancelReason> {
        // One that was elected and waits for the next session is no stop any more.
        if matches!(order.place, Place::Active | Place::Elected) && order.kind == Kind::Market {
            return Some(CancelReason::DayEnded);
        }
        match order.tif {
            TimeInForce::Day
            | TimeInForce::GoodTillTime { .. }
            | TimeInForce::OpeningCall
            | TimeInForce::IntradayCall
            | TimeInForce::ClosingCall
            | TimeInForce::ClosingCross
            | TimeInForce::ImmediateOrCancel
            | TimeInForce::FillOrKill => Some(CancelReason::DayEnded),
            TimeInForce::GoodTillDate { day } => (day <= self.today()).then_some(CancelReason::DateReached),
            TimeInForce::GoodTillCancel => {
                let entered = order.entered.filter(|day| *day != VenueDay::ZERO)?;
                (entered.0 + MOST_DAYS <= self.today().0).then_some(CancelReason::NinetyDays)
            }
            TimeInForce::AnyCall => None,
        }
    }

    /// The venue day; zero before the first has begun.
    pub(crate) fn today(&self) -> VenueDay {
        self.today.map_or(VenueDay::ZERO, |(day, _)| day)
    }

    /// The latest day that an order may be good till.
    pub(crate) fn last_day(&self) -> VenueDay {
        VenueDay(self.today().0.saturating_add(MOST_DAYS).min(65_535))
    }
}
