//! One wheel for all times: when a subscriber is next to be looked at.
//!
//! Holds       setting, moving and taking out cost the same however many there are.
//! Leaves out  why: the floor looks at the subscriber when its time has come, and sets the next.

use slab::Slab;

use crate::subscriber::{NOBODY, Subscriber};

/// A tick is so long; what is due in it is due at its end.
pub(crate) const TICK_MS: u64 = 250;
const SPOKES: u32 = 256;

#[derive(Debug)]
pub(crate) struct TimerWheel {
    spokes: Vec<u32>,
    /// The last tick that was turned.
    tick: u32,
}

impl Default for TimerWheel {
    fn default() -> Self {
        TimerWheel { spokes: vec![NOBODY; SPOKES as usize], tick: 0 }
    }
}

impl TimerWheel {
    fn spoke(tick: u32) -> usize {
        (tick % SPOKES) as usize
    }

    /// Has `slot` looked at once `wait_ms` have passed, or earlier if that is further away than the
    /// wheel goes round.
    pub fn set(&mut self, subscribers: &mut Slab<Subscriber>, slot: u32, now_ms: u64, wait_ms: u32) {
        self.unset(subscribers, slot);
        let tick = tick_of(now_ms + u64::from(wait_ms)) + 1;
        let tick = tick.clamp(self.tick + 1, self.tick + SPOKES - 1);
        let spoke = Self::spoke(tick);
        let first = self.spokes[spoke];
        if let Some(behind) = subscribers.get_mut(first as usize) {
            behind.wheel_before = slot;
        }
        if let Some(subscriber) = subscribers.get_mut(slot as usize) {
            (subscriber.due_tick, subscriber.wheel_before, subscriber.wheel_behind) = (tick, NOBODY, first);
            self.spokes[spoke] = slot;
        }
    }

    pub fn unset(&mut self, subscribers: &mut Slab<Subscriber>, slot: u32) {
        let Some(subscriber) = subscribers.get_mut(slot as usize).filter(|subscriber| subscriber.due_tick != 0) else {
            return;
        };
        let (before, behind) = (subscriber.wheel_before, subscriber.wheel_behind);
        let spoke = Self::spoke(std::mem::take(&mut subscriber.due_tick));
        match subscribers.get_mut(before as usize) {
            Some(before) => before.wheel_behind = behind,
            None => self.spokes[spoke] = behind,
        }
        if let Some(behind) = subscribers.get_mut(behind as usize) {
            behind.wheel_before = before;
        }
    }

    /// Turns on to `now_ms`; those whose time has come are taken out and put into `due`.
    pub fn turn(&mut self, subscribers: &mut Slab<Subscriber>, now_ms: u64, due: &mut Vec<u32>) {
        let now = tick_of(now_ms);
        // After a pause longer than a round everybody is due once.
        self.tick = self.tick.max(now.saturating_sub(SPOKES));
        while self.tick < now {
            self.tick += 1;
            let mut at = std::mem::replace(&mut self.spokes[Self::spoke(self.tick)], NOBODY);
            while let Some(subscriber) = subscribers.get_mut(at as usize) {
                due.push(at);
                subscriber.due_tick = 0;
                at = subscriber.wheel_behind;
            }
        }
    }
}

/// Ticks of a quarter of a second last for thirty years.
fn tick_of(ms: u64) -> u32 {
    u32::try_from(ms / TICK_MS).unwrap_or(u32::MAX - SPOKES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_comes_when_it_is_time_and_nobody_who_was_taken_out() {
        let mut subscribers = Slab::new();
        let mut wheel = TimerWheel::default();
        for tag in 0..1_000_u64 {
            subscribers.insert(Subscriber::new(tag, 0));
        }
        for slot in 0..1_000 {
            wheel.set(&mut subscribers, slot, 0, slot * 50);
        }
        // Moved and taken out, from every place in a spoke.
        for slot in (0..1_000).step_by(3) {
            wheel.set(&mut subscribers, slot, 0, 60_000);
        }
        for slot in (1..1_000).step_by(3) {
            wheel.unset(&mut subscribers, slot);
        }
        let mut seen = Vec::new();
        for now_ms in (0..70_000).step_by(100) {
            let mut due = Vec::new();
            wheel.turn(&mut subscribers, now_ms, &mut due);
            for slot in due {
                let time = if slot % 3 == 0 { 60_000 } else { u64::from(slot) * 50 };
                assert!(now_ms > time && now_ms <= time + 2 * TICK_MS, "{slot} at {now_ms}");
                seen.push(slot);
            }
        }
        seen.sort_unstable();
        assert_eq!(seen, (0..1_000).filter(|slot| slot % 3 != 1).collect::<Vec<u32>>());
    }
}
