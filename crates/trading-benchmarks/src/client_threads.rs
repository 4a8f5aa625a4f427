//! The threads that serve the client's connections.
//!
//! Start at    [`ClientThreads::new`].

use std::future::Future;
use std::io;
use std::thread;
use std::time::Duration;

use clap::ValueEnum;
use pitwire_client::{Error, Settings, VenueConnection};
use pitwire_failure::Failure;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;

/// Time for which [`ThreadModel::SpinLoop`] polls after a request, as long as `pitwire up` does.
const SPIN: Duration = Duration::from_micros(50);

/// How connections are divided among threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ThreadModel {
    /// One thread for all connections and the strategy.
    EventLoop,
    /// As event-loop, but it polls its sockets for 50 µs after each request before it sleeps.
    SpinLoop,
    /// As event-loop, but it never sleeps: it polls its sockets without end and uses a whole core.
    BusyLoop,
    /// One thread for each connection, and one for the strategy.
    PerConnection,
    /// As many threads as --workers for all connections, and one for the strategy.
    Pool,
}

impl ThreadModel {
    pub const fn name(self) -> &'static str {
        match self {
            ThreadModel::EventLoop => "event-loop",
            ThreadModel::SpinLoop => "spin-loop",
            ThreadModel::BusyLoop => "busy-loop",
            ThreadModel::PerConnection => "per-connection",
            ThreadModel::Pool => "pool",
        }
    }
}

/// The event loops of a benchmark.
pub struct ClientThreads {
    model: ThreadModel,
    runtime: Runtime,
}

/// Makes an event loop for the calling thread.
///
/// # Errors
///
/// Fails if the process has too many open files.
pub fn event_loop() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

impl ClientThreads {
    /// Starts the threads. `workers` counts for [`ThreadModel::Pool`] only.
    ///
    /// # Errors
    ///
    /// Fails if the system starts no further thread.
    pub fn new(model: ThreadModel, workers: usize) -> Result<ClientThreads, Failure> {
        let runtime = match model {
            ThreadModel::Pool => Builder::new_multi_thread().worker_threads(workers).enable_all().build(),
            ThreadModel::EventLoop | ThreadModel::SpinLoop | ThreadModel::BusyLoop | ThreadModel::PerConnection => {
                event_loop()
            }
        };
        let runtime = runtime.map_err(|error| Failure::new(format!("cannot start the event loop: {error}")))?;
        Ok(ClientThreads { model, runtime })
    }

    /// Runs the strategy on this thread until it ends.
    pub fn run<T>(&self, strategy: impl Future<Output = T>) -> T {
        self.runtime.block_on(async {
            if self.model == ThreadModel::BusyLoop {
                // A task that is always ready: the event loop polls its sockets between two turns
                // of the task, and never waits for them. It ends with the event loop.
                tokio::spawn(async {
                    loop {
                        tokio::task::yield_now().await;
                    }
                });
            }
            strategy.await
        })
    }

    /// Opens a connection on its thread.
    ///
    /// # Errors
    ///
    /// As [`VenueConnection::open`].
    pub async fn open(&self, settings: Settings) -> Result<VenueConnection, Error> {
        match self.model {
            ThreadModel::PerConnection => self.open_apart(settings).await,
            ThreadModel::SpinLoop => VenueConnection::open(Settings { spin: SPIN, ..settings }).await,
            ThreadModel::EventLoop | ThreadModel::BusyLoop | ThreadModel::Pool => VenueConnection::open(settings).await,
        }
    }

    /// Opens a connection on a new thread.
    ///
    /// # Errors
    ///
    /// As [`VenueConnection::open`].
    async fn open_apart(&self, settings: Settings) -> Result<VenueConnection, Error> {
        let failed = |cause: String| Error::Unreachable { address: settings.url.clone(), cause };
        let runtime = event_loop().map_err(|error| failed(error.to_string()))?;
        let (sender, opened) = oneshot::channel();
        let own = settings.clone();
        thread::spawn(move || {
            runtime.block_on(async {
                let connection = VenueConnection::open(own).await;
                let state = connection.as_ref().ok().map(VenueConnection::state);
                drop(sender.send(connection));
                if let Some(mut state) = state {
                    // The connection drops its state when the last handle is gone.
                    while state.changed().await.is_ok() {}
                }
            });
        });
        opened.await.unwrap_or_else(|_| Err(failed("the thread of the connection ended".into())))
    }
}
