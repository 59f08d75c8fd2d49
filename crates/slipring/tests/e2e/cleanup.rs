//! Tests that the interfaces are as before however the program ends, and that an immediate next
//! start succeeds.

use std::process::Command;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;
use slipring_port::netlink::LinkEvents;
use slipring_test_support::lab::LEFT;
use slipring_test_support::{Lab, LabPort, Namespace, Program, TIMEOUT, eventually, installed};

use crate::support::SLIPRING;
use crate::support::bridge::Bridge;

const WAYS_OUT: [Signal; 3] = [Signal::INT, Signal::TERM, Signal::KILL];

/// A lab whose middle has its own address, reachable when no bridge runs.
fn lab_with_a_host(port: LabPort) -> Option<Lab> {
    let lab = Lab::new(port)?;
    lab.mid.ip("addr add 10.9.0.9/24 dev la");
    Some(lab)
}

/// Asserts that slipring has left nothing on the interfaces, and that the host has its traffic
/// again.
fn assert_clean(lab: &Lab, what: &str) {
    let links = lab.mid.ip("-d link show");
    for trace in ["xdp", "PROMISC", ": sr", "promiscuity 1"] {
        assert!(!links.contains(trace), "{what} leaves {trace}:\n{links}");
    }
    for (from, to) in [(&lab.left, "10.9.0.9"), (&lab.mid, LEFT)] {
        let (well, output) = from.attempt("ping", &format!("-n -c 1 -w 60 {to}"));
        assert!(well, "{what}, then ping {to}: {output}");
    }
}

fn every_way_out_is_clean(port: LabPort) {
    let Some(lab) = lab_with_a_host(port) else { return };
    if !installed("ping") {
        return;
    }
    for signal in WAYS_OUT {
        let bridge = Bridge::between(&lab, "");
        assert!(lab.mid.ip("-d link show la").contains("promiscuity 1"));
        let ended = bridge.end(signal);
        assert_eq!(ended.code(), if signal == Signal::KILL { -1 } else { 0 }, "{ended:?}");
        // The next bridge starts immediately and ends normally.
        Bridge::between(&lab, "").stop();
        assert_clean(&lab, &format!("{port:?} ended by {signal:?}"));
        drop(Bridge::between(&lab, ""));
        assert_clean(&lab, &format!("{port:?} killed"));
    }
}

#[test]
fn a_bridge_over_xdp_native_leaves_nothing() {
    every_way_out_is_clean(LabPort::Native);
}

#[test]
fn a_bridge_over_xdp_generic_leaves_nothing() {
    every_way_out_is_clean(LabPort::Generic);
}

#[test]
fn a_bridge_over_packet_ports_leaves_nothing() {
    every_way_out_is_clean(LabPort::Packet);
}

#[test]
fn a_bridge_over_taps_leaves_no_device() {
    for signal in WAYS_OUT {
        let Some(namespace) = Namespace::new() else { return };
        for _ in 0..3 {
            let bridge = Bridge::start(&namespace, "-i tap:la -i tap:ra");
            assert!(namespace.ip("link show").contains("la:"));
            bridge.end(signal);
        }
        // The kernel frees the rings of a killed process asynchronously.
        eventually("the devices to go", || {
            let links = namespace.ip("link show");
            (!links.contains("la:") && !links.contains("ra:")).then_some(())
        });
    }
}

#[test]
fn a_tap_that_was_there_before_stays() {
    let Some(namespace) = Namespace::new() else { return };
    namespace.ip("tuntap add dev keep mode tap");
    namespace.ip("link set keep up");
    for signal in WAYS_OUT {
        Bridge::start(&namespace, "-i tap:keep -i null:").end(signal);
        assert!(namespace.ip("link show").contains("keep:"));
    }
}

/// Waits, with the kernel's link events, until no link of slipring is left.
fn wait_for_hidden_pairs_to_go(lab: &Lab, events: &LinkEvents) {
    let start = Instant::now();
    while lab.mid.ip("link show").contains(": sr") {
        let left = TIMEOUT.saturating_sub(start.elapsed());
        let links = lab.mid.ip("link show");
        assert!(!left.is_zero(), "a killed bridge leaves its hidden pair:\n{links}");
        let mut fds = [PollFd::new(events, PollFlags::IN)];
        // A signal may end the wait early. The links are listed again then.
        let _ = poll(&mut fds, Some(&Timespec::try_from(left).unwrap()));
        events.clear();
    }
}

#[test]
fn a_killed_bridge_to_the_host_leaves_no_hidden_pair() {
    let Some(lab) = lab_with_a_host(LabPort::Best) else { return };
    if !installed("ping") {
        return;
    }
    for signal in WAYS_OUT {
        let bridge = Bridge::start(&lab.mid, "-i netmap:la");
        assert!(lab.mid.ip("link show").contains(": sr"), "no hidden pair");
        // Opened before the program ends, so that no event is missed.
        let events = lab.mid.run(LinkEvents::open).unwrap();
        bridge.end(signal);
        if signal == Signal::KILL {
            wait_for_hidden_pairs_to_go(&lab, &events);
        }
        assert_clean(&lab, &format!("host bridge ended by {signal:?}"));
    }
}

#[test]
fn what_a_killed_bridge_that_may_make_no_namespace_leaves_the_next_start_removes() {
    let Some(lab) = lab_with_a_host(LabPort::Best) else { return };
    if !installed("ping") || !installed("setpriv") {
        return;
    }
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set", "-sys_admin", SLIPRING, "bridge", "-i", "netmap:la"]);
    let bridge = Program::launch(&lab.mid, command);
    bridge.wait_for_text("Ready to go");
    bridge.stop(Signal::KILL);
    assert!(lab.mid.ip("link show").contains(": sr"), "it lay in a namespace after all");
    Bridge::start(&lab.mid, "-i netmap:la").stop();
    assert_clean(&lab, "a bridge without CAP_SYS_ADMIN");
}

/// A hidden pair is the veth pair behind a program's host rings. Here a second program has its own
/// PID namespace but the same network namespace, as in a container with the host's network. So it
/// cannot see the process that owns the pair.
#[test]
fn a_hidden_pair_is_left_alone_by_programs_that_do_not_see_the_process() {
    let Some(lab) = lab_with_a_host(LabPort::Best) else { return };
    if !installed("ping") || !installed("unshare") {
        return;
    }
    let bridge = Bridge::start(&lab.mid, "-i netmap:la");
    let mut other = Command::new("unshare");
    let words = ["--pid", "--fork", "--mount-proc", "--kill-child", SLIPRING, "gen", "-i"];
    other.args(words).args(["netmap:ra", "-f", "tx", "-n", "1"]);
    Program::launch(&lab.mid, other).finish().well();
    assert!(lab.mid.ip("link show").contains(": sr"), "another program removed it");
    bridge.stop();
    assert_clean(&lab, "the bridge that went on");
}

#[test]
fn a_generator_leaves_nothing() {
    for port in [LabPort::Native, LabPort::Generic, LabPort::Packet] {
        let Some(lab) = lab_with_a_host(port) else { return };
        if !installed("ping") {
            return;
        }
        let mode = if port == LabPort::Generic { "--mode generic" } else { "" };
        for signal in WAYS_OUT {
            let words =
                format!("gen -i {}:la {mode} -f tx -R 1000 -T 10 --json=lines", port.prefix());
            let generator = Program::start(&lab.mid, SLIPRING, &words);
            generator.wait_for("an interval", |output| {
                (output.stdout.matches('\n').count() > 1).then_some(())
            });
            let ended = generator.stop(signal);
            assert_eq!(ended.code(), if signal == Signal::KILL { -1 } else { 0 }, "{ended:?}");
            assert_clean(&lab, &format!("gen over {port:?} ended by {signal:?}"));
        }
    }
}
