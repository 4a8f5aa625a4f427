//! Venue time: the time of the current command, the venue day, and time priority.
//!
//! Does        hold the venue time of the command that is being applied and the current venue day;
//!             hand out time priorities; check the expiry of new orders.
//! Holds       every time priority is handed out once and is higher than all before it.
//! Leaves out  wall-clock time: commands carry their venue time.

use pitwire_model::{Reject, TimeInForce, VenueDay, VenueNanos};

/// Venue days after its entry day that a GTC order lives. A GTD date may lie no further ahead.
pub(crate) const LONGEST_DAYS: u32 = 90;

/// The last expiry date of any order, in days since 1970: 2149-06-06.
pub(crate) const LAST_DAY: u32 = u16::MAX as u32;

#[derive(Debug, Default)]
pub(crate) struct VenueClock {
    /// Venue time of the command that is being applied.
    pub now: VenueNanos,
    /// The time priority that was handed out last.
    pub last_priority: u64,
    /// The current venue day; zero before the first day has begun.
    pub day: VenueDay,
    /// The current venue day in the form in which orders store it.
    pub entry_day: u16,
    /// When the current venue day closes.
    pub closes: VenueNanos,
}

impl VenueClock {
    /// Starts a venue day.
    pub fn set_day(&mut self, day: VenueDay, closes: VenueNanos) {
        (self.day, self.closes) = (day, closes);
        self.entry_day = u16::try_from(day.0).unwrap_or(u16::MAX);
    }

    /// Returns the next time priority.
    #[inline]
    pub fn next_priority(&mut self) -> u64 {
        self.last_priority += 1;
        self.last_priority
    }

    /// Checks the date of a GTD order or the time of a GTT order (rule 4.9).
    ///
    /// # Errors
    /// `ExpiryPassed` or `ExpiryTooFar`.
    pub fn check_expiry(&self, tif: TimeInForce) -> Result<(), Reject> {
        match tif {
            TimeInForce::GoodTillTime { at } if at <= self.now => Err(Reject::ExpiryPassed),
            TimeInForce::GoodTillTime { at } if at > self.closes => Err(Reject::ExpiryTooFar),
            TimeInForce::GoodTillDate { day } if day < self.day => Err(Reject::ExpiryPassed),
            TimeInForce::GoodTillDate { day: VenueDay(day) }
                if day > LAST_DAY.min(self.day.0.saturating_add(LONGEST_DAYS)) =>
            {
                Err(Reject::ExpiryTooFar)
            }
            _ => Ok(()),
        }
    }
}
