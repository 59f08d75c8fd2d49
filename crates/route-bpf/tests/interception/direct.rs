//! Frames that the tcx program forwards, without the sockets.

use std::net::{TcpListener, UdpSocket};

use slipring_route_bpf::{PassReason, ResidentCounters};
use slipring_test_support::{close, eventually, installed};

use super::engine::{Intercepted, Work};
use super::lab::{LEFT, RIGHT, Routed};
use super::{Numbered, SLOTS, STREAM_BYTES, forwarded_by_kernel, intercepted, send_stream};

/// Length of the headers of a TCP segment with timestamps, without the IP header.
const TCP_HEADERS: u64 = 14 + 32;

#[test]
fn a_frame_that_needs_only_a_lookup_is_forwarded_without_the_sockets() {
    let (net, router) = intercepted!("", 1);
    // The engine does nothing, so whatever comes through its sockets does not arrive.
    let engine = router.engine(Work::Nothing, SLOTS);
    router.set_direct(true);
    for to in ["10.3.0.2", "fd03::2"] {
        let kernel = forwarded_by_kernel(&net.mid);
        let of = |counters: ResidentCounters| (counters.packets, counters.direct_packets);
        let before = [LEFT, RIGHT].map(|port| of(router.counters(port)));
        let output = net.ping(to, 10);
        assert!(output.contains("ttl=63"), "{output}");
        let expected = before.map(|(taken, direct)| (taken, direct + 10));
        assert_eq!([LEFT, RIGHT].map(|port| of(router.counters(port))), expected, "{to}");
        assert_eq!(forwarded_by_kernel(&net.mid), kernel, "{to}");
    }
    close(engine.stop());
}

#[test]
fn a_frame_that_needs_more_than_a_lookup_goes_to_the_sockets() {
    let (net, router) = intercepted!("", 1);
    let engine = router.engine(Work::Nothing, SLOTS);
    router.set_direct(true);
    let before = router.counters(LEFT);
    net.left.run(|| {
        let socket = UdpSocket::bind("10.1.0.2:0").unwrap();
        socket.set_ttl(1).unwrap();
        socket.send_to(b"last hop", "10.3.0.2:9").unwrap();
    });
    eventually("the frame to be taken", || {
        (router.counters(LEFT).packets == before.packets + 1).then_some(())
    });
    assert_eq!(router.counters(LEFT).direct_packets, before.direct_packets);
    close(engine.stop());
}

#[test]
fn super_frames_of_tcp_pass_the_tcx_program_and_count_as_their_segments() {
    let (net, router) = intercepted!("", 1);
    for host in [&net.left, &net.right] {
        host.command("ethtool", "-K e0 tx on tso on gso on");
    }
    let engine = router.engine(Work::Nothing, SLOTS);
    router.set_direct(true);
    let listener = net.right.run(|| TcpListener::bind("[::]:0").unwrap());
    for (to, ip_header) in [("10.3.0.2", 20), ("fd03::2", 40)] {
        let (kernel, before) = (forwarded_by_kernel(&net.mid), router.counters(LEFT));
        send_stream(&net, &listener, to);
        let after = router.counters(LEFT);
        let late = after.passed(PassReason::Stale) > before.passed(PassReason::Stale);
        assert!(late || forwarded_by_kernel(&net.mid) == kernel, "{after:?}");
        assert_eq!(after.packets, before.packets, "nothing for the sockets");
        let packets = after.direct_packets - before.direct_packets;
        let bytes = after.direct_bytes - before.direct_bytes;
        let payload = bytes - packets * (TCP_HEADERS + ip_header);
        // A busy machine may make TCP repeat a segment.
        let stream = u64::from(STREAM_BYTES);
        assert!(late || (stream..stream + stream / 10).contains(&payload), "{payload}");
        assert!(late || packets > stream / 1500, "{packets}");
    }
    close(engine.stop());
}

#[test]
fn a_frame_for_an_interface_that_has_vanished_goes_to_the_kernel() {
    let (net, router) = intercepted!("", 1);
    let engine = router.engine(Work::Nothing, SLOTS);
    router.set_direct(true);
    let mut datagrams = Numbered::new(&net);
    datagrams.exchange(1);
    // No one tells the router.
    net.mid.ip("link del ra");
    let before = router.counters(LEFT);
    let sent = datagrams.send_burst().len() as u64;
    eventually("the frames to be left to the kernel", || {
        let passed = router.counters(LEFT).passed(PassReason::PortDown);
        (passed == before.passed(PassReason::PortDown) + sent).then_some(())
    });
    assert_eq!(router.counters(LEFT).direct_packets, before.direct_packets);
    close(engine.stop());
}
