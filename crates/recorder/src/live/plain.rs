//! Messages of chosen sizes: `{"x":"..."}` with filler.
//!
//! Start at    [`PlainFeed::new`].

use super::ENVELOPE_BYTES;
use crate::payload_sizes::{PayloadSizes, SizeDraws};
use crate::trades::MessageSource;

const AROUND_FILLER: usize = r#"{"x":""}"#.len();

pub struct PlainFeed {
    sizes: SizeDraws,
    envelope: usize,
}

impl PlainFeed {
    /// Creates a feed whose messages have `sizes` once the envelope, if any, is added.
    pub fn new(sizes: PayloadSizes, has_envelope: bool, seed: u64) -> Self {
        let envelope = if has_envelope { ENVELOPE_BYTES - 1 } else { 0 };
        PlainFeed { sizes: sizes.draws(seed), envelope }
    }
}

impl MessageSource for PlainFeed {
    fn take(&mut self, _wall_ms: u64, out: &mut Vec<u8>) -> Result<Option<bool>, String> {
        let filler = self.sizes.draw() - self.envelope - AROUND_FILLER;
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
            let range = PayloadSizes::Range { least: size, most: size };
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
}
