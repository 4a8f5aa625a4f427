//! The client's session against our own server's.

use pitwire_random::SplitMix64;
use std::sync::Arc;

use pitwire_tls::{
    Authority, ClientConfig, ClientSession, ServerSession, Tickets, Trust, client_config, issue_server_config,
};

/// Returns a client's configuration that trusts `authority`. The file is named after `test`.
fn trust(authority: &Authority, test: &str) -> Arc<ClientConfig> {
    let file = std::env::temp_dir().join(format!("pitwire-tls-{}-{test}.pem", std::process::id()));
    std::fs::write(&file, &authority.certificate).unwrap();
    let config = client_config(Trust::File(&file), Tickets::Few).unwrap();
    std::fs::remove_file(file).unwrap();
    config
}

/// A client that keeps unprocessed bytes itself, as the splitter does.
struct Peer {
    session: ClientSession,
    input: Vec<u8>,
    outbox: Vec<u8>,
    received: Vec<u8>,
    has_failed: bool,
}

impl Peer {
    fn process(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
        let Peer { session, input, outbox, received, .. } = self;
        let take = |piece: &[u8]| {
            received.extend_from_slice(piece);
            Ok::<(), ()>(())
        };
        match session.process(input, outbox, take) {
            Ok(done) => drop(input.drain(..done)),
            Err(_) => self.has_failed = true,
        }
    }
}

/// Bytes that are changed, cut or repeated cause an error or nothing, never a panic, whatever is
/// called on the session afterwards. Without noise everything arrives.
#[test]
fn damaged_bytes_never_panic_a_client() {
    let now_s = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let authority = Authority::generate().unwrap();
    let (config, trust) =
        (issue_server_config(&authority.key, &["localhost".into()], now_s).unwrap(), trust(&authority, "noise"));
    let mut random = SplitMix64::new(7);
    let mut below = |bound: usize| random.index(bound);
    let (mut opened, mut failed) = (0, 0);
    for round in 0..600 {
        let mut server = ServerSession::new(&config).unwrap();
        let session = ClientSession::open(&trust, "localhost").unwrap();
        let mut client =
            Peer { session, input: Vec::new(), outbox: Vec::new(), received: Vec::new(), has_failed: false };
        client.process(&[]);
        for _ in 0..5 {
            let (mut output, mut back) = (std::mem::take(&mut client.outbox), Vec::new());
            let _ = server.receive(&mut output, &mut Vec::new(), &mut back);
            if server.is_open() {
                server.seal(b"of the feed.", &mut back).unwrap();
            }
            if round % 3 != 0 && !back.is_empty() {
                match below(3) {
                    0 => {
                        let at = below(back.len());
                        back[at] ^= 1 << below(8);
                    }
                    1 => back.truncate(below(back.len())),
                    _ => back.extend_from_slice(&back.clone()[below(back.len())..]),
                }
            }
            for bytes in back.chunks(1 + below(700)) {
                client.process(bytes);
                if client.session.is_open() && below(3) == 0 {
                    let Peer { session, input, outbox, .. } = &mut client;
                    let _ = session.seal_in_place(b"asked", input, outbox);
                }
            }
        }
        opened += usize::from(client.session.is_open());
        failed += usize::from(client.has_failed);
        if round % 3 == 0 {
            assert!(client.session.is_open() && !client.has_failed, "round {round}");
            assert!(client.received.ends_with(b"of the feed.") && client.received.len() >= 36, "round {round}");
        }
    }
    assert!(opened >= 200 && failed >= 100, "{opened} opened, {failed} failed");
}
