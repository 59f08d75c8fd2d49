//! Hosts in namespaces, and a router between them whose programs forward in the kernel.
#![allow(clippy::unwrap_used)]

mod lab;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lab::{LEFT, MACS, RIGHT, Routed};
use rustix::process::Signal;
use slipring_route_bpf::{PassReason, ResidentMode, ResidentOptions};
use slipring_test_support::{Program, close, eventually, installed};
use slipring_wire::mac::MacAddr;

/// Builds the hosts and starts the router in the given mode; returns from the test if that is not
/// possible here.
macro_rules! running {
    ($mode:expr) => {{
        if !installed("ping") || !installed("ethtool") {
            return;
        }
        let Some(net) = Routed::new() else { return };
        let Some(router) = net.start($mode) else { return };
        (net, router)
    }};
}

#[test]
fn pings_cross_the_router_in_both_modes_and_both_protocols() {
    for mode in [ResidentMode::Native, ResidentMode::Generic] {
        let (net, router) = running!(mode);
        for to in ["10.3.0.2", "fd03::2"] {
            // Makes the kernel resolve the hosts, as neighbours of the router.
            net.ping(to, 1);
            let before = (router.counters(LEFT).packets, router.counters(RIGHT).packets);
            let output = net.ping(to, 10);
            assert!(output.contains("ttl=63"), "{output}");
            let after = (router.counters(LEFT).packets, router.counters(RIGHT).packets);
            assert_eq!((after.0 - before.0, after.1 - before.1), (10, 10), "{mode:?} {to}");
        }
        let own = router.counters(LEFT).passed(PassReason::Kernel);
        net.ping("10.1.0.1", 1);
        // The count may be higher by more than one, because the hosts may also probe whether the
        // router is still reachable.
        assert!(router.counters(LEFT).passed(PassReason::Kernel) > own, "own address");
    }
}

#[test]
fn a_forwarded_frame_has_the_router_s_and_the_next_hop_s_address() {
    if !installed("tcpdump") {
        return;
    }
    let (net, router) = running!(ResidentMode::Native);
    net.ping("10.3.0.2", 1);
    let capture = Program::start(&net.right, "tcpdump", "-e -n -v -l -c 1 -i e0 icmp[0]=8");
    capture.wait_for_text("listening on");
    let before = router.counters(LEFT).packets;
    net.ping("10.3.0.2", 1);
    let text = capture.finish().well().stdout;
    assert_eq!(router.counters(LEFT).packets, before + 1);
    let addresses = format!("{} > {}, ethertype IPv4", MACS[2], MACS[3]);
    assert!(text.contains(&addresses) && text.contains("ttl 63"), "{text}");
    assert!(!text.contains("bad cksum"), "{text}");
}

#[test]
fn the_kernel_forwards_without_a_heartbeat_and_the_programs_again_with_one() {
    let (net, mut router) = running!(ResidentMode::Native);
    net.ping("10.3.0.2", 3);
    router.beating = None;
    eventually("the kernel to forward", || {
        let before = router.counters(LEFT);
        net.ping("10.3.0.2", 1);
        let after = router.counters(LEFT);
        (after.passed(PassReason::Stale) > before.passed(PassReason::Stale)).then_some(())
    });
    let before = router.counters(LEFT).packets;
    net.ping("10.3.0.2", 5);
    net.ping("fd03::2", 5);
    assert_eq!(router.counters(LEFT).packets, before, "all by the kernel");
    router.beat_again();
    net.ping("10.3.0.2", 5);
    assert_eq!(router.counters(LEFT).packets, before + 5, "all by the program");
}

#[test]
fn nothing_is_forwarded_while_the_router_is_disabled() {
    let (net, router) = running!(ResidentMode::Native);
    net.ping("10.3.0.2", 1);
    router.change(|router| router.disable().unwrap());
    let before = router.counters(LEFT);
    net.ping("10.3.0.2", 5);
    let after = router.counters(LEFT);
    assert_eq!(after.packets, before.packets);
    // The hosts also send neighbour discovery.
    assert!(after.passed(PassReason::Disabled) >= before.passed(PassReason::Disabled) + 5);
    router.change(|router| router.enable());
    net.ping("10.3.0.2", 5);
    assert_eq!(router.counters(LEFT).packets, before.packets + 5);
}

/// Whether an interface of the router has a program.
fn has_program(net: &Routed) -> bool {
    ["la", "ra"].iter().any(|name| net.mid.ip(&format!("link show dev {name}")).contains("xdp"))
}

#[test]
fn dropped_attachments_leave_the_interfaces_as_they_were() {
    let (net, mut router) = running!(ResidentMode::Native);
    net.ping("10.3.0.2", 1);
    assert!(has_program(&net));
    close(std::mem::take(&mut router.attachments));
    eventually("the programs to be gone", || (!has_program(&net)).then_some(()));
    let before = router.counters(LEFT).seen();
    net.ping("10.3.0.2", 5);
    assert_eq!(router.counters(LEFT).seen(), before);
}

/// The variable that makes a process execute [`holder`] as the process to kill.
const HOLD: &str = "SLIPRING_HOLD_ROUTER";

/// This is not a test of its own. The next test starts a process that runs this function, and kills
/// it.
#[test]
fn holder() {
    if std::env::var_os(HOLD).is_none() {
        return;
    }
    let (router, _attachments) = lab::start(ResidentMode::Native).unwrap();
    let _beating = lab::Beating::start(router.heartbeat());
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

#[test]
fn a_killed_process_leaves_no_program_behind() {
    let (net, router) = running!(ResidentMode::Native);
    close(router);
    eventually("the programs to be gone", || (!has_program(&net)).then_some(()));
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "holder"]).env(HOLD, "1");
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut holder = net.mid.spawn(command);
    eventually("the router to be attached", || {
        let both = |name| net.mid.ip(&format!("link show dev {name}")).contains("xdp");
        (both("la") && both("ra")).then_some(())
    });
    net.ping("10.3.0.2", 3);
    holder.kill().unwrap();
    holder.wait().unwrap();
    eventually("the programs to be gone", || (!has_program(&net)).then_some(()));
    net.ping("10.3.0.2", 5);
}

#[test]
fn a_tcp_stream_crosses_with_finished_and_with_half_finished_checksums() {
    const BYTES: usize = 1 << 20;
    let (net, router) = running!(ResidentMode::Native);
    net.ping("10.3.0.2", 1);
    for offload in ["off", "on"] {
        for host in [&net.left, &net.right] {
            host.command("ethtool", &format!("-K e0 tx {offload}"));
        }
        let before = router.counters(LEFT);
        let listener = net.right.run(|| TcpListener::bind("10.3.0.2:0").unwrap());
        let to = listener.local_addr().unwrap();
        let reader = std::thread::spawn(move || {
            let mut received = Vec::new();
            listener.accept().unwrap().0.read_to_end(&mut received).unwrap();
            received
        });
        net.left.run(move || {
            let mut stream = TcpStream::connect(to).unwrap();
            stream.write_all(&vec![0x5a; BYTES]).unwrap();
        });
        assert_eq!(reader.join().unwrap(), vec![0x5a; BYTES], "tx {offload}");
        let after = router.counters(LEFT);
        let forwarded = after.packets - before.packets;
        let half = PassReason::PartialChecksum;
        let passed = after.passed(half) - before.passed(half);
        // A segment has at most 1448 bytes of data.
        let segments = (BYTES / 1448) as u64;
        match offload {
            "off" => assert!(forwarded > segments, "{forwarded} forwarded, {passed} passed"),
            // A few packets that the host sends without a socket have a finished checksum.
            _ => {
                assert!(passed > segments / 64 && passed > 20 * forwarded, "{forwarded}, {passed}")
            }
        }
    }
}

#[test]
fn what_the_program_cannot_do_the_kernel_does() {
    let (net, router) = running!(ResidentMode::Native);
    net.ping("10.3.0.2", 1);
    let (_, expired) = net.left.attempt("ping", "-c 1 -W 5 -t 1 10.3.0.2");
    assert!(expired.contains("Time to live exceeded"), "{expired}");
    let (left, right) = (net.ifindex("la"), net.ifindex("ra"));
    net.mid.ip("link set ra mtu 1000");
    net.right.ip("link set e0 mtu 1000");
    router.change(move |router| {
        let mut tables = lab::tables([left, right]);
        let mut ports = tables.ports.to_vec();
        ports[1].mtu = 1000;
        tables.ports = ports.into();
        router.apply(&tables).unwrap();
    });
    let (_, too_big) = net.left.attempt("ping", "-c 1 -W 5 -M do -s 1200 10.3.0.2");
    assert!(too_big.contains("mtu"), "{too_big}");
    net.left.ip("route flush cache");
    net.ping("10.3.0.2 -M dont -s 1200", 1);
    assert!(router.counters(LEFT).passed(PassReason::TooBig) > 0);
    let (_, unreachable) = net.left.attempt("ping", "-c 1 -W 5 10.77.0.1");
    assert!(unreachable.contains("Unreachable"), "{unreachable}");
    assert!(router.counters(LEFT).passed(PassReason::NoRoute) > 0);
    assert!(router.counters(LEFT).passed(PassReason::Ttl) > 0);
}

#[test]
fn a_probe_finds_the_interface_whose_peer_drops_redirected_frames() {
    let (net, router) = running!(ResidentMode::Native);
    let probe = |port, ifname: &'static str| {
        router.change(move |router| {
            let probe = router.egress_probe(port, MacAddr([2, 0, 0, 0, 0, 1])).unwrap();
            probe.sends(ifname, None).unwrap()
        })
    };
    assert!(probe(LEFT, "la") && probe(RIGHT, "ra"));
    net.right.command("ethtool", "-K e0 gro off");
    assert!(probe(LEFT, "la") && !probe(RIGHT, "ra"));
    // A port without the egress option can be probed as well, because a successful probe is what
    // enables the option.
    router.change(|router| {
        router.set_options(LEFT, ResidentOptions { egress: false, ..ResidentOptions::default() });
    });
    assert!(probe(LEFT, "la"));
    router.change(|router| router.set_options(LEFT, ResidentOptions::default()));
    // While the egress option of `RIGHT` is off, the kernel forwards the frames that leave there.
    router.change(|router| {
        router.set_options(RIGHT, ResidentOptions { egress: false, ..ResidentOptions::default() });
    });
    let before = (router.counters(LEFT), router.counters(RIGHT));
    net.ping("10.3.0.2", 3);
    let after = (router.counters(LEFT), router.counters(RIGHT));
    assert_eq!(after.0.packets, before.0.packets);
    assert_eq!(after.1.packets, before.1.packets + 3);
}

/// A burst of frames would fill the ring of the interface, which then drops frames of others.
#[test]
fn a_probe_of_a_busy_interface_needs_few_frames() {
    /// The probe sends 16 frames. It repeats this while the ring is full, at most ten times in
    /// all.
    const MAX_FRAMES: u32 = 160;
    if !installed("tcpdump") {
        return;
    }
    let (net, router) = running!(ResidentMode::Native);
    net.ping("10.3.0.2", 1);
    let drops = router.change(|router| router.driver_drops(&["la", "ra"].map(lab::ifindex_of)));
    let drops = Arc::new(drops.unwrap());
    let probe = || {
        let drops = Arc::clone(&drops);
        router.change(move |router| {
            let probe = router.egress_probe(RIGHT, MacAddr([2, 0, 0, 0, 0, 1])).unwrap();
            probe.sends("ra", Some(&drops)).unwrap()
        })
    };
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let others = net.left.run(|| UdpSocket::bind("10.1.0.2:0").unwrap());
    let others = std::thread::spawn(move || {
        while !stopped.load(Ordering::Relaxed) {
            others.send_to(b"another", "10.3.0.2:9").unwrap();
            std::thread::sleep(Duration::from_micros(50));
        }
    });
    let capture = Program::start(&net.right, "tcpdump", "-n -l -i e0 ether proto 0x88b5");
    capture.wait_for_text("listening on");
    assert!(probe());
    let text = capture.stop(Signal::INT).well().stderr;
    let received = text.lines().find_map(|line| line.strip_suffix(" packets received by filter"));
    let received: u32 = received.unwrap_or_else(|| panic!("{text}")).parse().unwrap();
    assert!(received <= MAX_FRAMES, "{text}");
    net.right.command("ethtool", "-K e0 gro off");
    assert!(!probe());
    stop.store(true, Ordering::Relaxed);
    others.join().unwrap();
}

#[test]
fn a_thread_without_capabilities_writes_tables_and_reads_counters() {
    use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};
    let (net, router) = running!(ResidentMode::Native);
    net.ping("10.3.0.2", 1);
    let (left, right) = (net.ifindex("la"), net.ifindex("ra"));
    let forwarded = router.change(move |router| {
        std::thread::scope(|scope| {
            let unprivileged = scope.spawn(|| {
                let none = CapabilitySet::empty();
                let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
                set_capabilities(None, sets).unwrap();
                // Each port gets another interface, so egress interfaces and IPv6 trees are
                // replaced.
                router.apply(&lab::tables([right, left])).unwrap();
                router.apply(&lab::tables([left, right])).unwrap();
                router.quiesce().unwrap();
                router.counters(LEFT).unwrap().packets
            });
            unprivileged.join().unwrap()
        })
    });
    assert!(forwarded > 0);
    net.ping("10.3.0.2", 5);
    assert_eq!(router.counters(LEFT).packets, forwarded + 5);
}

#[test]
fn a_port_can_leave_the_programs_path_and_come_back() {
    let (net, router) = running!(ResidentMode::Native);
    net.ping("10.3.0.2", 1);
    let set = |ingress| {
        router.change(move |router| {
            router.set_options(LEFT, ResidentOptions { ingress, ..ResidentOptions::default() });
        });
    };
    set(false);
    let before = router.counters(LEFT);
    net.ping("10.3.0.2", 3);
    let after = router.counters(LEFT);
    assert!(after.passed(PassReason::Policy) >= before.passed(PassReason::Policy) + 3);
    set(true);
    net.ping("10.3.0.2", 3);
    assert_eq!(router.counters(LEFT).packets, before.packets + 3);
}
