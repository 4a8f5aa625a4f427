//! What trading leaves behind: last price, references, the breaker's test, the window of ten minutes, the closing price.

use pitwire_model::{Derivation, Event, InstrumentId, Phase, Reference, Ticks, TradeKind, VenueNanos};

use super::Market;

const WINDOW_SECONDS: u64 = 600;

/// A price too far from a reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Breach {
    price: Ticks,
    reference: Ticks,
    against: Reference,
    bps: u32,
}

/// A trade of continuous trading; busts are taken out of its sums.
#[derive(Clone, Copy, Debug)]
pub(super) struct Print {
    pub seq: u64,
    pub second: u64,
    pub lots: i128,
    pub tick_lots: i128,
}

/// Trades in a row, made within one second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub second: u64,
    pub first: u64,
    pub last: u64,
    pub lots: i128,
    pub tick_lots: i128,
}

impl Breach {
    pub fn event(self, instrument: InstrumentId) -> Event {
        let Breach { price, reference, against, bps } = self;
        Event::Breached { instrument, price, reference, against, bps }
    }
}

fn second(at: VenueNanos) -> u64 {
    at.0 / 1_000_000_000
}

impl Market {
    /// Whether a price may not execute in a session; static first, then dynamic.
    pub(super) fn breach(&self, session: Phase, price: Ticks, dynamic: Option<Ticks>) -> Option<Breach> {
        let tolerance = self.rules().tolerance(session);
        let tests = [
            (tolerance.static_bps, self.fixed, Reference::Static),
            (tolerance.dynamic_bps, dynamic, Reference::Dynamic),
        ];
        tests.into_iter().find_map(|(bps, reference, against)| {
            let (bps, reference) = (bps?, reference?);
            let off = i128::from(price.0 - reference.0).abs() * 10_000;
            (off >= i128::from(bps) * i128::from(reference.0)).then_some(Breach { price, reference, against, bps })
        })
    }

    /// A trade outside the cross.
    pub(super) fn moves(&mut self, price: Ticks) {
        self.last = Some(price);
        self.dynamic = Some(price);
        self.day_last = Some(price);
    }

    pub(super) fn print(&mut self, now: VenueNanos, price: Ticks, lots: u64, kind: TradeKind) {
        let continuous = match kind {
            TradeKind::Continuous | TradeKind::Filter => true,
            TradeKind::Call(call) => call == Phase::Continuous,
            TradeKind::Cross => false,
        };
        if continuous {
            let lots = i128::from(lots);
            let (seq, tick_lots) = (self.trades, lots * i128::from(price.0));
            self.prints.push(Print { seq, second: second(now), lots, tick_lots });
        }
    }

    /// What the window still holds, as runs.
    pub(super) fn runs(&self) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        for print in &self.prints {
            match runs.last_mut() {
                Some(run) if run.second == print.second && run.last + 1 == print.seq => {
                    run.last = print.seq;
                    run.lots += print.lots;
                    run.tick_lots += print.tick_lots;
                }
                _ => {
                    runs.retain(|run| run.second + WINDOW_SECONDS >= print.second);
                    let Print { seq, second, lots, tick_lots } = *print;
                    runs.push(Run { second, first: seq, last: seq, lots, tick_lots });
                }
            }
        }
        runs
    }

    /// Trades of ten minutes before continuous trading ended, weighed by quantity, halves up.
    fn vwap(&self) -> Option<Ticks> {
        let from = second(self.continuous_ended?).saturating_sub(WINDOW_SECONDS);
        let runs = self.runs().into_iter().filter(|run| run.second >= from);
        let (lots, tick_lots) = runs.fold((0, 0), |sum, run| (sum.0 + run.lots, sum.1 + run.tick_lots));
        if lots <= 0 {
            return None;
        }
        let price = (2 * tick_lots + lots).div_euclid(2 * lots);
        let price = i64::try_from(price).ok().filter(|price| (1..=Ticks::MAX_PRICE.0).contains(price));
        price.map(Ticks)
    }

    /// The price at which the cross trades.
    pub(super) fn cross_price(&self) -> Option<Ticks> {
        self.closing.map(|(price, _)| price).or(self.previous_close)
    }

    pub(super) fn publish_close(&mut self, out: &mut Vec<Event>) {
        let ways = [
            (self.closing_call, Derivation::ClosingAuction),
            (self.vwap(), Derivation::Vwap),
            (self.day_last, Derivation::LastTrade),
            (self.previous_close, Derivation::PreviousClose),
        ];
        let found = ways.into_iter().find_map(|(price, derivation)| Some((price?, derivation)));
        self.closing = found;
        if let Some((price, derivation)) = found {
            out.push(Event::ClosingPriceSet { instrument: self.spec.id, price, derivation });
        }
    }

    pub(super) fn turn_day(&mut self) {
        self.previous_close = self.cross_price();
        self.closing = None;
        self.day_last = None;
        self.closing_call = None;
        self.continuous_ended = None;
        self.prints.clear();
    }

    /// Takes a bust out of the window; the numbers are the desk's.
    pub(super) fn unprint(&mut self, seq: u64, price: Ticks, lots: u64) {
        if let Some(print) = self.prints.iter_mut().find(|print| print.seq == seq) {
            print.lots -= i128::from(lots);
            print.tick_lots -= i128::from(lots) * i128::from(price.0);
        }
    }
}
