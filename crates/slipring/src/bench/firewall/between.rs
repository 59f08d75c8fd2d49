//! The firewall between veth links, beside nftables on the same links: the kernel routes there.
//!
//! Both have one CPU to forward on. What that CPU is busy with is all counted, whoever does it.

use std::fmt::Write;
use std::rc::Rc;
use std::time::Duration;

use super::by_cpu;
use super::program::{Program, done};
use crate::bench::kernel::{self, Router};
use crate::bench::lab::{Held, Lab, OUTPUT, SOURCE};
use crate::bench::measure::{Reading, Tally, Why};
use crate::bench::row::{Bout, Of, Role, Row, Unit};

const NFTABLES: &str = "nftables";

/// For each length of list: all that a packet costs, and what rules add to it.
pub(super) fn rows() -> Vec<Row> {
    let rows = [(100, 1.1, 0.1), (1000, 6.0, 0.02)].map(|(count, faster, share)| {
        let row =
            |id: &str, title: &str, unit, measure: fn(&mut Path, Duration) -> Result<_, _>| {
                let title = format!("firewall, veth, {count} rules, {title}");
                Row::new(format!("firewall-veth-{id}{count}"), title, unit)
                    .with(Role::Ours, "slipring", move || bout(Path::ours(count)?, measure))
                    .with(Role::Peer, NFTABLES, move || bout(Path::nftables(count)?, measure))
            };
        let whole = row("", "by CPU time", Unit::PacketsPerSec, Path::whole);
        let added = row("added-", "CPU time added by them", Unit::Nanos, Path::added);
        [whole.goal(Of::RatioTo(NFTABLES), faster), added.goal(Of::RatioTo(NFTABLES), share)]
    });
    rows.into_iter().flatten().collect()
}

fn bout(
    mut path: Path,
    measure: fn(&mut Path, Duration) -> Result<Reading, Why>,
) -> Result<Bout, Why> {
    Ok(Box::new(move |time| measure(&mut path, time)))
}

/// From the source to the sink.
struct Path {
    lab: Rc<Lab>,
    /// The interface that frames leave by.
    output: &'static str,
    switch: Box<dyn FnMut(bool) -> Result<(), Why>>,
}

impl Path {
    fn ours(count: u32) -> Result<Self, Why> {
        let lab = Lab::new()?;
        let rules = list(count, |source| format!("add deny udp from {source} to any"))?;
        let program =
            Program::start(&lab, OUTPUT, &format!("{rules}add allow ip from any to any"))?;
        let switch = Box::new(move |is_on| {
            program.ask(&["sysctl", &format!("net.inet.ip.fw.enable={}", u8::from(is_on))])
        });
        Ok(Self { lab, output: OUTPUT, switch })
    }

    fn nftables(count: u32) -> Result<Self, Why> {
        let lab = Lab::new()?;
        let mut router: Held<Router> = lab.hold(Router::new)?;
        let rules = list(count, |source| format!("ip saddr {source} ip protocol udp drop"))?;
        let rules = format!(
            "flush ruleset\ntable ip bench {{\nchain c {{\ntype filter hook forward priority 0\n\
             {rules}}}\n}}\n"
        );
        let switch = Box::new(move |is_on| {
            let (_, lab) = router.parts();
            lab.within(|| nft(if is_on { &rules } else { "flush ruleset\n" }))
        });
        Ok(Self { lab, output: kernel::NEAR, switch })
    }

    fn whole(&mut self, time: Duration) -> Result<Reading, Why> {
        Ok(by_cpu(self.measure(true, time)?))
    }

    fn added(&mut self, time: Duration) -> Result<Reading, Why> {
        let mut cost = |has_rules| {
            let tally = self.measure(has_rules, time / 2)?;
            Ok::<_, Why>(tally.cpu as f64 / tally.packets.max(1) as f64)
        };
        Ok(Reading::of((cost(true)? - cost(false)?).max(0.0)))
    }

    fn measure(&mut self, has_rules: bool, time: Duration) -> Result<Tally, Why> {
        (self.switch)(has_rules)?;
        let frame = self.lab.within(|| kernel::routed_frame(64))?;
        self.lab.while_feeding(SOURCE, &frame, || kernel::count(self.output, time))
    }
}

/// Rules that are all for other sources.
fn list(count: u32, rule: impl Fn(std::net::Ipv4Addr) -> String) -> Result<String, Why> {
    let mut text = String::new();
    for n in 1..count {
        writeln!(text, "{}", rule((0xc0a8_0000 + n).into())).map_err(super::failed)?;
    }
    Ok(text)
}

/// Has nft read `rules`, in the calling thread's namespace.
fn nft(rules: &str) -> Result<(), Why> {
    done("nft", &["-f", "-"], rules)
}
