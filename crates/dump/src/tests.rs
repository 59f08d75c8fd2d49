//! Tests of whole command lines, in this process.

use std::fs;
use std::path::Path;

use clap::ArgMatches;
use serde_json::Value;
use slipring_cli::{Failure, Job, Verb};
use slipring_datapath::captured_run::{CapturedRun, run_captured};
use slipring_port::capture::FileWriter;
use slipring_wire::FrameSpec;

use crate::listing::DumpInterface;

static VERBS: [Verb; 1] =
    [Verb { name: "dump", classic: &[], command: crate::command, plan: planned, no_metrics: None }];

fn planned(matches: &ArgMatches) -> Result<Job, Failure> {
    crate::plan(matches, listed)
}

fn listed(_: &Path) -> Vec<DumpInterface> {
    vec![DumpInterface {
        port: "packet:eth0".into(),
        taking: Some("netmap:eth0".into()),
        name: "eth0".into(),
        about: "veth, native".into(),
        up: true,
        holders: vec![],
    }]
}

fn dump(args: &str, dir: &Path) -> CapturedRun {
    run_captured(&VERBS, "dump", args, dir)
}

/// Writes a capture of UDP frames of these lengths, a millisecond apart; every other frame is
/// outgoing.
fn captured(dir: &Path, name: &str, lengths: &[usize]) {
    let path = dir.join(name);
    let mut file = FileWriter::create(path.to_str().unwrap(), &["x"]).unwrap();
    for (at, &length) in lengths.iter().enumerate() {
        let frame = FrameSpec::default().build(length).unwrap().bytes;
        let direction =
            [slipring_pcap::PcapDirection::Inbound, slipring_pcap::PcapDirection::Outbound][at % 2];
        let time = 1_700_000_000_000_000_000 + at as u64 * 1_000_000;
        file.packet(0, time, &frame, Some(direction)).unwrap();
    }
}

#[test]
fn a_file_is_printed_line_by_line_and_filtered() {
    let dir = tempfile::tempdir().unwrap();
    captured(dir.path(), "a.pcapng", &[60, 100, 200]);
    let run = dump("-r @a.pcapng -tt -n", dir.path());
    let line = |ms, length| {
        format!("1700000000.00{ms}000 IP 10.0.0.1.1234 > 10.1.0.1.1234: UDP, length {length}\n")
    };
    assert_eq!((run.status, run.stdout), (0, line(0, 18) + &line(1, 58) + &line(2, 158)));
    assert!(run.stderr.starts_with("reading from file "), "{}", run.stderr);
    assert_eq!(dump("-r @a.pcapng -tt greater 150", dir.path()).stdout, line(2, 158));
    assert_eq!(dump("-r @a.pcapng -tt -c 1", dir.path()).stdout, line(0, 18));
    assert_eq!(dump("-r @a.pcapng -tt -Q out", dir.path()).stdout, line(1, 58));
    assert_eq!(dump("-r @a.pcapng --count less 150", dir.path()).stdout, "2 packets\n");
    assert_eq!(dump("-r @a.pcapng -t tcp", dir.path()).stdout, "");
}

#[test]
fn what_was_saved_is_read_again_cut_to_its_length() {
    let dir = tempfile::tempdir().unwrap();
    captured(dir.path(), "a.pcapng", &[60, 100, 200]);
    for (name, flag) in [("b.pcap", ""), ("b.pcapng", ""), ("c", "--pcapng")] {
        let run = dump(&format!("-r @a.pcapng -w @{name} -s 64 {flag}"), dir.path());
        assert_eq!((run.status, run.stdout.as_str()), (0, ""), "{}", run.stderr);
        let lines = dump(&format!("-r @{name} -t"), dir.path()).stdout;
        assert_eq!(lines.lines().count(), 3);
        assert!(lines.ends_with("UDP, length 158\n"), "{lines}");
        let magic = &fs::read(dir.path().join(name)).unwrap()[..4];
        assert_eq!(magic == [0x0a, 0x0d, 0x0d, 0x0a], name != "b.pcap");
    }
    let run = dump("-r @a.pcapng -w @d.pcap --print -t udp", dir.path());
    assert_eq!(run.stdout.lines().count(), 3);
    assert!(dir.path().join("d.pcap").exists());
}

#[test]
fn a_capture_is_never_written_over_itself() {
    let dir = tempfile::tempdir().unwrap();
    captured(dir.path(), "a.pcap", &[60, 80]);
    std::fs::hard_link(dir.path().join("a.pcap"), dir.path().join("b.pcap")).unwrap();
    let run = dump("-r @a.pcap -w @b.pcap", dir.path());
    assert_eq!(run.status, 2, "{}", run.stderr);
    assert!(run.stderr.contains("would overwrite what is read"), "{}", run.stderr);
    assert_eq!(dump("-r @a.pcap -t", dir.path()).stdout.lines().count(), 2);
}

#[test]
fn json_has_every_frame_and_the_sum() {
    let dir = tempfile::tempdir().unwrap();
    captured(dir.path(), "a.pcapng", &[60, 100, 200]);
    let document = dump("-r @a.pcapng --json greater 80", dir.path()).stdout;
    let document: Value = serde_json::from_str(&document).unwrap();
    assert_eq!(document["captured"], 2);
    assert_eq!(document["received_by_filter"], 3);
    assert_eq!(document["dropped"], 0);
    assert_eq!(document["frames"].as_array().unwrap().len(), 2);
    let lines = dump("-r @a.pcapng --json=lines", dir.path()).stdout;
    let events: Vec<Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let kinds: Vec<_> = events.iter().map(|event| event["event"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["start", "frame", "frame", "frame", "end"]);
    assert_eq!(events[2]["direction"], "out");
    assert_eq!(events[4]["ports"][0]["rx"]["packets"], 2);
    assert_eq!(events[4]["ports"][0]["tx"]["packets"], 1);
}

#[test]
fn lists_are_printed_and_nothing_is_opened() {
    let run = dump("-D", Path::new(""));
    let line = "1.packet:eth0 [Up, Running] (veth, native; netmap:eth0 takes it from the host)\n";
    assert_eq!((run.status, run.stdout.as_str()), (0, line));
    let json: Value = serde_json::from_str(&dump("-D --json", Path::new("")).stdout).unwrap();
    assert_eq!(json["interfaces"][0]["port"], "packet:eth0");
    assert!(dump("-L", Path::new("")).stdout.contains("EN10MB"));
}

#[test]
fn a_compiled_filter_prints_in_three_forms() {
    let of = |args: &str| dump(args, Path::new("")).stdout;
    assert!(of("-d arp").starts_with("(000) ldh      [12]\n"), "{}", of("-d arp"));
    assert!(of("-dd arp").starts_with("{ 0x28, 0, 0, 0x0000000c },\n"), "{}", of("-dd arp"));
    assert!(of("-ddd arp").starts_with("4\n40 0 0 12\n"), "{}", of("-ddd arp"));
}

#[test]
fn a_port_is_opened_counted_and_said_to_be_taken() {
    let run = dump("-i null: -c 5 -t --take-over", Path::new(""));
    assert_eq!(run.status, 0, "{}", run.stderr);
    assert_eq!(run.stdout.lines().count(), 5);
    let talk = &run.stderr;
    assert!(talk.starts_with("taking from null:, link-type EN10MB (Ethernet), "), "{talk}");
    assert!(talk.contains("# null: is taken for this capture"), "{talk}");
    assert!(talk.contains("\n5 packets captured\n5 packets received by filter\n"), "{talk}");
    assert!(talk.ends_with("0 packets dropped by kernel\n"), "{talk}");
}

#[test]
fn what_cannot_be_meant_is_refused_with_a_way_out() {
    for (args, summary) in [
        ("", "missing: --interface <PORT> or --read <FILE>"),
        ("-i eth0 tcp prt 80", "`tcp prt 80` is not a filter"),
        ("-i eth0 -w @a -W 3", "-W counts files that -C or -G begin"),
        ("-i eth0 -w - -C 1", "the standard output is one file"),
        ("-i eth0 -w - --print", "--print and -w - want the same output"),
        ("-i netmap:eth0 -Q out", "a port that is opened shows what arrives"),
        ("-i eth0 -C 1", "--write <FILE>"),
        ("-i eth0 -c 0", "at least 1"),
        ("-i eth0 -r a", "--read"),
        ("-r @nothing", "cannot open pcap:"),
        ("-i eth0 -F @nothing", "cannot read the filter in "),
    ] {
        let run = dump(args, Path::new("/nowhere"));
        assert_eq!(run.status, 2, "{args}: {}", run.stderr);
        assert!(run.stderr.contains(summary), "{args}: {}", run.stderr);
        assert!(run.stderr.contains("help: "), "{args}: {}", run.stderr);
    }
}

#[test]
fn an_interface_is_named_as_tcpdump_names_it() {
    for (typed, name) in [("eth0", "packet:eth0"), ("br-lan", "packet:br--lan")] {
        assert_eq!(crate::plan::port_by_name(typed).unwrap().to_string(), name);
    }
    assert_eq!(crate::plan::port_by_name("x{1").unwrap().to_string(), "netmap:x{1");
}

#[test]
fn a_pipe_is_captured_as_any_port_is() {
    let dir = tempfile::tempdir().unwrap();
    let mut port = slipring_core::open("dumped{1").unwrap();
    let frame = FrameSpec::default().build(60).unwrap().bytes;
    for _ in 0..3 {
        assert!(port.queues[0].rings().tx.push(&frame));
    }
    port.tx_sync().unwrap();
    let run = dump("-i dumped}1 -c 3 -w @a.pcapng", dir.path());
    assert!(run.stderr.contains("\n3 packets captured\n"), "{}", run.stderr);
    let lines = dump("-r @a.pcapng -t", dir.path()).stdout;
    assert_eq!(lines, "IP 10.0.0.1.1234 > 10.1.0.1.1234: UDP, length 18\n".repeat(3));
}

#[test]
fn an_interface_that_is_listened_to_keeps_its_frames() {
    let netns = match slipring_core::netns::Netns::new() {
        Ok(netns) => netns,
        Err(error) => return slipring_test_support::skip!("no network namespace: {error}"),
    };
    let lengths = netns.run(|| {
        slipring_port::netlink::Netlink::open()?.set_up(1)?;
        let signals = slipring_cli::Signals::install()?;
        let mut source = crate::source::DumpSource::listen("packet:lo", "lo", true).unwrap();
        let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
        let mut lengths = Vec::new();
        for length in [5, 7, 9] {
            socket.send_to(&[1; 9][..length], socket.local_addr()?)?;
        }
        while lengths.len() < 3 {
            source.wait(&signals).unwrap();
            let mut visit = |frame: &crate::source::DumpFrame<'_>| {
                lengths.push(frame.wire_len);
                Ok(std::ops::ControlFlow::Continue(()))
            };
            assert!(source.take(&mut visit).unwrap());
        }
        let mut bytes = [0; 16];
        assert_eq!(socket.recv(&mut bytes)?, 5, "the host has its datagrams, too");
        Ok(lengths)
    });
    assert_eq!(lengths.unwrap(), [47, 49, 51]);
}
