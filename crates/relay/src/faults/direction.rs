//! One direction of a connection: the messages that wait to leave, and when.
//!
//! Does        applies the script to each message, and keeps the order of the messages that leave.
//! Leaves out  sockets and the clock: the caller passes the time.
//! Start at    [`DirectionQueue::push`] and [`DirectionQueue::pop`].

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use pitwire_fault_script::{Direction, Fault, FaultKind, FaultScript, MessagePlace};

use crate::faults::counts::FaultCounts;
use crate::faults::messages::RawMessage;

/// What leaves next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Send(Vec<u8>),
    /// These bytes leave, and then the connection ends.
    End(Vec<u8>, End),
}

/// How a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Reset,
    CloseFrame,
}

/// A message that later ones overtake.
#[derive(Debug)]
struct HeldBack {
    bytes: Vec<u8>,
    /// Messages that must still overtake it.
    messages: u64,
    /// Time at which it leaves without them.
    until: Instant,
}

pub(crate) struct DirectionQueue {
    script: Arc<FaultScript>,
    counts: Arc<FaultCounts>,
    connection: u64,
    direction: Direction,
    /// Number of the last message.
    number: u64,
    steps: VecDeque<(Instant, Step)>,
    held_back: Vec<HeldBack>,
    is_silent: bool,
    queued_bytes: usize,
}

impl DirectionQueue {
    pub fn new(script: Arc<FaultScript>, counts: Arc<FaultCounts>, connection: u64, direction: Direction) -> Self {
        DirectionQueue {
            script,
            counts,
            connection,
            direction,
            number: 0,
            steps: VecDeque::new(),
            held_back: Vec::new(),
            is_silent: false,
            queued_bytes: 0,
        }
    }

    /// Takes a message at the time `now`.
    pub fn push(&mut self, message: RawMessage, now: Instant) {
        let fault = if message.is_control { None } else { self.next_fault() };
        if self.is_silent {
            return;
        }
        let bytes = message.bytes;
        match fault {
            None => self.enqueue(now, Step::Send(bytes)),
            Some(Fault { kind, duration, messages }) => match kind {
                FaultKind::Delay => self.enqueue(now + duration, Step::Send(bytes)),
                FaultKind::Duplicate => {
                    self.enqueue(now, Step::Send(bytes.clone()));
                    self.enqueue(now, Step::Send(bytes));
                }
                FaultKind::Reorder => {
                    self.queued_bytes += bytes.len();
                    // Later messages do not release it before it is complete, so it is added last.
                    self.held_back.push(HeldBack { bytes, messages, until: now + duration });
                    return;
                }
                FaultKind::Cut => {
                    let half = bytes[..bytes.len() / 2].to_vec();
                    self.enqueue(now, Step::End(half, End::Reset));
                }
                FaultKind::Reset => self.enqueue(now, Step::End(Vec::new(), End::Reset)),
                FaultKind::Close => self.enqueue(now, Step::End(Vec::new(), End::CloseFrame)),
                FaultKind::Silence => self.is_silent = true,
                // `refuse` ends connections, and the parser accepts the last four only for a feed.
                FaultKind::Drop
                | FaultKind::Refuse
                | FaultKind::Stall
                | FaultKind::Rubbish
                | FaultKind::BadFrame
                | FaultKind::OmitTime => {}
            },
        }
        if !message.is_control {
            for held in &mut self.held_back {
                held.messages = held.messages.saturating_sub(1);
            }
            self.release(now, |held| held.messages == 0);
        }
    }

    fn next_fault(&mut self) -> Option<Fault> {
        self.number += 1;
        self.counts.count_message();
        if !self.counts.is_active() {
            return None;
        }
        let place = MessagePlace { connection: self.connection, direction: self.direction, message: self.number };
        let fault = self.script.find(place).filter(|_| !self.is_silent)?;
        self.counts.count(fault.kind);
        Some(fault)
    }

    /// Appends a step. It leaves no earlier than the steps before it.
    fn enqueue(&mut self, due: Instant, step: Step) {
        let due = self.steps.back().map_or(due, |(last, _)| due.max(*last));
        let (Step::Send(bytes) | Step::End(bytes, _)) = &step;
        self.queued_bytes += bytes.len();
        self.steps.push_back((due, step));
    }

    fn release(&mut self, now: Instant, is_released: impl Fn(&HeldBack) -> bool) {
        let (released, held_back) = std::mem::take(&mut self.held_back).into_iter().partition(is_released);
        self.held_back = held_back;
        let released: Vec<HeldBack> = released;
        for HeldBack { bytes, .. } in released {
            self.queued_bytes -= bytes.len();
            self.enqueue(now, Step::Send(bytes));
        }
    }

    /// Returns the time at which [`Self::pop`] has something.
    pub fn next_due(&self) -> Option<Instant> {
        let queued = self.steps.front().map(|(due, _)| *due);
        queued.into_iter().chain(self.held_back.iter().map(|held| held.until)).min()
    }

    /// Returns the next step that is due.
    pub fn pop(&mut self, now: Instant) -> Option<Step> {
        self.release(now, |held| held.until <= now);
        let (due, _) = self.steps.front()?;
        if *due > now {
            return None;
        }
        let (_, step) = self.steps.pop_front()?;
        let (Step::Send(bytes) | Step::End(bytes, _)) = &step;
        self.queued_bytes -= bytes.len();
        Some(step)
    }

    /// Bytes that wait.
    pub fn queued_bytes(&self) -> usize {
        self.queued_bytes
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use pitwire_fault_script::Injector;

    use super::*;

    fn queue(script: &str) -> DirectionQueue {
        let script = Arc::new(FaultScript::parse(Injector::Relay, script, 1).unwrap());
        let counts = Arc::new(FaultCounts::new(script.lasts()));
        DirectionQueue::new(script, counts, 1, Direction::FromVenue)
    }

    fn message(text: &str) -> RawMessage {
        RawMessage { bytes: text.into(), is_control: false }
    }

    /// Returns what has left by `now`, with a space between the messages.
    fn sent(queue: &mut DirectionQueue, now: Instant) -> String {
        let mut parts = Vec::new();
        while let Some(step) = queue.pop(now) {
            parts.push(match step {
                Step::Send(bytes) => String::from_utf8(bytes).unwrap(),
                Step::End(bytes, end) => format!("{}{end:?}", String::from_utf8(bytes).unwrap()),
            });
        }
        parts.join(" ")
    }

    fn outcome(script: &str) -> String {
        let mut queue = queue(script);
        let now = Instant::now();
        for text in ["m1", "m2", "m3", "m4", "m5"] {
            queue.push(message(text), now);
        }
        sent(&mut queue, now)
    }

    #[test]
    fn each_fault_has_its_effect() {
        for (fault, expected) in [
            ("kind = \"drop\"\nat = [2]", "m1 m3 m4 m5"),
            ("kind = \"duplicate\"\nat = [2]", "m1 m2 m2 m3 m4 m5"),
            ("kind = \"reorder\"\nat = [2]", "m1 m3 m2 m4 m5"),
            ("kind = \"reorder\"\nat = [2]\nmessages = 2", "m1 m3 m4 m2 m5"),
            ("kind = \"reorder\"\nat = [2, 3]", "m1 m4 m2 m3 m5"),
            ("kind = \"cut\"\nat = [2]", "m1 mReset m3 m4 m5"),
            ("kind = \"reset\"\nat = [2]", "m1 Reset m3 m4 m5"),
            ("kind = \"close\"\nat = [2]", "m1 CloseFrame m3 m4 m5"),
            ("kind = \"silence\"\nat = [2]", "m1"),
            ("kind = \"delay\"\nat = [2]\nms = 5", "m1"),
        ] {
            assert_eq!(outcome(&format!("[[fault]]\n{fault}\n")), expected, "{fault}");
        }
    }

    #[test]
    fn delayed_message_keeps_its_order() {
        let mut queue = queue("[[fault]]\nkind = \"delay\"\nat = [1]\nms = 10\n");
        let start = Instant::now();
        queue.push(message("m1"), start);
        queue.push(message("m2"), start);
        assert_eq!(queue.next_due(), Some(start + Duration::from_millis(10)));
        assert_eq!(sent(&mut queue, start + Duration::from_millis(9)), "");
        assert_eq!(sent(&mut queue, start + Duration::from_millis(10)), "m1 m2");
        assert_eq!((queue.queued_bytes(), queue.next_due()), (0, None));
    }

    #[test]
    fn reordered_message_leaves_after_its_time_if_none_overtakes_it() {
        let mut queue = queue("[[fault]]\nkind = \"reorder\"\nat = [1]\nms = 10\n");
        let start = Instant::now();
        queue.push(message("m1"), start);
        assert_eq!(queue.queued_bytes(), 2);
        let due = queue.next_due().unwrap();
        assert_eq!(sent(&mut queue, due - Duration::from_millis(1)), "");
        assert_eq!(sent(&mut queue, due), "m1");
        assert_eq!(queue.queued_bytes(), 0);
    }

    #[test]
    fn control_frames_have_no_faults_and_no_numbers() {
        let mut queue = queue("[[fault]]\nkind = \"drop\"\nat = [1]\n");
        let now = Instant::now();
        queue.push(RawMessage { bytes: "ping".into(), is_control: true }, now);
        queue.push(message("m1"), now);
        queue.push(message("m2"), now);
        assert_eq!(sent(&mut queue, now), "ping m2");
    }

    #[test]
    fn messages_pass_without_faults_when_the_script_has_ended() {
        let mut queue = queue("lasts_ms = 0\n[[fault]]\nkind = \"drop\"\nshare = 1.0\n");
        let now = Instant::now();
        queue.push(message("m1"), now);
        assert_eq!(sent(&mut queue, now), "m1");
    }
}
