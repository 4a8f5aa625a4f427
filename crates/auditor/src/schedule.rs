//! Checks the times of scheduled sessions and of expiries. The checks are optional, because a log
//! may be written without a schedule.
//!
//! Holds       1. after the expiry time of an order, the next command expires it;
//!             2. no scheduled session begins before it is due, and no call ends before the time
//!                that was announced;
//!             3. a closed market does not start continuous trading while an opening call is still
//!                to come that day.
//! Leaves out  the time after a restart: the venue's start and missed sessions catch up.

use pitwire_model::{Command, Phase, SequencedCommand, SessionReason};

use crate::model::VenueModel;
use crate::violation::{CheckResult, fail};

/// Checks the time of a command of the scheduler.
///
/// # Errors
/// M8 if a session begins early, a call ends early, trading starts before its opening call, or
/// something due earlier was left undone.
pub fn check_schedule(model: &VenueModel, stamped: &SequencedCommand) -> CheckResult {
    match &stamped.command {
        Command::PassTime | Command::StartEpoch { .. } | Command::EndDay | Command::BeginDay { .. } => Ok(()),
        Command::ChangeSession { reason: SessionReason::Missed, .. } => Ok(()),
        Command::ChangeSession { reason: SessionReason::Scheduled, instrument, to, due, .. } => {
            let Some(market) = model.markets.get(instrument.0 as usize) else { return Ok(()) };
            let (from, now) = (market.session.phase, stamped.at);
            if *due > now {
                fail!(M8, "{} of instrument {instrument} began at {now}, but was due at {due}", to.name());
            }
            if let Some(ends) =
                market.session.ends.filter(|ends| from.is_call() && !market.session.missed && *ends > now)
            {
                fail!(M8, "{} of instrument {instrument} ended at {now}, before {ends}", from.name());
            }
            let is_shut = matches!(from, Phase::Closed | Phase::StartOfTrading | Phase::PostClose);
            if is_shut && *to == Phase::Continuous && market.session.remaining.holds(Phase::OpeningCall) {
                fail!(M8, "instrument {instrument} trades at {now}, and its opening call is still to come");
            }
            check_nothing_overdue(model, stamped)
        }
        Command::SetReporting { reason: SessionReason::Scheduled, instrument, due, .. } if *due > stamped.at => {
            fail!(M8, "trade reporting of instrument {instrument} changed at {}, but was due at {due}", stamped.at)
        }
        _ => check_nothing_overdue(model, stamped),
    }
}

fn check_nothing_overdue(model: &VenueModel, stamped: &SequencedCommand) -> CheckResult {
    let is_over = |(instrument, at, _): &&_| *at < stamped.at && !model.market(*instrument).session.phase.is_call();
    match model.orders.timed().find(is_over) {
        Some((_, at, order)) => fail!(M5, "order {order} was good till {at} and is still live at {}", stamped.at),
        None => Ok(()),
    }
}
