//! Serves the clients of binary order entry.

use pitwire_deribit::EndedLogins;
use pitwire_net::{ConnectionId, Notices};
use pitwire_sbe_gateway::{BinaryEntry, CtxPublicData, EntryContext, EntryEffects, FollowRequest};

use crate::application::VenueApplication;
use crate::long_answers::Recipient;
use crate::service::VenueService;

impl VenueApplication {
    /// Calls binary order entry, then applies the effects that it returns.
    fn with_entry_context<T>(
        &mut self,
        notices: &mut Notices,
        act: impl FnOnce(&mut BinaryEntry, &mut EntryContext<'_>) -> T,
    ) -> T {
        let clock = self.rpc_clock();
        let mut context = EntryContext {
            venue: &mut self.service,
            dispatcher: &mut self.dispatcher,
            notices: &mut *notices,
            clock,
            effects: EntryEffects::default(),
        };
        let result = act(&mut self.entry, &mut context);
        let EntryEffects { log_failed, long_answer, follow } = context.effects;
        self.note_failures(log_failed);
        if let Some((to, answer)) = long_answer {
            self.queue_answer(Recipient::Binary(to), answer, notices);
        }
        if let Some(request) = follow {
            self.follow(request, notices);
        }
        result
    }

    pub(super) fn entry_message(&mut self, id: ConnectionId, bytes: &[u8], notices: &mut Notices) -> Option<usize> {
        let used = self.with_entry_context(notices, |entry, context| entry.message(id, bytes, context))?;
        self.counters.messages += 1;
        self.distribute(notices);
        self.close_ended_logins(notices);
        self.follow_manual_time(notices);
        Some(used)
    }

    pub(super) fn entry_disconnected(&mut self, id: ConnectionId, notices: &mut Notices) {
        self.with_entry_context(notices, |entry, context| entry.disconnected(id, context));
        self.distribute(notices);
    }

    pub(super) fn end_entry_logins(&mut self, ended: &EndedLogins, notices: &mut Notices) {
        self.with_entry_context(notices, |entry, context| entry.end_logins(ended, context));
        self.distribute(notices);
    }

    pub(super) fn tick_entry(&mut self, now_ns: u64, notices: &mut Notices) {
        if now_ns >= self.entry.next_due_ns() {
            self.with_entry_context(notices, |entry, context| entry.tick(now_ns, context));
            self.distribute(notices);
        }
    }

    pub(super) fn stop_entry(&mut self, notices: &mut Notices) {
        self.with_entry_context(notices, |entry, context| entry.stop(context));
        self.distribute(notices);
    }

    /// Sends the state of an instrument to a client that follows it from now on.
    fn follow(&mut self, request: FollowRequest, notices: &mut Notices) {
        let VenueService { venue, market_data, .. } = &mut self.service;
        let (engine, now) = (venue.engine(), venue.now());
        let data = market_data.entry_data.get_or_insert_with(|| CtxPublicData::start(engine, now));
        let frames = data.follow(request.instrument, engine, venue.views(), now);
        self.entry.send_public(request.instrument, Some(request.session), &frames, notices);
    }
}
