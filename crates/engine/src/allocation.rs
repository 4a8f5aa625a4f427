//! Allocates lots among the orders of one price when there are not enough for all (rulebook 15).
//!
//! Does        implement one rule for each `Allocation` behind one trait.
//! Holds       1. no order gets more than its open lots; all lots are allocated while any order has
//!                open lots left;
//!             2. orders are listed, and trade, by time.
//! Costs       the orders of the price, twice.
//! Start at    [`AllocationRule`].

/// An order that takes part in an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllocationClaim {
    /// Time priority; claims are listed in this order.
    pub time: u64,
    pub open: u32,
}

/// A rule that divides lots among claims.
pub trait AllocationRule {
    fn allocate(&self, lots: u64, claims: &[AllocationClaim], given: &mut Vec<u32>);
}

/// Allocates by time alone, the default.
pub struct TimeAllocation;

/// Allocates in proportion to open lots. Lots that rounding leaves go one to each order, by time.
pub struct ProRataAllocation;

/// Allocates earlier batches before later ones, and each batch in proportion. Holds the time
/// priorities at which batches ended, ascending.
pub struct BatchAllocation<'a>(pub &'a [u64]);

impl AllocationRule for TimeAllocation {
    fn allocate(&self, mut lots: u64, claims: &[AllocationClaim], given: &mut Vec<u32>) {
        for claim in claims {
            given.push(take(&mut lots, claim.open));
        }
    }
}

impl AllocationRule for ProRataAllocation {
    fn allocate(&self, lots: u64, claims: &[AllocationClaim], given: &mut Vec<u32>) {
        let all: u64 = claims.iter().map(|claim| u64::from(claim.open)).sum();
        if lots >= all {
            given.extend(claims.iter().map(|claim| claim.open));
            return;
        }
        let first = given.len();
        given.extend(claims.iter().map(|claim| part(lots, claim.open, all)));
        let mut left = lots - given[first..].iter().map(|lots| u64::from(*lots)).sum::<u64>();
        // Fewer lots are left than there are claims, and no claim is full, because `lots` is below
        // the sum of all.
        for (lots, claim) in given[first..].iter_mut().zip(claims) {
            if left > 0 && *lots < claim.open {
                *lots += 1;
                left -= 1;
            }
        }
    }
}

impl AllocationRule for BatchAllocation<'_> {
    fn allocate(&self, mut lots: u64, claims: &[AllocationClaim], given: &mut Vec<u32>) {
        let batch = |claim: &AllocationClaim| self.0.partition_point(|end| *end <= claim.time);
        for of_one in claims.chunk_by(|a, b| batch(a) == batch(b)) {
            let first = given.len();
            ProRataAllocation.allocate(lots, of_one, given);
            lots -= given[first..].iter().map(|lots| u64::from(*lots)).sum::<u64>();
        }
    }
}

/// Takes up to `most` lots and returns how many.
#[allow(clippy::cast_possible_truncation)]
fn take(lots: &mut u64, most: u32) -> u32 {
    let taken = (*lots).min(u64::from(most)) as u32;
    *lots -= u64::from(taken);
    taken
}

/// Returns ⌊lots × open / all⌋, which is below `open` if `lots` is below `all`.
#[allow(clippy::cast_possible_truncation)]
fn part(lots: u64, open: u32, all: u64) -> u32 {
    (u128::from(lots) * u128::from(open) / u128::from(all)) as u32
}
