//! The channels of a process by name.
//!
//! Holds       A channel keeps its [`ChannelId`] for the life of the process.
//! Start at    [`ChannelTable::add`].

use std::collections::BTreeMap;

/// Identifies a channel for the life of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChannelId(pub u32);

/// Channels with state of type `T`, by name and by id.
#[derive(Debug)]
pub struct ChannelTable<T> {
    channels: Vec<T>,
    ids: BTreeMap<String, ChannelId>,
}

impl<T> Default for ChannelTable<T> {
    fn default() -> Self {
        ChannelTable { channels: Vec::new(), ids: BTreeMap::new() }
    }
}

impl<T> ChannelTable<T> {
    /// Returns the id of a channel, and adds the channel that `make` returns if the name is new.
    pub fn add(&mut self, name: &str, make: impl FnOnce(ChannelId) -> T) -> ChannelId {
        if let Some(id) = self.ids.get(name) {
            return *id;
        }
        // The names of 2^32 channels do not fit into memory.
        let id = ChannelId(u32::try_from(self.channels.len()).unwrap_or(u32::MAX));
        self.channels.push(make(id));
        self.ids.insert(name.to_owned(), id);
        id
    }

    pub fn named(&self, name: &str) -> Option<ChannelId> {
        self.ids.get(name).copied()
    }

    pub fn get(&self, id: ChannelId) -> Option<&T> {
        self.channels.get(id.0 as usize)
    }

    pub fn get_mut(&mut self, id: ChannelId) -> Option<&mut T> {
        self.channels.get_mut(id.0 as usize)
    }

    pub fn iter(&self) -> std::slice::Iter<'_, T> {
        self.channels.iter()
    }

    pub fn iter_mut(&mut self) -> std::slice::IterMut<'_, T> {
        self.channels.iter_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channel_keeps_its_id() {
        let mut table = ChannelTable::default();
        let ids = ["trades", "book", "trades"].map(|name| table.add(name, |id| (id, name)));
        assert_eq!(ids, [0, 1, 0].map(ChannelId));
        assert_eq!((table.named("book"), table.named("quote")), (Some(ids[1]), None));
        assert_eq!((table.get(ids[1]), table.get(ChannelId(2))), (Some(&(ids[1], "book")), None));
        assert_eq!(table.iter().count(), 2);
    }
}
