//! The bounded queue of texts for one client.
//!
//! Start at    [`outbox`].

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{mpsc, watch};

/// Texts that wait for one client.
const TEXTS_MAX: usize = 4096;
/// Bytes that wait for one client. One text always fits.
const BYTES_MAX: usize = 8 << 20;

/// The writing end. Clones belong to the connections that answer the client.
#[derive(Clone, Debug)]
pub(crate) struct Outbox {
    texts: mpsc::Sender<String>,
    bytes: Arc<AtomicUsize>,
    end: watch::Sender<Option<&'static str>>,
}

/// The reading end, in the task of the client.
#[derive(Debug)]
pub(crate) struct OutboxReader {
    texts: mpsc::Receiver<String>,
    bytes: Arc<AtomicUsize>,
    end: watch::Receiver<Option<&'static str>>,
}

pub(crate) fn outbox() -> (Outbox, OutboxReader) {
    let (sender, receiver) = mpsc::channel(TEXTS_MAX);
    let bytes = Arc::new(AtomicUsize::new(0));
    let (end, ended) = watch::channel(None);
    let reader = OutboxReader { texts: receiver, bytes: Arc::clone(&bytes), end: ended };
    (Outbox { texts: sender, bytes, end }, reader)
}

impl Outbox {
    /// Queues a text. A client that has too much of it ends, because an answer cannot be left out.
    pub fn push(&self, text: String) {
        let before = self.bytes.fetch_add(text.len(), Ordering::Relaxed);
        if (before > 0 && before + text.len() > BYTES_MAX) || self.texts.try_send(text).is_err() {
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
    pub async fn next(&mut self) -> Outgoing {
        tokio::select! {
            biased;
            ended = self.end.wait_for(Option::is_some) => match ended {
                Ok(reason) => Outgoing::End(reason.unwrap_or_default()),
                Err(_) => Outgoing::End("the gateway forgot the client"),
            },
            Some(text) = self.texts.recv() => {
                self.bytes.fetch_sub(text.len(), Ordering::Relaxed);
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
        let (outbox, mut reader) = outbox();
        outbox.push("a".into());
        assert_eq!(reader.next().await, Outgoing::Text("a".into()));
        // One text above the bound still fits.
        outbox.push("b".repeat(BYTES_MAX + 1));
        assert!(matches!(reader.next().await, Outgoing::Text(text) if text.len() == BYTES_MAX + 1));
        outbox.push("c".repeat(BYTES_MAX));
        outbox.push("d".into());
        assert!(matches!(reader.next().await, Outgoing::End(_)));
    }
}
