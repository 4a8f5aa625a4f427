//! Orders of every type and time in force, mostly valid, and their amends.

use pitwire_model::{
    Amend, Command, Expiry, InstrumentId, Label, Lots, NewOrder, OrderId, OrderType, Phase, Priority, Seq, SessionId,
    Side, Ticks, TimeInForce, VenueDay, VenueNanos,
};

use super::Flow;
use crate::common::world::{PERPETUAL, START};

impl Flow {
    pub(super) fn enter(&mut self, next: Seq) -> Command {
        let instrument = self.instrument();
        let side = self.rng.pick(&[Side::Buy, Side::Sell]);
        let drawn: Vec<Ticks> = (0..self.patience).map(|_| self.price(instrument)).collect();
        let price = match side {
            Side::Buy => drawn.into_iter().min(),
            Side::Sell => drawn.into_iter().max(),
        };
        let price = price.unwrap_or(START);
        let id = match self.rng.below(300) {
            0 => self.target().id,
            1 => self.dead,
            _ => OrderId(next.0),
        };
        let (mut tif, mut lots) = (self.tif(), self.lots());
        let mut order_type = self.order_type(instrument, price, lots);
        for _ in 0..3 {
            if self.rng.one_in(4) || self.suits(instrument, order_type, tif) {
                break;
            }
            (tif, order_type) = (self.tif(), self.order_type(instrument, price, lots));
        }
        if tif == TimeInForce::FillOrKill && self.rng.one_in(2) {
            lots = self.about_all_there_is(instrument, side, order_type.limit_price());
        }
        let session = SessionId(self.rng.below_u32(self.terms.sessions + 1));
        let may_rest = matches!(order_type, OrderType::Limit { .. } | OrderType::StopLimit { .. }) && tif.rests();
        let is_perpetual = instrument == PERPETUAL;
        let reduce_only = self.terms.reduces && self.rng.one_in(if is_perpetual { 2 } else { 40 });
        Command::Enter(NewOrder {
            id,
            account: self.account(),
            instrument,
            side,
            order_type,
            lots,
            tif,
            display: self.display(may_rest, lots),
            post_only: self.post_only(may_rest && self.trades(instrument)),
            reduce_only,
            self_match: self.rng.pick(&self.terms.modes),
            match_group: self.rng.pick(&self.terms.groups),
            session,
            cancel_on_disconnect: session.0 > 0 && self.rng.one_in(4),
            label: Label::default(),
            client_order_id: Label::default(),
        })
    }

    /// Whether the current session probably accepts the order.
    fn suits(&self, instrument: InstrumentId, order_type: OrderType, tif: TimeInForce) -> bool {
        let phase = self.phases.get(instrument.0 as usize).copied().unwrap_or(Phase::Continuous);
        let executes = matches!(phase, Phase::Continuous | Phase::ClosingPriceCross);
        let is_plain = matches!(order_type, OrderType::Market | OrderType::Limit { .. });
        let in_time = match tif {
            TimeInForce::ImmediateOrCancel | TimeInForce::FillOrKill => executes,
            TimeInForce::OpeningCall => phase == Phase::OpeningCall && is_plain,
            TimeInForce::ClosingCross => is_plain,
            TimeInForce::AnyCall | TimeInForce::IntradayCall | TimeInForce::ClosingCall => {
                is_plain && phase != Phase::ClosingPriceCross
            }
            TimeInForce::Day => true,
            _ => order_type != OrderType::Market,
        };
        match order_type {
            OrderType::Hidden { .. } => in_time && phase == Phase::Continuous && tif.rests(),
            OrderType::Stop { .. } | OrderType::StopLimit { .. } => in_time && phase != Phase::ClosingPriceCross,
            _ => in_time,
        }
    }

    fn trades(&self, instrument: InstrumentId) -> bool {
        self.phases.get(instrument.0 as usize) == Some(&Phase::Continuous)
    }

    fn order_type(&mut self, instrument: InstrumentId, price: Ticks, lots: Lots) -> OrderType {
        let stop = if self.rng.one_in(2) {
            Ticks(price.0.saturating_add(self.rng.between_signed(-3, 3)))
        } else {
            self.price(instrument)
        };
        if self.terms.mostly_hidden && self.rng.one_in(2) {
            return OrderType::Hidden { price, minimum_execution: self.minimum(lots) };
        }
        match self.rng.below(16) {
            0 | 1 if self.terms.markets => OrderType::Market,
            2..=5 if self.terms.hidden => OrderType::Hidden { price, minimum_execution: self.minimum(lots) },
            6 | 7 if self.terms.stops => OrderType::Stop { stop },
            8 | 9 if self.terms.stops => OrderType::StopLimit { stop, price },
            _ => OrderType::Limit { price },
        }
    }

    /// Returns a minimum execution that is mostly valid.
    fn minimum(&mut self, lots: Lots) -> Lots {
        match self.rng.below(24) {
            0 => Lots(0),
            1 => Lots(lots.0.saturating_add(1)),
            2..=6 => lots,
            7..=10 => Lots(1),
            _ => Lots(1 + self.rng.below(lots.0.clamp(1, 9))),
        }
    }

    fn tif(&mut self) -> TimeInForce {
        let tifs = [
            TimeInForce::Day,
            TimeInForce::GoodTillCancel,
            TimeInForce::ImmediateOrCancel,
            TimeInForce::FillOrKill,
            TimeInForce::GoodTillDate { day: self.date() },
            TimeInForce::GoodTillTime { at: self.time() },
            TimeInForce::OpeningCall,
            TimeInForce::AnyCall,
            TimeInForce::IntradayCall,
            TimeInForce::ClosingCall,
            TimeInForce::ClosingCross,
        ];
        tifs[usize::from(self.rng.pick(&self.terms.tifs))]
    }

    /// Mostly returns a day near today or near the last allowed day, sometimes one beyond 16 bits.
    fn date(&mut self) -> VenueDay {
        if self.rng.one_in(12) {
            return VenueDay(self.rng.pick(&[65_535, 65_536, u32::MAX]));
        }
        let off = self.rng.pick(&[0, 0, 0, 1, 2, 89, 90, 91, -1]);
        VenueDay(self.day.saturating_add_signed(off))
    }

    /// Mostly returns a time a little later than now.
    fn time(&mut self) -> VenueNanos {
        let now = self.at.0;
        VenueNanos(match self.rng.below(20) {
            0 => now,
            1 => now.saturating_sub(1),
            2 => u64::MAX,
            3..=6 => now + 1_000_000_000 * self.rng.below(700),
            _ => now + 1_000 * self.rng.below(60),
        })
    }

    pub(super) fn amend(&mut self) -> Command {
        let known = self.target();
        let has_price = known.order_type.limit_price().is_some();
        let price = match self.rng.below(2) {
            _ if !has_price && !self.rng.one_in(30) => Ticks(0),
            0 => known.price,
            _ => self.price(known.instrument),
        };
        let lots = match self.rng.below(4) {
            0 => self.lots(),
            1 => Lots(known.lots + self.rng.below(3)),
            _ => Lots(known.lots.saturating_sub(self.rng.below(4))),
        };
        let priority = self.rng.pick(&[Priority::KeepWhenReduced, Priority::KeepWhenReduced, Priority::AlwaysLose]);
        let rests = matches!(known.order_type, OrderType::Limit { .. } | OrderType::StopLimit { .. });
        let display = if self.rng.one_in(if rests { 3 } else { 40 }) { self.display(true, lots) } else { None };
        let has_stop = known.order_type.stop_price().is_some();
        let stop = self.rng.one_in(if has_stop { 2 } else { 60 }).then(|| self.price(known.instrument));
        let is_hidden = matches!(known.order_type, OrderType::Hidden { .. });
        let minimum_execution = self.rng.one_in(if is_hidden { 2 } else { 60 }).then(|| self.minimum(lots));
        let expiry = match known.tif {
            TimeInForce::GoodTillDate { .. } if self.rng.one_in(2) => Some(Expiry::Day(self.date())),
            TimeInForce::GoodTillTime { .. } if self.rng.one_in(2) => Some(Expiry::Time(self.time())),
            _ if self.rng.one_in(100) => Some(self.any_expiry()),
            _ => None,
        };
        let account = self.owner_or_another(known.account);
        let post_only = self.post_only(rests && self.trades(known.instrument));
        let order = known.id;
        Command::Amend(Amend {
            account,
            order,
            price,
            lots,
            priority,
            display,
            post_only,
            stop,
            minimum_execution,
            expiry,
        })
    }

    fn any_expiry(&mut self) -> Expiry {
        if self.rng.one_in(2) { Expiry::Day(self.date()) } else { Expiry::Time(self.time()) }
    }
}
