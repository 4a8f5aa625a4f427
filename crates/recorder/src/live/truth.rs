//! The truth log: what a live feed sent, on which connection and when.
//!
//! Does        collects rows per connection and writes them as CSV on a separate thread.
//! Holds       the rows of a connection stay in order. An error is reported at the end.
//! Start at    [`TruthLog::create`].

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use pitwire_fault_script::FaultKind;

const HEADER: &str = "connection,sequence,due_ns,sent_ns,done_ns,bytes,fault\n";
/// Rows that a connection collects before it hands them to the writer.
const BATCH: usize = 1_024;

/// One message on one connection.
pub(super) struct TruthRow {
    pub sequence: u64,
    pub due_ns: u64,
    pub sent_ns: Option<u64>,
    pub done_ns: Option<u64>,
    pub bytes: usize,
    pub fault: Option<FaultKind>,
}

struct TruthBatch {
    connection: u32,
    rows: Vec<TruthRow>,
}

pub(super) struct TruthLog {
    sender: Sender<TruthBatch>,
    writer: JoinHandle<io::Result<()>>,
}

/// The rows of one connection on their way to the log.
pub(super) struct TruthWriter {
    sender: Sender<TruthBatch>,
    pub connection: u32,
    rows: Vec<TruthRow>,
}

impl TruthLog {
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        let mut file = BufWriter::with_capacity(1 << 20, File::create(path)?);
        file.write_all(HEADER.as_bytes())?;
        let (sender, receiver) = channel();
        let writer = std::thread::Builder::new().name("truth log".into()).spawn(move || write(file, &receiver))?;
        Ok(TruthLog { sender, writer })
    }

    pub(super) fn writer(&self) -> TruthWriter {
        TruthWriter { sender: self.sender.clone(), connection: 0, rows: Vec::with_capacity(BATCH) }
    }

    /// Writes the rest. All [`TruthWriter`]s must be gone.
    pub(super) fn finish(self) -> io::Result<()> {
        drop(self.sender);
        self.writer.join().unwrap_or_else(|_| Err(io::Error::other("its thread panicked")))
    }
}

impl TruthWriter {
    pub(super) fn add(&mut self, row: TruthRow) {
        self.rows.push(row);
        if self.rows.len() >= BATCH {
            self.hand_over();
        }
    }

    fn hand_over(&mut self) {
        let rows = std::mem::replace(&mut self.rows, Vec::with_capacity(BATCH));
        // The writer ends early only after an error, which it reports at the end.
        let _ = self.sender.send(TruthBatch { connection: self.connection, rows });
    }
}

impl Drop for TruthWriter {
    fn drop(&mut self) {
        self.hand_over();
    }
}

fn write(mut file: BufWriter<File>, batches: &Receiver<TruthBatch>) -> io::Result<()> {
    let mut text = String::new();
    for TruthBatch { connection, rows } in batches {
        text.clear();
        for row in rows {
            let time = |ns: Option<u64>| ns.map_or_else(String::new, |ns| ns.to_string());
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "{connection},{},{},{},{},{},{}",
                row.sequence,
                row.due_ns,
                time(row.sent_ns),
                time(row.done_ns),
                row.bytes,
                row.fault.map_or("", FaultKind::name)
            );
        }
        file.write_all(text.as_bytes())?;
    }
    file.flush()
}
