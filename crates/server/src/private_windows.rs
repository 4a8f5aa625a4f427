//! Due times of the merged private channels.

use pitwire_deribit::codec::Interval;
use pitwire_model::VenueNanos;

/// The windows that have something to send. Nothing is due otherwise.
#[derive(Debug, Default)]
pub struct PrivateWindows {
    tenth: Option<VenueNanos>,
    second: Option<VenueNanos>,
}

const fn boundary_after(at: VenueNanos, width_ns: u64) -> VenueNanos {
    VenueNanos((at.0 / width_ns + 1) * width_ns)
}

impl PrivateWindows {
    pub fn arm(&mut self, now: VenueNanos) {
        self.tenth.get_or_insert(boundary_after(now, 100_000_000));
        self.second.get_or_insert(boundary_after(now, 1_000_000_000));
    }

    pub fn next_due(&self) -> Option<VenueNanos> {
        self.tenth.into_iter().chain(self.second).min()
    }

    /// Returns the interval of a window that has ended, once.
    pub fn take(&mut self, now: VenueNanos) -> Option<Interval> {
        if self.tenth.is_some_and(|due| due <= now) {
            self.tenth = None;
            return Some(Interval::Ms100);
        }
        if self.second.is_some_and(|due| due <= now) {
            self.second = None;
            return Some(Interval::Agg2);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_end_on_boundaries_and_only_if_armed() {
        let mut windows = PrivateWindows::default();
        assert_eq!(windows.next_due(), None);
        windows.arm(VenueNanos(950_000_000));
        windows.arm(VenueNanos(960_000_000));
        assert_eq!(windows.take(VenueNanos(999_999_999)), None);
        let now = VenueNanos(1_000_000_000);
        assert_eq!(windows.take(now), Some(Interval::Ms100));
        assert_eq!(windows.take(now), Some(Interval::Agg2));
        assert_eq!((windows.take(now), windows.next_due()), (None, None));
    }
}
