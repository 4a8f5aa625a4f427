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
    /// None: any price.
    pub price: Option<Ticks>,
    pub is_hidden: bool,
    pub minimum: u64,
    pub open: u64,
    /// What counts of it.
    pub counts: u64,
    pub arrival: u64,
}

impl AuctionInterest {
    /// Whether it accepts to trade at a price.
    pub fn accepts(&self, side: Side, price: Ticks) -> bool {
        match (self.price, side) {
            (None, _) => true,
            (Some(limit), Side::Buy) => limit >= price,
            (Some(limit), Side::Sell) => limit <= price,
        }
    }
}

/// What each side would trade at each price.
#[derive(Debug, Default)]
pub struct AuctionCurves {
    /// Prices ascending, each with the sum of the bids at it or above.
    buys: Vec<(i64, u64)>,
    /// Prices ascending, each with the sum of the offers at it or below.
    sells: Vec<(i64, u64)>,
    unpriced: [u64; 2],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PricePoint {
    pub price: Ticks,
    pub volume: u64,
    /// Buys less sells at the price.
    pub surplus: i64,
}

impl AuctionCurves {
    /// From lots at prices, in any order, and what is there without a price.
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

    /// What would trade at a price, and by how much more is bought than sold there.
    pub fn at(&self, price: Ticks) -> PricePoint {
        let (buys, sells) = (self.buys_at(price.0), self.sells_at(price.0));
        PricePoint { price, volume: buys.min(sells), surplus: buys.cast_signed() - sells.cast_signed() }
    }

    fn candidates(&self) -> impl Iterator<Item = i64> {
        self.buys.iter().chain(&self.sells).map(|(price, _)| *price)
    }
}

/// Sums by price, ascending; nothing for what counts for nothing.
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

/// The price of a call, or none (rulebook 11.2).
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

/// The price of a filter and what trades there, or none (rulebook 8.2, 6 and 7).
pub fn filter_price(curves: &AuctionCurves, touch: [Option<Ticks>; 2], reference: Option<Ticks>) -> Option<PricePoint> {
    // What trades changes only just above a bid and at an offer.
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

/// Half-way, rounded down.
const fn middle(low: Ticks, high: Ticks) -> Ticks {
    Ticks((low.0 + high.0).div_euclid(2))
}

/// Lowers what hidden orders count for until each that counts can have its minimum (rulebook 8.2, 3 to 5). Both sides in
/// priority order.
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

/// Whether anything changed.
fn side_pass(side: Side, own: &mut [AuctionInterest], contra: &[AuctionInterest]) -> bool {
    let nobody: &[AuctionInterest] = &[];
    let curves = match side {
        Side::Buy => AuctionCurves::of(nobody, contra),
        Side::Sell => AuctionCurves::of(contra, nobody),
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

/// What each order gets of so many lots at a price, those in priority order; an order that gets nothing is left out.
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

/// As [`in_order`], but visible orders at the price itself share what the better leave in proportion to what they have,
/// one batch after another; a batch is what came up to one of these priority numbers (rulebook 15.2, 15.3).
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

/// So many lots among orders that show these: in proportion, rounded down, and what is left one lot each, by time.
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

/// Buyers and sellers from both heads, each time the smaller of what the two have left.
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
    fn the_price_of_a_call_by_hand() {
        // Most volume decides alone.
        assert_eq!(priced(&[order(1, 102, 10)], &[order(2, 100, 4), order(3, 101, 6)], None), Some((101, 10, 0)));
        // A surplus of buys takes the highest price, one of sells the lowest.
        assert_eq!(priced(&[order(1, 102, 10)], &[order(2, 100, 4)], None), Some((102, 4, 6)));
        assert_eq!(priced(&[order(1, 102, 4)], &[order(2, 100, 10)], None), Some((100, 4, -6)));
        // Balanced: the reference, no further than the prices that are left; without one, the middle.
        let (bid, offer) = ([order(1, 105, 4)], [order(2, 100, 4)]);
        assert_eq!(priced(&bid, &offer, Some(103)), Some((103, 4, 0)));
        assert_eq!(priced(&bid, &offer, Some(90)), Some((100, 4, 0)));
        assert_eq!(priced(&bid, &offer, None), Some((102, 4, 0)));
        // Market orders alone need a reference.
        assert_eq!(priced(&[order(1, 0, 3)], &[order(2, 0, 5)], Some(77)), Some((77, 3, -2)));
        assert_eq!(priced(&[order(1, 0, 3)], &[order(2, 0, 5)], None), None);
        assert_eq!(priced(&[order(1, 99, 3)], &[order(2, 100, 5)], Some(100)), None);
    }

    #[test]
    fn a_minimum_that_cannot_be_had_counts_for_nothing() {
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
    fn a_filter_has_its_price_where_the_touch_has_its_middle() {
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
    fn what_rounding_leaves_goes_one_lot_each_by_time() {
        assert_eq!(shares_of(&[100, 300], 200), [50, 150]);
        assert_eq!(shares_of(&[10, 10, 10], 5), [2, 2, 1]);
        assert_eq!(shares_of(&[1, 1, 98], 2), [1, 0, 1]);
        assert_eq!(shares_of(&[10, 30], 50), [10, 30]);
    }

    #[test]
    fn pairs_are_made_from_both_heads() {
        let id = OrderId;
        let pairs = pair_orders(&[(id(1), 5), (id(2), 3)], &[(id(3), 4), (id(4), 4)]);
        assert_eq!(pairs, [(id(1), id(3), 4), (id(1), id(4), 1), (id(2), id(4), 3)]);
    }
}
