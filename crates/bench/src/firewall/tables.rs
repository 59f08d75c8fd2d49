//! Benchmarks of rules with tables of a million prefixes.

use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use slipring_wire::FrameSpec;
use slipring_wire::frame::{IpSpec, Ipv4Spec, Ipv6Spec};

use super::checks::{BurstChecker, cpu_round, firewall};
use super::draw::SeededRng;
use super::frames;
use crate::measure::{BenchError, BenchReading, PROGRAM_CPU, on_cpu, thread_cpu};
use crate::row::{BenchRound, BenchRow, ContenderRole, GoalMetric, RowUnit};

const NUM_PREFIXES: usize = 1_000_000;
/// Number of destinations that are looked up in turn. Their frames do not fit in the CPU's own
/// caches (L1 and L2).
const NUM_FRAMES: usize = 1 << 17;
/// Number of rules that look up the table.
const NUM_RULES: u64 = 2;

pub(super) fn rows() -> Vec<BenchRow> {
    [false, true].into_iter().flat_map(|is_v6| [lookups(is_v6), load(is_v6)]).collect()
}

fn family(is_v6: bool) -> &'static str {
    if is_v6 { "v6" } else { "v4" }
}

/// Returns the row in which two rules look up the table for each packet.
fn lookups(is_v6: bool) -> BenchRow {
    let family = family(is_v6);
    let title = format!("firewall, table of 1 M prefixes, IP{family}, lookups");
    BenchRow::new(format!("firewall-table-{family}"), title, RowUnit::PacketsPerSec)
        .with(ContenderRole::Ours, "slipring", move || looked_up(is_v6))
        .goal(GoalMetric::Value, 30e6)
}

fn looked_up(is_v6: bool) -> Result<BenchRound, BenchError> {
    let prefixes = prefixes(is_v6);
    let rules = "add deny ip from any to table(t,2)\nadd count ip from any to table(t)";
    let mut firewall = firewall(&format!("{}{rules}", text(&prefixes)), false)?;
    let mut frames: Vec<_> = prefixes.iter().take(NUM_FRAMES).map(|&(ip, _)| frame(ip)).collect();
    let (mut checks, mut at) = (BurstChecker::default(), 0);
    Ok(cpu_round(move || {
        at = (at + 256) % NUM_FRAMES;
        NUM_RULES * checks.all(&mut firewall, &mut frames[at..at + 256])
    }))
}

fn load(is_v6: bool) -> BenchRow {
    let family = family(is_v6);
    let title = format!("firewall, table of 1 M prefixes, IP{family}, load");
    let start = move || -> Result<BenchRound, BenchError> {
        let text = text(&prefixes(is_v6));
        Ok(Box::new(move |_| {
            on_cpu(PROGRAM_CPU, || {
                let before = thread_cpu();
                firewall(&text, false)?;
                Ok(BenchReading::of((thread_cpu() - before) as f64))
            })
        }))
    };
    BenchRow::new(format!("firewall-table-load-{family}"), title, RowUnit::Nanos)
        .with(ContenderRole::Ours, "slipring", start)
        .goal(GoalMetric::Value, 2e9)
}

/// Returns random prefixes. Each is given as an address within the prefix, and the length of the
/// prefix.
fn prefixes(is_v6: bool) -> Vec<(IpAddr, u8)> {
    let mut draw = SeededRng(3);
    let prefix = |_| match is_v6 {
        false => {
            let len = draw.pick(&[16, 20, 22, 24, 24, 24, 24, 32]);
            (Ipv4Addr::from(draw.next() as u32).into(), len)
        }
        true => {
            let high = u128::from(draw.next()) << 48;
            let bits = 0x2001 << 112 | high | u128::from(draw.next() >> 16);
            (Ipv6Addr::from(bits).into(), draw.pick(&[32, 40, 44, 48, 48, 48, 56, 64]))
        }
    };
    (0..NUM_PREFIXES).map(prefix).collect()
}

fn text(prefixes: &[(IpAddr, u8)]) -> String {
    let mut text = String::from("table t create\n");
    for line in prefixes.chunks(64) {
        text.push_str("table t add");
        for &(address, len) in line {
            let address: IpAddr = match address {
                IpAddr::V4(ip) => Ipv4Addr::from(u32::from(ip) & u32::MAX << (32 - len)).into(),
                IpAddr::V6(ip) => Ipv6Addr::from(u128::from(ip) & u128::MAX << (128 - len)).into(),
            };
            write!(text, " {address}/{len} 1").expect("writing to a string cannot fail");
        }
        text.push('\n');
    }
    text
}

fn frame(to: IpAddr) -> Vec<u8> {
    let ip = match to {
        IpAddr::V4(dst) => IpSpec::V4(Ipv4Spec { dst, ..Default::default() }),
        IpAddr::V6(dst) => IpSpec::V6(Ipv6Spec { dst, ..Default::default() }),
    };
    frames::built(&FrameSpec { ip, ..Default::default() })
}
