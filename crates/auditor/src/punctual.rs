//! Whether the timetable kept its word: opt-in, because a log may be written without one.
//!
//! Holds       1. no command comes after the end of an order that is good till a time, but those that end it;
//!             2. no scheduled session begins before it was due, nor leaves a call before the end that was told;
//!             3. trading does not begin out of a closed market while the day still holds its opening call.
//! Leaves out  what follows a restart: a start of the venue and sessions told as missed make up for what was due.

use pitwire_model::{Command, Phase, SessionReason, Stamped};

use crate::Auditor;
use crate::fault::{Judged, offence};

impl Auditor {
    /// Holds the timetable to its word from here on.
    #[must_use]
    pub fn with_timetable(mut self) -> Auditor {
        self.is_punctual = true;
        self
    }

    pub(crate) fn judge_timetable(&self, stamped: &Stamped) -> Judged {
        if !self.is_punctual {
            return Ok(());
        }
        match &stamped.command {
            Command::PassTime | Command::StartEpoch { .. } | Command::EndDay | Command::BeginDay { .. } => Ok(()),
            Command::ChangeSession { reason: SessionReason::Missed, .. } => Ok(()),
            Command::ChangeSession { reason: SessionReason::Scheduled, instrument, to, due, .. } => {
                let Some(market) = self.markets.get(instrument.0 as usize) else { return Ok(()) };
                let (from, now) = (market.phase, stamped.at);
                if *due > now {
                    offence!(M8, "{} of instrument {instrument} began at {now}, due at {due}", to.name());
                }
                if let Some(ends) = market.ends.filter(|ends| from.is_call() && !market.missed && *ends > now) {
                    offence!(M8, "{} of instrument {instrument} ended at {now}, before {ends}", from.name());
                }
                let is_shut = matches!(from, Phase::Closed | Phase::StartOfTrading | Phase::PostClose);
                if is_shut && *to == Phase::Continuous && market.remaining.holds(Phase::OpeningCall) {
                    offence!(M8, "instrument {instrument} trades at {now}, and its opening call is still to come");
                }
                self.none_overdue(stamped)
            }
            Command::SetReporting { reason: SessionReason::Scheduled, instrument, due, .. } if *due > stamped.at => {
                offence!(M8, "trade reporting of instrument {instrument} turned at {}, due at {due}", stamped.at)
            }
            _ => self.none_overdue(stamped),
        }
    }

    fn none_overdue(&self, stamped: &Stamped) -> Judged {
        let is_over = |(instrument, at, _): &&_| *at < stamped.at && !self.market_of(*instrument).phase.is_call();
        match self.timed.iter().find(is_over) {
            Some((_, at, order)) => offence!(M5, "order {order} was good till {at} and lives on at {}", stamped.at),
            None => Ok(()),
        }
    }
}
