//! A process that is out of file descriptors. Alone in its file: the limit is the whole process's.
//! On epoll, because accepted sockets of io_uring need no descriptor.

#[allow(dead_code)]
mod support;

use std::fs::File;
use std::net::TcpStream;
use std::time::Duration;

use pitwire_net::event_loop::LoopKind;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use support::{Client, Venue};

#[test]
fn connections_that_came_without_free_descriptors_are_accepted_when_there_are_some() {
    let limit = Rlimit { current: Some(200), maximum: getrlimit(Resource::Nofile).maximum };
    setrlimit(Resource::Nofile, limit).unwrap();
    let venue = Venue::up_on(LoopKind::Epoll);
    // Until it serves, the loop itself needs descriptors.
    drop(venue.websocket());
    venue.settles();
    // Without open connections only the clock can make the server accept again.
    let mut inside = None;
    for _ in 0..2 {
        let mut fill: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
        fill.pop();
        // Our end takes the last descriptor; the venue has none for its own.
        let outside = TcpStream::connect(venue.address).unwrap();
        if let Some(inside) = &mut inside {
            Client::ask(inside, "still served");
        }
        let before = venue.turns();
        std::thread::sleep(Duration::from_millis(300));
        assert!(venue.turns() - before < 50, "{} turns", venue.turns() - before);
        drop(fill);
        let mut outside = Client::new(outside);
        outside.upgrade();
        inside = Some(outside);
    }
}
