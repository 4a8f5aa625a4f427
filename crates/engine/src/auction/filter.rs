//! Hidden orders before an uncross: which of them can have what they ask for at least (rulebook 8.2 steps 3 to 7).
//!
//! Does        walk both sides in turn, until no hidden order's part changes any more; then say how much trades, and
//!             between which prices.
//! Holds       a hidden order's part is nothing, or its minimum at least.
//! Leaves out  who stands behind an interest: visible orders of one price are one.
//! Costs       a pass: the interests of both sides; passes: at most 4 and 2 for each hidden order, and never above 64.
//! Start at    [`settle`], then [`crossing`].

use pitwire_model::{Side, Ticks};

/// Orders nested in one another settle one a pass: however many somebody rests, a settling costs no more passes.
const MOST_PASSES: usize = 64;

/// What stands in one place of a side, in priority order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuctionInterest {
    /// The limit; for what takes any price [`Interest::ANY_BUYER`] or [`Interest::ANY_SELLER`].
    pub price: i64,
    pub open: u64,
    /// What a hidden order wants at least; zero: visible.
    pub minimum: u32,
    /// What counts of it.
    pub lots: u64,
}

impl AuctionInterest {
    pub const ANY_BUYER: i64 = i64::MAX;
    pub const ANY_SELLER: i64 = i64::MIN;

    pub fn visible(price: Ticks, open: u64) -> AuctionInterest {
        AuctionInterest { price: price.0, open, minimum: 0, lots: open }
    }

    pub fn hidden(price: Ticks, open: u32, minimum: u32) -> AuctionInterest {
        AuctionInterest { price: price.0, open: u64::from(open), minimum, lots: u64::from(open) }
    }

    /// Market orders of `side`, all together.
    pub fn any(side: Side, open: u64) -> AuctionInterest {
        let price = if side == Side::Buy { AuctionInterest::ANY_BUYER } else { AuctionInterest::ANY_SELLER };
        AuctionInterest { price, open, minimum: 0, lots: open }
    }

    fn is_hidden(&self) -> bool {
        self.minimum > 0
    }
}

/// How much may trade, and the lowest and highest price at which so much does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilterCrossing {
    pub volume: u64,
    pub lowest: Ticks,
    pub highest: Ticks,
}

fn total(side: &[AuctionInterest]) -> u64 {
    side.iter().map(|interest| interest.lots).sum()
}

/// Sets what counts of each hidden order, and says in how many passes. `bids` and `asks` in priority order.
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
    // No hidden order counts in what does not settle.
    for interest in bids.iter_mut().chain(asks).filter(|interest| interest.is_hidden()) {
        interest.lots = 0;
    }
    most
}

/// One side's hidden orders look at what is left for them. Says whether anything changed.
fn pass(own: &mut [AuctionInterest], contra: &[AuctionInterest], accepts: impl Fn(i64, i64) -> bool) -> bool {
    let (mut reached, mut within) = (contra.len(), total(contra));
    let (mut ahead, mut changed) = (0_u64, false);
    for interest in own {
        // Limits get worse on the way: what one order does not accept, none behind it does.
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

/// What trades of two settled sides without market orders, if anything does.
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

/// The price of rulebook 8.2 step 7.
pub fn price(found: FilterCrossing, bests: [Option<Ticks>; 2], reference: Option<Ticks>) -> Ticks {
    let FilterCrossing { lowest: Ticks(lowest), highest: Ticks(highest), .. } = found;
    let wanted = match bests {
        [Some(bid), Some(offer)] => (bid.0 + offer.0).div_euclid(2),
        [Some(best), None] | [None, Some(best)] => best.0,
        [None, None] => reference.map_or((lowest + highest).div_euclid(2), |reference| reference.0),
    };
    Ticks(wanted.clamp(lowest, highest))
}
