//! Tests of the flags that make a command with links print something instead of running: every
//! command must print the same.

use std::path::Path;

use serde_json::Value;

use slipring_datapath::captured_run::run_captured;

/// The commands, with the arguments that each needs in addition to its links.
const COMMANDS: [(&str, &str); 4] = [
    ("emulate", "--virtual a.pcap b.pcap"),
    ("tlem", "--virtual a.pcap b.pcap"),
    ("replay", "-f a.pcap --virtual b.pcap"),
    ("run", ""),
];

fn told(verb: &str, args: &str) -> String {
    let run = run_captured(crate::VERBS, verb, args, Path::new(""));
    assert_eq!((run.status, run.stderr.as_str()), (0, ""), "{verb} {args}");
    run.stdout
}

#[test]
fn explanations_are_the_same_for_every_command_and_json_where_that_is_asked_for() {
    let links = "-D normal,20ms,3ms -L 1% --seed 3";
    let texts = COMMANDS.map(|(verb, args)| told(verb, &format!("{args} {links} --explain")));
    assert!(texts[0].starts_with("seed 3\n"), "{}", texts[0]);
    assert!(texts.iter().all(|text| *text == texts[0]), "{texts:?}");
    for (verb, args) in COMMANDS {
        let json = told(verb, &format!("{args} {links} --explain --json"));
        let json: Value = serde_json::from_str(&json).expect(verb);
        assert_eq!(json["seed"], 3, "{verb}");
        assert!(json["explained"]["up"]["delay"]["mean_ns"].is_number(), "{verb}: {json}");
    }
}

#[test]
fn settings_of_all_flags_are_printed_and_come_back_from_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let flags = "-D 20ms --seed 9 --name lab --log a.pcapng --mahimahi-log mm -d 1m \
                 --metrics 127.0.0.1:9100 --print-config";
    let printed = told("run", flags);
    for line in [
        "seed = 9",
        "name = \"lab\"",
        "pcapng = \"a.pcapng\"",
        "mahimahi = \"mm\"",
        "late_drop = \"1ms\"",
        "metrics = \"127.0.0.1:9100\"",
    ] {
        assert!(printed.lines().any(|other| other == line), "{line}: {printed}");
    }
    std::fs::write(dir.path().join("link.toml"), &printed).unwrap();
    let again = run_captured(crate::VERBS, "run", "--config @link.toml --print-config", dir.path());
    assert_eq!(again.stdout, printed, "{}", again.stderr);
    let json = told("run", &format!("{flags} --json"));
    let json: Value = serde_json::from_str(&json).expect("JSON where that is asked for");
    assert_eq!(json["settings"]["seed"], 9);
    assert_eq!(json["settings"]["link"]["up"]["delay"]["mean"], "20ms");
}

#[test]
fn settings_are_printed_by_every_command_as_a_file_that_makes_the_same_links() {
    let dir = tempfile::tempdir().unwrap();
    let links = "-D normal,20ms,3ms -Q 100KiB";
    let texts = COMMANDS.map(|(verb, args)| told(verb, &format!("{args} {links} --print-config")));
    assert!(texts.iter().all(|text| *text == texts[0]), "{texts:?}");
    std::fs::write(dir.path().join("link.toml"), &texts[0]).unwrap();
    for (verb, args) in COMMANDS {
        let again = run_captured(
            crate::VERBS,
            verb,
            &format!("{args} --config @link.toml --print-config"),
            dir.path(),
        );
        assert_eq!(again.stdout, texts[0], "{verb}: {}", again.stderr);
    }
}
