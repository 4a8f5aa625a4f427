//! A TCP echo process, the lower bound for an order: it reads a request of a given size, writes a
//! reply of a given size, and does nothing else.

use std::io::{BufRead, BufReader, Read, Write, stdin};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use rustix::thread::{CpuSet, sched_setaffinity};

use super::latencies::{Latencies, nanoseconds};
use pitwire_failure::Failure;

/// Calls `announce` with the address, then serves connections one after another until standard
/// input ends.
///
/// The first eight bytes of a connection are the two sizes.
///
/// # Errors
///
/// Returns a failure if it cannot listen or accept.
pub fn serve(announce: impl FnOnce(SocketAddr)) -> Result<(), Failure> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    announce(listener.local_addr()?);
    std::thread::spawn(|| {
        // The parent process holds the other end. When the parent ends, this process ends.
        drop(stdin().read(&mut [0]));
        std::process::exit(0);
    });
    for stream in listener.incoming() {
        // A client ends its ping-pong by closing the connection.
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

/// A running echo process. It ends when this value is dropped.
pub struct Echo {
    child: Child,
    address: String,
}

/// Binds the calling thread, and the processes that it starts from now on, to one core.
///
/// # Errors
///
/// Returns a usage failure if the core does not exist.
pub fn bind_to_core(core: usize) -> Result<(), Failure> {
    let mut cores = CpuSet::new();
    if core < CpuSet::MAX_CPU {
        cores.set(core);
    }
    sched_setaffinity(None, &cores)
        .map_err(|error| Failure::usage(format!("cannot run on core {core}: {error}")).remedy("see nproc"))
}

impl Echo {
    /// Starts the process with `command`, on `core` if one is given.
    ///
    /// # Errors
    ///
    /// Returns a failure if the process does not start.
    pub fn start(mut command: Command, core: Option<usize>) -> Result<Echo, Failure> {
        core.map(bind_to_core).transpose()?;
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut address = String::new();
        if let Some(out) = child.stdout.take() {
            BufReader::new(out).read_line(&mut address)?;
        }
        Ok(Echo { child, address: address.trim().to_owned() })
    }

    /// Times `count` request-reply pairs, one at a time, with blocking sockets and the socket
    /// options of a session.
    ///
    /// # Errors
    ///
    /// Returns a failure if the echo process closes the connection.
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
                    0 => return Err(Failure::new("the echo process closed the connection")),
                    read => received += read,
                }
            }
            // The first tenth is warm-up.
            if number >= count / 10 {
                latencies.record(nanoseconds(started.elapsed()));
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
