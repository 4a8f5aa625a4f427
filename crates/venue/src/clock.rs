//! Venue time: the machine's monotonic clock, scaled, starting where the venue left off or where the wall stands.

use pitwire_model::VenueNanos;

#[derive(Clone, Copy, Debug)]
pub struct VenueClock {
    venue: VenueNanos,
    monotonic_ns: u64,
    /// Venue nanoseconds per thousand real ones.
    permille: u64,
}

impl VenueClock {
    /// The wall clock is asked once, here: stepping it later changes nothing. A wall behind the log is not followed back.
    pub fn start(wall_ns: u64, last: VenueNanos, monotonic_ns: u64, speed: f64) -> Self {
        // A speed is checked to lie in 0.001..=1000 when it is read.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let permille = (speed * 1000.0).round() as u64;
        VenueClock { venue: VenueNanos(wall_ns).max(last), monotonic_ns, permille: permille.max(1) }
    }

    /// A clock that stands still: the venue's own time is the only one.
    pub fn manual() -> Self {
        VenueClock { venue: VenueNanos::ZERO, monotonic_ns: 0, permille: 0 }
    }

    pub fn at(&self, monotonic_ns: u64) -> VenueNanos {
        let passed = u128::from(monotonic_ns.saturating_sub(self.monotonic_ns)) * u128::from(self.permille) / 1000;
        VenueNanos(self.venue.0.saturating_add(u64::try_from(passed).unwrap_or(u64::MAX)))
    }

    /// The real time at which a venue time comes.
    pub fn real(&self, at: VenueNanos) -> u64 {
        let Some(ahead) = (u128::from(at.0.saturating_sub(self.venue.0)) * 1000).checked_div(u128::from(self.permille))
        else {
            return u64::MAX;
        };
        self.monotonic_ns.saturating_add(u64::try_from(ahead).unwrap_or(u64::MAX))
    }

    /// After the machine has stood still, venue time goes on from where the venue is, instead of racing to catch up.
    pub fn resume_from(&mut self, at: VenueNanos, monotonic_ns: u64) {
        self.venue = at;
        self.monotonic_ns = monotonic_ns;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_runs_at_its_speed_and_never_starts_in_the_past() {
        let clock = VenueClock::start(1_000, VenueNanos(5_000), 100, 2.0);
        assert_eq!(clock.at(100), VenueNanos(5_000));
        assert_eq!(clock.at(600), VenueNanos(6_000));
        assert_eq!(clock.real(VenueNanos(6_000)), 600);
        assert_eq!((VenueClock::manual().at(600), VenueClock::manual().real(VenueNanos(1))), (VenueNanos(0), u64::MAX));
        assert_eq!(VenueClock::start(9_000, VenueNanos(5_000), 0, 1.0).at(0), VenueNanos(9_000));
    }
}
