//! `slipring dump` beside tcpdump: the same captures, the same flags, the same bytes.

use slipring_port::capture::FileWriter;

use super::support;
use super::support::program::{Program, SLIPRING};
use super::with_links;

/// Frames as hex, after `to` and `from`.
const FRAMES: [&str; 12] = [
    // ARP: who has, is at.
    "0806 0001080006040001 020000000001 0a000001 000000000000 0a000002",
    "0806 0001080006040002 020000000001 0a000001 020000000002 0a000002",
    // UDP over IPv4, with a right, a wrong and no checksum; of class EF; in a VLAN.
    "0800 4500002400004000401126c7 0a000001 0a000002 04d2162e00100000 2021222324252627",
    "0800 45b8002400070000031126c7 0a000001 0a000002 04d2162e00101234 2021222324252627",
    "8100 6005 0800 4500002400004000401126c7 0a000001 0a000002 04d2162e00100000 2021222324252627",
    // A first and a last fragment.
    "0800 4500002400072000401126c7 0a000001 0a000002 04d2162e00300000 2021222324252627",
    "0800 4500002400070006401126c7 0a000001 0a000002 04d2162e00300000 2021222324252627",
    // TCP: SYN with options, FIN.
    "0800 4500002c00004000400626ca 0a000001 0a000002 9c401389 000003e8 00000000 6002 0200 1234 0000 020405b4",
    "0800 4500002800004000400626ce 0a000001 0a000002 9c401389 000003e8 0000004d 5011 0200 1234 0000",
    // ICMP echo; ICMPv6 echo; a neighbour solicited.
    "0800 4500002000004000400126db 0a000001 0a000002 0800d7d9 0001 0002 41424344",
    "86dd 60000000 000c 3a40 fe800000000000000000000000000001 fe800000000000000000000000000002 8000 8279 0001 0002 41424344",
    "86dd 60000000 0018 3aff fe800000000000000000000000000001 fe800000000000000000000000000002 8700 1234 00000000 \
     fe800000000000000000000000000002",
];

/// Flags whose output tcpdump and we have alike.
const FLAGS: [&str; 14] = [
    "", "-e", "-v", "-e -v", "-vv", "-e -vv", "-x", "-xx", "-X", "-XX", "-e -X -v", "-q", "-e -q",
    "-tttt -e",
];

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<_> = "020000000002020000000001".chars().chain(hex.chars()).collect();
    let digits: Vec<_> = digits.into_iter().filter(|digit| !digit.is_whitespace()).collect();
    let byte = |pair: &[char]| u8::from_str_radix(&pair.iter().collect::<String>(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

#[test]
fn dump_prints_what_tcpdump_prints_to_the_byte() {
    let Some(namespace) = with_links() else { return };
    if !support::installed("tcpdump") {
        return println!("skipped: no tcpdump");
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("frames.pcap").display().to_string();
    let mut writer = FileWriter::create(&path, &["test"]).unwrap();
    for (at, frame) in (0..).zip(FRAMES) {
        let time = 1_700_000_000_000_000_000 + at * 1_000_000;
        writer.packet(0, time, &bytes(frame), None).unwrap();
    }
    drop(writer);
    for flags in FLAGS {
        let words = format!("-n -S -r {path} {flags}");
        let theirs = Program::start(&namespace, "tcpdump", &words).finish().stdout;
        let ours = Program::start(&namespace, SLIPRING, &format!("dump {words}")).finish();
        assert!(!theirs.is_empty(), "tcpdump {words} printed nothing");
        for (our, their) in ours.stdout.lines().zip(theirs.lines()) {
            assert_eq!(our, their, "dump {flags}");
        }
        assert_eq!(ours.stdout, theirs, "dump {flags}");
    }
}
