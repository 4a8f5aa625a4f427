//! The channel to one worker: the common part of pipes and rings.
//!
//! Leaves out  slow workers: a channel accepts a record or refuses it.

use std::time::Duration;

pub(crate) use pitwire_shard::PutError;

use crate::transport::TransportOptions;
use crate::transport_error::TransportError;
use crate::worker_ends::WorkerEnds;

pub(crate) trait WorkerChannel: Sized + Send + 'static {
    /// Opens one channel per worker. `generation` counts the starts of the program.
    ///
    /// # Errors
    /// The system refuses pipes, files or memory.
    fn open_all(options: &TransportOptions, generation: u64) -> Result<(Vec<Self>, WorkerEnds), TransportError>;

    /// Returns whether a record of `bytes` bytes can ever be accepted.
    fn fits(&self, bytes: usize) -> bool;

    /// HOT. Puts `text[start..end]` as a record. The worker sees it after
    /// [`WorkerChannel::hand_over`] at the latest.
    ///
    /// # Errors
    /// The channel is full or closed, or the record is too long.
    fn put(&mut self, text: &[u8], start: usize, end: usize) -> Result<(), PutError>;

    /// For channels with references: returns bytes put, at least up to the last reference.
    fn head(&self) -> u64 {
        0
    }

    /// For channels with references: returns whether the worker has released everything put before
    /// `head`.
    fn has_taken(&mut self, _head: u64) -> bool {
        true
    }

    /// For channels with references: sets whether records are referred to or copied from now on.
    fn refer(&mut self, _refers: bool) {}

    /// Makes everything visible to the worker. Returns whether it sleeps and
    /// [`WorkerChannel::wake`] must be called.
    ///
    /// # Errors
    /// The worker closed its end.
    fn hand_over(&mut self) -> Result<bool, PutError>;

    fn wake(&self);

    /// Returns whether at least half of the channel is free.
    fn is_roomy(&mut self) -> bool;

    /// Returns how many bytes the worker has not taken.
    fn pending_bytes(&mut self) -> u64;

    /// Returns how many bytes the worker has taken since the start.
    fn taken_bytes(&mut self) -> u64;

    /// Counts the records that the worker has not taken whole. For use after it is gone.
    fn unread_records(&mut self) -> u64;

    /// Returns whether everything was handed over.
    fn is_handed_over(&self) -> bool;

    /// Drops the records that were not handed over, and returns how many there were.
    fn give_up(&mut self) -> u64;

    /// Waits at most `longest` until the worker may have taken something.
    fn wait(&mut self, longest: Duration);

    /// Ends the channel: the worker sees the end behind the last record.
    fn end(&mut self);
}
