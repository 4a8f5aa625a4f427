//! Messages of chosen sizes: `{"x":"..."}` with filler.
//!
//! Start at    [`PlainFeed::new`].

use pitwire_random::Xoshiro256;

use super::ENVELOPE_BYTES;
use crate::trades::MessageSource;

/// Smallest and largest payload of a plain message, in bytes with the envelope.
pub const SIZE_LIMITS: (u32, u32) = (124, 16 * 1024 * 1024);
/// Stream of the generator that draws sizes.
const SIZE_STREAM: u64 = 2;
const AROUND_FILLER: usize = r#"{"x":""}"#.len();

/// Sizes of messages in bytes, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeRange {
    pub least: u32,
    pub most: u32,
}

impl SizeRange {
    /// Parses `N` or `A-B`.
    ///
    /// # Errors
    /// The text has another form, or a size is outside [`SIZE_LIMITS`].
    pub fn parse(text: &str) -> Result<Self, String> {
        let size = |text: &str| text.parse().ok().filter(|size| (SIZE_LIMITS.0..=SIZE_LIMITS.1).contains(size));
        let (least, most) = text.split_once('-').unwrap_or((text, text));
        match (size(least), size(most)) {
            (Some(least), Some(most)) if least <= most => Ok(SizeRange { least, most }),
            _ => Err(format!("give a number from {} to {}, or two of them as A-B", SIZE_LIMITS.0, SIZE_LIMITS.1)),
        }
    }
}

pub struct PlainFeed {
    random: Xoshiro256,
    sizes: SizeRange,
    envelope: usize,
}

impl PlainFeed {
    /// Creates a feed whose messages have `sizes` once the envelope, if any, is added.
    pub fn new(sizes: SizeRange, has_envelope: bool, seed: u64) -> Self {
        let envelope = if has_envelope { ENVELOPE_BYTES - 1 } else { 0 };
        PlainFeed { random: Xoshiro256::new(seed, SIZE_STREAM), sizes, envelope }
    }

    /// Draws a size, uniform in its logarithm.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Between two u32.
    fn draw(&mut self) -> usize {
        let (least, most) = (f64::from(self.sizes.least), f64::from(self.sizes.most));
        if self.sizes.least == self.sizes.most {
            return self.sizes.least as usize;
        }
        let size = least * (most / least).powf(self.random.unit());
        (size as usize).clamp(self.sizes.least as usize, self.sizes.most as usize)
    }
}

impl MessageSource for PlainFeed {
    fn take(&mut self, _wall_ms: u64, out: &mut Vec<u8>) -> Result<Option<bool>, String> {
        let filler = self.draw() - self.envelope - AROUND_FILLER;
        out.extend_from_slice(br#"{"x":""#);
        out.resize(out.len() + filler, b'x');
        out.extend_from_slice(br#""}"#);
        Ok(Some(false))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_exact_with_and_without_an_envelope() {
        for size in [124, 224, 65_536, 805_000] {
            let range = SizeRange { least: size, most: size };
            for has_envelope in [false, true] {
                let (mut body, mut message) = (Vec::new(), Vec::new());
                PlainFeed::new(range, has_envelope, 1).take(0, &mut body).unwrap();
                if has_envelope {
                    super::super::envelope::wrap(&mut message, &body, 1, 1, 1);
                } else {
                    message = body;
                }
                assert_eq!(message.len(), size as usize);
            }
        }
    }

    #[test]
    fn drawn_sizes_stay_in_the_range() {
        let mut feed = PlainFeed::new(SizeRange { least: 124, most: 805_000 }, false, 3);
        let sizes: Vec<usize> = (0..1_000).map(|_| feed.draw()).collect();
        assert!(sizes.iter().all(|size| (124..=805_000).contains(size)));
        // Half of the sizes are below the geometric mean, 9,991.
        let small = sizes.iter().filter(|size| **size < 9_991).count();
        assert!((440..=560).contains(&small), "{small}");
    }

    #[test]
    fn ranges_are_parsed_and_checked() {
        assert_eq!(SizeRange::parse("224"), Ok(SizeRange { least: 224, most: 224 }));
        assert_eq!(SizeRange::parse("124-805000"), Ok(SizeRange { least: 124, most: 805_000 }));
        for text in ["", "123", "16777217", "300-200", "-224", "a", "124-"] {
            assert!(SizeRange::parse(text).is_err(), "{text}");
        }
    }
}
