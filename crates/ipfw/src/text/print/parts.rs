//! Displays parts of rules as ipfw does.

use core::fmt::{self, Display, Formatter, Write};
use core::net::{Ipv4Addr, Ipv6Addr};

use super::super::names;
use crate::rule::{
    AddressPattern, Arg, HostSet, InterfacePattern, KeepState, LimitFields, LookupMask, MacMask,
    NatRef, NextHop, ReturnTo, RuleAction, RuleLog, TableTest, Unreach, V4Mask, V6Mask,
};

/// Items separated by commas.
pub(super) struct CommaSeparated<I>(pub(super) I);

impl<I: Iterator<Item: Display> + Clone> Display for CommaSeparated<I> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (index, item) in self.0.clone().enumerate() {
            f.write_str(if index == 0 { "" } else { "," })?;
            item.fmt(f)?;
        }
        Ok(())
    }
}

impl Display for Arg {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Tablearg => f.write_str("tablearg"),
        }
    }
}

impl Display for RuleAction {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Allow => f.write_str("allow"),
            Self::Deny => f.write_str("deny"),
            Self::Count => f.write_str("count"),
            Self::CheckState(None) => f.write_str("check-state :any"),
            Self::CheckState(Some(name)) => write!(f, "check-state :{name}"),
            Self::SkipTo(to) => write!(f, "skipto {to}"),
            Self::Call(to) => write!(f, "call {to}"),
            Self::Return(ReturnTo::NextNumber) => f.write_str("return"),
            Self::Return(ReturnTo::NextRule) => f.write_str("return next-rule"),
            Self::Pipe(number) => write!(f, "pipe {number}"),
            Self::Queue(number) => write!(f, "queue {number}"),
            Self::Unreach(Unreach::HOST) => f.write_str("reject"),
            Self::Unreach(unreach) => unreach.fmt(f),
            Self::Unreach6(code) => match names::name(names::UNREACH6, *code) {
                Some(name) => write!(f, "unreach6 {name}"),
                None => write!(f, "unreach6 {code}"),
            },
            Self::Reset => f.write_str("reset"),
            Self::Reset6 => f.write_str("reset6"),
            Self::Abort => f.write_str("abort"),
            Self::Abort6 => f.write_str("abort6"),
            Self::Forward(hop) => write!(f, "fwd {hop}"),
            Self::SetDscp(Arg::Number(dscp)) => match names::dscp_name(*dscp as u8) {
                Some(name) => write!(f, "setdscp {name}"),
                None => write!(f, "setdscp {dscp}"),
            },
            Self::SetDscp(Arg::Tablearg) => f.write_str("setdscp tablearg"),
            Self::SetMark(Arg::Number(mark)) => write!(f, "setmark {mark:#x}"),
            Self::SetMark(Arg::Tablearg) => f.write_str("setmark tablearg"),
            Self::TcpSetMss(mss) => write!(f, "tcp-setmss {mss}"),
            Self::Reass => f.write_str("reass"),
            Self::Nat(NatRef::Global) => f.write_str("nat global"),
            Self::Nat(NatRef::Instance(number)) => write!(f, "nat {number}"),
            Self::Nptv6(name) => write!(f, "nptv6 {name}"),
        }
    }
}

impl Display for Unreach {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match names::name(names::UNREACH, self.code) {
            Some(name) => write!(f, "unreach {name}")?,
            None => write!(f, "unreach {}", self.code)?,
        }
        if self.mtu == 0 { Ok(()) } else { write!(f, " {}", self.mtu) }
    }
}

impl Display for NextHop {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let port = match self {
            Self::Port(name) => return write!(f, "port:{name}"),
            Self::Tablearg(port) => f.write_str("tablearg").map(|()| port)?,
            Self::V4(address, port) => address.fmt(f).map(|()| port)?,
            Self::V6(address, port) => address.fmt(f).map(|()| port)?,
        };
        if *port == 0 { Ok(()) } else { write!(f, ",{port}") }
    }
}

impl Display for RuleLog {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(" log")?;
        let to = [(self.to.syslog, "syslog"), (self.to.ipfw0, "ipfw0"), (self.to.rtsock, "rtsock")];
        let names = to.iter().filter(|(on, _)| *on).map(|(_, name)| *name);
        if names.clone().next().is_some() {
            write!(f, " logdst {}", CommaSeparated(names))?;
        }
        self.amount.iter().try_for_each(|amount| write!(f, " logamount {amount}"))
    }
}

impl Display for KeepState {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match (&self.limit, self.probe) {
            (None, true) => f.write_str(" keep-state")?,
            (None, false) => f.write_str(" record-state")?,
            (Some(limit), probe) => {
                f.write_str(if probe { " limit " } else { " set-limit " })?;
                write!(f, "{} {}", limit.fields, limit.max)?;
            }
        }
        write!(f, " :{}", self.name)
    }
}

impl Display for LimitFields {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let all = [
            (self.src_addr, "src-addr"),
            (self.src_port, "src-port"),
            (self.dst_addr, "dst-addr"),
            (self.dst_port, "dst-port"),
        ];
        if all.iter().all(|(on, _)| *on) {
            return f.write_str("all");
        }
        CommaSeparated(all.iter().filter(|(on, _)| *on).map(|(_, name)| *name)).fmt(f)
    }
}

impl Display for AddressPattern {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("any"),
            Self::Me => f.write_str("me"),
            Self::Me6 => f.write_str("me6"),
            Self::V4(list) => CommaSeparated(list.iter()).fmt(f),
            Self::Hosts(hosts) => hosts.fmt(f),
            Self::V6(list) => CommaSeparated(list.iter()).fmt(f),
            Self::Table(table) => table.fmt(f),
        }
    }
}

impl Display for V4Mask {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        Ipv4Addr::from_bits(self.address).fmt(f)?;
        match self.prefix_len() {
            Some(32) => Ok(()),
            Some(len) => write!(f, "/{len}"),
            None => write!(f, ":{}", Ipv4Addr::from_bits(self.mask)),
        }
    }
}

impl Display for V6Mask {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        Ipv6Addr::from_bits(self.address).fmt(f)?;
        match self.prefix_len() {
            Some(128) => Ok(()),
            Some(len) => write!(f, "/{len}"),
            None => write!(f, "/{}", Ipv6Addr::from_bits(self.mask)),
        }
    }
}

/// Three or more consecutive hosts are printed as a range.
impl Display for HostSet {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", Ipv4Addr::from_bits(self.base), self.len)?;
        let member = |byte: u32| byte < 256 && self.contains(self.base & !0xff | byte);
        let (mut byte, mut comma) = (0, '{');
        while byte < 256 {
            if !member(byte) {
                byte += 1;
                continue;
            }
            let end = (byte..=256).find(|&byte| !member(byte)).unwrap_or(256);
            write!(f, "{comma}{byte}")?;
            if end > byte + 2 {
                write!(f, "-{}", end - 1)?;
                byte = end;
            } else {
                byte += 1;
            }
            comma = ',';
        }
        f.write_char('}')
    }
}

impl Display for TableTest {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "table({}", self.table)?;
        match self.value {
            None => f.write_char(')'),
            Some(test) => match test.kind {
                None => write!(f, ",{})", test.value),
                Some(kind) => write!(f, ",{}={})", kind.name(), test.value),
            },
        }
    }
}

impl Display for MacMask {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mask = self.mask.to_u64() << 16;
        match mask.leading_ones() {
            0 if mask == 0 => f.write_str("any"),
            48 => self.address.fmt(f),
            len if mask.count_ones() == len => write!(f, "{}/{len}", self.address),
            _ => write!(f, "{}&{}", self.address, self.mask),
        }
    }
}

impl Display for InterfacePattern {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("any"),
            Self::Glob(name) => f.write_str(name),
            Self::Address(address) => address.fmt(f),
            Self::Table(table) => table.fmt(f),
        }
    }
}

impl Display for LookupMask {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::V4(mask) => Ipv4Addr::from_bits(*mask).fmt(f),
            Self::V6(mask) => Ipv6Addr::from_bits(**mask).fmt(f),
            Self::Mac(mask) => mask.fmt(f),
            Self::Number(mask) => write!(f, "{mask:#x}"),
        }
    }
}
