//! Tests of `slipring bridge` beyond two ports: a single port, faults, captures, reports, names.

use std::fs::File;
use std::os::unix::fs::symlink;
use std::process::Command;

use rustix::process::Signal;
use slipring_port::capture::{FileReader, FileWriter};
use slipring_test_support::frames::{assert_same, numbered};
use slipring_test_support::{Lab, LabPort, Namespace, Program, eventually, installed, skip};

use crate::support::SLIPRING;
use crate::support::bridge::{Bridge, Report};
use crate::support::frames::{FrameListener, Sender, cross};

/// Returns a host with the interface `eth`, whose address is 10.9.0.1, and its peer.
fn host_and_peer() -> Option<(Namespace, Namespace)> {
    let (host, peer) = (Namespace::new()?, Namespace::new()?);
    host.veth("eth", &peer, "e0", "");
    peer.ip("link set e0 up");
    host.ip("addr add 10.9.0.1/24 dev eth");
    peer.ip("addr add 10.9.0.2/24 dev e0");
    Some((host, peer))
}

fn pings(from: &Namespace, to: &str) -> (bool, String) {
    from.attempt("ping", &format!("-n -c 3 -i 0.01 -w 60 {to}"))
}

#[test]
fn one_port_alone_stands_between_the_nic_and_its_own_host() {
    for name in ["netmap:eth", "xdp:eth", "packet:eth"] {
        let Some((host, peer)) = host_and_peer() else { return };
        if !(installed("ping") && installed("iperf3")) {
            return;
        }
        let bridge = Bridge::start(&host, &format!("-i {name}"));
        for (from, to) in [(&peer, "10.9.0.1"), (&host, "10.9.0.2")] {
            let (well, output) = pings(from, to);
            assert!(well && !output.contains("duplicates"), "{name}: {output}");
        }
        let server = Program::start(&host, "iperf3", "-s -1 --forceflush");
        server.wait_for_text("Server listening");
        Program::start(&peer, "iperf3", "-c 10.9.0.1 -n 4M").finish().well();
        server.finish().well();
        let report = bridge.stop();
        assert!(report.rx(0) > 6 && report.rx(1) > 6, "{report:?}");
        report.balanced();
        let (well, output) = pings(&peer, "10.9.0.1");
        assert!(well, "after the bridge: {output}");
        assert!(!host.ip("link show").contains(": sr"), "the hidden pair is still there");
    }
}

#[test]
fn loopback_sends_frames_back_where_they_came_from() {
    for port in [LabPort::Native, LabPort::Packet] {
        let Some(lab) = Lab::quiet(port) else { return };
        let bridge = Bridge::start(&lab.mid, &format!("-L -i {}:la", port.prefix()));
        let sent: Vec<_> = (0..50).map(numbered).collect();
        let (mut sender, mut listener) =
            (Sender::open(&lab.left, "e0"), FrameListener::open(&lab.left, "e0"));
        let mut returned = Vec::new();
        sender.send(&sent);
        listener.hear(&mut returned, sent.len());
        assert_same("returned", &returned, &sent);
        let report = bridge.stop();
        assert_eq!((report.rx(0), report.tx(0)), (50, 50));
    }
}

#[test]
fn faults_lose_exactly_what_they_count_and_are_the_same_for_a_seed() {
    let mut losses = Vec::new();
    for _ in 0..2 {
        let Some(lab) = Lab::quiet(LabPort::Native) else { return };
        let bridge = Bridge::between(&lab, "--fault-loss 10% --fault-seed 7");
        let sent: Vec<_> = (0..1000).map(numbered).collect();
        let (mut sender, mut listener) =
            (Sender::open(&lab.left, "e0"), FrameListener::open(&lab.right, "e0"));
        let (mut received, mut lost) = (Vec::new(), 0);
        for (window, done) in sent.chunks(50).zip(1..) {
            sender.send(window);
            lost = eventually("the bridge to account for a window", || {
                let report = bridge.now();
                let lost = report.drops_for(0, "fault") + report.drops_for(1, "fault");
                (report.tx(1) + lost == done * 50).then_some(lost)
            });
            listener.hear(&mut received, done as usize * 50 - lost as usize);
        }
        assert!(lost > 100, "two ports at 10 % each lost {lost} of 1000");
        let mut expected = sent.clone();
        expected.retain(|frame| received.contains(frame));
        assert_same("survivors", &received, &expected);
        let report = bridge.stop();
        assert_eq!(report.tx(1) + report.all_drops(), 1000, "{report:?}");
        losses.push(received);
    }
    assert!(losses[0] == losses[1], "the same seed lost other frames");
}

#[test]
fn corrupt_frames_have_a_bit_changed_by_each_port_and_none_is_lost() {
    let Some(lab) = Lab::quiet(LabPort::Packet) else { return };
    let bridge = Bridge::between(&lab, "--fault-corrupt 100%");
    let plain = [&[0; 12], &[0x88, 0xb5][..], &[0x55; 986]].concat();
    let mut listener = FrameListener::choosy(&lab.right, "e0", |frame| frame.len() == 1000);
    Sender::open(&lab.left, "e0").send(&vec![plain.clone(); 40]);
    let mut received = Vec::new();
    listener.hear(&mut received, 40);
    for frame in &received {
        let flipped = frame.iter().zip(&plain).map(|(got, sent)| (got ^ sent).count_ones());
        assert!(matches!(flipped.sum(), 0 | 2), "{frame:02x?}");
    }
    assert!(received.iter().any(|frame| *frame != plain));
    bridge.stop().balanced().lossless();
}

#[test]
fn delayed_frames_arrive_in_order_and_none_is_lost() {
    let Some(lab) = Lab::quiet(LabPort::Native) else { return };
    let bridge = Bridge::between(&lab, "--fault-delay 2ms");
    let sent: Vec<_> = (0..320).map(numbered).collect();
    assert_same("delayed", &cross(&lab.left, &lab.right, &sent), &sent);
    bridge.stop().balanced().lossless();
}

#[test]
fn a_capture_has_every_frame_as_often_as_it_passed_a_port() {
    for file in ["both.pcapng", "both.pcap"] {
        let Some(lab) = Lab::quiet(LabPort::Native) else { return };
        if !installed("tcpdump") {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(file);
        let bridge = Bridge::between(&lab, &format!("--capture {}", path.display()));
        let sent: Vec<_> = (0..300).map(numbered).collect();
        assert_same("captured", &cross(&lab.left, &lab.right, &sent), &sent);
        bridge.stop().balanced().lossless();
        // The capture has each frame twice: when it was received and when it was sent.
        let text = lab.mid.command("tcpdump", &format!("-n -q -t -r {}", path.display()));
        let lines = text.lines().filter(|line| line.contains("0x88b5") || line.contains("88b5"));
        assert_eq!(lines.count(), 600, "{text}");
    }
}

#[test]
fn a_capture_that_is_read_through_ends_the_bridge() {
    let Some(lab) = Lab::quiet(LabPort::Native) else { return };
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    let (first, second) = (path("first.pcapng"), path("second.pcap"));
    let frames: Vec<_> = (0..700).map(numbered).collect();
    let mut writer = FileWriter::create(&first, &["test"]).unwrap();
    frames.iter().for_each(|frame| writer.packet(0, 1, frame, None).unwrap());
    drop(writer);
    let mut listener = FrameListener::open(&lab.right, "e0");
    for to in [format!("pcap:{second}"), "xdp:ra".to_owned()] {
        let words = format!("bridge --json -i pcap:{first} -i {to}");
        let ended = Program::start(&lab.mid, SLIPRING, &words).finish().well();
        let report = Report::last(&ended);
        assert_eq!((report.rx(0), report.tx(1)), (700, 700), "{report:?}");
        report.lossless();
    }
    let mut received = Vec::new();
    listener.hear(&mut received, frames.len());
    assert_same("sent to the wire", &received, &frames);
    assert_same("written to a file", &read_all(&second), &frames);
}

#[test]
fn a_capture_on_a_full_disk_is_counted_and_the_bridge_goes_on() {
    let Some(namespace) = Namespace::new() else { return };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("in.pcap").display().to_string();
    let mut writer = FileWriter::create(&path, &["test"]).unwrap();
    // The frames have more bytes than the capture's buffer holds, so a write fails before all
    // frames have passed.
    let frames = vec![[0x5a_u8; 1000]; 2000];
    frames.iter().for_each(|frame| writer.packet(0, 1, frame, None).unwrap());
    drop(writer);
    let words = format!("bridge --json -i pcap:{path} -i null: --capture /dev/full");
    let ended = Program::start(&namespace, SLIPRING, &words).finish().well();
    let report = Report::last(&ended);
    assert_eq!((report.rx(0), report.tx(1)), (2000, 2000), "{report:?}");
    report.lossless();
    let lost = |port: usize| -> u64 {
        let count = &report.0["ports"][port]["settings"]["uncaptured"];
        count.as_str().unwrap_or("0").parse().unwrap()
    };
    // A frame that is missing in the capture counts twice: at the port that received it, and at the
    // port that sent it. Frames that are still in the buffer at the end do not count.
    assert!(lost(0) + lost(1) > 2000, "{report:?}");
}

#[test]
fn a_capture_that_is_a_port_of_the_bridge_is_not_written_over() {
    let Some(namespace) = Namespace::new() else { return };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("in.pcap").display().to_string();
    let mut writer = FileWriter::create(&path, &["test"]).unwrap();
    writer.packet(0, 1, &[0x5a; 60], None).unwrap();
    drop(writer);
    let words = format!("bridge -i pcap:{path} -i null: --capture {path}");
    let ended = Program::start(&namespace, SLIPRING, &words).finish();
    assert_ne!(ended.code(), 0, "{ended:?}");
    assert!(ended.stderr.contains("would overwrite what is read"), "{ended:?}");
    assert_eq!(read_all(&path).len(), 1);
}

fn read_all(path: &str) -> Vec<Vec<u8>> {
    let mut reader = FileReader::open(path).unwrap();
    let mut frames = Vec::new();
    while let Some(packet) = reader.next().unwrap() {
        frames.push(packet.data.to_vec());
    }
    frames
}

#[test]
fn ports_of_different_kinds_exchange_frames_whole_and_in_order() {
    for [left, right] in [["xdp", "packet"], ["packet", "netmap"], ["xdp", "xdp"]] {
        let Some(lab) = Lab::quiet(LabPort::Native) else { return };
        // A region of larger buffers works too.
        let words = format!("-i {left}:la -i {right}:ra --buf-size 4096");
        let bridge = Bridge::start(&lab.mid, &words);
        let sent: Vec<_> = (0..512).map(numbered).collect();
        assert_same(&words, &cross(&lab.left, &lab.right, &sent), &sent);
        assert_same(&words, &cross(&lab.right, &lab.left, &sent), &sent);
        bridge.stop().balanced().lossless();
    }
}

#[test]
fn usr1_reports_at_once_and_json_is_one_document() {
    let Some(lab) = Lab::quiet(LabPort::Native) else { return };
    let bridge = Bridge::between(&lab, "");
    let sent: Vec<_> = (0..64).map(numbered).collect();
    cross(&lab.left, &lab.right, &sent);
    let report = eventually("the counters to follow", || {
        let report = bridge.now();
        (report.tx(1) == 64).then_some(report)
    });
    assert_eq!((report.0["event"].as_str(), report.rx(0)), (Some("interval"), 64));
    bridge.stop();
    let words = format!("bridge --json -t 0.2 {}", lab.ports());
    let ended = Program::start(&lab.mid, SLIPRING, &words).finish().well();
    assert_eq!(ended.stdout.lines().count(), 1, "{ended:?}");
    let report = Report::last(&ended);
    for key in
        ["schema", "event", "time_ns", "command", "version", "elapsed_ns", "in_flight", "copies"]
    {
        assert!(!report.0[key].is_null(), "{key}: {report:?}");
    }
    assert!(ended.stderr.is_empty(), "{ended:?}");
}

#[test]
fn text_names_modes_first_then_intervals_then_a_summary() {
    let Some(lab) = Lab::quiet(LabPort::Native) else { return };
    let words = format!("bridge -T 20 -t 1 {}", lab.ports());
    let ended = Program::start(&lab.mid, SLIPRING, &words).finish().well();
    let lines: Vec<_> = ended.stdout.lines().collect();
    assert!(lines[0].starts_with("# slipring bridge -T 20"), "{ended:?}");
    assert!(lines[2].starts_with("# xdp:la kind=xdp mode=native"), "{ended:?}");
    assert!(lines[3].starts_with("# xdp:ra kind=xdp mode=native"), "{ended:?}");
    assert!(lines[4].contains("xdp:la rx") && lines[4].contains("drop 0"), "{ended:?}");
    assert!(
        ended.stdout.contains("in all\nxdp:la: received 0 packets, sent 0 packets\n"),
        "{ended:?}"
    );
    let taken = |interface: &str| {
        format!(
            "# xdp:{interface} takes the interface from its host until this ends; \
             packet:{interface} with --shared would leave the host its frames\n"
        )
    };
    let talk = format!("{}{}zerocopy supported\nReady to go\n", taken("la"), taken("ra"));
    assert_eq!(ended.stderr, talk);
}

#[test]
fn every_signal_that_ends_it_ends_it_with_a_summary() {
    let Some(lab) = Lab::quiet(LabPort::Native) else { return };
    for signal in [Signal::INT, Signal::TERM] {
        let ended = Bridge::between(&lab, "").end(signal).well();
        assert_eq!(Report::last(&ended).0["event"], "end", "{ended:?}");
    }
}

#[test]
fn the_classic_name_takes_the_classic_words_and_gives_the_classic_statuses() {
    let Some(lab) = Lab::quiet(LabPort::Native) else { return };
    let dir = tempfile::tempdir().unwrap();
    for name in ["bridge", "slipring-bridge"] {
        let link = dir.path().join(name);
        symlink(SLIPRING, &link).unwrap();
        let program = link.to_str().unwrap();
        let bridge = Program::start(&lab.mid, program, "-i netmap:la -i ra -b 512 -w 0");
        bridge.wait_for_text("Ready to go");
        let ended = bridge.stop(Signal::INT).well();
        assert!(ended.stderr.starts_with("zerocopy supported\n"), "{ended:?}");
        let positional = Program::start(&lab.mid, program, "la ra 256");
        positional.wait_for_text("Ready to go");
        positional.stop(Signal::INT).well();
        for words in
            ["-i netmap:none -i netmap:la", "--bogus", "-i netmap:la -i netmap:ra -i netmap:x"]
        {
            let ended = Program::start(&lab.mid, program, words).finish();
            assert_eq!(ended.code(), 1, "{name} {words}: {ended:?}");
        }
    }
}

#[test]
fn queues_are_dealt_out_among_threads_and_every_frame_crosses_once() {
    let Some(lab) = Lab::quiet(LabPort::Native) else { return };
    if !installed("ethtool") {
        return;
    }
    for (side, ifname) in
        [(&lab.left, "e0"), (&lab.right, "e0"), (&lab.mid, "la"), (&lab.mid, "ra")]
    {
        let (well, output) = side.attempt("ethtool", &format!("-L {ifname} rx 2 tx 2"));
        if !well {
            return skip!("no second queue on one CPU: {output}");
        }
    }
    // A change of the number of queues interrupts the carrier for a moment.
    lab.wait_for_carriers();
    let bridge = Bridge::between(&lab, "-p 2");
    assert_eq!(bridge.start_report().setting(0, "queues"), "2");
    let mut sent: Vec<_> = (0..640).map(numbered).collect();
    let mut arrived = cross(&lab.left, &lab.right, &sent);
    // Frames of different queues may overtake each other, so their order is not compared.
    arrived.sort();
    sent.sort();
    assert_same("arrived", &arrived, &sent);
    bridge.stop().balanced().lossless();
}

#[test]
fn it_waits_for_links_as_long_as_it_is_told() {
    let Some(lab) = Lab::quiet(LabPort::Native) else { return };
    lab.mid.ip("link set ra down");
    let words = format!("bridge -w 60 {}", lab.ports());
    let waiting = Program::start(&lab.mid, SLIPRING, &words);
    lab.mid.ip("link set ra up");
    waiting.wait_for_text("Ready to go");
    waiting.stop(Signal::INT).well();
    lab.mid.ip("link set ra down");
    // A signal ends the wait; after that, nothing is opened.
    let waiting = Program::start(&lab.mid, SLIPRING, &words);
    eventually("the handlers to be there", || handles_int(waiting.pid()).then_some(()));
    let ended = waiting.stop(Signal::INT);
    assert!(ended.status.code().is_some(), "{ended:?}");
}

/// Returns whether a process has a handler for INT: bit 1 of the mask of signals that it catches.
fn handles_int(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
    u64::from_str_radix(caught.trim(), 16).unwrap() & 2 != 0
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    let Some(lab) = Lab::quiet(LabPort::Native) else { return };
    let words = format!("{SLIPRING} bridge -T 20 {} | head -n 5 > /dev/null", lab.ports());
    let script = format!("set -o pipefail; {words}");
    let ended = Program::start_with(&lab.mid, "bash", &["-c", &script]).finish();
    assert_eq!(ended.code(), 0, "{ended:?}");
}

#[test]
fn a_dash_where_frames_come_from_is_the_standard_input() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    let mut writer = FileWriter::create(&path("in.pcap"), &["test"]).unwrap();
    for number in 0..3 {
        writer.packet(number, 0, &[0x5a; 60], None).unwrap();
    }
    drop(writer);
    for words in ["bridge -i pcap:- -i pcap:", "dedup pcap:- pcap:", "lb -i pcap:- --outputs pcap:"]
    {
        let out = path(&words[..2]);
        let mut command = Command::new(SLIPRING);
        command.args(format!("{words}{out}").split(' ')).env("SLIPRING_RUN", dir.path());
        command.stdin(File::open(path("in.pcap")).unwrap());
        let ended = command.output().unwrap();
        assert!(ended.status.success(), "{words}: {ended:?}");
        let mut reader = FileReader::open(&out).unwrap();
        assert!(reader.next().unwrap().is_some(), "{words}: {ended:?}");
    }
}
