//! The channels that gateways use, with their numbers on the bus.
//!
//! Start at    [`TapTable::tap`].

use std::collections::BTreeMap;

/// A published channel, which its source knows by an id of type `K`. `C` is the position of the bus
/// in a channel that the bus reads.
pub(super) struct TapTable<K, C> {
    taps: BTreeMap<K, Tap<C>>,
    ids: BTreeMap<String, K>,
}

pub(super) struct Tap<C> {
    pub name: String,
    pub cursor: C,
    /// The sequence number of its last message.
    pub prev: u64,
    /// The channel has been published since the message with this number.
    pub since: u64,
    until_ns: u64,
}

impl<K, C> Default for TapTable<K, C> {
    fn default() -> Self {
        TapTable { taps: BTreeMap::new(), ids: BTreeMap::new() }
    }
}

impl<K: Copy + Ord, C> TapTable<K, C> {
    pub fn len(&self) -> usize {
        self.taps.len()
    }

    pub fn named(&self, name: &str) -> Option<(K, &Tap<C>)> {
        let id = self.ids.get(name)?;
        Some((*id, self.taps.get(id)?))
    }

    pub fn get_mut(&mut self, id: K) -> Option<&mut Tap<C>> {
        self.taps.get_mut(&id)
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&K, &mut Tap<C>)> {
        self.taps.iter_mut()
    }

    /// Keeps a channel published until `until_ns`. A new one gets the name and position that `make`
    /// returns, and is published from the message after `last` on.
    pub fn tap(&mut self, id: K, last: u64, until_ns: u64, make: impl FnOnce() -> (String, C)) -> &Tap<C> {
        let TapTable { taps, ids } = self;
        let tap = taps.entry(id).or_insert_with(|| {
            let (name, cursor) = make();
            ids.insert(name.clone(), id);
            Tap { name, cursor, prev: 0, since: last, until_ns }
        });
        tap.until_ns = until_ns;
        tap
    }

    /// Keeps a channel published until `until_ns`. Returns whether it is published.
    pub fn keep(&mut self, name: &str, until_ns: u64) -> bool {
        let tap = self.ids.get(name).and_then(|id| self.taps.get_mut(id));
        tap.map(|tap| tap.until_ns = until_ns).is_some()
    }

    /// Removes a channel. Returns the number of its last message, and its name.
    pub fn remove(&mut self, id: K) -> Option<(u64, String)> {
        let tap = self.taps.remove(&id)?;
        self.ids.remove(&tap.name);
        Some((tap.prev, tap.name))
    }

    /// Removes the channels that no gateway uses any more, and calls `release` for each.
    pub fn remove_unused(&mut self, now_ns: u64, mut release: impl FnMut(K)) -> Vec<(u64, String)> {
        let unused = self.taps.iter().filter(|(_, tap)| tap.until_ns <= now_ns);
        let unused: Vec<K> = unused.map(|(id, _)| *id).collect();
        unused.iter().for_each(|id| release(*id));
        unused.into_iter().filter_map(|id| self.remove(id)).collect()
    }
}
