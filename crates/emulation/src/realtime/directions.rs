//! Assigns each link of a plan to one of two directions, one for each thread of a pipeline, and
//! combines the figures of both threads.

use std::collections::BTreeSet;

use slipring_cli::{Diagnostic, Failure, codes::SR0003};
use slipring_link::{LinkSource, LinkTarget, NetworkSpec};

use crate::account::{EmulationAccount, EmulationState, ExitAccount};

/// For each link of a plan, the index of its thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LinkDirections(pub(super) Vec<usize>);

impl LinkDirections {
    /// Determines the directions of a plan.
    ///
    /// # Errors
    /// [`Failure`] if the directions share a link or a node, or the plan does not have two
    /// directions between two ports.
    pub(super) fn of(plan: &NetworkSpec) -> Result<Self, Failure> {
        if plan.entries.len() != 2 || plan.exits.len() != 2 {
            let ports = plan.entries.len().max(plan.exits.len());
            return Err(refused_ports(ports));
        }
        let [up, down] = [reachable_links(plan, 0), reachable_links(plan, 1)];
        if let Some(&link) = up.intersection(&down).next() {
            let name = &plan.links[link].spec.name;
            return Err(refused(&format!("both directions pass link.{name}")));
        }
        for (entry, links) in [&up, &down].into_iter().enumerate() {
            let returns = |link: &&usize| plan.links[**link].to == LinkTarget::Exit(entry);
            if let Some(&link) = links.iter().find(returns) {
                let name = &plan.links[link].spec.name;
                return Err(refused(&format!("link.{name} leads back to where frames came from")));
            }
        }
        Ok(Self((0..plan.links.len()).map(|link| usize::from(up.contains(&link))).collect()))
    }

    /// Combines the states of both threads. The result is empty until both threads have published a
    /// state.
    pub(super) fn join(&self, states: [&EmulationState; 2]) -> EmulationState {
        if states.iter().any(|state| state.account.links.len() < self.0.len()) {
            return EmulationState::default();
        }
        let of_owner = |link: usize| states[self.0[link]];
        let links = 0..self.0.len();
        EmulationState {
            measured: links.clone().map(|link| of_owner(link).measured[link].clone()).collect(),
            account: EmulationAccount {
                links: links.map(|link| of_owner(link).account.links[link]).collect(),
                ..joined(states.map(|state| &state.account))
            },
        }
    }
}

/// Combines all figures of two threads except those of links. A thread receives frames at its port
/// and hands them over to the other thread. A frame counts as received at the port only when the
/// other thread has taken it over. Until then it counts as backlog, like a frame in the port's
/// ring. The two states are not of the same moment, so one thread may have counted more frames as
/// taken over than the other has counted as handed over.
fn joined(parts: [&EmulationAccount; 2]) -> EmulationAccount {
    let mut account = EmulationAccount {
        at_ns: parts[0].at_ns.max(parts[1].at_ns),
        exits: [0, 1].map(|i| exit(parts[i], i)).into(),
        unrouted: parts[0].unrouted + parts[1].unrouted,
        ring_backlog: parts[0].ring_backlog + parts[1].ring_backlog,
        storage_bytes: parts[0].storage_bytes + parts[1].storage_bytes,
        ..EmulationAccount::default()
    };
    for (from, to) in [(parts[0], parts[1]), (parts[1], parts[0])] {
        let mut entry = from.entries.first().cloned().unwrap_or_default();
        entry.received = (entry.received - from.handed_over) + to.taken_over;
        if from.handed_over.packets > to.taken_over.packets {
            account.ring_backlog += from.handed_over - to.taken_over;
        }
        account.entries.push(entry);
    }
    account
}

fn exit(account: &EmulationAccount, index: usize) -> ExitAccount {
    account.exits.get(index).cloned().unwrap_or_default()
}

/// Returns the links that frames from an entry may pass.
fn reachable_links(plan: &NetworkSpec, entry: usize) -> BTreeSet<usize> {
    let mut links = BTreeSet::new();
    let mut reached = vec![LinkSource::Entry(entry)];
    while let Some(source) = reached.pop() {
        for (index, link) in plan.links.iter().enumerate().filter(|(_, link)| link.from == source) {
            if links.insert(index)
                && let LinkTarget::Node(node) = link.to
            {
                reached.push(LinkSource::Node(node));
            }
        }
    }
    links
}

/// Creates the error for a number of ports other than two.
pub(super) fn refused_ports(ports: usize) -> Failure {
    refused(&format!("there are {ports} ports"))
}

fn refused(cause: &str) -> Failure {
    let error = Diagnostic::new(SR0003, "these links do not go together with --pipeline");
    let error = error.with_cause(format!("{cause}; each direction is to have its own thread"));
    error.with_help("leave --pipeline out: one thread emulates any network").into()
}
