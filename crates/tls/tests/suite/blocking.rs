//! The blocking stream of a client against our own server's session, over a socket pair.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::JoinHandle;

use pitwire_tls::{
    Authority, ClientConfig, ServerConfig, ServerSession, Tickets, TlsStream, Trust, client_config, issue_server_config,
};

fn server_config(authority: &Authority) -> Arc<ServerConfig> {
    let now_s = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    issue_server_config(&authority.key, &["localhost".into()], now_s).unwrap()
}

/// Sends everything that arrives back, until the client ends.
fn echo(mut socket: UnixStream, config: &Arc<ServerConfig>) -> JoinHandle<()> {
    let mut session = ServerSession::new(config).unwrap();
    std::thread::spawn(move || {
        // Small reads, so that records arrive in pieces.
        let mut cipher = [0; 700];
        while let Ok(bytes @ 1..) = socket.read(&mut cipher) {
            let (mut plain, mut out) = (Vec::new(), Vec::new());
            let received = session.receive(&mut cipher[..bytes], &mut plain, &mut out);
            if received.is_ok() && !plain.is_empty() {
                session.seal(&plain, &mut out).unwrap();
            }
            if socket.write_all(&out).is_err() || received.is_err() {
                return;
            }
        }
    })
}

/// Returns a client's configuration that trusts an authority. `name` is part of a file's name.
fn trust_in(authority: &Authority, name: &str) -> Arc<ClientConfig> {
    let file = std::env::temp_dir().join(format!("pitwire-tls-{}-{name}.pem", std::process::id()));
    std::fs::write(&file, &authority.certificate).unwrap();
    let config = client_config(Trust::File(&file), Tickets::Few).unwrap();
    std::fs::remove_file(file).unwrap();
    config
}

#[test]
fn written_bytes_return_unchanged() {
    let authority = Authority::generate().unwrap();
    let config = trust_in(&authority, "blocking");
    let (near, far) = UnixStream::pair().unwrap();
    let server = echo(far, &server_config(&authority));
    let mut client = TlsStream::connect(near, &config, "localhost").unwrap();
    for length in [1_usize, 100, 16 * 1024, 100_000] {
        let sent: Vec<u8> = (0..length).map(|index| u8::try_from(index % 251).unwrap()).collect();
        // The server echoes while the client still writes, so both directions carry at most this.
        for piece in sent.chunks(16 * 1024) {
            client.write_all(piece).unwrap();
            let mut back = vec![0; piece.len()];
            client.read_exact(&mut back).unwrap();
            assert_eq!(back, piece);
        }
    }
    drop(client);
    server.join().unwrap();
}

#[test]
fn a_server_of_an_unknown_authority_is_refused() {
    let (known, unknown) = (Authority::generate().unwrap(), Authority::generate().unwrap());
    let config = trust_in(&known, "unknown");
    let (near, far) = UnixStream::pair().unwrap();
    let server = echo(far, &server_config(&unknown));
    let error = TlsStream::connect(near, &config, "localhost").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidData);
    assert!(error.to_string().contains("certificate"), "{error}");
    server.join().unwrap();
}
