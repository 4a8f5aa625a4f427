//! Two hash chains over the output of the venue, and four counts.
//!
//! Does        absorb each command with its events. Two runs with equal chains have equal output,
//!             byte for byte.
//! Holds       1. `output` is, per commit, `BLAKE3(output ‖ its commands)`, each command as `seq
//!                u64 ‖ at u64 ‖ events`, each event as [`encode_event`] writes it. It begins as 32
//!                zero bytes. In a commit with more than 64 KiB of this, each 64 KiB are hashed as
//!                if a commit had ended;
//!             2. `tape` is BLAKE3 over the public events of all commands, each as
//!                [`encode_public_event`] writes it: the hash of a file that holds the tape. **This
//!                is the `tape_hash` of every report**: it holds venue time but neither numbers of
//!                commands nor anything private, so a command without public events leaves it
//!                unchanged, and so does the grouping into commits;
//!             3. everything needed to continue is in [`ChainState`], which is taken between two
//!                commits.
//! Costs       a copy of the events' bytes per command, and hashing by the kilobyte; no allocation
//!             once warm.

use pitwire_model::{Event, SequencedCommand};

use crate::records::{
    Hash,
    bytes::{DecodeError, Reader, Writer},
    event::{encode_event, encode_public_event},
    stream::StreamHash,
};

/// Pending output above this many bytes is hashed, so that a run without commits stays bounded.
const FOLD_BYTES: usize = 64 << 10;

/// State of the chains as plain data, stored in snapshots.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChainState {
    pub output: Hash,
    pub tape: StreamHash,
    /// Commands absorbed.
    pub commands: u64,
    /// Events that they caused.
    pub events: u64,
    /// Orders accepted.
    pub orders: u64,
    pub trades: u64,
}

impl ChainState {
    /// Writes 32 bytes of output, the four counts as u64, and the state of the tape's hash.
    pub fn put(&self, w: &mut Writer<'_>) {
        w.put_raw(&self.output);
        for count in [self.commands, self.events, self.orders, self.trades] {
            w.put_u64(count);
        }
        self.tape.put(w);
    }

    /// Reads the state of both hash chains.
    ///
    /// # Errors
    ///
    /// Returns the position of a truncated or invalid value.
    pub fn take(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            output: r.take_array()?,
            commands: r.take_u64()?,
            events: r.take_u64()?,
            orders: r.take_u64()?,
            trades: r.take_u64()?,
            tape: StreamHash::take(r)?,
        })
    }
}

/// The chains while they are computed.
#[derive(Clone, Debug, Default)]
pub struct OutputChain {
    state: ChainState,
    /// Output since the last commit that is not yet in `output`.
    pending: Vec<u8>,
}

impl OutputChain {
    pub fn new() -> Self {
        Self::default()
    }

    /// Continues from a snapshot.
    pub fn resume(state: ChainState) -> Self {
        Self { state, pending: Vec::new() }
    }

    /// State as of the last [`Self::seal`] for `output`, and as of the last command for the rest.
    pub fn state(&self) -> &ChainState {
        &self.state
    }

    pub fn tape(&self) -> Hash {
        self.state.tape.hash()
    }

    /// The output hash if a commit ended here.
    pub fn output(&self) -> Hash {
        if self.pending.is_empty() { self.state.output } else { *blake3::hash(&self.pending).as_bytes() }
    }

    /// Ends a commit and returns the chain after its last command, which the log stores with the
    /// last group.
    pub fn seal(&mut self) -> Hash {
        if !self.pending.is_empty() {
            self.fold();
        }
        self.state.output
    }

    /// HOT: called once per command. It does not allocate once the buffers have grown to the
    /// largest commit.
    pub fn absorb(&mut self, stamped: &SequencedCommand, events: &[Event]) {
        self.absorb_output(stamped, events);
        for event in events {
            encode_public_event(stamped.at, event, self.state.tape.tail());
            self.state.orders += u64::from(matches!(event, Event::Accepted { .. }));
            self.state.trades += u64::from(matches!(event, Event::Trade { .. }));
        }
        self.state.tape.digest();
        self.state.commands += 1;
        self.state.events += events.len() as u64;
    }

    fn absorb_output(&mut self, stamped: &SequencedCommand, events: &[Event]) {
        if self.pending.is_empty() {
            self.pending.extend_from_slice(&self.state.output);
        }
        let mut w = Writer::new(&mut self.pending);
        w.put_u64(stamped.seq.0);
        w.put_u64(stamped.at.0);
        for event in events {
            encode_event(event, &mut self.pending);
        }
        if self.pending.len() >= FOLD_BYTES {
            self.fold();
        }
    }

    fn fold(&mut self) {
        self.state.output = self.output();
        self.pending.clear();
    }
}
