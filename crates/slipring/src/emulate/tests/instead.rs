//! What every command with links tells instead of running, in the same words.

use std::path::Path;

use serde_json::Value;

use crate::said::said;

/// The commands, with what each needs beside its links.
const COMMANDS: [(&str, &str); 4] = [
    ("emulate", "--virtual a.pcap b.pcap"),
    ("tlem", "--virtual a.pcap b.pcap"),
    ("replay", "-f a.pcap --virtual b.pcap"),
    ("run", ""),
];

fn told(verb: &str, args: &str) -> String {
    let said = said(verb, args, Path::new(""));
    assert_eq!((said.status, said.talk.as_str()), (0, ""), "{verb} {args}");
    said.data
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
        assert!(json["links"]["up"]["delay"]["mean_ns"].is_number(), "{verb}: {json}");
    }
}

#[test]
fn settings_are_printed_by_every_command_as_a_file_that_makes_the_same_links() {
    let dir = tempfile::tempdir().unwrap();
    let links = "-D normal,20ms,3ms -Q 100k";
    let texts = COMMANDS.map(|(verb, args)| told(verb, &format!("{args} {links} --print-config")));
    assert!(texts.iter().all(|text| *text == texts[0]), "{texts:?}");
    std::fs::write(dir.path().join("link.toml"), &texts[0]).unwrap();
    for (verb, args) in COMMANDS {
        let again = said(verb, &format!("{args} --config @link.toml --print-config"), dir.path());
        assert_eq!(again.data, texts[0], "{verb}: {}", again.talk);
    }
}
