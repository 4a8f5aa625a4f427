//! The server's session with a client of rustls, without a socket: handshakes at once and byte by
//! byte, data in both directions, alerts, tickets, and certificates from files and issued ones.

use pitwire_random::SplitMix64;
use std::io::{Read, Write};
use std::sync::Arc;

use pitwire_tls::{Authority, CertificateError, ServerConfig, Session, issue_server_config, server_config};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, HandshakeKind, RootCertStore};

/// 2026-11-22.
const NOW_S: u64 = 1_795_305_600;

fn names() -> Vec<String> {
    ["localhost", "127.0.0.1", "::1"].map(str::to_owned).into()
}

fn made() -> (Arc<ServerConfig>, Authority) {
    let authority = Authority::generate().unwrap();
    (issue_server_config(&authority.key, &names(), NOW_S).unwrap(), authority)
}

fn trusting(authority: &Authority) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.certificate.as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    Arc::new(builder.with_root_certificates(roots).with_no_client_auth())
}

fn client(config: &Arc<ClientConfig>, name: &str) -> ClientConnection {
    ClientConnection::new(Arc::clone(config), ServerName::try_from(name.to_owned()).unwrap()).unwrap()
}

/// Both ends of a connection, and the bytes that the server has received.
struct Pair {
    client: ClientConnection,
    server: Session,
    /// Number of bytes that reach the server at a time.
    step: usize,
    received: Vec<u8>,
}

impl Pair {
    fn new(server: &Arc<ServerConfig>, trust: &Arc<ClientConfig>, step: usize) -> Pair {
        let (client, server) = (client(trust, "localhost"), Session::new(server).unwrap());
        Pair { client, server, step, received: Vec::new() }
    }

    /// Moves bytes between the two sides until none is left.
    fn run(&mut self) {
        loop {
            let mut sent = Vec::new();
            while self.client.wants_write() {
                self.client.write_tls(&mut sent).unwrap();
            }
            let mut back = Vec::new();
            for bytes in sent.chunks_mut(self.step) {
                self.server.receive(bytes, &mut self.received, &mut back).unwrap();
            }
            if back.is_empty() {
                return;
            }
            self.send(&back);
        }
    }

    fn send(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            self.client.read_tls(&mut bytes).unwrap();
            self.client.process_new_packets().unwrap();
        }
    }

    fn client_reads(&mut self, most: usize) -> Vec<u8> {
        let mut all = vec![0; most];
        let mut got = 0;
        while let Ok(bytes) = self.client.reader().read(&mut all[got..]) {
            got += bytes;
            if bytes == 0 {
                break;
            }
        }
        all.truncate(got);
        all
    }
}

#[test]
fn data_passes_both_ways_in_pieces_of_any_size() {
    let (server, authority) = made();
    let trust = trusting(&authority);
    for step in [1, 7, 600, 1 << 20] {
        let mut pair = Pair::new(&server, &trust, step);
        assert!(!pair.server.is_open());
        pair.run();
        assert!(pair.server.is_open() && !pair.client.is_handshaking(), "step {step}");
        let asked: Vec<u8> = (0..40_000_u32).map(|n| n.to_le_bytes()[0]).collect();
        pair.client.writer().write_all(&asked).unwrap();
        pair.run();
        assert!(pair.received == asked, "step {step}: {} of {}", pair.received.len(), asked.len());
        // More than one record, an empty one, and two records in one buffer.
        let outcome: Vec<u8> = (0..50_000_u32).map(|n| n.to_le_bytes()[1]).collect();
        let mut out = Vec::new();
        pair.server.seal(&outcome, &mut out).unwrap();
        pair.server.seal(b"", &mut out).unwrap();
        pair.server.seal(b"and this", &mut out).unwrap();
        let expected = [&outcome[..], b"and this"].concat();
        let mut read = Vec::new();
        for bytes in out.chunks(9_000) {
            pair.send(bytes);
            read.extend(pair.client_reads(60_000));
        }
        assert!(read == expected, "step {step}: {}", read.len());
    }
}

#[test]
fn both_sides_may_end_their_data() {
    let (server, authority) = made();
    let mut pair = Pair::new(&server, &trusting(&authority), 1 << 20);
    pair.run();
    pair.client.writer().write_all(b"last").unwrap();
    pair.client.send_close_notify();
    pair.run();
    assert_eq!((&pair.received[..], pair.server.is_ended()), (&b"last"[..], true));
    // The client has ended its data, and the server can still send the answer.
    let mut out = Vec::new();
    pair.server.seal(b"answer", &mut out).unwrap();
    pair.server.end(&mut out).unwrap();
    pair.send(&out);
    assert_eq!(pair.client_reads(100), b"answer");
    assert!(pair.server.seal(b"more", &mut Vec::new()).is_err(), "it has ended");
}

#[test]
fn invalid_tls_ends_with_an_alert() {
    let (server, _) = made();
    for noise in [&b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"[..], &[0x16, 3, 1, 0, 4, 1, 2, 3, 4], &[0xff; 600]] {
        let mut session = Session::new(&server).unwrap();
        let (mut bytes, mut plain, mut out) = (noise.to_vec(), Vec::new(), Vec::new());
        let fault = session.receive(&mut bytes, &mut plain, &mut out).expect_err("no TLS");
        assert!(!fault.to_string().is_empty() && plain.is_empty());
        // Type 21 is an alert.
        assert_eq!(out.first(), Some(&21), "{fault}");
    }
    // The bytes come one at a time, and the session is used after it has failed.
    for noise in [&[0x16, 3, 1, 0, 4, 1, 2, 3, 4][..], &[0x16, 3, 1, 0, 9, 1, 0, 0, 5, 1, 2, 3, 4, 5]] {
        let mut session = Session::new(&server).unwrap();
        for byte in noise {
            let _ = session.receive(&mut [*byte], &mut Vec::new(), &mut Vec::new());
            assert!(session.seal(b"no", &mut Vec::new()).is_err());
            assert!(session.end(&mut Vec::new()).is_err());
        }
    }
    let mut session = Session::new(&server).unwrap();
    assert!(session.seal(b"too early", &mut Vec::new()).is_err());
}

#[test]
fn reconnecting_client_resumes_its_session() {
    let (server, authority) = made();
    let trust = trusting(&authority);
    for expected in [HandshakeKind::Full, HandshakeKind::Resumed, HandshakeKind::Resumed] {
        let mut pair = Pair::new(&server, &trust, 1 << 20);
        pair.run();
        assert_eq!(pair.client.handshake_kind(), Some(expected));
    }
}

/// A client that trusts the authority accepts the certificate for its names only.
#[test]
fn issued_certificate_is_valid_for_its_names_only() {
    let (server, authority) = made();
    for (name, is_ours) in [("localhost", true), ("127.0.0.1", true), ("::1", true), ("example.com", false)] {
        let mut session = Session::new(&server).unwrap();
        let mut asks = client(&trusting(&authority), name);
        let mut hello = Vec::new();
        asks.write_tls(&mut hello).unwrap();
        let mut back = Vec::new();
        session.receive(&mut hello, &mut Vec::new(), &mut back).unwrap();
        asks.read_tls(&mut &back[..]).unwrap();
        assert_eq!(asks.process_new_packets().is_ok(), is_ours, "{name}");
    }
    let (again, _) = (issue_server_config(&authority.key, &names(), NOW_S).unwrap(), ());
    Pair::new(&again, &trusting(&authority), 1 << 20).run();
}

fn pem(days: std::ops::Range<i64>) -> (String, String) {
    let at = |days: i64| {
        let date = pitwire_model::format_date(pitwire_model::VenueDay(u32::try_from(20_779 + days).unwrap()));
        let parts: Vec<i32> = date.split('-').map(|part| part.parse().unwrap()).collect();
        rcgen::date_time_ymd(parts[0], u8::try_from(parts[1]).unwrap(), u8::try_from(parts[2]).unwrap())
    };
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::new(names()).unwrap();
    (params.not_before, params.not_after) = (at(days.start), at(days.end));
    (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
}

/// Day 20,779 is 2026-11-22.
#[test]
fn unusable_input_is_named() {
    let (good, key) = pem(-5..5);
    assert!(server_config(good.as_bytes(), key.as_bytes(), NOW_S).is_ok());
    // Some tools write the key before the chain in one file.
    assert!(server_config(format!("{key}{good}").as_bytes(), key.as_bytes(), NOW_S).is_ok());
    let (other, _) = pem(-5..5);
    let certificate = |what: &str| CertificateError::Certificate(what.into());
    let outcome =
        |chain: &str, key: &str| server_config(chain.as_bytes(), key.as_bytes(), NOW_S).map(|_| ()).unwrap_err();
    assert_eq!(outcome(&pem(-9..-1).0, &key), certificate("the certificate expired on 2026-11-21"));
    assert_eq!(outcome(&pem(2..9).0, &key), certificate("the certificate is not valid before 2026-11-24"));
    assert_eq!(outcome("", &key), certificate("holds no certificate in PEM form"));
    assert_eq!(outcome(&key, &key), certificate("holds no certificate in PEM form"));
    assert!(
        matches!(outcome(&good, &good), CertificateError::Key(what) if what.starts_with("holds no private key in PEM form"))
    );
    assert!(matches!(outcome(&good, ""), CertificateError::Key(_)));
    assert_eq!(outcome(&other, &key), CertificateError::Pair("the key does not match the certificate".into()));
    let garbled = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";
    assert!(matches!(outcome(garbled, &key), CertificateError::Certificate(_)));
}

/// Damaged bytes cause at most an error, never a panic, and the session stores at most one record.
#[test]
fn damaged_bytes_never_panic_a_server() {
    let (server, authority) = made();
    let trust = trusting(&authority);
    let mut random = SplitMix64::new(7);
    let mut below = |bound: usize| random.index(bound);
    for round in 0..600 {
        let mut asks = client(&trust, "localhost");
        let (mut session, mut plain) = (Session::new(&server).unwrap(), Vec::new());
        let mut failed = false;
        for _ in 0..4 {
            let mut sent = Vec::new();
            while asks.wants_write() {
                asks.write_tls(&mut sent).unwrap();
            }
            if !sent.is_empty() && round % 3 != 0 {
                match below(3) {
                    0 => {
                        let at = below(sent.len());
                        sent[at] ^= 1 << below(8);
                    }
                    1 => sent.truncate(below(sent.len())),
                    _ => sent.extend_from_slice(&sent.clone()[below(sent.len())..]),
                }
            }
            let mut back = Vec::new();
            let step = 1 + below(400);
            for bytes in sent.chunks_mut(step) {
                failed |= session.receive(bytes, &mut plain, &mut back).is_err();
                if below(4) == 0 {
                    let _ = session.seal(b"something", &mut back);
                }
            }
            let mut back = &back[..];
            while !back.is_empty() && asks.read_tls(&mut back).is_ok() {
                if asks.process_new_packets().is_err() {
                    break;
                }
            }
            if asks.writer().write_all(b"asked").is_err() {
                break;
            }
        }
        assert!(round % 3 != 0 || (!failed && session.is_open()), "nothing was wrong in round {round}");
    }
}
