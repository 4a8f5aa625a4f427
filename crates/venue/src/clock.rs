//! Venue time: the machine's monotonic clock, scaled by a speed.

use pitwire_model::VenueNanos;

#[derive(Clone, Copy, Debug)]
pub struct VenueClock {
    venue: VenueNanos,
    monotonic_ns: u64,
    /// Venue nanoseconds per 1,000 real nanoseconds. Zero stops the clock.
    permille: u64,
}

impl VenueClock {
    /// Starts the clock at the wall time, or at `last`, the time of the last command, if that is
    /// later.
    ///
    /// The wall clock is read once. Later steps of the wall clock change nothing.
    pub fn start(wall_ns: u64, last: VenueNanos, monotonic_ns: u64, speed: f64) -> Self {
        // The argument parser has checked that the speed is between 0.001 and 1000.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let permille = (speed * 1000.0).round() as u64;
        VenueClock { venue: VenueNanos(wall_ns).max(last), monotonic_ns, permille: permille.max(1) }
    }

    /// Creates a clock that stands still. Only requests move venue time.
    pub fn manual() -> Self {
        VenueClock { venue: VenueNanos::ZERO, monotonic_ns: 0, permille: 0 }
    }

    pub fn at(&self, monotonic_ns: u64) -> VenueNanos {
        let passed = u128::from(monotonic_ns.saturating_sub(self.monotonic_ns)) * u128::from(self.permille) / 1000;
        VenueNanos(self.venue.0.saturating_add(u64::try_from(passed).unwrap_or(u64::MAX)))
    }

    /// Returns the monotonic time at which a venue time comes, or `u64::MAX` if the clock stands
    /// still.
    pub fn real(&self, at: VenueNanos) -> u64 {
        let Some(ahead) = (u128::from(at.0.saturating_sub(self.venue.0)) * 1000).checked_div(u128::from(self.permille))
        else {
            return u64::MAX;
        };
        self.monotonic_ns.saturating_add(u64::try_from(ahead).unwrap_or(u64::MAX))
    }

    /// Continues from `at` after the machine has been suspended, instead of catching up.
    pub fn resume_from(&mut self, at: VenueNanos, monotonic_ns: u64) {
        self.venue = at;
        self.monotonic_ns = monotonic_ns;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn venue_time_follows_its_speed_and_never_goes_back() {
        let clock = VenueClock::start(1_000, VenueNanos(5_000), 100, 2.0);
        assert_eq!(clock.at(100), VenueNanos(5_000));
        assert_eq!(clock.at(600), VenueNanos(6_000));
        assert_eq!(clock.real(VenueNanos(6_000)), 600);
        assert_eq!((VenueClock::manual().at(600), VenueClock::manual().real(VenueNanos(1))), (VenueNanos(0), u64::MAX));
        assert_eq!(VenueClock::start(9_000, VenueNanos(5_000), 0, 1.0).at(0), VenueNanos(9_000));
    }
}
