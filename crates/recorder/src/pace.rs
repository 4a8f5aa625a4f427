//! When trades are due: at once, evenly, or by a day profile.
//!
//! Does        computes the due time of each trade of a stream, in nanoseconds since the stream
//!             began. A late trade stays due at its time (an open loop).
//! Start at    [`Pace::time_of`]; the day profiles are [`OPEN_CLOSE`] and [`MIDDAY_BURST`].

const SECOND_NS: u128 = 1_000_000_000;
const MS_NS: u64 = 1_000_000;

#[derive(Clone, Debug)]
pub enum Pace {
    /// As fast as the reader reads.
    Max,
    Even {
        per_s: u64,
    },
    Profile(Profile),
    /// At the recorded times, at `speed_milli` thousandths of the speed.
    Recorded {
        speed_milli: u64,
    },
}

impl Pace {
    /// Returns when trade `n` is due. `Max` and `Recorded` have no due times.
    pub fn time_of(&self, n: u64) -> u64 {
        match self {
            Pace::Max | Pace::Recorded { .. } => 0,
            Pace::Even { per_s } => narrow(u128::from(n) * SECOND_NS / u128::from(*per_s)),
            Pace::Profile(profile) => profile.time_of(n),
        }
    }

    /// Returns how many trades are due at `ns` or before.
    pub fn due_by(&self, ns: u64) -> u64 {
        match self {
            Pace::Max | Pace::Recorded { .. } => u64::MAX,
            // Trade n is due at floor(n s / rate): the last n with n s < (ns + 1) rate.
            Pace::Even { per_s } => narrow(((u128::from(ns) + 1) * u128::from(*per_s) - 1) / SECOND_NS + 1),
            Pace::Profile(profile) => profile.due_by(ns),
        }
    }

    /// Scales a recorded offset to this speed.
    pub fn scale(&self, recorded_ns: u64) -> u64 {
        match self {
            Pace::Recorded { speed_milli } => narrow(u128::from(recorded_ns) * 1_000 / u128::from(*speed_milli)),
            _ => recorded_ns,
        }
    }
}

fn narrow(wide: u128) -> u64 {
    u64::try_from(wide).unwrap_or(u64::MAX)
}

/// Pairs of seconds into the period and trades per second. Between two knots the logarithm of the
/// rate follows half a cosine, so the curve is smooth. The last knot is the period, and its rate
/// equals the first.
pub type RateKnots = &'static [(f64, f64)];

/// A day in a minute: the open from 2,000 to 800,000 within a second and to a million; a long tail;
/// quiet; the close.
pub const OPEN_CLOSE: RateKnots = &[
    (0.0, 2_000.0),
    (9.2, 2_000.0),
    (9.6, 50_000.0),
    (10.0, 800_000.0),
    (10.5, 1_000_000.0),
    (11.5, 600_000.0),
    (13.0, 900_000.0),
    (16.0, 150_000.0),
    (22.0, 20_000.0),
    (30.0, 3_000.0),
    (34.0, 2_000.0),
    (44.0, 2_000.0),
    (45.0, 60_000.0),
    (45.6, 1_000_000.0),
    (46.5, 600_000.0),
    (48.0, 1_000_000.0),
    (48.3, 80_000.0),
    (50.0, 2_000.0),
    (60.0, 2_000.0),
];

/// Two bursts in twenty seconds: 600,000 for a fifth of a second, later a million.
pub const MIDDAY_BURST: RateKnots = &[
    (0.0, 2_000.0),
    (4.9, 2_000.0),
    (5.1, 600_000.0),
    (5.3, 600_000.0),
    (5.6, 2_000.0),
    (11.9, 2_000.0),
    (12.0, 1_000_000.0),
    (12.2, 1_000_000.0),
    (12.8, 50_000.0),
    (14.0, 2_000.0),
    (20.0, 2_000.0),
];

/// A rate curve as whole trades per millisecond, repeated.
#[derive(Clone, Debug)]
pub struct Profile {
    /// Trades before each millisecond of the period; one entry more than milliseconds.
    before: Vec<u64>,
}

impl Profile {
    // Rates, not money.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
    pub fn new(knots: RateKnots) -> Self {
        let period_ms = knots.last().map_or(0.0, |(seconds, _)| seconds * 1_000.0).round() as usize;
        let mut before = Vec::with_capacity(period_ms + 1);
        let mut sum = 0.0;
        before.push(0);
        for ms in 0..period_ms {
            sum += rate(knots, (ms as f64 + 0.5) / 1_000.0) / 1_000.0;
            before.push(sum.round() as u64);
        }
        Profile { before }
    }

    pub fn period_ns(&self) -> u64 {
        (self.before.len() as u64 - 1) * MS_NS
    }

    pub fn trades_a_period(&self) -> u64 {
        self.before.last().copied().unwrap_or(0)
    }

    fn time_of(&self, n: u64) -> u64 {
        let (periods, inside) = (n / self.trades_a_period(), n % self.trades_a_period());
        let ms = self.before.partition_point(|before| *before <= inside) - 1;
        let (first, count) = (self.before[ms], self.before[ms + 1] - self.before[ms]);
        periods * self.period_ns() + ms as u64 * MS_NS + (inside - first) * MS_NS / count
    }

    fn due_by(&self, ns: u64) -> u64 {
        let (periods, inside) = (ns / self.period_ns(), ns % self.period_ns());
        let ms = usize::try_from(inside / MS_NS).unwrap_or(0);
        let (first, count) = (self.before[ms], self.before[ms + 1] - self.before[ms]);
        // Trade j of the millisecond is due at floor(j ms / count): all with j ms < (passed + 1)
        // count.
        let passed = inside % MS_NS;
        let due = if count == 0 { 0 } else { ((passed + 1) * count - 1) / MS_NS + 1 };
        periods * self.trades_a_period() + first + due.min(count)
    }
}

/// Returns the trades per second at `seconds` into the period.
fn rate(knots: RateKnots, seconds: f64) -> f64 {
    let next = knots.partition_point(|(at, _)| *at <= seconds).clamp(1, knots.len() - 1);
    let ((from_s, from), (to_s, to)) = (knots[next - 1], knots[next]);
    let way = ((seconds - from_s) / (to_s - from_s)).clamp(0.0, 1.0);
    let eased = (1.0 - (std::f64::consts::PI * way).cos()) / 2.0;
    (from.ln() + (to.ln() - from.ln()) * eased).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that `due_by` is the count of `time_of`, to the nanosecond.
    fn agree(pace: &Pace, upto: u64, step: usize) {
        for n in (0..upto).step_by(step) {
            let at = pace.time_of(n);
            assert!(pace.due_by(at) > n, "trade {n} is due at {at}, when {} are", pace.due_by(at));
            if at > 0 && pace.time_of(n.saturating_sub(1)) < at {
                assert_eq!(pace.due_by(at - 1), n, "just before trade {n}");
            }
        }
    }

    #[test]
    fn an_even_rate_is_exact() {
        let pace = Pace::Even { per_s: 3 };
        let times: Vec<u64> = (0..4).map(|n| pace.time_of(n)).collect();
        assert_eq!(times, [0, 333_333_333, 666_666_666, 1_000_000_000]);
        for per_s in [1, 3, 7, 2_000, 999_999, 1_000_000, 26_000_000] {
            agree(&Pace::Even { per_s }, 100_000, 37);
        }
    }

    #[test]
    fn profiles_reach_their_documented_rates() {
        for knots in [OPEN_CLOSE, MIDDAY_BURST] {
            let profile = Profile::new(knots);
            let per_ms: Vec<u64> = profile.before.windows(2).map(|pair| pair[1] - pair[0]).collect();
            let (least, most) = (per_ms.iter().min().unwrap(), per_ms.iter().max().unwrap());
            assert!((1..=2).contains(least) && (999..=1_001).contains(most), "{least} to {most} a millisecond");
            let quiet = per_ms[..1_000].iter().sum::<u64>();
            assert_eq!(quiet, 2_000, "in the first second");
            agree(&Pace::Profile(profile), 3_000_000, 997);
        }
    }

    #[test]
    fn the_open_rises_within_a_second() {
        let profile = Profile::new(OPEN_CLOSE);
        let a_second = |from_ms: usize| profile.before[from_ms + 1_000] - profile.before[from_ms];
        assert!(a_second(8_200) < 2_100, "{}", a_second(8_200));
        assert!(a_second(10_000) > 850_000, "{}", a_second(10_000));
    }

    #[test]
    fn a_profile_repeats() {
        let profile = Profile::new(MIDDAY_BURST);
        let total = profile.trades_a_period();
        assert_eq!(profile.time_of(total), profile.period_ns());
        assert_eq!(profile.due_by(profile.period_ns() * 3), total * 3 + profile.due_by(0));
    }
}
