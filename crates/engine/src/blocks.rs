//! Kills that apply to the whole venue or to one session. An account stores its own kill.

use std::collections::BTreeSet;

use pitwire_model::{KillScope, SessionId};

/// Venue-wide and per-session kills.
#[derive(Debug, Default)]
pub(crate) struct TradingBlocks {
    /// Whether any kill is active, so that an order checks one flag.
    any: bool,
    venue: bool,
    sessions: BTreeSet<SessionId>,
}

impl TradingBlocks {
    pub fn new(venue: bool, sessions: BTreeSet<SessionId>) -> Self {
        TradingBlocks { any: venue || !sessions.is_empty(), venue, sessions }
    }

    /// HOT. Returns whether any kill is active.
    #[inline]
    pub fn any(&self) -> bool {
        self.any
    }

    /// Returns whether the whole venue is killed.
    pub fn venue(&self) -> bool {
        self.venue
    }

    /// Returns whether the venue or this session is killed.
    pub fn blocks_session(&self, session: SessionId) -> bool {
        self.venue || self.sessions.contains(&session)
    }

    /// Returns whether this session itself is killed.
    pub fn contains(&self, session: SessionId) -> bool {
        self.sessions.contains(&session)
    }

    /// Killed sessions in ascending order.
    pub fn sessions(&self) -> impl Iterator<Item = SessionId> {
        self.sessions.iter().copied()
    }

    /// Sets or lifts a kill. Kills of orders and accounts are not stored here.
    pub fn set(&mut self, scope: KillScope, killed: bool) {
        match scope {
            KillScope::Venue => self.venue = killed,
            KillScope::Session(session) if killed => _ = self.sessions.insert(session),
            KillScope::Session(session) => _ = self.sessions.remove(&session),
            KillScope::Order(_) | KillScope::Account(_) => {}
        }
        self.any = self.venue || !self.sessions.is_empty();
    }

    /// Lifts the kills of all sessions.
    pub fn clear_sessions(&mut self) {
        self.sessions.clear();
        self.any = self.venue;
    }
}
