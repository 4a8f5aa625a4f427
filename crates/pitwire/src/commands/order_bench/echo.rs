//! The floor: a process that reads a request of so many bytes and writes a reply of so many, and does nothing else.

use std::io::{BufRead, BufReader, Read, Write, stdin};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use rustix::thread::{CpuSet, sched_setaffinity};

use super::figures::Latencies;
use crate::output::say;
use pitwire_failure::Failure;

/// Says where it listens, then serves connections one after another; the first eight bytes of each are the two sizes.
pub fn serve() -> Result<(), Failure> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    say(&listener.local_addr()?.to_string());
    std::thread::spawn(|| {
        // Whoever started it holds the other end: when that goes, so does this.
        drop(stdin().read(&mut [0]));
        std::process::exit(0);
    });
    for stream in listener.incoming() {
        // A ping-pong ends by hanging up.
        drop(answer(stream?));
    }
    Ok(())
}

fn answer(mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut size = || -> std::io::Result<usize> {
        let mut bytes = [0; 4];
        stream.read_exact(&mut bytes)?;
        Ok(usize::try_from(u32::from_le_bytes(bytes)).unwrap_or(0).clamp(1, 1 << 20))
    };
    let (mut request, reply) = (vec![0; size()?], vec![b'r'; size()?]);
    loop {
        stream.read_exact(&mut request)?;
        stream.write_all(&reply)?;
    }
}

/// The peer, for as long as this lives.
pub struct Echo {
    child: Child,
    address: String,
}

/// Binds the calling thread, and the processes it starts from here on, to one core.
pub fn stay_on(core: usize) -> Result<(), Failure> {
    let mut cores = CpuSet::new();
    if core < CpuSet::MAX_CPU {
        cores.set(core);
    }
    sched_setaffinity(None, &cores)
        .map_err(|error| Failure::usage(format!("cannot stay on core {core}: {error}")).remedy("see nproc"))
}

impl Echo {
    /// On a core of its own, if one is given.
    pub fn start(core: Option<usize>) -> Result<Echo, Failure> {
        core.map(stay_on).transpose()?;
        let mut child = Command::new(std::env::current_exe()?)
            .args(["order-bench", "--mode", "echo"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut address = String::new();
        if let Some(out) = child.stdout.take() {
            BufReader::new(out).read_line(&mut address)?;
        }
        Ok(Echo { child, address: address.trim().to_owned() })
    }

    /// One at a time, blocking on both sides, with the socket options of a session.
    pub fn ping_pong(&self, request: usize, reply: usize, count: u32) -> Result<Latencies, Failure> {
        let mut stream = TcpStream::connect(&self.address)?;
        stream.set_nodelay(true)?;
        for size in [request, reply] {
            stream.write_all(&u32::try_from(size).unwrap_or(u32::MAX).to_le_bytes())?;
        }
        let (request, mut buffer) = (vec![b'q'; request], vec![0; 256 * 1024]);
        let mut latencies = Latencies::new();
        for number in 0..count + count / 10 {
            let started = Instant::now();
            stream.write_all(&request)?;
            let mut received = 0;
            while received < reply {
                match stream.read(&mut buffer)? {
                    0 => return Err(Failure::new("the echo ended")),
                    read => received += read,
                }
            }
            // The first tenth warms up.
            if number >= count / 10 {
                latencies.record(super::open_loop::nanoseconds(started.elapsed()));
            }
        }
        Ok(latencies)
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        drop(self.child.wait());
    }
}
