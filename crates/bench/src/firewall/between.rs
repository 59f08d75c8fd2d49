//! The firewall between veth links. It is compared with nftables, in a kernel that also routes
//! between veth links.
//!
//! Firewall and kernel each have one CPU for forwarding. All time in which this CPU is busy counts,
//! whatever the reason is.

use std::fmt::Write;
use std::rc::Rc;
use std::time::Duration;

use super::checks::by_cpu;
use super::program::{BenchFirewall, run_to_end};
use crate::kernel::{self, KernelRouter};
use crate::lab::{BenchLab, InNetns, OUTPUT_IFNAME, SOURCE_IFNAME};
use crate::measure::{BenchError, BenchReading, BenchTally};
use crate::row::{BenchRound, BenchRow, ContenderRole, GoalMetric, RowUnit};

const NFTABLES: &str = "nftables";

/// Returns two rows for each length of the rule list: the total cost of a packet, and the part of
/// this cost that the rules cause.
pub(super) fn rows() -> Vec<BenchRow> {
    let rows = [(100, 1.1, 0.1), (1000, 6.0, 0.02)].map(|(count, faster, share)| {
        let row = |id: &str,
                   title: &str,
                   unit,
                   measure: fn(&mut FirewallPath, Duration) -> Result<_, _>| {
            let title = format!("firewall, veth, {count} rules, {title}");
            BenchRow::new(format!("firewall-veth-{id}{count}"), title, unit)
                .with(ContenderRole::Ours, "slipring", move || {
                    round(FirewallPath::ours(count)?, measure)
                })
                .with(ContenderRole::Peer, NFTABLES, move || {
                    round(FirewallPath::nftables(count)?, measure)
                })
        };
        let whole = row("", "by CPU time", RowUnit::PacketsPerSec, FirewallPath::total_cost);
        let added =
            row("added-", "CPU time added by them", RowUnit::Nanos, FirewallPath::added_cost);
        [
            whole.goal(GoalMetric::RatioTo(NFTABLES), faster),
            added.goal(GoalMetric::RatioTo(NFTABLES), share),
        ]
    });
    rows.into_iter().flatten().collect()
}

fn round(
    mut path: FirewallPath,
    measure: fn(&mut FirewallPath, Duration) -> Result<BenchReading, BenchError>,
) -> Result<BenchRound, BenchError> {
    Ok(Box::new(move |time| measure(&mut path, time)))
}

/// A path from the source to the sink.
struct FirewallPath {
    lab: Rc<BenchLab>,
    /// The interface on which frames leave the firewall or the kernel.
    output: &'static str,
    switch: Box<dyn FnMut(bool) -> Result<(), BenchError>>,
}

impl FirewallPath {
    fn ours(count: u32) -> Result<Self, BenchError> {
        let lab = BenchLab::new()?;
        let rules = list(count, |source| format!("add deny udp from {source} to any"))?;
        let program = BenchFirewall::start(
            &lab,
            OUTPUT_IFNAME,
            &format!("{rules}add allow ip from any to any"),
        )?;
        let switch = Box::new(move |is_on| {
            program.run_ipfw(&["sysctl", &format!("net.inet.ip.fw.enable={}", u8::from(is_on))])
        });
        Ok(Self { lab, output: OUTPUT_IFNAME, switch })
    }

    fn nftables(count: u32) -> Result<Self, BenchError> {
        let lab = BenchLab::new()?;
        let mut router: InNetns<KernelRouter> = lab.hold(KernelRouter::new)?;
        let rules = list(count, |source| format!("ip saddr {source} ip protocol udp drop"))?;
        let rules = format!(
            "flush ruleset\ntable ip bench {{\nchain c {{\ntype filter hook forward priority 0\n\
             {rules}}}\n}}\n"
        );
        let switch = Box::new(move |is_on| {
            let (_, lab) = router.parts();
            lab.within(|| nft(if is_on { &rules } else { "flush ruleset\n" }))
        });
        Ok(Self { lab, output: kernel::NEAR_IFNAME, switch })
    }

    fn total_cost(&mut self, time: Duration) -> Result<BenchReading, BenchError> {
        Ok(by_cpu(self.measure(true, time)?))
    }

    fn added_cost(&mut self, time: Duration) -> Result<BenchReading, BenchError> {
        let mut cost = |has_rules| {
            let tally = self.measure(has_rules, time / 2)?;
            Ok::<_, BenchError>(tally.cpu as f64 / tally.packets.max(1) as f64)
        };
        Ok(BenchReading::of((cost(true)? - cost(false)?).max(0.0)))
    }

    fn measure(&mut self, has_rules: bool, time: Duration) -> Result<BenchTally, BenchError> {
        (self.switch)(has_rules)?;
        let frame = self.lab.within(|| kernel::routed_frame(64))?;
        self.lab.while_feeding(SOURCE_IFNAME, &frame, || kernel::count(self.output, time))
    }
}

/// Returns rules that do not match, because all are for other sources.
fn list(count: u32, rule: impl Fn(std::net::Ipv4Addr) -> String) -> Result<String, BenchError> {
    let mut text = String::new();
    for n in 1..count {
        writeln!(text, "{}", rule((0xc0a8_0000 + n).into())).map_err(super::checks::failed)?;
    }
    Ok(text)
}

/// Runs nft with `rules`, in the network namespace of the calling thread.
fn nft(rules: &str) -> Result<(), BenchError> {
    run_to_end("nft", &["-f", "-"], rules)
}
