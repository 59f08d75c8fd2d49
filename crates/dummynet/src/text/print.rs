//! Prints configurations as the commands that create them. Each number is printed as the shortest
//! text that parses to the same value, as people would type it.

use alloc::format;
use alloc::string::String;
use core::fmt::{self, Display, Formatter};

use slipring_model::aqm::{CoDelSpec, DelaySource, FairSpec, PieSpec};
use slipring_model::decimal;

use super::aqm::fixed;
use super::values;
use crate::ShaperConfig;
use crate::flow::FlowMask;
use crate::spec::{
    AqmSpec, PipeLinkSpec, PipeSpec, PolicySpec, QueueLimit, SchedKind, SchedSpec, ShaperLoss,
    ShaperQueueSpec, ShaperRedSpec, ShareSpec,
};

/// Prints the canonical command. The commands of [`ShaperConfig::into_commands`] can be parsed
/// again. A profile is printed with all its values, because its file may no longer exist.
impl Display for ShaperConfig {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pipe(number, spec) => {
                let PipeSpec { link, policy, mask: fields, buckets, kind } = spec;
                write!(f, "pipe {number} config")?;
                link_of(f, link)?;
                mask(f, fields, *buckets)?;
                kind_and_policy_of(f, kind.as_ref(), policy)
            }
            Self::Queue(number, spec) => {
                let ShaperQueueSpec { parent, share, policy, mask: fields, buckets } = spec;
                write!(f, "queue {number} config")?;
                if let Some(parent) = parent {
                    write!(f, " sched {parent}")?;
                }
                share_of(f, share)?;
                mask(f, fields, *buckets)?;
                policy_of(f, policy)
            }
            Self::Sched(number, spec) => {
                let SchedSpec { kind, mask: fields, buckets, policy } = spec;
                write!(f, "sched {number} config")?;
                mask(f, fields, *buckets)?;
                kind_and_policy_of(f, kind.as_ref(), policy)
            }
        }
    }
}

const RATE_UNITS: &[(&str, u32)] = &[("Gbit/s", 9), ("Mbit/s", 6), ("Kbit/s", 3), ("bit/s", 0)];
const TIME_UNITS: &[(&str, u32)] = &[("s", 9), ("ms", 6), ("us", 3), ("ns", 0)];

fn time(ns: u64) -> String {
    decimal::in_units(ns, TIME_UNITS)
}

/// Formats a number of bytes, followed by `unit`. If it is an integer number of M or K, it is
/// printed with that prefix.
fn bytes(count: u64, unit: &str) -> String {
    let is_whole = |shift: u32| count > 0 && count.trailing_zeros() >= shift;
    match [(20, "M"), (10, "K")].into_iter().find(|(shift, _)| is_whole(*shift)) {
        Some((shift, prefix)) => format!("{}{prefix}{unit}", count >> shift),
        None => format!("{count}{unit}"),
    }
}

fn link_of(f: &mut Formatter<'_>, link: &PipeLinkSpec) -> fmt::Result {
    if link.bits_per_sec > 0 {
        write!(f, " bw {}", decimal::in_units(link.bits_per_sec, RATE_UNITS))?;
    }
    if link.delay_ns > 0 {
        write!(f, " delay {}", time(link.delay_ns))?;
    }
    if link.burst_bytes > 0 {
        write!(f, " burst {}", bytes(link.burst_bytes, ""))?;
    }
    if let Some(profile) = &link.profile {
        f.write_str(" profile-values ")?;
        values::write(f, profile)?;
    }
    Ok(())
}

fn share_of(f: &mut Formatter<'_>, share: &ShareSpec) -> fmt::Result {
    let all = [("weight", share.weight), ("lmax", share.lmax), ("pri", share.priority)];
    for (name, value) in all {
        if let Some(value) = value {
            write!(f, " {name} {value}")?;
        }
    }
    Ok(())
}

fn mask(f: &mut Formatter<'_>, mask: &FlowMask, buckets: Option<u32>) -> fmt::Result {
    if let Some(buckets) = buckets {
        write!(f, " buckets {buckets}")?;
    }
    if mask.is_none() {
        return Ok(());
    }
    f.write_str(" mask")?;
    if (FlowMask { queue: false, ..*mask }) == FlowMask::ALL {
        return f.write_str(" all");
    }
    let v6 = |bits: u128| u64::from(bits.leading_ones());
    let fields = [
        ("proto", u64::from(mask.proto), ""),
        ("src-port", mask.src_port.into(), ""),
        ("dst-port", mask.dst_port.into(), ""),
    ];
    let of_v4 = [("src-ip", u64::from(mask.src4), ""), ("dst-ip", mask.dst4.into(), "")];
    let of_v6 = [
        ("src-ip6", v6(mask.src6), "/"),
        ("dst-ip6", v6(mask.dst6), "/"),
        ("flow-id", mask.flow_label.into(), ""),
    ];
    // Listings show the address family that comes last in the command, so the order of the families
    // matters.
    let (first, last) = (&of_v4[..], &of_v6[..]);
    let (first, last) = if mask.shown_as_v6 { (first, last) } else { (last, first) };
    for (name, value, prefix) in fields.iter().chain(first).chain(last) {
        match (value, *prefix) {
            (0, _) => {}
            (value, "/") => write!(f, " {name} /{value}")?,
            (value, _) => write!(f, " {name} {value:#x}")?,
        }
    }
    if mask.queue { f.write_str(" queue") } else { Ok(()) }
}

/// Prints scheduling algorithm and policy. All words after the parameters of CoDel or PIE would be
/// parsed as more of these parameters, so they are printed last.
fn kind_and_policy_of(
    f: &mut Formatter<'_>,
    kind: Option<&SchedKind>,
    policy: &PolicySpec,
) -> fmt::Result {
    let Some(kind) = kind else { return policy_of(f, policy) };
    if kind.manages_queues() {
        policy_of(f, policy)?;
        return kind_of(f, kind);
    }
    kind_of(f, kind)?;
    policy_of(f, policy)
}

fn policy_of(f: &mut Formatter<'_>, policy: &PolicySpec) -> fmt::Result {
    match policy.limit {
        QueueLimit::Slots(50) => {}
        QueueLimit::Slots(slots) => write!(f, " queue {slots}")?,
        // A number without a unit means slots.
        QueueLimit::Bytes(limit) => write!(f, " queue {}", bytes(limit.into(), "Bytes"))?,
    }
    let p = |loss: u32| ExactFraction(loss, ShaperLoss::SCALE);
    match policy.loss {
        ShaperLoss::None => {}
        ShaperLoss::Uniform(loss) => write!(f, " plr {}", p(loss))?,
        ShaperLoss::GilbertElliott { good, to_bad, bad, to_good } => {
            write!(f, " plr {},{},{},{}", p(good), p(to_bad), p(bad), p(to_good))?;
        }
    }
    if policy.noerror {
        f.write_str(" noerror")?;
    }
    match &policy.aqm {
        AqmSpec::DropTail => Ok(()),
        AqmSpec::Red(red) => {
            let name = if red.gentle { "gred" } else { "red" };
            let p = |value: u32| ExactFraction(value, ShaperRedSpec::SCALE);
            write!(f, " {name} {}/{}/{}/{}", p(red.weight), red.min, red.max, p(red.max_p))?;
            if red.ecn { f.write_str(" ecn") } else { Ok(()) }
        }
        AqmSpec::CoDel(codel) => {
            f.write_str(" codel")?;
            codel_of(f, codel)
        }
        AqmSpec::Pie(pie) => {
            f.write_str(" pie")?;
            pie_of(f, pie)
        }
    }
}

/// A fraction: numerator and denominator. It is printed as a decimal number that yields the same
/// numerator when it is parsed and rounded down.
struct ExactFraction(u32, u32);

impl Display for ExactFraction {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self(value, of) = *self;
        let reads_back = |p: f64| (p * f64::from(of)) as u32 == value;
        f.write_str(&decimal::shortest(f64::from(value) / f64::from(of), reads_back))
    }
}

/// Formats a number with the precision of PIE's gains, which have 13 bits after the binary point.
fn gain(value: f64) -> String {
    decimal::shortest(value, |typed| fixed(typed) == value)
}

fn kind_of(f: &mut Formatter<'_>, kind: &SchedKind) -> fmt::Result {
    write!(f, " type {}", kind.name().to_ascii_lowercase())?;
    match kind {
        SchedKind::FqCodel(fair, codel) => {
            fair_of(f, fair)?;
            codel_of(f, codel)
        }
        SchedKind::FqPie(fair, pie) => {
            fair_of(f, fair)?;
            pie_of(f, pie)
        }
        _ => Ok(()),
    }
}

fn fair_of(f: &mut Formatter<'_>, fair: &FairSpec) -> fmt::Result {
    let FairSpec { quantum, limit_packets, flows, .. } = fair;
    write!(f, " quantum {quantum} limit {limit_packets} flows {flows}")
}

fn codel_of(f: &mut Formatter<'_>, codel: &CoDelSpec) -> fmt::Result {
    write!(f, " target {} interval {}", time(codel.target_ns), time(codel.interval_ns))?;
    f.write_str(if codel.ecn { " ecn" } else { " noecn" })
}

fn pie_of(f: &mut Formatter<'_>, pie: &PieSpec) -> fmt::Result {
    write!(f, " target {} tupdate {}", time(pie.target_ns), time(pie.update_ns))?;
    write!(f, " alpha {} beta {}", gain(pie.alpha), gain(pie.beta))?;
    write!(f, " max_burst {} max_ecnth {}", time(pie.max_burst_ns), gain(pie.max_ecn_p))?;
    f.write_str(if pie.ecn { " ecn" } else { " noecn" })?;
    f.write_str(if pie.cap { " capdrop" } else { " nocapdrop" })?;
    f.write_str(if pie.derandomize { " drand" } else { " nodrand" })?;
    f.write_str(if pie.wake_bytes > 0 { " onoff" } else { "" })?;
    f.write_str(if pie.delay_from == DelaySource::DepartureRate { " dre" } else { " ts" })
}
