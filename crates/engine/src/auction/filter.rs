//! Which hidden orders can get their minimum execution size in an uncross (rulebook 8.2, steps 3 to
//! 7).
//!
//! Does        pass over both sides in turn until the quantity of no hidden order changes; then
//!             compute how much trades and between which prices.
//! Holds       a hidden order counts with nothing, or with at least its minimum execution size.
//! Leaves out  single displayed orders: those of one price are one interest.
//! Costs       a pass: the interests of both sides; passes: at most four plus two for each hidden
//!             order, and at most 64.
//! Start at    [`settle`], then [`crossing`].

use pitwire_model::{Side, Ticks};

/// Bound of the passes. Nested orders settle one per pass, and a member could enter any number of
/// them.
const MOST_PASSES: usize = 64;

/// The displayed orders of one price, or one hidden order, in priority order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuctionInterest {
    /// Limit price; [`AuctionInterest::ANY_BUYER`] or [`AuctionInterest::ANY_SELLER`] for market
    /// orders.
    pub price: i64,
    pub open: u64,
    /// Minimum execution size of a hidden order; zero for displayed orders.
    pub minimum: u32,
    /// Lots that count.
    pub lots: u64,
}

impl AuctionInterest {
    pub const ANY_BUYER: i64 = i64::MAX;
    pub const ANY_SELLER: i64 = i64::MIN;

    pub fn displayed(price: Ticks, open: u64) -> AuctionInterest {
        AuctionInterest { price: price.0, open, minimum: 0, lots: open }
    }

    pub fn hidden(price: Ticks, open: u32, minimum: u32) -> AuctionInterest {
        AuctionInterest { price: price.0, open: u64::from(open), minimum, lots: u64::from(open) }
    }

    /// All market orders of `side` together.
    pub fn market_orders(side: Side, open: u64) -> AuctionInterest {
        let price = if side == Side::Buy { AuctionInterest::ANY_BUYER } else { AuctionInterest::ANY_SELLER };
        AuctionInterest { price, open, minimum: 0, lots: open }
    }

    fn is_hidden(&self) -> bool {
        self.minimum > 0
    }
}

/// How much can trade, and the lowest and highest price at which it can.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilterCrossing {
    pub volume: u64,
    pub lowest: Ticks,
    pub highest: Ticks,
}

fn total(side: &[AuctionInterest]) -> u64 {
    side.iter().map(|interest| interest.lots).sum()
}

/// Computes how many lots of each hidden order count. `bids` and `asks` must be in priority order.
/// Returns the number of passes.
pub fn settle(bids: &mut [AuctionInterest], asks: &mut [AuctionInterest]) -> usize {
    let hidden = bids.iter().chain(asks.iter()).filter(|interest| interest.is_hidden()).count();
    let mut side = if total(bids) >= total(asks) { Side::Buy } else { Side::Sell };
    let mut quiet = 0;
    let most = (4 + 2 * hidden).min(MOST_PASSES);
    for passes in 1..=most {
        let changed = match side {
            Side::Buy => pass(bids, asks, |buyer, seller| seller <= buyer),
            Side::Sell => pass(asks, bids, |seller, buyer| seller <= buyer),
        };
        quiet = if changed { 0 } else { quiet + 1 };
        if quiet == 2 {
            return passes;
        }
        side = side.opposite();
    }
    // The quantities do not settle: no hidden order counts.
    for interest in bids.iter_mut().chain(asks).filter(|interest| interest.is_hidden()) {
        interest.lots = 0;
    }
    most
}

/// Recomputes the quantities of one side's hidden orders. Returns whether any has changed.
fn pass(own: &mut [AuctionInterest], contra: &[AuctionInterest], accepts: impl Fn(i64, i64) -> bool) -> bool {
    let (mut reached, mut within) = (contra.len(), total(contra));
    let (mut ahead, mut changed) = (0_u64, false);
    for interest in own {
        // Limits get worse along the side: a price that one order does not accept, no later order
        // accepts.
        while let Some(last) = reached.checked_sub(1)
            && !accepts(interest.price, contra[last].price)
        {
            within -= contra[last].lots;
            reached = last;
        }
        if interest.is_hidden() {
            let available = within.saturating_sub(ahead);
            let lots = if available >= u64::from(interest.minimum) { available.min(interest.open) } else { 0 };
            changed |= lots != interest.lots;
            interest.lots = lots;
        }
        ahead += interest.lots;
    }
    changed
}

/// Returns how much two settled sides without market orders trade; `None` if nothing trades.
pub fn crossing(bids: &[AuctionInterest], asks: &[AuctionInterest]) -> Option<FilterCrossing> {
    let (mut buyers, mut sellers) = (counted(bids), counted(asks));
    let (mut bid, mut ask) = (buyers.next()?, sellers.next()?);
    let mut found = None;
    let mut volume = 0;
    while ask.price <= bid.price {
        let lots = bid.lots.min(ask.lots);
        volume += lots;
        found = Some(FilterCrossing { volume, lowest: Ticks(ask.price), highest: Ticks(bid.price) });
        bid.lots -= lots;
        ask.lots -= lots;
        if bid.lots == 0 {
            let Some(next) = buyers.next() else { break };
            bid = next;
        }
        if ask.lots == 0 {
            let Some(next) = sellers.next() else { break };
            ask = next;
        }
    }
    found
}

fn counted(side: &[AuctionInterest]) -> impl Iterator<Item = AuctionInterest> {
    side.iter().copied().filter(|interest| interest.lots > 0)
}

/// Returns the price of rulebook 8.2, step 7.
pub fn price(found: FilterCrossing, bests: [Option<Ticks>; 2], reference: Option<Ticks>) -> Ticks {
    let FilterCrossing { lowest: Ticks(lowest), highest: Ticks(highest), .. } = found;
    let wanted = match bests {
        [Some(bid), Some(offer)] => (bid.0 + offer.0).div_euclid(2),
        [Some(best), None] | [None, Some(best)] => best.0,
        [None, None] => reference.map_or((lowest + highest).div_euclid(2), |reference| reference.0),
    };
    Ticks(wanted.clamp(lowest, highest))
}
