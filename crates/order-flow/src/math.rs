//! Exponential and logarithm from additions, multiplications and divisions only.
//!
//! Holds       equal arguments give equal bits on every machine and in every build: IEEE 754 fixes
//!             each operation, and Rust never fuses them. The `exp` and `ln` of the system choose
//!             fused variants at run time, so their last bit differs between processors, and one
//!             bit changes a tape.

use std::f64::consts::{LOG2_E, SQRT_2};

/// The logarithm of 2 in two parts. The product of the first part and a small integer is exact.
const LN_2_HIGH: f64 = 0.693_147_180_369_123_8;
const LN_2_LOW: f64 = 1.908_214_929_270_587_7e-10;
/// Adding this constant puts the nearest integer of a number into the low bits.
const ROUNDER: f64 = 6_755_399_441_055_744.0;
/// The series 1/n! for n from 0.
const INVERSE_FACTORIAL: [f64; 14] = inverse_factorials();

const fn inverse_factorials() -> [f64; 14] {
    let (mut table, mut at, mut value) = ([1.0; 14], 1, 1.0);
    let mut n = 1.0;
    while at < table.len() {
        value *= n;
        table[at] = 1.0 / value;
        n += 1.0;
        at += 1;
    }
    table
}

/// Returns e^x within about one unit in the last place; zero below -708, infinity above 709.
#[inline]
pub fn exp(x: f64) -> f64 {
    if x < -708.0 {
        return 0.0;
    }
    if x > 709.0 {
        return f64::INFINITY;
    }
    // x = k ln 2 + r with |r| <= (ln 2)/2; e^r by its series; 2^k by its exponent bits.
    let shifted = x * LOG2_E + ROUNDER;
    let k = shifted - ROUNDER;
    let r = (x - k * LN_2_HIGH) - k * LN_2_LOW;
    let series = INVERSE_FACTORIAL.iter().rev().fold(0.0, |sum, term| sum * r + term);
    series * f64::from_bits(shifted.to_bits().wrapping_add(1023) << 52)
}

/// Returns the natural logarithm of a positive normal number within a few units in the last place.
#[inline]
pub fn ln(x: f64) -> f64 {
    const FRACTION: u64 = (1 << 52) - 1;
    let bits = x.to_bits();
    let mut m = f64::from_bits(bits & FRACTION | 1.0_f64.to_bits());
    let mut k = (bits >> 52) as f64 - 1023.0;
    if m > SQRT_2 {
        m *= 0.5;
        k += 1.0;
    }
    // ln m = 2 artanh s with s = (m - 1)/(m + 1), so |s| < 0.172.
    let s = (m - 1.0) / (m + 1.0);
    let square = s * s;
    let mut sum = 0.0;
    let mut odd = 23.0;
    while odd > 2.0 {
        sum = (sum + 1.0 / odd) * square;
        odd -= 2.0;
    }
    k * LN_2_HIGH + (2.0 * s * (1.0 + sum) + k * LN_2_LOW)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_agree_with_the_system_library() {
        for step in -7000..7090_i32 {
            let x = f64::from(step) / 10.0 + 0.037;
            assert!((exp(x) / x.exp() - 1.0).abs() < 4e-16 * (1.0 + x.abs() / 100.0), "exp {x}");
        }
        for step in 1..40_000_i32 {
            for scale in [1e-200, 1e-6, 0.9999, 1e3, 1e200] {
                let x = f64::from(step) / 20_000.0 * scale;
                assert!((ln(x) - x.ln()).abs() <= 5e-16 * x.ln().abs().max(1.0), "ln {x}");
            }
        }
        assert_eq!((exp(0.0), ln(1.0), exp(-800.0)), (1.0, 0.0, 0.0));
    }

    #[test]
    fn the_bits_never_change() {
        // If a machine or compiler gives other bits, it gives other tapes.
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        for step in 1..10_000_i32 {
            let x = f64::from(step) / 700.0;
            for bits in [exp(-x).to_bits(), ln(x).to_bits()] {
                hash = (hash ^ bits).wrapping_mul(0x0100_0000_01b3);
            }
        }
        assert_eq!(hash, 0xe8ea_35de_839c_3e32, "{hash:#x}");
    }
}
