//! Memory per subscriber: no allocation per message once all buffers have been used, and at most
//! 512 bytes while idle.

mod common;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use common::{Stage, spec};
use pitwire_counting_allocator::CountingAllocator;
use pitwire_publisher::{LagPolicy, Options};

#[global_allocator]
static MEMORY: CountingAllocator = CountingAllocator;

/// Connects a reader without allocating.
fn join(address: SocketAddr, head: &[u8]) -> TcpStream {
    let mut socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(common::PATIENCE)).unwrap();
    socket.write_all(head).unwrap();
    let (mut answer, mut got) = ([0; 1024], 0);
    while !answer[..got].ends_with(b"\r\n\r\n") {
        got += socket.read(&mut answer[got..]).unwrap();
        assert!(got > 0);
    }
    assert!(answer.starts_with(b"HTTP/1.1 101"));
    socket
}

fn skip(socket: &mut TcpStream, mut bytes: usize) {
    let mut buffer = [0; 8192];
    while bytes > 0 {
        let most = bytes.min(buffer.len());
        let count = socket.read(&mut buffer[..most]).unwrap();
        assert!(count > 0, "the end came too soon");
        bytes -= count;
    }
}

#[test]
fn delivery_allocates_nothing_and_idle_subscriber_stays_small() {
    let mut stage = Stage::new(Options::default(), &spec(LagPolicy::Close));
    let head = format!(
        "GET / HTTP/1.1\r\nHost: {}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        stage.address
    );
    // Idle: measure the memory of a thousand more subscribers.
    let mut sockets: Vec<TcpStream> = Vec::with_capacity(2_000);
    sockets.extend((0..24).map(|_| join(stage.address, head.as_bytes())));
    stage.wait_for_listeners(24);
    let before = CountingAllocator::live_bytes();
    sockets.extend((0..1_000).map(|_| join(stage.address, head.as_bytes())));
    stage.wait_for_listeners(1_024);
    let each = (CountingAllocator::live_bytes() - before) / 1_000;
    println!("{each} bytes an idle subscriber");
    assert!(each <= 512, "{each} bytes an idle subscriber");
    // Busy: send equal messages to all readers, once all rings and buffers have been used.
    let text = vec![b'x'; 500];
    let round = |stage: &mut Stage, sockets: &mut [TcpStream], messages: usize| {
        for _ in 0..messages {
            stage.seq += 1;
            stage.batch.text(stage.stream, b"", stage.seq, &text);
            stage.send();
        }
        sockets.iter_mut().for_each(|socket| skip(socket, messages * 504));
    };
    for _ in 0..20 {
        round(&mut stage, &mut sockets, 20);
    }
    let calls = CountingAllocator::allocations();
    for _ in 0..20 {
        round(&mut stage, &mut sockets, 20);
    }
    let calls = CountingAllocator::allocations() - calls;
    // 400 messages went to 1,024 readers.
    assert_eq!(calls, 0, "allocations for 409,600 deliveries");
}
