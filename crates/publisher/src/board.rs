//! What all halls of a process have in common: figures, who listens to what, how many come from where.
//!
//! Start at    [`Board`].

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use crate::counters::Counters;
use crate::programme::Tag;
use pitwire_delivery::StreamId;

/// Of tags that halls make themselves.
const OURS: u64 = 1 << 63;

#[derive(Debug, Default)]
pub struct Board {
    halls: Vec<Counters>,
    listeners: RwLock<Vec<Arc<AtomicU32>>>,
    addresses: Mutex<HashMap<IpAddr, u32>>,
    accounts: Mutex<HashMap<Arc<str>, u32>>,
    /// Connections from one address, and of one account; no limit if absent.
    per_address: Option<u32>,
    per_account: Option<u32>,
    has_told: AtomicBool,
}

impl Board {
    pub fn new(halls: usize, per_address: Option<u32>, per_account: Option<u32>) -> Self {
        let halls = (0..halls.max(1)).map(|_| Counters::default()).collect();
        Board { halls, per_address, per_account, ..Board::default() }
    }

    pub fn counters(&self, hall: usize) -> &Counters {
        // There is at least one.
        self.halls.get(hall).unwrap_or(&self.halls[0])
    }

    pub fn all(&self) -> &[Counters] {
        &self.halls
    }

    /// Connections in all halls.
    pub(crate) fn connections(&self) -> usize {
        let all = self.halls.iter().map(|hall| hall.connections.load(Ordering::Relaxed)).sum::<u64>();
        usize::try_from(all).unwrap_or(usize::MAX)
    }

    pub(crate) fn tag(&self, hall: usize, number: u64) -> Tag {
        Tag(OURS | (number * self.halls.len() as u64 + hall as u64))
    }

    /// Which hall a connection is in.
    pub(crate) fn hall_of(&self, tag: Tag) -> usize {
        usize::try_from((tag.0 & !OURS) % self.halls.len() as u64).unwrap_or(0)
    }

    /// Whether it has still to be said that messages are no JSON: so the first time, in whichever hall.
    pub(crate) fn tell_once(&self) -> bool {
        !self.has_told.swap(true, Ordering::Relaxed)
    }

    /// A place for the number of listeners of one more stream.
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

    /// Whether anybody needs to know where connections come from.
    pub fn counts_addresses(&self) -> bool {
        self.per_address.is_some()
    }

    /// Counts one more from an address; `false` when that would be too many.
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

/// The sum of one figure over all halls; 0 for one that there is not.
pub fn counted(board: &Board, name: &str) -> u64 {
    let values = board.all().iter().flat_map(Counters::list);
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
    fn each_address_has_its_own_count_however_it_is_written() {
        let board = Board::new(1, Some(2), None);
        let [one, same, other]: [IpAddr; 3] = ["10.0.0.1", "::ffff:10.0.0.1", "10.0.0.2"].map(|a| a.parse().unwrap());
        assert!(board.enter_address(one) && board.enter_address(same));
        assert!(!board.enter_address(one) && board.enter_address(other));
        board.leave_address(one);
        assert!(board.enter_address(same) && !board.enter_address(one));
        [one, same, other].into_iter().for_each(|address| board.leave_address(address));
        assert!(board.addresses.lock().unwrap().is_empty(), "addresses that are gone are forgotten");
    }

    #[test]
    fn a_tag_leads_back_to_its_hall() {
        let board = Board::new(3, None, None);
        for hall in 0..3 {
            for number in 1..50 {
                assert_eq!(board.hall_of(board.tag(hall, number)), hall);
            }
        }
        assert_eq!(board.hall_of(Tag(7)), 1);
    }
}
