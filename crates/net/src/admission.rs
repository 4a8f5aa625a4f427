//! Which connections a server accepts.
//!
//! Holds       1. a turn accepts a bounded number, so that a storm does not hold up the open
//!                connections;
//!             2. without file descriptors or permits, open connections go on being served.
//! Start at    [`Admission::accept`].

use std::io;
use std::net::IpAddr;

use tracing::warn;

use crate::connection::AdmissionClass;
use crate::connection_id::ConnectionId;
use crate::event_loop::{EventLoop, ListenerId, Token};
use crate::quota::{AddressCounts, ConnectionPermit, ConnectionQuota};
use crate::tls_acceptor::{SecureConnection, TlsAcceptor};

/// Connections accepted at each listener in one turn: a tenth of a millisecond of work.
pub(crate) const ACCEPTS: usize = 16;
/// Connections beyond the limit of their address that may send one request before they are refused.
const EXTRAS_MAX: usize = 32;
/// Pause before accepting again when that failed, in nanoseconds.
const ACCEPT_AGAIN_NS: u64 = 100_000_000;

/// A connection that was accepted and may be served.
pub(crate) struct Newcomer {
    pub token: Token,
    pub peer: IpAddr,
    /// Whether it counts against the limit of its address.
    pub is_counted: bool,
    pub secure: Option<SecureSession>,
}

/// The session of a TLS connection, and its state.
pub(crate) struct SecureSession {
    pub session: Option<pitwire_tls::Session>,
    pub received: Vec<u8>,
    pub permit: ConnectionPermit,
}

/// A connection of a byte-stream listener.
pub(crate) struct StreamNewcomer {
    pub token: Token,
    pub peer: IpAddr,
    /// Number of the listener.
    pub listener: usize,
}

/// The listeners of a server, and the counts of its connections.
pub(crate) struct Admission {
    pub listener: ListenerId,
    pub tls: Option<TlsAcceptor>,
    /// Listeners of byte streams.
    pub streams: Vec<ListenerId>,
    pub addresses: AddressCounts,
    pub quota: ConnectionQuota,
    pub per_address: Option<u32>,
    next_id: u64,
    /// When to try again to accept what could not be accepted: no event will follow.
    pub accept_again_ns: Option<u64>,
    /// A failure to accept has been logged and goes on.
    has_warned: bool,
    extras: usize,
}

impl Admission {
    /// Makes the admission of a server without a TLS listener.
    pub fn new(
        listener: ListenerId,
        addresses: AddressCounts,
        quota: ConnectionQuota,
        per_address: Option<u32>,
    ) -> Admission {
        Admission {
            listener,
            tls: None,
            streams: Vec::new(),
            addresses,
            quota,
            per_address,
            next_id: 1,
            accept_again_ns: None,
            has_warned: false,
            extras: 0,
        }
    }

    /// Returns the name of the next connection.
    pub fn next_id(&mut self) -> ConnectionId {
        let id = ConnectionId(self.next_id);
        self.next_id += 1;
        id
    }

    /// Accepts the next plain connection; `None` if none waits or none can be accepted now.
    pub fn accept(&mut self, net: &mut dyn EventLoop, now: u64) -> Option<Newcomer> {
        let (token, peer) = self.accept_at(self.listener, net, now)?;
        let is_counted = self.addresses.acquire(peer, self.per_address);
        Some(Newcomer { token, peer, is_counted, secure: None })
    }

    /// Accepts the next byte stream.
    pub fn accept_stream(&mut self, net: &mut dyn EventLoop, now: u64) -> Option<StreamNewcomer> {
        (0..self.streams.len()).find_map(|listener| {
            let (token, peer) = self.accept_at(self.streams[listener], &mut *net, now)?;
            Some(StreamNewcomer { token, peer, listener })
        })
    }

    fn accept_at(&mut self, listener: ListenerId, net: &mut dyn EventLoop, now: u64) -> Option<(Token, IpAddr)> {
        match net.accept(listener) {
            Ok(accepted) => {
                let accepted = accepted?;
                Some((accepted.token, accepted.peer.unwrap_or(IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED))))
            }
            Err(error) => {
                self.pause(&error, now);
                None
            }
        }
    }

    /// Takes the next connection of the TLS acceptor, if one waits.
    pub fn accept_secure(&mut self, net: &mut dyn EventLoop, now: u64) -> Option<Newcomer> {
        let SecureConnection { socket, session, received, peer, permit } = self.tls.as_ref()?.next()?;
        match net.add_socket(socket) {
            Ok(token) => {
                let secure = Some(SecureSession { session, received, permit });
                Some(Newcomer { token, peer, is_counted: true, secure })
            }
            Err(error) => {
                self.addresses.release(peer);
                self.pause(&error, now);
                None
            }
        }
    }

    fn pause(&mut self, error: &io::Error, now: u64) {
        // Out of file descriptors, most likely.
        if !std::mem::replace(&mut self.has_warned, true) {
            warn!(%error, "cannot accept connections; trying again until it works");
        }
        self.accept_again_ns = Some(now + ACCEPT_AGAIN_NS);
    }

    /// Notes that connections are accepted again, after a round of accepting.
    pub fn end_round(&mut self) {
        self.has_warned &= self.accept_again_ns.is_some();
    }

    /// Says how a newcomer stands, and counts it.
    pub fn standing(&mut self, newcomer: &Newcomer) -> AdmissionClass {
        if newcomer.is_counted {
            AdmissionClass::Counted(newcomer.peer)
        } else if self.extras < EXTRAS_MAX {
            self.extras += 1;
            AdmissionClass::Extra
        } else {
            AdmissionClass::Refused
        }
    }

    /// Forgets a connection that has ended.
    pub fn release(&mut self, standing: AdmissionClass) {
        match standing {
            AdmissionClass::Counted(address) => self.addresses.release(address),
            AdmissionClass::Extra => self.extras -= 1,
            AdmissionClass::Refused | AdmissionClass::Stream | AdmissionClass::Outgoing => {}
        }
    }
}
