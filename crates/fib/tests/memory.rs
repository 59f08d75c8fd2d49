//! Measures the memory of a full table of the Internet.
//!
//! An allocator that counts bytes measures it. The file has only one test, so nothing else
//! allocates at the same time.

#![allow(clippy::unwrap_used)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use slipring_fib::*;
use slipring_rtnetlink::{Messages, RouteFamily};

struct Counting;

static HELD: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY:
// - All calls go to the system's allocator with the same arguments.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        PEAK.fetch_max(HELD.fetch_add(layout.size(), Relaxed) + layout.size(), Relaxed);
        // SAFETY:
        // - The caller's layout is valid.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Relaxed);
        // SAFETY:
        // - The block is the system allocator's, with this layout.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const MIB: usize = 1 << 20;
const ROUTES: u32 = 1_000_000;

/// Returns an `RTM_NEWROUTE` of a dump, for a route of the main table. `gateway` selects one of 200
/// gateways.
fn route(start: u32, len: u8, gateway: u32) -> Vec<u8> {
    let mut bytes = vec![];
    bytes.extend_from_slice(&60_u32.to_ne_bytes());
    bytes.extend_from_slice(&24_u16.to_ne_bytes());
    bytes.extend_from_slice(&2_u16.to_ne_bytes());
    bytes.extend_from_slice(&[0; 8]);
    bytes.extend_from_slice(&[2, len, 0, 0, 254, 186, 0, 1, 0, 0, 0, 0]);
    let gateway = 0x0a01_0002 + gateway % 200;
    for (kind, value) in [
        (15_u16, 254_u32.to_ne_bytes()),
        (1, start.to_be_bytes()),
        (5, gateway.to_be_bytes()),
        (4, 1_u32.to_ne_bytes()),
    ] {
        bytes.extend_from_slice(&8_u16.to_ne_bytes());
        bytes.extend_from_slice(&kind.to_ne_bytes());
        bytes.extend_from_slice(&value);
    }
    bytes
}

/// An interface that is up.
fn link() -> Vec<u8> {
    let mut bytes = vec![];
    bytes.extend_from_slice(&32_u32.to_ne_bytes());
    bytes.extend_from_slice(&16_u16.to_ne_bytes());
    bytes.extend_from_slice(&2_u16.to_ne_bytes());
    bytes.extend_from_slice(&[0; 12]);
    bytes.extend_from_slice(&1_u32.to_ne_bytes());
    bytes.extend_from_slice(&0x1_0043_u32.to_ne_bytes());
    bytes.extend_from_slice(&[0; 4]);
    bytes
}

fn receive(mirror: &mut Mirror, bytes: &[u8]) {
    for message in Messages::new(bytes) {
        mirror.receive(&message.unwrap());
    }
}

/// Gives the mirror a dump of all routes. Most prefixes are /24, some are shorter, and 3000 are
/// longer.
fn dump(mirror: &mut Mirror, bytes: &mut Vec<u8>) {
    mirror.begin_dump(DumpKind::Ipv4Routes);
    for at in 0..ROUTES {
        let (start, len) = match at {
            0..3000 => (0x1500_0000 + at * 256 + 128, 25),
            _ => (0x2000_0000 + at * 1024, if at % 5 == 0 { 22 } else { 24 }),
        };
        bytes.clear();
        bytes.extend(route(start, len, at / 7));
        receive(mirror, bytes);
    }
    mirror.end_dump(DumpKind::Ipv4Routes);
}

#[test]
fn a_million_routes_fit_into_a_hundred_mebibytes_with_their_tables() {
    let port = PortConfig {
        ifindex: 1,
        parent: None,
        name: "eth0".into(),
        vrf: VrfIndex(0),
        tags: VlanTags::default(),
    };
    let config = MirrorConfig {
        ports: vec![port],
        vrfs: vec![VrfConfig::default()],
        ..MirrorConfig::default()
    };
    let before = HELD.load(Relaxed);
    let mut mirror = Mirror::new(config, vec![heap_table(8192)]);
    let mut bytes = vec![];
    for kind in DumpKind::ALL {
        if kind == DumpKind::Ipv4Routes {
            dump(&mut mirror, &mut bytes);
            continue;
        }
        mirror.begin_dump(kind);
        if kind == DumpKind::Links {
            receive(&mut mirror, &link());
        }
        mirror.end_dump(kind);
    }
    let tables = mirror.publish().unwrap();
    assert_eq!(mirror.route_count(RouteFamily::V4), ROUTES as usize);
    let held = (HELD.load(Relaxed) - before) / MIB;
    let peak = (PEAK.load(Relaxed) - before) / MIB;
    println!("{held} MiB held, {peak} MiB at most");
    assert!(held <= 100, "{held} MiB");
    assert!(peak <= 110, "{peak} MiB");
    // A second dump of the same routes must change nothing, and must use no additional memory,
    // except that of one message at a time.
    drop(tables);
    let held = HELD.load(Relaxed);
    PEAK.store(held, Relaxed);
    dump(&mut mirror, &mut bytes);
    assert!(mirror.publish().is_none());
    let (again, peak) = (HELD.load(Relaxed), PEAK.load(Relaxed));
    println!("{held} B before the second dump, {peak} B at most, {again} B afterwards");
    assert!(again <= held && peak <= held + 4096, "{again} B, {peak} B after {held} B");
    assert_eq!(mirror.counters().silent_removals, 0);
}
