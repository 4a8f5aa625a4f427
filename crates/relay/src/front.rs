//! The request of a client: who may send it, and how the relay refuses it.
//!
//! Start at    [`read_request`].

use std::time::Duration;

use pitwire_net::{OriginPolicy, PageOrigin};
use pitwire_websocket::head::{self, HeadLimits, HeadParseResult};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Time in which a client must send its request.
const PATIENCE: Duration = Duration::from_secs(5);

/// Why a request is answered with an error.
#[derive(Debug)]
pub struct Refusal {
    pub status: u16,
    pub reason: &'static str,
}

/// Reads until `received` holds a request with its body. Returns `false` if the client left.
///
/// # Errors
/// The request is malformed, late, or from a page of another origin.
pub async fn read_request(
    client: &mut TcpStream,
    received: &mut Vec<u8>,
    origins: &OriginPolicy,
) -> Result<bool, Refusal> {
    let read = async {
        loop {
            match head::parse(received, &HeadLimits::default()) {
                HeadParseResult::Refuse(refusal) => {
                    return Err(Refusal { status: refusal.status, reason: refusal.reason });
                }
                HeadParseResult::Head(head) if received.len() >= head.head_bytes + head.body_bytes => {
                    return match origins.judge(&head.headers) {
                        Ok(PageOrigin::Own) => Ok(true),
                        Ok(PageOrigin::Foreign) => {
                            Err(Refusal { status: 403, reason: "pages of other origins may not connect here" })
                        }
                        Err(_) => Err(Refusal {
                            status: 421,
                            reason: "the Host is not a name of this server; allow it with --host",
                        }),
                    };
                }
                HeadParseResult::Head(_) | HeadParseResult::NeedMore => {}
            }
            if client.read_buf(received).await.unwrap_or(0) == 0 {
                return Ok(false);
            }
        }
    };
    timeout(PATIENCE, read)
        .await
        .unwrap_or(Err(Refusal { status: 408, reason: "the request did not arrive within 5 s" }))
}

/// Answers a request with a text, and closes the connection.
///
/// # Errors
/// The client has left.
pub async fn answer(client: &mut TcpStream, status: u16, text: &str) -> std::io::Result<()> {
    let words = head::status_words(status);
    let length = text.len() + 1;
    let response = format!(
        "HTTP/1.1 {status} {words}\r\nConnection: close\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\n\r\n{text}\n"
    );
    client.write_all(response.as_bytes()).await?;
    client.shutdown().await
}
