//! Sends each reader the log of its shard, at the reader's own speed.
//!
//! Does        accepts WebSockets for `/shard/N`; copies new frames of the shard to each reader;
//!             keeps the position of the slowest reader.
//! Holds       1. a reader is given a bounded number of bytes in a turn, so that a fast one does
//!                not hold up the others;
//!             2. a reader that was overrun receives a gap record or is closed, as the policy for
//!                slow workers says.
//! Start at    [`ShardApplication::pump`].

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use pitwire_net::{Application, CloseCode, CloseReason, ConnectionId, HttpRequest, HttpResponse, Notices, Refusal};
use pitwire_shard::GapRecord;
use pitwire_websocket::head::split_target;
use pitwire_websocket::{Opcode, write_frame};

use crate::clock::epoch_ns;
use crate::http_responses;
use crate::policy::SlowWorkerPolicy;
use crate::retained_log::{LogCursor, LogEntry};
use crate::ws_transport::SharedShards;

/// Most bytes that one reader is given in one turn. The last frame may exceed it.
const TURN_BYTES: usize = 256 * 1024;

/// The readers of all shards.
pub(crate) struct ShardApplication {
    shards: Arc<SharedShards>,
    readers: BTreeMap<ConnectionId, ShardReader>,
    /// The routing thread has appended frames since the last turn.
    has_new: bool,
    /// A reader has used up its share of the turn and has more to read.
    has_rest: bool,
    /// Frames taken from the log under the lock; empty otherwise.
    taken: Vec<LogEntry>,
}

/// One reader of a shard.
struct ShardReader {
    shard: usize,
    cursor: LogCursor,
    /// Bytes given to it in this turn.
    turn_bytes: usize,
}

impl ShardApplication {
    pub fn new(shards: Arc<SharedShards>) -> Self {
        ShardApplication { shards, readers: BTreeMap::new(), has_new: false, has_rest: false, taken: Vec::new() }
    }

    /// Removes a reader.
    fn remove(&mut self, id: ConnectionId) {
        let Some(ShardReader { shard, cursor, .. }) = self.readers.remove(&id) else { return };
        self.shards.logs[shard].lock().readers -= 1;
        self.note_progress(shard, cursor);
    }

    /// Updates the position of the slowest reader, if the slowest one was at `from`.
    fn note_progress(&self, shard: usize, from: LogCursor) {
        let log = &self.shards.logs[shard];
        let mut state = log.lock();
        if state.slowest == from {
            let cursors = self.readers.values().filter(|reader| reader.shard == shard).map(|reader| reader.cursor);
            if let Some(slowest) = cursors.min() {
                state.slowest = slowest;
                state.log.forget(slowest);
            }
        }
        drop(state);
        log.has_moved();
    }
}

impl Application for ShardApplication {
    const STOPPING: &'static str = "the splitter ends";

    fn request(&mut self, request: &HttpRequest<'_>, _: &mut Notices) -> HttpResponse {
        if let Some(refused) = http_responses::refuse(request) {
            return refused;
        }
        match request.path() {
            "/healthz" => http_responses::health(),
            _ if request.is_upgrade() => HttpResponse::text(404, "no such shard; /shard/0 is the first"),
            _ => HttpResponse::text(404, "shards are read over WebSocket, from /shard/0 on"),
        }
    }

    fn accepts_websocket(&self, path: &str) -> bool {
        shard_of(path, self.shards.logs.len()).is_some()
    }

    fn refusal(&mut self, refusal: Refusal) -> HttpResponse {
        http_responses::refusal(refusal)
    }

    fn opened(&mut self, id: ConnectionId, target: &str, notices: &mut Notices) {
        let (path, _) = split_target(target);
        let Some(shard) = shard_of(path, self.shards.logs.len()) else {
            return notices.close(id, CloseCode::Policy, "no such shard");
        };
        let mut state = self.shards.logs[shard].lock();
        let cursor = state.log.end();
        if state.readers == 0 {
            state.slowest = cursor;
        }
        state.readers += 1;
        drop(state);
        self.readers.insert(id, ShardReader { shard, cursor, turn_bytes: 0 });
    }

    /// Ignores binary messages of readers. Their text messages are ignored too.
    fn binary(&mut self, _: ConnectionId, _: &[u8], _: &mut Notices) {}

    fn disconnected(&mut self, id: ConnectionId, _: &mut Notices) {
        self.remove(id);
    }

    fn next_due_ns(&self) -> Option<u64> {
        self.has_rest.then_some(0)
    }

    fn tick(&mut self, _: u64, _: &mut Notices) {
        self.has_new = self.shards.take_signal() | std::mem::take(&mut self.has_rest);
        self.readers.values_mut().for_each(|reader| reader.turn_bytes = 0);
    }

    fn commit(&mut self) -> io::Result<bool> {
        Ok(std::mem::take(&mut self.has_new))
    }

    fn for_each_subscriber(&self, visit: impl FnMut(ConnectionId)) {
        self.readers.keys().copied().for_each(visit);
    }

    fn pump(&mut self, id: ConnectionId, out: &mut Vec<u8>, enough: usize) -> Result<(), CloseReason> {
        let shards = Arc::clone(&self.shards);
        let Some(reader) = self.readers.get_mut(&id) else { return Ok(()) };
        let (shard, before) = (reader.shard, reader.cursor);
        if reader.turn_bytes >= TURN_BYTES {
            self.has_rest = true;
            return Ok(());
        }
        let start = out.len();
        let mut taken = std::mem::take(&mut self.taken);
        shards.logs[shard].lock().log.take(&mut reader.cursor, enough, &mut taken);
        // Copied without the lock, because the routing thread may be waiting for it.
        for entry in taken.drain(..) {
            match entry {
                LogEntry::Nothing => {}
                LogEntry::Frame(frame) => out.extend_from_slice(&frame),
                LogEntry::Missed(objects) => {
                    shards.dropped.fetch_add(objects, Ordering::Relaxed);
                    if shards.policy == SlowWorkerPolicy::Restart {
                        self.remove(id);
                        let reason = "too slow for this feed; connect again".into();
                        return Err(CloseReason { code: CloseCode::TryAgainLater, reason });
                    }
                    if shards.gap_records {
                        shards.gaps.fetch_add(1, Ordering::Relaxed);
                        let connection = shards.connection.load(Ordering::Relaxed);
                        let gap = GapRecord { connection, at_ns: epoch_ns(), dropped: Some(objects), restarts: None };
                        write_frame(out, Opcode::Text, format!("[{}]", gap.text()).as_bytes());
                    }
                }
            }
        }
        self.taken = taken;
        reader.turn_bytes += out.len() - start;
        if reader.cursor != before {
            self.note_progress(shard, before);
        }
        Ok(())
    }

    fn stopping(&mut self, _: &mut Notices) {}
}

/// Parses `/shard/N` and checks that the shard exists.
fn shard_of(path: &str, shards: usize) -> Option<usize> {
    let digits = path.strip_prefix("/shard/")?;
    let is_canonical = digits.bytes().all(|byte| byte.is_ascii_digit()) && (digits == "0" || !digits.starts_with('0'));
    digits.parse().ok().filter(|shard| is_canonical && *shard < shards)
}

#[cfg(test)]
mod tests {
    use super::shard_of;

    #[test]
    fn shard_paths_are_parsed_strictly() {
        for (path, expected) in [
            ("/shard/0", Some(0)),
            ("/shard/3", Some(3)),
            ("/shard/4", None),
            ("/shard/00", None),
            ("/shard/+1", None),
            ("/shard/", None),
            ("/shard/1/", None),
            ("/", None),
            ("/shard/99999999999999999999", None),
        ] {
            assert_eq!(shard_of(path, 4), expected, "{path}");
        }
    }
}
