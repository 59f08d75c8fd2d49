//! The frames that the flags describe.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use slipring_cli::Failure;
use slipring_traffic::{
    EndpointOrder, Endpoints, PatternError, SizeError, Sizes, StampForm, TrafficPattern,
    TrafficProtocol,
};
use slipring_wire::MacAddr;
use slipring_wire::assigned::{EtherType, VlanTag};
use slipring_wire::frame::TagSpec;
use slipring_wire::view::IpVersion;

use super::reader::{FlagReader, bits};
use super::{conflict, wrong};

/// Source MAC address of frames if neither the user nor the port gives one: a locally administered
/// address.
pub(in super::super) const DEFAULT_SRC_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
/// TCP's ACK bit. It is set in generated segments, so that no firewall takes them for new
/// connections.
const TCP_ACK: u8 = 0x10;

/// Builds the pattern.
pub(super) fn of(reader: &FlagReader<'_>) -> Result<TrafficPattern, Failure> {
    let (random_src, random_dst) =
        (reader.flag("random-src", bits::RANDOM_SRC), reader.flag("random-dst", bits::RANDOM_DST));
    let (src, dst) = endpoints(reader)?;
    let mut pattern = TrafficPattern {
        src_mac: reader.get("src-mac").unwrap_or(DEFAULT_SRC_MAC),
        dst_mac: reader.get("dst-mac").unwrap_or(MacAddr::BROADCAST),
        tags: tags(reader)?,
        src: if random_src { src.widened() } else { src },
        src_order: order(random_src),
        dst: if random_dst { dst.widened() } else { dst },
        dst_order: order(random_dst),
        protocol: match reader.text("proto") {
            Some("tcp") => TrafficProtocol::Tcp { flags: TCP_ACK },
            Some("icmp") => TrafficProtocol::Echo,
            _ => TrafficProtocol::Udp,
        },
        ttl: reader.get("ttl").unwrap_or(64),
        tos: reader.get("tos").unwrap_or(0),
        ..TrafficPattern::default()
    };
    pattern.sizes = sizes(reader, &pattern)?;
    pattern.check().map_err(|error| pattern_failure(&error))?;
    Ok(pattern)
}

/// Builds the failure for a requested pattern that no frame can have.
pub(in super::super) fn pattern_failure(error: &PatternError) -> Failure {
    wrong("these frames cannot be made", error.to_string(), "give another -l, or fewer headers")
}

fn order(random: bool) -> EndpointOrder {
    if random { EndpointOrder::Random } else { EndpointOrder::Sweep }
}

/// Returns source and destination. Their address family is the requested one, or else that of a
/// given address, or else IPv4.
fn endpoints(reader: &FlagReader<'_>) -> Result<(Endpoints, Endpoints), Failure> {
    let (src, dst) = (reader.get::<Endpoints>("src"), reader.get::<Endpoints>("dst"));
    let wanted = match (reader.matches.get_flag("ipv4"), reader.matches.get_flag("ipv6")) {
        (true, _) => Some(IpVersion::V4),
        (_, true) => Some(IpVersion::V6),
        _ => None,
    };
    let given = src.as_ref().or(dst.as_ref()).map(Endpoints::family);
    let family = wanted.or(given).unwrap_or(IpVersion::V4);
    let src = src.unwrap_or_else(|| default_endpoints(family, [10, 0, 0, 1], 0));
    let dst = dst.unwrap_or_else(|| default_endpoints(family, [10, 1, 0, 1], 1));
    if src.family() != family || dst.family() != family {
        return Err(conflict(
            "-4, -6 and the addresses contradict each other",
            "source and destination must both be of the one family",
            "give -s and -d addresses of one family",
        ));
    }
    Ok((src, dst))
}

/// Returns the default endpoint of a family: pkt-gen's address `v4`, or the IPv6 address
/// `fd00:NET::1`, where NET is `net`.
fn default_endpoints(family: IpVersion, v4: [u8; 4], net: u16) -> Endpoints {
    let address = match family {
        IpVersion::V4 => IpAddr::V4(Ipv4Addr::from(v4)),
        IpVersion::V6 => IpAddr::V6(Ipv6Addr::new(0xfd00, net, 0, 0, 0, 0, 0, 1)),
    };
    Endpoints::one(address, Endpoints::DEFAULT_PORT)
}

/// Parses `VID[:PRIO]`, once or twice.
fn tags(reader: &FlagReader<'_>) -> Result<Vec<TagSpec>, Failure> {
    let texts: Vec<&String> = reader.matches.get_many("vlan").into_iter().flatten().collect();
    if texts.len() > 2 {
        let cause = "a frame has an outer and an inner one at most";
        return Err(wrong("more than two VLAN tags", cause, "--vlan OUTER --vlan INNER"));
    }
    let outer_of_two = texts.len() == 2;
    let tag = |(i, text): (usize, &&String)| {
        let ethertype = if i == 0 && outer_of_two { EtherType::QINQ } else { EtherType::VLAN };
        Ok(TagSpec { ethertype, tag: tag(text)? })
    };
    texts.iter().enumerate().map(tag).collect()
}

fn tag(text: &str) -> Result<VlanTag, Failure> {
    let (vid, priority) = text.split_once(':').unwrap_or((text, "0"));
    match (vid.parse::<u16>(), priority.parse::<u8>()) {
        (Ok(vid), Ok(priority)) if vid < 4096 && priority < 8 => Ok(VlanTag::new(vid, priority)),
        _ => Err(wrong(
            format!("`{text}` does not fit --vlan"),
            "ids go from 0 to 4095, priorities behind a colon from 0 to 7",
            "write --vlan 5, or --vlan 5:3",
        )),
    }
}

/// Parses the frame length `-l`, or pkt-gen's two lengths (maximum, minimum). Without the flag,
/// returns the shortest length that has space for a timestamp, but at least 60.
fn sizes(reader: &FlagReader<'_>, pattern: &TrafficPattern) -> Result<Sizes, Failure> {
    let texts: Vec<&String> = reader.matches.get_many("size").into_iter().flatten().collect();
    match texts[..] {
        [] => {
            let least = pattern.header_len() + StampForm::Timed.bytes();
            let least = u16::try_from(least.max(60)).map_err(|error| unfit_size("", error))?;
            Sizes::fixed(least).map_err(|error| unfit_size("", error))
        }
        [text] => text.parse().map_err(|error: SizeError| unfit_size(text, error)),
        [most, least] => {
            let (Ok(longest), Ok(shortest)) = (most.parse(), least.parse()) else {
                return Err(unfit_size(least, "a random minimum goes with one plain size"));
            };
            Sizes::random(shortest, longest).map_err(|error| unfit_size(least, error))
        }
        _ => Err(conflict(
            "-l can be given twice, not more",
            "a second one is a random minimum; a third would mean nothing",
            "write -l 1500 -l 60, or a mix: -l 60:7,590:4",
        )),
    }
}

fn unfit_size(text: &str, cause: impl ToString) -> Failure {
    let summary = format!("`{text}` does not fit --size");
    wrong(summary, cause.to_string(), "write -l 60, -l 60-1514, -l imix or -l 60:7,590:4")
}
