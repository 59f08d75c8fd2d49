//! Finds the process that uses an interface or a queue of it. A descriptor keeps an XDP program
//! attached, and `/proc` describes each process's descriptors. The kernel lists the AF_XDP socket
//! of a queue, if it was built with `CONFIG_XDP_SOCKETS_DIAG`. Otherwise, if no socket of this
//! process has the queue, another process that holds the XDP program counts as the owner; if there
//! is none, each process with AF_XDP sockets is suspected.

use std::collections::{HashMap, HashSet};

use super::bound::{BoundQueue, bound_sockets};
use super::own_queues;
use super::processes::{HeldObject, Process, ProcessTable};
use crate::error::QueueOwner;

/// How errors name this process.
const THIS_PROCESS: &str = "this process";

/// Returns the process that holds the XDP program of an interface, as `name (pid)` or
/// [`THIS_PROCESS`]. `None` if it cannot be found, because privileges are missing or no process
/// holds it.
pub(super) fn program_owner(ifindex: u32) -> Option<String> {
    let table = ProcessTable::visible();
    // A child process that is just being started has a copy of this process's descriptors. So this
    // process is checked before all others.
    match holds_link_to(&table.own(), ifindex) {
        true => Some(THIS_PROCESS.into()),
        false => other_program_owner(&table, ifindex),
    }
}

/// Returns what uses a queue to which a socket cannot be bound.
pub(super) fn queue_owner(wanted: BoundQueue) -> QueueOwner {
    let table = ProcessTable::visible();
    match bound_sockets() {
        Ok(sockets) => owner_among(&table, &sockets, wanted),
        Err(_) if own_queues::contains(wanted) => QueueOwner::Process(THIS_PROCESS.into()),
        // The kernel does not list AF_XDP sockets.
        Err(_) => probable_owner(&table, wanted.ifindex),
    }
}

/// Returns the owner of a queue, given the sockets that the kernel has listed.
fn owner_among(
    table: &ProcessTable,
    sockets: &HashMap<u64, BoundQueue>,
    wanted: BoundQueue,
) -> QueueOwner {
    let inodes: HashSet<u64> =
        sockets.iter().filter(|(_, queue)| **queue == wanted).map(|(inode, _)| *inode).collect();
    if inodes.is_empty() {
        return QueueOwner::Nobody;
    }
    // As for programs, a child process that is just being started does not count.
    if holds_any(&table.own(), &inodes) {
        return QueueOwner::Process(THIS_PROCESS.into());
    }
    let holders = table.others().filter(|process| holds_any(process, &inodes));
    let labels: Vec<_> = holders.filter_map(|process| process.label()).collect();
    match labels.is_empty() {
        true => QueueOwner::Unknown,
        false => QueueOwner::Process(labels.join(" and ")),
    }
}

/// Returns the owner of a queue that belongs to another process, as far as it can be told without a
/// list of sockets.
fn probable_owner(table: &ProcessTable, ifindex: u32) -> QueueOwner {
    // An XDP program of this process is the one that the attempt to bind needs. So it does not tell
    // who has the queue. Neither does a child process that is just being started, which has a copy
    // of the link.
    let has_own = holds_link_to(&table.own(), ifindex);
    let other = if has_own { None } else { other_program_owner(table, ifindex) };
    other.map_or_else(|| suspects(table), QueueOwner::Process)
}

fn other_program_owner(table: &ProcessTable, ifindex: u32) -> Option<String> {
    let mut others = table.others();
    let holds =
        |process: &Process| table.is_in_our_netns(process) && holds_link_to(process, ifindex);
    others.find(holds)?.label()
}

/// Returns the other processes of this network namespace that have AF_XDP sockets, of any queue.
fn suspects(table: &ProcessTable) -> QueueOwner {
    let others = table.others().filter(|process| table.is_in_our_netns(process));
    let labels: Vec<_> =
        others.filter(Process::has_fill_ring).filter_map(|process| process.label()).collect();
    match labels.is_empty() {
        false => QueueOwner::Suspects(labels.join(" or ")),
        // Some processes stay hidden even with `CAP_SYS_PTRACE`: in a container, those outside of
        // it. They hardly ever use the network namespace of the container.
        true if table.sees_other_users() => QueueOwner::Nobody,
        true => QueueOwner::Unknown,
    }
}

/// Returns whether a process has one of these sockets, or has mapped a ring of one.
fn holds_any(process: &Process, inodes: &HashSet<u64>) -> bool {
    let is_one = |held| matches!(held, HeldObject::Socket(inode) if inodes.contains(&inode));
    process.held_objects().any(is_one)
        || process.mapped_sockets().iter().any(|inode| inodes.contains(inode))
}

fn holds_link_to(process: &Process, ifindex: u32) -> bool {
    process.held_objects().any(|held| held == HeldObject::XdpLink(ifindex))
}

#[cfg(test)]
mod tests;
