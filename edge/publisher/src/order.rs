//! In which order subscribers are served: a new one every time.
//!
//! Holds       a place in one sweep says nothing about the place in the next.
//! Costs       some nanoseconds for each, beside a send of a microsecond and more.

/// A small generator (xorshift64*): order is a matter of fairness, not of secrecy.
#[derive(Debug)]
pub(crate) struct Order(u64);

impl Order {
    pub fn new(seed: u64) -> Self {
        Order(seed | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// Every order is as likely as any other.
    pub fn shuffle(&mut self, slots: &mut [u32]) {
        for last in (1..slots.len()).rev() {
            // The upper half of a product spreads evenly enough over any number of slots.
            let at = (u128::from(self.next()) * (last as u128 + 1)) >> 64;
            slots.swap(last, usize::try_from(at).unwrap_or(0));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_in_one_sweep_says_nothing_about_the_next() {
        let (count, rounds) = (1_000_usize, 200);
        let mut order = Order::new(7);
        let mut slots: Vec<u32> = (0..1_000).collect();
        let mut before = vec![0_usize; count];
        let (mut sum, mut worst_mean) = (0.0, vec![0.0_f64; count]);
        for round in 0..rounds {
            // The list comes in the same order every time, as listeners do.
            slots.sort_unstable();
            order.shuffle(&mut slots);
            let mut place = vec![0; count];
            for (at, slot) in slots.iter().enumerate() {
                place[*slot as usize] = at;
                worst_mean[*slot as usize] += at as f64 / f64::from(rounds);
            }
            if round > 0 {
                // Spearman: 1 - 6 Σd² / (n(n²-1)).
                let squares: f64 = before.iter().zip(&place).map(|(a, b)| (*a as f64 - *b as f64).powi(2)).sum();
                let n = count as f64;
                sum += 1.0 - 6.0 * squares / (n * (n * n - 1.0));
            }
            before = place;
        }
        let mean = sum / f64::from(rounds - 1);
        assert!(mean.abs() <= 0.05, "rank correlation {mean}");
        // Of 200 places between 0 and 999 the mean strays some 20 from the middle; nobody is always last.
        assert!(worst_mean.iter().all(|mean| (400.0..600.0).contains(mean)));
    }
}
