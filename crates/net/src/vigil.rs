//! How long the loop stays awake before it sleeps.
//!
//! Does        learn how soon after requests the next ones come, and whether waiting for them awake has paid.
//! Holds       1. a venue to which nobody speaks sleeps; one that is asked more often than every [`CLOSE_NS`] does not,
//!                which costs a core;
//!             2. where it does not pay it is given up, but for a try now and then;
//!             3. where threads that serve readers want its core again and again it is given up for longer each time.
//! Leaves out  where the peer is: one on the loop's own core cannot speak while the loop is awake, see [`crate::place`].
//! Start at    [`Vigil::begin`].
//!
//! A wake-up costs more than an order: tens of microseconds where the machine's other core has gone to sleep as well, and
//! milliseconds where the scheduler puts the loop on the core of a client that goes on working.

/// Longer than a peer on this machine takes from an answer to its next request.
const AWAKE_NS: u64 = 50_000;
/// Requests that come in turns closer than this are waited for awake, so many times as long as they have taken.
const CLOSE_NS: u64 = 200_000;
const PATIENCE: u64 = 3;
/// Of a turn's distance from the one before, in what is kept of all of them.
const SMOOTHING: u64 = 8;
/// How sure of it one can become.
const MOST_CREDIT: i8 = 8;
/// When it has not paid, it is tried again after so many turns with requests, and twice as many each time it has not paid
/// again: whoever shares the core with the loop is late by that.
const TRY_AGAIN: u32 = 64;
const TRY_AGAIN_AT_MOST: u32 = 4_096;
/// Driven off its core, it sleeps for so long; twice as long each time it has been awake for less than so many times that.
const GIVE_WAY_NS: u64 = 1_000_000;
const GIVE_WAY_AT_MOST_NS: u64 = 1_000_000_000;
const IN_PEACE: u64 = 16;

#[derive(Debug)]
pub(crate) struct Vigil {
    credit: i8,
    passed_over: u32,
    try_again: u32,
    /// When the last turn with requests was, and how far they have been apart of late.
    heard_ns: u64,
    apart_ns: u64,
    /// How often this thread has had to leave its core to others, ever.
    driven_off: i64,
    give_way_ns: u64,
    asleep_until_ns: u64,
}

impl Default for Vigil {
    fn default() -> Self {
        let (credit, passed_over, driven_off) = (0, 0, 0);
        let (heard_ns, give_way_ns, asleep_until_ns) = (0, 0, 0);
        let (try_again, apart_ns) = (TRY_AGAIN, FAR_NS);
        Vigil { credit, passed_over, try_again, heard_ns, apart_ns, driven_off, give_way_ns, asleep_until_ns }
    }
}

/// What is further apart than this tells nothing about how far.
const FAR_NS: u64 = 2 * CLOSE_NS;

impl Vigil {
    /// A turn had requests.
    pub fn note(&mut self, now_ns: u64) {
        let apart_ns = now_ns.saturating_sub(self.heard_ns).min(FAR_NS);
        self.heard_ns = now_ns;
        self.apart_ns = (self.apart_ns * (SMOOTHING - 1) + apart_ns) / SMOOTHING;
    }

    /// When the last turn with requests was.
    pub fn heard_ns(&self) -> u64 {
        self.heard_ns
    }

    /// How long to stay awake after a turn with requests; 0 for not at all.
    pub fn begin(&mut self) -> u64 {
        if self.heard_ns < self.asleep_until_ns {
            return 0;
        }
        let awake_ns = if self.apart_ns <= CLOSE_NS { AWAKE_NS.max(PATIENCE * self.apart_ns) } else { AWAKE_NS };
        if self.credit >= 0 {
            return awake_ns;
        }
        self.passed_over += 1;
        if self.passed_over < self.try_again {
            return 0;
        }
        self.passed_over = 0;
        awake_ns
    }

    /// Others wanted the core while it was awake. Who sleeps is let on when it wakes; who does not waits for its turn.
    pub fn was_driven_off(&mut self) {
        self.credit = -MOST_CREDIT;
    }

    /// It was so long between two looks that the loop may have been driven off its core; a virtual machine may also have lost
    /// it to another, which sleeping does not mend. `driven_off`: how often it has been, ever.
    pub fn missed(&mut self, now_ns: u64, driven_off: i64) {
        if std::mem::replace(&mut self.driven_off, driven_off) == driven_off {
            return;
        }
        let awake_ns = now_ns.saturating_sub(self.asleep_until_ns);
        let is_again = awake_ns < IN_PEACE * self.give_way_ns;
        self.give_way_ns = if is_again { (2 * self.give_way_ns).min(GIVE_WAY_AT_MOST_NS) } else { GIVE_WAY_NS };
        self.asleep_until_ns = now_ns + self.give_way_ns;
    }

    /// The loop has moved: what did not pay may pay now.
    pub fn renew(&mut self) {
        (self.credit, self.try_again) = (self.credit.max(0), TRY_AGAIN);
    }

    /// Whether something came while it was awake.
    pub fn end(&mut self, has_paid: bool) {
        if has_paid {
            self.try_again = TRY_AGAIN;
        } else if self.credit < 0 {
            self.try_again = (self.try_again * 2).min(TRY_AGAIN_AT_MOST);
        }
        let credit = if has_paid { self.credit + 2 } else { self.credit - 1 };
        self.credit = credit.clamp(-MOST_CREDIT, MOST_CREDIT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_given_up_where_it_does_not_pay_and_found_again_where_it_does() {
        let mut vigil = Vigil::default();
        let mut awake = |paid: bool, turns: usize| {
            let mut times = 0;
            for _ in 0..turns {
                if vigil.begin() > 0 {
                    times += 1;
                    vigil.end(paid);
                }
            }
            times
        };
        assert_eq!(awake(true, 100), 100);
        // A few tries, then next to none: less than one answer in a hundred may be late by them, also at first.
        assert!(awake(false, 100) < 20);
        assert!(awake(false, 10_000) < 12);
        // A peer that has moved to another core is found again before long.
        assert!(awake(true, 10_000) > 4_000);
        assert_eq!(awake(true, 1_000), 1_000);
        // One that does so often is found sooner: what has paid is tried again soon.
        awake(false, 20);
        assert!(awake(true, 1_000) > 800);
    }

    #[test]
    fn it_lasts_as_long_as_requests_are_apart_and_no_longer_where_they_are_far() {
        let mut vigil = Vigil::default();
        assert_eq!(vigil.begin(), AWAKE_NS, "nothing is known yet");
        let mut now = 0;
        let mut after = |turns: usize, apart_ns: u64| {
            for _ in 0..turns {
                now += apart_ns;
                vigil.note(now);
            }
            vigil.begin()
        };
        assert_eq!(after(100, 10_000), AWAKE_NS);
        // Ten thousand a second are 100 us apart: 300 us of patience, less what the rounding down of the mean takes.
        assert!((295_000..=300_000).contains(&after(100, 100_000)));
        // One pause among them changes little, a second of them everything.
        assert!((300_000..420_000).contains(&after(1, 1_000_000_000)));
        assert_eq!(after(100, 1_000_000), AWAKE_NS);
    }

    #[test]
    fn where_others_want_its_core_again_and_again_it_sleeps_for_longer_each_time() {
        const MS: u64 = 1_000_000;
        let mut vigil = Vigil::default();
        // Others come every 10 ms, as readers are sent to: for how many of a second's milliseconds is it awake?
        let mut second = |from_ms: u64, others_every_ms: u64| {
            let mut awake = 0;
            for ms in from_ms..from_ms + 1_000 {
                vigil.note(ms * MS);
                if vigil.begin() > 0 {
                    awake += 1;
                    vigil.end(true);
                    if ms % others_every_ms == 0 {
                        vigil.missed(ms * MS, i64::try_from(ms).unwrap());
                    }
                }
            }
            awake
        };
        // Asleep for 1, 2, 4, ... 512 ms, awake up to the next 10 ms: 1, then 10 + 9 + 7 + 3 + 5 + 9 + 7 + 3 + 5.
        assert_eq!(second(1_000, 10), 59);
        assert!(second(2_000, 10) < 20);
        (3_000..6_000).step_by(1_000).for_each(|from| assert!(second(from, 10) <= 10));
        // Left in peace, it is as awake as ever, and something once in a while costs a millisecond.
        second(6_000, u64::MAX);
        assert_eq!(second(7_000, u64::MAX), 1_000);
        second(8_000, u64::MAX);
        assert!(second(24_000, 100) >= 980);
    }

    #[test]
    fn a_core_lost_by_the_whole_machine_is_not_one_that_others_want() {
        let mut vigil = Vigil::default();
        vigil.missed(1_000, 7);
        let asleep_until_ns = vigil.asleep_until_ns;
        (2..50).for_each(|ms| vigil.missed(ms * 1_000_000, 7));
        assert_eq!(vigil.asleep_until_ns, asleep_until_ns);
    }

    #[test]
    fn driven_off_its_core_it_sleeps_for_a_while_at_once() {
        let mut vigil = Vigil::default();
        (0..10).for_each(|_| vigil.end(true));
        vigil.was_driven_off();
        assert_eq!((0..TRY_AGAIN).filter(|_| vigil.begin() > 0).count(), 1);
    }
}
