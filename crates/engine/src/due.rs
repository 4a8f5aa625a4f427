//! What a timetable asks of the engine: what waits for a time.

use pitwire_model::{Side, VenueNanos};

use crate::engine::Engine;
use crate::market::Market;

impl Market {
    /// Whether hidden orders rest here, which are filtered from time to time.
    pub fn rests_hidden(&self) -> bool {
        [Side::Buy, Side::Sell].into_iter().any(|side| self.special.hidden(side).next().is_some())
    }
}

impl Engine {
    /// The earliest time later than `after` that a live order is good till.
    pub fn next_expiry(&self, after: VenueNanos) -> Option<VenueNanos> {
        let lives = |order| self.orders.get(order).is_some();
        self.markets.iter().filter_map(|market| market.special.times.next_after(after, lives)).min()
    }
}
