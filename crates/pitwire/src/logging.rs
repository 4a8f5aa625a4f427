//! The log on standard error.
//!
//! Holds       no text steers the terminal, whichever library logs it and whichever peer sent it.

use std::fmt;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::{DefaultFields, Writer};

use pitwire_terminal::output::{has_colours, printable_lines};

/// The default log filter, unless PITWIRE_LOG sets another. The NATS client logs events that we log
/// ourselves.
const DEFAULT_LOG_FILTER: &str = "info,async_nats=warn";

/// Starts the log of the process.
pub fn start() {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(has_colours(&std::io::stderr()))
        .with_env_filter(EnvFilter::try_from_env("PITWIRE_LOG").unwrap_or_else(|_| DEFAULT_LOG_FILTER.into()))
        .fmt_fields(PrintableFields)
        .init();
}

/// Formats the message and the fields of an event without characters that steer a terminal.
///
/// The library's default escapes some of them, and none in a field that has a `Display` form.
struct PrintableFields;

impl<'writer> FormatFields<'writer> for PrintableFields {
    fn format_fields<R: RecordFields>(&self, mut writer: Writer<'writer>, fields: R) -> fmt::Result {
        let mut text = String::new();
        DefaultFields::new().format_fields(Writer::new(&mut text), fields)?;
        writer.write_str(&printable_lines(&text))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use super::PrintableFields;

    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl Write for Log {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn no_field_of_an_event_steers_the_terminal() {
        let log = Log::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_writer(move || writer.clone())
            .with_ansi(false)
            .fmt_fields(PrintableFields)
            .finish();
        let sent = "a\u{1b}[2J\u{9b}31m\u{202e}\rb";
        tracing::subscriber::with_default(subscriber, || {
            tracing::warn!(error = %sent, debug = ?sent, text = sent, "the peer sent {sent}\nand a second line");
        });
        let logged = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
        assert_eq!(logged.matches('\n').count(), 2, "{logged:?}");
        assert!(logged.contains("error=a?[2J?31m??b"), "{logged:?}");
        let steers = |c: char| c != '\n' && (c.is_control() || c == '\u{202e}');
        assert!(!logged.contains(steers), "{logged:?}");
    }
}
