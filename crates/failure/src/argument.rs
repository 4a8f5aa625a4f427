//! Arguments of a command line: addresses in the form that errors show, and the content of files.

use std::io::{self, ErrorKind, Read};

/// Most bytes of a text that a user names. A device such as /dev/zero has no end.
const MOST_TEXT_BYTES: u64 = 64 << 20;

/// Replaces `USER:PASSWORD` in an address by `…`, also if the scheme is missing. Use it wherever an
/// address is shown.
///
/// ```
/// use pitwire_failure::without_password;
/// assert_eq!(without_password("nats://me:secret@host:4222"), "nats://…@host:4222");
/// assert_eq!(without_password("nats://me:sec?r/et@host"), "nats://…@host");
/// assert_eq!(without_password("me:secret@host:4222"), "…@host:4222");
/// assert_eq!(without_password("wss://host:1/btc@trade"), "wss://host:1/btc@trade");
/// ```
pub fn without_password(url: &str) -> String {
    let is_scheme = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let (scheme, rest) = url.split_once("://").filter(|(scheme, _)| is_scheme(scheme)).unwrap_or(("", url));
    let authority = rest.split(['/', '?', '#']).next().unwrap_or(rest);
    let behind_host = authority.rsplit(']').next().unwrap_or(authority);
    // A password with a slash or a question mark ends the authority early. Its colon is then
    // followed by something that is not a port.
    let is_port = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let has_login = authority.contains('@') || behind_host.split_once(':').is_some_and(|(_, port)| !is_port(port));
    let Some((_, host)) = rest.rsplit_once('@').filter(|_| has_login) else { return url.to_owned() };
    let separator = if scheme.is_empty() { "" } else { "://" };
    format!("{scheme}{separator}…@{host}")
}

/// Reads a text of at most 64 MiB, as [`std::io::read_to_string`] does.
///
/// # Errors
///
/// The source cannot be read, is longer, or is not UTF-8.
pub fn read_text(source: impl Read) -> io::Result<String> {
    let bytes = read_bytes(source, MOST_TEXT_BYTES)?;
    String::from_utf8(bytes).map_err(|_| io::Error::new(ErrorKind::InvalidData, "it is not UTF-8 text"))
}

/// Reads at most `most_bytes` to the end, whatever length the file system reports.
///
/// # Errors
///
/// The source cannot be read, or is longer.
pub fn read_bytes(source: impl Read, most_bytes: u64) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    source.take(most_bytes + 1).read_to_end(&mut content)?;
    if content.len() as u64 > most_bytes {
        let why = format!("it is larger than {} MiB", most_bytes >> 20);
        return Err(io::Error::new(ErrorKind::FileTooLarge, why));
    }
    Ok(content)
}
