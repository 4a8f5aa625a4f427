//! The state that the delivery of notices and answers borrows.

use std::collections::BTreeMap;

use pitwire_deribit::Dispatcher;
use pitwire_journal::LogError;
use pitwire_net::{ConnectionId, Notices, SystemClock};
use pitwire_sbe_gateway::BinaryEntry;

use crate::client_connection::ClientConnection;
use crate::metrics::ServerCounters;
use crate::public_connections::ConnectionOutput;
use crate::service::VenueService;

/// The venue, its clients and their outputs, borrowed for one call of the delivery.
pub(crate) struct DeliveryContext<'a> {
    pub service: &'a mut VenueService,
    pub dispatcher: &'a mut Dispatcher,
    pub clients: &'a mut BTreeMap<ConnectionId, ClientConnection>,
    /// Clients of binary order entry.
    pub entry: &'a mut BinaryEntry,
    pub counters: &'a mut ServerCounters,
    /// Set when the log has failed.
    pub failure: &'a mut Option<LogError>,
    pub clock: SystemClock,
    pub notices: &'a mut Notices,
}

impl DeliveryContext<'_> {
    /// Returns the output to connections on the venue thread and on delivery threads.
    pub fn output(&mut self) -> ConnectionOutput<'_> {
        ConnectionOutput { notices: self.notices, public_connections: &mut self.service.market_data.public_connections }
    }

    /// Ends a command whose notices were sent. Puts its public messages behind the notices, and
    /// sends clients of binary order entry the public data of the instruments that they follow.
    pub fn end_command(&mut self) {
        let market_data = &mut self.service.market_data;
        market_data.public_connections.end_command();
        let Some(data) = &mut market_data.entry_data else { return };
        for (instrument, frames) in data.take_frames() {
            self.entry.send_public(instrument, None, &frames, self.notices);
        }
        if !self.entry.has_followers() {
            market_data.entry_data = None;
        }
    }
}
