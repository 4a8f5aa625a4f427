//! Two hash chains over everything the venue has put out, and four counts.
//!
//! Does        absorb each command with its events. Two runs that agree here agree in every byte they put out.
//! Holds       1. `output` is, per command, `BLAKE3(output ‖ seq u64 ‖ at u64 ‖ events)`, each event as
//!                [`encode_event`] writes it;
//!             2. `tape` is, per command that had public events, `BLAKE3(tape ‖ public events)`, each as
//!                [`encode_public_event`] writes it. **This is the `tape_hash` of every report**: it holds venue time
//!                but neither numbers of commands nor anything private, so a command that leaves no public trace
//!                leaves none here;
//!             3. both begin as 32 zero bytes, and everything needed to go on is in [`ChainState`].
//! Costs       one short BLAKE3 per command, two when it had public events; no allocation once warm.

use pitwire_model::{Event, Stamped};

use crate::{
    Hash,
    bytes::{DecodeError, Reader, Writer},
    event::{encode_event, encode_public_event},
};

/// Where the chains stand: plain data, kept in snapshots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChainState {
    pub output: Hash,
    pub tape: Hash,
    /// Commands absorbed.
    pub commands: u64,
    /// Events they caused.
    pub events: u64,
    /// Orders accepted.
    pub orders: u64,
    pub trades: u64,
}

impl ChainState {
    /// 32 bytes output, 32 bytes tape, then the four counts as u64.
    pub const BYTES: usize = 96;

    pub fn put(&self, w: &mut Writer<'_>) {
        w.put_raw(&self.output);
        w.put_raw(&self.tape);
        for count in [self.commands, self.events, self.orders, self.trades] {
            w.put_u64(count);
        }
    }

    pub fn take(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            output: r.take_array()?,
            tape: r.take_array()?,
            commands: r.take_u64()?,
            events: r.take_u64()?,
            orders: r.take_u64()?,
            trades: r.take_u64()?,
        })
    }
}

/// The chains in motion: a [`ChainState`] and one buffer that is used again and again.
#[derive(Clone, Debug, Default)]
pub struct OutputChain {
    state: ChainState,
    scratch: Vec<u8>,
}

impl OutputChain {
    pub fn new() -> Self {
        Self::default()
    }

    /// Goes on from a snapshot.
    pub fn resume(state: ChainState) -> Self {
        Self { state, scratch: Vec::new() }
    }

    pub fn state(&self) -> &ChainState {
        &self.state
    }

    /// What the log keeps with each group: the chain after its last command.
    pub fn output(&self) -> Hash {
        self.state.output
    }

    /// HOT: called once per command; no allocation once the buffer has grown to the largest command.
    pub fn absorb(&mut self, stamped: &Stamped, events: &[Event]) {
        self.absorb_output(stamped, events);
        self.absorb_tape(stamped, events);
        self.state.commands += 1;
        self.state.events += events.len() as u64;
        for event in events {
            self.state.orders += u64::from(matches!(event, Event::Accepted { .. }));
            self.state.trades += u64::from(matches!(event, Event::Trade { .. }));
        }
    }

    fn absorb_output(&mut self, stamped: &Stamped, events: &[Event]) {
        self.scratch.clear();
        let mut w = Writer::new(&mut self.scratch);
        w.put_raw(&self.state.output);
        w.put_u64(stamped.seq.0);
        w.put_u64(stamped.at.0);
        for event in events {
            encode_event(event, &mut self.scratch);
        }
        self.state.output = *blake3::hash(&self.scratch).as_bytes();
    }

    fn absorb_tape(&mut self, stamped: &Stamped, events: &[Event]) {
        self.scratch.clear();
        self.scratch.extend_from_slice(&self.state.tape);
        let mut is_public = false;
        for event in events {
            is_public |= encode_public_event(stamped.at, event, &mut self.scratch);
        }
        if is_public {
            self.state.tape = *blake3::hash(&self.scratch).as_bytes();
        }
    }
}
