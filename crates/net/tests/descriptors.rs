//! A process out of descriptors. Alone in its file: the limit is the whole process's.

#[allow(dead_code)]
mod support;

use std::fs::File;
use std::net::TcpStream;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use support::{Client, Venue};

#[test]
fn those_who_came_while_there_were_no_descriptors_are_let_in_when_there_are() {
    let limit = Rlimit { current: Some(200), maximum: getrlimit(Resource::Nofile).maximum };
    setrlimit(Resource::Nofile, limit).unwrap();
    let venue = Venue::up();
    // With nobody inside nothing but the clock can make the venue look again.
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
