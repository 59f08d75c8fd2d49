//! The settings of `[[class]]`, which select the link that a frame takes.
//!
//! The conditions of a class become a pcap filter; all of them must hold:
//!
//! ```text
//!   vlan = 5                         vlan 5 and
//!   dscp = "ef"                      (ip[1] & 0xfc = 0xb8 or ip6[0:2] & 0xfc0 = 0xb80) and
//!   proto = "udp"                    udp and
//!   src = "10.0.0.0/8"               src net 10.0.0.0/8 and
//!   dst_port = "5004-5010"           dst portrange 5004-5010 and
//!   match = "len < 200"              (len < 200)
//! ```
//!
//! Not for: parsing filters; `slipring-filter` does that.

use std::net::IpAddr;

use slipring_link::{ClassSpec, NetworkSpec};
use slipring_wire::MacAddr;

use super::endpoint::endpoint_index;
use super::error::{EmulationConfigError, listed};
use super::quantity;
use super::section::{self, ConfigSection, unknown_word};
use super::tree::{ConfigNode, ConfigTable, ConfigValue};

/// Names of protocols above IP.
const PROTOCOL_NAMES: [&str; 6] = ["tcp", "udp", "sctp", "icmp", "icmp6", "esp"];
/// The conditions of a class, each with the function that converts it. `vlan` comes first, because
/// in a pcap filter it changes the offsets of all later terms.
const CLAUSE_READERS: [(&str, ClauseReader); 10] = [
    ("vlan", vlan),
    ("mac", |path, node| mac(path, node, "host")),
    ("src_mac", |path, node| mac(path, node, "src")),
    ("dst_mac", |path, node| mac(path, node, "dst")),
    ("dscp", dscp),
    ("proto", proto),
    ("src", |path, node| address(path, node, "src")),
    ("dst", |path, node| address(path, node, "dst")),
    ("src_port", |path, node| ports(path, node, "src")),
    ("dst_port", |path, node| ports(path, node, "dst")),
];

/// Converts the setting at a path to a term of a pcap filter.
type ClauseReader = fn(&str, &ConfigNode) -> Result<String, EmulationConfigError>;

/// Reads the classes, in the order of their evaluation.
pub(super) fn read(
    root: &ConfigTable,
    network: &NetworkSpec,
) -> Result<Vec<ClassSpec>, EmulationConfigError> {
    let Some(node) = root.get("class") else { return Ok(Vec::new()) };
    let ConfigValue::List(list) = &node.value else {
        let error = quantity::wrong_kind("class", &node.value, &node.location);
        return Err(error.help("write [[class]] above match and use"));
    };
    list.iter().map(|node| class(node, network)).collect()
}

fn class(node: &ConfigNode, network: &NetworkSpec) -> Result<ClassSpec, EmulationConfigError> {
    let mut section = ConfigSection::new("class", node)?;
    let link = section.required("use", |path, node| link(path, node, network))?;
    let mut parts = Vec::new();
    for (key, reader) in CLAUSE_READERS {
        parts.extend(section.read(key, reader)?);
    }
    let text = section.read("match", |path, node| expression(path, node, link))?;
    section.finish()?;
    match (parts.is_empty(), text) {
        (true, Some(class)) => Ok(class),
        (true, None) => {
            let error = EmulationConfigError::key("a class says nothing of its frames", "");
            let names: Vec<_> = CLAUSE_READERS.iter().map(|(key, _)| *key).collect();
            Err(error.at(section.location).help(format!("add one of: {}, match", listed(&names))))
        }
        (false, text) => {
            parts.extend(text.map(|class| format!("({})", class.filter)));
            let filter = parts.join(" and ");
            ClassSpec::new(&filter, link).map_err(|error| {
                let fault = EmulationConfigError::value("class", &filter, error.allowed)
                    .at(section.location);
                fault.help("let its settings be of one kind of frame, or write match alone")
            })
        }
    }
}

fn link(
    path: &str,
    node: &ConfigNode,
    network: &NetworkSpec,
) -> Result<usize, EmulationConfigError> {
    let names: Vec<String> =
        network.links.iter().map(|link| format!("link.{}", link.spec.name)).collect();
    endpoint_index(path, node, &names).or_else(|error| {
        let bare = names.iter().position(|name| name[5..] == node.shown());
        bare.ok_or(error)
    })
}

fn expression(
    path: &str,
    node: &ConfigNode,
    link: usize,
) -> Result<ClassSpec, EmulationConfigError> {
    let filter = section::text(path, node)?;
    ClassSpec::new(&filter, link).map_err(|error| {
        let error_in = EmulationConfigError::value(path, &filter, error.allowed);
        error_in.at(&node.location).help(
            "write it as for tcpdump: udp dst port 5004; for DSCP and VLANs: dscp = 46, vlan = 5",
        )
    })
}

fn vlan(path: &str, node: &ConfigNode) -> Result<String, EmulationConfigError> {
    let id = up_to(path, node, 4095)?;
    Ok(format!("vlan {id}"))
}

fn mac(path: &str, node: &ConfigNode, end: &str) -> Result<String, EmulationConfigError> {
    let text = section::text(path, node)?;
    let mac: MacAddr = text.parse().map_err(|_| {
        let error = EmulationConfigError::value(path, &text, "it is no hardware address")
            .at(&node.location);
        error.help("write it as 02:00:00:00:00:01")
    })?;
    Ok(format!("ether {end} {mac}"))
}

/// Converts a DSCP: a number, or a name of RFC 2474, 2597, 3246, 5865 and 8622.
fn dscp(path: &str, node: &ConfigNode) -> Result<String, EmulationConfigError> {
    let named = match &node.value {
        ConfigValue::Text(text) => code_point(text).map(Some).ok_or_else(|| {
            let error = EmulationConfigError::value(path, text, "unknown name").at(&node.location);
            error.help("write a number from 0 to 63, or ef, va, le, cs0 to cs7, af11 to af43")
        })?,
        _ => None,
    };
    let code = match named {
        Some(code) => code,
        None => up_to(path, node, 63)?,
    };
    Ok(format!("(ip[1] & 0xfc = {:#x} or ip6[0:2] & 0xfc0 = {:#x})", code << 2, code << 6))
}

fn code_point(name: &str) -> Option<u64> {
    let digit = |byte: u8| u64::from(byte.wrapping_sub(b'0'));
    let digits = |rest: &str| rest.bytes().map(digit).collect::<Vec<_>>();
    match (name, name.get(..2), name.get(2..)) {
        ("ef", ..) => Some(46),
        ("va", ..) => Some(44),
        ("le", ..) => Some(1),
        (_, Some("cs"), Some(rest)) => match digits(rest)[..] {
            [class @ 0..=7] => Some(class * 8),
            _ => None,
        },
        (_, Some("af"), Some(rest)) => match digits(rest)[..] {
            [class @ 1..=4, drop @ 1..=3] => Some(class * 8 + drop * 2),
            _ => None,
        },
        _ => None,
    }
}

fn proto(path: &str, node: &ConfigNode) -> Result<String, EmulationConfigError> {
    match &node.value {
        ConfigValue::Text(text) if PROTOCOL_NAMES.contains(&text.as_str()) => Ok(text.clone()),
        ConfigValue::Text(text) => Err(unknown_word(path, text, &node.location, &PROTOCOL_NAMES)),
        _ => {
            let number = up_to(path, node, 255)?;
            Ok(format!("(ip proto {number} or ip6 proto {number})"))
        }
    }
}

/// Converts an address, or a network such as `10.0.0.0/8`; bits after the prefix are ignored.
fn address(path: &str, node: &ConfigNode, end: &str) -> Result<String, EmulationConfigError> {
    let text = section::text(path, node)?;
    let refused = |why: &str| {
        let error = EmulationConfigError::value(path, &text, why).at(&node.location);
        error.help("write 10.0.0.1, 10.0.0.0/8, fd00::1 or fd00::/64")
    };
    let (host, length) = match text.split_once('/') {
        Some((host, length)) => (host, Some(length)),
        None => (text.as_str(), None),
    };
    let address: IpAddr = host.parse().map_err(|_| refused("it is no address"))?;
    let Some(length) = length else { return Ok(format!("{end} host {address}")) };
    let width = if address.is_ipv4() { 32 } else { 128 };
    let length: u32 = length.parse().map_err(|_| refused("its prefix is no number"))?;
    if length > width {
        return Err(refused("its prefix is longer than an address"));
    }
    let network: IpAddr = match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32 - length).unwrap_or(0);
            std::net::Ipv4Addr::from_bits(address.to_bits() & mask).into()
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128 - length).unwrap_or(0);
            std::net::Ipv6Addr::from_bits(address.to_bits() & mask).into()
        }
    };
    Ok(format!("{end} net {network}/{length}"))
}

/// Converts a port, or a range such as `5004-5010`.
fn ports(path: &str, node: &ConfigNode, end: &str) -> Result<String, EmulationConfigError> {
    const PORT_SYNTAX: &str = "write 5004, or \"5004-5010\"";
    let ConfigValue::Text(text) = &node.value else {
        return Ok(format!("{end} port {}", up_to(path, node, 65_535)?));
    };
    let range = text.split_once('-').and_then(|(first, last)| {
        let range: (u16, u16) = (first.parse().ok()?, last.parse().ok()?);
        (range.0 <= range.1).then_some(range)
    });
    match (range, text.parse::<u16>()) {
        (Some((first, last)), _) => Ok(format!("{end} portrange {first}-{last}")),
        (None, Ok(port)) => Ok(format!("{end} port {port}")),
        (None, Err(_)) => Err(EmulationConfigError::value(path, text, "it is no port")
            .at(&node.location)
            .help(PORT_SYNTAX)),
    }
}

fn up_to(path: &str, node: &ConfigNode, most: u64) -> Result<u64, EmulationConfigError> {
    match quantity::count(path, node)? {
        value if value <= most => Ok(value),
        _ => {
            let error =
                EmulationConfigError::value(path, &node.shown(), "too large").at(&node.location);
            Err(error.help(format!("write a whole number up to {most}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use slipring_cli::{Diagnose, Diagnostic};

    use super::super::EmulationConfig;
    use super::*;

    fn classes(settings: &str) -> Result<Vec<ClassSpec>, Diagnostic> {
        let text = format!(
            "[ports.a]\n[ports.b]\n[link.up]\nfrom = \"a\"\nto = \"b\"\n\
             [link.other]\nfrom = \"a\"\nto = \"b\"\n[[class]]\nuse = \"other\"\n{settings}\n"
        );
        let network =
            EmulationConfig::parse("link.toml", &text).and_then(|config| config.network());
        network.map(|network| network.classes).map_err(|error| Diagnostic::of(&error))
    }

    /// Builds a UDP frame from 10.0.0.1:1000 to 10.0.0.2:5004 with this DSCP, tagged if `vlan` is
    /// given.
    fn udp4(dscp: u8, vlan: Option<u16>) -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
        if let Some(id) = vlan {
            frame.extend([0x81, 0]);
            frame.extend(id.to_be_bytes());
        }
        frame.extend([8, 0, 0x45, dscp << 2, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0]);
        frame.extend([10, 0, 0, 1, 10, 0, 0, 2, 0x03, 0xe8, 0x13, 0x8c, 0, 8, 0, 0]);
        frame
    }

    /// Builds the UDP frame of [`udp4`] over IPv6, from fd00::1 to fd00::2.
    fn udp6(dscp: u8) -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x86, 0xdd];
        frame.extend([0x60 | dscp >> 2, dscp << 6, 0, 0, 0, 8, 17, 64]);
        for last in [1, 2] {
            frame.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
        }
        frame.extend([0x03, 0xe8, 0x13, 0x8c, 0, 8, 0, 0]);
        frame
    }

    #[test]
    fn what_a_class_says_of_frames_holds_for_those_that_it_takes() {
        let (plain, marked, tagged) = (udp4(0, None), udp4(46, None), udp4(46, Some(5)));
        let (plain6, marked6) = (udp6(0), udp6(46));
        let frames = [&plain, &marked, &tagged, &plain6, &marked6];
        for (settings, taken) in [
            ("dscp = \"ef\"", [false, true, false, false, true]),
            ("dscp = 46", [false, true, false, false, true]),
            ("dscp = \"cs0\"", [true, false, false, true, false]),
            ("vlan = 5", [false, false, true, false, false]),
            ("vlan = 6", [false; 5]),
            ("dscp = \"ef\"\nvlan = 5", [false, false, true, false, false]),
            ("src_mac = \"02:00:00:00:00:01\"", [true; 5]),
            ("dst_mac = \"02:00:00:00:00:01\"", [false; 5]),
            ("mac = \"02:00:00:00:00:02\"", [true; 5]),
            ("proto = \"udp\"", [true, true, false, true, true]),
            ("proto = 17", [true, true, false, true, true]),
            ("proto = \"tcp\"", [false; 5]),
            ("src = \"10.1.2.3/8\"", [true, true, false, false, false]),
            ("src = \"10.0.0.1\"\ndst = \"10.0.0.2\"", [true, true, false, false, false]),
            ("dst = \"fd00::/64\"", [false, false, false, true, true]),
            ("dst = \"fd00::1\"", [false; 5]),
            ("src = \"0.0.0.0/0\"\nvlan = 5", [false, false, true, false, false]),
            ("src_port = 1000\ndst_port = \"5000-5010\"", [true, true, false, true, true]),
            ("dst_port = \"5004\"\nproto = \"udp\"", [true, true, false, true, true]),
            ("dscp = \"ef\"\nmatch = \"ip or arp\"", [false, true, false, false, false]),
            (
                "proto = \"udp\"\nsrc = \"10.0.0.1\"\nsrc_port = 1000\ndst = \"10.0.0.2\"\n\
                 dst_port = 5004",
                [true, true, false, false, false],
            ),
        ] {
            let classes = classes(settings).unwrap_or_else(|error| panic!("{settings}: {error}"));
            let [class] = &classes[..] else { panic!("one class") };
            let run = |frame: &&Vec<u8>| class.program.run(frame, frame.len() as u32) > 0;
            assert_eq!(frames.each_ref().map(run), taken, "{settings}: {}", class.filter);
        }
    }

    #[test]
    fn names_of_code_points_are_those_of_the_standards() {
        for (name, code) in
            [("af11", 10), ("af43", 38), ("af22", 20), ("cs7", 56), ("ef", 46), ("le", 1)]
        {
            assert_eq!(code_point(name), Some(code), "{name}");
        }
        for name in ["af51", "af14", "af1", "cs8", "cs", "", "é", "af111", "EF"] {
            assert_eq!(code_point(name), None, "{name}");
        }
    }

    #[test]
    fn what_no_frame_can_have_is_refused_by_its_setting() {
        for (settings, why) in [
            ("vlan = 4096", "`4096` does not fit class.vlan"),
            ("dscp = 64", "`64` does not fit class.dscp"),
            ("dscp = \"best\"", "`best` does not fit class.dscp"),
            ("proto = \"dup\"", "`dup` does not fit class.proto"),
            ("src = \"10.0.0\"", "`10.0.0` does not fit class.src"),
            ("src = \"10.0.0.0/33\"", "`10.0.0.0/33` does not fit class.src"),
            ("dst_port = 65536", "`65536` does not fit class.dst_port"),
            ("dst_port = \"9-3\"", "`9-3` does not fit class.dst_port"),
            ("mac = \"02:00\"", "`02:00` does not fit class.mac"),
            ("", "a class says nothing of its frames"),
            ("dcsp = 5", "class has no `dcsp`"),
        ] {
            let error = classes(settings).unwrap_err();
            assert_eq!(error.summary(), why);
            assert!(error.cause().unwrap().contains("at link.toml, line"), "{error}");
        }
    }
}
