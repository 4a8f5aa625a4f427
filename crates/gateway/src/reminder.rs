//! Limits how often a lasting problem is logged.

use std::time::{Duration, Instant};

const AGAIN_AFTER: Duration = Duration::from_secs(60);

/// Logs a problem at once, then once a minute. Create a new one when the problem is over.
#[derive(Debug, Default)]
pub struct Reminder(Option<Instant>);

impl Reminder {
    pub fn is_due(&mut self) -> bool {
        self.is_due_at(Instant::now())
    }

    fn is_due_at(&mut self, now: Instant) -> bool {
        let is_due = self.0.is_none_or(|last| now.duration_since(last) >= AGAIN_AFTER);
        if is_due {
            self.0 = Some(now);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problem_is_logged_at_once_and_then_every_minute() {
        let (mut reminder, start) = (Reminder::default(), Instant::now());
        let due = [0, 1, 59, 60, 61, 119, 130, 200].map(|s| reminder.is_due_at(start + Duration::from_secs(s)));
        assert_eq!(due, [true, false, false, true, false, false, true, true]);
    }
}
