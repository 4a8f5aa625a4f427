//! Surviving a panic of the engine.
//!
//! Holds       1. after a panic the engine must not be used: the caller builds another one from the
//!                log;
//!             2. a quarantined command has one effect, in every run and replay: [`refusal`].

use std::panic::{AssertUnwindSafe, catch_unwind};

use pitwire_engine::Engine;
use pitwire_model::{Command, Event, InstrumentId, OrderId, Reject, SequencedCommand};

/// An order with this label makes the engine panic halfway, for tests. Builds without debug
/// assertions, and so all releases, ignore it.
#[cfg(debug_assertions)]
pub const POISON: &str = "poison (debug builds only)";

/// The engine panicked. The engine and the events of the command are incomplete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EnginePanic;

/// Applies a command and catches a panic.
///
/// # Errors
///
/// Returns [`EnginePanic`] if the engine panicked.
#[inline]
pub fn apply_guarded(
    engine: &mut Engine,
    stamped: &SequencedCommand,
    events: &mut Vec<Event>,
) -> Result<(), EnginePanic> {
    catch_unwind(AssertUnwindSafe(|| apply(engine, stamped, events))).map_err(|_| EnginePanic)
}

#[inline]
fn apply(engine: &mut Engine, stamped: &SequencedCommand, events: &mut Vec<Event>) {
    engine.apply(stamped, events);
    #[cfg(debug_assertions)]
    if let Command::Enter(order) = &stamped.command {
        assert!(order.label.as_str() != POISON, "command {} is poison", stamped.seq);
    }
}

/// Returns the event of a quarantined command: its refusal.
pub fn refusal(stamped: &SequencedCommand) -> Event {
    let reason = Reject::Quarantined;
    match &stamped.command {
        Command::Enter(order) => Event::Rejected { order: OrderId(stamped.seq.0), account: order.account, reason },
        Command::Amend(amend) => Event::AmendRefused { order: amend.order, account: amend.account, reason },
        Command::Cancel { account, order } => Event::CancelRefused { order: *order, account: *account, reason },
        _ => Event::CommandRefused { reason },
    }
}

/// Returns the instrument that a command concerns, from the engine's state before it. Returns
/// `None` if the command does not concern exactly one instrument.
pub fn instrument_of(stamped: &SequencedCommand, engine: &Engine) -> Option<InstrumentId> {
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
