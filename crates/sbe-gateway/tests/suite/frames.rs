//! Frames of sbe-tool, and frames with random damage, for both codecs.

use std::env;

use pitwire_random::SplitMix64;
use pitwire_sbe_gateway::FRAME_HEADER_BYTES;

/// Returns a frame of a file that `scripts/regenerate-sbe-vectors` writes.
pub fn named(vectors: &str, name: &str) -> Vec<u8> {
    let line = vectors.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')).unwrap();
    let digits = line.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
    digits.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
}

/// Damages frames at random and passes each to `decode`, which returns the bytes that the decoded
/// message encodes to, or `None` if it refuses the frame. A decoded message must encode to the
/// bytes behind the frame header that it came from.
///
/// SBE_DECODES sets the number of frames; SBE_SEED repeats a failed run.
pub fn check_damaged(frames: &[Vec<u8>], decode: impl Fn(&[u8]) -> Option<Vec<u8>>) {
    let number = |name, default| env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default);
    let (decodes, seed): (u64, u64) = (number("SBE_DECODES", 10_000), number("SBE_SEED", 1));
    let mut random = SplitMix64::new(seed);
    let (mut decoded, mut refused) = (0, 0);
    for run in 0..decodes {
        let mut below = |bound: usize| random.index(bound);
        let mut bytes = frames[below(frames.len())].clone();
        for _ in 0..below(4) {
            let at = FRAME_HEADER_BYTES + below(bytes.len() - FRAME_HEADER_BYTES);
            bytes[at] = u8::try_from(below(256)).unwrap();
        }
        if below(4) == 0 {
            bytes.truncate(FRAME_HEADER_BYTES + below(bytes.len() - FRAME_HEADER_BYTES));
        }
        match decode(&bytes) {
            Some(again) => {
                decoded += 1;
                assert_eq!(again[FRAME_HEADER_BYTES..], bytes[FRAME_HEADER_BYTES..], "seed {seed}, frame {run}");
            }
            None => refused += 1,
        }
    }
    assert!(decoded > 0 && refused > 0, "seed {seed}: {decoded} decoded, {refused} refused");
}
