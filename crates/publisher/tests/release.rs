//! A connection that is asked for: its hall gives the socket back between two messages, with all that was for it sent.

mod common;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use common::{masked, spec};
use pitwire_publisher::{
    Answer, Batch, LagPolicy, Opening, Options, Programme, Publisher, Released, Reply, Request, Said, StreamId, Tag,
};

const PATIENCE: Duration = Duration::from_secs(60);

enum News {
    Said(String),
    Left,
    Released(Released),
}

struct Ear(Mutex<SyncSender<News>>);

impl Ear {
    fn tell(&self, news: News) {
        // The test may be over.
        drop(self.0.lock().unwrap_or_else(PoisonError::into_inner).send(news));
    }
}

impl Programme for Ear {
    fn open(&self, _: &Request<'_>) -> Result<Opening, Answer> {
        Err(Answer::text(404, "nobody comes by himself"))
    }
    fn said(&self, _: Tag, said: Said<'_>, _: &mut Reply) {
        if let Said::Text(text) = said {
            self.tell(News::Said(text.to_owned()));
        }
    }
    fn left(&self, _: Tag) {
        self.tell(News::Left);
    }
    fn released(&self, _: Tag, released: Released) {
        self.tell(News::Released(released));
    }
}

fn stage() -> (Publisher, Receiver<News>, TcpStream, StreamId) {
    let (say, said) = sync_channel(100);
    let publisher = Publisher::start(Options::default(), Arc::new(Ear(Mutex::new(say)))).unwrap();
    let stream = publisher.create(&spec(LagPolicy::Close));
    let door = TcpListener::bind("127.0.0.1:0").unwrap();
    let peer = TcpStream::connect(door.local_addr().unwrap()).unwrap();
    peer.set_read_timeout(Some(PATIENCE)).unwrap();
    let opening = Opening { streams: vec![stream], ..Opening::default() };
    publisher.adopt_open(door.accept().unwrap().0, None, Tag(7), Vec::new(), Vec::new(), opening);
    (publisher, said, peer, stream)
}

fn send(publisher: &Publisher, stream: StreamId, seqs: std::ops::RangeInclusive<u64>) {
    let mut batch = Batch::default();
    seqs.for_each(|seq| batch.text(stream, b"", seq, format!("message {seq:03}").as_bytes()));
    publisher.send(&mut batch);
}

fn heard(peer: &mut TcpStream) -> String {
    let mut frame = [0; 13];
    peer.read_exact(&mut frame).unwrap();
    assert_eq!(frame[..2], [0x81, 11]);
    String::from_utf8_lossy(&frame[2..]).into_owned()
}

#[test]
fn all_that_was_for_it_is_sent_and_the_number_of_the_last_told() {
    let (publisher, news, mut peer, stream) = stage();
    send(&publisher, stream, 1..=30);
    publisher.tell(Tag(7), b"an answer..");
    publisher.release(Tag(7));
    // What comes later is for whoever has it then.
    send(&publisher, stream, 31..=40);
    let Ok(News::Released(Released { mut socket, rest, read })) = news.recv_timeout(PATIENCE) else {
        panic!("it has neither left nor said anything")
    };
    assert!(rest.is_empty());
    let [(of, last)] = read[..] else { panic!("it had one stream: {read:?}") };
    assert!(of == stream && (30..=40).contains(&last));
    socket.set_nonblocking(false).unwrap();
    socket.write_all(&[&[0x81, 11][..], b"from others"].concat()).unwrap();
    let mut all: Vec<String> = (0..last + 2).map(|_| heard(&mut peer)).collect();
    assert_eq!(all.pop().unwrap(), "from others");
    let answer = all.iter().position(|text| text == "an answer..").expect("it was told");
    all.remove(answer);
    let expected: Vec<String> = (1..=last).map(|seq| format!("message {seq:03}")).collect();
    assert_eq!(all, expected);
    // The hall has let go of it.
    peer.write_all(b"raw").unwrap();
    let mut raw = [0; 3];
    socket.read_exact(&mut raw).unwrap();
    assert_eq!(&raw, b"raw");
    drop((peer, socket));
    publisher.stop("over").unwrap();
    assert!(news.try_recv().is_err(), "it has not left: it was let go of");
}

#[test]
fn nothing_is_given_back_in_the_middle_of_a_message() {
    let (publisher, news, mut peer, stream) = stage();
    send(&publisher, stream, 1..=1);
    heard(&mut peer);
    let frame = masked(0x81, b"half and half");
    peer.write_all(&frame[..9]).unwrap();
    std::thread::sleep(Duration::from_millis(100));
    publisher.release(Tag(7));
    assert!(news.recv_timeout(Duration::from_millis(200)).is_err());
    peer.write_all(&frame[9..]).unwrap();
    assert!(matches!(news.recv_timeout(PATIENCE), Ok(News::Said(text)) if text == "half and half"));
    assert!(matches!(news.recv_timeout(PATIENCE), Ok(News::Released(_))));
}

#[test]
fn one_that_ends_first_has_left() {
    let (publisher, news, peer, _) = stage();
    drop(peer);
    assert!(matches!(news.recv_timeout(PATIENCE), Ok(News::Left)));
    publisher.release(Tag(7));
    publisher.stop("over").unwrap();
    assert!(news.try_recv().is_err());
}
