//! Kills: an operator cancels the orders of a session, an account or the venue, and blocks new ones
//! until the kill is lifted.
//!
//! Holds       an order enters only if neither the venue, nor its account, nor its session is
//!             killed.
//! Costs       a kill: the orders of all books, plus sorting the orders that are removed.
//! Start at    [`Engine::kill`].

use pitwire_model::{CancelReason, Epoch, Event, KillScope, Label, OrderId, Reject};

use crate::engine::Engine;
use crate::event_sink::EventSink;

impl Engine {
    pub(crate) fn kill(&mut self, scope: KillScope, reason: &Label, out: &mut impl EventSink) -> Result<(), Reject> {
        let cancelled = match scope {
            KillScope::Order(order) => self.kill_order(order, out)?,
            KillScope::Session(session) => {
                self.cancel_where(None, CancelReason::Killed, |_, origin| origin.session == session, out)
            }
            KillScope::Account(account) => {
                self.accounts.kill(account)?;
                self.cancel_where(None, CancelReason::Killed, |owner, _| owner == account, out)
            }
            KillScope::Venue => self.cancel_where(None, CancelReason::Killed, |_, _| true, out),
        };
        self.blocks.set(scope, true);
        out.emit(Event::Killed { scope, cancelled, reason: reason.clone() });
        Ok(())
    }

    fn kill_order(&mut self, order: OrderId, out: &mut impl EventSink) -> Result<u32, Reject> {
        let (instrument, slot) = self.orders.get(order).ok_or(Reject::UnknownOrder)?;
        self.context(instrument).cancel_special(slot, CancelReason::Killed, out);
        Ok(1)
    }

    /// Lifts a kill. For an account, also resets its throttle.
    pub(crate) fn lift(&mut self, scope: KillScope, out: &mut impl EventSink) -> Result<(), Reject> {
        match scope {
            KillScope::Order(_) => return Err(Reject::BadDefinition),
            KillScope::Account(account) => self.accounts.lift(account)?,
            KillScope::Session(_) | KillScope::Venue => self.blocks.set(scope, false),
        }
        out.emit(Event::Lifted { scope });
        Ok(())
    }

    /// Starts an epoch. All sessions of the epoch before have ended, and with them their kills.
    pub(crate) fn start_epoch(&mut self, epoch: Epoch, out: &mut impl EventSink) {
        self.cancel_where(None, CancelReason::Disconnected, |_, origin| origin.flags.cancel_on_disconnect(), out);
        self.epoch = epoch;
        self.blocks.clear_sessions();
        out.emit(Event::EpochStarted { epoch });
    }
}
