//! Checks that the fast path accepts only frames that the complete checks also accept, with the
//! same result.

use alloc::sync::Arc;
use core::net::IpAddr;

use proptest::prelude::*;
use slipring_fib::{FibPort, FibPortIndex, ForwardingTables, ReversePathMode, VlanTags, VrfIndex};
use slipring_wire::frame::{FrameSpec, IpSpec, Ipv4Spec, Ipv6Spec};
use slipring_wire::{MacAddr, checksum};

use super::{examine, plain};
use crate::batch::RouteFrame;
use crate::config::RouteConfig;
use crate::view::RouteView;

const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);

fn view() -> RouteView {
    let addresses = ["10.0.0.9", "fd00::9"].map(|own| (own.parse::<IpAddr>().unwrap(), 24));
    let port = FibPort {
        ifindex: 1,
        name: "p".into(),
        mac: MAC,
        mtu: 1500,
        is_up: true,
        vrf: VrfIndex(0),
        reverse_path: ReversePathMode::Off,
        reverse_path_v6: ReversePathMode::Off,
        tags: VlanTags::default(),
        addresses: addresses.into(),
    };
    let tables = ForwardingTables {
        generation: 1,
        ports: [port].into(),
        vrfs: [].into(),
        targets: [].into(),
        adjacencies: [].into(),
        buckets: [].into(),
    };
    RouteView::new(Arc::new(tables), &RouteConfig::default(), &[])
}

proptest! {
    #[test]
    fn the_fast_path_agrees_with_the_complete_checks(
        addresses: [u128; 2],
        first_bytes in proptest::option::of(any::<[u8; 2]>()),
        is_v6: bool,
        len in 60usize..200,
        changes in proptest::collection::vec((12usize..60, any::<u8>()), 0..3),
        is_repaired: bool,
    ) {
        let mut addresses = addresses;
        if let Some(first_bytes) = first_bytes {
            // Addresses at the borders of the special ranges.
            const BORDERS: [u8; 10] = [0, 1, 126, 127, 128, 223, 224, 239, 0xfe, 0xff];
            for (address, byte) in addresses.iter_mut().zip(first_bytes) {
                let byte = BORDERS[usize::from(byte) % BORDERS.len()];
                *address = *address & (u128::MAX >> 8) | u128::from(byte) << 120;
            }
        }
        let [from, to] = addresses;
        let ip = if is_v6 {
            IpSpec::V6(Ipv6Spec { src: from.into(), dst: to.into(), ..Ipv6Spec::default() })
        } else {
            let v4 = |address: u128| ((address >> 96) as u32).into();
            IpSpec::V4(Ipv4Spec { src: v4(from), dst: v4(to), ..Ipv4Spec::default() })
        };
        let spec = FrameSpec { dst_mac: MAC, ip, ..FrameSpec::default() };
        let mut bytes = spec.build(len.max(62)).unwrap().bytes;
        for (at, value) in changes {
            bytes[at] = value;
        }
        if is_repaired && !is_v6 {
            bytes[24..26].fill(0);
            let sum = checksum::of(&bytes[14..34]);
            bytes[24..26].copy_from_slice(&sum.to_be_bytes());
        }
        let view = view();
        let frame = RouteFrame::new(&mut bytes, FibPortIndex(0));
        if let Some(accepted) = plain::accept(&view, &frame) {
            prop_assert_eq!(examine(&view, false, &frame, &mut 0), Ok(accepted));
        }
    }
}

#[test]
fn the_fast_path_takes_ordinary_packets_of_both_versions() {
    let v6 = IpSpec::V6(Ipv6Spec::default());
    for ip in [IpSpec::V4(Ipv4Spec::default()), v6] {
        let mut bytes =
            FrameSpec { dst_mac: MAC, ip, ..FrameSpec::default() }.build(80).unwrap().bytes;
        assert!(plain::accept(&view(), &RouteFrame::new(&mut bytes, FibPortIndex(0))).is_some());
    }
}
