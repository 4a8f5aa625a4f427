//! One turn of the loop: which connections are served in it, and how long it may take.
//!
//! Holds       1. a connection that asks little waits a turn or two, however much others ask: it
//!                is served first, and its answers leave before the others go on;
//!             2. a connection that asks a lot is put off for one turn, never for two in a row;
//!             3. the loop looks for new input every few requests of a flood, and before it writes
//!                the answers to one: a connection that has asked meanwhile comes next;
//!             4. connections that ask equally much take turns. Those of a payer with slow requests
//!                count as busy, all of them.
//! Costs       a reading of the clock for each connection served; beside a flood, a look at the
//!             sockets every few requests.
//! Start at    [`TurnScheduler::serve_each`].

use crate::application::Application;
use crate::connection::ListState;
use crate::connection_table::ConnectionTable;
use crate::context::TurnContext;
use crate::event_loop::EventLoop;

/// Looks at the sockets and lists the connections that have new input. Returns whether there are
/// any that were not listed.
pub(crate) type Poll<'a> = dyn FnMut(&mut ConnectionTable, &mut dyn EventLoop) -> bool + 'a;

/// Serves the listed connections during one turn.
pub(crate) struct TurnScheduler<'t, 'a, A> {
    pub turn: &'t mut TurnContext<'a, A>,
    pub table: &'t mut ConnectionTable,
}

/// Result of serving a part of the list.
struct PassOutcome {
    /// It is time to commit.
    is_over: bool,
    /// A connection was served that has nothing more to ask.
    served_light: bool,
}

impl<A: Application> TurnScheduler<'_, '_, A> {
    /// Serves the connections that ask little, then the busy ones, unless those were not put off
    /// in the last turn: `put_off` remembers it. Returns whether there is time for more.
    pub fn serve_each(&mut self, put_off: &mut bool) -> bool {
        let light = self.serve_listed(false);
        if light.served_light && !std::mem::replace(put_off, true) {
            return false;
        }
        *put_off = false;
        // At least one of them, also when it is time to commit.
        let busy = self.serve_listed(true);
        !(light.is_over || busy.is_over)
    }

    fn serve_listed(&mut self, comes_last: bool) -> PassOutcome {
        let mut served_light = false;
        for at in &self.table.listed {
            let Some(connection) = self.table.connections.get_mut(*at) else { continue };
            let is_next = connection.comes_last() == comes_last && connection.list_state != ListState::Served;
            // A connection that only waits to be written to uses no time of the turn.
            if !is_next || !connection.can_act() || self.turn.notices.is_ending(connection.id) {
                continue;
            }
            connection.list_state = ListState::Served;
            connection.read_and_act(self.turn);
            served_light |= connection.is_done_with_little();
            if self.turn.is_over() {
                return PassOutcome { is_over: true, served_light };
            }
        }
        PassOutcome { is_over: false, served_light }
    }

    /// Serves in rounds what can be done without reading, until it is time to commit or nothing is
    /// left.
    pub fn serve_more(&mut self, poll: &mut Poll<'_>) {
        let (mut has_more, busy) = (true, self.table.listed.len());
        while std::mem::take(&mut has_more) {
            for at in 0..busy {
                let index = self.table.listed[at];
                let goes_on =
                    self.table.connections.get(index).is_some_and(|connection| {
                        connection.can_go_on() && !self.turn.notices.is_ending(connection.id)
                    });
                if !goes_on {
                    continue;
                }
                if poll(self.table, self.turn.net) {
                    // Next time the connections come first whose share this was.
                    self.table.listed[..busy].rotate_left(at);
                    self.serve_listed(false);
                    return;
                }
                self.table.connections[index].read_and_act(self.turn);
                if self.turn.is_over() {
                    self.table.listed[..busy].rotate_left(at + 1);
                    return;
                }
                has_more = true;
            }
        }
    }
}
