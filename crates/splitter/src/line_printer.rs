//! Prints lines on a separate thread.
//!
//! Holds       printing never blocks the caller: lines that a slow reader does not take in time are
//!             dropped and counted.
//! Start at    [`LinePrinter::print`].

use std::io::Write;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Most batches that may wait for a slow reader.
const WAITING: usize = 64;

pub struct LinePrinter {
    out: Option<SyncSender<Vec<u8>>>,
    thread: Option<JoinHandle<()>>,
    /// Batches that were dropped because the reader was too slow.
    left_out: u64,
}

impl LinePrinter {
    pub fn to(mut out: Box<dyn Write + Send>) -> Self {
        let (sender, batches) = sync_channel::<Vec<u8>>(WAITING);
        let print = move || {
            for batch in batches {
                // After an error the output is closed, and later lines are dropped.
                if out.write_all(&batch).and_then(|()| out.flush()).is_err() {
                    break;
                }
            }
        };
        let thread = std::thread::Builder::new().name("lines".into()).spawn(print);
        // Without a thread no lines are printed, and the feed goes on.
        match thread {
            Ok(thread) => LinePrinter { out: Some(sender), thread: Some(thread), left_out: 0 },
            Err(_) => LinePrinter { out: None, thread: None, left_out: 0 },
        }
    }

    /// Takes all of `lines` and leaves it empty.
    pub fn print(&mut self, lines: &mut Vec<u8>) {
        if lines.is_empty() {
            return;
        }
        let batch = std::mem::take(lines);
        if let Some(out) = &self.out {
            match out.try_send(batch) {
                Ok(()) => {}
                Err(TrySendError::Full(_)) => self.left_out += 1,
                Err(TrySendError::Disconnected(_)) => self.out = None,
            }
        }
    }

    pub fn left_out(&self) -> u64 {
        self.left_out
    }
}

impl Drop for LinePrinter {
    /// Waits up to one second for queued lines, so that a stopped reader cannot hold up the end of
    /// the program.
    fn drop(&mut self) {
        self.out = None;
        let Some(thread) = self.thread.take() else { return };
        for _ in 0..100 {
            if thread.is_finished() {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    struct Taps(Sender<Vec<u8>>, Receiver<()>);

    impl Write for Taps {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            // The test permits each write with one message.
            self.1.recv().map_err(io::Error::other)?;
            self.0.send(bytes.to_vec()).map_err(io::Error::other)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_stopped_reader_costs_lines_but_no_time() {
        let ((written, seen), (allow, allowed)) = (channel(), channel());
        let mut printer = LinePrinter::to(Box::new(Taps(written, allowed)));
        for line in 0..1_000_u32 {
            printer.print(&mut format!("{line}\n").into_bytes());
        }
        // One batch may be in the writer; the rest waits or is dropped.
        assert!((1_000 - WAITING as u64 - 1..=1_000 - WAITING as u64).contains(&printer.left_out()));
        (0..WAITING + 1).for_each(|_| allow.send(()).unwrap());
        drop(allow);
        let kept = 1_000 - printer.left_out();
        drop(printer);
        assert_eq!(seen.iter().count() as u64, kept);
    }
}
