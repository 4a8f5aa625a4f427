//! One feed dealt to workers: the connection, the transports, the policies for slow workers. See `docs/splitter.md`.

use pitwire_feed::Object;

/// A way to hand objects to workers.
///
/// Nothing here blocks but under `--on-slow block`: a worker that does not
/// take what is its own is dealt with by the policy for slow workers, at the cost of nobody else.
pub trait Transport {
    /// HOT. Objects of `text`, in order; each goes to its worker. May keep nothing of `text` beyond the call.
    fn deal(&mut self, text: &[u8], objects: &[Object]);

    /// A record of the splitter's own (a gap), for one worker, in its place among the objects.
    fn note(&mut self, worker: u32, record: &[u8]);

    /// Everything of one read has been dealt: hands over what is staged, wakes those who wait.
    fn hand_over(&mut self);
}
