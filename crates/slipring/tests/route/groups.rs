//! Packets to groups, which the kernel forwards by its multicast routes.

use slipring_test_support::{Program, installed};

use crate::host::Frame;
use crate::packet::Packet;
use crate::rig::{Setup, ip, v4, v6};

checks! {
    packets_to_a_group_are_forwarded_by_the_kernels_multicast_routes,
}

/// Does what a multicast routing daemon does: a route for the group from e0 to e1, in each family,
/// until the process ends. The arguments are the source and the group of each.
const DAEMON: &str = r#"
import signal, socket, struct, sys
s4, g4, s6, g6 = sys.argv[1:]
names = ["e0", "e1"]
raw4 = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_IGMP)
raw4.setsockopt(socket.IPPROTO_IP, 200, 1)
raw6 = socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6)
raw6.setsockopt(socket.IPPROTO_IPV6, 200, 1)
for at, name in enumerate(names):
    index = socket.if_nametoindex(name)
    raw4.setsockopt(socket.IPPROTO_IP, 202, struct.pack("HBBIiI", at, 8, 1, 0, index, 0))
    raw6.setsockopt(socket.IPPROTO_IPV6, 202, struct.pack("HBBHI", at, 0, 1, index, 0))
hops = bytes([0, 1] + [0] * 30)
pair = [socket.inet_aton(it) for it in (s4, g4)]
raw4.setsockopt(socket.IPPROTO_IP, 204, struct.pack("4s4sH32sIIIi", *pair, 0, hops, 0, 0, 0, 0))
pair = [struct.pack("HHI16sI", socket.AF_INET6, 0, 0, socket.inet_pton(socket.AF_INET6, it), 0)
        for it in (s6, g6)]
raw6.setsockopt(socket.IPPROTO_IPV6, 204,
                struct.pack("28s28sH2x32s", *pair, 0, struct.pack("I28x", 2)))
print("routes are set", flush=True)
signal.pause()
"#;

fn packets_to_a_group_are_forwarded_by_the_kernels_multicast_routes(setup: Setup) {
    if !installed("python3") {
        return;
    }
    let groups = ["239.1.2.3", "ff0e::1234"];
    let rig = setup.start();
    let words = [v4().a.to_string(), groups[0].into(), v6().a.to_string(), groups[1].into()];
    let words: Vec<_> =
        ["-c", DAEMON].into_iter().chain(words.iter().map(String::as_str)).collect();
    let daemon = Program::start_with(&rig.router, "python3", &words);
    daemon.wait_for_text("routes are set");
    for (net, group, mac) in [
        (v4(), groups[0], [1, 0, 0x5e, 1, 2, 3]),
        (v6(), groups[1], [0x33, 0x33, 0, 0, 0x12, 0x34]),
    ] {
        let packet = Packet::udp(net.a, ip(group), b"to all members");
        rig.a.send_frame(&Frame { dst: mac, ..rig.a.frame(&packet) });
        let seen = rig.observe([0, 1, 0]);
        let arrived: Vec<_> = seen.b.iter().map(|it| (it.dst, it.packet.clone())).collect();
        assert_eq!(arrived, [(mac, packet.forwarded())]);
        assert!(seen.a.is_empty(), "{seen:?}");
    }
}
