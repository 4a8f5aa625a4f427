//! Sends the offers of the second account from a separate thread.
//!
//! Holds       the thread reads the answer to an offer only after the fill, so that it does not
//!             compete with the trading loop for a core. In reality the second account is on
//!             another machine.
//! Start at    [`OfferThread::start`].

use std::pin::{Pin, pin};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use pitwire_client::{Error, OrderRequest, Settings, VenueConnection};
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, oneshot};
use tokio::task::yield_now;

use crate::client_threads::event_loop;

/// Longest wait for a fill. Then the thread reads the answer to the offer, which may say why the
/// offer was not filled.
const FILL_PATIENCE: Duration = Duration::from_millis(100);

/// A step of one offer.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    Offer,
    /// The offer was taken.
    Filled,
}

/// Handle of the thread of the second account. The thread ends when the handle is dropped.
pub struct OfferThread {
    steps: Sender<Step>,
    answers: mpsc::UnboundedReceiver<Result<(), Error>>,
}

impl OfferThread {
    /// Opens the connection of the second account on a new thread.
    ///
    /// # Errors
    ///
    /// Fails like [`VenueConnection::open`], or if the thread ends.
    pub async fn start(settings: Settings, offer: OrderRequest) -> Result<Self, Error> {
        let failed = |cause: String| Error::Unreachable { address: settings.url.clone(), cause };
        let runtime = event_loop().map_err(|error| failed(error.to_string()))?;
        let ((steps, next_steps), (sender, answers)) = (channel(), mpsc::unbounded_channel());
        let (opened, is_open) = oneshot::channel();
        let own = settings.clone();
        thread::spawn(move || match runtime.block_on(VenueConnection::open(own)) {
            Ok(connection) => {
                drop(opened.send(Ok(())));
                serve(&runtime, &connection, &offer, &next_steps, &sender);
            }
            Err(error) => drop(opened.send(Err(error))),
        });
        is_open.await.unwrap_or_else(|_| Err(failed("the thread of the connection ended".into())))?;
        Ok(OfferThread { steps, answers })
    }

    /// Makes the second account send an offer. [`OfferThread::answer`] returns its answer.
    pub fn offer(&self) {
        // If the thread has ended, `answer` returns an error.
        drop(self.steps.send(Step::Offer));
    }

    /// Tells the thread that the offer was taken.
    pub fn filled(&self) {
        drop(self.steps.send(Step::Filled));
    }

    /// Waits for the answer to an offer. Dropping the future loses no answer.
    ///
    /// # Errors
    ///
    /// Fails like [`VenueConnection::call`], or if the thread has ended.
    pub async fn answer(&mut self) -> Result<(), Error> {
        let ended = || Error::Lost { cause: "the thread of the second account ended".into() };
        self.answers.recv().await.unwrap_or_else(|| Err(ended()))
    }
}

/// Sends an offer for each [`Step::Offer`], until the handle is dropped.
fn serve(
    runtime: &Runtime,
    connection: &VenueConnection,
    offer: &OrderRequest,
    steps: &Receiver<Step>,
    answers: &mpsc::UnboundedSender<Result<(), Error>>,
) {
    while let Ok(step) = steps.recv() {
        // This fill belongs to an offer whose answer was already read.
        if step == Step::Filled {
            continue;
        }
        let mut entered = pin!(connection.enter(offer));
        let early = runtime.block_on(until_sent(connection, entered.as_mut()));
        // During this wait the event loop does not run, so the answer stays in the socket.
        if early.is_none() && steps.recv_timeout(FILL_PATIENCE) == Err(RecvTimeoutError::Disconnected) {
            return;
        }
        let answer = early.unwrap_or_else(|| runtime.block_on(entered));
        if answers.send(answer.map(drop)).is_err() {
            return;
        }
    }
}

/// Polls a call until the socket has taken its bytes. Returns the answer if the call ends earlier.
async fn until_sent<T>(connection: &VenueConnection, mut call: Pin<&mut impl Future<Output = T>>) -> Option<T> {
    let before = connection.traffic().sent_bytes;
    while connection.traffic().sent_bytes == before {
        tokio::select! {
            answer = &mut call => return Some(answer),
            () = yield_now() => {}
        }
    }
    None
}
