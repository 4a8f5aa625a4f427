//! How many connections there may be, in all and from one address.
//!
//! Holds       the counts are shared by all listeners and their threads: a copy counts with the
//!             original.
//! Start at    [`ConnectionQuota::acquire`], [`AddressCounts::acquire`].

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Open files that are left to the journal, snapshots and the process itself.
const RESERVED_FILES: usize = 64;

/// Connections of each address.
#[derive(Clone, Debug, Default)]
pub(crate) struct AddressCounts(Arc<Mutex<BTreeMap<IpAddr, u32>>>);

impl AddressCounts {
    /// Counts one more connection and returns true, unless the address has `max` already.
    pub fn acquire(&self, address: IpAddr, max: Option<u32>) -> bool {
        let mut counts = self.counts();
        let count = counts.entry(address.to_canonical()).or_default();
        let fits = max.is_none_or(|max| *count < max);
        *count += u32::from(fits);
        fits
    }

    /// Counts one connection less.
    pub fn release(&self, address: IpAddr) {
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

/// Connections of all listeners together.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionQuota(Arc<Counts>);

#[derive(Debug)]
struct Counts {
    max: usize,
    /// Permits that are held.
    permits: AtomicUsize,
    /// Sockets that the application has taken over: they hold no permit any more.
    handed_off: AtomicUsize,
}

/// One connection of a quota, until it is dropped.
#[derive(Debug)]
pub(crate) struct ConnectionPermit(Arc<Counts>);

impl ConnectionQuota {
    /// Makes a quota of `max` connections.
    pub fn new(max: usize) -> ConnectionQuota {
        ConnectionQuota(Arc::new(Counts { max, permits: AtomicUsize::new(0), handed_off: AtomicUsize::new(0) }))
    }

    /// Makes the quota of this process: `max`, or the files that it may open without a reserve if
    /// these are fewer.
    pub fn of_process(max: Option<usize>) -> ConnectionQuota {
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(1024);
        let files = usize::try_from(limit).unwrap_or(1024);
        let of_files = files.saturating_sub(RESERVED_FILES).max(RESERVED_FILES);
        ConnectionQuota::new(max.map_or(of_files, |max| max.min(of_files)))
    }

    /// Sets how many sockets the application has taken over.
    pub fn set_handed_off(&self, count: usize) {
        self.0.handed_off.store(count, Ordering::Relaxed);
    }

    /// Returns a permit, unless the quota is used up.
    pub fn acquire(&self) -> Option<ConnectionPermit> {
        let permit = ConnectionPermit(Arc::clone(&self.0));
        self.0.permits.fetch_add(1, Ordering::Relaxed);
        (!self.is_exceeded()).then_some(permit)
    }

    /// Says whether there are more connections than the quota allows.
    pub fn is_exceeded(&self) -> bool {
        self.0.permits.load(Ordering::Relaxed) + self.0.handed_off.load(Ordering::Relaxed) > self.0.max
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.0.permits.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_address_has_its_own_count_in_either_notation() {
        let addresses = AddressCounts::default();
        let [one, same, other]: [IpAddr; 3] = ["10.0.0.1", "::ffff:10.0.0.1", "10.0.0.2"].map(|a| a.parse().unwrap());
        assert!(addresses.acquire(one, Some(2)) && addresses.acquire(same, Some(2)));
        assert!(!addresses.acquire(one, Some(2)) && addresses.acquire(other, Some(2)));
        addresses.release(one);
        assert!(addresses.acquire(same, Some(2)) && !addresses.acquire(one, Some(2)));
        [one, same, other].into_iter().for_each(|address| addresses.release(address));
        assert!(addresses.counts().is_empty(), "an address without connections is forgotten");
    }

    #[test]
    fn handed_off_connections_count_like_permits() {
        let quota = ConnectionQuota::new(3);
        let mut permits: Vec<ConnectionPermit> = (0..3).map(|_| quota.acquire().unwrap()).collect();
        assert!(quota.acquire().is_none() && !quota.is_exceeded(), "a refused connection holds no permit");
        // The application takes one over.
        permits.pop();
        quota.set_handed_off(1);
        assert!(quota.acquire().is_none());
        quota.set_handed_off(2);
        assert!(quota.is_exceeded());
        quota.set_handed_off(0);
        assert!(quota.acquire().is_some());
    }

    #[test]
    fn a_smaller_limit_replaces_that_of_open_files() {
        let quota = ConnectionQuota::of_process(Some(2));
        let permits: Vec<ConnectionPermit> = (0..2).map(|_| quota.acquire().unwrap()).collect();
        assert!(quota.acquire().is_none());
        drop(permits);
        assert!(quota.acquire().is_some());
    }
}
