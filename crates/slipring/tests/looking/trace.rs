//! Tests of `slipring trace`.

use std::io::ErrorKind;
use std::net::UdpSocket;

use rustix::process::Signal;
use slipring_port::OpenOptions;
use slipring_test_support::{FinishedProgram, Namespace, Program, TIMEOUT};
use slipring_wire::FrameSpec;
use slipring_wire::assigned::{EtherType, VlanTag};
use slipring_wire::frame::TagSpec;

use super::{document, lines, slipring, with_links};
use crate::support::SLIPRING;

/// Starts a trace and waits until it listens.
fn tracing(namespace: &Namespace, words: &str) -> Program {
    let program = Program::start(namespace, SLIPRING, &format!("trace {words}"));
    program.wait_for(" a first line", |output| {
        let listening = output.stdout.contains("listening") || output.stdout.contains("\"start\"");
        listening.then_some(())
    });
    program
}

/// Sends a datagram that leaves on `here` and arrives on `there`, for each port and payload.
fn send(namespace: &Namespace, datagrams: &'static [(u16, &[u8])]) {
    namespace.run(move || {
        let socket = UdpSocket::bind("10.9.0.1:1000").unwrap();
        socket.set_broadcast(true).unwrap();
        for (port, payload) in datagrams {
            socket.send_to(payload, ("10.9.0.255", *port)).unwrap();
        }
    });
}

fn addressed() -> Option<Namespace> {
    let namespace = with_links()?;
    namespace.ip("address add 10.9.0.1/24 broadcast 10.9.0.255 dev here");
    Some(namespace)
}

fn frames(ended: &FinishedProgram) -> Vec<(String, String)> {
    let frames = lines(ended).into_iter().filter(|line| line["event"] == "frame");
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    frames.map(|frame| (text(&frame["direction"]), text(&frame["summary"]))).collect()
}

#[test]
fn both_directions_are_seen_and_the_filter_chooses() {
    let Some(namespace) = addressed() else { return };
    for (interface, direction) in [("here", "out"), ("there", "in")] {
        let words = format!("-i {interface} -n 2 --json=lines udp dst port 7001");
        let trace = tracing(&namespace, &words);
        send(&namespace, &[(7000, b"no"), (7001, b"yes"), (7002, b"no"), (7001, b"again")]);
        let frames = frames(&trace.finish().well());
        let seen = |length| {
            (
                direction.to_owned(),
                format!("IP 10.9.0.1.1000 > 10.9.0.255.7001: UDP, length {length}"),
            )
        };
        assert_eq!(frames, [seen(3), seen(5)]);
    }
}

#[test]
fn lines_are_for_people_and_the_sum_goes_to_stderr() {
    let Some(namespace) = addressed() else { return };
    let trace = tracing(&namespace, "-i here -n 1 -x udp");
    send(&namespace, &[(7001, b"payload")]);
    let ended = trace.finish().well();
    let line = ended.stdout.lines().find(|line| !line.starts_with('#')).unwrap();
    assert!(line.contains(" Out ") && line.ends_with("UDP, length 7"), "{line}");
    assert!(ended.stdout.contains("\t0x0000: "), "{ended:#?}");
    assert!(ended.stderr.contains("1 frames shown of 1 that passed, 0 lost"), "{ended:#?}");
}

#[test]
fn listening_takes_nothing_away() {
    let Some(namespace) = addressed() else { return };
    // Both ends are in one namespace. Without these settings, its stack would refuse packets whose
    // source is its own address.
    namespace.run(|| std::fs::write("/proc/sys/net/ipv4/conf/there/accept_local", "1").unwrap());
    namespace.run(|| std::fs::write("/proc/sys/net/ipv4/conf/there/rp_filter", "0").unwrap());
    namespace.run(|| std::fs::write("/proc/sys/net/ipv4/conf/all/rp_filter", "0").unwrap());
    namespace.ip("address add 10.9.0.2/24 broadcast 10.9.0.255 dev there");
    let trace = tracing(&namespace, "-i there -n 1 udp dst port 7001");
    let received = namespace.run(|| {
        let receiver = UdpSocket::bind("10.9.0.255:7001").unwrap();
        receiver.set_read_timeout(Some(TIMEOUT)).unwrap();
        let sender = UdpSocket::bind("10.9.0.1:1000").unwrap();
        sender.set_broadcast(true).unwrap();
        sender.send_to(b"both", "10.9.0.255:7001").unwrap();
        let mut bytes = [0; 16];
        loop {
            match receiver.recv(&mut bytes) {
                // With a timeout, the kernel does not restart the call after a signal, so we repeat
                // it.
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                received => return bytes[..received.unwrap()].to_vec(),
            }
        }
    });
    assert_eq!(received, b"both");
    trace.finish().well();
}

/// Sends a frame with VLAN tag 7 on `here`.
fn send_tagged(namespace: &Namespace) {
    let tag = TagSpec { ethertype: EtherType::VLAN, tag: VlanTag::new(7, 0) };
    let frame = FrameSpec { tags: vec![tag], ..FrameSpec::default() }.build(64).unwrap().bytes;
    namespace.run(move || {
        let options = OpenOptions { shared: true, ..OpenOptions::default() };
        let [mut port] = slipring_core::open_all(["packet:here"], &options).unwrap();
        assert!(port.queues[0].rings().tx.push(&frame));
        port.tx_sync().unwrap();
    });
}

#[test]
fn what_was_written_is_read_again_with_its_tag() {
    let Some(namespace) = with_links() else { return };
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("trace.pcapng");
    let file = file.to_str().unwrap();
    let trace = tracing(&namespace, &format!("-i there -n 1 -w {file} vlan 7 and udp"));
    send_tagged(&namespace);
    let ended = trace.finish().well();
    assert!(ended.stdout.lines().all(|line| line.starts_with('#')), "{ended:#?}");
    let ended = slipring(&namespace, &format!("trace -i pcap:{file} --json")).well();
    let frames = document(&ended)["frames"].as_array().unwrap().clone();
    assert_eq!(frames.len(), 1);
    let what = "IP 10.0.0.1.1234 > 10.1.0.1.1234: UDP, length 18";
    assert_eq!((&frames[0]["summary"], &frames[0]["length_bytes"]), (&what.into(), &64.into()));
}

#[test]
fn a_bad_filter_is_a_usage_error_with_its_column() {
    let Some(namespace) = with_links() else { return };
    let ended = slipring(&namespace, "trace -i lo tcp prt 80");
    assert_eq!(ended.code(), 2);
    assert!(ended.stderr.contains("column 5"), "{ended:#?}");
}

#[test]
fn an_interface_that_vanishes_ends_the_trace_with_its_name() {
    let Some(namespace) = with_links() else { return };
    let trace = tracing(&namespace, "-i here");
    namespace.ip("link delete here");
    let ended = trace.finish();
    assert_eq!(ended.code(), 4, "{ended:#?}");
    assert!(ended.stderr.contains("SR0401") && ended.stderr.contains("here"), "{ended:#?}");
}

#[test]
fn a_signal_ends_it_with_the_sum() {
    let Some(namespace) = with_links() else { return };
    let ended = tracing(&namespace, "-i here").stop(Signal::INT).well();
    assert!(ended.stderr.contains("0 frames shown"), "{ended:#?}");
}

#[test]
fn an_interface_is_to_trace_what_it_is_to_dump() {
    let Some(namespace) = with_links() else { return };
    for (port, listens) in
        [("there", true), ("packet:there", true), ("netmap:there", false), ("xdp:there", false)]
    {
        for command in ["dump", "trace"] {
            let program = Program::start(&namespace, SLIPRING, &format!("{command} -i {port}"));
            let mode = if listens { "mode=listening" } else { "host=detached" };
            program.wait_for_text(mode);
            let ended = program.stop(Signal::INT).well();
            let message = ended.stderr.contains("takes the interface from its host");
            assert_eq!(message, !listens, "{command} -i {port}: {ended:#?}");
            assert_eq!(
                ended.stderr.contains("packet:there would only listen"),
                message,
                "{ended:#?}"
            );
        }
    }
}
