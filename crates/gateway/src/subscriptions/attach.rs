//! Attaching connections on delivery threads to channels.
//!
//! Does        Sends a connection what leads up to the channel's newest message, then attaches it:
//!             from there on the delivery thread sends each message to all attached connections.
//! Holds       1. The messages before and after attaching join without a gap or a duplicate.
//!             2. Messages of channels subscribed together keep the venue's order. A channel that
//!                is subscribed later, or caught up on, may be ahead of the others.
//!             3. Only connections without envelopes are attached. A lagging one gets its missed
//!                messages, of a merged book as one change, and is closed if they are gone.
//! Start at    [`Subscriptions::attach`].

use super::Subscriptions;
use crate::client::{ClientSubscription, ReadState};
use crate::history::NextMessage;
use crate::sink::{Attachment, ClientSink};

/// Most bytes that a connection gets before it is attached. With more to send, the delivery thread
/// asks for the rest as the connection reads.
pub(crate) const BEFORE_ATTACH_MAX: usize = 256 * 1024;

impl Subscriptions {
    /// Attaches a connection to the channels that it has subscribed to, as soon as the messages up
    /// to its snapshots have arrived.
    pub(crate) fn attach(&mut self, id: u64, sink: &mut dyn ClientSink) {
        let Some(client) = self.connections.clients.get(&id).filter(|client| client.is_delegated) else { return };
        self.connections.fresh.remove(&id);
        let last = self.follower.last();
        let is_early = client.subs.iter().any(|sub| sub.reads_history() && sub.after > last);
        if is_early || !client.subs.iter().all(ClientSubscription::is_in_step) {
            self.connections.unattached.insert(id);
        } else {
            self.connections.unattached.remove(&id);
        }
        if is_early {
            return;
        }
        let mut frames = Vec::new();
        if let Err((_, why)) = self.read(id, &mut frames, BEFORE_ATTACH_MAX) {
            return self.close_all(vec![id], why, sink);
        }
        let Some(client) = self.connections.clients.get_mut(&id) else { return };
        let mut attachments = Vec::new();
        for sub in client.subs.iter_mut().filter(|sub| sub.state == ReadState::Reading) {
            sub.state = ReadState::Attached;
            let Some(state) = self.channels.get(sub.channel) else { continue };
            let is_state = state.conflates;
            let read_to = match self.channels.history.next(sub.channel, sub.after) {
                NextMessage::Nothing => last,
                // A state has one message, and the delivery thread does not ask for it later.
                NextMessage::Message(found) if is_state => {
                    frames.extend_from_slice(found.frame);
                    last
                }
                NextMessage::Message(_) | NextMessage::Gone(_) => sub.after,
            };
            let ring_start = state.attached.is_empty().then_some(last);
            // The connection may be attached already under another name of the channel.
            if self.channels.attach(id, sub.channel) {
                attachments.push((sub.channel, Attachment { is_state, read_to, ring_start }));
            }
        }
        if !frames.is_empty() {
            sink.send_frames(id, frames);
        }
        attachments.into_iter().for_each(|(channel, attachment)| sink.attach(id, channel, attachment));
    }

    pub(crate) fn attach_waiting(&mut self, sink: &mut dyn ClientSink) {
        for id in std::mem::take(&mut self.connections.unattached) {
            self.attach(id, sink);
        }
    }
}
