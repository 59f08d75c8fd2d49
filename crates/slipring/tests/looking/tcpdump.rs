//! `slipring dump` compared with tcpdump: the same captures, the same flags, the same bytes.

mod built;
mod names;
mod network;
mod routing;

use std::path::Path;

use slipring_test_support::{Namespace, Program, installed, skip};
use slipring_wire::summary::{Detail, Summary};

use super::with_links;
use crate::support::SLIPRING;
use built::{Built, hex};

/// Frames as hex, after destination and source address.
const FRAMES: [&str; 12] = [
    // ARP request and reply.
    "0806 0001080006040001 020000000001 0a000001 000000000000 0a000002",
    "0806 0001080006040002 020000000001 0a000001 020000000002 0a000002",
    // UDP over IPv4, with a right, a wrong and no checksum; with DSCP EF; in a VLAN.
    "0800 4500002400004000401126c7 0a000001 0a000002 04d2162e00100000 2021222324252627",
    "0800 45b8002400070000031126c7 0a000001 0a000002 04d2162e00101234 2021222324252627",
    "8100 6005 0800 4500002400004000401126c7 0a000001 0a000002 04d2162e00100000 2021222324252627",
    // A first and a last fragment.
    "0800 4500002400072000401126c7 0a000001 0a000002 04d2162e00300000 2021222324252627",
    "0800 4500002400070006401126c7 0a000001 0a000002 04d2162e00300000 2021222324252627",
    // TCP: SYN with options, FIN.
    "0800 4500002c00004000400626ca 0a000001 0a000002 9c401389 000003e8 00000000 6002 0200 1234 0000 020405b4",
    "0800 4500002800004000400626ce 0a000001 0a000002 9c401389 000003e8 0000004d 5011 0200 1234 0000",
    // ICMP echo; ICMPv6 echo; neighbour solicitation.
    "0800 4500002000004000400126db 0a000001 0a000002 0800d7d9 0001 0002 41424344",
    "86dd 60000000 000c 3a40 fe800000000000000000000000000001 fe800000000000000000000000000002 8000 8279 0001 0002 41424344",
    "86dd 60000000 0018 3aff fe800000000000000000000000000001 fe800000000000000000000000000002 8700 1234 00000000 \
     fe800000000000000000000000000002",
];

/// Flags for which tcpdump's output equals ours.
const FLAGS: [&str; 18] = [
    "", "-e", "-v", "-e -v", "-vv", "-vvv", "-e -vv", "-x", "-xx", "-X", "-XX", "-e -X -v", "-q",
    "-e -q", "-tttt -e", "-S", "-S -vv", "-K -vv",
];
/// The same for frames of which a capture holds only a few bytes.
const CUT_FLAGS: [&str; 5] = ["", "-v", "-e", "-q", "-xx"];

/// Frames by topic, and the lengths to which captures cut them.
const GROUPS: [(&str, &[Built], &[usize]); 11] = [
    ("link", &network::LINK, &[14]),
    ("arp", &network::ARP, &[14, 18, 22, 33, 40]),
    ("tcp", &network::TCP, &[14, 18, 22, 33, 36, 40, 46]),
    ("ipv4", &network::IPV4, &[14, 18, 22, 33, 46]),
    ("ipv6", &network::IPV6, &[14, 18, 22, 33, 40, 46]),
    ("gre", &routing::GRE, &[14, 18, 22, 33, 36, 40, 46]),
    ("ospf", &routing::OSPF, &[14, 18, 22, 33, 36, 40, 46]),
    ("groups and tunnels", &routing::GROUPS_AND_TUNNELS, &[14, 18, 22, 33, 36, 40]),
    ("icmpv6", &routing::ICMPV6, &[14, 18, 22, 33, 40, 46]),
    ("dns", &names::DNS, &[14, 18, 22, 33, 36, 40, 46]),
    ("dhcp", &names::DHCP, &[14, 18, 22, 33, 40, 46, 60, 90]),
];

/// The captured bytes of a frame, and its original length.
type Kept = (Vec<u8>, usize);

fn whole(bytes: Vec<u8>) -> Kept {
    let len = bytes.len();
    (bytes, len)
}

/// Writes a capture in microseconds, as tcpdump does.
fn write(path: &Path, frames: &[Kept]) {
    let mut file = Vec::new();
    let words =
        |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>();
    file.extend(words(&[0xa1b2_c3d4, 0x0004_0002, 0, 0, 262_144, 1]));
    for (at, (kept, len)) in (0..).zip(frames) {
        file.extend(words(&[1_700_000_000 + at, 1000 * (at % 7), kept.len() as u32, *len as u32]));
        file.extend(kept);
    }
    std::fs::write(path, file).unwrap();
}

/// Compares both outputs for these frames and flags.
fn compare(namespace: &Namespace, name: &str, frames: &[Kept], flags: &[&str]) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("frames.pcap");
    write(&path, frames);
    for flags in flags {
        let words = format!("-n -r {} {flags}", path.display());
        let theirs = Program::start(namespace, "tcpdump", &words).finish().stdout;
        let ours = Program::start(namespace, SLIPRING, &format!("dump {words}")).finish();
        assert!(!theirs.is_empty(), "tcpdump {words} printed nothing");
        for (our, their) in ours.stdout.lines().zip(theirs.lines()) {
            assert_eq!(our, their, "{name}: dump {flags}");
        }
        assert_eq!(ours.stdout, theirs, "{name}: dump {flags}");
    }
}

/// Returns a namespace, if tcpdump is installed in the version that these tests expect.
fn beside_tcpdump() -> Option<Namespace> {
    if !installed("tcpdump") {
        skip!("no tcpdump");
        return None;
    }
    let version = std::process::Command::new("tcpdump").arg("--version").output().unwrap();
    let version = [version.stdout, version.stderr].concat();
    if !String::from_utf8_lossy(&version).contains("tcpdump version 4.99.") {
        skip!("the lines are those of tcpdump 4.99");
        return None;
    }
    with_links()
}

#[test]
fn dump_prints_what_tcpdump_prints_to_the_byte() {
    let Some(namespace) = beside_tcpdump() else { return };
    let frame = |text: &&str| whole(hex(&["020000000002020000000001", *text].concat()));
    let frames: Vec<_> = FRAMES.iter().map(frame).collect();
    compare(&namespace, "frames", &frames, &FLAGS);
}

#[test]
fn dump_prints_of_every_protocol_that_it_decodes_what_tcpdump_prints() {
    let Some(namespace) = beside_tcpdump() else { return };
    // With -v some of these frames end before their claimed length: after that tcpdump's bytes
    // begin with the link layer for some protocols, and ours never do.
    let flags: Vec<_> = FLAGS.into_iter().filter(|flags| *flags != "-e -X -v").collect();
    for (name, frames, _) in GROUPS {
        let frames: Vec<_> = frames.iter().map(|frame| whole(frame.bytes())).collect();
        compare(&namespace, name, &frames, &flags);
    }
}

#[test]
fn dump_says_as_tcpdump_where_a_capture_has_cut_a_frame() {
    let Some(namespace) = beside_tcpdump() else { return };
    for (name, frames, cuts) in GROUPS {
        let cut = |frame: &Built| {
            let bytes = frame.bytes();
            let cuts = cuts.iter().filter(|cut| **cut < bytes.len());
            cuts.map(|cut| (bytes[..*cut].to_vec(), bytes.len())).collect::<Vec<_>>()
        };
        let frames: Vec<_> = frames.iter().flat_map(cut).collect();
        compare(&namespace, name, &frames, &CUT_FLAGS);
    }
}

#[test]
fn frames_whose_bytes_are_anything_are_told_all_the_same() {
    let details = [0, 3].map(|verbose| Detail { verbose, ..Detail::default() });
    let told = |frame: &[u8]| {
        for detail in details {
            let summary = Summary::new(frame).with_wire_len(frame.len() + 1).with_detail(detail);
            assert!(!summary.write(true, None).text.is_empty(), "{frame:02x?}");
        }
    };
    for frame in GROUPS.iter().flat_map(|(_, frames, _)| *frames) {
        let bytes = frame.bytes();
        (0..bytes.len()).for_each(|len| told(&bytes[..len]));
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            for value in [0, 1, 2, 3, 4, 5, 7, 8, 15, 31, 63, 64, 127, 128, 192, 254, 255] {
                changed[at] = value;
                told(&changed);
                // The changed byte may be a length, so also try it with the next byte zeroed.
                if let Some(next) = changed.get_mut(at + 1) {
                    let before = std::mem::replace(next, 0);
                    told(&changed);
                    changed[at + 1] = before;
                }
            }
        }
    }
}
