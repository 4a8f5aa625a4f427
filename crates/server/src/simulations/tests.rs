//! Simulations with a script in the place of `pitwire`.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use base64::Engine as _;
use pitwire_deribit::{SimulationCall, SimulationCaller, SimulationOptions, SimulationRefusal};
#[cfg(target_os = "linux")]
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::Value;

use super::{RunBounds, Simulations};

const PATIENCE: Duration = Duration::from_secs(60);
const NO_BOUNDS: RunBounds = RunBounds {
    runs: 9,
    member_runs: 2,
    member_time: Duration::from_secs(3_600),
    member_memory_bytes: 1 << 40,
    age: Duration::from_secs(3_600),
    bytes: 1 << 30,
    run_bytes: 1 << 30,
    free_bytes: 0,
};

/// A directory that is removed at the end of a test.
struct Home(PathBuf);

impl Drop for Home {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn home(test: &str) -> Home {
    let path = std::env::temp_dir().join(format!("pitwire-{test}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    Home(path)
}

fn open(home: &Home, bounds: RunBounds) -> Simulations {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/simulations/tests/child.sh");
    Simulations::open(script, &home.0, bounds, false)
}

fn options(flow: &str) -> SimulationOptions {
    let flow = Some(flow.to_owned());
    SimulationOptions { preset: "demo".into(), seed: 7, seconds: Some(60), flow, ..SimulationOptions::default() }
}

fn ask(simulations: &mut Simulations, call: SimulationCall) -> Value {
    serde_json::from_str(&simulations.answer(&SimulationCaller::Operator, call).unwrap()).unwrap()
}

fn start(simulations: &mut Simulations, flow: &str) -> u64 {
    ask(simulations, SimulationCall::Start(options(flow)))["simulation_id"].as_u64().unwrap()
}

/// Waits until the newest run passes `test`.
fn newest(simulations: &mut Simulations, test: impl Fn(&Value) -> bool) -> Value {
    let end = Instant::now() + PATIENCE;
    loop {
        let run = ask(simulations, SimulationCall::List)[0].clone();
        if test(&run) {
            return run;
        }
        assert!(Instant::now() < end, "{run}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until the newest run is in a state.
fn settled(simulations: &mut Simulations, state: &str) -> Value {
    newest(simulations, |run| run["state"] == state)
}

fn refused(simulations: &mut Simulations, call: SimulationCall) -> SimulationRefusal {
    simulations.answer(&SimulationCaller::Operator, call).unwrap_err()
}

/// Processes whose working directory is in `home`.
#[cfg(target_os = "linux")]
fn processes(home: &Home) -> Vec<Pid> {
    let of = |entry: std::fs::DirEntry| {
        let pid = Pid::from_raw(entry.file_name().to_str()?.parse().ok()?)?;
        std::fs::read_link(entry.path().join("cwd")).ok()?.starts_with(&home.0).then_some(pid)
    };
    std::fs::read_dir("/proc").unwrap().flatten().filter_map(of).collect()
}

#[test]
fn a_run_reports_its_progress_its_result_and_its_files() {
    let home = home("simulation-done");
    let mut simulations = open(&home, NO_BOUNDS);
    assert_eq!(ask(&mut simulations, SimulationCall::List), serde_json::json!([]));
    let run = start(&mut simulations, "quick");
    let done = settled(&mut simulations, "done");
    assert_eq!((done["done"].as_u64(), done["total"].as_u64()), (Some(1), Some(4)));
    assert_eq!(done["result"]["trades"], 3);
    assert_eq!(done["command"], "pitwire sim --preset=demo --seed=7 --horizon=60 --flow=quick --report");
    let names = |run: &Value| -> Vec<String> {
        run["files"].as_array().unwrap().iter().map(|file| file["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&done), ["report.html", "report.json"]);

    ask(&mut simulations, SimulationCall::Export(run, "csv".into()));
    let exported = newest(&mut simulations, |run| run["state"] == "done" && names(run).len() == 3);
    assert_eq!(names(&exported)[2], "csv/trades.csv");
    assert!(exported["error"].is_null() && exported["ended_ms"].as_u64() > Some(0));

    // The next venue finds the run.
    drop(simulations);
    let mut simulations = open(&home, NO_BOUNDS);
    assert_eq!(ask(&mut simulations, SimulationCall::List)[0], exported);
    ask(&mut simulations, SimulationCall::Delete(run));
    newest(&mut simulations, Value::is_null);
    let end = Instant::now() + PATIENCE;
    while home.0.join("1").exists() {
        assert!(Instant::now() < end);
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(start(&mut simulations, "quick"), 2, "no number is used again");
}

#[test]
fn a_file_is_read_in_parts_and_only_by_names_of_the_list() {
    let home = home("simulation-file");
    let mut simulations = open(&home, NO_BOUNDS);
    let run = start(&mut simulations, "quick");
    settled(&mut simulations, "done");
    let (mut offset, mut content, end) = (0, Vec::new(), Instant::now() + PATIENCE);
    loop {
        let call = SimulationCall::File { run, name: "report.json".into(), offset };
        let part = ask(&mut simulations, call);
        assert!(Instant::now() < end);
        if part["state"] == "working" {
            continue;
        }
        let bytes = base64::engine::general_purpose::STANDARD.decode(part["data"].as_str().unwrap()).unwrap();
        content.extend(bytes);
        let Some(next) = part["next_offset"].as_u64() else { break };
        offset = next;
    }
    assert_eq!(content, vec![0; 200_000]);
    for name in ["run.json", "../1/run.json", "/etc/passwd", "journal/report.json", ""] {
        let call = SimulationCall::File { run, name: name.into(), offset: 0 };
        assert_eq!(refused(&mut simulations, call).name, "unknown_simulation", "{name}");
    }
}

#[test]
fn one_run_at_a_time_and_a_stop_ends_it_also_while_it_starts() {
    let home = home("simulation-stop");
    let mut simulations = open(&home, NO_BOUNDS);
    for is_running in [false, true] {
        let run = start(&mut simulations, "slow");
        if is_running {
            newest(&mut simulations, |run| run["state"] == "running" && run["total"] == 4);
        }
        assert_eq!(refused(&mut simulations, SimulationCall::Start(options("quick"))).name, "simulation_running");
        assert_eq!(refused(&mut simulations, SimulationCall::Delete(run)).name, "simulation_running");
        ask(&mut simulations, SimulationCall::Stop(run));
        settled(&mut simulations, "stopped");
        assert_eq!(refused(&mut simulations, SimulationCall::Stop(run)).name, "simulation_finished");
        let export = SimulationCall::Export(run, "csv".into());
        assert_eq!(refused(&mut simulations, export).name, "simulation_without_tables");
    }
    #[cfg(target_os = "linux")]
    assert_eq!(processes(&home), []);
    for call in [SimulationCall::Stop(99), SimulationCall::Delete(99), SimulationCall::Export(99, "csv".into())] {
        assert_eq!(refused(&mut simulations, call).name, "unknown_simulation");
    }
    let unknown = SimulationOptions { preset: "nyse".into(), ..options("quick") };
    let refusal = refused(&mut simulations, SimulationCall::Start(unknown));
    assert!(refusal.reason.contains("\"nyse\": expected one of demo, jse, crypto24x7"), "{}", refusal.reason);
}

#[test]
fn a_failed_run_says_why() {
    let home = home("simulation-failed");
    let mut simulations = open(&home, NO_BOUNDS);
    start(&mut simulations, "fails");
    let failed = settled(&mut simulations, "failed");
    assert_eq!(failed["error"], "the flow is unstable (make its jumps smaller)");

    let mut missing = Simulations::open("/nowhere/pitwire".into(), &home.0, NO_BOUNDS, false);
    start(&mut missing, "quick");
    let failed = settled(&mut missing, "failed");
    assert!(failed["error"].as_str().unwrap().starts_with("cannot start /nowhere/pitwire"), "{failed}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_killed_process_fails_its_run_and_a_dying_venue_leaves_none() {
    let home = home("simulation-killed");
    let mut simulations = open(&home, NO_BOUNDS);
    start(&mut simulations, "slow");
    newest(&mut simulations, |run| run["state"] == "running");
    let killed = processes(&home);
    assert_eq!(killed.len(), 1);
    kill_process(killed[0], Signal::KILL).unwrap();
    let failed = settled(&mut simulations, "failed");
    assert_eq!(failed["error"], "signal 9 ended the process of the run (start it again)");

    start(&mut simulations, "slow");
    newest(&mut simulations, |run| run["state"] == "running");
    let left = processes(&home);
    drop(simulations);
    assert!(left.iter().all(|pid| test_kill_process(*pid).is_err()), "{left:?}");
}

#[test]
fn a_full_disk_and_a_large_run_end_it_with_a_remedy() {
    let home = home("simulation-space");
    let mut simulations = open(&home, RunBounds { free_bytes: u64::MAX, ..NO_BOUNDS });
    start(&mut simulations, "quick");
    let failed = settled(&mut simulations, "failed");
    assert!(failed["error"].as_str().unwrap().contains("MiB left, and the venue needs"), "{failed}");

    let mut simulations = open(&home, RunBounds { run_bytes: 50_000, ..NO_BOUNDS });
    let run = start(&mut simulations, "large");
    let failed = settled(&mut simulations, "failed");
    assert!(failed["error"].as_str().unwrap().contains("of files (make it shorter"), "{failed}");
    assert!(!simulations.store.directory_of(run).join("journal").exists());
}

#[test]
fn old_runs_are_deleted_and_unfinished_ones_of_an_earlier_venue_have_failed() {
    let home = home("simulation-old");
    let mut simulations = open(&home, RunBounds { runs: 2, ..NO_BOUNDS });
    for _ in 0..3 {
        start(&mut simulations, "quick");
        settled(&mut simulations, "done");
    }
    let ids = |simulations: &mut Simulations| -> Vec<u64> {
        let runs = ask(simulations, SimulationCall::List);
        runs.as_array().unwrap().iter().map(|run| run["simulation_id"].as_u64().unwrap()).collect()
    };
    assert_eq!(ids(&mut simulations), [3, 2]);
    assert!(!home.0.join("1").exists() && home.0.join("3/report.json").exists());
    drop(simulations);

    let record = home.0.join("3/run.json");
    let text = std::fs::read_to_string(&record).unwrap().replace("\"done\",", "\"running\",");
    std::fs::write(&record, text).unwrap();
    std::fs::write(home.0.join("2/run.json"), "{").unwrap();
    let mut simulations = open(&home, RunBounds { age: Duration::ZERO, ..NO_BOUNDS });
    let left = ask(&mut simulations, SimulationCall::List);
    assert_eq!(left.as_array().unwrap().len(), 2);
    assert_eq!((&left[0]["state"], &left[1]["state"]), (&"failed".into(), &"failed".into()));
    assert!(left[1]["error"].as_str().unwrap().starts_with("the record of the run cannot be read"), "{left}");
    assert!(left[0]["error"].as_str().unwrap().starts_with("the venue ended before the run"));
    start(&mut simulations, "quick");
    settled(&mut simulations, "done");
    assert_eq!(ids(&mut simulations), [4], "the others are too old");
    assert!(!home.0.join("2").exists(), "a run without a readable record is deleted like the others");
}

#[test]
fn the_time_and_the_memory_of_a_members_run_are_bounded() {
    let home = home("simulation-member-bounds");
    let alice = SimulationCaller::Member("alice".into());
    let bounds = RunBounds { member_time: Duration::from_millis(50), ..NO_BOUNDS };
    let mut simulations = open(&home, bounds).for_members(true);
    simulations.answer(&alice, SimulationCall::Start(options("slow"))).unwrap();
    let failed = settled(&mut simulations, "failed");
    assert_eq!(failed["error"], "the run of a member takes longer than 0 s (make it shorter)");
    // An operator's run has no such bound.
    let run = start(&mut simulations, "slow");
    newest(&mut simulations, |run| run["state"] == "running");
    std::thread::sleep(4 * bounds.member_time);
    assert_eq!(ask(&mut simulations, SimulationCall::List)[0]["state"], "running");
    ask(&mut simulations, SimulationCall::Stop(run));
    settled(&mut simulations, "stopped");
    drop(simulations);

    let bounds = RunBounds { member_memory_bytes: 1 << 33, ..NO_BOUNDS };
    let mut simulations = open(&home, bounds).for_members(true);
    simulations.answer(&alice, SimulationCall::Start(options("limited"))).unwrap();
    let failed = settled(&mut simulations, "failed");
    assert_eq!(failed["error"], "8388608 KiB of address space");
}

#[test]
fn a_member_sees_and_replaces_only_its_own_runs() {
    let home = home("simulation-members");
    let member = |name: &str| SimulationCaller::Member(name.into());
    let (alice, bob) = (member("alice"), member("bob"));
    let mut simulations = open(&home, NO_BOUNDS);
    let refusal = simulations.answer(&alice, SimulationCall::List).unwrap_err();
    assert_eq!(refusal.name, "operator_only");
    assert!(refusal.reason.contains("--member-simulations"), "{}", refusal.reason);

    let mut simulations = simulations.for_members(true);
    let run = |simulations: &mut Simulations, by: &SimulationCaller| {
        simulations.answer(by, SimulationCall::Start(options("quick"))).unwrap();
        settled(simulations, "done")["simulation_id"].as_u64().unwrap()
    };
    let of_operator = run(&mut simulations, &SimulationCaller::Operator);
    let of_bob = run(&mut simulations, &bob);
    let of_alice: Vec<u64> = (0..3).map(|_| run(&mut simulations, &alice)).collect();
    let ids = |simulations: &mut Simulations, by: &SimulationCaller| -> Vec<u64> {
        let runs: Value = serde_json::from_str(&simulations.answer(by, SimulationCall::List).unwrap()).unwrap();
        runs.as_array().unwrap().iter().map(|run| run["simulation_id"].as_u64().unwrap()).collect()
    };
    assert_eq!(ids(&mut simulations, &alice), [of_alice[2], of_alice[1]], "two runs of a member are kept");
    assert_eq!(ids(&mut simulations, &bob), [of_bob]);
    assert_eq!(ids(&mut simulations, &SimulationCaller::Operator).len(), 4);
    for foreign in [of_operator, of_alice[2]] {
        for call in [
            SimulationCall::Stop(foreign),
            SimulationCall::Delete(foreign),
            SimulationCall::Export(foreign, "csv".into()),
            SimulationCall::File { run: foreign, name: "report.json".into(), offset: 0 },
        ] {
            assert_eq!(simulations.answer(&bob, call).unwrap_err().name, "unknown_simulation");
        }
    }

    // A run of a member replaces the oldest run of any member, and none of an operator.
    let carol = member("carol");
    drop(simulations);
    let mut simulations = open(&home, RunBounds { runs: 4, ..NO_BOUNDS }).for_members(true);
    run(&mut simulations, &carol);
    assert!(ids(&mut simulations, &bob).is_empty());
    assert_eq!(ids(&mut simulations, &SimulationCaller::Operator).len(), 4);
    drop(simulations);
    let mut simulations = open(&home, RunBounds { runs: 1, ..NO_BOUNDS }).for_members(true);
    simulations.answer(&carol, SimulationCall::Start(options("quick"))).unwrap();
    let failed = settled(&mut simulations, "failed");
    assert!(failed["error"].as_str().unwrap().contains("as many simulations as it may"), "{failed}");
    assert!(simulations.store.record(of_operator).is_some());
}
