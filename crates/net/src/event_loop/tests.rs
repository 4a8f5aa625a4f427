//! The rules of an event loop, checked on every implementation that this machine offers.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, eventfd};

use super::*;

const RECEIVE_BYTES: u32 = 4096;
const OPTIONS: LoopOptions = LoopOptions { receive_bytes: RECEIVE_BYTES, detaches: true };
const PATIENCE: Duration = Duration::from_secs(30);

/// One loop, one listener, and the events until now.
struct Fixture {
    net: Box<dyn EventLoop>,
    listener: ListenerId,
    address: std::net::SocketAddr,
    seen: Vec<LoopEvent>,
}

impl Fixture {
    fn each(test: impl Fn(Fixture)) {
        for kind in [LoopKind::Epoll, LoopKind::Uring] {
            if let Err(error) = kind.check(OPTIONS) {
                eprintln!("{kind:?} is not tested: {error}");
                continue;
            }
            let mut net = kind.open(OPTIONS).unwrap();
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            let listener = net.add_listener(listener).unwrap();
            assert_eq!(net.kind(), kind);
            test(Fixture { net, listener, address, seen: Vec::new() });
        }
    }

    /// Waits until `is_done` returns something.
    fn until<T>(&mut self, mut is_done: impl FnMut(&mut Fixture) -> Option<T>) -> T {
        let (deadline, mut events) = (Instant::now() + PATIENCE, Vec::new());
        loop {
            if let Some(done) = is_done(self) {
                return done;
            }
            assert!(Instant::now() < deadline, "it does not happen; seen: {:?}", self.seen);
            self.net.wait(Some(Duration::from_millis(20)), &mut events).unwrap();
            self.seen.append(&mut events);
        }
    }

    fn has_seen(&mut self, event: LoopEvent) -> Option<()> {
        let count = self.seen.len();
        self.seen.retain(|seen| *seen != event);
        (self.seen.len() < count).then_some(())
    }

    fn connect(&mut self) -> (Token, TcpStream) {
        let peer = TcpStream::connect(self.address).unwrap();
        peer.set_read_timeout(Some(PATIENCE)).unwrap();
        let accepted = self.until(|fixture| fixture.net.accept(fixture.listener).unwrap());
        assert_eq!(accepted.peer, Some(self.address.ip()));
        (accepted.token, peer)
    }

    fn receive(&mut self, token: Token, bytes: usize) -> Vec<u8> {
        let mut all = Vec::new();
        self.until(|fixture| {
            loop {
                match fixture.net.receive(token) {
                    ReceiveOutcome::Bytes(arrived) => {
                        assert!(!arrived.is_empty() && arrived.len() <= bytes.max(RECEIVE_BYTES as usize));
                        all.extend_from_slice(arrived);
                    }
                    ReceiveOutcome::Pending | ReceiveOutcome::Ended => break,
                    ReceiveOutcome::Failed => panic!("failed after {} bytes", all.len()),
                }
            }
            (all.len() >= bytes).then_some(())
        });
        all
    }

    fn ends(&mut self, token: Token) {
        self.until(|fixture| match fixture.net.receive(token) {
            ReceiveOutcome::Pending | ReceiveOutcome::Bytes(_) => None,
            ReceiveOutcome::Ended | ReceiveOutcome::Failed => Some(()),
        });
    }
}

fn pattern(bytes: usize) -> Vec<u8> {
    (0..=250_u8).cycle().take(bytes).collect()
}

fn read_exactly(peer: &mut TcpStream, bytes: usize) -> Vec<u8> {
    let mut all = vec![0; bytes];
    peer.read_exact(&mut all).unwrap();
    all
}

#[test]
fn bytes_arrive_in_order_in_both_directions() {
    Fixture::each(|mut fixture| {
        let (token, mut peer) = fixture.connect();
        peer.write_all(&pattern(50_000)).unwrap();
        assert!(fixture.receive(token, 50_000) == pattern(50_000));
        assert_eq!(fixture.net.send(token, &[b"one "]), SendOutcome::Bytes(4));
        assert_eq!(fixture.net.send(token, &[b"two", b" ", b"three"]), SendOutcome::Bytes(9));
        assert_eq!(read_exactly(&mut peer, 13), b"one two three");
        // It goes on after the input ran dry.
        peer.write_all(b"again").unwrap();
        assert_eq!(fixture.receive(token, 5), b"again");
    });
}

#[test]
fn the_last_bytes_come_before_the_end_of_the_peer() {
    Fixture::each(|mut fixture| {
        let (token, mut peer) = fixture.connect();
        assert_eq!(fixture.net.receive(token), ReceiveOutcome::Pending);
        peer.write_all(b"last").unwrap();
        drop(peer);
        assert_eq!(fixture.receive(token, 4), b"last");
        fixture.ends(token);
    });
}

#[test]
fn socket_without_interest_in_input_is_not_read() {
    Fixture::each(|mut fixture| {
        let (token, peer) = fixture.connect();
        peer.set_nonblocking(true).unwrap();
        let (mut sent, all) = (0, pattern(64 << 20));
        // Until the kernel's buffers are full, however often the loop waits.
        for _ in 0..20 {
            while let Ok(bytes) = (&peer).write(&all[sent..]) {
                sent += bytes;
            }
            let mut events = Vec::new();
            fixture.net.wait(Some(Duration::from_millis(5)), &mut events).unwrap();
        }
        assert!(sent < all.len(), "everything was taken");
        assert!(fixture.receive(token, sent) == all[..sent]);
    });
}

#[test]
fn a_socket_that_was_full_is_reported_when_it_has_room() {
    Fixture::each(|mut fixture| {
        let (token, mut peer) = fixture.connect();
        let all = pattern(16 << 20);
        let (mut sent, mut got) = (0, Vec::new());
        let mut blocked = 0;
        while sent < all.len() {
            match fixture.net.send(token, &[&all[sent..]]) {
                SendOutcome::Bytes(bytes) => sent += bytes,
                SendOutcome::Blocked => {
                    blocked += 1;
                    fixture.seen.clear();
                    got.extend(read_exactly(&mut peer, sent - got.len()));
                    fixture.until(|fixture| fixture.has_seen(LoopEvent::Writable(token)));
                }
                SendOutcome::Failed => panic!("the peer is there"),
            }
        }
        assert!(blocked > 0);
        got.extend(read_exactly(&mut peer, sent - got.len()));
        assert!(got == all);
    });
}

#[test]
fn each_socket_of_a_batch_gets_its_own_parts() {
    Fixture::each(|mut fixture| {
        let mut sockets: Vec<_> = (0..300).map(|_| fixture.connect()).collect();
        let texts: Vec<[String; 2]> =
            (0..sockets.len()).map(|number| [format!("for {number:03} "), format!("only {number:03}")]).collect();
        let parts: Vec<[&[u8]; 2]> = texts.iter().map(|[one, two]| [one.as_bytes(), two.as_bytes()]).collect();
        let batch: Vec<BatchedSend<'_>> =
            sockets.iter().zip(&parts).map(|((token, _), parts)| BatchedSend { token: *token, parts }).collect();
        let mut results = Vec::new();
        fixture.net.send_batch(&batch, &mut results);
        assert_eq!(results, vec![SendOutcome::Bytes(16); sockets.len()]);
        for ((_, peer), text) in sockets.iter_mut().zip(&texts) {
            assert_eq!(read_exactly(peer, 16), text.concat().as_bytes());
        }
    });
}

#[test]
fn sockets_with_unread_input_do_not_stop_the_others() {
    Fixture::each(|mut fixture| {
        let mut stalled: Vec<_> = (0..400).map(|_| fixture.connect()).collect();
        for (token, peer) in &mut stalled {
            assert_eq!(fixture.net.receive(*token), ReceiveOutcome::Pending);
            peer.write_all(b"waits").unwrap();
        }
        fixture.until(|fixture| {
            let readable = fixture.seen.iter().filter(|event| matches!(event, LoopEvent::Readable(_)));
            (readable.count() >= 400).then_some(())
        });
        let (token, mut peer) = fixture.connect();
        peer.write_all(b"served").unwrap();
        assert_eq!(fixture.receive(token, 6), b"served");
        for (token, _) in &stalled {
            assert_eq!(fixture.receive(*token, 5), b"waits");
        }
    });
}

#[test]
fn detached_socket_keeps_its_unread_input() {
    Fixture::each(|mut fixture| {
        let (token, mut peer) = fixture.connect();
        let (other, mut other_peer) = fixture.connect();
        assert_eq!(fixture.net.receive(token), ReceiveOutcome::Pending);
        peer.write_all(b"before").unwrap();
        fixture.until(|fixture| fixture.has_seen(LoopEvent::Readable(token)));
        let DetachedSocket { socket, mut received } = fixture.net.detach(token).unwrap();
        let mut socket = TcpStream::from(socket);
        socket.set_nonblocking(false).unwrap();
        peer.write_all(b" after").unwrap();
        let mut rest = vec![0; 12 - received.len()];
        socket.read_exact(&mut rest).unwrap();
        received.extend(rest);
        assert_eq!(received, b"before after");
        socket.write_all(b"answer").unwrap();
        assert_eq!(read_exactly(&mut peer, 6), b"answer");
        // It comes back, and the others go on meanwhile.
        other_peer.write_all(b"other").unwrap();
        assert_eq!(fixture.receive(other, 5), b"other");
        let token = fixture.net.add_socket(socket.into()).unwrap();
        peer.write_all(b"back").unwrap();
        assert_eq!(fixture.receive(token, 4), b"back");
    });
}

#[test]
fn a_closed_socket_ends_at_its_peer_and_its_token_starts_afresh() {
    Fixture::each(|mut fixture| {
        for round in 0..200 {
            let (token, mut peer) = fixture.connect();
            assert_eq!(fixture.net.receive(token), ReceiveOutcome::Pending);
            peer.write_all(format!("{round:03}").as_bytes()).unwrap();
            assert_eq!(fixture.receive(token, 3), format!("{round:03}").as_bytes());
            // More than the next socket with this token may ever see.
            peer.write_all(b"unread").unwrap();
            assert_eq!(fixture.net.send(token, &[b"bye"]), SendOutcome::Bytes(3));
            fixture.net.close(token);
            assert_eq!(fixture.net.receive(token), ReceiveOutcome::Failed);
            assert_eq!(fixture.net.send(token, &[b"never"]), SendOutcome::Failed);
            let mut events = Vec::new();
            fixture.net.wait(Some(Duration::ZERO), &mut events).unwrap();
        }
    });
}

#[test]
fn after_a_shutdown_the_peer_reads_the_end_and_can_still_send() {
    Fixture::each(|mut fixture| {
        let (token, mut peer) = fixture.connect();
        assert_eq!(fixture.net.send(token, &[b"last"]), SendOutcome::Bytes(4));
        fixture.net.shutdown(token);
        let mut events = Vec::new();
        fixture.net.wait(Some(Duration::ZERO), &mut events).unwrap();
        let mut all = Vec::new();
        peer.read_to_end(&mut all).unwrap();
        assert_eq!(all, b"last");
        peer.write_all(b"reply").unwrap();
        assert_eq!(fixture.receive(token, 5), b"reply");
    });
}

#[test]
fn a_wait_ends_with_its_timeout_or_when_it_is_woken() {
    Fixture::each(|mut fixture| {
        let descriptor = eventfd(0, EventfdFlags::NONBLOCK).unwrap();
        let other_end = descriptor.try_clone().unwrap();
        fixture.net.add_wake_source(descriptor, 7).unwrap();
        let (started, mut events) = (Instant::now(), Vec::new());
        fixture.net.wait(Some(Duration::from_millis(50)), &mut events).unwrap();
        assert!(events.is_empty() && started.elapsed() >= Duration::from_millis(45));
        for _ in 0..3 {
            rustix::io::write(&other_end, &1_u64.to_ne_bytes()).unwrap();
            fixture.until(|fixture| fixture.has_seen(LoopEvent::Woken(7)));
        }
    });
}

#[test]
fn a_udp_socket_reports_each_datagram_as_a_wake_up() {
    Fixture::each(|mut fixture| {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
        fixture.net.add_wake_source(socket.try_clone().unwrap().into(), 7).unwrap();
        for number in 0..3 {
            peer.send_to(&[number], socket.local_addr().unwrap()).unwrap();
            fixture.until(|fixture| fixture.has_seen(LoopEvent::Woken(7)));
            let mut datagram = [9];
            assert_eq!((socket.recv(&mut datagram).unwrap(), datagram), (1, [number]));
        }
    });
}

#[test]
fn a_closed_listener_refuses_connections_and_open_ones_go_on() {
    Fixture::each(|mut fixture| {
        let (token, mut peer) = fixture.connect();
        fixture.net.close_listeners();
        fixture.until(|fixture| TcpStream::connect(fixture.address).is_err().then_some(()));
        peer.write_all(b"still").unwrap();
        assert_eq!(fixture.receive(token, 5), b"still");
    });
}
