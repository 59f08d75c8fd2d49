//! Tests of gen over a veth pair: in one process, in two processes, with signals, and with an
//! interface that vanishes.

use rustix::process::Signal;
use serde_json::Value;
use slipring_test_support::{FinishedProgram, Namespace, Program};

use super::number;
use crate::support::SLIPRING;

/// A namespace with a veth pair, `va` and `vb`, both up and silent.
fn links() -> Option<Namespace> {
    let namespace = Namespace::new()?;
    namespace.cable("va", &namespace, "vb", "");
    Some(namespace)
}

/// A number of slots that is enough for all frames of a test, so that no frame is lost even if this
/// machine stalls the receiver.
const ALL: u32 = 4096;

pub(super) fn start(namespace: &Namespace, words: &str) -> Program {
    Program::start(namespace, SLIPRING, words)
}

/// Starts a program and waits until its ports are open; it reports JSON lines.
pub(super) fn ready(namespace: &Namespace, words: &str) -> Program {
    let program = start(namespace, &format!("{words} --json=lines -T 0"));
    program.wait_for("start", |output| output.stdout.contains("\"start\"").then_some(()));
    program
}

/// Returns the last report.
pub(super) fn report(ended: &FinishedProgram) -> Value {
    let line = ended.stdout.lines().last().unwrap_or_else(|| panic!("no report: {ended:#?}"));
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
}

#[test]
fn below_saturation_nothing_is_lost_between_two_ports_of_one_process() {
    let Some(namespace) = links() else { return };
    for kind in ["xdp", "packet"] {
        let words = format!(
            "gen -i {kind}:va -f tx --sink {kind}:vb --slots {ALL} -n 2000 -R 4k --latency \
             --max-loss 0 --json"
        );
        let ended = start(&namespace, &words).finish().well();
        let report = report(&ended);
        assert_eq!(
            (number(&report, "packets"), number(&report, "received")),
            (2000, 2000),
            "{report}"
        );
        assert_eq!((number(&report, "lost"), number(&report, "expected")), (0, 2000));
        let latency = &report["latency_ns"];
        assert_eq!(number(latency, "count"), 2000);
        assert!(number(latency, "p50") > 0 && number(latency, "p50") <= number(latency, "max"));
    }
}

#[test]
fn a_receiver_of_its_own_counts_every_packet() {
    let Some(namespace) = links() else { return };
    let words = format!("gen -i xdp:vb -f rxseq --slots {ALL} -n 3000 --max-loss 0");
    let receiver = ready(&namespace, &words);
    let sender = start(&namespace, "gen -i xdp:va -f txseq -n 3000 -R 5k -l imix --json");
    let sent = report(&sender.finish().well());
    assert_eq!((number(&sent, "packets"), number(&sent, "in_flight")), (3000, 0));
    let received = report(&receiver.finish().well());
    assert_eq!(
        (number(&received, "packets"), number(&received, "bytes")),
        (3000, number(&sent, "bytes"))
    );
    assert_eq!(
        (number(&received, "lost"), number(&received, "reordered"), number(&received, "corrupt")),
        (0, 0, 0)
    );
}

#[test]
fn pings_are_answered_over_both_families() {
    let Some(namespace) = links() else { return };
    let pong = ready(&namespace, "gen -i xdp:vb -f pong");
    for more in ["", "-6", "--proto icmp", "-6 --proto icmp", "-R 500"] {
        let words = format!("gen -i xdp:va -f ping -n 100 --max-loss 0 --json {more}");
        let report = report(&start(&namespace, &words).finish().well());
        assert_eq!(
            (number(&report, "packets"), number(&report["latency_ns"], "count")),
            (100, 100),
            "{report}"
        );
    }
    let answered = report(&pong.stop(Signal::INT).well());
    assert_eq!(number(&answered, "packets"), 500);
}

#[test]
fn loss_beyond_the_bound_is_status_1() {
    let Some(namespace) = links() else { return };
    let words =
        "gen -i xdp:va -f tx --sink xdp:vb -n 1000 -R 10k --fault-loss 20% --max-loss 1% --json";
    let ended = start(&namespace, words).finish();
    assert_eq!(ended.code(), 1, "{ended:#?}");
    let lost = number(&report(&ended), "lost");
    assert!((50..500).contains(&lost), "{lost}");
    assert!(ended.stderr.contains("SR0404"), "{}", ended.stderr);
}

#[test]
fn an_interrupt_ends_with_the_summary() {
    let Some(namespace) = links() else { return };
    for words in [
        "gen -i xdp:va -f tx -R 1k",
        "gen -i packet:va -f tx",
        "gen -i xdp:va -f rx",
        "gen -i xdp:va -f ping",
    ] {
        let program = ready(&namespace, words);
        let ended = program.stop(Signal::INT).well();
        assert_eq!(report(&ended)["event"], "end", "{words}");
    }
}

#[test]
fn a_vanished_interface_ends_with_summary_and_cause() {
    for words in ["gen -i xdp:va -f tx -R 10k", "gen -i xdp:va -f rx"] {
        let Some(namespace) = links() else { return };
        let program = ready(&namespace, words);
        namespace.ip("link del va");
        let ended = program.finish();
        assert_eq!(ended.code(), 4, "{words}: {ended:#?}");
        assert_eq!(report(&ended)["event"], "end", "{words}");
        assert!(ended.stderr.contains("SR0401"), "{words}: {}", ended.stderr);
    }
}

#[test]
fn a_receiver_gives_up_when_nothing_more_comes() {
    let Some(namespace) = links() else { return };
    let receiver = ready(&namespace, "gen -i xdp:vb -f rx -W");
    start(&namespace, "gen -i xdp:va -f tx -n 50 -R 5k").finish().well();
    let received = report(&receiver.finish().well());
    assert_eq!(number(&received, "packets"), 50);
}

#[test]
fn nothing_is_left_on_the_interface() {
    let Some(namespace) = links() else { return };
    let before = namespace.ip("-o link show va");
    let program = ready(&namespace, "gen -i xdp:va -f rx");
    assert!(namespace.ip("-d link show va").contains("xdp"));
    program.stop(Signal::INT).well();
    assert_eq!(namespace.ip("-o link show va"), before);
}
