//! Tests that programs print a notice before they take an interface from its host.

use slipring_port::capture::FileWriter;
use slipring_test_support::{Namespace, Program};

use crate::support::SLIPRING;

const NOTICE: &str = "takes the interface from its host until this ends";

/// Programs that open the ports named on their command lines, with @ for the port and @@ for a
/// capture. The interface is down, so that opening fails after all notices are printed.
const PROGRAMS: [&str; 9] = [
    "gen -i @ -f rx -w 0",
    "bridge -i @ -i null: -w 0",
    "emulate -i @ -i null: -D 1ms -w 0",
    "firewall @ null: -w 0",
    "dedup @ null: -w 0",
    "lb -i @ --outputs null: -w 0",
    "replay -f @@ -i @ -w 0",
    "dump -i @",
    "trace -i @",
];

/// Returns the messages of a program that cannot open a port.
fn output(namespace: &Namespace, words: &str) -> String {
    let words = format!("{words} --exit-on-link-down");
    let ended = Program::start(namespace, SLIPRING, &words).finish();
    assert_eq!(ended.code(), 3, "{words}: {ended:#?}");
    assert!(ended.stderr.contains("SR0103"), "{words}: {ended:#?}");
    ended.stderr
}

#[test]
fn every_program_says_that_it_takes_an_interface_before_it_opens_it() {
    let Some(namespace) = Namespace::new() else { return };
    namespace.ip("link add va type veth peer name vb");
    let dir = tempfile::tempdir().unwrap();
    let capture = dir.path().join("in.pcap").display().to_string();
    let mut writer = FileWriter::create(&capture, &["test"]).unwrap();
    writer.packet(0, 1, &[0x5a; 60], None).unwrap();
    drop(writer);
    for program in PROGRAMS {
        let words = |port: &str| program.replace("@@", &capture).replace('@', port);
        let text = output(&namespace, &words("netmap:va"));
        let (notice, error) = (text.find(NOTICE), text.find("error[SR0103]"));
        assert!(notice.is_some() && notice < error, "{program}: {text}");
        let line = text.lines().find(|line| line.contains(NOTICE)).unwrap();
        let looks = program.starts_with("dump") || program.starts_with("trace");
        let instead = if looks { "packet:va would only listen" } else { "packet:va with --shared" };
        assert!(line.starts_with("# netmap:va ") && line.contains(instead), "{program}: {line}");
        // With --shared, the program does not take the interface, and prints no notice.
        let text = output(&namespace, &(words("packet:va") + " --shared"));
        assert!(!text.contains(NOTICE), "{program}: {text}");
    }
    let text = output(&namespace, "bridge -i va -i null: -w 0");
    assert!(text.contains(NOTICE), "a name alone is netmap:IF: {text}");
}

#[test]
fn programs_called_by_a_name_of_netmaps_say_netmaps_words_only() {
    let Some(namespace) = Namespace::new() else { return };
    namespace.ip("link add va type veth peer name vb");
    let words = "pkt-gen -i netmap:va -f rx -w 0 --exit-on-link-down";
    let ended = Program::start(&namespace, SLIPRING, words).finish();
    assert_eq!(ended.code(), 1, "{ended:#?}");
    assert!(ended.stderr.contains("SR0103") && !ended.stderr.contains(NOTICE), "{ended:#?}");
}

#[test]
fn nothing_is_said_to_take_an_interface_that_cannot_be_opened_as_named() {
    let Some(namespace) = Namespace::new() else { return };
    namespace.ip("link add va type veth peer name vb");
    for port in ["netmap:va-7", "packet:va@conf:slots=1", "xdp:va/t"] {
        let ended =
            Program::start(&namespace, SLIPRING, &format!("gen -i {port} -f rx -w 0")).finish();
        assert!(ended.stderr.contains("error["), "{port}: {ended:#?}");
        assert!(!ended.stderr.contains(NOTICE), "{port}: {ended:#?}");
    }
}

#[test]
fn nothing_is_said_to_take_an_interface_that_is_not_there() {
    let Some(namespace) = Namespace::new() else { return };
    let ended = Program::start(&namespace, SLIPRING, "gen -i netmap:nosuch0 -f tx -n 1").finish();
    assert_eq!(ended.code(), 3, "{ended:#?}");
    assert!(!ended.stderr.contains(NOTICE), "{ended:#?}");
}
