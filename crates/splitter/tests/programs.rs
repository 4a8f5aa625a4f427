//! Real programs as workers: what they receive, and what happens when they die, hang or never
//! start.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use pitwire_feed::Object;
use pitwire_shard::StreamReader;
use pitwire_splitter::{
    SlowWorkerPolicy, Transport, TransportError, TransportOptions, WorkerProgram, open_pipe, open_shm,
};

const PATIENCE: Duration = Duration::from_secs(20);

/// Copies each pipe to a file `START.WORKER`, where START counts the starts of the program.
const COPY: &str = r#"
start=$(ls | grep -c '^start'); : > start$start; worker=0
for pipe; do cat /dev/fd/$pipe > $start.$worker & worker=$((worker+1)); done; wait
"#;

/// An empty directory, removed when the test is done.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("pitwire-programs-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.0.join(name)).unwrap_or_default()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn shell(script: &str, place: &Place) -> WorkerProgram {
    let arguments = vec!["-c".into(), script.into(), "worker".into()];
    WorkerProgram { command: "sh".into(), arguments, workdir: Some(place.0.clone()) }
}

fn options(workers: u32, policy: SlowWorkerPolicy, program: WorkerProgram) -> TransportOptions {
    let mut options = TransportOptions::new(workers);
    (options.policy, options.program) = (policy, Some(program));
    options
}

fn records(path: &Path) -> Vec<String> {
    let bytes = std::fs::read(path).unwrap_or_default();
    let mut intake = StreamReader::new(bytes.len());
    let space = intake.space();
    space[..bytes.len()].copy_from_slice(&bytes);
    intake.filled(bytes.len());
    let mut found = Vec::new();
    intake.take(|record| found.push(String::from_utf8(record.to_vec()).unwrap())).unwrap();
    found
}

/// Sends `many` numbers from `from` on, to two workers in turn.
fn deal(transport: &mut dyn Transport, from: u64, many: u64) {
    for number in from..from + many {
        let text = format!("{{\"n\":{number}}}");
        let end = u32::try_from(text.len()).unwrap();
        transport
            .send_objects(text.as_bytes(), &[Object { start: 0, end, worker: u32::try_from(number % 2).unwrap() }]);
    }
    transport.hand_over();
}

/// Hands over until `done` returns true.
fn until(transport: &mut dyn Transport, what: &str, mut done: impl FnMut(&mut dyn Transport) -> bool) {
    let give_up = Instant::now() + PATIENCE;
    while !done(transport) {
        assert!(Instant::now() < give_up, "never: {what}; {:?}", transport.totals());
        transport.hand_over();
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn wait_for_failure(transport: &mut dyn Transport) -> TransportError {
    until(transport, "failure", |transport| transport.failure().is_some());
    transport.failure().unwrap()
}

#[test]
fn a_program_gets_every_record_and_then_the_end() {
    let place = Place::new("all");
    let mut transport = open_pipe(options(2, SlowWorkerPolicy::default(), shell(COPY, &place))).unwrap();
    deal(&mut *transport, 0, 10_000);
    let summary = transport.finish(PATIENCE).unwrap();
    for worker in 0..2_u64 {
        let expected: Vec<String> = (0..5_000).map(|turn| format!("{{\"n\":{}}}", 2 * turn + worker)).collect();
        assert_eq!(records(&place.0.join(format!("0.{worker}"))), expected);
    }
    assert_eq!(summary.totals.handed, 10_000);
    assert!(summary.program.unwrap().ends_with("ended with exit code 0"));
}

/// A bug of the original program: a child that inherits write ends never sees the end of its
/// pipes.
#[test]
fn a_program_inherits_only_its_read_ends() {
    let place = Place::new("ends");
    let script = "for end in /proc/$$/fd/*; do readlink $end; done | grep -c pipe: > pipes; readlink /proc/$$/fd/* > all; echo $# $* > given; exit 0";
    let mut transport = open_pipe(options(3, SlowWorkerPolicy::default(), shell(script, &place))).unwrap();
    let failure = wait_for_failure(&mut *transport);
    assert!(failure.what.contains("ended with exit code 0"), "{failure}");
    let given = place.read("given");
    let given: Vec<&str> = given.split_whitespace().collect();
    assert_eq!(given[0], "3");
    assert!(given[1..].iter().all(|argument| argument.parse::<u32>().is_ok_and(|number| number > 2)), "{given:?}");
}

#[test]
fn rings_are_passed_by_name_and_removed_at_the_end() {
    let place = Place::new("names");
    let script =
        "echo $* > given; for ring; do test -w $ring && head -c 8 $ring; done > magic; while :; do sleep 1; done";
    let mut transport = open_shm(options(2, SlowWorkerPolicy::default(), shell(script, &place))).unwrap();
    until(&mut *transport, "magic", |_| place.read("magic").len() == 16);
    assert_eq!(place.read("magic"), "PWRING01PWRING01");
    let given = place.read("given");
    assert!(
        given.split_whitespace().all(|ring| ring.starts_with("/dev/shm/pitwire-split-") && Path::new(ring).exists())
    );
    // It never ends by itself, so it gets SIGTERM after a while.
    let summary = transport.finish(Duration::from_millis(1)).unwrap();
    assert!(summary.program.unwrap().ends_with("was ended by signal 15"));
    drop(transport);
    assert!(given.split_whitespace().all(|ring| !Path::new(ring).exists()));
}

#[test]
fn a_program_that_ignores_sigterm_is_killed() {
    let place = Place::new("deaf");
    let mut transport = open_pipe(options(
        2,
        SlowWorkerPolicy::default(),
        shell("trap '' TERM; : > ready; while :; do sleep 0.1; done", &place),
    ))
    .unwrap();
    until(&mut *transport, "ready", |_| place.0.join("ready").exists());
    let summary = transport.finish(Duration::from_millis(1)).unwrap();
    assert!(summary.program.unwrap().ends_with("was ended by signal 9"));
}

#[test]
fn a_dead_program_is_reported_with_its_exit_code() {
    let place = Place::new("dead");
    for open in [open_pipe, open_shm] {
        let mut transport = open(options(2, SlowWorkerPolicy::default(), shell("exit 3", &place))).unwrap();
        let failure = wait_for_failure(&mut *transport);
        assert!(failure.what.contains("sh (process ") && failure.what.contains("ended with exit code 3"), "{failure}");
        assert!(failure.remedy.contains("--on-slow restart"));
        deal(&mut *transport, 0, 100);
        let totals = transport.totals();
        assert_eq!(totals.handed + totals.dropped, 100);
        assert!(transport.finish(Duration::ZERO).is_err());
    }
}

#[test]
fn a_program_that_cannot_start_is_reported() {
    let place = Place::new("no-reader");
    let mut program = shell("", &place);
    program.command = "pitwire-no-such-program".into();
    let failure = open_pipe(options(2, SlowWorkerPolicy::default(), program.clone())).err().unwrap();
    assert!(failure.what.contains("cannot start pitwire-no-such-program in "), "{failure}");
    (program.command, program.workdir) = ("sh".into(), Some("/nonexistent".into()));
    assert!(open_shm(options(2, SlowWorkerPolicy::default(), program)).err().unwrap().what.contains("/nonexistent"));
}

/// Killed inside a record: the next program starts with the gap record, and sent = received +
/// declared.
#[test]
fn killed_program_is_restarted_with_a_gap_record() {
    let place = Place::new("killed");
    // The first program reads a little more than a hundred records of its pipes, and dies inside
    // one.
    let script = r#"
        if [ ! -e first ]; then : > first
            worker=0; for pipe; do head -c 1003 /dev/fd/$pipe > early.$worker; worker=$((worker+1)); done; kill -9 $$
        fi
        worker=0; for pipe; do cat /dev/fd/$pipe > late.$worker & worker=$((worker+1)); done; wait"#;
    let mut transport = open_pipe(options(2, SlowWorkerPolicy::Restart, shell(script, &place))).unwrap();
    deal(&mut *transport, 10_000, 2_000);
    until(&mut *transport, "restart", |transport| transport.totals().restarts == 1);
    until(&mut *transport, "caught up", |transport| !transport.has_pending());
    deal(&mut *transport, 12_000, 2_000);
    let report = transport.report().expect("a report");
    assert!(report.what.contains("was ended by signal 9; it is started again in 100 ms"), "{report}");
    let summary = transport.finish(PATIENCE).unwrap();
    let mut declared = 0;
    for worker in 0..2 {
        let early = records(&place.0.join(format!("early.{worker}")));
        let late = records(&place.0.join(format!("late.{worker}")));
        // 1,003 bytes of records of 15 (4 + `{"n":10000}`) are 66 whole ones.
        assert_eq!(early.len(), 66);
        let gap = &late[0];
        assert!(gap.starts_with("{\"ev\":\"gap\",\"sym\":\"\",\"conn\":1,\"at_ns\":"), "{gap}");
        assert!(gap.ends_with(&format!(",\"dropped\":{},\"restarts\":1}}", 1_000 - 66)), "{gap}");
        let expected: Vec<String> =
            (0..1_000).map(|turn| format!("{{\"n\":{}}}", 12_000 + 2 * turn + worker)).collect();
        assert_eq!(late[1..], expected);
        declared += 1_000 - 66;
    }
    assert_eq!(summary.totals.dropped, declared);
    assert_eq!(summary.totals.handed, 4_000 - declared);
}

/// The ring shows what its dead reader had not released.
#[test]
fn killed_ring_reader_is_restarted_with_a_gap_record() {
    let place = Place::new("rings");
    let script = "if [ ! -e first ]; then : > first; while [ ! -e die ]; do sleep 0.01; done; exit 4; fi; echo $* > second; sleep 60";
    let mut transport = open_shm(options(2, SlowWorkerPolicy::Restart, shell(script, &place))).unwrap();
    deal(&mut *transport, 0, 500);
    std::fs::write(place.0.join("die"), "").unwrap();
    until(&mut *transport, "restart", |transport| transport.totals().restarts == 1 && !transport.has_pending());
    let totals = transport.totals();
    assert_eq!((totals.handed, totals.dropped, totals.gaps), (0, 500, 2));
    until(&mut *transport, "second", |_| !place.read("second").is_empty());
    let second = place.read("second");
    let ring = std::fs::read(second.split_whitespace().next().unwrap()).unwrap();
    let gap = String::from_utf8_lossy(&ring[4100..4200]).into_owned();
    assert!(gap.starts_with("{\"ev\":\"gap\"") && gap.contains(",\"dropped\":250,\"restarts\":1}"), "{gap}");
}

#[test]
fn a_stuck_program_is_ended_and_restarted() {
    let place = Place::new("stuck");
    let script = "if [ ! -e first ]; then : > first; while :; do sleep 1; done; fi
        worker=0; for pipe; do cat /dev/fd/$pipe > late.$worker & worker=$((worker+1)); done; wait";
    let mut transport = open_pipe(options(2, SlowWorkerPolicy::Restart, shell(script, &place))).unwrap();
    let mut sent = 0;
    until(&mut *transport, "restart", |transport| {
        deal(transport, sent, 20_000);
        sent += 20_000;
        transport.totals().restarts == 1
    });
    let stuck = transport.report().expect("a report");
    assert!(stuck.what.contains("takes nothing any more"), "{stuck}");
    until(&mut *transport, "caught up", |transport| !transport.has_pending());
    deal(&mut *transport, sent, 10);
    sent += 10;
    let summary = transport.finish(PATIENCE).unwrap();
    assert_eq!(summary.totals.handed + summary.totals.dropped, sent);
    let received: usize = (0..2).map(|worker| records(&place.0.join(format!("late.{worker}"))).len()).sum();
    assert_eq!(received as u64, summary.totals.handed + summary.totals.gaps);
}

/// Killing a stubborn program takes time, and the feed does not wait for it.
#[test]
fn a_stuck_program_that_ignores_sigterm_blocks_nothing() {
    let place = Place::new("stubborn");
    let script = "if [ ! -e first ]; then : > first; trap '' TERM; echo $$ > id; while :; do sleep 1; done; fi
        for pipe; do cat /dev/fd/$pipe > /dev/null & done; wait";
    let mut transport = open_pipe(options(2, SlowWorkerPolicy::Restart, shell(script, &place))).unwrap();
    until(&mut *transport, "id", |_| !place.read("id").trim().is_empty());
    let mut reports = Vec::new();
    until(&mut *transport, "report", |transport| {
        deal(transport, 0, 20_000);
        reports.extend(transport.report());
        !reports.is_empty()
    });
    assert!(reports[0].what.contains("takes nothing any more"), "{}", reports[0]);
    // The warning was given while the program is still alive, so nothing waited for its end.
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", place.read("id").trim())).unwrap_or_default();
    assert!(stat.contains(") S ") || stat.contains(") R "), "{stat}");
    until(&mut *transport, "restart", |transport| transport.totals().restarts == 1);
    until(&mut *transport, "caught up", |transport| !transport.has_pending());
    let summary = transport.finish(PATIENCE).unwrap();
    assert!(summary.totals.dropped > 0 && summary.totals.restarts == 1);
}

#[test]
fn a_program_that_dies_at_once_is_restarted_with_growing_delays() {
    let place = Place::new("never");
    let mut transport = open_pipe(options(2, SlowWorkerPolicy::Restart, shell("exit 1", &place))).unwrap();
    // Delays of 100 ms, 200 ms and so on.
    let mut pauses = Vec::new();
    until(&mut *transport, "two restarts", |transport| {
        while let Some(report) = transport.report() {
            pauses.push(report.what.rsplit("started again in ").next().unwrap().to_owned());
        }
        pauses.len() == 3
    });
    assert_eq!(pauses, ["100 ms", "200 ms", "400 ms"]);
}

/// The program dies with the splitter, even if that is killed.
#[test]
fn a_program_dies_with_its_splitter() {
    if let Ok(place) = std::env::var("PITWIRE_PROGRAMS_PLACE") {
        let place = Place(place.into());
        let _transport = open_pipe(options(
            2,
            SlowWorkerPolicy::default(),
            shell("echo $$ > id; while :; do sleep 0.1; done", &place),
        ));
        std::thread::sleep(Duration::from_secs(60));
        return;
    }
    let place = Place::new("orphan");
    let mut splitter = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_program_dies_with_its_splitter"])
        .env("PITWIRE_PROGRAMS_PLACE", &place.0)
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let give_up = Instant::now() + PATIENCE;
    while place.read("id").trim().is_empty() {
        assert!(Instant::now() < give_up, "the program never started");
        std::thread::sleep(Duration::from_millis(5));
    }
    let program = PathBuf::from(format!("/proc/{}", place.read("id").trim()));
    assert!(program.exists());
    splitter.kill().unwrap();
    splitter.wait().unwrap();
    let state = || std::fs::read_to_string(program.join("stat")).is_ok_and(|stat| !stat.contains(") Z "));
    while state() {
        assert!(Instant::now() < give_up, "the program lives on");
        std::thread::sleep(Duration::from_millis(5));
    }
}
