//! `slipring bridge`: joins two ports, or a NIC and the host's network stack.

pub(crate) mod engine;

use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Command};
use slipring_abi::name::{PortName, PortNameKind, RingSelection};
use slipring_cli::report::{NoExtra, ReportSample};
use slipring_cli::units::{TimeSpan, human};
use slipring_cli::{
    ClassicName, Diagnostic, Exit, Failure, Job, ReportFormat, Session, Signals, Verb, codes,
    flags, metrics,
};
use slipring_port::{Port, now};

use crate::port_pair;
use engine::ForwardFn;
use slipring_datapath::confine::Confinement;
use slipring_datapath::meter::PortMeter;
use slipring_datapath::opening::{self, PortOpening};
use slipring_datapath::workers::{WorkerTask, Workers};
use slipring_datapath::{links, publish};

/// The entry of `slipring bridge` in the table of commands.
pub(crate) const VERB: Verb =
    Verb { name: "bridge", classic: &[CLASSIC], command, plan, no_metrics: None };

/// netmap's bridge exits with 1 for any failure.
const CLASSIC: ClassicName =
    ClassicName { name: "bridge", status: |exit| u8::from(exit != Exit::Done) };

/// The parsed command line.
struct BridgePlan {
    ports: Vec<PortName>,
    opening: PortOpening,
    burst: u32,
    copy: bool,
    threads: u16,
    link_wait: Duration,
    period: Option<Duration>,
    duration: Option<Duration>,
}

const EXAMPLES: &str = "\
Examples:
  slipring bridge -i netmap:eth0 -i netmap:eth1
  slipring bridge -i netmap:eth0                 # with the stack of its host
  slipring bridge tap:a tap:b --json=lines";

fn command() -> Command {
    let port = flags::port().action(ArgAction::Append).value_parser(PortName::parse_classic);
    let command =
        Command::new("bridge").about("Join two ports, or a NIC and the host's stack").args([
            flags::with_note(port, "once or twice; one alone is joined to its host's stack"),
            Arg::new("words")
                .value_name(flags::PORT_VALUE)
                .num_args(0..=3)
                .help("Ports as with -i; a third word is the burst"),
            flags::burst().default_value("1024"),
            flags::copy(),
            Arg::new("loopback")
                .short('L')
                .long("loopback")
                .action(ArgAction::SetTrue)
                .help("Send frames of the one port back where they came from"),
            flags::link_wait(),
            flags::with_note(flags::threads(1024), "queues are dealt out among them").short('p'),
            flags::period(),
            flags::duration(),
        ]);
    let command = flags::configuration(flags::reporting(metrics::flag(opening::flags(command))));
    command.after_help(EXAMPLES)
}

fn plan(matches: &ArgMatches) -> Result<Job, Failure> {
    let plan = BridgePlan::of(matches)?;
    Ok(Box::new(move |session| plan.run(session)))
}

impl BridgePlan {
    fn of(matches: &ArgMatches) -> Result<Self, Failure> {
        let mut ports: Vec<PortName> =
            matches.get_many("interface").into_iter().flatten().cloned().collect();
        let mut burst = matches.get_one("burst").copied().unwrap_or(1024);
        for (i, word) in matches.get_many::<String>("words").into_iter().flatten().enumerate() {
            match word.parse() {
                Ok(number) if i == 2 => burst = number,
                _ => ports.push(PortName::parse_classic(word)?),
            }
        }
        let turn_back = matches.get_flag("loopback");
        if is_one_interface(&ports) {
            ports.pop();
        }
        let alone = ports.len() == 1 && !turn_back;
        let span = |id: &str| matches.get_one::<TimeSpan>(id).map(|span| span.duration());
        let ports = complete(ports, turn_back)?;
        let roles = PortOpening::roles(&ports, |_| true);
        let opening =
            PortOpening::of(matches).with_host_rings(alone).with_roles(roles, Vec::new())?;
        Ok(Self {
            ports,
            opening,
            burst,
            copy: matches.get_flag("copy"),
            threads: matches.get_one("threads").copied().unwrap_or(1),
            link_wait: span("wait").unwrap_or_default(),
            period: flags::period_of(matches),
            duration: span("duration"),
        })
    }

    fn run(self, session: &mut Session<'_>) -> Result<Exit, Failure> {
        let signals = Signals::install()?;
        links::wait_for_links(&self.ports, &self.opening.options, self.link_wait, &signals)?;
        let mut ports = self.opening.open(&self.ports, session)?;
        check_paths(&ports, session)?;
        Confinement::for_ports(&ports).begin(session)?;
        let mut meter = PortMeter::new(&ports);
        session.reporter.start(None, "monotonic", &meter.reports())?;
        self.announce(session, &mut ports)?;
        let _publishing = publish::start(meter.clone(), None, session)?;
        let _metrics = publish::serve_metrics(&meter, session)?;
        let deadline = self.duration.map(|duration| now() + duration.as_nanos() as u64);
        let workers = Workers::start(self.tasks(ports))?;
        let watched = workers.watch(&signals, self.period, deadline, |interim| {
            let (text, _) = meter.interval_line();
            let sample = sample(&meter);
            if interim {
                session.reporter.interim(&sample, text)
            } else {
                session.reporter.interval(&sample, text)
            }
        });
        let ended = workers.finish();
        session.reporter.end(&sample(&meter), summary(&meter))?;
        watched?;
        ended?;
        Ok(Exit::Done)
    }

    /// Prints whether the bridge exchanges buffers or copies them, as netmap's bridge does at its
    /// start.
    fn announce(&self, session: &mut Session<'_>, ports: &mut [Port]) -> Result<(), Failure> {
        if session.reporter.format() != ReportFormat::Text {
            return Ok(());
        }
        let swap = !self.copy && port_pair::in_one_region(ports);
        session
            .reporter
            .say(format_args!("zerocopy {}supported", if swap { "" } else { "NOT " }))?;
        session.reporter.say("Ready to go")
    }

    /// Distributes the queues over the threads, and returns the task of each thread. A frame's
    /// input queue and its output queue belong to the same thread.
    fn tasks(&self, ports: Vec<Port>) -> Vec<WorkerTask> {
        let most = ports.iter().map(|port| port.queues.len() as u32).min().unwrap_or(1);
        let threads = u32::from(self.threads).min(most).max(1) as usize;
        let pass: ForwardFn = if self.copy { slipring_ring::copy } else { slipring_ring::forward };
        let mut by_thread: Vec<_> = (0..threads).map(|_| [Vec::new(), Vec::new()]).collect();
        for (side, port) in ports.into_iter().enumerate() {
            for (i, queue) in port.queues.into_iter().enumerate() {
                by_thread[i % threads][side].push(queue);
            }
        }
        let (burst, patience) = (self.burst, self.opening.wait_policy);
        let worker = |[left, right]: [_; 2]| engine::worker(left, right, burst, pass);
        by_thread.into_iter().map(|queues| worker(queues).into_task("bridge", patience)).collect()
    }
}

/// Checks that frames can pass in at least one direction, and warns about a direction in which they
/// cannot.
fn check_paths(ports: &[Port], session: &mut Session<'_>) -> Result<(), Failure> {
    // If there is only one port, it is `left` and `right`: its frames are sent back to it.
    let (left, right) = (&ports[0].info, &ports[ports.len() - 1].info);
    if !port_pair::can_pass(left, right) && !port_pair::can_pass(right, left) {
        return Err(port_pair::no_path(left, right).into());
    }
    for (from, to) in [(left, right), (right, left)] {
        if from.caps.rx && !to.caps.tx {
            session.reporter.warn(format_args!(
                "{} only gives frames: those of {} wait there and are not taken",
                to.name, from.name
            ))?;
        }
    }
    Ok(())
}

/// Returns whether both names belong to the same interface. In that case, netmap's bridge joins the
/// interface with its host rings.
fn is_one_interface(ports: &[PortName]) -> bool {
    let [one, other] = ports else { return false };
    let nic = matches!(one.kind, PortNameKind::Netmap | PortNameKind::Xdp | PortNameKind::Kernel)
        && one.pipe.is_none();
    nic && one == other && one.rings == RingSelection::All
}

/// Returns the ports to join. If `turn_back` is true, there is one port, whose frames are sent back
/// to it. Otherwise there are two: if only one is given, the second is the host rings of its
/// interface.
fn complete(mut ports: Vec<PortName>, turn_back: bool) -> Result<Vec<PortName>, Failure> {
    match (ports.len(), turn_back) {
        (1, true) | (2, false) => Ok(ports),
        (1, false) => {
            let mut host = ports[0].clone();
            host.rings = RingSelection::Host;
            // The host rings are opened last, so that no frame of the host is lost before
            // forwarding starts.
            ports.push(host);
            Ok(ports)
        }
        (count, turn_back) => Err(wrong_ports(count, turn_back).into()),
    }
}

/// The error for a wrong number of ports.
fn wrong_ports(count: usize, turn_back: bool) -> Diagnostic {
    let (code, summary, cause, help) = match (count, turn_back) {
        (0, _) => (
            codes::SR0006,
            "missing: --interface <PORT>",
            "a bridge joins two ports, or one and the host's stack",
            "name two: slipring bridge netmap:eth0 netmap:eth1",
        ),
        (_, true) => (
            codes::SR0003,
            "--loopback does not go together with two ports",
            "it sends the frames of one port back where they came from",
            "leave the second port out",
        ),
        (_, false) => (
            codes::SR0004,
            "more than two ports are given",
            "a bridge joins two; the third word alone may be the burst",
            "name two: slipring bridge netmap:eth0 netmap:eth1",
        ),
    };
    Diagnostic::new(code, summary).with_cause(cause).with_help(help)
}

fn sample(meter: &PortMeter) -> ReportSample<NoExtra> {
    ReportSample {
        elapsed: meter.elapsed(),
        ports: meter.reports(),
        in_flight: meter.in_flight(),
        // A bridge makes no additional copies of a frame: each frame leaves once, whether its bytes
        // are copied or its buffer is exchanged.
        copies: 0,
        extra: NoExtra {},
    }
}

fn summary(meter: &PortMeter) -> String {
    let mut text = format!("{} in all", human::span(meter.elapsed()));
    for port in meter.reports() {
        let (rx, tx) = (port.rx.packets, port.tx.packets);
        text += &format!("\n{}: received {rx} packets, sent {tx} packets", port.name);
        for (cause, count) in &port.drops {
            text += &format!(", dropped {count} ({cause})");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_named_twice_is_joined_to_its_host() {
        let one = |words: &[&str]| {
            let ports: Vec<_> =
                words.iter().map(|word| PortName::parse_classic(word).unwrap()).collect();
            is_one_interface(&ports)
        };
        assert!(one(&["netmap:eth0", "netmap:eth0"]) && one(&["kernel:eth0", "kernel:eth0"]));
        for two in [["netmap:eth0", "netmap:eth1"], ["netmap:eth0", "netmap:eth0^"]] {
            assert!(!one(&two), "{two:?}");
        }
        for other in [["netmap:eth0-0", "netmap:eth0-0"], ["null:", "null:"], ["x{1", "x{1"]] {
            assert!(!one(&other), "{other:?}");
        }
    }
}
