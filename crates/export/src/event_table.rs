//! The table `events`, which a separate thread writes.
//!
//! Holds       rows are in the order of the commands. The thread lags by a bounded number of
//!             batches.
//! Start at    [`EventTable`].

use std::mem::take;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use pitwire_failure::Failure;
use pitwire_model::{Event, Seq, SequencedCommand, VenueNanos};
use pitwire_tables::Cell;

use crate::event_json::describe;
use crate::table::{Table, TableSummary};

/// Events that are passed on together.
const BATCH: usize = 1_024;
/// Batches that may wait for the thread.
const BATCHES_AHEAD: usize = 64;

/// The table and the thread that writes it. The table has more rows than all others together.
pub struct EventTable {
    batch: EventBatch,
    batches: SyncSender<EventBatch>,
    /// `None` after `write` has returned its failure.
    writer: Option<JoinHandle<Result<TableSummary, Failure>>>,
}

#[derive(Default)]
struct EventBatch {
    events: Vec<Event>,
    commands: Vec<BatchedCommand>,
}

struct BatchedCommand {
    seq: Seq,
    at: VenueNanos,
    /// End of the command's events in the batch.
    end: usize,
}

impl EventTable {
    /// Starts the thread, which writes to `table`.
    pub fn start(table: Table) -> Self {
        let (batches, waiting) = sync_channel(BATCHES_AHEAD);
        let writer = Some(thread::spawn(move || write_rows(table, &waiting)));
        EventTable { batch: EventBatch::default(), batches, writer }
    }

    /// Adds a row for each event of a command.
    ///
    /// # Errors
    ///
    /// Returns a failure if an earlier row could not be written.
    pub fn write(&mut self, stamped: &SequencedCommand, events: &[Event]) -> Result<(), Failure> {
        if events.is_empty() {
            return Ok(());
        }
        self.batch.events.extend_from_slice(events);
        self.batch.commands.push(BatchedCommand { seq: stamped.seq, at: stamped.at, end: self.batch.events.len() });
        if self.batch.events.len() < BATCH || self.batches.send(take(&mut self.batch)).is_ok() {
            return Ok(());
        }
        // The thread has ended early, so it returns why.
        finished(self.writer.take()).map(drop)
    }

    /// Writes the rest of the file.
    ///
    /// # Errors
    ///
    /// Returns a failure if the file cannot be written.
    pub fn close(self) -> Result<TableSummary, Failure> {
        let EventTable { batch, batches, writer } = self;
        // Sending fails only if the thread has ended early.
        drop(batches.send(batch));
        drop(batches);
        finished(writer)
    }
}

fn finished(writer: Option<JoinHandle<Result<TableSummary, Failure>>>) -> Result<TableSummary, Failure> {
    let writer = writer.ok_or_else(|| Failure::new("the table events is not complete: an earlier row failed"))?;
    writer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn write_rows(mut table: Table, batches: &Receiver<EventBatch>) -> Result<TableSummary, Failure> {
    let mut fields = String::new();
    for EventBatch { events, commands } in batches {
        let mut from = 0;
        for BatchedCommand { seq, at, end } in commands {
            for (index, event) in (0..).zip(events.get(from..end).unwrap_or_default()) {
                write_row(&mut table, &mut fields, (seq, at, index), event)?;
            }
            from = end;
        }
    }
    table.close()
}

/// Writes the row of an event. `fields` is a buffer.
fn write_row(
    table: &mut Table,
    fields: &mut String,
    (seq, at, index): (Seq, VenueNanos, u32),
    event: &Event,
) -> Result<(), Failure> {
    fields.clear();
    let head = describe(event, fields)
        .ok_or_else(|| Failure::new(format!("event {index} of command {seq} cannot be described")))?;
    table.write(&[
        Cell::U64(seq.0),
        Cell::U32(index),
        Cell::U64(at.0),
        Cell::Time(at.0.cast_signed()),
        Cell::Text(&head.name),
        Cell::Bool(event.is_public()),
        Cell::maybe(head.instrument, Cell::U32),
        Cell::maybe(head.order, Cell::U64),
        Cell::maybe(head.account, Cell::U32),
        Cell::Text(fields),
    ])
}
