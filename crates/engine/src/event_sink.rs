//! Where the engine writes its events.

use pitwire_model::Event;

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

/// Forwards events and records whether any of them was public.
pub(crate) struct PublicEventTracker<'a, S> {
    out: &'a mut S,
    is_public: bool,
}

impl<'a, S: EventSink> PublicEventTracker<'a, S> {
    pub fn new(out: &'a mut S) -> Self {
        PublicEventTracker { out, is_public: false }
    }

    /// Whether a public event has passed.
    pub fn saw_public_event(&self) -> bool {
        self.is_public
    }
}

impl<S: EventSink> EventSink for PublicEventTracker<'_, S> {
    fn emit(&mut self, event: Event) {
        // Journals of the first release contain a change of phase without a new change number.
        self.is_public |= event.is_public() && !matches!(event, Event::PhaseChanged { .. });
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
