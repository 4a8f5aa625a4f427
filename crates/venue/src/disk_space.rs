//! Which commands the venue still accepts when the disk is full.

use pitwire_engine::Engine;
use pitwire_journal::JournalSpace;
use pitwire_model::{Amend, Command, Priority};

/// Returns the reject reason if the journal has no space for a command.
pub fn refuses(space: JournalSpace, engine: &Engine, command: &Command) -> Option<&'static str> {
    let is_refused = match space {
        JournalSpace::Orders => false,
        JournalSpace::CancelsOnly => adds_risk(engine, command),
        JournalSpace::Nothing => true,
    };
    is_refused.then_some("no_space")
}

/// Returns whether a command adds risk: an order entry, a reported trade, and an amend that does
/// more than reduce the open quantity.
fn adds_risk(engine: &Engine, command: &Command) -> bool {
    match command {
        Command::Enter(_) | Command::ReportTrade(_) | Command::AnswerReport { confirm: true, .. } => true,
        Command::Amend(amend) => !reduces(engine, amend),
        _ => false,
    }
}

fn reduces(engine: &Engine, amend: &Amend) -> bool {
    engine.order(amend.order).is_none_or(|order| {
        let bound = match amend.priority {
            Priority::KeepWhenReduced => order.ordered,
            Priority::AlwaysLose => order.open,
        };
        amend.price == order.price && amend.lots <= bound
    })
}
