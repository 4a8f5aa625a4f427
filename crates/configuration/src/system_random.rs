//! Random session ends from the operating system.

/// Returns an unpredictable number from zero to `most`. Returns zero, the scheduled end, if the
/// operating system has no randomness.
pub fn random_below(most: u64) -> u64 {
    let mut bytes = [0; 16];
    if getrandom::fill(&mut bytes).is_err() {
        return 0;
    }
    let wide = u128::from_le_bytes(bytes) % (u128::from(most) + 1);
    u64::try_from(wide).unwrap_or(0)
}
