//! The file with the key that a venue shares with its gateways: 64 hexadecimal digits, readable by
//! its owner only.

use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use pitwire_gateway::protocol::BusKey;
use zeroize::Zeroizing;

use pitwire_disk::open_regular;
use pitwire_failure::Failure;

/// Name of the file in a data directory.
pub const FILE: &str = "bus.key";
const OWNER_ONLY: u32 = 0o600;
/// Most bytes that are read of a key file.
const MOST_BYTES: u64 = 1024;

/// Reads a key file, for a gateway.
///
/// # Errors
///
/// The file cannot be read, others may read it, or it has no key.
pub fn read(path: &Path) -> Result<BusKey, Failure> {
    let failed = |what: String, remedy: &str| {
        Failure::new(format!("cannot use the bus key {}: {what}", path.display())).remedy(remedy)
    };
    let no_file = "give a copy of the venue's bus.key, from its data directory, with --bus-key FILE";
    let file = open_regular(path).map_err(|error| failed(error.to_string(), no_file))?;
    let mode = file.metadata()?.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(failed(format!("others may read it (mode {mode:o})"), "chmod 600 it"));
    }
    let mut text = Zeroizing::new(String::new());
    file.take(MOST_BYTES).read_to_string(&mut text).map_err(|error| failed(error.to_string(), no_file))?;
    BusKey::parse(&text).ok_or_else(|| failed("it is not 64 hexadecimal digits".into(), no_file))
}

/// Reads a key file, for a venue. Creates it if it does not exist.
///
/// # Errors
///
/// As for [`read`]; also if the file cannot be created.
pub fn read_or_make(path: &Path) -> Result<BusKey, Failure> {
    match make(path) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => {
            return Err(Failure::new(format!("cannot make the bus key {}: {error}", path.display()))
                .remedy("name another file with --bus-key FILE"));
        }
    }
    read(path)
}

fn make(path: &Path) -> io::Result<()> {
    let mut bytes = Zeroizing::new([0; 32]);
    getrandom::fill(bytes.as_mut_slice()).map_err(|error| io::Error::other(error.to_string()))?;
    let mut file = OpenOptions::new().write(true).create_new(true).mode(OWNER_ONLY).open(path)?;
    let line = Zeroizing::new(format!("{}\n", BusKey::new(*bytes).to_hex().as_str()));
    if let Err(error) = file.write_all(line.as_bytes()).and_then(|()| file.sync_all()) {
        // A part of a key would be refused at every later start.
        let _ = fs::remove_file(path);
        return Err(error);
    }
    // The file's name must survive a power cut as well.
    match std::path::absolute(path)?.parent() {
        Some(parent) => fs::File::open(parent)?.sync_all(),
        None => Ok(()),
    }
}
