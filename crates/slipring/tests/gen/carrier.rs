//! Tests of interfaces that are down or have no carrier: `gen`, and `replay` with -w, report that
//! they wait, and fail if nothing changes in time.

use slipring_test_support::{Namespace, Program};

use crate::support::SLIPRING;

fn links() -> Option<Namespace> {
    let namespace = Namespace::new()?;
    namespace.ip("link add va type veth peer name vb");
    namespace.ip("link set va up");
    namespace.wait_for_no_carrier("va");
    Some(namespace)
}

#[test]
fn a_sender_whose_link_has_no_carrier_waits_says_so_and_fails() {
    let Some(namespace) = links() else { return };
    for kind in ["netmap", "packet"] {
        let words = format!("gen -i {kind}:va -f tx -n 10 -w 0.2");
        let ended = Program::start(&namespace, SLIPRING, &words).finish();
        assert_eq!(ended.code(), 3, "{ended:#?}");
        assert!(ended.stderr.contains("va has no carrier: waiting 200ms for it"), "{ended:#?}");
        assert!(ended.stderr.contains("error[SR0113]: va has no carrier"), "{ended:#?}");
    }
}

#[test]
fn a_carrier_that_comes_in_time_starts_the_sender() {
    let Some(namespace) = links() else { return };
    let words = "gen -i packet:va -f tx -n 10 -w 60 --json";
    let sender = Program::start(&namespace, SLIPRING, words);
    sender.wait_for("waiting", |output| output.stderr.contains("no carrier").then_some(()));
    namespace.ip("link set vb up");
    let report: serde_json::Value = serde_json::from_str(&sender.finish().well().stdout).unwrap();
    assert_eq!(report["packets"], 10, "{report}");
}

/// The TAP device that stands for a card taken by `slipring nic bind` has no carrier while no
/// program has it open. But `netmap:` with the device's name opens the card, which does not exist
/// in this test.
#[test]
fn a_sender_on_a_taken_card_does_not_wait_for_the_tap_device_of_its_name() {
    let Some(namespace) = Namespace::new() else { return };
    namespace.ip("tuntap add dev ta mode tap");
    namespace.ip("link set ta alias vfio:ffff:ff:1f.7");
    for state in ["down", "up"] {
        namespace.ip(&format!("link set ta {state}"));
        let ended = Program::start(&namespace, SLIPRING, "gen -i netmap:ta -f tx -n 1").finish();
        assert!(ended.stderr.contains("there is no PCI device ffff:ff:1f.7"), "{ended:#?}");
        assert!(!ended.stderr.contains("waiting"), "{ended:#?}");
    }
}

/// `packet:` with the device's name opens the TAP device itself.
#[test]
fn a_sender_on_the_tap_device_of_a_taken_card_waits_for_this_device() {
    let Some(namespace) = Namespace::new() else { return };
    namespace.ip("tuntap add dev va mode tap");
    namespace.ip("link set va alias vfio:ffff:ff:1f.7");
    fails_while_down(&namespace, "gen -i packet:va -f tx -n 1 -w 0.2");
}

/// Asserts that a program whose interface is down waits for it, reports that, and fails.
fn fails_while_down(namespace: &Namespace, words: &str) {
    let ended = Program::start(namespace, SLIPRING, words).finish();
    assert_eq!(ended.code(), 3, "{words}: {ended:#?}");
    assert!(ended.stderr.contains("va is down: waiting 200ms for it"), "{words}: {ended:#?}");
    assert!(ended.stderr.contains("error[SR0113]: va is down"), "{words}: {ended:#?}");
}

#[test]
fn a_sender_whose_interface_is_down_waits_says_so_and_fails() {
    let Some(namespace) = Namespace::new() else { return };
    namespace.ip("link add va type veth peer name vb");
    namespace.ip("link set vb up");
    for port in
        ["netmap:va", "xdp:va", "packet:va", "packet:va --shared", "netmap:va --mode generic"]
    {
        fails_while_down(&namespace, &format!("gen -i {port} -f tx -n 100 -w 0.2"));
    }
}

#[test]
fn a_replay_whose_interface_is_down_waits_says_so_and_fails() {
    let Some(namespace) = Namespace::new() else { return };
    namespace.ip("link add va type veth peer name vb");
    let dir = tempfile::tempdir().unwrap();
    let capture = dir.path().join("in.pcap").display().to_string();
    let mut writer = slipring_port::capture::FileWriter::create(&capture, &["test"]).unwrap();
    writer.packet(0, 1, &[0x5a; 60], None).unwrap();
    drop(writer);
    for port in ["packet:va --shared", "netmap:va"] {
        fails_while_down(&namespace, &format!("replay -f {capture} -i {port} -w 0.2"));
        // Without -w, the replay does not wait, so it does not report a wait.
        let words = format!("replay -f {capture} -i {port}");
        let ended = Program::start(&namespace, SLIPRING, &words).finish();
        assert!(ended.stderr.contains("error[SR0113]: va is down"), "{words}: {ended:#?}");
        let says_so = ended.stderr.contains("waiting ") || ended.stderr.contains("waited ");
        assert!(!says_so, "{words}: {ended:#?}");
    }
}

#[test]
fn an_interface_that_comes_up_in_time_starts_the_sender() {
    let Some(namespace) = links() else { return };
    namespace.ip("link set vb up");
    namespace.ip("link set va down");
    namespace.wait_for_no_carrier("va");
    let words = "gen -i packet:va --shared -f tx -n 10 -w 60 --json";
    let sender = Program::start(&namespace, SLIPRING, words);
    sender.wait_for("waiting", |output| output.stderr.contains("va is down").then_some(()));
    namespace.ip("link set va up");
    let report: serde_json::Value = serde_json::from_str(&sender.finish().well().stdout).unwrap();
    assert_eq!(report["packets"], 10, "{report}");
}
