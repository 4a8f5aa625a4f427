//! All connections of a gateway to its venue.
//!
//! Does        resolves the venue's name, opens connections, and sends texts over them.
//! Holds       the name is resolved only while no client is connected, because that may block.
//! Start at    [`Links::open_logins`].

use std::collections::HashMap;
use std::net::{SocketAddr, ToSocketAddrs};

use pitwire_net::{ConnectionId, Notices};
use pitwire_relay::Upstream;

use crate::link::VenueLink;
use crate::members::MemberId;

/// The purpose of a connection to the venue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkRole {
    /// It carries the logins of all clients. A login replaces the one before it, so they have a
    /// connection of their own. It is open as long as the venue can be reached.
    Logins,
    /// It carries the requests of this member. It has no login: each request has the token of its
    /// client.
    Member(MemberId),
    /// It carries the channels and the heartbeat of this client.
    Feed(ConnectionId),
}

pub(crate) struct Links {
    venue: Upstream,
    /// Addresses of the venue that have not failed. The gateway connects to the first one.
    addresses: Vec<SocketAddr>,
    links: HashMap<ConnectionId, (VenueLink, LinkRole)>,
    /// The connection for logins, open or on its way.
    pub logins: Option<ConnectionId>,
}

impl Links {
    pub fn new(venue: Upstream) -> Self {
        Links { venue, addresses: Vec::new(), links: HashMap::new(), logins: None }
    }

    /// Says whether the connection for logins is open.
    pub fn is_venue_there(&self) -> bool {
        self.logins.is_some_and(|logins| self.is_open(logins))
    }

    pub fn is_open(&self, id: ConnectionId) -> bool {
        self.links.get(&id).is_some_and(|(link, _)| link.is_open())
    }

    pub fn role(&self, id: ConnectionId) -> Option<LinkRole> {
        self.links.get(&id).map(|(_, role)| *role)
    }

    /// Returns the authority of the venue's URL.
    pub fn authority(&self) -> &str {
        &self.venue.address().authority
    }

    /// Opens the connection for logins.
    ///
    /// # Errors
    /// A text that says what failed.
    pub fn open_logins(&mut self, notices: &mut Notices) -> Result<ConnectionId, String> {
        if self.addresses.is_empty() {
            let address = self.venue.address();
            let resolved = (address.host.as_str(), address.port).to_socket_addrs();
            self.addresses = resolved.map_err(|error| format!("cannot resolve {}: {error}", address.host))?.collect();
        }
        let logins = self.open(LinkRole::Logins, notices)?;
        Ok(*self.logins.insert(logins))
    }

    /// Opens a connection to the address of the connection for logins.
    ///
    /// # Errors
    /// A text that says what failed.
    pub fn open(&mut self, role: LinkRole, notices: &mut Notices) -> Result<ConnectionId, String> {
        let address = *self.addresses.first().ok_or("the name of the venue has no address")?;
        let mut out = Vec::new();
        let link = VenueLink::open(self.venue.address(), self.venue.tls(), &mut out)?;
        let id = notices.connect(address);
        notices.reply_bytes(id, &out);
        self.links.insert(id, (link, role));
        Ok(id)
    }

    /// Sends a text over a connection.
    ///
    /// # Errors
    /// The connection cannot be used any more.
    pub fn send(&mut self, id: ConnectionId, text: String, notices: &mut Notices) -> Result<(), String> {
        let Some((link, _)) = self.links.get_mut(&id) else { return Err("the connection has ended".into()) };
        let mut out = Vec::new();
        link.send(text, &mut out)?;
        if !out.is_empty() {
            notices.reply_bytes(id, &out);
        }
        Ok(())
    }

    /// Pings the venue over all connections.
    ///
    /// # Errors
    /// The connection that cannot be used any more, and why.
    pub fn ping(&mut self, notices: &mut Notices) -> Result<(), (ConnectionId, String)> {
        for (id, (link, _)) in &mut self.links {
            let mut out = Vec::new();
            link.ping(&mut out).map_err(|cause| (*id, cause))?;
            if !out.is_empty() {
                notices.reply_bytes(*id, &out);
            }
        }
        Ok(())
    }

    /// Takes a connection out, to act on its input.
    pub fn take(&mut self, id: ConnectionId) -> Option<(VenueLink, LinkRole)> {
        self.links.remove(&id)
    }

    pub fn put_back(&mut self, id: ConnectionId, link: VenueLink, role: LinkRole) {
        self.links.insert(id, (link, role));
    }

    /// Closes a connection and forgets it. Returns its role if it was known.
    pub fn close(&mut self, id: ConnectionId, notices: &mut Notices) -> Option<LinkRole> {
        let (_, role) = self.links.remove(&id)?;
        notices.end(id);
        Some(role)
    }

    /// Closes the connection for logins. Returns whether another address of the venue may be tried.
    pub fn close_logins(&mut self, is_lost: bool, notices: &mut Notices) -> bool {
        if let Some(logins) = self.logins.take() {
            self.close(logins, notices);
        }
        if is_lost {
            // The name may belong to another machine by now.
            self.addresses.clear();
        } else if !self.addresses.is_empty() {
            self.addresses.remove(0);
        }
        is_lost || !self.addresses.is_empty()
    }

    /// Forgets all connections, because the gateway stops.
    pub fn clear(&mut self) {
        self.links.clear();
        self.logins = None;
    }
}
