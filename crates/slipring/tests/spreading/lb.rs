use std::collections::BTreeSet;

use slipring_test_support::frames::numbered;
use slipring_test_support::{Lab, LabPort, Namespace, Program, eventually, oracle};

use super::{refused, start, stop};
use crate::support::SLIPRING;
use crate::support::frames::{FrameListener, Sender};

const FLOWS: u8 = 16;

/// Returns a lab, and a namespace to which a second cable leads from the lab's middle.
fn fork(port: LabPort) -> Option<(Lab, Namespace)> {
    let (lab, other) = (Lab::quiet(port)?, Namespace::new()?);
    lab.mid.veth("rb", &other, "e0", "");
    other.silence("e0");
    other.ip("link set e0 up");
    Some((lab, other))
}

/// Returns frame `number`, of one of several flows.
fn of_flow(number: u32) -> Vec<u8> {
    let mut frame = numbered(number);
    frame[11] = (number % u32::from(FLOWS)) as u8;
    frame
}

/// Returns what distinguishes flows: the sender, and whether and how a frame is tagged.
fn flow_of(frame: &[u8]) -> (u8, u8) {
    (frame[11], frame[13])
}

/// Sends frames, 32 at a time. Each time, waits until the two listeners have received `total` more
/// frames. Returns what each listener has received.
fn send(lab: &Lab, other: &Namespace, frames: &[Vec<u8>], total: usize) -> [Vec<Vec<u8>>; 2] {
    let mut sender = Sender::open(&lab.left, "e0");
    let mut ears = [FrameListener::open(&lab.right, "e0"), FrameListener::open(other, "e0")];
    let mut received = [Vec::new(), Vec::new()];
    let mut want = 0;
    for window in frames.chunks(32) {
        sender.send(window);
        want += total;
        eventually("all frames to arrive", || {
            for (listener, received) in ears.iter_mut().zip(&mut received) {
                listener.hear_some(received);
            }
            (received.iter().map(Vec::len).sum::<usize>() >= want).then_some(())
        });
    }
    received
}

#[test]
fn flows_are_spread_and_each_stays_whole_and_in_order() {
    for (port, more) in [(LabPort::Native, ""), (LabPort::Packet, " --consistent")] {
        let Some((lab, other)) = fork(port) else { return };
        let prefix = port.prefix();
        let mode = if port == LabPort::Native { "--mode native" } else { "" };
        let words = [
            "lb",
            "-i",
            &format!("{prefix}:la"),
            "--outputs",
            &format!("{prefix}:ra {prefix}:rb"),
            "--seed",
            "7",
            "--json=lines",
            "-T",
            "0",
        ];
        let words: Vec<&str> = words
            .into_iter()
            .chain(mode.split_whitespace())
            .chain(more.split_whitespace())
            .collect();
        let program = Program::start_with(&lab.mid, SLIPRING, &words);
        program.wait_for("start", |output| output.stdout.contains('\n').then_some(()));
        let frames: Vec<_> = (0..320).map(of_flow).collect();
        let received = send(&lab, &other, &frames, 32);
        for flow in frames.iter().map(|frame| flow_of(frame)).collect::<BTreeSet<_>>() {
            let of = |frames: &[Vec<u8>]| -> Vec<_> {
                frames.iter().filter(|frame| flow_of(frame) == flow).cloned().collect()
            };
            let [left, right] = received.each_ref().map(|frames| of(frames));
            let (whole, none) = if left.is_empty() { (right, left) } else { (left, right) };
            assert!(whole == of(&frames) && none.is_empty(), "flow {flow:?}");
        }
        assert!(received.iter().all(|frames| !frames.is_empty()), "both ways are used");
        let report = stop(program);
        let forwarded: Vec<_> =
            (0..2).map(|i| report.0["outputs"][i]["forwarded"].as_u64().unwrap()).collect();
        assert_eq!(forwarded.iter().sum::<u64>(), 320, "{report:?}");
        assert_eq!(forwarded, [received[0].len() as u64, received[1].len() as u64]);
        assert_eq!((report.rx(0), report.tx(1) + report.tx(2)), (320, 320));
        report.lossless();
    }
}

#[test]
fn every_group_gets_every_frame_and_copies_are_counted() {
    let Some((lab, other)) = fork(LabPort::Native) else { return };
    let program = start(&lab.mid, "lb -i xdp:la --outputs xdp:ra --outputs xdp:rb --mode native");
    let frames: Vec<_> = (0..96).map(of_flow).collect();
    let received = send(&lab, &other, &frames, 64);
    assert_eq!(received, [frames.clone(), frames]);
    let report = stop(program);
    assert_eq!((report.rx(0), report.tx(1), report.tx(2)), (96, 96, 96), "{report:?}");
    assert_eq!((&report.0["copies"], report.in_flight()), (&96.into(), 0));
}

#[test]
fn the_classic_statistics_are_lines_of_json_and_the_last_words_are_the_classic_ones() {
    let Some((lab, other)) = fork(LabPort::Native) else { return };
    let words = ["lb", "-i", "xdp:la", "--outputs", "xdp:ra xdp:rb", "-o", "50ms", "-B", "64"];
    let program = Program::start_with(&lab.mid, SLIPRING, &words);
    // Each report has three lines: one for each of the two outputs, and one for all outputs
    // together.
    program.wait_for_text("free_buffer_slots");
    let frames: Vec<_> = (0..64).map(of_flow).collect();
    send(&lab, &other, &frames, 32);
    program.wait_for("the count of all frames", |output| {
        output.stdout.contains("\"packets_received\":64").then_some(())
    });
    let ended = program.stop(rustix::process::Signal::INT).well();
    let (last, lines) = ended.stdout.trim_end().rsplit_once('\n').map(|(a, b)| (b, a)).unwrap();
    assert_eq!(last, "64 packets forwarded.  0 packets dropped. Total 64");
    for line in lines.lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        oracle::assert_valid("lb-classic-1.json", &line);
    }
}

#[test]
fn pipes_of_a_device_that_is_not_there_are_an_error_with_a_way_out() {
    let Some(ended) = refused("lb|-i|null:|-p|x:2|--device|/nowhere/netmap") else { return };
    assert_eq!(ended.code(), 3, "{ended:?}");
    assert!(ended.stderr.contains("slipring daemon --link /nowhere/netmap"), "{ended:?}");
}

#[test]
fn what_cannot_work_is_refused_by_name() {
    for (words, code, message) in [
        ("lb", 2, "--interface"),
        ("lb|-i|null:|--outputs|x{1", 3, "name it on the netmap device: kernel:x{1"),
        ("lb|-i|null:|-p|:2", 2, "there is no prefix before the `:`"),
        ("lb|-i|null:|-p|0", 2, "a group has at least one pipe"),
        ("lb|-i|null:|--outputs| ", 2, "outputs are given"),
        ("lb|-i|null:|--outputs|null: nothing:x:y", 2, "is not a port name"),
        (
            "lb|-i|null:@conf:rings=2|--outputs|null:|--threads|2",
            2,
            "each thread needs a queue of each output, and this one has 1",
        ),
    ] {
        let Some(ended) = refused(words) else { return };
        assert_eq!(ended.code(), code, "{ended:?}");
        assert!(
            ended.stderr.contains(message) && ended.stderr.contains("help"),
            "{words}: {ended:?}"
        );
    }
}
