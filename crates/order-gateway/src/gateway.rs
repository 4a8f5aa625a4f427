//! The listener of a gateway, and its connections.
//!
//! Start at    [`OrderGateway::run`].

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use pitwire_failure::Failure;
use pitwire_net::OriginPolicy;
use pitwire_relay::{Refusal, Upstream, answer, read_request};
use pitwire_websocket::head::{self, HeadLimits, HeadParseResult};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, watch};
use tokio::time::{sleep, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{self, Message};
use tracing::{debug, info, warn};

use crate::edge::{Edge, Uplinks};
use crate::outbox::{OutboxReader, Outgoing, WaitingBytes};
use crate::session::Session;
use crate::throttle::{Rate, Throttle};
use crate::uplink::Uplink;

/// Largest message of a client, in bytes; as at the venue.
const MESSAGE_BYTES_MAX: usize = 32 * 1024;
/// Time in which a client must read a message.
const SEND_PATIENCE: Duration = Duration::from_secs(10);
const SHORTEST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// Pause after a failed accept, so that a lack of file descriptors does not keep a core busy.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Settings of a gateway.
pub struct GatewayOptions {
    /// WebSocket URL of the venue.
    pub url: String,
    /// PEM file of certificates to trust for `wss://` instead of the system's.
    pub authority: Option<PathBuf>,
    /// Names under which clients reach the gateway, besides localhost and its address.
    pub hosts: Vec<String>,
    /// Requests of each client id. `None` leaves the limits to the venue.
    pub rate: Option<Rate>,
    pub connections_max: usize,
}

/// Figures of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct GatewayFigures {
    pub connections: u64,
    /// Requests over the shared connection.
    pub forwarded: u64,
    /// Requests that the gateway refused.
    pub refused: u64,
    /// Shared connections that were opened.
    pub uplinks: u64,
}

/// An order gateway.
pub struct OrderGateway;

impl OrderGateway {
    /// Serves until `stop` is readable. Calls `ready` once the venue is there.
    ///
    /// # Errors
    /// The URL is wrong, or a socket cannot be set up. If the venue is away, the gateway waits for
    /// it.
    pub fn run(
        options: GatewayOptions,
        listener: TcpListener,
        stop: UnixStream,
        ready: impl FnOnce() -> Result<(), Failure>,
    ) -> Result<GatewayFigures, Failure> {
        let venue = Upstream::parse(&options.url, options.authority.as_deref())?;
        let address = listener.local_addr()?;
        listener.set_nonblocking(true)?;
        stop.set_nonblocking(true)?;
        let edge = Arc::new(Edge {
            venue,
            url: options.url,
            throttle: Throttle::new(options.rate),
            forwarded: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            connections: AtomicU64::new(0),
            waiting: WaitingBytes::default(),
            origins: OriginPolicy::new(address.ip(), &options.hosts),
            uplinks: watch::Sender::new(None),
        });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let stop = tokio::net::UnixStream::from_std(stop)?;
            let opened = Arc::new(AtomicU64::new(0));
            tokio::spawn(keep_uplinks(Arc::clone(&edge), Arc::clone(&opened)));
            tokio::spawn(accept(
                tokio::net::TcpListener::from_std(listener)?,
                Arc::clone(&edge),
                options.connections_max,
            ));
            let mut uplinks = edge.uplinks.subscribe();
            // The value is locked while it is borrowed, so the borrow ends here.
            let venue_is_there = async { uplinks.wait_for(Option::is_some).await.is_ok() };
            tokio::select! {
                _ = stop.readable() => {}
                _ = venue_is_there => {
                    ready()?;
                    drop(stop.readable().await);
                }
            }
            // Clients get a close frame, and resume elsewhere.
            edge.uplinks.send_replace(None);
            sleep(SHORTEST_PAUSE).await;
            Ok::<_, Failure>(GatewayFigures {
                connections: edge.connections.load(Ordering::Relaxed),
                forwarded: edge.forwarded.load(Ordering::Relaxed),
                refused: edge.refused.load(Ordering::Relaxed),
                uplinks: opened.load(Ordering::Relaxed),
            })
        })
    }
}

/// Opens the connections to the venue, again and again.
async fn keep_uplinks(edge: Arc<Edge>, opened: Arc<AtomicU64>) {
    let mut pause = SHORTEST_PAUSE;
    loop {
        let open = async {
            let requests = Uplink::open(&edge.venue, &edge.url).await?;
            let logins = Uplink::open(&edge.venue, &edge.url).await?;
            Ok::<_, String>(Uplinks { requests, logins })
        };
        match open.await {
            Ok(mut uplinks) => {
                info!("connected to the venue");
                opened.fetch_add(1, Ordering::Relaxed);
                pause = SHORTEST_PAUSE;
                edge.uplinks.send_replace(Some(uplinks.clone()));
                let cause = tokio::select! {
                    cause = uplinks.requests.ended() => cause,
                    cause = uplinks.logins.ended() => cause,
                };
                warn!(cause, "lost the venue; closing all clients");
                edge.uplinks.send_replace(None);
            }
            Err(cause) => {
                warn!(cause, "the venue is away");
                sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
    }
}

async fn accept(listener: tokio::net::TcpListener, edge: Arc<Edge>, connections_max: usize) {
    let permits = Arc::new(Semaphore::new(connections_max));
    loop {
        match listener.accept().await {
            Ok((socket, peer)) => {
                let (edge, permit) = (Arc::clone(&edge), Arc::clone(&permits).try_acquire_owned());
                tokio::spawn(async move {
                    if let Err(error) = serve(socket, peer, edge, permit.is_err()).await {
                        debug!(%peer, %error, "a connection of the order gateway ended");
                    }
                    drop(permit);
                });
            }
            Err(error) => {
                warn!(%error, "cannot accept a connection");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Serves one connection: a WebSocket, or the health check of a balancer.
async fn serve(mut socket: TcpStream, peer: SocketAddr, edge: Arc<Edge>, is_full: bool) -> io::Result<()> {
    socket.set_nodelay(true)?;
    let mut received = Vec::with_capacity(1024);
    match read_request(&mut socket, &mut received, &edge.origins).await {
        Ok(true) => {}
        Ok(false) => return Ok(()),
        Err(Refusal { status, reason }) => return answer(&mut socket, status, reason).await,
    }
    let HeadParseResult::Head(head) = head::parse(&received, &HeadLimits::default()) else { return Ok(()) };
    // A change after this point ends the connection.
    let mut changes = edge.uplinks.subscribe();
    let uplinks = changes.borrow_and_update().clone();
    let Some(uplinks) = uplinks else {
        return answer(&mut socket, 503, "the venue is away; try another gateway").await;
    };
    if head.path() == "/healthz" {
        return answer(&mut socket, 200, "ok").await;
    }
    if is_full {
        return answer(&mut socket, 503, "this gateway has too many connections; try another one").await;
    }
    let handshake = match head.upgrade(None) {
        Ok(handshake) => handshake,
        Err(refusal) => return answer(&mut socket, refusal.status, refusal.reason).await,
    };
    let head_bytes = head.head_bytes;
    let mut response = Vec::new();
    handshake.write(&mut response);
    socket.write_all(&response).await?;
    let rest = received.split_off(head_bytes);
    let config =
        WebSocketConfig::default().max_message_size(Some(MESSAGE_BYTES_MAX)).max_frame_size(Some(MESSAGE_BYTES_MAX));
    let client = WebSocketStream::from_partially_read(socket, rest, Role::Server, Some(config)).await;
    edge.connections.fetch_add(1, Ordering::Relaxed);
    let (sender, reader) = edge.waiting.outbox();
    let session = Session::new(Arc::clone(&edge), uplinks, sender, peer.ip().to_string());
    exchange(client, session, reader, changes).await
}

/// Passes messages in both directions until one side ends.
async fn exchange(
    client: WebSocketStream<TcpStream>,
    mut session: Session,
    mut outgoing: OutboxReader,
    mut changes: watch::Receiver<Option<Uplinks>>,
) -> io::Result<()> {
    let (mut writer, mut reader) = client.split();
    let write = async {
        loop {
            let next = tokio::select! {
                next = outgoing.next() => next,
                _ = changes.changed() => Outgoing::End("the venue is away"),
            };
            let sent = match next {
                Outgoing::Text(text) => timeout(SEND_PATIENCE, writer.send(Message::text(text))).await,
                Outgoing::End(reason) => {
                    let frame = CloseFrame { code: CloseCode::Restart, reason: reason.into() };
                    drop(timeout(SEND_PATIENCE, writer.send(Message::Close(Some(frame)))).await);
                    return Ok::<_, io::Error>(());
                }
            };
            match sent {
                Ok(sent) => sent.map_err(io::Error::other)?,
                Err(_) => return Ok(()),
            }
        }
    };
    let read = async {
        loop {
            match reader.next().await {
                None | Some(Ok(Message::Close(_))) => return Ok::<_, io::Error>(false),
                Some(Err(tungstenite::Error::Capacity(_))) => return Ok(true),
                Some(Err(error)) => return Err(io::Error::other(error)),
                Some(Ok(Message::Text(text))) => session.take(&text).await,
                // The library answers pings.
                Some(Ok(_)) => {}
            }
        }
    };
    let is_too_large = tokio::select! {
        done = write => done.map(|()| false),
        done = read => done,
    }?;
    if is_too_large {
        let frame = CloseFrame { code: CloseCode::Size, reason: "a message has at most 32 KiB".into() };
        drop(timeout(SEND_PATIENCE, writer.send(Message::Close(Some(frame)))).await);
    }
    Ok(())
}
