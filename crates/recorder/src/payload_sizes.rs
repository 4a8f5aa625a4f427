//! Sizes of messages in bytes: one size, a range, or the sizes of a study.
//!
//! Does        parses the option `--payload-bytes`, and draws sizes from a seed.
//! Holds       equal seeds give equal sizes on every connection.
//! Start at    [`PayloadSizes::draws`].

use pitwire_random::Xoshiro256;

/// Smallest and largest size of a message, in bytes.
pub const SIZE_LIMITS: (u32, u32) = (124, 16 * 1024 * 1024);
/// Smallest and largest message of the study of 2020, in bytes.
const STUDY_LIMITS: (u32, u32) = (124, 805_000);
/// Mean message of the study: 120 GB of 0.535 billion messages.
const STUDY_MEAN_BYTES: f64 = 224.0;
/// Number of the first message that has the largest size, so that short runs have one.
const FIRST_LARGEST: u64 = 1_000;
/// Messages from one of the largest size to the next.
const LARGEST_EVERY: u64 = 16_384;
/// Stream of the generator that draws sizes.
const SIZE_STREAM: u64 = 2;

/// The law of the sizes of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PayloadSizes {
    /// Uniform in the logarithm, both ends included.
    Range { least: u32, most: u32 },
    /// The smallest, the mean and the largest size of the study of 2020.
    Study,
}

impl PayloadSizes {
    /// Parses `N`, `A-B` or `study`.
    ///
    /// # Errors
    /// The text has another form, or a size is outside [`SIZE_LIMITS`].
    pub fn parse(text: &str) -> Result<Self, String> {
        if text == "study" {
            return Ok(PayloadSizes::Study);
        }
        let size = |text: &str| text.parse().ok().filter(|size| (SIZE_LIMITS.0..=SIZE_LIMITS.1).contains(size));
        let (least, most) = text.split_once('-').unwrap_or((text, text));
        match (size(least), size(most)) {
            (Some(least), Some(most)) if least <= most => Ok(PayloadSizes::Range { least, most }),
            _ => {
                Err(format!("give a number from {} to {}, two of them as A-B, or study", SIZE_LIMITS.0, SIZE_LIMITS.1))
            }
        }
    }

    /// Starts the sizes of one connection.
    pub fn draws(self, seed: u64) -> SizeDraws {
        SizeDraws { sizes: self, random: Xoshiro256::new(seed, SIZE_STREAM), drawn: 0 }
    }
}

/// The sizes of one connection's messages, in order.
pub struct SizeDraws {
    sizes: PayloadSizes,
    random: Xoshiro256,
    drawn: u64,
}

impl SizeDraws {
    /// Draws the size of the next message in bytes.
    ///
    /// The sizes of the study follow a Pareto law from its smallest size with its mean. Such a law
    /// expects a largest of about 1 MB among 0.5 billion messages; the study saw 805 kB. Message
    /// 1,000, and every 16,384th after it, has the largest size.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Between two u32.
    pub fn draw(&mut self) -> usize {
        self.drawn += 1;
        let unit = self.random.unit();
        let (least, most, size) = match self.sizes {
            PayloadSizes::Range { least, most } if least == most => return least as usize,
            PayloadSizes::Range { least, most } => {
                (least, most, f64::from(least) * (f64::from(most) / f64::from(least)).powf(unit))
            }
            PayloadSizes::Study => {
                let (least, most) = STUDY_LIMITS;
                if self.drawn % LARGEST_EVERY == FIRST_LARGEST {
                    return most as usize;
                }
                let shape = STUDY_MEAN_BYTES / (STUDY_MEAN_BYTES - f64::from(least));
                (least, most, f64::from(least) * unit.powf(-1.0 / shape))
            }
        };
        (size as usize).clamp(least as usize, most as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(law: PayloadSizes, count: usize, seed: u64) -> Vec<usize> {
        let mut draws = law.draws(seed);
        (0..count).map(|_| draws.draw()).collect()
    }

    #[test]
    fn drawn_sizes_stay_in_the_range() {
        let sizes = sizes(PayloadSizes::Range { least: 124, most: 805_000 }, 1_000, 3);
        assert!(sizes.iter().all(|size| (124..=805_000).contains(size)));
        // Half of the sizes are below the geometric mean, 9,991.
        let small = sizes.iter().filter(|size| **size < 9_991).count();
        assert!((440..=560).contains(&small), "{small}");
    }

    #[test]
    #[allow(clippy::cast_precision_loss)]
    fn sizes_of_the_study_have_its_limits_and_its_mean() {
        let sizes = sizes(PayloadSizes::Study, 200_000, 3);
        assert_eq!(sizes.iter().min(), Some(&124));
        let largest: Vec<usize> = (0..sizes.len()).filter(|at| sizes[*at] == 805_000).collect();
        assert_eq!(largest, (0..13).map(|k| 999 + k * 16_384).collect::<Vec<_>>());
        let others: Vec<usize> = sizes.iter().copied().filter(|size| *size < 805_000).collect();
        // Quantiles of a Pareto law do not depend on its heavy tail: 124 * 2^(1/2.24) = 169, and
        // 124 * 100^(1/2.24) = 969.
        let mut sorted = others.clone();
        sorted.sort_unstable();
        assert!(sorted[sorted.len() / 2].abs_diff(169) <= 1, "{}", sorted[sorted.len() / 2]);
        assert!(sorted[sorted.len() * 99 / 100].abs_diff(969) <= 30, "{}", sorted[sorted.len() * 99 / 100]);
        let mean = others.iter().sum::<usize>() as f64 / others.len() as f64;
        assert!((mean - 224.0).abs() < 10.0, "{mean}");
    }

    #[test]
    fn equal_seeds_give_equal_sizes() {
        assert_eq!(sizes(PayloadSizes::Study, 1_000, 3), sizes(PayloadSizes::Study, 1_000, 3));
        assert_ne!(sizes(PayloadSizes::Study, 1_000, 3), sizes(PayloadSizes::Study, 1_000, 4));
    }

    #[test]
    fn sizes_are_parsed_and_checked() {
        assert_eq!(PayloadSizes::parse("224"), Ok(PayloadSizes::Range { least: 224, most: 224 }));
        assert_eq!(PayloadSizes::parse("124-805000"), Ok(PayloadSizes::Range { least: 124, most: 805_000 }));
        assert_eq!(PayloadSizes::parse("study"), Ok(PayloadSizes::Study));
        for text in ["", "123", "16777217", "300-200", "-224", "a", "124-", "Study"] {
            assert!(PayloadSizes::parse(text).is_err(), "{text}");
        }
    }
}
