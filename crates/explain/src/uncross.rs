//! Explains the price of an uncross, computed again from the orders before it.

use pitwire_model::{InstrumentId, Lots, Phase, Seq, Side, Ticks};
use serde_json::{Value, json};

use crate::note::Note;
use crate::text_style::counted;
use crate::venue_view::{VenueView, ViewedOrder};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PriceCandidate {
    pub price: i64,
    pub buy: u64,
    pub sell: u64,
}

/// The book of a call before it uncrosses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CallCurve {
    pub candidates: Vec<PriceCandidate>,
    pub reference: Option<i64>,
    /// `None` if the call does not uncross.
    pub price: Option<i64>,
    /// The step of rulebook 11.2 that decided.
    pub step: u8,
    pub why: String,
    /// Hidden orders whose MES could not be met: id, MES, available lots.
    pub passed: Vec<(u64, u64, u64)>,
}

impl PriceCandidate {
    fn volume(self) -> u64 {
        self.buy.min(self.sell)
    }

    fn surplus(self) -> i128 {
        i128::from(self.buy) - i128::from(self.sell)
    }
}

/// One side, with the lots that each order counts. A hidden order counts only if its MES can be
/// met.
struct CallSide {
    orders: Vec<ViewedOrder>,
    counted: Vec<u64>,
    available: Vec<u64>,
}

impl CallSide {
    fn new(orders: Vec<ViewedOrder>) -> CallSide {
        let counted: Vec<u64> = orders.iter().map(|order| order.open.0).collect();
        CallSide { available: counted.clone(), orders, counted }
    }

    fn total(&self) -> u64 {
        self.counted.iter().sum()
    }

    fn at(&self, price: Ticks) -> u64 {
        self.orders
            .iter()
            .zip(&self.counted)
            .filter(|(order, _)| order.accepts(price))
            .map(|(_, counted)| counted)
            .sum()
    }

    /// Runs one side pass of rulebook 8.2, step 4. Returns whether a count changed.
    fn pass(&mut self, contra: &CallSide) -> bool {
        let (mut ahead, mut changed) = (0_u64, false);
        for (at, order) in self.orders.iter().enumerate() {
            if order.is_hidden() {
                let meets = |other: &ViewedOrder| other.price().is_none_or(|price| order.accepts(price));
                let there = contra.orders.iter().zip(&contra.counted).filter(|(other, _)| meets(other));
                let there: u64 = there.map(|(_, counted)| counted).sum();
                let available = there.saturating_sub(ahead);
                let counted = available.min(order.open.0);
                let counted = if available >= order.minimum_execution().0 { counted } else { 0 };
                changed |= counted != self.counted[at];
                (self.counted[at], self.available[at]) = (counted, available);
            }
            ahead += self.counted[at];
        }
        changed
    }
}

/// Most side passes, whatever the number of hidden orders (rulebook 8.2, step 5).
const MOST_PASSES: usize = 64;

/// Returns both sides after rulebook 8.2, steps 3 to 5.
fn call_sides(venue: &VenueView, instrument: InstrumentId) -> [CallSide; 2] {
    let [mut buys, mut sells] = [Side::Buy, Side::Sell].map(|side| CallSide::new(venue.side(instrument, side)));
    let hidden = buys.orders.iter().chain(&sells.orders).filter(|order| order.is_hidden()).count();
    let (mut quiet, mut buys_turn) = (0, buys.total() >= sells.total());
    for _ in 0..(4 + 2 * hidden).min(MOST_PASSES) {
        let changed = if buys_turn { buys.pass(&sells) } else { sells.pass(&buys) };
        quiet = if changed { 0 } else { quiet + 1 };
        buys_turn = !buys_turn;
        if quiet == 2 {
            return [buys, sells];
        }
    }
    for side in [&mut buys, &mut sells] {
        let CallSide { orders, counted, .. } = side;
        orders.iter().zip(counted).filter(|(order, _)| order.is_hidden()).for_each(|(_, counted)| *counted = 0);
    }
    [buys, sells]
}

impl CallCurve {
    pub fn of(venue: &VenueView, instrument: InstrumentId) -> CallCurve {
        let [buys, sells] = call_sides(venue, instrument);
        let reference = venue.market(instrument).and_then(|market| market.reference()).map(Ticks::get);
        let counted_prices = |side: &CallSide| -> Vec<i64> {
            let orders = side.orders.iter().zip(&side.counted).filter(|(_, counted)| **counted > 0);
            orders.filter_map(|(order, _)| order.price()).map(Ticks::get).collect()
        };
        let mut prices: Vec<i64> = counted_prices(&buys).into_iter().chain(counted_prices(&sells)).collect();
        prices.sort_unstable();
        prices.dedup();
        let candidate = |price: i64| PriceCandidate { price, buy: buys.at(Ticks(price)), sell: sells.at(Ticks(price)) };
        let candidates: Vec<PriceCandidate> = prices.into_iter().map(candidate).collect();
        let market_orders = buys.total() > 0 && sells.total() > 0;
        let text = CurveText {
            price: &|price| venue.price(instrument, Ticks(price)),
            amount: &|lots| venue.amount(instrument, Lots(lots)),
        };
        let (price, step, why) = decide(&candidates, reference, market_orders, &text);
        let passed = [&buys, &sells].into_iter().flat_map(|side| {
            let rows = side.orders.iter().zip(side.counted.iter().zip(&side.available));
            let shut = rows.filter(|(order, (counted, _))| order.is_hidden() && **counted == 0);
            shut.map(|(order, (_, available))| (order.id.0, order.minimum_execution().0, *available))
        });
        CallCurve { passed: passed.collect(), candidates, reference, price, step, why }
    }

    /// Explains the uncross for members. Candidates and the deciding step would reveal hidden
    /// orders.
    pub fn outcome(&self, venue: &VenueView, seq: Seq, instrument: InstrumentId, price: Option<Ticks>) -> Note {
        let session = venue.market(instrument).map_or(Phase::Closed, |market| market.phase).name();
        let text = match price {
            Some(price) => format!("{session} uncrossed at {}", venue.price(instrument, price)),
            None => format!("{session} did not uncross"),
        };
        Note::new(seq, venue, "uncross", "rulebook: 11.2", text)
            .with("session", session)
            .with("price", price.map(Ticks::get))
            .with("reference", self.reference)
    }

    pub fn note(&self, venue: &VenueView, seq: Seq, instrument: InstrumentId, price: Option<Ticks>) -> Note {
        let session = venue.market(instrument).map_or(Phase::Closed, |market| market.phase).name();
        let rows: Vec<Value> = self
            .candidates
            .iter()
            .map(|row| {
                json!({"price": row.price, "buy": row.buy, "sell": row.sell, "volume": row.volume(),
                    "surplus": i64::try_from(row.surplus()).unwrap_or(i64::MAX)})
            })
            .collect();
        let passed: Vec<Value> = self
            .passed
            .iter()
            .map(|(order, mes, available)| json!({"order": order, "mes": mes, "available": available}))
            .collect();
        let text = match price {
            Some(price) => format!("{session} uncrossed at {}: {}", venue.price(instrument, price), self.why),
            None => format!("{session} did not uncross: {}", self.why),
        };
        let rule = format!("rulebook: 11.2, step {}", self.step);
        Note::new(seq, venue, "uncross", &rule, text)
            .with("session", session)
            .with("price", price.map(Ticks::get))
            .with("computed", self.price)
            .with("reference", self.reference)
            .with("step", self.step)
            .with("candidates", rows)
            .with("hidden_passed_over", passed)
    }
}

/// How the reason for a price writes prices and quantities.
struct CurveText<'a> {
    price: &'a dyn Fn(i64) -> String,
    amount: &'a dyn Fn(u64) -> String,
}

/// Applies rulebook 11.2. Returns the price, the deciding step and the reason as text.
fn decide(
    candidates: &[PriceCandidate],
    reference: Option<i64>,
    market_orders: bool,
    text: &CurveText<'_>,
) -> (Option<i64>, u8, String) {
    let CurveText { price: at, amount } = text;
    if candidates.is_empty() {
        return match (market_orders, reference) {
            (true, Some(price)) => (Some(price), 6, format!("market orders alone, at the reference {}", at(price))),
            (true, None) => (None, 6, "market orders alone, and no reference".to_owned()),
            _ => (None, 2, "no orders that could meet".to_owned()),
        };
    }
    let most = candidates.iter().map(|row| row.volume()).max().unwrap_or_default();
    if most == 0 {
        return (None, 2, format!("no volume at any of {}", counted(candidates.len() as u64, "candidate price")));
    }
    let kept: Vec<PriceCandidate> = candidates.iter().filter(|row| row.volume() == most).copied().collect();
    if let [one] = kept.as_slice() {
        return (Some(one.price), 2, format!("the one price with the largest volume, {}", amount(most)));
    }
    let least = kept.iter().map(|row| row.surplus().abs()).min().unwrap_or_default();
    let kept: Vec<PriceCandidate> = kept.into_iter().filter(|row| row.surplus().abs() == least).collect();
    let (Some(first), Some(last)) = (kept.first(), kept.last()) else { return (None, 3, String::new()) };
    let (low, high) = (first.price, last.price);
    if low == high {
        return (
            Some(low),
            3,
            format!(
                "of the prices with volume {} the one with the smallest surplus, {}",
                amount(most),
                amount(u64::try_from(least).unwrap_or(u64::MAX))
            ),
        );
    }
    if kept.iter().all(|row| row.surplus() > 0) {
        return (Some(high), 4, format!("buyers are left over at {} to {}: the highest price", at(low), at(high)));
    }
    if kept.iter().all(|row| row.surplus() < 0) {
        return (Some(low), 4, format!("sellers are left over at {} to {}: the lowest price", at(low), at(high)));
    }
    match reference {
        Some(reference) => {
            let price = reference.clamp(low, high);
            (Some(price), 5, {
                format!(
                    "{} to {} are equally good: the nearest one to the reference {}",
                    at(low),
                    at(high),
                    at(reference)
                )
            })
        }
        None => (
            (Some((low + high).div_euclid(2))),
            5,
            format!("{} to {} are equally good, and there is no reference: the middle", at(low), at(high)),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(price: i64, buy: u64, sell: u64) -> PriceCandidate {
        PriceCandidate { price, buy, sell }
    }

    #[test]
    fn each_price_step_decides_only_after_the_earlier_steps() {
        // Largest volume, smallest surplus, side of the surplus, reference, midpoint.
        let decided = |rows: &[PriceCandidate], reference| {
            let plain = CurveText { price: &|price| price.to_string(), amount: &|lots| lots.to_string() };
            let (price, step, _) = decide(rows, reference, true, &plain);
            (price, step)
        };
        assert_eq!(decided(&[row(99, 30, 10), row(100, 20, 20), row(101, 10, 30)], None), (Some(100), 2));
        assert_eq!(decided(&[row(99, 30, 20), row(100, 25, 20), row(101, 10, 30)], None), (Some(100), 3));
        assert_eq!(decided(&[row(99, 30, 20), row(100, 30, 20)], None), (Some(100), 4));
        assert_eq!(decided(&[row(99, 20, 30), row(100, 20, 30)], None), (Some(99), 4));
        assert_eq!(decided(&[row(99, 20, 20), row(103, 20, 20)], Some(105)), (Some(103), 5));
        assert_eq!(decided(&[row(99, 20, 20), row(102, 20, 20)], None), (Some(100), 5));
        assert_eq!(decided(&[row(99, 20, 0), row(102, 0, 20)], None), (None, 2));
        assert_eq!(decided(&[], Some(7)), (Some(7), 6));
        assert_eq!(decided(&[], None), (None, 6));
    }
}
