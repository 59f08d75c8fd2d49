//! Names of the language that represent values.

use crate::rule::LookupKey;

pub(super) type NameTable<T> = [(&'static str, T)];

/// Returns the value of `name`.
pub(super) fn value<T: Copy>(table: &NameTable<T>, name: &str) -> Option<T> {
    table.iter().find(|(known, _)| *known == name).map(|&(_, value)| value)
}

/// Returns the first name of `value`.
pub(super) fn name<T: Copy + PartialEq>(table: &NameTable<T>, value: T) -> Option<&'static str> {
    table.iter().find(|(_, known)| *known == value).map(|&(name, _)| name)
}

/// IP protocols by the names of FreeBSD's protocols(5), independent of the machine. In rules,
/// `ipv6` is a version of IP, so protocol 41 has no name.
pub(super) const PROTOCOLS: &NameTable<u8> = &[
    ("icmp", 1),
    ("igmp", 2),
    ("ggp", 3),
    ("ipencap", 4),
    ("st2", 5),
    ("tcp", 6),
    ("cbt", 7),
    ("egp", 8),
    ("igp", 9),
    ("bbn-rcc", 10),
    ("nvp", 11),
    ("pup", 12),
    ("argus", 13),
    ("emcon", 14),
    ("xnet", 15),
    ("chaos", 16),
    ("udp", 17),
    ("mux", 18),
    ("dcn", 19),
    ("hmp", 20),
    ("prm", 21),
    ("xns-idp", 22),
    ("trunk-1", 23),
    ("trunk-2", 24),
    ("leaf-1", 25),
    ("leaf-2", 26),
    ("rdp", 27),
    ("irtp", 28),
    ("iso-tp4", 29),
    ("netblt", 30),
    ("mfe-nsp", 31),
    ("merit-inp", 32),
    ("dccp", 33),
    ("3pc", 34),
    ("idpr", 35),
    ("xtp", 36),
    ("ddp", 37),
    ("idpr-cmtp", 38),
    ("tp++", 39),
    ("il", 40),
    ("sdrp", 42),
    ("ipv6-route", 43),
    ("ipv6-frag", 44),
    ("idrp", 45),
    ("rsvp", 46),
    ("gre", 47),
    ("dsr", 48),
    ("bna", 49),
    ("esp", 50),
    ("ah", 51),
    ("i-nlsp", 52),
    ("swipe", 53),
    ("narp", 54),
    ("mobile", 55),
    ("tlsp", 56),
    ("skip", 57),
    ("ipv6-icmp", 58),
    ("ipv6-nonxt", 59),
    ("ipv6-opts", 60),
    ("cftp", 62),
    ("sat-expak", 64),
    ("kryptolan", 65),
    ("rvd", 66),
    ("ippc", 67),
    ("sat-mon", 69),
    ("visa", 70),
    ("ipcv", 71),
    ("cpnx", 72),
    ("cphb", 73),
    ("wsn", 74),
    ("pvp", 75),
    ("br-sat-mon", 76),
    ("sun-nd", 77),
    ("wb-mon", 78),
    ("wb-expak", 79),
    ("iso-ip", 80),
    ("vmtp", 81),
    ("secure-vmtp", 82),
    ("vines", 83),
    ("ttp", 84),
    ("nsfnet-igp", 85),
    ("dgp", 86),
    ("tcf", 87),
    ("eigrp", 88),
    ("ospf", 89),
    ("sprite-rpc", 90),
    ("larp", 91),
    ("mtp", 92),
    ("ax.25", 93),
    ("ipip", 94),
    ("micp", 95),
    ("scc-sp", 96),
    ("etherip", 97),
    ("encap", 98),
    ("gmtp", 100),
    ("ifmp", 101),
    ("pnni", 102),
    ("pim", 103),
    ("aris", 104),
    ("scps", 105),
    ("qnx", 106),
    ("a/n", 107),
    ("ipcomp", 108),
    ("snp", 109),
    ("compaq-peer", 110),
    ("ipx-in-ip", 111),
    ("carp", 112),
    ("pgm", 113),
    ("l2tp", 115),
    ("ddx", 116),
    ("iatp", 117),
    ("stp", 118),
    ("srp", 119),
    ("uti", 120),
    ("smp", 121),
    ("sm", 122),
    ("ptp", 123),
    ("isis", 124),
    ("fire", 125),
    ("crtp", 126),
    ("crudp", 127),
    ("sscopmce", 128),
    ("iplt", 129),
    ("sps", 130),
    ("pipe", 131),
    ("sctp", 132),
    ("fc", 133),
    ("rsvp-e2e-ignore", 134),
    ("mobility-header", 135),
    ("udplite", 136),
    ("mpls-in-ip", 137),
    ("manet", 138),
    ("hip", 139),
    ("shim6", 140),
    ("wesp", 141),
    ("rohc", 142),
    ("pfsync", 240),
    // Aliases; listings show the first name.
    ("vrrp", 112),
    ("ospfigp", 89),
    ("ipv6-crypt", 50),
    ("ipv6-auth", 51),
    ("ax25", 93),
    ("ip-encap", 4),
    ("xns", 22),
];

/// Common services, by their names in services(5).
pub(super) const SERVICES: &NameTable<u16> = &[
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

/// Names of EtherTypes.
pub(super) const ETHERTYPES: &NameTable<u16> = &[
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
pub(super) const UNREACH: &NameTable<u8> = &[
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
pub(super) const UNREACH6: &NameTable<u8> =
    &[("no-route", 0), ("admin-prohib", 1), ("address", 3), ("port", 4)];

/// Differentiated services code points.
pub(super) const DSCP: &NameTable<u8> = &[
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

pub(super) const TCP_FLAGS: &NameTable<u8> =
    &[("syn", 0x02), ("fin", 0x01), ("ack", 0x10), ("psh", 0x08), ("rst", 0x04), ("urg", 0x20)];

pub(super) const TCP_OPTIONS: &NameTable<u8> =
    &[("mss", 0x01), ("window", 0x02), ("sack", 0x04), ("ts", 0x08), ("cc", 0x10)];

pub(super) const IP_OPTIONS: &NameTable<u8> =
    &[("ssrr", 0x01), ("lsrr", 0x02), ("rr", 0x04), ("ts", 0x08)];

/// Bits of the type of service; the last two names are for ECN.
pub(super) const IP_TOS: &NameTable<u8> = &[
    ("lowdelay", 0x10),
    ("throughput", 0x08),
    ("reliability", 0x04),
    ("mincost", 0x02),
    ("congestion", 0x03),
    ("ecntransport", 0x02),
];

pub(super) const FRAG: &NameTable<u8> =
    &[("df", 0x02), ("mf", 0x01), ("rf", 0x04), ("offset", 0x08)];

pub(super) const EXTENSIONS: &NameTable<u8> = &[
    ("frag", 0x01),
    ("hopopt", 0x02),
    ("route", 0x04),
    ("ah", 0x08),
    ("esp", 0x10),
    ("dstopt", 0x20),
    ("rthdr0", 0x40),
    ("rthdr2", 0x80),
];

pub(super) const LOOKUP_KEYS: &NameTable<LookupKey> = &[
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

/// Returns the name of a protocol in protocols(5).
#[must_use]
pub fn proto_name(proto: u8) -> Option<&'static str> {
    name(PROTOCOLS, proto)
}

/// Returns the name of a DSCP.
#[must_use]
pub fn dscp_name(dscp: u8) -> Option<&'static str> {
    name(DSCP, dscp)
}
