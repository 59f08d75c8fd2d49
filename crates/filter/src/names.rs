//! The tables of the language: protocols, constants, well-known ports, and rejected words.
//!
//! The tables are part of the program. So a filter means the same on every machine, regardless of
//! `/etc/services`.

/// Which IP version carries a transport protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IpLayer {
    Any,
    Ip,
    Ip6,
}

/// The protocol that a keyword names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FilterProtocol {
    /// The link layer itself.
    Link,
    /// If above 1500, an Ethernet type; otherwise the service access point of an LLC frame.
    Ether(u16),
    /// A protocol on top of IP.
    Transport { layer: IpLayer, number: u8 },
}

pub(crate) const IP: u16 = 0x0800;
pub(crate) const ARP: u16 = 0x0806;
pub(crate) const RARP: u16 = 0x8035;
pub(crate) const IP6: u16 = 0x86dd;
pub(crate) const ATALK: u16 = 0x809b;
pub(crate) const AARP: u16 = 0x80f3;
pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;
pub(crate) const SCTP: u8 = 132;
pub(crate) const ESP: u8 = 50;
pub(crate) const AH: u8 = 51;
pub(crate) const ICMP6: u8 = 58;
/// The protocol number of the IPv6 fragment header.
pub(crate) const FRAGMENT: u8 = 44;

const fn any(number: u8) -> FilterProtocol {
    let layer = IpLayer::Any;
    FilterProtocol::Transport { layer, number }
}

const fn ip(number: u8) -> FilterProtocol {
    let layer = IpLayer::Ip;
    FilterProtocol::Transport { layer, number }
}

/// The keywords for protocols. If several words have the same meaning, the first one is printed.
pub(crate) const PROTOCOLS: &[(&str, FilterProtocol)] = &[
    ("ether", FilterProtocol::Link),
    ("link", FilterProtocol::Link),
    ("fddi", FilterProtocol::Link),
    ("ppp", FilterProtocol::Link),
    ("slip", FilterProtocol::Link),
    ("tr", FilterProtocol::Link),
    ("wlan", FilterProtocol::Link),
    ("ip", FilterProtocol::Ether(IP)),
    ("ip6", FilterProtocol::Ether(IP6)),
    ("arp", FilterProtocol::Ether(ARP)),
    ("rarp", FilterProtocol::Ether(RARP)),
    ("atalk", FilterProtocol::Ether(ATALK)),
    ("aarp", FilterProtocol::Ether(AARP)),
    ("decnet", FilterProtocol::Ether(0x6003)),
    ("lat", FilterProtocol::Ether(0x6004)),
    ("sca", FilterProtocol::Ether(0x6007)),
    ("mopdl", FilterProtocol::Ether(0x6001)),
    ("moprc", FilterProtocol::Ether(0x6002)),
    ("iso", FilterProtocol::Ether(0xfe)),
    ("stp", FilterProtocol::Ether(0x42)),
    ("ipx", FilterProtocol::Ether(0xe0)),
    ("netbeui", FilterProtocol::Ether(0xf0)),
    ("tcp", any(TCP)),
    ("udp", any(UDP)),
    ("sctp", any(SCTP)),
    ("icmp", ip(1)),
    ("igmp", ip(2)),
    ("igrp", ip(9)),
    ("vrrp", ip(112)),
    ("carp", ip(112)),
    ("pim", any(103)),
    ("ah", any(AH)),
    ("esp", any(ESP)),
    ("icmp6", FilterProtocol::Transport { layer: IpLayer::Ip6, number: ICMP6 }),
];

/// Names that may follow `ether proto`.
pub(crate) const ETHER_TYPES: &[(&str, u32)] = &[
    ("ip", 0x0800),
    ("ip6", 0x86dd),
    ("arp", 0x0806),
    ("rarp", 0x8035),
    ("atalk", 0x809b),
    ("aarp", 0x80f3),
    ("decnet", 0x6003),
    ("lat", 0x6004),
    ("sca", 0x6007),
    ("mopdl", 0x6001),
    ("moprc", 0x6002),
    ("loopback", 0x9000),
    ("iso", 0xfe),
    ("stp", 0x42),
    ("ipx", 0xe0),
    ("netbeui", 0xf0),
];

/// Names that may follow `ip proto`, `ip6 proto` and `proto`, with IANA's protocol numbers.
pub(crate) const IP_PROTOCOLS: &[(&str, u32)] = &[
    ("icmp", 1),
    ("igmp", 2),
    ("ggp", 3),
    ("ipencap", 4),
    ("st", 5),
    ("tcp", 6),
    ("egp", 8),
    ("igp", 9),
    ("pup", 12),
    ("udp", 17),
    ("hmp", 20),
    ("rdp", 27),
    ("iso-tp4", 29),
    ("dccp", 33),
    ("xtp", 36),
    ("ddp", 37),
    ("ipv6", 41),
    ("ipv6-route", 43),
    ("ipv6-frag", 44),
    ("idrp", 45),
    ("rsvp", 46),
    ("gre", 47),
    ("esp", 50),
    ("ah", 51),
    ("skip", 57),
    ("ipv6-icmp", 58),
    ("ipv6-nonxt", 59),
    ("ipv6-opts", 60),
    ("vmtp", 81),
    ("eigrp", 88),
    ("ospf", 89),
    ("ipip", 94),
    ("etherip", 97),
    ("encap", 98),
    ("pim", 103),
    ("ipcomp", 108),
    ("vrrp", 112),
    ("l2tp", 115),
    ("isis", 124),
    ("sctp", 132),
    ("fc", 133),
    ("mobility-header", 135),
    ("udplite", 136),
    ("mpls-in-ip", 137),
    ("hip", 139),
    ("shim6", 140),
    ("wesp", 141),
    ("rohc", 142),
];

/// Names of header offsets and field values.
pub(crate) const CONSTANTS: &[(&str, u32)] = &[
    ("icmptype", 0),
    ("icmpcode", 1),
    ("icmp-echoreply", 0),
    ("icmp-unreach", 3),
    ("icmp-sourcequench", 4),
    ("icmp-redirect", 5),
    ("icmp-echo", 8),
    ("icmp-routeradvert", 9),
    ("icmp-routersolicit", 10),
    ("icmp-timxceed", 11),
    ("icmp-paramprob", 12),
    ("icmp-tstamp", 13),
    ("icmp-tstampreply", 14),
    ("icmp-ireq", 15),
    ("icmp-ireqreply", 16),
    ("icmp-maskreq", 17),
    ("icmp-maskreply", 18),
    ("icmp6type", 0),
    ("icmp6code", 1),
    ("icmp6-destinationunreach", 1),
    ("icmp6-packettoobig", 2),
    ("icmp6-timeexceeded", 3),
    ("icmp6-parameterproblem", 4),
    ("icmp6-echo", 128),
    ("icmp6-echoreply", 129),
    ("icmp6-multicastlistenerquery", 130),
    ("icmp6-multicastlistenerreportv1", 131),
    ("icmp6-multicastlistenerdone", 132),
    ("icmp6-routersolicit", 133),
    ("icmp6-routeradvert", 134),
    ("icmp6-neighborsolicit", 135),
    ("icmp6-neighboradvert", 136),
    ("icmp6-redirect", 137),
    ("icmp6-routerrenum", 138),
    ("icmp6-nodeinformationquery", 139),
    ("icmp6-nodeinformationresponse", 140),
    ("icmp6-ineighbordiscoverysolicit", 141),
    ("icmp6-ineighbordiscoveryadvert", 142),
    ("icmp6-multicastlistenerreportv2", 143),
    ("icmp6-homeagentdiscoveryrequest", 144),
    ("icmp6-homeagentdiscoveryreply", 145),
    ("icmp6-mobileprefixsolicit", 146),
    ("icmp6-mobileprefixadvert", 147),
    ("icmp6-certpathsolicit", 148),
    ("icmp6-certpathadvert", 149),
    ("icmp6-multicastrouteradvert", 151),
    ("icmp6-multicastroutersolicit", 152),
    ("icmp6-multicastrouterterm", 153),
    ("tcpflags", 13),
    ("tcp-fin", 0x01),
    ("tcp-syn", 0x02),
    ("tcp-rst", 0x04),
    ("tcp-push", 0x08),
    ("tcp-ack", 0x10),
    ("tcp-urg", 0x20),
    ("tcp-ece", 0x40),
    ("tcp-cwr", 0x80),
];

/// The transports for which a port name is registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RegisteredTransport {
    Tcp,
    Udp,
    Both,
}
use RegisteredTransport::{Both, Tcp, Udp};

/// Names of well-known ports.
pub(crate) const SERVICES: &[(&str, u16, RegisteredTransport)] = &[
    ("echo", 7, Both),
    ("discard", 9, Both),
    ("daytime", 13, Both),
    ("chargen", 19, Both),
    ("ftp-data", 20, Tcp),
    ("ftp", 21, Tcp),
    ("ssh", 22, Tcp),
    ("telnet", 23, Tcp),
    ("smtp", 25, Tcp),
    ("time", 37, Both),
    ("whois", 43, Tcp),
    ("tacacs", 49, Both),
    ("domain", 53, Both),
    ("bootps", 67, Udp),
    ("bootpc", 68, Udp),
    ("tftp", 69, Udp),
    ("gopher", 70, Tcp),
    ("finger", 79, Tcp),
    ("http", 80, Tcp),
    ("kerberos", 88, Both),
    ("pop3", 110, Tcp),
    ("sunrpc", 111, Both),
    ("auth", 113, Tcp),
    ("nntp", 119, Tcp),
    ("ntp", 123, Udp),
    ("epmap", 135, Tcp),
    ("netbios-ns", 137, Udp),
    ("netbios-dgm", 138, Udp),
    ("netbios-ssn", 139, Tcp),
    ("imap2", 143, Tcp),
    ("snmp", 161, Both),
    ("snmp-trap", 162, Both),
    ("bgp", 179, Tcp),
    ("ldap", 389, Both),
    ("https", 443, Both),
    ("microsoft-ds", 445, Tcp),
    ("kpasswd", 464, Both),
    ("submissions", 465, Tcp),
    ("isakmp", 500, Udp),
    ("exec", 512, Tcp),
    ("biff", 512, Udp),
    ("login", 513, Tcp),
    ("who", 513, Udp),
    ("shell", 514, Tcp),
    ("syslog", 514, Both),
    ("printer", 515, Tcp),
    ("route", 520, Udp),
    ("dhcpv6-client", 546, Udp),
    ("dhcpv6-server", 547, Udp),
    ("rtsp", 554, Both),
    ("submission", 587, Tcp),
    ("ipp", 631, Tcp),
    ("ldaps", 636, Both),
    ("domain-s", 853, Both),
    ("rsync", 873, Tcp),
    ("imaps", 993, Tcp),
    ("pop3s", 995, Tcp),
    ("socks", 1080, Tcp),
    ("openvpn", 1194, Both),
    ("ms-sql-s", 1433, Tcp),
    ("l2f", 1701, Udp),
    ("radius", 1812, Both),
    ("radius-acct", 1813, Both),
    ("nfs", 2049, Both),
    ("iscsi-target", 3260, Tcp),
    ("mysql", 3306, Tcp),
    ("ms-wbt-server", 3389, Tcp),
    ("sip", 5060, Both),
    ("sip-tls", 5061, Both),
    ("mdns", 5353, Udp),
    ("postgresql", 5432, Tcp),
    ("amqp", 5672, Tcp),
    ("x11", 6000, Tcp),
    ("http-alt", 8080, Tcp),
];

const OTHER_LINK: &str = "means nothing on Ethernet";
const PF_LOG: &str = "is a field of packet filter logs, not of frames";
const OSI: &str = "OSI routing headers are not decoded; `iso` alone is";

/// The keywords of pcap-filter(7) that this compiler rejects, each with the reason.
pub(crate) const REFUSED: &[(&str, &str)] = &[
    ("gateway", "needs name services; write `ether host MAC and not host ADDRESS`"),
    ("protochain", "header chains need loops, which a checked program has not; use `proto`"),
    ("inbound", "a frame does not say which way it went"),
    ("outbound", "a frame does not say which way it went"),
    ("ifindex", "a frame does not name its interface"),
    ("ifname", PF_LOG),
    ("on", PF_LOG),
    ("rset", PF_LOG),
    ("ruleset", PF_LOG),
    ("rnr", PF_LOG),
    ("rulenum", PF_LOG),
    ("srnr", PF_LOG),
    ("subrulenum", PF_LOG),
    ("reason", PF_LOG),
    ("action", PF_LOG),
    ("byte", "is not supported; write `ether[OFFSET]`"),
    ("geneve", "inner headers at variable offsets are not decoded"),
    ("llc", "LLC frame types are not decoded; use `ether[...]`"),
    ("esis", OSI),
    ("es-is", OSI),
    ("isis", OSI),
    ("is-is", OSI),
    ("clnp", OSI),
    ("l1", OSI),
    ("l2", OSI),
    ("iih", OSI),
    ("lsp", OSI),
    ("snp", OSI),
    ("csnp", OSI),
    ("psnp", OSI),
    ("type", OTHER_LINK),
    ("subtype", OTHER_LINK),
    ("dir", OTHER_LINK),
    ("direction", OTHER_LINK),
    ("addr1", OTHER_LINK),
    ("address1", OTHER_LINK),
    ("addr2", OTHER_LINK),
    ("address2", OTHER_LINK),
    ("addr3", OTHER_LINK),
    ("address3", OTHER_LINK),
    ("addr4", OTHER_LINK),
    ("address4", OTHER_LINK),
    ("ra", OTHER_LINK),
    ("ta", OTHER_LINK),
    ("radio", OTHER_LINK),
    ("lane", OTHER_LINK),
    ("metac", OTHER_LINK),
    ("bcc", OTHER_LINK),
    ("oam", OTHER_LINK),
    ("oamf4", OTHER_LINK),
    ("oamf4ec", OTHER_LINK),
    ("oamf4sc", OTHER_LINK),
    ("sc", OTHER_LINK),
    ("ilmic", OTHER_LINK),
    ("vpi", OTHER_LINK),
    ("vci", OTHER_LINK),
    ("connectmsg", OTHER_LINK),
    ("metaconnect", OTHER_LINK),
    ("fisu", OTHER_LINK),
    ("lssu", OTHER_LINK),
    ("lsu", OTHER_LINK),
    ("msu", OTHER_LINK),
    ("hfisu", OTHER_LINK),
    ("hlssu", OTHER_LINK),
    ("hmsu", OTHER_LINK),
    ("sio", OTHER_LINK),
    ("opc", OTHER_LINK),
    ("dpc", OTHER_LINK),
    ("sls", OTHER_LINK),
    ("hsio", OTHER_LINK),
    ("hopc", OTHER_LINK),
    ("hdpc", OTHER_LINK),
    ("hsls", OTHER_LINK),
];

/// Looks up a word in one of the tables.
pub(crate) fn find<V: Copy>(table: &[(&str, V)], word: &str) -> Option<V> {
    table.iter().find(|(name, _)| *name == word).map(|(_, value)| *value)
}

/// Returns the keyword that is printed for a protocol.
pub(crate) fn keyword(protocol: FilterProtocol) -> Option<&'static str> {
    PROTOCOLS.iter().find(|(_, value)| *value == protocol).map(|(name, _)| *name)
}

/// Looks up a well-known port by name.
pub(crate) fn service(name: &str) -> Option<(u16, RegisteredTransport)> {
    SERVICES
        .iter()
        .find(|(service, ..)| *service == name)
        .map(|(_, port, registered)| (*port, *registered))
}
