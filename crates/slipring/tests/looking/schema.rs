//! What commands write by `--json` and `--json=lines` matches `docs/schema/report-1.json`.

use serde_json::Value;
use slipring_port::capture::FileWriter;

use super::support::program::{Program, SLIPRING};
use super::with_links;

#[path = "../../../cli/tests/program/validator.rs"]
mod validator;

/// Command lines that end by themselves, with @ for a capture of three frames.
const COMMANDS: [&str; 17] = [
    "gen -i null: -f tx -n 10",
    "bridge -i @ -i null:",
    "replay -f @@ -i null:",
    "emulate --virtual @@ @@.out.pcap -D 1ms",
    "emulate -D 1ms --explain",
    "emulate -D 1ms --print-config",
    "dump -r @@ -n",
    "dump -r @@ -n -x",
    "dump -D",
    "dump -L",
    "dump -d icmp",
    "trace -i @ -n 2",
    "ports",
    "doctor",
    "explain SR0104",
    "ipfw -n add 100 allow ip from any to any",
    "firewall --bench null --no-such-flag",
];

#[test]
fn what_every_command_writes_as_json_matches_the_schema() {
    let Some(namespace) = with_links() else { return };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("in.pcap").display().to_string();
    let mut writer = FileWriter::create(&path, &["test"]).unwrap();
    (0..3).for_each(|at| writer.packet(0, at, &[0x5a; 60], None).unwrap());
    drop(writer);
    let schema = validator::schema();
    let mut written = 0;
    for command in COMMANDS {
        for form in ["--json", "--json=lines"] {
            let words = command.replace("@@", &path).replace('@', &format!("pcap:{path}"));
            let (verb, rest) = words.split_once(' ').unwrap_or((&words, ""));
            let line = format!("{verb} {form} {rest}");
            let ended = Program::start(&namespace, SLIPRING, &line).finish();
            let objects = ended.stdout.lines().chain(ended.stderr.lines());
            for object in objects.filter(|text| text.starts_with('{')) {
                let value: Value = serde_json::from_str(object)
                    .unwrap_or_else(|error| panic!("{line}: {error}: {object}"));
                assert_eq!(validator::fault(&schema, &schema, &value), None, "{line}: {object}");
                written += 1;
            }
        }
    }
    assert!(written >= 2 * COMMANDS.len() - 4, "only {written} objects came");
}

#[test]
fn json_behind_the_command_of_ipfw_is_json() {
    let Some(namespace) = with_links() else { return };
    let line = "ipfw -n add 100 allow ip from any to any --json";
    let ended = Program::start(&namespace, SLIPRING, line).finish().well();
    let value: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert!(value["answer"].is_array(), "{value}");
}
