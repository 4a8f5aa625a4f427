//! The relay: channels of a venue in, numbered messages for local clients out.
//!
//! Does        subscribes at the venue, numbers the messages per channel, and gives a client that
//!             joins or lags the latest state.
//! Holds       1. a client gets each message after its state exactly once, or a gap mark;
//!             2. memory is bounded by the number of channels, whatever clients do.
//! Leaves out  sockets and slow clients, which `crates/publisher` handles.
//! Start at    [`RelayServer::run`].

use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{SystemTime, UNIX_EPOCH};

use pitwire_client::{Credentials, Settings};
use pitwire_failure::Failure;
use pitwire_publisher::{LagAnswer, LagPolicy, MessageBatch, Options, Publisher, StreamSpec, counted};
use pitwire_websocket::{Opcode, write_frame};
use tokio::sync::mpsc;
use tracing::info;

use crate::serving::channel::ServedChannel;
use crate::serving::feed_event::FeedEvent;
use crate::serving::form::Form;
use crate::serving::handler::{Job, RelayHandler};
use crate::serving::{binance, deribit};
use crate::upstream::Upstream;

/// Events of the venue that wait. Above this bound the client library discards the oldest, and says
/// how many.
const WAITING_EVENTS: usize = 1024;
/// Events that are published at once.
const BATCH_EVENTS: usize = 256;
/// Ring capacity per channel, in bytes. A client may be behind by half of it.
const RING_BYTES: usize = 1 << 20;

/// Settings of a relay.
pub struct ServeOptions {
    pub url: String,
    pub form: Form,
    /// PEM file of certificates to trust for `wss://` instead of the system's.
    pub authority: Option<PathBuf>,
    pub credentials: Option<Credentials>,
    pub channels: Vec<String>,
    pub listen: SocketAddr,
    /// Names under which clients reach the relay, besides localhost and its address.
    pub hosts: Vec<String>,
}

/// Figures of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct ServeFigures {
    /// Messages of the venue.
    pub messages: u64,
    /// Gap marks of the venue's side.
    pub upstream_gaps: u64,
    /// WebSockets of local clients.
    pub clients: u64,
    pub sent_bytes: u64,
}

pub struct RelayServer {
    publisher: Publisher,
    channels: Vec<ServedChannel>,
    epoch: u64,
    batch: MessageBatch,
    figures: ServeFigures,
}

impl RelayServer {
    /// Serves until `stop` is readable. Calls `ready` with the address once the venue has granted
    /// all channels.
    ///
    /// # Errors
    /// The port is taken, the venue cannot be reached or refuses a channel, or it ends the
    /// connection for good.
    pub fn run(
        options: ServeOptions,
        stop: UnixStream,
        ready: impl FnOnce(SocketAddr) -> Result<(), Failure>,
    ) -> Result<ServeFigures, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(Self::serve(options, stop, ready))
    }

    async fn serve(
        options: ServeOptions,
        stop: UnixStream,
        ready: impl FnOnce(SocketAddr) -> Result<(), Failure>,
    ) -> Result<ServeFigures, Failure> {
        let (events, mut arrived) = mpsc::channel(WAITING_EVENTS);
        let (jobs, mut waiting) = mpsc::unbounded_channel();
        let is_connected = Arc::new(AtomicBool::new(true));
        let handler = Arc::new(RelayHandler::new(&options.channels, jobs, Arc::clone(&is_connected)));
        let mut server = RelayServer::start(&options, &handler)?;
        match options.form {
            Form::Deribit => {
                let settings = Settings {
                    authority: options.authority.clone(),
                    credentials: options.credentials.clone(),
                    ..Settings::new(&options.url)
                };
                deribit::follow(settings, &options.channels, &events, is_connected).await?;
            }
            Form::Binance => {
                let upstream = Upstream::parse(&options.url, options.authority.as_deref())?;
                binance::follow(upstream, &options.channels, events.clone(), is_connected).await?;
            }
        }
        stop.set_nonblocking(true)?;
        let stop = tokio::net::UnixStream::from_std(stop)?;
        let address = server.publisher.address().unwrap_or(options.listen);
        info!(%address, "the relay serves");
        ready(address)?;
        loop {
            tokio::select! {
                _ = stop.readable() => break,
                Some(job) = waiting.recv() => server.answer(job),
                Some(event) = arrived.recv() => {
                    server.take(event)?;
                    for _ in 1..BATCH_EVENTS {
                        let Ok(event) = arrived.try_recv() else { break };
                        server.take(event)?;
                    }
                    server.publisher.send(&mut server.batch);
                }
            }
        }
        server.publisher.stop("the relay stops")?;
        let total = |name: &str| counted(server.publisher.statistics(), name);
        server.figures.clients = total("opened_total");
        server.figures.sent_bytes = total("sent_bytes_total");
        Ok(server.figures)
    }

    /// Opens the port and creates the streams.
    fn start(options: &ServeOptions, handler: &Arc<RelayHandler>) -> Result<Self, Failure> {
        let epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let epoch = u64::try_from(epoch.as_millis()).unwrap_or(0);
        let settings =
            Options { listen: Some(options.listen), hosts: options.hosts.clone(), epoch, ..Options::default() };
        let publisher = Publisher::start(settings, Arc::<RelayHandler>::clone(handler)).map_err(|error| {
            Failure::new(format!("cannot listen on {}: {error}", options.listen))
                .remedy("stop what uses the port, or give another with --listen")
        })?;
        handler.set_statistics(Arc::clone(publisher.statistics()));
        let channels = options.channels.iter().enumerate().map(|(number, name)| {
            // The clients get the channel's name in the messages.
            let name_of_stream = format!("c{number}");
            let spec = StreamSpec {
                name: name_of_stream,
                lag: LagPolicy::Ask,
                ring_bytes: RING_BYTES,
                snapshot: false,
                keep: true,
            };
            ServedChannel::new(options.form, name, publisher.create(&spec), epoch)
        });
        let channels = channels.collect();
        Ok(RelayServer { publisher, channels, epoch, batch: MessageBatch::default(), figures: ServeFigures::default() })
    }

    fn take(&mut self, event: FeedEvent) -> Result<(), Failure> {
        let (channel, text) = match event {
            FeedEvent::Update { channel, data } => {
                self.figures.messages += 1;
                let served = &mut self.channels[channel];
                (channel, served.update(data))
            }
            FeedEvent::Gap { channel, reason } => {
                self.figures.upstream_gaps += 1;
                (channel, self.channels[channel].gap(&reason))
            }
            FeedEvent::Ended { reason } => {
                return Err(
                    Failure::new(format!("the venue ended the subscription: {reason}")).remedy("start the relay again")
                );
            }
        };
        let served = &self.channels[channel];
        self.batch.text(served.stream, b"", served.seq(), text.as_bytes());
        Ok(())
    }

    /// Answers a client. Everything up to the last number has been published.
    fn answer(&mut self, job: Job) {
        match job {
            Job::Join { client, channels, from } => {
                for number in channels {
                    let served = &self.channels[number];
                    let read = match from {
                        Some((epoch, seq)) if epoch == self.epoch && seq <= served.seq() => seq,
                        _ => {
                            if let Some(state) = served.state() {
                                self.publisher.send_text(client, state.as_bytes());
                            }
                            served.seq()
                        }
                    };
                    self.publisher.join_behind(client, served.stream, read);
                }
            }
            Job::Behind { client, stream, read } => {
                let Some(served) = self.channels.iter().find(|served| served.stream == stream) else { return };
                let mut frames = Vec::new();
                write_frame(&mut frames, Opcode::Text, served.missed(read).as_bytes());
                if let Some(state) = served.state() {
                    write_frame(&mut frames, Opcode::Text, state.as_bytes());
                }
                self.publisher.go_on(client, stream, read, LagAnswer::Frames { frames, seq: served.seq() });
            }
        }
    }
}
