//! What peers may cost: sizes, times, and how many connections one address may have.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pitwire_websocket::Limits as MessageLimits;

/// The limits of a server. The defaults bound what one peer can do; how many peers there are is the operator's choice.
#[derive(Clone, Debug)]
pub struct Limits {
    /// One frame and one message of a WebSocket.
    pub messages: MessageLimits,
    /// A handshake, a request or a fragmented message must be finished within this.
    pub unfinished_ns: u64,
    /// A WebSocket from which no frame at all has come for so long is closed; a ping is a frame.
    pub idle_ns: u64,
    /// The same for HTTP connections kept alive.
    pub keep_alive_ns: u64,
    /// Connections from one address; no limit when `None`.
    pub connections_per_address: Option<u32>,
    /// Names besides loopback and the bound address under which clients reach this server.
    pub hosts: Vec<String>,
}

impl Limits {
    /// What `connections_per_address` is where it is on and nothing else is said.
    pub const CONNECTIONS_PER_ADDRESS: u32 = 32;
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            messages: MessageLimits::default(),
            unfinished_ns: 5_000_000_000,
            idle_ns: 600_000_000_000,
            keep_alive_ns: 900_000_000_000,
            connections_per_address: None,
            // Clients with built-in hosts reach a venue under these through a hosts file.
            hosts: ["test.deribit.com", "www.deribit.com", "pitwire.local"].map(String::from).into(),
        }
    }
}

/// How many connections each address has, at all doors together: a copy counts with the others.
#[derive(Clone, Debug, Default)]
pub(crate) struct Addresses(Arc<Mutex<BTreeMap<IpAddr, u32>>>);

impl Addresses {
    /// Counts one more, unless that would be above the limit.
    pub fn enter(&self, address: IpAddr, most: Option<u32>) -> bool {
        let mut counts = self.counts();
        let count = counts.entry(address.to_canonical()).or_default();
        let fits = most.is_none_or(|most| *count < most);
        *count += u32::from(fits);
        fits
    }

    pub fn leave(&self, address: IpAddr) {
        let (address, mut counts) = (address.to_canonical(), self.counts());
        if let Some(count) = counts.get_mut(&address) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                counts.remove(&address);
            }
        }
    }

    fn counts(&self) -> MutexGuard<'_, BTreeMap<IpAddr, u32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How many connections there may be at all doors together. What is above it is left to the journal, snapshots and the
/// process itself.
#[derive(Clone, Debug)]
pub(crate) struct Places(Arc<Seats>);

#[derive(Debug)]
struct Seats {
    most: usize,
    taken: AtomicUsize,
    /// Of sockets that the application has taken over: they have left their places.
    elsewhere: AtomicUsize,
}

/// One of them, until it is dropped.
#[derive(Debug)]
pub(crate) struct Place(Arc<Seats>);

impl Places {
    pub fn new(most: usize) -> Places {
        Places(Arc::new(Seats { most, taken: AtomicUsize::new(0), elsewhere: AtomicUsize::new(0) }))
    }

    pub fn are_elsewhere(&self, count: usize) {
        self.0.elsewhere.store(count, Ordering::Relaxed);
    }

    /// As many as there were when somebody last came.

    /// Takes one, if there is one left.
    pub fn enter(&self) -> Option<Place> {
        let place = Place(Arc::clone(&self.0));
        self.0.taken.fetch_add(1, Ordering::Relaxed);
        (!self.are_exceeded()).then_some(place)
    }

    pub fn are_exceeded(&self) -> bool {
        self.0.taken.load(Ordering::Relaxed) + self.0.elsewhere.load(Ordering::Relaxed) > self.0.most
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.taken.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_address_has_its_own_count_however_it_is_written() {
        let addresses = Addresses::default();
        let [one, same, other]: [IpAddr; 3] = ["10.0.0.1", "::ffff:10.0.0.1", "10.0.0.2"].map(|a| a.parse().unwrap());
        assert!(addresses.enter(one, Some(2)) && addresses.enter(same, Some(2)));
        assert!(!addresses.enter(one, Some(2)) && addresses.enter(other, Some(2)));
        addresses.leave(one);
        assert!(addresses.enter(same, Some(2)) && !addresses.enter(one, Some(2)));
        [one, same, other].into_iter().for_each(|address| addresses.leave(address));
        assert!(addresses.counts().is_empty(), "addresses that are gone are forgotten");
    }

    #[test]
    fn places_are_counted_wherever_their_holders_are() {
        let places = Places::new(3);
        let mut inside: Vec<Place> = (0..3).map(|_| places.enter().unwrap()).collect();
        assert!(places.enter().is_none() && !places.are_exceeded(), "who was refused holds none");
        // One is taken over by the application.
        inside.pop();
        places.are_elsewhere(1);
        assert!(places.enter().is_none());
        places.are_elsewhere(2);
        assert!(places.are_exceeded());
        places.are_elsewhere(0);
        assert!(places.enter().is_some());
    }
}
