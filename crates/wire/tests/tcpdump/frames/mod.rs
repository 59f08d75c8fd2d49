//! Frames of all protocols that summaries decode. The summaries are compared with tcpdump's texts
//! for these frames.

mod built;
mod limits;
mod names;
mod network;
mod routing;

use std::path::{Path, PathBuf};

use built::{TestFrame, hex};

/// Frames as hex, without destination and source MAC addresses.
const FRAMES: [&str; 13] = [
    // An ARP request and its reply.
    "0806 0001080006040001 020000000001 0a000001 000000000000 0a000002",
    "0806 0001080006040002 020000000001 0a000001 020000000002 0a000002",
    // UDP over IPv4: with right checksums; without a UDP checksum; with wrong checksums and DSCP
    // EF; in a VLAN.
    "0800 4500002400004000401126c7 0a000001 0a000002 04d2162e0010443b 2021222324252627",
    "0800 4500002400004000401126c7 0a000001 0a000002 04d2162e00100000 2021222324252627",
    "0800 45b8002400070000031126c7 0a000001 0a000002 04d2162e00101234 2021222324252627",
    "8100 6005 0800 4500002400004000401126c7 0a000001 0a000002 04d2162e00100000 2021222324252627",
    // A first and a last fragment.
    "0800 4500002400072000401126c7 0a000001 0a000002 04d2162e00300000 2021222324252627",
    "0800 4500002400070006401126c7 0a000001 0a000002 04d2162e00300000 2021222324252627",
    // TCP: SYN with options; FIN.
    "0800 4500002c00004000400626ca 0a000001 0a000002 9c401389 000003e8 00000000 6002 0200 1234 0000 020405b4",
    "0800 4500002800004000400626ce 0a000001 0a000002 9c401389 000003e8 0000004d 5011 0200 1234 0000",
    // ICMP echo; ICMPv6 echo; neighbour solicitation.
    "0800 4500002000004000400126db 0a000001 0a000002 0800d7d9 0001 0002 41424344",
    "86dd 60000000 000c 3a40 fe800000000000000000000000000001 fe800000000000000000000000000002 8000 8279 0001 0002 41424344",
    "86dd 60000000 0018 3aff fe800000000000000000000000000001 fe800000000000000000000000000002 8700 1234 00000000 \
     fe800000000000000000000000000002",
];

/// Frames by topic. For each topic, the lengths to which captures cut the frames.
pub(crate) const GROUPS: [(&str, &[TestFrame], &[usize]); 15] = [
    ("link", &network::LINK, &[14, 15]),
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
    ("multicast", &limits::MULTICAST, &[42, 45, 53, 58, 61, 77, 82, 101]),
    ("ntp", &limits::NTP, &[42, 43, 53, 89, 93]),
    ("dns limits", &limits::DNS_LIMITS, &[]),
    ("dhcp limits", &limits::DHCP_LIMITS, &[96, 149, 150, 200, 277, 278, 284]),
];

/// A text that tcpdump 4.99 has printed for the frames. It is stored in `golden`.
pub(crate) struct RecordedText {
    /// The name of the file in `golden`.
    pub(crate) name: &'static str,
    /// tcpdump's flags, in addition to `-n -t`.
    pub(crate) flags: &'static str,
    /// Whether the capture has only the first bytes of each frame.
    pub(crate) is_cut: bool,
}

/// All texts that were recorded.
pub(crate) const TEXTS: [RecordedText; 6] = [
    RecordedText { name: "brief", flags: "", is_cut: false },
    RecordedText { name: "quick", flags: "-q -e", is_cut: false },
    RecordedText { name: "verbose", flags: "-v", is_cut: false },
    RecordedText { name: "more", flags: "-vv", is_cut: false },
    RecordedText { name: "full", flags: "-e -vvv", is_cut: false },
    RecordedText { name: "cut", flags: "-v", is_cut: true },
];

impl RecordedText {
    pub(crate) fn path(&self) -> PathBuf {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("wire");
        crates.join("tests/tcpdump/golden").join(self.name).with_extension("txt")
    }
}

/// The captured bytes of a frame, and its original length.
pub(crate) type CapturedFrame = (Vec<u8>, usize);

pub(crate) fn whole(bytes: Vec<u8>) -> CapturedFrame {
    let len = bytes.len();
    (bytes, len)
}

/// Returns the frames that belong to no topic.
pub(crate) fn single_frames() -> Vec<CapturedFrame> {
    let frame = |text: &&str| whole(hex(&["020000000002020000000001", *text].concat()));
    FRAMES.iter().map(frame).collect()
}

/// Returns the frames of a topic. Each frame is included once for each length in `cuts` that is
/// shorter than the frame, cut to this length.
pub(crate) fn cut_frames(frames: &[TestFrame], cuts: &[usize]) -> Vec<CapturedFrame> {
    let cut = |frame: &TestFrame| {
        let bytes = frame.bytes();
        let cuts = cuts.iter().filter(|cut| **cut < bytes.len());
        cuts.map(|cut| (bytes[..*cut].to_vec(), bytes.len())).collect::<Vec<_>>()
    };
    frames.iter().flat_map(cut).collect()
}

/// Returns the frames for which `text` was recorded.
pub(crate) fn all_frames(text: &RecordedText) -> Vec<CapturedFrame> {
    if text.is_cut {
        return GROUPS.iter().flat_map(|(_, frames, cuts)| cut_frames(frames, cuts)).collect();
    }
    let groups = GROUPS.iter().flat_map(|(_, frames, _)| *frames);
    single_frames().into_iter().chain(groups.map(|frame| whole(frame.bytes()))).collect()
}
