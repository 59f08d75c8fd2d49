//! The words of the language that stand for numbers.

use crate::rule::LookupKey;

pub(super) type Table<T> = [(&'static str, T)];

/// The number that `name` stands for.
pub(super) fn value<T: Copy>(table: &Table<T>, name: &str) -> Option<T> {
    table.iter().find(|(known, _)| *known == name).map(|&(_, value)| value)
}

/// The first name of `value`.
pub(super) fn name<T: Copy + PartialEq>(table: &Table<T>, value: T) -> Option<&'static str> {
    table.iter().find(|(_, known)| *known == value).map(|&(name, _)| name)
}

/// IP protocols, as in protocols(5).
pub(super) const PROTOCOLS: &Table<u8> = &[
    ("icmp", 1),
    ("igmp", 2),
    ("ipencap", 4),
    ("tcp", 6),
    ("egp", 8),
    ("igp", 9),
    ("udp", 17),
    ("hmp", 20),
    ("rdp", 27),
    ("dccp", 33),
    ("ipv6-route", 43),
    ("ipv6-frag", 44),
    ("rsvp", 46),
    ("gre", 47),
    ("esp", 50),
    ("ah", 51),
    ("ipv6-icmp", 58),
    ("ipv6-nonxt", 59),
    ("ipv6-opts", 60),
    ("eigrp", 88),
    ("ospf", 89),
    ("etherip", 97),
    ("encap", 98),
    ("pim", 103),
    ("ipcomp", 108),
    ("carp", 112),
    ("l2tp", 115),
    ("sctp", 132),
    ("mobility-header", 135),
    ("udplite", 136),
];

/// Services, as in services(5).
pub(super) const SERVICES: &Table<u16> = &[
    ("echo", 7),
    ("discard", 9),
    ("daytime", 13),
    ("ftp-data", 20),
    ("ftp", 21),
    ("ssh", 22),
    ("telnet", 23),
    ("smtp", 25),
    ("time", 37),
    ("whois", 43),
    ("tacacs", 49),
    ("domain", 53),
    ("bootps", 67),
    ("bootpc", 68),
    ("tftp", 69),
    ("gopher", 70),
    ("finger", 79),
    ("http", 80),
    ("kerberos", 88),
    ("pop3", 110),
    ("sunrpc", 111),
    ("auth", 113),
    ("nntp", 119),
    ("ntp", 123),
    ("netbios-ns", 137),
    ("netbios-dgm", 138),
    ("netbios-ssn", 139),
    ("imap", 143),
    ("snmp", 161),
    ("snmptrap", 162),
    ("bgp", 179),
    ("irc", 194),
    ("ldap", 389),
    ("https", 443),
    ("microsoft-ds", 445),
    ("isakmp", 500),
    ("exec", 512),
    ("login", 513),
    ("shell", 514),
    ("syslog", 514),
    ("printer", 515),
    ("route", 520),
    ("dhcpv6-client", 546),
    ("dhcpv6-server", 547),
    ("rtsp", 554),
    ("submission", 587),
    ("ldaps", 636),
    ("imaps", 993),
    ("pop3s", 995),
    ("socks", 1080),
    ("openvpn", 1194),
    ("ms-sql-s", 1433),
    ("nfsd", 2049),
    ("mysql", 3306),
    ("ms-wbt-server", 3389),
    ("iperf3", 5201),
    ("sip", 5060),
    ("postgresql", 5432),
    ("x11", 6000),
    ("http-alt", 8080),
];

/// Types of Ethernet payload.
pub(super) const ETHERTYPES: &Table<u16> = &[
    ("ip", 0x0800),
    ("ipv4", 0x0800),
    ("arp", 0x0806),
    ("rarp", 0x8035),
    ("vlan", 0x8100),
    ("ipv6", 0x86dd),
    ("ip6", 0x86dd),
    ("loop", 0x9000),
    ("mpls-uni", 0x8847),
    ("mpls-mcast", 0x8848),
    ("pppoe-disc", 0x8863),
    ("pppoe-sess", 0x8864),
    ("aarp", 0x80f3),
];

/// Codes of ICMP "destination unreachable".
pub(super) const UNREACH: &Table<u8> = &[
    ("net", 0),
    ("host", 1),
    ("protocol", 2),
    ("port", 3),
    ("needfrag", 4),
    ("srcfail", 5),
    ("net-unknown", 6),
    ("host-unknown", 7),
    ("isolated", 8),
    ("net-prohib", 9),
    ("host-prohib", 10),
    ("tosnet", 11),
    ("toshost", 12),
    ("filter-prohib", 13),
    ("host-precedence", 14),
    ("precedence-cutoff", 15),
];

/// Codes of ICMPv6 "destination unreachable".
pub(super) const UNREACH6: &Table<u8> =
    &[("no-route", 0), ("admin-prohib", 1), ("address", 3), ("port", 4)];

/// Differentiated services.
pub(super) const DSCP: &Table<u8> = &[
    ("af11", 10),
    ("af12", 12),
    ("af13", 14),
    ("af21", 18),
    ("af22", 20),
    ("af23", 22),
    ("af31", 26),
    ("af32", 28),
    ("af33", 30),
    ("af41", 34),
    ("af42", 36),
    ("af43", 38),
    ("be", 0),
    ("va", 44),
    ("ef", 46),
    ("cs1", 8),
    ("cs2", 16),
    ("cs3", 24),
    ("cs4", 32),
    ("cs5", 40),
    ("cs6", 48),
    ("cs7", 56),
    ("cs0", 0),
];

pub(super) const TCP_FLAGS: &Table<u8> =
    &[("syn", 0x02), ("fin", 0x01), ("ack", 0x10), ("psh", 0x08), ("rst", 0x04), ("urg", 0x20)];

pub(super) const TCP_OPTIONS: &Table<u8> =
    &[("mss", 0x01), ("window", 0x02), ("sack", 0x04), ("ts", 0x08), ("cc", 0x10)];

pub(super) const IP_OPTIONS: &Table<u8> =
    &[("ssrr", 0x01), ("lsrr", 0x02), ("rr", 0x04), ("ts", 0x08)];

/// Bits of the type of service; the last two are ECN's.
pub(super) const IP_TOS: &Table<u8> = &[
    ("lowdelay", 0x10),
    ("throughput", 0x08),
    ("reliability", 0x04),
    ("mincost", 0x02),
    ("congestion", 0x03),
    ("ecntransport", 0x02),
];

pub(super) const FRAG: &Table<u8> = &[("df", 0x02), ("mf", 0x01), ("rf", 0x04), ("offset", 0x08)];

pub(super) const EXTENSIONS: &Table<u8> = &[
    ("frag", 0x01),
    ("hopopt", 0x02),
    ("route", 0x04),
    ("ah", 0x08),
    ("esp", 0x10),
    ("dstopt", 0x20),
    ("rthdr0", 0x40),
    ("rthdr2", 0x80),
];

pub(super) const LOOKUP_KEYS: &Table<LookupKey> = &[
    ("dst-ip", LookupKey::DstIp),
    ("src-ip", LookupKey::SrcIp),
    ("dst-ip4", LookupKey::DstIp4),
    ("src-ip4", LookupKey::SrcIp4),
    ("dst-ip6", LookupKey::DstIp6),
    ("src-ip6", LookupKey::SrcIp6),
    ("dst-port", LookupKey::DstPort),
    ("src-port", LookupKey::SrcPort),
    ("dst-mac", LookupKey::DstMac),
    ("src-mac", LookupKey::SrcMac),
    ("dscp", LookupKey::Dscp),
    ("mark", LookupKey::Mark),
    ("rulenum", LookupKey::RuleNumber),
];

/// The name that protocols(5) gives a protocol.
#[must_use]
pub fn proto_name(proto: u8) -> Option<&'static str> {
    name(PROTOCOLS, proto)
}

/// The name of a DSCP.
#[must_use]
pub fn dscp_name(dscp: u8) -> Option<&'static str> {
    name(DSCP, dscp)
}
