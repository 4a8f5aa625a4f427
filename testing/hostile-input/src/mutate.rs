//! Changes to an input, from a seed. The short test uses them where a fuzzer would watch coverage.

use pitwire_random::SplitMix64;

/// Pieces that parsers often mishandle.
const SPLINTERS: &[&[u8]] = &[
    b"",
    b"0",
    b"-1",
    b"1e309",
    b"-0.0",
    b"1e-400",
    b"9223372036854775808",
    b"170141183460469231731687303715884105728",
    b"null",
    b"true",
    b"[]",
    b"{}",
    b"\"",
    b"\\u0000",
    b"\\ud800",
    b"\xff",
    b"\xc3\xa9",
    b",",
    b"}",
    b"{\"a\":",
    b"NaN",
    b"0.00000000000000000001",
    b"4294967296",
    b"\n",
    b"\x00\x00\x00\x00",
    b"\xff\xff\xff\xff",
    b"\xff\xff\xff\xff\xff\xff\xff\x7f",
];

/// Applies one to four changes. `other` is an input to take pieces from.
pub fn mutated(input: &[u8], other: &[u8], random: &mut SplitMix64) -> Vec<u8> {
    let mut out = input.to_vec();
    for _ in 0..=random.index(4) {
        let at = random.index(out.len() + 1);
        let end = (at + random.index(16)).min(out.len());
        match random.index(6) {
            0 => {
                let bit = 1 << random.index(8);
                out.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= bit);
            }
            1 => drop(out.drain(at..end)),
            2 => {
                let splinter = SPLINTERS.get(random.index(SPLINTERS.len())).copied().unwrap_or_default();
                out.splice(at..end, splinter.iter().copied());
            }
            3 => {
                let copied = out.get(at..end).unwrap_or_default().to_vec();
                out.splice(at..at, copied);
            }
            4 => {
                let from = random.index(other.len() + 1);
                let to = (from + random.index(64)).min(other.len());
                out.splice(at..end, other.get(from..to).unwrap_or_default().iter().copied());
            }
            _ => out.truncate(at),
        }
    }
    out
}
