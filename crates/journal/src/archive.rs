//! Compressed segments. Old segments are compressed with zstd; the bytes inside are unchanged.
//!
//! Holds       1. a segment is readable at every moment: the compressed file is whole, synced and
//!                has its name on disk before the plain file is removed. After a crash both may
//!                exist;
//!             2. compressed data has a checksum, so a damaged file is refused by its name.
//! Costs       three times the size of a segment in memory while one is compressed, and its size
//!             while it is read.

use std::io;

use crate::records::group::BLOCK_BYTES;
use crate::{File, Storage};

use crate::{
    JournalConfig, OpenError,
    error::while_doing,
    keep::NEWEST_SNAPSHOTS,
    names::{self, Listing},
    retention::nth_newest,
};

/// Level of zstd. Higher levels take several times as long for a few per cent.
const LEVEL: i32 = 3;
/// Largest segment that is read, so that a damaged header cannot demand more memory.
const SEGMENT_LIMIT_BYTES: u64 = 1 << 30;

/// Compresses every plain segment that ends before the second newest readable snapshot. A start
/// needs these only if both snapshots are unreadable. May run on any thread while the journal is
/// written. Stops before a segment for which `goes_on` returns false. Returns the number of
/// compressed segments.
///
/// # Errors
///
/// Returns an I/O error, for example if the disk is full. Every segment is still readable then.
pub fn compress_segments(
    storage: &dyn Storage,
    config: &JournalConfig,
    goes_on: impl Fn() -> bool,
) -> Result<usize, OpenError> {
    let names = storage.list().map_err(while_doing("list", "the journal's directory"))?;
    let listing = Listing::new(names);
    let Some((_, first_plain)) = nth_newest(storage, &listing, config, NEWEST_SNAPSHOTS)? else { return Ok(0) };
    let mut compressed = 0;
    for number in listing.plain.iter().copied().filter(|number| *number < first_plain) {
        if !goes_on() {
            break;
        }
        compress(storage, number)?;
        compressed += 1;
    }
    Ok(compressed)
}

fn compress(storage: &dyn Storage, number: u32) -> Result<(), OpenError> {
    let (plain, archive) = (names::segment(number), names::archive(number));
    let unfinished = names::unfinished(&archive);
    let written = write_archive(storage, &plain, &unfinished);
    if let Err(error) = written {
        // Frees the space. A second failure changes nothing.
        let _ = storage.remove(&unfinished);
        return Err(error);
    }
    storage.rename(&unfinished, &archive).map_err(while_doing("rename", &unfinished))?;
    storage.sync_directory().map_err(while_doing("sync the directory of", &archive))?;
    storage.remove(&plain).map_err(while_doing("remove", &plain))?;
    storage.sync_directory().map_err(while_doing("sync the directory of", &plain))
}

fn write_archive(storage: &dyn Storage, plain: &str, unfinished: &str) -> Result<(), OpenError> {
    let file = storage.open(plain).map_err(while_doing("open", plain))?;
    let bytes = file.len().map_err(while_doing("measure", plain))?;
    let mut content = vec![0; usize::try_from(bytes).unwrap_or(BLOCK_BYTES)];
    let got = file.read_at(0, &mut content).map_err(while_doing("read", plain))?;
    content.truncate(got);
    let packed = pack(&content).map_err(while_doing("compress", plain))?;
    // The plain file is removed afterwards, so prove first that nothing is lost.
    let unpacked = zstd::bulk::decompress(&packed, content.len()).map_err(while_doing("compress", plain))?;
    if unpacked != content {
        return Err(while_doing("compress", plain)(io::Error::other("the compressed segment differs")));
    }
    let mut file = storage.create(unfinished, packed.len() as u64).map_err(while_doing("create", unfinished))?;
    file.write_at(0, &packed).map_err(while_doing("write", unfinished))?;
    file.sync().map_err(while_doing("sync", unfinished))
}

fn pack(content: &[u8]) -> io::Result<Vec<u8>> {
    let mut compressor = zstd::bulk::Compressor::new(LEVEL)?;
    compressor.include_checksum(true)?;
    compressor.compress(content)
}

/// Opens a segment, plain or compressed. Returns the name of its file as well.
///
/// # Errors
///
/// Returns an I/O error, or the reason for which the compressed data cannot be read.
pub(crate) fn open_segment(storage: &dyn Storage, number: u32) -> Result<(String, Box<dyn File>), OpenError> {
    let plain = names::segment(number);
    match storage.open(&plain) {
        Ok(file) => return Ok((plain, file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(while_doing("open", &plain)(error)),
    }
    let archive = names::archive(number);
    match storage.open(&archive) {
        Ok(file) => {
            let packed = read_packed(file.as_ref()).map_err(while_doing("read", &archive))?;
            let content = unpack(&packed).map_err(|why| OpenError::DamagedArchive { segment: number, why })?;
            Ok((archive, Box::new(UnpackedSegment(content))))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(while_doing("open", &plain)(error)),
        Err(error) => Err(while_doing("open", &archive)(error)),
    }
}

fn read_packed(file: &dyn File) -> io::Result<Vec<u8>> {
    let bytes = file.len()?;
    let bytes = usize::try_from(bytes.min(SEGMENT_LIMIT_BYTES)).map_err(io::Error::other)?;
    let mut packed = vec![0; bytes];
    let got = file.read_at(0, &mut packed)?;
    packed.truncate(got);
    Ok(packed)
}

/// Returns the content of a compressed segment, or why it cannot be read.
fn unpack(packed: &[u8]) -> Result<Vec<u8>, String> {
    let size = zstd::zstd_safe::get_frame_content_size(packed).ok().flatten();
    let size = size.filter(|size| *size <= SEGMENT_LIMIT_BYTES).and_then(|size| usize::try_from(size).ok());
    let size = size.ok_or("it does not begin like a compressed segment")?;
    let content = zstd::bulk::decompress(packed, size).map_err(|error| error.to_string())?;
    if content.len() == size { Ok(content) } else { Err("it ends early".to_owned()) }
}

/// A compressed segment in memory. It is never written.
struct UnpackedSegment(Vec<u8>);

impl File for UnpackedSegment {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.len() as u64)
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        let rest = self.0.get(from..).unwrap_or_default();
        let count = rest.len().min(into.len());
        into[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }

    fn write_at(&mut self, _: u64, _: &[u8]) -> io::Result<()> {
        Err(io::Error::new(io::ErrorKind::ReadOnlyFilesystem, "compressed segments are never changed"))
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}
