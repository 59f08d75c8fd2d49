//! Tests of unmodified programs through the bridge (ping, iperf3, tcpdump, VLAN links of the
//! kernel), and of the program that `slipring bench` runs.

use std::path::Path;
use std::process::Command;

use slipring_test_support::lab::{RIGHT, RIGHT6};
use slipring_test_support::program::output;
use slipring_test_support::{Lab, LabPort, Program, eventually, installed};

use crate::support::bridge::Bridge;
use crate::support::witness::CaptureProbe;
use crate::support::{SLIPRING, build_bench_program, copy_to};

/// Sends pings of these sizes, unfragmented; all must be answered.
fn ping(lab: &Lab, to: &str, sizes: &[u32]) {
    for size in sizes.iter().flat_map(|size| [size; 3]) {
        // Sends one ping at a time. If ping sends several and has got an answer, it ignores -W: it
        // waits for the last answer only about two round-trip times.
        let words = format!("-n -M do -c 1 -W 60 -s {size} {to}");
        let output = lab.left.command("ping", &words);
        assert!(output.contains("1 received, 0% packet loss"), "{size}: {output}");
    }
}

/// Runs iperf3 against a server on the right; returns its summary.
fn iperf(lab: &Lab, to: &str, words: &str) -> serde_json::Value {
    let server = Program::start(&lab.right, "iperf3", "-s -1 --forceflush");
    server.wait_for_text("Server listening");
    let client = Program::start(&lab.left, "iperf3", &format!("-c {to} -J {words}"));
    let output = client.finish().well().stdout;
    server.finish().well();
    let mut report: serde_json::Value = serde_json::from_str(&output).unwrap();
    report["end"].take()
}

/// Returns how many bytes the receiver had got when the sender ended.
fn received(summary: &serde_json::Value) -> u64 {
    summary["sum_received"]["bytes"].as_u64().unwrap()
}

fn tcp_flows(lab: &Lab, to: &str) {
    for direction in ["", "-R"] {
        let summary = iperf(lab, to, &format!("-n 8M {direction}"));
        assert!(received(&summary) > 1 << 20, "{summary}");
    }
}

fn programs_work(port: LabPort) {
    let Some(lab) = Lab::new(port) else { return };
    if !(installed("ping") && installed("iperf3") && installed("tcpdump")) {
        return;
    }
    let bridge = Bridge::between(&lab, "");
    let witness = CaptureProbe::start(&lab.right, "e0");
    ping(&lab, RIGHT, &[56, 1, 1000, 1472]);
    ping(&lab, RIGHT6, &[56, 1452]);
    eventually("tcpdump to see 24 echoes of IPv4", || {
        let echoes = witness.frames().iter().filter(|frame| is_echo(frame)).count();
        (echoes >= 24).then_some(())
    });
    drop(witness);
    tcp_flows(&lab, RIGHT);
    tcp_flows(&lab, RIGHT6);
    let summary = iperf(&lab, RIGHT, "-u -b 8M -l 1400 -t 1");
    assert!(summary["sum"]["packets"].as_u64().unwrap() > 0, "{summary}");
    bridge.stop().balanced();
}

/// Returns whether a frame is an IPv4 echo request or reply.
fn is_echo(frame: &[u8]) -> bool {
    frame.get(12..14) == Some(&[8, 0]) && frame[23] == 1 && matches!(frame[34], 0 | 8)
}

#[test]
fn ping_iperf3_and_tcpdump_work_through_xdp_native() {
    programs_work(LabPort::Native);
}

#[test]
fn ping_iperf3_and_tcpdump_work_through_xdp_generic() {
    programs_work(LabPort::Generic);
}

#[test]
fn ping_iperf3_and_tcpdump_work_through_packet_ports() {
    programs_work(LabPort::Packet);
}

#[test]
fn ping_iperf3_and_tcpdump_work_through_taps() {
    programs_work(LabPort::Tap);
}

#[test]
fn ping_iperf3_and_tcpdump_work_through_the_best_ports() {
    programs_work(LabPort::Best);
}

/// Tests VLAN links. The kernel keeps the outermost tag of their frames in metadata, and not in the
/// bytes, until the frames reach a wire. Returns false if the test was skipped.
fn tagged_links_work(port: LabPort, tags: &[(&str, u16)]) -> bool {
    let Some(lab) = Lab::new(port) else { return false };
    if !(installed("ping") && installed("iperf3")) {
        return false;
    }
    let _bridge = Bridge::between(&lab, "");
    if !lab.tag(tags) {
        return false;
    }
    let largest = 1472 - 4 * (tags.len() as u32 - 1);
    ping(&lab, "10.8.0.2", &[56, largest]);
    let summary = iperf(&lab, "10.8.0.2", "-n 4M");
    assert!(received(&summary) > 1 << 20, "{summary}");
    true
}

#[test]
fn vlan_links_work_through_every_kind() {
    let _all = LabPort::ALL.into_iter().all(|port| tagged_links_work(port, &[("802.1Q", 5)]));
}

#[test]
fn vlan_links_in_vlan_links_work_through_every_kind() {
    let tags = [("802.1ad", 5), ("802.1Q", 7)];
    let _all = LabPort::ALL.into_iter().all(|port| tagged_links_work(port, &tags));
}

#[test]
fn jumbo_frames_work_through_kinds_that_carry_them() {
    for port in [LabPort::Native, LabPort::Packet, LabPort::Tap] {
        let Some(lab) = Lab::with_mtu(port, 9000) else { return };
        if !(installed("ping") && installed("iperf3")) {
            return;
        }
        let bridge = Bridge::between(&lab, "");
        ping(&lab, RIGHT, &[56, 8972]);
        let summary = iperf(&lab, RIGHT, "-n 8M");
        assert!(received(&summary) > 1 << 20, "{summary}");
        ping(&lab, RIGHT, &[8972]);
        bridge.stop().balanced();
    }
}

#[test]
fn bench_runs_the_program_beside_it_with_the_same_words() {
    build_bench_program();
    let run = |words: &[&str]| output(Command::new(SLIPRING).args(words));
    let listed = run(&["bench", "--list", "pipe-1t"]);
    let text = String::from_utf8(listed.stdout).unwrap();
    assert!(listed.status.success() && text.lines().count() > 1, "{text}");
    assert!(text.lines().all(|line| line.starts_with("pipe-1t")), "{text}");
    let help = run(&["bench", "--help"]);
    assert!(String::from_utf8(help.stdout).unwrap().contains("--peers <WHICH>"));
}

#[test]
fn bench_without_the_program_says_what_is_missing_and_how_to_get_it() {
    let dir = tempfile::tempdir().unwrap();
    let alone = copy_to(dir.path());
    // A link to slipring itself, with the name of the program, is not mistaken for that program.
    std::os::unix::fs::symlink(&alone, dir.path().join("slipring-bench")).unwrap();
    let ended = output(Command::new(alone).args(["bench", "--list"]).env("PATH", dir.path()));
    let message = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(3), "{message}");
    assert!(message.starts_with("error[SR0302]: slipring-bench is missing\n"), "{message}");
    assert!(message.contains("  cause: ") && message.contains("make install"), "{message}");
}

#[test]
fn bench_is_found_where_it_is_installed() {
    build_bench_program();
    let dir = tempfile::tempdir().unwrap();
    let [bin, lib] = ["bin", "lib/slipring"].map(|name| dir.path().join(name));
    std::fs::create_dir_all(&bin).unwrap();
    std::fs::create_dir_all(&lib).unwrap();
    let installed = copy_to(&bin);
    let built = Path::new(SLIPRING).with_file_name("slipring-bench");
    std::os::unix::fs::symlink(built, lib.join("slipring-bench")).unwrap();
    let ended = output(Command::new(installed).args(["bench", "--list"]).env("PATH", ""));
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
}
