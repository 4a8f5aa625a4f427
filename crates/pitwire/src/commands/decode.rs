//! `pitwire decode`: prints the messages in a capture of network traffic. The work is in
//! `crates/capture`.

use std::fs::File;
use std::io::{self, BufWriter, Read, Write, stdin, stdout};
use std::ops::ControlFlow;
use std::process::{Child, Command, Stdio};

use clap::Args;
use pitwire_capture::{CaptureCounts, CaptureError, CapturedMessage, decode};
use pitwire_failure::Failure;
use pitwire_net::stop_flag;
use pitwire_terminal::output::{printable, printable_json};
use serde_json::json;

const EXAMPLES: &str = "Formats, fields and counts: docs/order-feed.md.

Examples:
  pitwire decode capture.pcapng --instrument NPN_ZAR --type A,E
      the new orders and the executions of one instrument
  tcpdump -i lo -U -w - udp port 9100 | pitwire decode - --json
      live traffic, as one JSON object for each message";

/// Print the messages of the order feed and of binary order entry in a capture.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Decode {
    /// Capture in the format pcap or pcapng; `-` reads standard input.
    #[arg(value_name = "FILE", required_unless_present = "interface", conflicts_with = "interface")]
    file: Option<String>,
    /// Capture live on this network interface, with tcpdump.
    #[arg(long, value_name = "NAME")]
    interface: Option<String>,
    /// Only messages of these instruments, by name or id.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    instrument: Vec<String>,
    /// Only messages of these types, by letter, template id or name.
    #[arg(long = "type", value_name = "TYPES", value_delimiter = ',')]
    types: Vec<String>,
    /// Only packets from or to these ports.
    #[arg(long, value_name = "PORTS", value_delimiter = ',')]
    port: Vec<u16>,
    /// Print one JSON object for each message, and one with the counts at the end.
    #[arg(long)]
    json: bool,
}

impl Decode {
    /// Prints the messages and then the counts.
    ///
    /// # Errors
    /// If the capture cannot be opened or is malformed, if tcpdump fails, or if the output cannot
    /// be written.
    pub fn run(self) -> Result<(), Failure> {
        if let Some(interface) = &self.interface {
            return self.run_live(interface);
        }
        let file = self.file.as_deref().unwrap_or("-");
        if file == "-" {
            return self.print(stdin().lock(), true, "-");
        }
        let opened = File::open(file).map_err(|error| {
            Failure::new(format!("cannot read {file}: {error}")).remedy("give the path of a capture, or - for a pipe")
        })?;
        self.print(opened, false, file)
    }

    /// Starts tcpdump and reads its output until the end. Ctrl-C ends tcpdump too.
    fn run_live(&self, interface: &str) -> Result<(), Failure> {
        let _stop = stop_flag()?;
        let mut tcpdump = Command::new("tcpdump")
            .args([&format!("--interface={interface}"), "-U", "-n", "-q", "-w", "-"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| {
                Failure::new(format!("cannot start tcpdump: {error}")).remedy("install tcpdump, or decode a file")
            })?;
        let input = tcpdump.stdout.take();
        let printed = match input {
            Some(input) => self.print(input, true, interface),
            None => Ok(()),
        };
        let problem = end(&mut tcpdump);
        match problem {
            Some(text) => Err(Failure::new(format!("tcpdump cannot capture on {interface}: {text}"))
                .remedy("run as root or with CAP_NET_RAW, and take a name from ip link")),
            None => printed,
        }
    }

    fn print(&self, input: impl Read, is_live: bool, name: &str) -> Result<(), Failure> {
        let mut out = BufWriter::new(stdout().lock());
        let mut written = Ok(());
        let (counts, read) = decode(input, &mut |message| {
            if !self.selects(message) {
                return ControlFlow::Continue(());
            }
            written = self.line(&mut out, message).and_then(|()| if is_live { out.flush() } else { Ok(()) });
            if written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        let summary = if self.json { counts_json(&counts) } else { counts_text(&counts) };
        let is_nothing = counts.packets == 0 && read.is_err();
        let written = match written {
            Ok(()) if is_nothing => Ok(()),
            Ok(()) => writeln!(out, "{summary}").and_then(|()| out.flush()),
            error => error,
        };
        match (read, written) {
            (Err(error), _) => Err(failure(&error, name)),
            (_, Err(error)) if error.kind() != io::ErrorKind::BrokenPipe => {
                Err(Failure::new(format!("the output could not be written: {error}"))
                    .remedy("free disk space, or redirect the output"))
            }
            _ => Ok(()),
        }
    }

    fn selects(&self, message: &CapturedMessage) -> bool {
        let ports = [message.source.port(), message.destination.port()];
        let is_type = |wanted: &String| *wanted == message.message_type || wanted.eq_ignore_ascii_case(message.name);
        let is_instrument = |wanted: &String| {
            message.instrument_name.as_ref() == Some(wanted)
                || message.instrument_id.is_some_and(|id| id.to_string() == *wanted)
        };
        (self.port.is_empty() || self.port.iter().any(|port| ports.contains(port)))
            && (self.types.is_empty() || self.types.iter().any(is_type))
            && (self.instrument.is_empty() || self.instrument.iter().any(is_instrument))
    }

    /// Texts of a capture must not steer the terminal.
    fn line(&self, out: &mut impl Write, message: &CapturedMessage) -> io::Result<()> {
        if self.json {
            writeln!(out, "{}", printable_json(&message.to_json().to_string()))
        } else {
            writeln!(out, "{}", printable(&message.to_string()))
        }
    }
}

/// Ends tcpdump. Returns its last line if it has failed.
fn end(tcpdump: &mut Child) -> Option<String> {
    // It may have ended.
    drop(tcpdump.stdout.take());
    let mut text = String::new();
    let stderr = tcpdump.stderr.take();
    let ended = tcpdump.try_wait().ok().flatten();
    if ended.is_none() {
        drop(tcpdump.kill());
    }
    if let Some(mut stderr) = stderr {
        drop(stderr.read_to_string(&mut text));
    }
    let status = tcpdump.wait().ok()?;
    let last = text.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or_default();
    (status.code().is_some_and(|code| code != 0)).then(|| printable(last.trim_start_matches("tcpdump: ")))
}

fn failure(error: &CaptureError, name: &str) -> Failure {
    let remedy = match error {
        CaptureError::Empty => "record packets first, for example with tcpdump -i lo -w FILE",
        CaptureError::NotACapture => "give a file that tcpdump, dumpcap or Wireshark has written, not compressed",
        CaptureError::Malformed { .. } => "record the capture again; the messages above are complete",
        CaptureError::Read(_) => "check the disk, or the program before the pipe",
    };
    Failure::new(format!("{name}: {error}")).remedy(remedy)
}

fn counts_json(counts: &CaptureCounts) -> String {
    json!({"counts": {
        "packets": counts.packets, "messages": counts.messages, "foreign": counts.foreign, "cut": counts.cut,
        "fragments": counts.fragments, "malformed": counts.malformed,
        "repeated_segments": counts.repeated_segments, "gaps": counts.gaps,
        "missing_bytes": counts.missing_bytes, "is_cut_off": counts.is_cut_off,
    }})
    .to_string()
}

fn counts_text(counts: &CaptureCounts) -> String {
    let mut text = format!(
        "{} packets with {} messages; {} foreign packets, {} cut, {} fragments; {} malformed messages, {} repeated segments, {} TCP gaps of {} bytes",
        counts.packets,
        counts.messages,
        counts.foreign,
        counts.cut,
        counts.fragments,
        counts.malformed,
        counts.repeated_segments,
        counts.gaps,
        counts.missing_bytes
    );
    if counts.is_cut_off {
        text.push_str("; the capture ends within a packet");
    }
    text
}
