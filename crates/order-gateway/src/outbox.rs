//! The bounded queues of texts for the clients.
//!
//! Holds       1. a client that has too many texts or bytes waiting ends;
//!             2. while all clients have too many bytes waiting, a client that gets more of them
//!                than its share ends, and the others go on.
//! Start at    [`WaitingBytes::outbox`].

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{mpsc, watch};

/// Texts that wait for one client.
const TEXTS_MAX: usize = 4096;
/// Bytes that wait for one client. One text always fits.
const BYTES_MAX: usize = 8 << 20;
/// Bytes that wait for all clients. Above this bound a client keeps only its share.
const ALL_BYTES_MAX: usize = 256 << 20;
/// Share of a client.
const SHARE_BYTES: usize = 1 << 20;

/// Bytes that wait for all clients of a gateway.
#[derive(Clone, Debug, Default)]
pub(crate) struct WaitingBytes(Arc<AtomicUsize>);

/// The writing end. Clones belong to the connections that answer the client.
#[derive(Clone, Debug)]
pub(crate) struct Outbox {
    texts: mpsc::Sender<String>,
    bytes: Arc<ClientBytes>,
    end: watch::Sender<Option<&'static str>>,
}

/// Bytes that wait for one client. They count among those of all clients until the client ends.
#[derive(Debug)]
struct ClientBytes {
    own: AtomicUsize,
    all: WaitingBytes,
}

impl ClientBytes {
    /// Adds the bytes of a text. Returns whether the client may have them.
    fn add(&self, bytes: usize) -> bool {
        let own = self.own.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let all = self.all.0.fetch_add(bytes, Ordering::Relaxed) + bytes;
        (own <= BYTES_MAX || own == bytes) && (all <= ALL_BYTES_MAX || own <= SHARE_BYTES)
    }

    fn remove(&self, bytes: usize) {
        self.own.fetch_sub(bytes, Ordering::Relaxed);
        self.all.0.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Drop for ClientBytes {
    fn drop(&mut self) {
        self.remove(self.own.load(Ordering::Relaxed));
    }
}

/// The reading end, in the task of the client.
#[derive(Debug)]
pub(crate) struct OutboxReader {
    texts: mpsc::Receiver<String>,
    bytes: Arc<ClientBytes>,
    /// Bytes of the text that is being sent.
    sending: usize,
    end: watch::Receiver<Option<&'static str>>,
}

impl WaitingBytes {
    /// Makes the queue of one client.
    pub fn outbox(&self) -> (Outbox, OutboxReader) {
        let (sender, receiver) = mpsc::channel(TEXTS_MAX);
        let bytes = Arc::new(ClientBytes { own: AtomicUsize::new(0), all: self.clone() });
        let (end, ended) = watch::channel(None);
        let reader = OutboxReader { texts: receiver, bytes: Arc::clone(&bytes), sending: 0, end: ended };
        (Outbox { texts: sender, bytes, end }, reader)
    }
}

impl Outbox {
    /// Queues a text. A client that has too much of it ends, because an answer cannot be left out.
    pub fn push(&self, text: String) {
        if !self.bytes.add(text.len()) || self.texts.try_send(text).is_err() {
            self.end("the client does not read its answers");
        }
    }

    /// Ends the client's connection.
    pub fn end(&self, reason: &'static str) {
        self.end.send_if_modified(|end| end.replace(reason).is_none());
    }
}

/// Next action of a client's task.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outgoing {
    Text(String),
    End(&'static str),
}

impl OutboxReader {
    /// Returns the next text. The one before it is sent.
    pub async fn next(&mut self) -> Outgoing {
        self.bytes.remove(std::mem::take(&mut self.sending));
        tokio::select! {
            biased;
            ended = self.end.wait_for(Option::is_some) => match ended {
                Ok(reason) => Outgoing::End(reason.unwrap_or_default()),
                Err(_) => Outgoing::End("the gateway forgot the client"),
            },
            Some(text) = self.texts.recv() => {
                self.sending = text.len();
                Outgoing::Text(text)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn client_that_does_not_read_is_ended() {
        let (outbox, mut reader) = WaitingBytes::default().outbox();
        outbox.push("a".into());
        assert_eq!(reader.next().await, Outgoing::Text("a".into()));
        // One text above the bound still fits.
        let sent = tokio::spawn(async move { (reader.next().await, reader) });
        tokio::task::yield_now().await;
        outbox.push("b".repeat(BYTES_MAX + 1));
        let (next, mut reader) = sent.await.unwrap();
        assert!(matches!(next, Outgoing::Text(text) if text.len() == BYTES_MAX + 1));
        // The text that is being sent counts.
        outbox.push("d".into());
        assert!(matches!(reader.next().await, Outgoing::End(_)));
    }

    #[tokio::test]
    async fn greedy_clients_end_before_all_of_them_fill_the_memory() {
        let all = WaitingBytes::default();
        let clients: Vec<_> = (0..ALL_BYTES_MAX / BYTES_MAX + 8).map(|_| all.outbox()).collect();
        let may_have = |bytes| clients.iter().filter(|(outbox, _)| outbox.bytes.add(bytes)).count();
        assert_eq!(may_have(SHARE_BYTES), clients.len());
        // All of them are within their own bound, and only some fit.
        let fitting = (ALL_BYTES_MAX - clients.len() * SHARE_BYTES) / (BYTES_MAX - SHARE_BYTES);
        assert_eq!(may_have(BYTES_MAX - SHARE_BYTES), fitting);
        // A client that reads is not among them.
        let (modest, mut reader) = all.outbox();
        modest.push("answer".into());
        assert_eq!(reader.next().await, Outgoing::Text("answer".into()));
        drop((clients, modest, reader));
        assert_eq!(all.0.load(Ordering::Relaxed), 0);
    }
}
