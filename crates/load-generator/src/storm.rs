//! A reconnect storm: all connections are cut once and opened again.

use crate::run_control::NEVER;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storm {
    /// No storm is planned, or it has ended.
    Inactive,
    /// Cuts all connections this many nanoseconds after measuring began.
    Scheduled { after_ns: i64 },
    /// Since when, and how many connections are not open again.
    Reconnecting { since_ns: i64, missing: u32 },
}

impl Storm {
    pub fn is_reconnecting(self) -> bool {
        matches!(self, Storm::Reconnecting { .. })
    }

    /// Whether the connections are to be cut now. `start_ns` is when measuring began, or [`NEVER`].
    pub fn is_due(self, start_ns: i64, now_ns: i64) -> bool {
        match self {
            Storm::Scheduled { after_ns } => start_ns != NEVER && now_ns >= start_ns.saturating_add(after_ns),
            Storm::Inactive | Storm::Reconnecting { .. } => false,
        }
    }

    /// Notes that `missing` connections were cut.
    pub fn begin(&mut self, missing: u32, now_ns: i64) {
        *self = if missing > 0 { Storm::Reconnecting { since_ns: now_ns, missing } } else { Storm::Inactive };
    }

    /// Notes that a connection is open again. Returns the duration of the storm if it was the last
    /// one.
    pub fn reopened(&mut self, now_ns: i64) -> Option<u64> {
        let Storm::Reconnecting { since_ns, missing } = self else { return None };
        *missing = missing.saturating_sub(1);
        if *missing > 0 {
            return None;
        }
        let took_ns = u64::try_from(now_ns - *since_ns).unwrap_or(0);
        *self = Storm::Inactive;
        Some(took_ns)
    }
}
