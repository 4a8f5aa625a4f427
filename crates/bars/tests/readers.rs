//! The C and Python readers, fed by our ring producer and by a pipe: every record once, in order,
//! byte by byte.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;

use memmap2::{MmapOptions, MmapRaw};
use pitwire_shard::{Memory, Producer, PutError, RingConfig};
use rustix::thread::futex;
use sha2::{Digest, Sha256};

const CAPACITY: u64 = 1 << 16;
const RECORDS: u32 = 30_000;

fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Makes trades of growing numbers and of all lengths, nearly up to the longest for the ring.
fn record(number: u32) -> Vec<u8> {
    let padding = if number.is_multiple_of(997) { 15_000 } else { number % 131 };
    let symbol = number % 7;
    format!(
        r#"{{"ev":"T","sym":"S{symbol}","i":"{:012}","pad":"{}","p":1.5}}"#,
        number / 7 + 1,
        "x".repeat(padding as usize)
    )
    .into_bytes()
}

/// A reader's report after the last record.
struct StreamTotals {
    records: u32,
    bytes: usize,
    /// Sum of FNV-1a over each record, as the C example computes it.
    checksum: u64,
    /// SHA-256 of lengths and bytes in order.
    digest: String,
}

fn totals(records: u32) -> StreamTotals {
    let mut totals = StreamTotals { records, bytes: 0, checksum: 0, digest: String::new() };
    let mut hash = Sha256::new();
    for number in 0..records {
        let record = record(number);
        totals.bytes += record.len();
        let fnv = record
            .iter()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        totals.checksum = totals.checksum.wrapping_add(fnv);
        hash.update(u32::try_from(record.len()).unwrap().to_le_bytes());
        hash.update(&record);
    }
    totals.digest = hex::encode(hash.finalize());
    totals
}

/// Maps a file.
fn map(file: &File) -> MmapRaw {
    MmapOptions::new().map_raw(file).unwrap()
}

/// A ring's file, locked as by a live splitter.
struct Ring {
    path: PathBuf,
    lock: File,
    producer: Producer<MmapRaw>,
    /// The area for referenced records, how far it is filled, and its file.
    area: Option<(MmapRaw, usize, PathBuf)>,
}

/// Size of the area: two thirds of all records.
const AREA_BYTES: usize = 8 << 20;

impl Ring {
    fn new(name: &str) -> Ring {
        let path = std::env::temp_dir().join(format!("pitwire-readers-{}-{name}", std::process::id()));
        let lock = File::options().create(true).truncate(true).read(true).write(true).open(&path).unwrap();
        lock.set_len(CAPACITY + 4096).unwrap();
        lock.lock().unwrap();
        let shape = RingConfig { capacity: CAPACITY, worker: 0, workers: 1, started_ns: 1 };
        Ring { producer: Producer::create(map(&lock), &shape).unwrap(), path, lock, area: None }
    }

    /// Makes a ring of version 2 with an area.
    fn referring(name: &str) -> Ring {
        let mut ring = Ring::new(name);
        let path = ring.path.with_extension("area");
        let file = File::options().create(true).truncate(true).read(true).write(true).open(&path).unwrap();
        file.set_len(AREA_BYTES as u64).unwrap();
        let shape = RingConfig { capacity: CAPACITY, worker: 0, workers: 1, started_ns: 1 };
        let named = path.file_name().unwrap().to_str().unwrap();
        let mapping = map(&ring.lock);
        ring.producer = Producer::create_referring(mapping, &shape, named, AREA_BYTES as u64).unwrap();
        ring.area = Some((map(&file), 0, path));
        ring
    }

    fn put(&mut self, number: u32, record: &[u8]) -> Result<(), PutError> {
        match &mut self.area {
            Some((area, filled, _)) if !number.is_multiple_of(3) => {
                assert!(*filled + record.len() <= AREA_BYTES);
                // SAFETY: within the area, where nothing is referenced yet.
                unsafe {
                    let to = area.base().as_ptr().add(*filled);
                    std::ptr::copy_nonoverlapping(record.as_ptr(), to, record.len());
                }
                self.producer.put_reference(u32::try_from(*filled).unwrap(), record.len())?;
                *filled += record.len();
                Ok(())
            }
            _ => self.producer.put(record, 0, record.len()),
        }
    }

    fn publish(&mut self) {
        if self.producer.publish() {
            futex::wake(self.producer.bell(), futex::Flags::empty(), 1).unwrap();
        }
    }

    /// Puts a record. Waits for the reader while the ring is full.
    fn feed(&mut self, records: u32) {
        for number in 0..records {
            let record = record(number);
            loop {
                match self.put(number, &record) {
                    Ok(()) => break,
                    Err(PutError::Full) => {
                        self.publish();
                        std::thread::yield_now();
                    }
                    Err(refused) => panic!("{refused:?}"),
                }
            }
            if number % 17 == 0 || number + 1 == records {
                self.publish();
            }
            // Occasional silence, so that the reader sleeps and must be woken.
            if number % 5_000 == 0 {
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
        }
        self.publish();
    }

    fn end(&mut self) {
        if self.producer.end() {
            futex::wake(self.producer.bell(), futex::Flags::empty(), 1).unwrap();
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // The file may already be gone.
        let _ = fs::remove_file(&self.path);
        if let Some((.., path)) = &self.area {
            let _ = fs::remove_file(path);
        }
    }
}

/// Compiles the C example once, with all warnings as errors and every available sanitizer.
fn compiled() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let program = directory.join(format!("count-{}", std::process::id()));
        let strict = ["-Wall", "-Wextra", "-Werror", "-Wconversion", "-pedantic", "-std=c11", "-g", "-O1", "-pthread"];
        let compile = |more: &[&str]| {
            let mut cc = Command::new("cc");
            cc.args(strict).args(more).arg("-o").arg(&program).arg(top().join("clients/c/count.c"));
            cc.output().expect("a C compiler, which Rust needs for linking too")
        };
        let checked = compile(&["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]);
        if !checked.status.success() {
            let plain = compile(&[]);
            assert!(plain.status.success(), "{}", String::from_utf8_lossy(&plain.stderr));
        }
        // Another test may already have compiled it.
        let settled = directory.join("count");
        fs::rename(program, &settled).unwrap();
        settled
    })
}

const PYTHON: &str = r"
import hashlib, json, sys
sys.path.insert(0, sys.argv[1])
import pitwire_shard
digest, count, size, end = hashlib.sha256(), 0, 0, 'ended'
try:
    for record in pitwire_shard.records(sys.argv[2]):
        digest.update(len(record).to_bytes(4, 'little') + record)
        count += 1
        size += len(record)
except pitwire_shard.SplitterDied:
    end = 'died'
print(json.dumps({'records': count, 'bytes': size, 'digest': digest.hexdigest(), 'end': end}))
";

fn start(language: &str, shard: &str, input: Stdio) -> Child {
    let mut command = if language == "C" { Command::new(compiled()) } else { Command::new("python3") };
    if language == "Python" {
        command.args(["-c", PYTHON]).arg(top().join("clients/python"));
    }
    command.arg(shard).stdin(input).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn summary(output: &Output) -> serde_json::Value {
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}{}", String::from_utf8_lossy(&output.stderr)))
}

fn check(output: &Output, records: u32, end: &str) {
    let (totals, summary) = (totals(records), summary(output));
    assert_eq!(
        (summary["records"].as_u64(), summary["end"].as_str()),
        (Some(u64::from(totals.records)), Some(end)),
        "{summary}"
    );
    assert_eq!(summary["bytes"].as_u64(), Some(totals.bytes as u64), "{summary}");
    if let Some(digest) = summary["digest"].as_str() {
        assert_eq!(digest, totals.digest);
    } else {
        assert_eq!(summary["checksum"].as_str(), Some(format!("{:016x}", totals.checksum).as_str()));
        assert_eq!((summary["broken"].as_u64(), summary["gaps"].as_u64()), (Some(0), Some(0)));
    }
}

/// Checks that the reader in C refuses a ring without a crash.
fn check_refused(path: &Path, number: usize) {
    let output = start("C", path.to_str().unwrap(), Stdio::null()).wait_with_output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "case {number}: {error}");
    assert!(!error.contains("Sanitizer") && !error.contains("runtime error"), "case {number}: {error}");
    assert_eq!(summary(&output)["end"], "failed", "case {number}");
}

/// Checks that each reader reads a ring whole and in order.
fn read_whole(name: &str, open: fn(&str) -> Ring) {
    for language in ["C", "Python"] {
        let mut ring = open(&format!("{name}-{language}"));
        let reader = start(language, ring.path.to_str().unwrap(), Stdio::null());
        ring.feed(RECORDS);
        ring.end();
        let output = reader.wait_with_output().unwrap();
        check(&output, RECORDS, "ended");
        assert!(output.status.success());
    }
}

#[test]
fn a_ring_is_read_whole_and_in_order() {
    read_whole("whole", Ring::new);
}

#[test]
fn a_ring_with_references_is_read_whole_and_in_order() {
    read_whole("refers", Ring::referring);
}

/// Areas that are not named, missing or too short, and references outside them.
#[test]
fn hostile_references_are_refused_without_a_crash() {
    let mut ring = Ring::referring("hostile-refers");
    ring.feed(20);
    ring.end();
    let whole = fs::read(&ring.path).unwrap();
    let name_end = 512 + whole[512..].iter().position(|byte| *byte == 0).unwrap();
    // Offset and bytes. Record 0 takes the first slot, record 1 is the first reference.
    let first = 4096 + (record(0).len() + 4).next_multiple_of(8);
    let changes: [(usize, Vec<u8>); 8] = [
        (512, vec![0]),
        (512, b"../x\0".to_vec()),
        (512, vec![b'x'; 300]),
        (name_end - 1, b"b".to_vec()),
        (40, (AREA_BYTES as u64 + 1).to_le_bytes().to_vec()),
        (first + 4, u32::MAX.to_le_bytes().to_vec()),
        (first + 4, ((8_u32 << 20) - 1).to_le_bytes().to_vec()),
        (first, 0xFFFF_FFFE_u32.to_le_bytes().to_vec()),
    ];
    let path = ring.path.with_extension("damaged");
    for (number, (at, bytes)) in changes.into_iter().enumerate() {
        let mut case = whole.clone();
        case[at..at + bytes.len()].copy_from_slice(&bytes);
        fs::write(&path, case).unwrap();
        check_refused(&path, number);
        let example = top().join("clients/python/pitwire_shard.py");
        let output = Command::new("python3").arg(example).arg(&path).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "case {number}: {error}");
        assert!(error.starts_with("pitwire_shard.py: ") && error.lines().count() == 1, "case {number}: {error}");
    }
    fs::remove_file(&path).unwrap();
}

#[test]
fn a_pipe_is_read_whole_and_in_order() {
    for language in ["C", "Python"] {
        let (ours, mut theirs) = io::pipe().unwrap();
        let reader = start(language, "0", ours.into());
        let mut staged = Vec::new();
        for number in 0..RECORDS {
            let record = record(number);
            staged.extend(u32::try_from(record.len()).unwrap().to_le_bytes());
            staged.extend(record);
            // In pieces that cut records and lengths anywhere.
            if staged.len() > 5_003 {
                let rest = staged.split_off(4_999);
                theirs.write_all(&staged).unwrap();
                staged = rest;
            }
        }
        theirs.write_all(&staged).unwrap();
        drop(theirs);
        let output = reader.wait_with_output().unwrap();
        check(&output, RECORDS, "ended");
        assert!(output.status.success());
    }
}

#[test]
fn a_dead_splitter_is_noticed_and_its_published_records_are_read() {
    for language in ["C", "Python"] {
        let mut ring = Ring::new(&format!("dies-{language}"));
        let reader = start(language, ring.path.to_str().unwrap(), Stdio::null());
        ring.feed(100);
        // What kill -9 does: the lock is released, the state stays.
        ring.lock.unlock().unwrap();
        let output = reader.wait_with_output().unwrap();
        check(&output, 100, "died");
        let (ours, mut theirs) = io::pipe().unwrap();
        let reader = start(language, "0", ours.into());
        theirs.write_all(b"\x04\0\0\0{\"").unwrap();
        drop(theirs);
        let output = reader.wait_with_output().unwrap();
        assert_eq!((summary(&output)["records"].as_u64(), summary(&output)["end"].as_str()), (Some(0), Some("died")));
    }
}

/// Changes every byte of the header's first 32 and of the positions; lengths that leave the ring;
/// truncated files.
#[test]
fn hostile_rings_are_refused_without_a_crash() {
    let mut ring = Ring::new("hostile");
    ring.feed(20);
    ring.end();
    let whole = fs::read(&ring.path).unwrap();
    let mut cases: Vec<Vec<u8>> = vec![whole[..0].to_vec(), whole[..100].to_vec(), whole[..4096].to_vec()];
    cases.push(whole[..whole.len() - 1].to_vec());
    let places = [0, 7, 8, 12, 13, 16, 17, 18, 23, 128, 130, 135, 256, 258, 263, 4096, 4097, 4098, 4099];
    for at in places {
        for value in [1, 0x7f, 0xff] {
            let mut damaged = whole.clone();
            if damaged[at] != value {
                damaged[at] = value;
                cases.push(damaged);
            }
        }
    }
    let mut wrapped = whole.clone();
    wrapped[4096..4100].fill(0xff);
    cases.push(wrapped);
    let path = ring.path.with_extension("damaged");
    for (number, case) in cases.iter().enumerate() {
        fs::write(&path, case).unwrap();
        check_refused(&path, number);
    }
    let mut program =
        String::from("import sys; sys.path.insert(0, sys.argv[1]); import pitwire_shard\nfor name in sys.argv[2:]:\n");
    program.push_str(
        " try:\n  list(pitwire_shard.records(name)); print('taken', name)\n except pitwire_shard.ShardFault: pass\n",
    );
    let mut python = Command::new("python3");
    python.args(["-c", &program]).arg(top().join("clients/python"));
    let directory = path.with_extension("cases");
    fs::create_dir_all(&directory).unwrap();
    for (number, case) in cases.iter().enumerate() {
        fs::write(directory.join(number.to_string()), case).unwrap();
        python.arg(directory.join(number.to_string()));
    }
    let output = python.output().unwrap();
    fs::remove_dir_all(&directory).unwrap();
    fs::remove_file(&path).unwrap();
    let totals = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && totals.is_empty(), "{totals}");
}

#[test]
fn an_invalid_shard_is_reported_in_one_line() {
    for (shard, code) in [("no-such-ring", 1), ("97", 1), ("99999999999999999999", 1), ("", 1)] {
        let output = start("C", shard, Stdio::null()).wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{shard}");
        assert_eq!(String::from_utf8_lossy(&output.stderr).lines().count(), 1, "{shard}");
    }
    let alone = Command::new(compiled()).output().unwrap();
    assert_eq!(alone.status.code(), Some(2));
    let python = Command::new("python3").arg(top().join("clients/python/pitwire_shard.py")).output().unwrap();
    assert_eq!(python.status.code(), Some(2));
}

#[test]
fn the_header_compiles_as_cpp() {
    let source = std::env::temp_dir().join(format!("pitwire-readers-{}.cpp", std::process::id()));
    fs::write(
        &source,
        "#include \"pitwire_shard.h\"\nint main() { pitwire_shard shard; const unsigned char *record; size_t length;\n\
         return pitwire_shard_open(&shard, \"x\") < 0 ? 0 : pitwire_shard_next(&shard, 0, &record, &length); }\n",
    )
    .unwrap();
    let strict = ["-std=c++17", "-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only", "-x", "c++"];
    // Skipped without a C++ compiler.
    if let Ok(output) = Command::new("c++").args(strict).arg("-I").arg(top().join("clients/c")).arg(&source).output() {
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    fs::remove_file(source).unwrap();
}
