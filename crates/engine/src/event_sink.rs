//! Where the engine writes its events.

use pitwire_model::{AccountId, Event};

/// A destination for events. A `Vec<Event>` is one.
pub trait EventSink {
    /// Takes the next event. Events arrive in the order in which they happen.
    fn emit(&mut self, event: Event);
}

impl EventSink for Vec<Event> {
    #[inline]
    fn emit(&mut self, event: Event) {
        self.push(event);
    }
}

/// Forwards events. Records whether any of them was public, and which accounts have traded.
pub(crate) struct PublicEventTracker<'a, S> {
    out: &'a mut S,
    is_public: bool,
    traded: Vec<AccountId>,
}

impl<'a, S: EventSink> PublicEventTracker<'a, S> {
    pub fn new(out: &'a mut S) -> Self {
        PublicEventTracker { out, is_public: false, traded: Vec::new() }
    }

    /// Whether a public event has passed.
    pub fn saw_public_event(&self) -> bool {
        self.is_public
    }

    /// Records that the position of an account has changed.
    pub fn add_traded(&mut self, account: AccountId) {
        self.traded.push(account);
    }

    /// Takes the accounts that have traded since the last call, in any order and repeatedly.
    pub fn take_traded(&mut self) -> Vec<AccountId> {
        std::mem::take(&mut self.traded)
    }
}

impl<S: EventSink> EventSink for PublicEventTracker<'_, S> {
    fn emit(&mut self, event: Event) {
        // Journals of the first release contain a change of phase without a new change number.
        self.is_public |= event.is_public() && !matches!(event, Event::PhaseChanged { .. });
        if let Event::Trade { maker_account, taker_account, .. } = event {
            self.traded.extend([maker_account, taker_account]);
        }
        self.out.emit(event);
    }
}

/// An event sink that calls a function.
pub(crate) struct SinkFn<'a, F>(pub &'a mut F);

impl<F: FnMut(Event)> EventSink for SinkFn<'_, F> {
    fn emit(&mut self, event: Event) {
        (self.0)(event);
    }
}
