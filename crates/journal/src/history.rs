//! What was durable at some moment, read by another thread while the journal goes on.
//!
//! Holds       what is read here is never written again, so no lock is needed: groups up to the end are synced, and
//!             a snapshot has its name only once it is whole.

use std::{collections::BTreeSet, sync::Arc};

use crate::Storage;
use crate::records::JournalPosition;
use pitwire_model::Seq;

use crate::{JournalConfig, OpenError, Recovery, StartAt, error::while_doing, names::Listing, snapshots};

pub struct History {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) config: JournalConfig,
    pub(crate) end: JournalPosition,
    pub(crate) quarantined: BTreeSet<Seq>,
}

impl History {
    pub fn storage(&self) -> &dyn Storage {
        self.storage.as_ref()
    }

    pub fn config(&self) -> &JournalConfig {
        &self.config
    }

    /// Counts a command among the quarantined although the log does not say so yet.
    pub fn skip(&mut self, seq: Seq) {
        self.quarantined.insert(seq);
    }

    /// Behind the last group of it: where a snapshot of its state belongs.
    pub fn end(&self) -> JournalPosition {
        self.end
    }

    /// The newest readable snapshot in it and the tail after that, as a start at that moment would have found them.
    pub fn recovery(&self) -> Result<Recovery, OpenError> {
        let storage = self.storage();
        let names = storage.list().map_err(while_doing("list", "the journal's directory"))?;
        let mut listing = Listing::new(names);
        listing.snapshots.retain(|seq| *seq < self.end.next);
        let choice = snapshots::choose(storage, &listing, &self.config, StartAt::NewestSnapshot)?;
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
