//! Random rules and packets.

use core::fmt;

use super::super::*;

/// A xorshift* generator, which returns the same numbers in every run.
pub(super) struct Draw(u64);

impl Draw {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    pub(super) fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % end
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())].clone()
    }

    fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }
}

/// Settings, for the firewall and for the oracle.
#[derive(Clone, Copy)]
pub(super) struct Settings {
    pub(super) commands: &'static str,
    pub(super) one_pass: bool,
    pub(super) dyn_max: usize,
}

pub(super) const SETTINGS: &[Settings] = &[
    Settings { commands: "", one_pass: true, dyn_max: 16384 },
    Settings { commands: "disable one_pass", one_pass: false, dyn_max: 16384 },
    Settings {
        commands: "disable one_pass\nsysctl net.inet.ip.fw.dyn_max=12",
        one_pass: false,
        dyn_max: 12,
    },
];

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Act {
    Allow,
    Deny,
    Count,
    /// `None` means any name.
    CheckState(Option<&'static str>),
    SkipTo(u16),
    Call(u16),
    /// Whether to return to the rule after the `call` instead of to the next rule number.
    Return(bool),
    Pipe(u32),
    Queue(u32),
    SetDscp(u8),
    SetMark(u32),
    /// Drops the packet and sends a reply.
    Reject(&'static str),
    Forward,
    TcpSetMss,
    Reass,
}

#[derive(Clone, Debug)]
pub(super) struct KeepSpec {
    pub(super) probe: bool,
    pub(super) name: &'static str,
    /// Whether the limit uses source address, source port, destination address and destination
    /// port, and the maximum count. `None` if there is no limit.
    pub(super) limit: Option<([bool; 4], u32)>,
    pub(super) defer: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Cond {
    Always,
    Src([u8; 4], u32),
    NotSrc([u8; 4], u32),
    /// A mask with arbitrary bits.
    SrcMask([u8; 4], [u8; 4]),
    Dst([u8; 4], u32),
    SrcPort(u16),
    DstPort(u16),
    Proto(u8),
    Setup,
    Established,
    Tagged(u16),
    NotTagged(u16),
    Mark(u32),
    Dscp(u8),
}

#[derive(Clone, Debug)]
pub(super) struct RuleSpec {
    pub(super) number: u16,
    pub(super) set: u8,
    pub(super) prob: Option<f64>,
    pub(super) act: Act,
    /// Whether to add the tag (otherwise to remove it), and the tag. `None` if no tag changes.
    pub(super) tag: Option<(bool, u16)>,
    pub(super) conds: Vec<Cond>,
    pub(super) keep: Option<KeepSpec>,
}

impl RuleSpec {
    /// Returns the name of the states that the rule looks up.
    pub(super) fn looks_up(&self) -> Option<&'static str> {
        match (&self.act, &self.keep) {
            (Act::CheckState(name), _) => Some(name.unwrap_or("any")),
            (_, Some(keep)) if keep.probe => Some(keep.name),
            _ => None,
        }
    }

    pub(super) fn calls(&self) -> bool {
        matches!(self.act, Act::Call(_))
    }
}

const NAMES: &[&str] = &["default", "default", "default", "a", "b"];

fn action(draw: &mut Draw, calls: bool) -> Act {
    let number = |draw: &mut Draw| (draw.below(14) * 100) as u16 + 50;
    match draw.below(if calls { 20 } else { 17 }) {
        0 | 1 => Act::Allow,
        2 => Act::Deny,
        3 | 4 => Act::Count,
        5 => Act::CheckState(None),
        6 | 7 => Act::CheckState(Some(draw.pick(NAMES))),
        8 | 9 => Act::SkipTo(number(draw).max(1)),
        10 => Act::Pipe(draw.below(3) as u32 + 1),
        11 => Act::Queue(draw.below(3) as u32 + 1),
        12 => Act::SetDscp(draw.pick(&[0, 9, 46])),
        13 => Act::SetMark(draw.pick(&[0, 7])),
        14 => Act::Reject(draw.pick(&["reject", "reset", "unreach port"])),
        15 => draw.pick(&[Act::Forward, Act::Count]),
        16 => draw.pick(&[Act::TcpSetMss, Act::Reass]),
        17 | 18 => Act::Call(number(draw)),
        _ => Act::Return(draw.once_in(2)),
    }
}

fn cond(draw: &mut Draw) -> Cond {
    let host = |draw: &mut Draw| [10, 0, 0, draw.below(4) as u8];
    match draw.below(16) {
        0..=3 => Cond::Always,
        4 => Cond::Src(host(draw), 32),
        5 => Cond::NotSrc(host(draw), 31),
        6 => Cond::SrcMask(host(draw), [255, 0, 0, 1]),
        7 => Cond::Dst(host(draw), draw.pick(&[32, 31, 24])),
        8 => Cond::SrcPort(draw.pick(PORTS)),
        9 => Cond::DstPort(draw.pick(PORTS)),
        10 | 11 => Cond::Proto(draw.pick(&[6, 17, 1])),
        12 => draw.pick(&[Cond::Setup, Cond::Established]),
        13 => draw.pick(&[Cond::Tagged(5), Cond::NotTagged(5)]),
        14 => Cond::Mark(7),
        _ => Cond::Dscp(draw.pick(&[0, 9])),
    }
}

fn keep(draw: &mut Draw) -> KeepSpec {
    let masks = [[true, false, false, false], [false, false, true, true], [true; 4]];
    let limit = draw.once_in(4).then(|| (draw.pick(&masks), draw.below(3) as u32 + 1));
    KeepSpec { probe: !draw.once_in(5), name: draw.pick(NAMES), limit, defer: draw.once_in(8) }
}

fn rule(draw: &mut Draw, calls: bool) -> RuleSpec {
    let act = action(draw, calls);
    let bare = matches!(act, Act::CheckState(_));
    let conds = (0..draw.below(3)).map(|_| cond(draw)).collect();
    RuleSpec {
        number: (draw.below(13) * 100) as u16 + 100,
        set: draw.pick(&[0, 0, 0, 3]),
        prob: draw.once_in(8).then_some(0.5),
        tag: (!bare && draw.once_in(5)).then(|| (!draw.once_in(3), 5)),
        conds: if bare { Vec::new() } else { conds },
        keep: (!bare && draw.below(5) < 3).then(|| keep(draw)),
        act,
    }
}

/// Draws a list of rules, sorted by number. One list in three may have calls, one in twenty has 300
/// rules.
pub(super) fn rules(draw: &mut Draw) -> Vec<RuleSpec> {
    let calls = draw.once_in(3);
    let count = if draw.once_in(20) { 300 } else { draw.below(16) + 1 };
    let mut rules: Vec<_> = (0..count).map(|_| rule(draw, calls)).collect();
    rules.sort_by_key(|rule| rule.number);
    rules
}

impl fmt::Display for Cond {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ip = |bytes: &[u8; 4]| Ipv4Addr::from(*bytes);
        match self {
            Self::Always => Ok(()),
            Self::Src(a, len) => write!(f, " src-ip {}/{len}", ip(a)),
            Self::NotSrc(a, len) => write!(f, " not src-ip {}/{len}", ip(a)),
            Self::SrcMask(a, mask) => write!(f, " src-ip {}:{}", ip(a), ip(mask)),
            Self::Dst(a, len) => write!(f, " dst-ip {}/{len}", ip(a)),
            Self::SrcPort(port) => write!(f, " src-port {port}"),
            Self::DstPort(port) => write!(f, " dst-port {port}"),
            Self::Proto(proto) => write!(f, " proto {proto}"),
            Self::Setup => write!(f, " setup"),
            Self::Established => write!(f, " established"),
            Self::Tagged(tag) => write!(f, " tagged {tag}"),
            Self::NotTagged(tag) => write!(f, " not tagged {tag}"),
            Self::Mark(mark) => write!(f, " mark {mark}"),
            Self::Dscp(dscp) => write!(f, " dscp {dscp}"),
        }
    }
}

impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Allow => write!(f, "allow"),
            Self::Deny => write!(f, "deny"),
            Self::Count => write!(f, "count"),
            Self::CheckState(name) => write!(f, "check-state :{}", name.unwrap_or("any")),
            Self::SkipTo(to) => write!(f, "skipto {to}"),
            Self::Call(to) => write!(f, "call {to}"),
            Self::Return(true) => write!(f, "return next-rule"),
            Self::Return(false) => write!(f, "return"),
            Self::Pipe(pipe) => write!(f, "pipe {pipe}"),
            Self::Queue(queue) => write!(f, "queue {queue}"),
            Self::SetDscp(dscp) => write!(f, "setdscp {dscp}"),
            Self::SetMark(mark) => write!(f, "setmark {mark}"),
            Self::Reject(how) => write!(f, "{how}"),
            Self::Forward => write!(f, "fwd 10.0.0.9"),
            Self::TcpSetMss => write!(f, "tcp-setmss 500"),
            Self::Reass => write!(f, "reass"),
        }
    }
}

impl fmt::Display for RuleSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "add {} set {}", self.number, self.set)?;
        if let Some(prob) = self.prob {
            write!(f, " prob {prob}")?;
        }
        write!(f, " {}", self.act)?;
        if let Some((on, tag)) = self.tag {
            write!(f, " {} {tag}", if on { "tag" } else { "untag" })?;
        }
        if matches!(self.act, Act::CheckState(_)) {
            return Ok(());
        }
        write!(f, " ip from any to any")?;
        self.conds.iter().try_for_each(|cond| write!(f, "{cond}"))?;
        let Some(keep) = &self.keep else { return Ok(()) };
        let word = match (keep.limit.is_some(), keep.probe) {
            (false, true) => "keep-state",
            (false, false) => "record-state",
            (true, true) => "limit",
            (true, false) => "set-limit",
        };
        write!(f, " {word}")?;
        if let Some((fields, most)) = keep.limit {
            let names = ["src-addr", "src-port", "dst-addr", "dst-port"].iter().zip(fields);
            let names: Vec<_> = names.filter(|(_, on)| *on).map(|(name, _)| *name).collect();
            write!(f, " {} {most}", names.join(","))?;
        }
        write!(f, " :{}{}", keep.name, if keep.defer { " defer-action" } else { "" })
    }
}

const PORTS: &[u16] = &[53, 80, 1000];

/// A packet before serialization.
#[derive(Clone, Debug)]
pub(super) struct PacketSpec {
    /// `None` for a packet other than IP.
    pub(super) proto: Option<u8>,
    pub(super) src: ([u8; 4], u16),
    pub(super) dst: ([u8; 4], u16),
    pub(super) tcp_flags: u8,
    pub(super) tcp_ack: u32,
    pub(super) tos: u8,
    /// The length that rules count.
    pub(super) len: u64,
}

/// Draws the packets of the sessions.
pub(super) fn frames() -> Vec<(PacketSpec, Vec<u8>)> {
    let mut draw = Draw::new(77);
    (0..160).map(|_| frame(&mut draw)).collect()
}

fn frame(draw: &mut Draw) -> (PacketSpec, Vec<u8>) {
    let end = |draw: &mut Draw| ([10, 0, 0, draw.below(4) as u8], draw.pick(PORTS));
    let (src, dst) = (end(draw), end(draw));
    let ports = PortPair { src: src.1, dst: dst.1 };
    let flags = draw.pick(&[2, 2, 0x12, 0x10, 0x10, 0x11, 0x04]);
    let ack = draw.below(4) as u32 * 100;
    let (proto, l4, header) = match draw.below(9) {
        0..=3 => (17, L4Spec::Udp(ports), 8),
        4..=6 => {
            let tcp = TcpSpec { ports, flags, seq: 1, ack, ..Default::default() };
            (6, L4Spec::Tcp(tcp), 20)
        }
        7 => (1, L4Spec::Echo(EchoSpec { kind: EchoKind::Request, id: 1, seq: 1 }), 8),
        _ => return (not_ip(), arp()),
    };
    let bytes = bytes(&spec(src.0, dst.0, l4));
    let port = |port: u16| if proto == 1 { 0 } else { port };
    let total = u16::from_be_bytes([bytes[16], bytes[17]]);
    assert!(total >= 20 + header);
    let packet = PacketSpec {
        proto: Some(proto),
        src: (src.0, port(src.1)),
        dst: (dst.0, port(dst.1)),
        tcp_flags: if proto == 6 { flags } else { 0 },
        tcp_ack: ack,
        tos: bytes[15],
        len: total.into(),
    };
    (packet, bytes)
}

fn not_ip() -> PacketSpec {
    let nowhere = ([0; 4], 0);
    let tos = arp()[15];
    PacketSpec { proto: None, src: nowhere, dst: nowhere, tcp_flags: 0, tcp_ack: 0, tos, len: 60 }
}
