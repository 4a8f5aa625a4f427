//! Commands of the current commit, encoded as the groups that will be written.

use crate::records::{
    GroupSeal, Hash,
    group::{HEADER_BYTES, begin_group, seal_group},
};
use pitwire_model::Seq;

/// Encoded groups, one after the other, in a buffer that is reused.
#[derive(Default)]
pub(crate) struct GroupBatch {
    bytes: Vec<u8>,
    /// End offset of each sealed group.
    sealed: Vec<usize>,
    open: Option<OpenGroup>,
}

#[derive(Clone, Copy)]
struct OpenGroup {
    start: usize,
    first: Seq,
    commands: u32,
}

/// Properties that all groups of a batch share, and the chain from one group to the next.
#[derive(Clone, Copy)]
pub(crate) struct ChainEnd {
    pub rule_version: u16,
    pub watermark: Seq,
    /// Number of the next group to be sealed.
    pub group: u64,
    pub previous: Hash,
}

impl GroupBatch {
    pub(crate) fn is_empty(&self) -> bool {
        self.sealed.is_empty() && self.open.is_none()
    }

    /// Bytes of records in the open group.
    pub(crate) fn open_payload(&self) -> usize {
        self.open.map_or(0, |open| self.bytes.len() - open.start - HEADER_BYTES)
    }

    /// Approximate size on disk of everything gathered, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    pub(crate) fn push(&mut self, seq: Seq, record: &[u8]) {
        let open = match self.open {
            Some(open) => OpenGroup { commands: open.commands + 1, ..open },
            None => OpenGroup { start: begin_group(&mut self.bytes), first: seq, commands: 1 },
        };
        self.open = Some(open);
        self.bytes.extend_from_slice(record);
    }

    /// Seals the open group, if there is one.
    pub(crate) fn seal(&mut self, chain: &mut ChainEnd, output: Option<Hash>) {
        let Some(open) = self.open.take() else { return };
        let seal = GroupSeal {
            rule_version: chain.rule_version,
            number: chain.group,
            first: open.first,
            commands: open.commands,
            watermark: chain.watermark,
            previous: chain.previous,
            output,
        };
        chain.previous = seal_group(&mut self.bytes, open.start, &seal);
        chain.group += 1;
        self.sealed.push(self.bytes.len());
    }

    /// Returns the sealed groups from byte `from` on, as many as fit into `free` bytes.
    pub(crate) fn fitting(&self, from: usize, free: u64) -> &[u8] {
        let fits = |end: &&usize| **end > from && (**end - from) as u64 <= free;
        let end = self.sealed.iter().rfind(fits).copied().unwrap_or(from);
        self.bytes.get(from..end).unwrap_or_default()
    }

    /// Bytes of all sealed groups.
    pub(crate) fn sealed_bytes(&self) -> usize {
        self.sealed.last().copied().unwrap_or(0)
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.sealed.clear();
        self.open = None;
    }
}
