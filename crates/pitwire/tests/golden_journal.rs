//! Reads the journals of earlier releases and compares the figures with those of the release that
//! wrote them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use pitwire_journal::records::SNAPSHOT_VERSION;
use serde_json::Value;

fn pitwire() -> Command {
    Command::new(env!("CARGO_BIN_EXE_pitwire"))
}

/// A copy of a journal, which is removed at the end of the test.
struct Copy(PathBuf);

impl Copy {
    fn of(golden: &Path, test: &str) -> Self {
        let name = golden.file_name().unwrap().to_string_lossy().into_owned();
        let copy = std::env::temp_dir().join(format!("pitwire-golden-{test}-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&copy);
        fs::create_dir(&copy).unwrap();
        for file in fs::read_dir(golden.join("data")).unwrap().map(Result::unwrap) {
            fs::copy(file.path(), copy.join(file.file_name())).unwrap();
        }
        Copy(copy)
    }

    fn verify(&self) -> Value {
        self.verify_with_notes().0
    }

    fn verify_with_notes(&self) -> (Value, String) {
        let Output { status, stdout, stderr } = pitwire().arg("verify").arg(&self.0).arg("--json").output().unwrap();
        let notes = String::from_utf8_lossy(&stderr).into_owned();
        assert!(status.success(), "{notes}");
        (serde_json::from_slice(&stdout).unwrap(), notes)
    }

    /// Returns the layout of every snapshot, oldest first.
    fn layouts(&self) -> Vec<u16> {
        let files = fs::read_dir(&self.0).unwrap().map(|file| file.unwrap().path());
        let mut snapshots: Vec<PathBuf> =
            files.filter(|file| file.extension().is_some_and(|end| end == "snap")).collect();
        snapshots.sort();
        let layout = |file| fs::read(file).unwrap()[8..10].try_into().map(u16::from_le_bytes).unwrap();
        snapshots.into_iter().map(layout).collect()
    }

    /// Starts the venue, waits until it serves, and stops it.
    fn start_and_stop(&self) {
        let mut ready = self.0.clone().into_os_string();
        ready.push(".ready");
        let ready = PathBuf::from(ready);
        let _ = fs::remove_file(&ready);
        let mut up = pitwire()
            // The journals are older than a day.
            .args(["up", "--no-flow", "--http", "127.0.0.1:0", "--accept-clock", "--data"])
            .arg(&self.0)
            .arg("--ready-file")
            .arg(&ready)
            .spawn()
            .unwrap();
        let patience = Instant::now() + Duration::from_secs(60);
        while !ready.exists() {
            assert_eq!(up.try_wait().unwrap(), None, "it ended before it served");
            assert!(Instant::now() < patience);
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(Command::new("kill").arg(up.id().to_string()).status().unwrap().success());
        assert!(up.wait().unwrap().success());
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn every_golden_journal_gives_the_figures_of_its_release() {
    let all = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contracts/vectors/journal");
    let releases: Vec<PathBuf> =
        fs::read_dir(all).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()).collect();
    assert!(!releases.is_empty(), "scripts/golden_journal.py makes the first");
    for golden in releases {
        let expected: Value = serde_json::from_slice(&fs::read(golden.join("expected.json")).unwrap()).unwrap();
        let copy = Copy::of(&golden, "read");
        let output = copy.verify();
        for (name, value) in expected.as_object().unwrap().iter().filter(|(name, _)| *name != "state_hash") {
            assert_eq!(&output[name], value, "{name} of {}", golden.display());
        }
        let state = &expected["state_hash"][SNAPSHOT_VERSION.to_string()];
        assert_eq!(&output["state_hash"], state, "state hash of {} by this layout", golden.display());
        assert!(expected["trades"].as_u64() > Some(0), "a journal without trades proves little");
        copy.start_and_stop();
        // The old commands are unchanged, and the start follows them.
        let (after, _) = copy.verify_with_notes();
        assert!(after["commands"].as_u64() > expected["commands"].as_u64());
        let until = expected["commands"].to_string();
        let then = pitwire().arg("verify").arg(&copy.0).args(["--json", "--until", &until]).output().unwrap();
        let then: Value = serde_json::from_slice(&then.stdout).unwrap();
        assert_eq!((&then["state_hash"], &then["tape_hash"]), (state, &expected["tape_hash"]));
        // The start wrote a snapshot of the current layout, from which the next start recovers.
        assert_eq!(copy.layouts().last(), Some(&SNAPSHOT_VERSION));
        copy.start_and_stop();
        let (again, notes) = copy.verify_with_notes();
        assert!(again["commands"].as_u64() > after["commands"].as_u64());
        assert_eq!(copy.layouts(), [SNAPSHOT_VERSION; 2], "the older layout has been made superfluous");
        assert!(!notes.contains("passed over"), "{notes}");
    }
}

#[test]
fn a_directory_without_its_beginning_and_with_older_snapshots_alone_is_refused_by_name() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contracts/vectors/journal/0.1");
    let copy = Copy::of(&golden, "cut");
    fs::rename(copy.0.join("journal-00000001.seg"), copy.0.join("journal-00000002.seg")).unwrap();
    for program in [&["up", "--no-flow", "--http", "127.0.0.1:0", "--data"][..], &["verify"]] {
        let Output { status, stderr, .. } = pitwire().args(program).arg(&copy.0).output().unwrap();
        let output = String::from_utf8_lossy(&stderr).into_owned();
        assert_eq!(status.code(), Some(1), "{output}");
        assert!(
            output.contains("snapshot-00000000000000000097.snap has layout version 2, this build knows 4"),
            "{output}"
        );
        assert!(output.contains("restore the segments from the first one on"), "{output}");
    }
    assert_eq!(copy.layouts(), [2], "nothing was changed");
}

#[test]
fn a_journal_of_a_newer_format_is_refused_by_name_and_left_alone() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contracts/vectors/journal/0.1");
    let copy = Copy::of(&golden, "newer");
    let file = copy.0.join("superblock");
    let mut bytes = fs::read(&file).unwrap();
    for slot in bytes.chunks_mut(4096).filter(|slot| slot.starts_with(b"PITWSUP")) {
        slot[8..10].copy_from_slice(&u16::MAX.to_le_bytes());
        slot[12..16].fill(0);
        let checksum = crc32c::crc32c(slot);
        slot[12..16].copy_from_slice(&checksum.to_le_bytes());
    }
    fs::write(&file, &bytes).unwrap();
    for mut command in [
        {
            let mut up = pitwire();
            up.args(["up", "--http", "127.0.0.1:0", "--data"]);
            up
        },
        {
            let mut verify = pitwire();
            verify.arg("verify");
            verify
        },
    ] {
        let Output { status, stderr, .. } = command.arg(&copy.0).output().unwrap();
        let output = String::from_utf8_lossy(&stderr).into_owned();
        assert_eq!(status.code(), Some(1), "{output}");
        assert!(output.contains("superblock has format version 65535"), "{output}");
        assert!(output.contains("start the newer build that wrote it"), "{output}");
        assert_eq!(fs::read(&file).unwrap(), bytes, "nothing was changed");
    }
}
