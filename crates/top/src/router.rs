//! A router's published counters, and its figures.
//!
//! | kind | object | counters |
//! |---|---|---|
//! | [`ROUTER_KIND`] | the router | its state, sizes and events of the tables |
//! | [`INTERFACE_KIND`] | each interface | what arrived on it: forwarded, lost by cause, passed to the kernel by reason and by class |
//! | [`WORKER_KIND`] | each thread of the engine in user space | frames, busy time |
//! | [`RULES_KIND`] | the rules, if there are any | packets that they dropped, delayed or made |
//!
//! A state is published as its index in a list.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::figures::{ObjectSample, SnapshotPair, TopSpeed, TopTraffic};

/// Kind of the object with the state and the tables.
pub const ROUTER_KIND: &str = "router";
/// Kind of the objects for interfaces, one for each interface.
pub const INTERFACE_KIND: &str = "interface";
/// Kind of the objects for threads, one for each thread.
pub const WORKER_KIND: &str = "worker";
/// Kind of the object with the counters of rules.
pub const RULES_KIND: &str = "rules";

/// The names of a router's states, by the published number.
pub const ROUTER_STATES: [&str; 3] = ["loading", "forwarding", "kernel"];
/// The names of an interface's states, by the published number.
pub const INTERFACE_STATES: [&str; 3] = ["forwarding", "kernel", "deleted"];

/// A router.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct TopRouter {
    /// One of [`ROUTER_STATES`].
    pub state: String,
    /// The sizes and events of the router's tables.
    pub fib: TopFib,
    /// The interfaces of the router.
    pub interfaces: Vec<TopInterface>,
    /// The threads of the router's engine in user space; none if the router forwards in XDP.
    pub workers: Vec<TopWorker>,
    /// Counters of the router's rules; `None` if it has no rules.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rules: Option<TopRules>,
}

/// The sizes and events of a router's tables.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct TopFib {
    /// IPv4 routes.
    pub v4: u64,
    /// IPv6 routes.
    pub v6: u64,
    /// Neighbours of the router's interfaces.
    pub neighbours: u64,
    /// How many snapshots of the tables have been in use so far.
    pub generation: u64,
    /// How often a table of the kernel was read again.
    pub resyncs: u64,
    /// How often the kernel dropped notifications.
    pub overruns: u64,
    /// Routes, neighbours and next hops for which there was no space.
    pub refused: u64,
}

/// An interface of a router, and the outcomes of the packets that arrived on it.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct TopInterface {
    /// The interface's name.
    pub name: String,
    /// How the interface's packets are forwarded, such as `xdp native`.
    pub engine: String,
    /// One of [`INTERFACE_STATES`].
    pub state: String,
    /// Packets forwarded since the start.
    pub forwarded: TopTraffic,
    /// Rate of forwarded packets over the interval.
    pub forwarded_rate: TopSpeed,
    /// Packets dropped since the start, by cause; causes without a drop are omitted.
    pub dropped: BTreeMap<String, u64>,
    /// Dropped packets per second over the interval.
    pub dropped_pps: f64,
    /// Packets left to the kernel since the start, by reason.
    pub passed: BTreeMap<String, u64>,
    /// Packets left to the kernel per second over the interval.
    pub passed_pps: f64,
    /// How many of the packets in `passed` were given to the kernel by threads, by class.
    pub punted: BTreeMap<String, u64>,
}

/// A thread of a router.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct TopWorker {
    /// The thread's number.
    pub id: String,
    /// Frames received since the start.
    pub frames: u64,
    /// Received frames per second over the interval.
    pub frames_pps: f64,
    /// Share of the interval in which the thread moved frames.
    pub busy_share: f64,
    /// Packets that wait for the MAC address of a neighbour.
    pub held: u64,
    /// Packets for the kernel that exceeded the rate of their class and so were dropped, by class.
    pub limited: BTreeMap<String, u64>,
    /// Packets that the kernel did not accept from the thread.
    pub failed: u64,
}

/// Counters of rules since the start, in packets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct TopRules {
    /// Packets that rules and pipes have dropped.
    pub dropped: u64,
    /// Packets that were put into pipes, or kept until other fragments arrived.
    pub delayed: u64,
    /// Packets that are waiting in pipes or for other fragments now.
    pub waiting: u64,
    /// Packets that rules have made: resets and keepalives.
    pub made: u64,
    /// How many of the packets in `made` could not be sent, because there was no route.
    pub unsent: u64,
}

impl TopRouter {
    /// Returns the figures of the router in two snapshots, if the program is a router.
    pub(crate) fn of(snapshots: &SnapshotPair<'_>) -> Option<Self> {
        let router = snapshots.all(ROUTER_KIND).next()?;
        Some(Self {
            state: state(&router, &ROUTER_STATES),
            fib: TopFib::of(&router),
            interfaces: snapshots.all(INTERFACE_KIND).map(|it| TopInterface::of(&it)).collect(),
            workers: snapshots.all(WORKER_KIND).map(|it| TopWorker::of(&it)).collect(),
            rules: snapshots.all(RULES_KIND).next().map(|it| TopRules::of(&it)),
        })
    }
}

impl TopFib {
    fn of(sample: &ObjectSample<'_>) -> Self {
        Self {
            v4: sample.value("routes.ipv4"),
            v6: sample.value("routes.ipv6"),
            neighbours: sample.value("neighbours"),
            generation: sample.value("generation"),
            resyncs: sample.value("resyncs"),
            overruns: sample.value("overruns"),
            refused: sample.value("refused"),
        }
    }
}

impl TopInterface {
    fn of(sample: &ObjectSample<'_>) -> Self {
        Self {
            name: sample.object.name.clone(),
            engine: sample.object.mode.clone().unwrap_or_default(),
            state: state(sample, &INTERFACE_STATES),
            forwarded: sample.traffic("forwarded"),
            forwarded_rate: sample.speed("forwarded"),
            dropped: sample.by_name("lost."),
            dropped_pps: sample.per_sec(sample.sum_in_interval("lost.")),
            passed: sample.by_name("passed."),
            passed_pps: sample.per_sec(sample.sum_in_interval("passed.")),
            punted: sample.by_name("punted."),
        }
    }
}

impl TopWorker {
    fn of(sample: &ObjectSample<'_>) -> Self {
        Self {
            id: sample.object.name.clone(),
            frames: sample.value("rx.packets"),
            frames_pps: sample.per_sec(sample.change("rx.packets")),
            busy_share: sample.per_sec(sample.change("busy")) / 1e9,
            held: sample.value("held"),
            limited: sample.by_name("limited."),
            failed: sample.value("failed.packets"),
        }
    }
}

impl TopRules {
    fn of(sample: &ObjectSample<'_>) -> Self {
        Self {
            dropped: sample.value("dropped.packets"),
            delayed: sample.value("delayed.packets"),
            waiting: sample.value("waiting"),
            made: sample.value("made.packets"),
            unsent: sample.value("unsent.packets"),
        }
    }
}

/// Returns the name of the published state. It is `unknown` if `states` does not contain the state,
/// for example because the watched program has another version.
fn state(sample: &ObjectSample<'_>, states: &[&str]) -> String {
    let index = sample.gauge("state").and_then(|index| usize::try_from(index).ok());
    index.and_then(|index| states.get(index)).copied().unwrap_or("unknown").to_owned()
}
