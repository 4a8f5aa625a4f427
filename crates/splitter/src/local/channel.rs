//! One worker's way: what pipes and rings have in common.
//!
//! Leaves out  slow workers: a channel takes a record or refuses it.

use std::time::Duration;

pub(crate) use pitwire_shard::PutError;

use crate::transport::TransportOptions;
use crate::transport_error::TransportError;
use crate::worker_ends::WorkerEnds;

pub(crate) trait WorkerChannel: Sized + Send + 'static {
    /// One channel a worker. `generation`: how often the program has been started.
    fn open_all(options: &TransportOptions, generation: u64) -> Result<(Vec<Self>, WorkerEnds), TransportError>;

    /// Whether a record of so many bytes can ever be taken.
    fn fits(&self, bytes: usize) -> bool;

    /// HOT. `text[start..end]` as a record; seen by the worker after [`WorkerChannel::hand_over`] at the latest.
    fn put(&mut self, text: &[u8], start: usize, end: usize) -> Result<(), PutError>;

    /// LocalTransport that refer to records: bytes put up to the last reference, or more while there may be further ones.
    fn head(&self) -> u64 {
        0
    }

    /// The same: whether the worker is done with everything that was put before `head`.
    fn has_taken(&mut self, _head: u64) -> bool {
        true
    }

    /// The same: whether records are referred to from now on, or copied.
    fn refer(&mut self, _refers: bool) {}

    /// Lets the worker see everything. True: it sleeps, and [`WorkerChannel::wake`] is due.
    fn hand_over(&mut self) -> Result<bool, PutError>;

    fn wake(&self);

    /// Whether at least half of it is free again.
    fn is_roomy(&mut self) -> bool;

    /// Bytes put, and those of them that the worker has not taken.
    fn lag_bytes(&mut self) -> u64;

    /// Bytes that the worker has taken; grows when it takes something.
    fn taken_bytes(&mut self) -> u64;

    /// Records that the worker has not taken whole, once it is gone.
    fn unread_records(&mut self) -> u64;

    /// Whether nothing is left that [`WorkerChannel::hand_over`] has still to do.
    fn is_handed_over(&self) -> bool;

    /// Forgets what is left; how many records it was.
    fn give_up(&mut self) -> u64;

    /// Waits, for so long at most, until the worker may have taken something.
    fn wait(&mut self, longest: Duration);

    /// The worker sees the end behind the last record.
    fn end(&mut self);
}
