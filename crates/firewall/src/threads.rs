//! The threads of a run: one between the ports, or one at the ports and some that check.

use std::sync::Arc;

use slipring_abi::name::PortName;
use slipring_cli::Failure;
use slipring_ipfw::rule::{Action, Keep};
use slipring_ipfw::run::{Config, Firewall};
use slipring_port::Port;
use slipring_program::mover;
use slipring_program::workers::Task;

use crate::board::Board;
use crate::dealer::{Dealer, Queues};
use crate::events::Events;
use crate::flags::Plan;
use crate::join::{Join, Place};
use crate::lane::{Lane, Manner};
use crate::mail::Mail;
use crate::shared::{Common, Shared};
use crate::ways::Aside;

/// The parent of the pipes between the threads.
const PIPES: &str = "firewall_threads";

/// What runs, and what others know of it.
pub(crate) struct Threads {
    pub(crate) tasks: Vec<Task>,
    pub(crate) mails: Vec<Arc<Mail>>,
    pub(crate) boards: Vec<Arc<Board>>,
}

/// The pipes between the ports and so many threads: both ends of one for each port.
pub(crate) fn pipes(ports: usize, threads: u16) -> Vec<PortName> {
    if threads == 1 {
        return Vec::new();
    }
    let end = |port: usize, side: char| {
        let name = format!("{PIPES}{side}{port}@conf:rings={threads}");
        PortName::parse(&name).expect("the name of a pipe is well formed")
    };
    (0..ports).flat_map(|port| [end(port, '{'), end(port, '}')]).collect()
}

/// Makes the threads over ports, behind which stand [`pipes`].
pub(crate) fn threads(
    plan: &Plan,
    ports: Vec<Port>,
    seed: u64,
    events: &Arc<Events>,
) -> Result<Threads, Failure> {
    let places = 0..plan.threads;
    let mails = places.clone().map(|_| Ok(Arc::new(Mail::new()?)));
    let mails: Vec<_> = mails.collect::<Result<_, std::io::Error>>()?;
    let boards: Vec<Arc<Board>> = places.map(|_| Arc::default()).collect();
    let common = Arc::new(Common::new()?);
    let manner = Manner { burst: plan.burst, may_swap: !plan.copy };
    // With several threads a lane has pipes, which all send; what stands behind them may not.
    let sends: Vec<_> = ports.iter().map(|port| port.info.caps.tx).collect();
    let lane = |place: Place, queues: Vec<Queues>| {
        let queues = queues.into_iter().zip(sends.iter().copied()).collect();
        // It denies everything until it is handed what the desk has.
        let firewall = Firewall::new(seed.wrapping_add(place.into()));
        let join = Join::new(firewall, seed, plan.map.clone(), plan.passes);
        let at = usize::from(place);
        let own = (mails[at].clone(), boards[at].clone());
        let aside = || Aside::new(events.clone());
        if plan.threads == 1 {
            return Lane::new(queues, join, own, aside(), manner);
        }
        let shared = Shared::new(place, mails.clone(), common.clone());
        Lane::new(queues, join.at_place(place), own, aside(), manner).sharing(shared)
    };
    let patience = plan.opening.patience;
    let tasks = if plan.threads == 1 {
        let queues = ports.into_iter().map(|port| port.queues).collect();
        vec![mover::task("firewall", lane(0, queues), patience)]
    } else {
        let (dealt, lanes) = dealt(ports, plan.ports.len());
        let dealer = Dealer::new(dealt, seed, manner, common.clone(), mails.clone());
        let lanes = (0..).zip(lanes).map(|(place, queues)| lane(place, queues));
        let lanes = lanes.map(|lane| mover::task("firewall", lane, patience));
        lanes.chain([mover::task("firewall", dealer, patience)]).collect()
    };
    Ok(Threads { tasks, mails, boards })
}

/// The queues of each port with the near ends of its pipes; the far ends for each thread, by port.
fn dealt(mut ports: Vec<Port>, count: usize) -> (Vec<(Queues, Queues)>, Vec<Vec<Queues>>) {
    let pipes = ports.split_off(count);
    let (mut near, mut far) = (Vec::new(), Vec::new());
    for (at, pipe) in pipes.into_iter().enumerate() {
        if at % 2 == 0 { near.push(pipe.queues) } else { far.push(pipe.queues) }
    }
    let threads = far.first().map_or(0, Vec::len);
    let mut lanes: Vec<Vec<Queues>> = (0..threads).map(|_| Vec::new()).collect();
    for queues in far {
        lanes.iter_mut().zip(queues).for_each(|(lane, queue)| lane.push(vec![queue]));
    }
    (ports.into_iter().map(|port| port.queues).zip(near).collect(), lanes)
}

/// Why flows cannot be dealt out under these rules, if they cannot: what a rule counts or translates
/// would be known to one thread only.
pub(crate) fn obstacle(config: &Config) -> Option<String> {
    config.list.iter().find_map(|(entry, _)| {
        let rule = &entry.rule;
        let what = match (&rule.action, &rule.keep) {
            (Action::Nat(_), _) => "nat",
            (Action::Nptv6(_), _) => "nptv6",
            (_, Some(keep)) if counts_across_flows(keep) => "limit by less than both addresses",
            _ => return None,
        };
        Some(format!(
            "rule {}: {what} needs all frames in one thread: run slipring firewall without --threads",
            entry.number
        ))
    })
}

fn counts_across_flows(keep: &Keep) -> bool {
    keep.limit.is_some_and(|limit| !(limit.fields.src_addr && limit.fields.dst_addr))
}
