//! Prints what each stage decides about three packets: one that is forwarded, one that expires, and
//! one with an impossible source.

#[path = "../benches/router/mod.rs"]
#[expect(dead_code, reason = "the benchmarks use the rest")]
mod router;

use router::{MAC, Router};
use slipring_fib::FibPortIndex;
use slipring_route::RouteFrame;
use slipring_wire::frame::{FrameSpec, IpSpec, Ipv4Spec};

fn main() {
    let router = Router::v4(1, 1);
    let dst = ((router.destinations[0] >> 96) as u32).into();
    let usual = Ipv4Spec { src: [32, 0, 0, 1].into(), dst, ..Ipv4Spec::default() };
    let packets = [
        ("a usual packet", usual),
        ("a packet on its last hop", Ipv4Spec { ttl: 1, ..usual }),
        ("a packet from 127.0.0.1", Ipv4Spec { src: [127, 0, 0, 1].into(), ..usual }),
    ];
    for (name, ip) in packets {
        println!("{name}:");
        let spec = FrameSpec { dst_mac: MAC, ip: IpSpec::V4(ip), ..FrameSpec::default() };
        let mut bytes = spec.build(60).expect("a plain frame").bytes;
        for step in router.engine.explain(&RouteFrame::new(&mut bytes, FibPortIndex(0)), 0) {
            println!("  {step}");
        }
    }
}
