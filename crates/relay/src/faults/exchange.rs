//! One connection through the proxy: a WebSocket, or one HTTP request and its response.
//!
//! Does        forwards the request, splits a WebSocket into messages, and passes each through the
//!             queue of its direction.
//! Start at    [`serve`].

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pitwire_fault_script::{Direction, FaultKind, FaultScript};
use pitwire_net::OriginPolicy;
use pitwire_websocket::head::{self, Head, HeadLimits, HeadParseResult};
use pitwire_websocket::{Address, CloseCode, Opcode, write_close, write_masked};
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{sleep_until, timeout};

use crate::faults::counts::FaultCounts;
use crate::faults::direction::{DirectionQueue, End, Step};
use crate::faults::messages::{MessageSplitter, RawMessage};
use crate::front::{Refusal, answer, read_request};
use crate::upstream::{Upstream, UpstreamSocket};

/// Time in which the venue must answer a handshake, and one direction must end after the other.
const PATIENCE: Duration = Duration::from_secs(5);
/// Largest message, and largest response without WebSocket.
const MESSAGE_BYTES_MAX: usize = 64 << 20;
/// Bytes that wait in one direction before the proxy stops reading from the sender.
const QUEUE_BYTES_MAX: usize = 4 << 20;
/// Largest head of a response.
const RESPONSE_HEAD_BYTES_MAX: usize = 64 << 10;
const READ_BYTES: usize = 64 << 10;
/// Headers of a request that the proxy writes itself, or leaves out.
const OWN_HEADERS: [&str; 4] = ["host", "origin", "connection", "sec-websocket-extensions"];

/// State that all connections share.
pub(crate) struct ProxyState {
    pub upstream: Upstream,
    pub script: Arc<FaultScript>,
    pub counts: Arc<FaultCounts>,
    pub origins: OriginPolicy,
}

/// Serves one client.
///
/// # Errors
/// A socket failed, or a message is too large.
pub(crate) async fn serve(mut client: TcpStream, shared: &ProxyState, connection: u64) -> io::Result<()> {
    if shared.script.refuses(connection) && shared.counts.is_active() {
        shared.counts.count(FaultKind::Refuse);
        return reset(client);
    }
    client.set_nodelay(true)?;
    let mut received = Vec::with_capacity(4096);
    match read_request(&mut client, &mut received, &shared.origins).await {
        Ok(true) => {}
        Ok(false) => return Ok(()),
        Err(Refusal { status, reason }) => return answer(&mut client, status, reason).await,
    }
    let Some(request) = VenueRequest::of(&received, shared.upstream.address()) else { return Ok(()) };
    let venue = match shared.upstream.connect().await {
        Ok(venue) => venue,
        Err(error) => {
            tracing::warn!(%error, "cannot reach the venue");
            return answer(&mut client, 502, "the venue cannot be reached").await;
        }
    };
    let queue = |direction| DirectionQueue::new(shared.script.clone(), shared.counts.clone(), connection, direction);
    let exchange =
        Exchange { client, venue, from_client: queue(Direction::FromClient), from_venue: queue(Direction::FromVenue) };
    if request.is_upgrade { exchange.web_socket(request).await } else { exchange.http(request.bytes).await }
}

/// Closes a connection so that its peer gets a reset instead of an end.
fn reset(socket: TcpStream) -> io::Result<()> {
    SockRef::from(&socket).set_linger(Some(Duration::ZERO))
}

/// A request in the form that the venue gets.
struct VenueRequest {
    bytes: Vec<u8>,
    is_upgrade: bool,
    /// Bytes that the client sent after a handshake.
    rest: Vec<u8>,
}

impl VenueRequest {
    /// Makes the request from the client's, which is complete.
    fn of(received: &[u8], address: &Address) -> Option<Self> {
        let HeadParseResult::Head(head) = head::parse(received, &HeadLimits::default()) else { return None };
        let (body, rest) = received[head.head_bytes..].split_at(head.body_bytes);
        let mut bytes = forwarded_head(&head, &received[..head.head_bytes], address);
        bytes.extend_from_slice(body);
        Some(VenueRequest { bytes, is_upgrade: head.is_upgrade(), rest: rest.to_vec() })
    }
}

/// Writes the head of a request to the venue. `received` is the client's head.
fn forwarded_head(head: &Head<'_>, received: &[u8], address: &Address) -> Vec<u8> {
    let mut out = Vec::with_capacity(received.len() + 64);
    out.extend_from_slice(
        format!("{} {} HTTP/1.1\r\nHost: {}\r\n", head.method, head.target, address.authority).as_bytes(),
    );
    // A venue that closes the connection after its response marks where the response ends.
    let connection: &[u8] = if head.is_upgrade() { b"Connection: Upgrade\r\n" } else { b"Connection: close\r\n" };
    out.extend_from_slice(connection);
    let lines = received.split(|byte| *byte == b'\n').skip(1).filter(|line| line.len() > 1);
    for line in lines {
        let name = line.split(|byte| *byte == b':').next().unwrap_or_default();
        if !OWN_HEADERS.iter().any(|own| name.eq_ignore_ascii_case(own.as_bytes())) {
            out.extend_from_slice(line);
            out.push(b'\n');
        }
    }
    out.extend_from_slice(b"\r\n");
    out
}

/// How one direction ended.
enum DirectionEnd {
    /// The sender closed its socket.
    Closed,
    Fault(End),
    /// The other direction ended first.
    Stopped,
}

struct Exchange {
    client: TcpStream,
    venue: UpstreamSocket,
    from_client: DirectionQueue,
    from_venue: DirectionQueue,
}

impl Exchange {
    async fn web_socket(mut self, request: VenueRequest) -> io::Result<()> {
        self.venue.write_all(&request.bytes).await?;
        let response =
            timeout(PATIENCE, read_response_head(&mut self.venue)).await.map_err(|_| io::ErrorKind::TimedOut)??;
        self.client.write_all(&response.head).await?;
        if !response.is_upgrade {
            self.client.write_all(&response.rest).await?;
            tokio::io::copy(&mut self.venue, &mut self.client).await?;
            return Ok(());
        }
        let (client_reader, mut client_writer) = self.client.into_split();
        let (venue_reader, mut venue_writer) = tokio::io::split(self.venue);
        let stop = watch::Sender::new(false);
        let ended = {
            let to_venue = pump(client_reader, &request.rest, &mut venue_writer, self.from_client, stop.subscribe());
            let to_client = pump(venue_reader, &response.rest, &mut client_writer, self.from_venue, stop.subscribe());
            let (mut to_venue, mut to_client) = (pin!(to_venue), pin!(to_client));
            tokio::select! {
                ended = &mut to_venue => {
                    stop.send_replace(true);
                    drop(timeout(PATIENCE, to_client).await);
                    ended?
                }
                ended = &mut to_client => {
                    stop.send_replace(true);
                    drop(timeout(PATIENCE, to_venue).await);
                    ended?
                }
            }
        };
        match ended {
            DirectionEnd::Fault(End::Reset) => {
                SockRef::from(client_writer.as_ref()).set_linger(Some(Duration::ZERO))?;
                // Without a shutdown, which would send the end of the stream before the reset.
                client_writer.forget();
            }
            DirectionEnd::Fault(End::CloseFrame) => {
                let mut frame = Vec::new();
                write_close(&mut frame, CloseCode::GoingAway, "closed by the relay's fault script");
                client_writer.write_all(&frame).await?;
                frame.clear();
                write_masked(&mut frame, Opcode::Close, &(CloseCode::GoingAway as u16).to_be_bytes(), [1, 2, 3, 4]);
                venue_writer.write_all(&frame).await?;
            }
            DirectionEnd::Closed | DirectionEnd::Stopped => {}
        }
        Ok(())
    }

    /// Forwards one request as a message and its response as another.
    async fn http(mut self, request: Vec<u8>) -> io::Result<()> {
        self.from_client.push(RawMessage { bytes: request, is_control: false }, Instant::now());
        if let Some(end) = drain(&mut self.from_client, &mut self.venue).await? {
            return self.end_http(end);
        }
        let mut response = Vec::new();
        let mut venue = (&mut self.venue).take(MESSAGE_BYTES_MAX as u64 + 1);
        let mut left = [0; 1];
        tokio::select! {
            read = venue.read_to_end(&mut response) => read?,
            // The client sends nothing more, so this is its end.
            _ = self.client.read(&mut left) => return Ok(()),
        };
        if response.len() > MESSAGE_BYTES_MAX {
            return Err(too_large());
        }
        self.from_venue.push(RawMessage { bytes: response, is_control: false }, Instant::now());
        let before = self.from_venue.queued_bytes();
        if let Some(end) = drain(&mut self.from_venue, &mut self.client).await? {
            return self.end_http(end);
        }
        if before == 0 {
            // The response was dropped. The client waits for it.
            drop(self.client.read(&mut left).await);
        }
        Ok(())
    }

    fn end_http(self, end: End) -> io::Result<()> {
        match end {
            End::Reset => reset(self.client),
            End::CloseFrame => Ok(()),
        }
    }
}

fn too_large() -> io::Error {
    io::Error::other(format!("a message is larger than {} MiB", MESSAGE_BYTES_MAX >> 20))
}

struct ResponseHead {
    head: Vec<u8>,
    is_upgrade: bool,
    /// Bytes after the head.
    rest: Vec<u8>,
}

async fn read_response_head(venue: &mut UpstreamSocket) -> io::Result<ResponseHead> {
    let mut received = Vec::with_capacity(1024);
    loop {
        if let Some(end) = received.windows(4).position(|window| window == b"\r\n\r\n") {
            let rest = received.split_off(end + 4);
            let status = received.split(|byte| *byte == b' ').nth(1).unwrap_or_default();
            let is_upgrade = status == b"101";
            return Ok(ResponseHead { head: received, is_upgrade, rest });
        }
        if received.len() > RESPONSE_HEAD_BYTES_MAX {
            return Err(io::Error::other("the head of the venue's response is too long"));
        }
        if venue.read_buf(&mut received).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

/// Passes the messages of one direction on until it ends. `received` was read with the handshake.
async fn pump<R: AsyncRead + Unpin, W: AsyncWrite + Unpin>(
    mut reader: R,
    received: &[u8],
    writer: &mut W,
    mut queue: DirectionQueue,
    mut stopped: watch::Receiver<bool>,
) -> io::Result<DirectionEnd> {
    let mut splitter = MessageSplitter::new(MESSAGE_BYTES_MAX);
    splitter.push(received);
    let mut buffer = vec![0; READ_BYTES];
    loop {
        while let Some(message) = splitter.next().map_err(|_| too_large())? {
            queue.push(message, Instant::now());
        }
        if let Some(end) = send_due(&mut queue, writer).await? {
            return Ok(DirectionEnd::Fault(end));
        }
        let due = queue.next_due();
        let has_space = queue.queued_bytes() < QUEUE_BYTES_MAX;
        tokio::select! {
            read = reader.read(&mut buffer), if has_space => match read? {
                0 => {
                    let end = drain(&mut queue, writer).await?;
                    return Ok(end.map_or(DirectionEnd::Closed, DirectionEnd::Fault));
                }
                count => splitter.push(&buffer[..count]),
            },
            () = sleep_until(due.unwrap_or_else(Instant::now).into()), if due.is_some() => {}
            _ = stopped.changed() => return Ok(DirectionEnd::Stopped),
        }
    }
}

/// Sends what is due. Returns the end of the connection, if it is due, too.
async fn send_due<W: AsyncWrite + Unpin>(queue: &mut DirectionQueue, writer: &mut W) -> io::Result<Option<End>> {
    while let Some(step) = queue.pop(Instant::now()) {
        match step {
            Step::Send(bytes) => writer.write_all(&bytes).await?,
            Step::End(bytes, end) => {
                writer.write_all(&bytes).await?;
                writer.flush().await?;
                return Ok(Some(end));
            }
        }
    }
    writer.flush().await?;
    Ok(None)
}

/// Sends everything that waits.
async fn drain<W: AsyncWrite + Unpin>(queue: &mut DirectionQueue, writer: &mut W) -> io::Result<Option<End>> {
    loop {
        if let Some(end) = send_due(queue, writer).await? {
            return Ok(Some(end));
        }
        let Some(due) = queue.next_due() else { return Ok(None) };
        sleep_until(due.into()).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_reaches_the_venue_under_its_name_and_without_compression() {
        let address = Address::parse("wss://venue.example:9000/ws").unwrap();
        let forwarded = |text: &str| {
            let HeadParseResult::Head(head) = head::parse(text.as_bytes(), &HeadLimits::default()) else {
                panic!("{text}")
            };
            String::from_utf8(forwarded_head(&head, text.as_bytes(), &address)).unwrap()
        };
        let handshake = "GET /ws/api/v2?x=1 HTTP/1.1\r\nHost: 127.0.0.1:1\r\nUpgrade: websocket\r\n\
                         Connection: keep-alive, Upgrade\r\nOrigin: http://127.0.0.1:1\r\nSec-WebSocket-Key: abc\r\n\
                         sec-websocket-extensions: permessage-deflate\r\nAuthorization: Bearer t\r\n\r\n";
        let expected = "GET /ws/api/v2?x=1 HTTP/1.1\r\nHost: venue.example:9000\r\nConnection: Upgrade\r\n\
                        Upgrade: websocket\r\nSec-WebSocket-Key: abc\r\nAuthorization: Bearer t\r\n\r\n";
        assert_eq!(forwarded(handshake), expected);
        let post = "POST /api/v2 HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n";
        let expected =
            "POST /api/v2 HTTP/1.1\r\nHost: venue.example:9000\r\nConnection: close\r\nContent-Length: 2\r\n\r\n";
        assert_eq!(forwarded(post), expected);
    }
}
