//! Statistics that all delivery threads share: counters, subscribers per stream, connections per
//! address and account.
//!
//! Start at    [`SharedStatistics`].

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use crate::counters::Counters;
use crate::handler::SubscriberId;
use pitwire_delivery::StreamId;

/// Bit of the identifiers that delivery threads assign to connections that they accept themselves.
const OURS: u64 = 1 << 63;

#[derive(Debug, Default)]
pub struct SharedStatistics {
    threads: Vec<Counters>,
    listeners: RwLock<Vec<Arc<AtomicU32>>>,
    addresses: Mutex<HashMap<IpAddr, u32>>,
    accounts: Mutex<HashMap<Arc<str>, u32>>,
    /// Most connections from one address, and of one account. `None` means no limit.
    per_address: Option<u32>,
    per_account: Option<u32>,
    has_quoted: AtomicBool,
}

impl SharedStatistics {
    pub fn new(threads: usize, per_address: Option<u32>, per_account: Option<u32>) -> Self {
        let threads = (0..threads.max(1)).map(|_| Counters::default()).collect();
        SharedStatistics { threads, per_address, per_account, ..SharedStatistics::default() }
    }

    pub fn counters(&self, thread: usize) -> &Counters {
        // There is at least one.
        self.threads.get(thread).unwrap_or(&self.threads[0])
    }

    pub fn all(&self) -> &[Counters] {
        &self.threads
    }

    /// Returns the open connections of all threads.
    pub(crate) fn connections(&self) -> usize {
        let all = self.threads.iter().map(|thread| thread.connections.load(Ordering::Relaxed)).sum::<u64>();
        usize::try_from(all).unwrap_or(usize::MAX)
    }

    /// Returns the identifier of the connection that a thread accepted as its `number`th.
    pub(crate) fn id(&self, thread: usize, number: u64) -> SubscriberId {
        SubscriberId(OURS | (number * self.threads.len() as u64 + thread as u64))
    }

    /// Returns the thread that serves a connection.
    pub(crate) fn thread_of(&self, id: SubscriberId) -> usize {
        usize::try_from((id.0 & !OURS) % self.threads.len() as u64).unwrap_or(0)
    }

    /// Returns true on the first call of any thread: the warning about messages that are not JSON
    /// is logged once.
    pub(crate) fn is_first_quoted(&self) -> bool {
        !self.has_quoted.swap(true, Ordering::Relaxed)
    }

    /// Adds the subscriber count of one more stream.
    pub(crate) fn add_stream(&self) {
        self.listeners.write().unwrap_or_else(PoisonError::into_inner).push(Arc::default());
    }

    fn of_stream(&self, stream: StreamId) -> Option<Arc<AtomicU32>> {
        self.listeners.read().unwrap_or_else(PoisonError::into_inner).get(stream.0 as usize).cloned()
    }

    pub fn listeners(&self, stream: StreamId) -> u32 {
        self.of_stream(stream).map_or(0, |count| count.load(Ordering::Relaxed))
    }

    pub(crate) fn joined(&self, stream: StreamId) {
        self.of_stream(stream).inspect(|count| _ = count.fetch_add(1, Ordering::Relaxed));
    }

    pub(crate) fn left(&self, stream: StreamId) {
        self.of_stream(stream).inspect(|count| _ = count.fetch_sub(1, Ordering::Relaxed));
    }

    /// Returns whether connections are counted by address.
    pub fn counts_addresses(&self) -> bool {
        self.per_address.is_some()
    }

    /// Counts one more connection of an address. Returns false, and counts nothing, at the limit.
    pub fn enter_address(&self, address: IpAddr) -> bool {
        let Some(most) = self.per_address else { return true };
        enter(&self.addresses, address.to_canonical(), most)
    }

    pub fn leave_address(&self, address: IpAddr) {
        if self.per_address.is_some() {
            leave(&self.addresses, &address.to_canonical());
        }
    }

    pub(crate) fn enter_account(&self, account: &Arc<str>) -> bool {
        let Some(most) = self.per_account else { return true };
        enter(&self.accounts, Arc::clone(account), most)
    }

    pub(crate) fn leave_account(&self, account: &Arc<str>) {
        if self.per_account.is_some() {
            leave(&self.accounts, account);
        }
    }
}

/// Returns the sum of one counter over all threads, or 0 if the name is unknown.
pub fn counted(statistics: &SharedStatistics, name: &str) -> u64 {
    let values = statistics.all().iter().flat_map(Counters::list);
    values.filter(|(other, ..)| *other == name).map(|(.., value)| value).sum()
}

fn enter<K: std::hash::Hash + Eq>(counts: &Mutex<HashMap<K, u32>>, key: K, most: u32) -> bool {
    let mut counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
    let count = counts.entry(key).or_default();
    let fits = *count < most;
    *count += u32::from(fits);
    fits
}

fn leave<K: std::hash::Hash + Eq>(counts: &Mutex<HashMap<K, u32>>, key: &K) {
    let mut counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(count) = counts.get_mut(key) {
        *count = count.saturating_sub(1);
        if *count == 0 {
            counts.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_notations_of_an_address_share_one_count() {
        let statistics = SharedStatistics::new(1, Some(2), None);
        let [one, same, other]: [IpAddr; 3] = ["10.0.0.1", "::ffff:10.0.0.1", "10.0.0.2"].map(|a| a.parse().unwrap());
        assert!(statistics.enter_address(one) && statistics.enter_address(same));
        assert!(!statistics.enter_address(one) && statistics.enter_address(other));
        statistics.leave_address(one);
        assert!(statistics.enter_address(same) && !statistics.enter_address(one));
        [one, same, other].into_iter().for_each(|address| statistics.leave_address(address));
        assert!(statistics.addresses.lock().unwrap().is_empty(), "an address without connections is forgotten");
    }

    #[test]
    fn identifier_maps_to_its_thread() {
        let statistics = SharedStatistics::new(3, None, None);
        for thread in 0..3 {
            for number in 1..50 {
                assert_eq!(statistics.thread_of(statistics.id(thread, number)), thread);
            }
        }
        assert_eq!(statistics.thread_of(SubscriberId(7)), 1);
    }
}
