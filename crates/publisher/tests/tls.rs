//! TLS, tested with the rustls client. Every reader gets every message in
//! order, and a reader that stops does not delay others.

mod common;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use common::{PATIENCE, Stage, message, spec};
use pitwire_publisher::{LagAnswer, LagPolicy, Options, StreamSpec};
use pitwire_tls::{Authority, issue_server_config};
use ring::aead::{AES_128_GCM, AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, ConnectionTrafficSecrets, RootCertStore, StreamOwned};

type Secure = StreamOwned<ClientConnection, TcpStream>;

fn stage(lag: LagPolicy) -> (Stage, Arc<ClientConfig>) {
    stage_of(Options::default(), &spec(lag))
}

fn stage_of(options: Options, spec: &StreamSpec) -> (Stage, Arc<ClientConfig>) {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let authority = Authority::generate().unwrap();
    let tls = Some(issue_server_config(&authority.key, &["localhost".into()], now).unwrap());
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.certificate.as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let mut trust = builder.with_root_certificates(roots).with_no_client_auth();
    trust.enable_secret_extraction = true;
    let trust = Arc::new(trust);
    (Stage::new(Options { tls, ..options }, spec), trust)
}

fn join(address: SocketAddr, trust: &Arc<ClientConfig>) -> Secure {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    // A small receive buffer, so that the socket of a paused reader fills soon.
    socket.set_recv_buffer_size(64 * 1024).unwrap();
    socket.connect(&address.into()).unwrap();
    let socket: TcpStream = socket.into();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let mut reader = StreamOwned::new(ClientConnection::new(Arc::clone(trust), name).unwrap(), socket);
    let ask = "GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
               Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    reader.write_all(ask.as_bytes()).unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        reader.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    assert!(head.starts_with(b"HTTP/1.1 101"), "{}", String::from_utf8_lossy(&head));
    reader
}

/// Reads a frame and returns its opcode and payload.
fn frame(reader: &mut Secure) -> (u8, Vec<u8>) {
    let mut header = [0; 2];
    reader.read_exact(&mut header).unwrap();
    let len = match header[1] {
        126 => {
            let mut len = [0; 2];
            reader.read_exact(&mut len).unwrap();
            usize::from(u16::from_be_bytes(len))
        }
        127 => {
            let mut len = [0; 8];
            reader.read_exact(&mut len).unwrap();
            usize::try_from(u64::from_be_bytes(len)).unwrap()
        }
        len => usize::from(len),
    };
    let mut payload = vec![0; len];
    reader.read_exact(&mut payload).unwrap();
    (header[0] & 0x0F, payload)
}

fn seq(payload: &[u8]) -> u64 {
    let text = std::str::from_utf8(payload).unwrap();
    let digits = text.strip_prefix("{\"seq\":").unwrap_or_else(|| panic!("{text}"));
    digits[..digits.find(',').unwrap()].parse().unwrap()
}

#[test]
fn every_tls_reader_gets_every_message() {
    let (mut stage, trust) = stage(LagPolicy::Close);
    let mut readers: Vec<Secure> = (0..3).map(|_| join(stage.address, &trust)).collect();
    stage.wait_for_listeners(3);
    let mut expected = 0;
    for round in 0..40 {
        for bytes in [60, 190, 3_000] {
            stage.say("k", bytes);
        }
        stage.send();
        expected += 3;
        if round % 8 == 7 {
            for reader in &mut readers {
                for wanted in expected - 23..=expected {
                    let (_, payload) = frame(reader);
                    assert_eq!(seq(&payload), wanted);
                }
            }
        }
    }
    // A message from many records is echoed.
    let masked = [&[0x81, 0x80 | 5, 0, 0, 0, 0][..], b"hello"].concat();
    for byte in masked {
        readers[0].write_all(&[byte]).unwrap();
    }
    assert_eq!(frame(&mut readers[0]), (1, b"hello".to_vec()));
}

/// Connects two readers and sends 6,000 messages, far more than the sockets and the ring hold.
/// Returns the reader that has read none. The other one reads all.
fn one_of_two_stops(stage: &mut Stage, trust: &Arc<ClientConfig>) -> Secure {
    let stopped = join(stage.address, trust);
    let mut reading = join(stage.address, trust);
    stage.wait_for_listeners(2);
    for n in 1..=6_000 {
        stage.say("k", 1_000);
        stage.send();
        assert_eq!(seq(&frame(&mut reading).1), n);
    }
    stopped
}

/// The active reader gets every message. The stopped one is closed with code 1013.
#[test]
fn stopped_tls_reader_is_closed_without_delaying_others() {
    let (mut stage, trust) = stage(LagPolicy::Close);
    let mut stopped = one_of_two_stops(&mut stage, &trust);
    let mut last = 0;
    let code = loop {
        let (opcode, payload) = frame(&mut stopped);
        match opcode {
            1 => {
                assert_eq!(seq(&payload), last + 1, "without a hole up to the end");
                last += 1;
            }
            8 => break u16::from_be_bytes([payload[0], payload[1]]),
            _ => {}
        }
    };
    assert_eq!(code, 1013);
    assert!(last < 6_000, "{last}");
}

/// The handler sends the messages that the ring has lost piece by piece, until the ring has the
/// rest.
#[test]
fn stopped_tls_reader_resumes_from_handler_answers() {
    let (mut stage, trust) = stage_of(Options::default(), &StreamSpec { keep: false, ..spec(LagPolicy::Ask) });
    let mut stopped = one_of_two_stops(&mut stage, &trust);
    let (mut pieces, mut first) = (0, None);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let answerer = scope.spawn(|| {
            let began = Instant::now();
            while !is_over.load(Ordering::Relaxed) && began.elapsed() < PATIENCE {
                for (who, read) in std::mem::take(&mut *stage.handler.behind.lock().unwrap()) {
                    first.get_or_insert(read);
                    let last = (read + 50).min(6_000);
                    let texts = (read + 1..=last).map(|n| message(n, "k", 1_000));
                    // The payload length 1,000 is 3 x 256 + 232.
                    let frames = texts.flat_map(|text| [&[0x81, 126, 3, 232], text.as_bytes()].concat()).collect();
                    stage.publisher.go_on(who, stage.stream, read, LagAnswer::Frames { frames, seq: last });
                    pieces += 1;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        (1..=6_000).for_each(|expected| assert_eq!(seq(&frame(&mut stopped).1), expected));
        is_over.store(true, Ordering::Relaxed);
        answerer.join().unwrap();
    });
    stage.say("k", 100);
    stage.send();
    assert_eq!(seq(&frame(&mut stopped).1), 6_001);
    // The ring holds at most the last 40 messages.
    assert!(first.is_some_and(|first| pieces >= (5_960 - first) / 50), "{pieces} {first:?}");
}

/// The reader is behind by far more than its socket holds, but less than the ring holds.
#[test]
fn paused_tls_reader_gets_every_message() {
    let spec = StreamSpec { ring_bytes: 4 << 20, ..spec(LagPolicy::Close) };
    let (mut stage, trust) = stage_of(Options { send_buffer_bytes: 4096, ..Options::default() }, &spec);
    let mut paused = join(stage.address, &trust);
    let mut reading = join(stage.address, &trust);
    stage.wait_for_listeners(2);
    // The receiver's socket holds some messages, and the rest stays in the ring.
    for n in 1..=1_500 {
        stage.say("k", 1_900);
        if n % 150 == 0 {
            stage.send();
            (n - 149..=n).for_each(|expected| assert_eq!(seq(&frame(&mut reading).1), expected));
        }
    }
    (1..=1_500).for_each(|expected| assert_eq!(seq(&frame(&mut paused).1), expected));
    stage.say("k", 100);
    stage.send();
    assert_eq!(seq(&frame(&mut paused).1), 1_501);
}

/// Builds valid TLS 1.3 records (RFC 8446 section 5.2) that no library would send: 32 empty ones,
/// the most that are accepted in a row, then one with a byte of a pong.
fn hollow_records(connection: ClientConnection, count: u64) -> Vec<u8> {
    let (first, secrets) = connection.dangerous_extract_secrets().unwrap().tx;
    let (algorithm, key, iv) = match &secrets {
        ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (&AES_128_GCM, key, iv),
        ConnectionTrafficSecrets::Aes256Gcm { key, iv } => (&AES_256_GCM, key, iv),
        ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => (&CHACHA20_POLY1305, key, iv),
        _ => panic!("another cipher"),
    };
    let key = LessSafeKey::new(UnboundKey::new(algorithm, key.as_ref()).unwrap());
    let (pong, mut out) = ([0x8A, 0x80, 0, 0, 0, 0], Vec::new());
    for seq in first..first + count {
        let mut nonce: [u8; 12] = iv.as_ref().try_into().unwrap();
        nonce[4..].iter_mut().zip(seq.to_be_bytes()).for_each(|(byte, of)| *byte ^= of);
        // The inner content type is application data. The tag follows the content.
        let mut inside = vec![23];
        if (seq - first) % 33 == 32 {
            inside.insert(0, pong[usize::try_from((seq - first) / 33).unwrap() % pong.len()]);
        }
        let header = [23, 3, 3, 0, u8::try_from(inside.len() + 16).unwrap()];
        let nonce = Nonce::assume_unique_for_key(nonce);
        let tag = key.seal_in_place_separate_tag(nonce, Aad::from(header), &mut inside).unwrap();
        out.extend_from_slice(&header);
        out.extend_from_slice(&inside);
        out.extend_from_slice(tag.as_ref());
    }
    out
}

#[test]
fn tiny_tls_records_do_not_delay_others() {
    // A busy machine may delay the other reader once. Five delays in a row are caused by the
    // delivery thread.
    assert!((0..5).any(|_| are_served_beside_hollow_records()), "no other client was served before the last of them");
}

/// Returns whether ten messages reach another reader before the last of a million such records is
/// read.
fn are_served_beside_hollow_records() -> bool {
    let (mut stage, trust) = stage_of(Options { threads: 1, ..Options::default() }, &spec(LagPolicy::Close));
    let mut reader = join(stage.address, &trust);
    let flood = join(stage.address, &trust);
    stage.wait_for_listeners(2);
    let mut socket = flood.sock;
    let records = hollow_records(flood.conn, 1_000_000);
    let (total, gone) = (records.len(), Arc::new(AtomicUsize::new(0)));
    let going = Arc::clone(&gone);
    let flooding = std::thread::spawn(move || {
        for some in records.chunks(64 * 1024) {
            socket.write_all(some).unwrap();
            going.fetch_add(some.len(), Ordering::SeqCst);
        }
        socket
    });
    while gone.load(Ordering::SeqCst) < total / 4 {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    for expected in 1..=10 {
        stage.say("k", 100);
        stage.send();
        assert_eq!(seq(&frame(&mut reader).1), expected);
    }
    let is_under_way = gone.load(Ordering::SeqCst) < total;
    flooding.join().unwrap();
    is_under_way
}

#[test]
fn split_tls_record_is_read() {
    let (stage, trust) = stage_of(Options::default(), &spec(LagPolicy::Close));
    let mut reader = join(stage.address, &trust);
    stage.wait_for_listeners(1);
    let masked = [&[0x81, 0x80 | 5, 0, 0, 0, 0][..], b"hello"].concat();
    reader.conn.writer().write_all(&masked).unwrap();
    let mut record = Vec::new();
    reader.conn.write_tls(&mut record).unwrap();
    reader.sock.write_all(&record[..7]).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(20));
    reader.sock.write_all(&record[7..]).unwrap();
    assert_eq!(frame(&mut reader), (1, b"hello".to_vec()));
}
