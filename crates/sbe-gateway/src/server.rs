//! The listener and its connections.

use std::collections::HashMap;
use std::fmt;
use std::future::pending;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use pitwire_client::Credentials;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{Mutex, Semaphore, mpsc, watch};
use tokio::time::{Interval, MissedTickBehavior, interval, timeout};
use tracing::{info, warn};

use crate::codec::{FRAME_HEADER_BYTES, FrameError, frame_length};
use crate::cointossx::{CoinTossXProfile, CtxMembers};
use crate::messages::{Heartbeat, LogonAccepted, Logout, RetransmitComplete, RetransmitRequest, SbeMessage};
use crate::profile::{ALREADY_LOGGED_ON, ClientMessage, PitwireProfile, Profile, PublicSink, Refusal};
use crate::session::{SbeSession, check_login};
use crate::translate::Rejection;

/// Longest frame of a client, in bytes.
const MAX_FRAME_BYTES: usize = 1024;
/// Connections at the same time. Above it, a new connection is closed.
const MAX_CONNECTIONS: usize = 256;
/// Time in which a new connection must send its logon.
const LOGON_PATIENCE: Duration = Duration::from_secs(5);
/// Time in which a client must read a message that was sent to it.
const SEND_PATIENCE: Duration = Duration::from_secs(10);
/// A client that is silent for this many heartbeat intervals counts as dead.
const SILENT_INTERVALS: u32 = 3;
/// Longest wait for the connections' last messages when the gateway stops.
const STOP_PATIENCE: Duration = Duration::from_secs(1);
/// Pause after a failed accept, so that a lack of file descriptors does not keep a core busy.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Why the gateway does not start.
#[derive(Debug)]
pub enum StartError {
    /// Secrets travel unencrypted, so the gateway listens on loopback addresses only.
    NotLoopback(SocketAddr),
    Io(io::Error),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::NotLoopback(address) => {
                write!(f, "{address} is not a loopback address, and binary order entry has no encryption")
            }
            StartError::Io(error) => write!(f, "cannot start binary order entry: {error}"),
        }
    }
}

impl std::error::Error for StartError {}

impl From<io::Error> for StartError {
    fn from(error: io::Error) -> Self {
        StartError::Io(error)
    }
}

/// Schema that a gateway serves.
#[derive(Clone, Debug)]
pub enum EntrySchema {
    /// `contracts/pitwire-order-entry.xml`.
    Pitwire,
    /// `contracts/cointossx-*.xml`, for these members.
    CoinTossX(CtxMembers),
}

/// The running gateway, on its thread.
pub struct SbeGateway {
    address: SocketAddr,
    stop: watch::Sender<bool>,
    thread: JoinHandle<()>,
}

impl SbeGateway {
    /// Serves `listener`. `venue_url` is the WebSocket URL of the venue, and `epoch` identifies the
    /// numbering of this start.
    ///
    /// # Errors
    ///
    /// Fails if the listener's address is not a loopback address, or if the thread cannot start.
    pub fn start(
        listener: TcpListener,
        venue_url: String,
        epoch: u64,
        schema: EntrySchema,
    ) -> Result<Self, StartError> {
        let address = listener.local_addr()?;
        if !address.ip().to_canonical().is_loopback() {
            return Err(StartError::NotLoopback(address));
        }
        listener.set_nonblocking(true)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = watch::channel(false);
        let profile: Box<dyn Profile> = match schema {
            EntrySchema::Pitwire => Box::new(PitwireProfile),
            EntrySchema::CoinTossX(members) => Box::new(CoinTossXProfile::new(members)),
        };
        let gateway = Gateway { profile, venue_url, epoch, sessions: Mutex::new(HashMap::new()) };
        let serve = move || {
            let served = runtime.block_on(accept_connections(listener, Arc::new(gateway), stopped));
            if let Err(error) = served {
                warn!(%error, "binary order entry stopped");
            }
        };
        let thread = thread::Builder::new().name("sbe-gateway".into()).spawn(serve)?;
        Ok(SbeGateway { address, stop, thread })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Logs the clients out and waits for the thread.
    pub fn stop(self) {
        self.stop.send_replace(true);
        if self.thread.join().is_err() {
            warn!("the thread of binary order entry panicked");
        }
    }
}

struct Gateway {
    profile: Box<dyn Profile>,
    venue_url: String,
    epoch: u64,
    /// The sessions by client id. Logons take turns, so that a client id gets one session.
    sessions: Mutex<HashMap<String, Arc<SbeSession>>>,
}

async fn accept_connections(
    listener: TcpListener,
    gateway: Arc<Gateway>,
    mut stopped: watch::Receiver<bool>,
) -> io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let permits = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let accepted = tokio::select! {
            _ = stopped.changed() => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((socket, peer)) => match Arc::clone(&permits).try_acquire_owned() {
                Ok(permit) => {
                    let (gateway, stopped) = (Arc::clone(&gateway), stopped.clone());
                    tokio::spawn(async move {
                        if let Err(error) = serve_tcp(socket, &gateway, stopped).await {
                            info!(%peer, %error, "a connection of binary order entry ended");
                        }
                        drop(permit);
                    });
                }
                Err(_) => warn!(%peer, MAX_CONNECTIONS, "too many connections of binary order entry; closing one"),
            },
            Err(error) => {
                warn!(%error, "cannot accept a connection of binary order entry");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    let all = u32::try_from(MAX_CONNECTIONS).unwrap_or(u32::MAX);
    drop(timeout(STOP_PATIENCE, permits.acquire_many(all)).await);
    Ok(())
}

fn logout(code: i32, reason: impl Into<String>) -> Logout {
    Logout { code, reason: reason.into() }
}

fn invalid(reason: impl Into<String>) -> Logout {
    let refusal = Rejection::invalid(reason, "");
    logout(refusal.code, refusal.reason)
}

/// Why no frame was read.
enum ReadEnd {
    /// The client closed the connection, or it failed.
    Closed,
    Frame(FrameError),
}

/// Reads one frame into `frame`. Dropping the future loses the bytes that it has read.
async fn read_frame(reader: &mut (impl AsyncRead + Unpin), frame: &mut Vec<u8>) -> Result<(), ReadEnd> {
    let mut header = [0; FRAME_HEADER_BYTES];
    reader.read_exact(&mut header).await.map_err(|_| ReadEnd::Closed)?;
    let bytes = frame_length(header, MAX_FRAME_BYTES).map_err(ReadEnd::Frame)?;
    frame.clear();
    frame.extend_from_slice(&header);
    frame.resize(bytes, 0);
    reader.read_exact(&mut frame[FRAME_HEADER_BYTES..]).await.map_err(|_| ReadEnd::Closed)?;
    Ok(())
}

async fn send(writer: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> io::Result<()> {
    timeout(SEND_PATIENCE, writer.write_all(bytes))
        .await
        .map_err(|_| io::Error::new(io::ErrorKind::TimedOut, "the client does not read"))?
}

/// Frees the session for the next connection of its client.
struct Claim(Arc<SbeSession>);

impl Drop for Claim {
    fn drop(&mut self) {
        self.0.release();
    }
}

impl Gateway {
    /// Opens or resumes the session of a client.
    async fn log_on(&self, client_id: &str, secret: &str) -> Result<Claim, Logout> {
        let credentials = Credentials::new(client_id, secret);
        let mut sessions = self.sessions.lock().await;
        let refused = |error| {
            let Rejection { code, reason, .. } = Rejection::from(error);
            logout(code, reason)
        };
        let session = match sessions.get(client_id).filter(|session| !session.has_ended()) {
            Some(session) => {
                check_login(&self.venue_url, credentials).await.map_err(refused)?;
                Arc::clone(session)
            }
            None => {
                let opened = SbeSession::open(&self.venue_url, credentials, self.profile.as_ref()).await;
                let session = opened.map_err(refused)?;
                sessions.insert(client_id.to_owned(), Arc::clone(&session));
                session
            }
        };
        if session.claim() { Ok(Claim(session)) } else { Err(invalid(ALREADY_LOGGED_ON)) }
    }
}

async fn serve_tcp(socket: TcpStream, gateway: &Gateway, stopped: watch::Receiver<bool>) -> io::Result<()> {
    socket.set_nodelay(true)?;
    let (mut reader, mut writer) = socket.into_split();
    serve(&mut reader, &mut writer, gateway, stopped).await
}

/// Serves one connection of any transport that carries frames.
async fn serve(
    reader: &mut (impl AsyncRead + Unpin),
    writer: &mut (impl AsyncWrite + Unpin),
    gateway: &Gateway,
    stopped: watch::Receiver<bool>,
) -> io::Result<()> {
    let mut frame = Vec::with_capacity(MAX_FRAME_BYTES);
    let logon = match timeout(LOGON_PATIENCE, read_frame(reader, &mut frame)).await {
        Err(_) => Err(invalid(format!("no logon within {} s", LOGON_PATIENCE.as_secs()))),
        Ok(Err(ReadEnd::Closed)) => return Ok(()),
        Ok(Err(ReadEnd::Frame(error))) => Err(invalid(error.to_string())),
        Ok(Ok(())) => gateway.profile.decode_logon(&frame).map_err(invalid),
    };
    let logon = match logon {
        Ok(logon) => logon,
        Err(logout) => return send(writer, &gateway.profile.refuse_logon(logout)).await,
    };
    let claim = match gateway.log_on(logon.client_id.as_str(), logon.secret.as_str()).await {
        Ok(claim) => claim,
        Err(logout) => return send(writer, &gateway.profile.refuse_logon(logout)).await,
    };
    let session = &claim.0;
    let (next, oldest) = {
        let log = session.log();
        (log.next(), log.oldest())
    };
    if logon.next_sequence > next {
        let reason = format!("next_sequence {}: expected at most {next}; compare the epoch", logon.next_sequence);
        return send(writer, &session.encode(invalid(reason))).await;
    }
    let accepted = LogonAccepted { epoch: gateway.epoch, next_sequence: next, oldest_sequence: oldest };
    send(writer, &session.encode(accepted)).await?;
    let cursor = if logon.next_sequence == 0 { next } else { logon.next_sequence.max(oldest) };
    let heartbeat = (logon.heartbeat_s > 0).then(|| Duration::from_secs(logon.heartbeat_s.into()));
    let (controls, waiting) = mpsc::channel(1);
    let requests = async {
        let end = read_requests(session, reader, &controls, heartbeat.map(|every| every * SILENT_INTERVALS)).await;
        // A send fails only if the writer has ended, which ends this future, too.
        drop(controls.send(WriterCommand::End(end)).await);
        pending().await
    };
    let sending = SendHalf { session, writer, cursor };
    let result = tokio::select! {
        result = sending.run(waiting, stopped, heartbeat) => result,
        () = requests => Ok(()),
    };
    session.end_connection().await;
    result
}

/// Waits for the time of the next heartbeat.
async fn next_tick(ticks: &mut Option<Interval>) {
    match ticks {
        Some(ticks) => {
            ticks.tick().await;
        }
        None => pending().await,
    }
}

/// Order of the reading half of a connection to the sending half.
enum WriterCommand {
    Retransmit(RetransmitRequest),
    /// Sends the logout, if there is one, and closes the connection.
    End(Option<Logout>),
}

/// Reads and executes requests. A client that is silent for `patience` has ended. Returns the
/// logout to send at the end of the connection.
async fn read_requests(
    session: &Arc<SbeSession>,
    reader: &mut (impl AsyncRead + Unpin),
    controls: &mpsc::Sender<WriterCommand>,
    patience: Option<Duration>,
) -> Option<Logout> {
    let mut frame = Vec::with_capacity(MAX_FRAME_BYTES);
    loop {
        let read = read_frame(reader, &mut frame);
        let read = match patience {
            Some(patience) => timeout(patience, read).await.map_err(|_| patience),
            None => Ok(read.await),
        };
        match read {
            Err(patience) => return Some(invalid(format!("no message within {} s", patience.as_secs()))),
            Ok(Err(ReadEnd::Closed)) => return None,
            Ok(Err(ReadEnd::Frame(error))) => return Some(invalid(error.to_string())),
            Ok(Ok(())) => {}
        }
        let message = match session.decode(&frame) {
            Ok(ClientMessage::Message(message)) => message,
            Ok(ClientMessage::Answer(frames)) => {
                session.push(frames);
                continue;
            }
            Ok(ClientMessage::Public { instrument_id, is_wanted, answer }) => {
                match session.follow_public(instrument_id, is_wanted).await {
                    Ok(()) => session.push(answer),
                    Err(rejection) => session.refuse(Refusal { request_id: 0, template_id: 0, rejection }),
                }
                continue;
            }
            Err(refusal) => {
                session.refuse(refusal);
                continue;
            }
        };
        match *message {
            SbeMessage::Heartbeat(_) => {}
            SbeMessage::Logout(_) => return Some(logout(0, "")),
            SbeMessage::RetransmitRequest(request) => {
                if controls.send(WriterCommand::Retransmit(request)).await.is_err() {
                    return None;
                }
            }
            request => {
                // A separate task, because the answer must reach the log even if the connection
                // ends before the venue has answered.
                let session = Arc::clone(session);
                if tokio::spawn(async move { session.execute(request).await }).await.is_err() {
                    return Some(logout(-32000, "the gateway failed on this request; query the order"));
                }
            }
        }
    }
}

/// The sending half of a connection.
struct SendHalf<'a, W> {
    session: &'a SbeSession,
    writer: &'a mut W,
    /// Number of the next message to send.
    cursor: u64,
}

impl<W: AsyncWrite + Unpin> SendHalf<'_, W> {
    async fn run(
        mut self,
        mut controls: mpsc::Receiver<WriterCommand>,
        mut stopped: watch::Receiver<bool>,
        heartbeat: Option<Duration>,
    ) -> io::Result<()> {
        let mut progress = self.session.progress();
        let mut ticks = heartbeat.map(interval);
        if let Some(ticks) = &mut ticks {
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        }
        loop {
            progress.borrow_and_update();
            if !self.send_new().await? {
                let reason = format!("the client fell behind: message {} is no longer kept", self.cursor);
                return self.send_message(invalid(reason)).await;
            }
            if !self.send_unnumbered().await? {
                return self.send_message(invalid("the client fell behind in the public data")).await;
            }
            if self.session.has_ended() {
                return self.send_message(logout(13009, "the venue ended the login")).await;
            }
            if *stopped.borrow() {
                return self.send_message(logout(0, "the venue stops")).await;
            }
            tokio::select! {
                _ = progress.changed() => {}
                _ = stopped.changed() => {}
                () = next_tick(&mut ticks) => self.send_message(Heartbeat { next_sequence: self.cursor }).await?,
                control = controls.recv() => match control {
                    Some(WriterCommand::Retransmit(request)) => self.retransmit(&request).await?,
                    Some(WriterCommand::End(logout)) => {
                        // The answers to the last requests precede the logout.
                        self.send_new().await?;
                        self.send_unnumbered().await?;
                        return match logout {
                            Some(logout) => self.send_message(logout).await,
                            None => Ok(()),
                        };
                    }
                    None => return Ok(()),
                },
            }
        }
    }

    async fn send_message(&mut self, message: impl Into<SbeMessage>) -> io::Result<()> {
        send(self.writer, &self.session.encode(message)).await
    }

    /// Sends the frames without number. Returns `false` if some were discarded.
    async fn send_unnumbered(&mut self) -> io::Result<bool> {
        loop {
            let frame = {
                let mut queue = self.session.unnumbered();
                if queue.has_overflowed {
                    return Ok(false);
                }
                queue.pop()
            };
            let Some(frame) = frame else { return Ok(true) };
            send(self.writer, &frame).await?;
        }
    }

    /// Sends the messages that the client does not have. Returns `false` if one is not kept.
    async fn send_new(&mut self) -> io::Result<bool> {
        loop {
            let frame = {
                let log = self.session.log();
                if self.cursor == log.next() {
                    return Ok(true);
                }
                log.get(self.cursor)
            };
            let Some(frame) = frame else { return Ok(false) };
            send(self.writer, &frame).await?;
            self.cursor += 1;
        }
    }

    async fn retransmit(&mut self, request: &RetransmitRequest) -> io::Result<()> {
        let &RetransmitRequest { from_sequence, to_sequence } = request;
        let (oldest, next) = {
            let log = self.session.log();
            (log.oldest(), log.next())
        };
        send(self.writer, &self.session.acknowledge_retransmit()).await?;
        let mut sent = 0;
        for sequence in from_sequence.max(oldest)..=to_sequence.min(next - 1) {
            let Some(frame) = self.session.log().get(sequence) else { continue };
            send(self.writer, &frame).await?;
            sent += 1;
        }
        let requested = to_sequence.checked_sub(from_sequence).map_or(0, |more| more.saturating_add(1));
        let complete = RetransmitComplete { from_sequence, to_sequence, missing: requested - sent };
        self.send_message(complete).await
    }
}
