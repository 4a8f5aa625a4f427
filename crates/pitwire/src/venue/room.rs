//! What may still be said when the disk is full.

use pitwire_journal::{Journal, Room};
use pitwire_model::{Amend, Command, Priority};

use super::core::Core;

pub fn of(core: &Core) -> Room {
    core.sequencer.log().journal().map_or(Room::Orders, Journal::room)
}

/// The name of the refusal, where the journal has no room for a command.
pub fn refuses(core: &Core, command: &Command) -> Option<&'static str> {
    let is_refused = match of(core) {
        Room::Orders => false,
        Room::CancelsOnly => adds_risk(core, command),
        Room::Nothing => true,
    };
    is_refused.then_some("no_space")
}

/// An entry does, a trade made beside the book, and an amend that does more than take away from what is open.
fn adds_risk(core: &Core, command: &Command) -> bool {
    match command {
        Command::Enter(_) | Command::ReportTrade(_) | Command::AnswerReport { confirm: true, .. } => true,
        Command::Amend(amend) => !reduces(core, amend),
        _ => false,
    }
}

fn reduces(core: &Core, amend: &Amend) -> bool {
    core.sequencer.engine().order(amend.order).is_none_or(|order| {
        let held = match amend.priority {
            Priority::KeepWhenReduced => order.ordered,
            Priority::AlwaysLose => order.open,
        };
        amend.price == order.price && amend.lots <= held
    })
}
