//! A counter stored as the twelve digits that are sent, so that counting needs no conversion.

/// Counts up to 999,999,999,999.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DigitCounter {
    /// The eight lower digits as text, the highest in the top byte; then the four upper digits.
    low: u64,
    high: u32,
}

pub const DIGITS: usize = 12;
const ZEROS: u64 = 0x3030_3030_3030_3030;

impl DigitCounter {
    pub const ZERO: DigitCounter = DigitCounter { low: ZEROS, high: 0x3030_3030 };
    pub const MOST: u64 = 999_999_999_999;

    /// Counts one up. 0 follows the largest number.
    #[inline]
    pub fn count(&mut self) {
        // Each byte 0x30..0x39 is raised so that a nine becomes 0xFF, and a carry runs through
        // nines by itself. Bytes that did not carry have their top bit set and are lowered again;
        // those that did are 0.
        let lifted = self.low.wrapping_add(0xC6C6_C6C6_C6C6_C6C6).wrapping_add(1);
        let kept = (lifted & 0x8080_8080_8080_8080) >> 7;
        self.low = lifted.wrapping_add(ZEROS).wrapping_sub(kept.wrapping_mul(0xF6));
        if self.low == ZEROS {
            self.count_high();
        }
    }

    #[cold]
    fn count_high(&mut self) {
        let lifted = self.high.wrapping_add(0xC6C6_C6C6).wrapping_add(1);
        let kept = (lifted & 0x8080_8080) >> 7;
        self.high = lifted.wrapping_add(0x3030_3030).wrapping_sub(kept.wrapping_mul(0xF6));
    }

    #[inline]
    pub fn write(self, out: &mut [u8; DIGITS]) {
        out[..4].copy_from_slice(&self.high.to_be_bytes());
        out[4..].copy_from_slice(&self.low.to_be_bytes());
    }

    pub fn value(self) -> u64 {
        let mut text = [0; DIGITS];
        self.write(&mut text);
        text.iter().fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0'))
    }
}

#[cfg(test)]
mod tests {
    use super::{DIGITS, DigitCounter};

    fn text(digits: DigitCounter) -> String {
        let mut out = [0; DIGITS];
        digits.write(&mut out);
        String::from_utf8(out.to_vec()).unwrap()
    }

    fn at(value: u64) -> DigitCounter {
        let text = format!("{value:012}");
        let (high, low) = text.as_bytes().split_at(4);
        DigitCounter {
            low: u64::from_be_bytes(low.try_into().unwrap()),
            high: u32::from_be_bytes(high.try_into().unwrap()),
        }
    }

    #[test]
    fn digits_count_like_numbers() {
        let mut digits = DigitCounter::ZERO;
        for number in 1..=200_000_u64 {
            digits.count();
            assert_eq!(text(digits), format!("{number:012}"));
        }
        assert_eq!(digits.value(), 200_000);
    }

    #[test]
    fn carries_pass_through_every_run_of_nines() {
        for power in 0..12 {
            let before = 10_u64.pow(power) - 1;
            for start in [before, before + 5 * 10_u64.pow(power).min(10_u64.pow(11))] {
                let mut digits = at(start);
                digits.count();
                assert_eq!(digits.value(), (start + 1) % 1_000_000_000_000, "after {start}");
            }
        }
        let mut last = at(DigitCounter::MOST);
        last.count();
        assert_eq!(last.value(), 0);
    }
}
