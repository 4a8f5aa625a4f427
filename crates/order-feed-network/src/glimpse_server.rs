//! The snapshot service of a feed of ITCH: GLIMPSE over the recovery port.
//!
//! Holds       a connection has one login and one snapshot, within the limits of the recovery port.
//!             A login that names another session, or is above a limit, is rejected.
//! Start at    [`Client::serve_glimpse`].

use std::io;

use pitwire_order_feed::{GlimpseLogin, GlimpsePacket, SESSION_NOT_AVAILABLE, SOUP_HEADER_BYTES};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{sleep, timeout};

use crate::counters::count;
use crate::recovery_server::{Client, LIMIT_PAUSE, LOGIN_PATIENCE, invalid, late};

impl Client<'_> {
    pub async fn serve_glimpse(mut self) -> io::Result<()> {
        let login = timeout(LOGIN_PATIENCE, self.login()).await.map_err(|_| late("the login did not arrive"))??;
        let Some(login) = login else { return Ok(()) };
        let recovery = self.recovery;
        if !login.is_for(recovery.feed.lock().session()) {
            count(&recovery.feed.lock().counters.invalid);
            return self.reject().await;
        }
        match recovery.snapshot(self.peer) {
            Ok((snapshot, _permit)) => self.send(&snapshot).await?,
            Err(_) => {
                count(&recovery.feed.lock().counters.limited);
                sleep(LIMIT_PAUSE).await;
                return self.reject().await;
            }
        }
        self.end().await
    }

    /// Reads a login. `None` if the client closed the connection before.
    async fn login(&mut self) -> io::Result<Option<GlimpseLogin>> {
        let mut packet = [0; GlimpseLogin::BYTES];
        if self.socket.read(&mut packet[..1]).await? == 0 {
            return Ok(None);
        }
        self.socket.read_exact(&mut packet[1..SOUP_HEADER_BYTES]).await?;
        if packet[..SOUP_HEADER_BYTES] != GlimpseLogin::HEADER {
            return Err(invalid("expected a Login Request of SoupBinTCP with 49 bytes".into()));
        }
        self.socket.read_exact(&mut packet[SOUP_HEADER_BYTES..]).await?;
        Ok(GlimpseLogin::read(&packet))
    }

    async fn reject(mut self) -> io::Result<()> {
        let mut packet = Vec::new();
        GlimpsePacket::LoginRejected { reason: SESSION_NOT_AVAILABLE }.encode(&mut packet);
        self.send(&packet).await?;
        self.end().await
    }

    /// Sends the end of the stream and waits until the client closes the connection. A socket that
    /// is closed with unread heartbeats in it resets the connection, and the client would lose the
    /// end of the snapshot.
    async fn end(mut self) -> io::Result<()> {
        self.socket.shutdown().await?;
        let mut heartbeats = [0; 64];
        let rest = async { while self.socket.read(&mut heartbeats).await.is_ok_and(|bytes| bytes > 0) {} };
        // A client that keeps the connection open longer is closed.
        let _ = timeout(LOGIN_PATIENCE, rest).await;
        Ok(())
    }
}
