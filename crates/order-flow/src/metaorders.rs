//! Sides of market orders with a long memory: large orders that are split over time.
//!
//! Does        draw the side of each market order. Some orders come from a few hidden large orders
//!             whose sizes have a power-law tail, child by child (Lillo, Mike and Farmer 2005);
//!             the others have a random side.
//! Holds       the probability of a buy is known before each draw, so that prices can react to the
//!             surprise in a side only, and have no memory themselves (Lillo and Farmer 2004).
//! Start at    [`Metaorders::draw`].

use pitwire_model::Side;

use crate::math::exp;
use crate::random::Random;

/// Hidden large orders at a time.
const HIDDEN: usize = 3;
/// Share of market orders that belong to no large order.
const ALONE: f64 = 0.3;
/// Least and greatest number of children, and the exponent of their tail. The autocorrelation of
/// sides falls with the exponent minus one.
const FEWEST: f64 = 4.0;
const MOST: f64 = 5_000.0;
const TAIL: f64 = 1.5;

/// Hidden orders that are being executed.
#[derive(Clone, Debug)]
pub struct Metaorders {
    /// Side and children left of each hidden order.
    hidden: [(Side, u32); HIDDEN],
}

impl Metaorders {
    pub fn new(random: &mut Random) -> Metaorders {
        Metaorders { hidden: std::array::from_fn(|_| new_order(random)) }
    }

    /// Returns the side of the next market order, and the mean side that was expected: from -1,
    /// certainly a sale, to 1.
    pub fn draw(&mut self, random: &mut Random) -> (Side, f64) {
        let sum: f64 = self.hidden.iter().map(|(side, _)| sign(*side)).sum();
        let expected = (1.0 - ALONE) * sum / HIDDEN as f64;
        if random.chance(ALONE) {
            return (random_side(random), expected);
        }
        let turn = usize::try_from(random.below(HIDDEN as u64)).unwrap_or(0);
        let (side, left) = self.hidden[turn];
        self.hidden[turn] = if left > 1 { (side, left - 1) } else { new_order(random) };
        (side, expected)
    }
}

/// Returns 1 for a buy and -1 for a sale.
pub fn sign(side: Side) -> f64 {
    match side {
        Side::Buy => 1.0,
        Side::Sell => -1.0,
    }
}

pub fn random_side(random: &mut Random) -> Side {
    if random.chance(0.5) { Side::Buy } else { Side::Sell }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // from 4 to 5,000
fn new_order(random: &mut Random) -> (Side, u32) {
    let children = FEWEST * exp(random.exponential(1.0 / TAIL));
    (random_side(random), children.min(MOST) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sides_have_a_long_memory_and_their_surprises_have_none() {
        const DRAWS: usize = 200_000;
        let mut random = Random::new(5, 0);
        let mut metaorders = Metaorders::new(&mut random);
        let (sides, surprises): (Vec<f64>, Vec<f64>) = (0..DRAWS)
            .map(|_| {
                let (side, expected) = metaorders.draw(&mut random);
                (sign(side), sign(side) - expected)
            })
            .unzip();
        let correlation = |values: &[f64], lag: usize| {
            let pairs = values.iter().zip(&values[lag..]);
            pairs.map(|(a, b)| a * b).sum::<f64>() / (DRAWS - lag) as f64
        };
        // Independent sides would stay within 0.0044 95 times in 100.
        for (lag, least) in [(1, 0.1), (10, 0.06), (100, 0.02), (1_000, 0.004)] {
            assert!(correlation(&sides, lag) > least, "lag {lag}: {}", correlation(&sides, lag));
            assert!(correlation(&surprises, lag).abs() < 0.01, "lag {lag}: {}", correlation(&surprises, lag));
        }
    }
}
