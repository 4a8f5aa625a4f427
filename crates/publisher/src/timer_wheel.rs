//! A timer wheel with one timer per subscriber.
//!
//! Holds       Setting, moving and removing a timer take constant time.
//! Leaves out  The reason for a timer. The delivery core checks the subscriber when its timer
//!             expires, and sets the next one.

use slab::Slab;

use crate::subscriber::{NO_INDEX, Subscriber, TimerLink};

/// Length of a tick in milliseconds. A timer expires at the end of its tick.
pub(crate) const TICK_MS: u64 = 250;
const SPOKES: u32 = 256;

#[derive(Debug)]
pub(crate) struct TimerWheel {
    spokes: Vec<u32>,
    /// The last tick that was handled.
    tick: u32,
}

impl Default for TimerWheel {
    fn default() -> Self {
        TimerWheel { spokes: vec![NO_INDEX; SPOKES as usize], tick: 0 }
    }
}

impl TimerWheel {
    fn spoke(tick: u32) -> usize {
        (tick % SPOKES) as usize
    }

    /// Sets the timer of `slot` to expire in `wait_ms` milliseconds, or earlier if that exceeds one
    /// turn of the wheel.
    pub fn set(&mut self, subscribers: &mut Slab<Subscriber>, slot: u32, now_ms: u64, wait_ms: u32) {
        self.unset(subscribers, slot);
        let tick = tick_of(now_ms + u64::from(wait_ms)) + 1;
        let tick = tick.clamp(self.tick + 1, self.tick + SPOKES - 1);
        let spoke = Self::spoke(tick);
        let first = self.spokes[spoke];
        if let Some(behind) = subscribers.get_mut(first as usize) {
            behind.timer.before = slot;
        }
        if let Some(subscriber) = subscribers.get_mut(slot as usize) {
            subscriber.timer = TimerLink { tick, before: NO_INDEX, behind: first };
            self.spokes[spoke] = slot;
        }
    }

    pub fn unset(&mut self, subscribers: &mut Slab<Subscriber>, slot: u32) {
        let Some(subscriber) = subscribers.get_mut(slot as usize).filter(|subscriber| subscriber.timer.tick != 0)
        else {
            return;
        };
        let TimerLink { before, behind, .. } = subscriber.timer;
        let spoke = Self::spoke(std::mem::take(&mut subscriber.timer.tick));
        match subscribers.get_mut(before as usize) {
            Some(before) => before.timer.behind = behind,
            None => self.spokes[spoke] = behind,
        }
        if let Some(behind) = subscribers.get_mut(behind as usize) {
            behind.timer.before = before;
        }
    }

    /// Advances the wheel to `now_ms` and moves the slots of expired timers to `due`.
    pub fn turn(&mut self, subscribers: &mut Slab<Subscriber>, now_ms: u64, due: &mut Vec<u32>) {
        let now = tick_of(now_ms);
        // After a pause longer than one turn of the wheel, every timer expires once.
        self.tick = self.tick.max(now.saturating_sub(SPOKES));
        while self.tick < now {
            self.tick += 1;
            let mut at = std::mem::replace(&mut self.spokes[Self::spoke(self.tick)], NO_INDEX);
            while let Some(subscriber) = subscribers.get_mut(at as usize) {
                due.push(at);
                subscriber.timer.tick = 0;
                at = subscriber.timer.behind;
            }
        }
    }
}

/// Returns the tick of a time. Ticks of 250 ms in 32 bits last for thirty years.
fn tick_of(ms: u64) -> u32 {
    u32::try_from(ms / TICK_MS).unwrap_or(u32::MAX - SPOKES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handler::SubscriberId;

    #[test]
    fn timers_expire_on_time_and_removed_timers_never() {
        let mut subscribers = Slab::new();
        let mut wheel = TimerWheel::default();
        for tag in 0..1_000_u64 {
            subscribers.insert(Subscriber::new(SubscriberId(tag), 0));
        }
        for slot in 0..1_000 {
            wheel.set(&mut subscribers, slot, 0, slot * 50);
        }
        // Move some timers and remove others, at every position in a spoke.
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
