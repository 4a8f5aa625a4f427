//! Computes one price for many orders by trying every candidate price.
//!
//! Does        compute the price of a call (rulebook 11.2) and of a filter (8.2), apply minimum
//!             executions, and allocate the volume to orders.
//! Costs       sorting the prices of the orders, two binary searches for each candidate price, and
//!             the same again for each hidden order and pass.
//! Start at    [`call_price`], [`filter_price`], [`apply_minimum_executions`].

use pitwire_model::{OrderId, Side, Ticks};

/// An order as a call or a filter sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuctionInterest {
    pub id: OrderId,
    /// Limit or protection price; `None` accepts any price.
    pub price: Option<Ticks>,
    pub is_hidden: bool,
    pub minimum: u64,
    pub open: u64,
    /// Lots that take part in the price. Minimum executions can lower it below `open`.
    pub counts: u64,
    pub arrival: u64,
}

impl AuctionInterest {
    /// Whether the order may trade at a price.
    pub fn accepts(&self, side: Side, price: Ticks) -> bool {
        match (self.price, side) {
            (None, _) => true,
            (Some(limit), Side::Buy) => limit >= price,
            (Some(limit), Side::Sell) => limit <= price,
        }
    }
}

/// Cumulative buy and sell quantity by price.
#[derive(Debug, Default)]
pub struct AuctionCurves {
    /// Ascending prices, each with the sum of the bids at this price or higher.
    buys: Vec<(i64, u64)>,
    /// Ascending prices, each with the sum of the offers at this price or lower.
    sells: Vec<(i64, u64)>,
    unpriced: [u64; 2],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PricePoint {
    pub price: Ticks,
    pub volume: u64,
    /// Buy quantity minus sell quantity at the price.
    pub surplus: i64,
}

impl AuctionCurves {
    /// Builds the curves from lots at prices, in any order, and the lots without a price per side.
    pub fn new(
        bids: impl Iterator<Item = (Ticks, u64)>,
        offers: impl Iterator<Item = (Ticks, u64)>,
        unpriced: [u64; 2],
    ) -> AuctionCurves {
        let mut buys = summed(bids);
        let mut sum = 0;
        for (_, lots) in buys.iter_mut().rev() {
            sum += *lots;
            *lots = sum;
        }
        let mut sells = summed(offers);
        let mut sum = 0;
        for (_, lots) in &mut sells {
            sum += *lots;
            *lots = sum;
        }
        AuctionCurves { buys, sells, unpriced }
    }

    pub fn of(bids: &[AuctionInterest], offers: &[AuctionInterest]) -> AuctionCurves {
        let priced = |orders: &[AuctionInterest]| -> Vec<(Ticks, u64)> {
            orders.iter().filter_map(|order| Some((order.price?, order.counts))).collect()
        };
        let unpriced = [bids, offers]
            .map(|orders| orders.iter().filter(|order| order.price.is_none()).map(|order| order.counts).sum());
        AuctionCurves::new(priced(bids).into_iter(), priced(offers).into_iter(), unpriced)
    }

    fn buys_at(&self, price: i64) -> u64 {
        let at = self.buys.partition_point(|(of, _)| *of < price);
        self.unpriced[0] + self.buys.get(at).map_or(0, |(_, sum)| *sum)
    }

    fn sells_at(&self, price: i64) -> u64 {
        let at = self.sells.partition_point(|(of, _)| *of <= price);
        self.unpriced[1] + if at == 0 { 0 } else { self.sells[at - 1].1 }
    }

    /// Returns the volume and the surplus at a price.
    pub fn at(&self, price: Ticks) -> PricePoint {
        let (buys, sells) = (self.buys_at(price.0), self.sells_at(price.0));
        PricePoint { price, volume: buys.min(sells), surplus: buys.cast_signed() - sells.cast_signed() }
    }

    fn candidates(&self) -> impl Iterator<Item = i64> {
        self.buys.iter().chain(&self.sells).map(|(price, _)| *price)
    }
}

/// Sums lots by price, ascending. Prices without lots are left out.
fn summed(lots: impl Iterator<Item = (Ticks, u64)>) -> Vec<(i64, u64)> {
    let mut all: Vec<(i64, u64)> = lots.filter(|(_, lots)| *lots > 0).map(|(price, lots)| (price.0, lots)).collect();
    all.sort_unstable();
    let mut sums: Vec<(i64, u64)> = Vec::new();
    for (price, lots) in all {
        match sums.last_mut() {
            Some((last, sum)) if *last == price => *sum += lots,
            _ => sums.push((price, lots)),
        }
    }
    sums
}

/// Returns the price of a call, or `None` if nothing would trade (rulebook 11.2).
pub fn call_price(curves: &AuctionCurves, reference: Option<Ticks>) -> Option<PricePoint> {
    let mut tried: Vec<PricePoint> = curves.candidates().map(|price| curves.at(Ticks(price))).collect();
    if tried.is_empty() {
        let found = curves.at(reference?);
        return (found.volume > 0).then_some(found);
    }
    let volume = tried.iter().map(|found| found.volume).max()?;
    if volume == 0 {
        return None;
    }
    tried.retain(|found| found.volume == volume);
    let least = tried.iter().map(|found| found.surplus.unsigned_abs()).min()?;
    tried.retain(|found| found.surplus.unsigned_abs() == least);
    let (lowest, highest) =
        (tried.iter().map(|found| found.price).min()?, tried.iter().map(|found| found.price).max()?);
    let price = if tried.iter().all(|found| found.surplus > 0) {
        highest
    } else if tried.iter().all(|found| found.surplus < 0) {
        lowest
    } else {
        match reference {
            Some(reference) => reference.clamp(lowest, highest),
            None => middle(lowest, highest),
        }
    };
    Some(curves.at(price))
}

/// Returns the price of a filter, or `None` if nothing would trade (rulebook 8.2, steps 6 and 7).
pub fn filter_price(curves: &AuctionCurves, touch: [Option<Ticks>; 2], reference: Option<Ticks>) -> Option<PricePoint> {
    // The volume changes only just above a bid and at an offer.
    let tried = curves
        .candidates()
        .flat_map(|price| [price - 1, price, price + 1])
        .filter(|price| *price >= 1)
        .map(|price| curves.at(Ticks(price)));
    let tried: Vec<PricePoint> = tried.collect();
    let volume = tried.iter().map(|found| found.volume).max().filter(|volume| *volume > 0)?;
    let best = || tried.iter().filter(|found| found.volume == volume).map(|found| found.price);
    let (lowest, highest) = (best().min()?, best().max()?);
    let wanted = match touch {
        [Some(bid), Some(offer)] => Some(middle(bid, offer)),
        [Some(one), None] | [None, Some(one)] => Some(one),
        [None, None] => reference,
    };
    let price = match wanted {
        Some(wanted) => wanted.clamp(lowest, highest),
        None => middle(lowest, highest),
    };
    Some(curves.at(price))
}

/// Midpoint, rounded down.
const fn middle(low: Ticks, high: Ticks) -> Ticks {
    Ticks((low.0 + high.0).div_euclid(2))
}

/// Lowers the counted lots of hidden orders until each order that counts can have its minimum
/// execution (rulebook 8.2, steps 3 to 5). Both sides are in priority order.
pub fn apply_minimum_executions(bids: &mut [AuctionInterest], offers: &mut [AuctionInterest]) {
    let total = |orders: &[AuctionInterest]| orders.iter().map(|order| order.counts).sum::<u64>();
    let hidden = bids.iter().chain(offers.iter()).filter(|order| order.is_hidden).count();
    if hidden == 0 {
        return;
    }
    let mut is_buys = total(bids) >= total(offers);
    let most = (4 + 2 * hidden).min(64);
    let (mut passes, mut quiet) = (0, 0);
    while quiet < 2 {
        if passes == most {
            for order in bids.iter_mut().chain(offers.iter_mut()).filter(|order| order.is_hidden) {
                order.counts = 0;
            }
            return;
        }
        let changed = if is_buys { side_pass(Side::Buy, bids, offers) } else { side_pass(Side::Sell, offers, bids) };
        quiet = if changed { 0 } else { quiet + 1 };
        is_buys = !is_buys;
        passes += 1;
    }
}

/// Applies the minimum executions of one side. Returns whether any count changed.
fn side_pass(side: Side, own: &mut [AuctionInterest], contra: &[AuctionInterest]) -> bool {
    let none: &[AuctionInterest] = &[];
    let curves = match side {
        Side::Buy => AuctionCurves::of(none, contra),
        Side::Sell => AuctionCurves::of(contra, none),
    };
    let accepted = |price: Ticks| match side {
        Side::Buy => curves.sells_at(price.0),
        Side::Sell => curves.buys_at(price.0),
    };
    let (mut ahead, mut changed) = (0, false);
    for order in own {
        if let (true, Some(price)) = (order.is_hidden, order.price) {
            let available = accepted(price).saturating_sub(ahead);
            let counts = if available >= order.minimum { available.min(order.open) } else { 0 };
            changed |= counts != order.counts;
            order.counts = counts;
        }
        ahead += order.counts;
    }
    changed
}

/// Allocates `volume` lots at a price to orders in priority order. Orders without an allocation are
/// left out.
pub fn allocate_in_priority(side: Side, orders: &[AuctionInterest], price: Ticks, volume: u64) -> Vec<(OrderId, u64)> {
    let mut left = volume;
    let accepting = orders.iter().filter(|order| order.accepts(side, price));
    let got = accepting.map(|order| {
        let lots = left.min(order.counts);
        left -= lots;
        (order.id, lots)
    });
    got.filter(|(_, lots)| *lots > 0).collect()
}

/// Allocates like [`allocate_in_priority`], except that visible orders exactly at the price share
/// the rest in proportion to their size, one batch after another. `ends` are the priority numbers
/// at which batches ended (rulebook 15.2, 15.3).
pub fn allocate_in_proportion(
    side: Side,
    orders: &[AuctionInterest],
    price: Ticks,
    volume: u64,
    ends: &[u64],
) -> Vec<(OrderId, u64)> {
    let batch = |order: &AuctionInterest| {
        let shares = order.price == Some(price) && !order.is_hidden;
        shares.then(|| ends.partition_point(|end| *end < order.arrival))
    };
    let accepting: Vec<&AuctionInterest> = orders.iter().filter(|order| order.accepts(side, price)).collect();
    let (mut left, mut got) = (volume, Vec::new());
    for together in accepting.chunk_by(|one, next| batch(one).is_some() && batch(one) == batch(next)) {
        let counts: Vec<u64> = together.iter().map(|order| order.counts).collect();
        let given = shares_of(&counts, left);
        left -= given.iter().sum::<u64>();
        got.extend(together.iter().map(|order| order.id).zip(given).filter(|(_, lots)| *lots > 0));
    }
    got
}

/// Splits `lots` in proportion to the displayed quantities, rounded down. The rest goes one lot at
/// a time in order of priority.
pub fn shares_of(shown: &[u64], lots: u64) -> Vec<u64> {
    let total: u64 = shown.iter().sum();
    if lots >= total {
        return shown.to_vec();
    }
    let part = |shown: &u64| u64::try_from(u128::from(lots) * u128::from(*shown) / u128::from(total)).unwrap_or(0);
    let mut given: Vec<u64> = shown.iter().map(part).collect();
    let mut left = lots - given.iter().sum::<u64>();
    while left > 0 {
        for (given, shown) in given.iter_mut().zip(shown) {
            if left > 0 && *given < *shown {
                *given += 1;
                left -= 1;
            }
        }
    }
    given
}

/// Pairs buyers with sellers in order. Each pair trades the smaller remainder of the two.
pub fn pair_orders(bids: &[(OrderId, u64)], offers: &[(OrderId, u64)]) -> Vec<(OrderId, OrderId, u64)> {
    let (mut bids, mut offers) = (bids.iter().copied(), offers.iter().copied());
    let (mut bid, mut offer) = (bids.next(), offers.next());
    let mut pairs = Vec::new();
    while let (Some((buyer, wants)), Some((seller, has))) = (bid, offer) {
        let lots = wants.min(has);
        pairs.push((buyer, seller, lots));
        bid = if wants == lots { bids.next() } else { Some((buyer, wants - lots)) };
        offer = if has == lots { offers.next() } else { Some((seller, has - lots)) };
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(id: u64, price: i64, open: u64) -> AuctionInterest {
        let price = (price > 0).then_some(Ticks(price));
        AuctionInterest { id: OrderId(id), price, is_hidden: false, minimum: 0, open, counts: open, arrival: id }
    }

    fn hidden(id: u64, price: i64, open: u64, minimum: u64) -> AuctionInterest {
        AuctionInterest { is_hidden: true, minimum, ..order(id, price, open) }
    }

    fn priced(bids: &[AuctionInterest], offers: &[AuctionInterest], reference: Option<i64>) -> Option<(i64, u64, i64)> {
        let found = call_price(&AuctionCurves::of(bids, offers), reference.map(Ticks))?;
        Some((found.price.0, found.volume, found.surplus))
    }

    #[test]
    fn call_price_maximises_volume_then_minimises_surplus() {
        // The largest volume decides alone.
        assert_eq!(priced(&[order(1, 102, 10)], &[order(2, 100, 4), order(3, 101, 6)], None), Some((101, 10, 0)));
        // A buy surplus takes the highest price, a sell surplus the lowest.
        assert_eq!(priced(&[order(1, 102, 10)], &[order(2, 100, 4)], None), Some((102, 4, 6)));
        assert_eq!(priced(&[order(1, 102, 4)], &[order(2, 100, 10)], None), Some((100, 4, -6)));
        // A balanced call takes the reference, limited to the remaining prices, or the midpoint
        // without one.
        let (bid, offer) = ([order(1, 105, 4)], [order(2, 100, 4)]);
        assert_eq!(priced(&bid, &offer, Some(103)), Some((103, 4, 0)));
        assert_eq!(priced(&bid, &offer, Some(90)), Some((100, 4, 0)));
        assert_eq!(priced(&bid, &offer, None), Some((102, 4, 0)));
        // Market orders alone need a reference price.
        assert_eq!(priced(&[order(1, 0, 3)], &[order(2, 0, 5)], Some(77)), Some((77, 3, -2)));
        assert_eq!(priced(&[order(1, 0, 3)], &[order(2, 0, 5)], None), None);
        assert_eq!(priced(&[order(1, 99, 3)], &[order(2, 100, 5)], Some(100)), None);
    }

    #[test]
    fn unreachable_minimum_execution_counts_nothing() {
        let mut bids = [hidden(1, 100, 10, 6), order(2, 100, 3)];
        let mut offers = [order(3, 100, 5)];
        apply_minimum_executions(&mut bids, &mut offers);
        assert_eq!(bids.map(|order| order.counts), [0, 3]);
        let mut offers = [order(3, 100, 7)];
        bids = [hidden(1, 100, 10, 6), order(2, 100, 3)];
        apply_minimum_executions(&mut bids, &mut offers);
        assert_eq!(bids.map(|order| order.counts), [7, 3]);
    }

    #[test]
    fn filter_price_is_the_midpoint_of_the_visible_book() {
        let curves = AuctionCurves::of(&[hidden(1, 110, 5, 5)], &[hidden(2, 100, 5, 5)]);
        let price = |touch: [Option<i64>; 2], reference: Option<i64>| {
            filter_price(&curves, touch.map(|side| side.map(Ticks)), reference.map(Ticks)).map(|found| found.price.0)
        };
        assert_eq!(price([Some(101), Some(106)], None), Some(103));
        assert_eq!(price([Some(101), None], None), Some(101));
        assert_eq!(price([None, None], Some(120)), Some(110));
        assert_eq!(price([None, None], None), Some(105));
    }

    #[test]
    fn pro_rata_remainder_goes_one_lot_each_by_time() {
        assert_eq!(shares_of(&[100, 300], 200), [50, 150]);
        assert_eq!(shares_of(&[10, 10, 10], 5), [2, 2, 1]);
        assert_eq!(shares_of(&[1, 1, 98], 2), [1, 0, 1]);
        assert_eq!(shares_of(&[10, 30], 50), [10, 30]);
    }

    #[test]
    fn pairs_match_the_first_buyer_with_the_first_seller() {
        let id = OrderId;
        let pairs = pair_orders(&[(id(1), 5), (id(2), 3)], &[(id(3), 4), (id(4), 4)]);
        assert_eq!(pairs, [(id(1), id(3), 4), (id(1), id(4), 1), (id(2), id(4), 3)]);
    }
}
