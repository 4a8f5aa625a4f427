//! Lots that do not suffice for all orders of one price are divided among them (rulebook 15).
//!
//! Does        one way for each `Allocation` behind one trait.
//! Holds       1. nobody gets more than it has open; all that is wanted is given while anybody has any open;
//!             2. orders come, and trade, by time.
//! Costs       the orders of the price, twice.
//! Start at    [`Share`].

/// An order at the price in question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllocationClaim {
    /// Its priority number; claims stand in this order.
    pub time: u64,
    pub open: u32,
}

/// How `lots` are divided: writes what each claim gets, claim by claim.
pub trait AllocationRule {
    fn share(&self, lots: u64, claims: &[AllocationClaim], given: &mut Vec<u32>);
}

/// First come, first served: every instrument that asks for nothing else.
pub struct TimeAllocation;

/// Each in proportion to what it has open; what rounding leaves goes one lot each, by time.
pub struct ProRataAllocation;

/// Earlier batches before later ones, each within itself in proportion. Ascending priority numbers at which a batch ended.
pub struct BatchAllocation<'a>(pub &'a [u64]);

impl AllocationRule for TimeAllocation {
    fn share(&self, mut lots: u64, claims: &[AllocationClaim], given: &mut Vec<u32>) {
        for claim in claims {
            given.push(take(&mut lots, claim.open));
        }
    }
}

impl AllocationRule for ProRataAllocation {
    fn share(&self, lots: u64, claims: &[AllocationClaim], given: &mut Vec<u32>) {
        let all: u64 = claims.iter().map(|claim| u64::from(claim.open)).sum();
        if lots >= all {
            given.extend(claims.iter().map(|claim| claim.open));
            return;
        }
        let first = given.len();
        given.extend(claims.iter().map(|claim| part(lots, claim.open, all)));
        let mut left = lots - given[first..].iter().map(|lots| u64::from(*lots)).sum::<u64>();
        // Less is left than there are claims, and none of them is full: lots are fewer than all.
        for (lots, claim) in given[first..].iter_mut().zip(claims) {
            if left > 0 && *lots < claim.open {
                *lots += 1;
                left -= 1;
            }
        }
    }
}

impl AllocationRule for BatchAllocation<'_> {
    fn share(&self, mut lots: u64, claims: &[AllocationClaim], given: &mut Vec<u32>) {
        let batch = |claim: &AllocationClaim| self.0.partition_point(|end| *end <= claim.time);
        for of_one in claims.chunk_by(|a, b| batch(a) == batch(b)) {
            let first = given.len();
            ProRataAllocation.share(lots, of_one, given);
            lots -= given[first..].iter().map(|lots| u64::from(*lots)).sum::<u64>();
        }
    }
}

/// As many as there are, `most` at most.
#[allow(clippy::cast_possible_truncation)]
fn take(lots: &mut u64, most: u32) -> u32 {
    let taken = (*lots).min(u64::from(most)) as u32;
    *lots -= u64::from(taken);
    taken
}

/// ⌊lots × open / all⌋, which is below `open` when `lots` are fewer than `all`.
#[allow(clippy::cast_possible_truncation)]
fn part(lots: u64, open: u32, all: u64) -> u32 {
    (u128::from(lots) * u128::from(open) / u128::from(all)) as u32
}
