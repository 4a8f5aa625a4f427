//! Flow files: the published ones, and files with faults.

use pitwire_flow_models::{FlowFile, FlowSource, PUBLISHED_FILES};

fn published(name: &str) -> &'static str {
    PUBLISHED_FILES.iter().find(|file| file.name == name).unwrap().text
}

#[test]
fn published_files_are_stable_and_survive_the_journal() {
    for (name, types, radius) in [("published", 8, 0.617), ("bacry-muzy", 4, 0.692), ("constrained", 4, 0.555)] {
        let file = FlowFile::parse(published(name)).unwrap();
        let model = file.flows[0].model().unwrap();
        assert_eq!(model.types.len(), types);
        assert!((model.kernel.radius() - radius).abs() < 0.001, "{name}: {}", model.kernel.radius());
        let source = FlowSource::named(name).unwrap();
        assert_eq!(FlowSource::parse(&source.text().unwrap()).unwrap(), source, "{name}");
    }
    for source in FlowSource::BUILT_IN {
        assert_eq!(FlowSource::parse(&source.text().unwrap()).unwrap(), source);
    }
}

#[test]
fn a_file_with_a_fault_is_refused_with_the_fault() {
    let good = published("constrained");
    let with = |from: &str, to: &str| {
        assert!(good.contains(from));
        good.replacen(from, to, 1)
    };
    let decay = "decay_per_s = 4.0";
    for (text, expected) in [
        (String::new(), "missing field `flow`"),
        ("flow = []".into(), "no [[flow]]"),
        (with(decay, "decay_per_s = 2.0"), "spectral radius 1.11"),
        (with(decay, "decay_per_s = 0.0"), "`decay_per_s[0][0]` is 0, expected a finite number above 0"),
        (with(decay, "decay_per_s = nan"), "`decay_per_s[0][0]` is NaN"),
        (with(decay, "decay_per_s = [[1.0]]"), "`decay_per_s` is a row of 1 values, expected 4"),
        (with("[1.0, 0.3, 0.6, 0.0]", "[1.0, 0.3]"), "`jump_per_s` is a row of 2 values, expected 4"),
        (with("[1.0, 0.3, 0.6, 0.0]", "[-1.0, 0.3, 0.6, 0.0]"), "][0]` is -1, expected"),
        (with("base_per_s = 0.5", "base_per_s = inf"), "`base_per_s` is inf, expected"),
        (with("maker_levels = 6", "maker_levels = 101"), "`maker_levels` is 101, expected 0 to 100"),
        (with("maker_levels = 6", "events_per_s = nan"), "`events_per_s` is NaN, expected"),
        (with("maker_levels = 6", "lifetime_s = \"240\""), "line"),
        (with("base_per_s = 0.5", "base_per_minute = 0.5"), "unknown field `base_per_minute`"),
        (with("order = \"improve\"", "order = \"improved\""), "give one of empty_touch, take_level"),
        (with("side = \"buy\"", "side = \"long\""), "unknown variant `long`"),
        (with("name = \"ask_up\"", "name = \"bid_up\""), "\"bid_up\" is empty or used twice"),
        (with("maker_levels = 6", "maker_level = 6"), "unknown field `maker_level`"),
        (format!("{good}#{}", "x".repeat(60_000)), "60000 is the most"),
        (format!("{good}#\0"), "NUL"),
    ] {
        let failure = FlowFile::parse(&text).unwrap_err();
        assert!(failure.to_string().contains(expected), "{expected}: {failure}");
    }
    let many: String =
        (0..65).map(|n| format!("[[flow.type]]\nname=\"{n}\"\nbase_per_s=1\norder=\"join\"\n")).collect();
    let kernel = "[[flow.kernel]]\ndecay_per_s=1\njump_per_s=[[0]]\n";
    let failure = FlowFile::parse(&format!("[[flow]]\n{many}{kernel}")).unwrap_err().to_string();
    assert!(failure.contains("65 types and 1 kernels: expected at most 64 and 8"), "{failure}");
    // Short in the file, long in the journal.
    let types: String =
        (0..60).map(|n| format!("[[flow.type]]\nname=\"{n}\"\nbase_per_s=1\norder=\"join\"\n")).collect();
    let matrix = format!("[{}]", format!("[{}],", "0,".repeat(60)).repeat(60));
    let kernels = format!("[[flow.kernel]]\ndecay_per_s=1\njump_per_s={matrix}\n").repeat(7);
    let failure = FlowFile::parse(&format!("[[flow]]\n{types}{kernels}")).unwrap_err().to_string();
    assert!(failure.contains("with every number written out, and 60000 is the most"), "{failure}");
    let missing = FlowSource::named("no-such-file.toml").unwrap_err().to_string();
    assert!(missing.contains("pitwire flow list"), "{missing}");
}
