//! The durable part of a journal at one moment, read by another thread while the journal continues.
//!
//! Holds       no lock is needed, because this part is never written again: groups up to the end
//!             are synced, and a snapshot gets its name once it is whole.

use std::{collections::BTreeSet, sync::Arc};

use crate::Storage;
use crate::records::{JournalPosition, NamedSnapshots};
use pitwire_model::Seq;

use crate::{JournalConfig, OpenError, Recovery, StartAt, error::while_doing, names::Listing, snapshots};

pub struct History {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) config: JournalConfig,
    pub(crate) end: JournalPosition,
    pub(crate) quarantined: BTreeSet<Seq>,
    pub(crate) named: NamedSnapshots,
}

impl History {
    pub fn storage(&self) -> &dyn Storage {
        self.storage.as_ref()
    }

    pub fn config(&self) -> &JournalConfig {
        &self.config
    }

    /// Treats a command as quarantined although the log does not say so yet.
    pub fn skip(&mut self, seq: Seq) {
        self.quarantined.insert(seq);
    }

    /// Position after the last group: a snapshot of this state belongs there.
    pub fn end(&self) -> JournalPosition {
        self.end
    }

    /// Returns the newest readable snapshot and the tail after it, as a start at that moment would.
    ///
    /// # Errors
    ///
    /// Returns what makes the directory unreadable.
    pub fn recovery(&self) -> Result<Recovery, OpenError> {
        let storage = self.storage();
        let names = storage.list().map_err(while_doing("list", "the journal's directory"))?;
        let mut listing = Listing::new(names);
        listing.snapshots.retain(|seq| *seq < self.end.next);
        let choice = snapshots::choose(storage, &listing, &self.config, StartAt::NewestSnapshot, &self.named)?;
        let start = choice.used.as_ref().map_or(JournalPosition::START, |used| used.meta.position);
        let last = Seq(self.end.next.0.saturating_sub(1));
        Ok(Recovery {
            is_fresh: false,
            snapshot: choice.used,
            damaged_snapshots: choice.damaged,
            last,
            watermark: last,
            start,
            end: self.end,
            last_segment: self.end.segment,
            quarantined: self.quarantined.clone(),
            ..Recovery::fresh()
        })
    }
}
