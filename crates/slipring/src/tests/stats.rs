//! Tests that `--stats` prints all counters at the end, in virtual and in real time.

use std::path::Path;

use slipring_pcap::{LinkType, PcapWriter};

use slipring_datapath::captured_run::run_captured;

/// The commands that end by themselves, with the arguments that each needs in addition to its
/// links.
const COMMANDS: [(&str, &str); 3] = [
    ("emulate", "--virtual @in.pcap @out.pcap"),
    ("replay", "-f @in.pcap --virtual @out.pcap"),
    ("replay", "-f @in.pcap -i null: --run-dir @run"),
];

fn told(verb: &str, args: &str, dir: &Path) -> String {
    let run = run_captured(crate::VERBS, verb, &format!("{args} -D 2ms -L nth,3 --seed 3"), dir);
    assert_eq!(run.status, 0, "{verb} {args}: {}", run.stderr);
    run.stdout
}

#[test]
fn all_figures_stand_below_the_summary_and_only_where_they_are_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let mut bytes = Vec::new();
    let writer = PcapWriter::begin(&mut bytes, LinkType::ETHERNET, 0);
    for i in 0..9u64 {
        writer.packet(&mut bytes, i * 1_000_000, 60, &[2; 60]).unwrap();
    }
    std::fs::write(dir.path().join("in.pcap"), bytes).unwrap();
    for (verb, args) in COMMANDS {
        let plain = told(verb, args, dir.path());
        let all = told(verb, &format!("{args} --stats"), dir.path());
        assert!(!plain.contains("# TYPE"), "{verb} {args}: {plain}");
        let (_, figures) = all.split_once("# TYPE").unwrap_or_else(|| panic!("{verb}: {all}"));
        assert!(figures.trim_end().ends_with("# EOF"), "{verb} {args}: {all}");
        let three_lost = |line: &str| {
            line.contains("cause=\"loss\"") && line.contains("link=\"up\"") && line.ends_with(" 3")
        };
        assert!(figures.lines().any(three_lost), "{verb} {args}: {all}");
        let json = told(verb, &format!("{args} --stats --json"), dir.path());
        serde_json::from_str::<serde_json::Value>(&json).expect("one document, and no more");
    }
}
