//! A command that makes the engine fail must not take the venue with it.
//!
//! Holds       1. after a failure the engine is not to be trusted: the caller builds another one from the log;
//!             2. a quarantined command has had one effect, in every run and replay: [`refusal`].

use std::panic::{AssertUnwindSafe, catch_unwind};

use pitwire_engine::Engine;
use pitwire_model::{Command, Event, InstrumentId, OrderId, Reject, Stamped};

/// An entry with this label makes the engine fail in the midst of it, so that tests can see what comes of it. No build
/// without debug assertions, and so no release, has this.
#[cfg(debug_assertions)]
pub const POISON: &str = "poison (debug builds only)";

/// The engine failed; it and `events` are half of something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineFailed;

/// Applies a command and survives its failure.
#[inline]
pub fn apply_guarded(engine: &mut Engine, stamped: &Stamped, events: &mut Vec<Event>) -> Result<(), EngineFailed> {
    catch_unwind(AssertUnwindSafe(|| apply(engine, stamped, events))).map_err(|_| EngineFailed)
}

#[inline]
fn apply(engine: &mut Engine, stamped: &Stamped, events: &mut Vec<Event>) {
    engine.apply(stamped, events);
    #[cfg(debug_assertions)]
    if let Command::Enter(order) = &stamped.command {
        assert!(order.label.as_str() != POISON, "command {} is poison", stamped.seq);
    }
}

/// What a quarantined command is answered.
pub fn refusal(stamped: &Stamped) -> Event {
    let reason = Reject::Quarantined;
    match &stamped.command {
        Command::Enter(order) => Event::Rejected { order: OrderId(stamped.seq.0), account: order.account, reason },
        Command::Amend(amend) => Event::AmendRefused { order: amend.order, account: amend.account, reason },
        Command::Cancel { account, order } => Event::CancelRefused { order: *order, account: *account, reason },
        _ => Event::CommandRefused { reason },
    }
}

/// What a command concerns, as an engine knows it that stands just before it; `None` when it is not one instrument.
pub fn instrument_of(stamped: &Stamped, engine: &Engine) -> Option<InstrumentId> {
    match &stamped.command {
        Command::Enter(order) => engine.market(order.instrument).map(|market| market.spec.id),
        Command::Amend(amend) => engine.order(amend.order).map(|order| order.instrument),
        Command::Cancel { order, .. } => engine.order(*order).map(|order| order.instrument),
        Command::SetPhase { instrument, .. }
        | Command::ChangeSession { instrument, .. }
        | Command::ExtendSession { instrument, .. }
        | Command::SetRemaining { instrument, .. }
        | Command::FilterHidden { instrument }
        | Command::RunBatch { instrument }
        | Command::SetTradingRules { instrument, .. }
        | Command::SetClosingPrice { instrument, .. }
        | Command::SetReporting { instrument, .. }
        | Command::SetInstrumentLimits { instrument, .. }
        | Command::DeleteInstrument { instrument } => Some(*instrument),
        Command::BustTrade(bust) => Some(bust.instrument),
        Command::ReportTrade(report) => Some(report.instrument),
        Command::AnswerReport { report, .. } => engine.report(*report).map(|report| report.instrument),
        _ => None,
    }
}
