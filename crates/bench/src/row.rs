//! A row of the table: contenders that are measured in turn, and the goals for their figures.

use std::time::Duration;

use slipring_cli::units::human;

use super::measure::{BenchError, BenchReading};

/// The unit of a row's figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RowUnit {
    /// Packets per second. A higher figure is better.
    PacketsPerSec,
    /// Time. A lower figure is better.
    Nanos,
    /// Memory. A lower figure is better.
    Bytes,
    /// A fraction of 1. A lower figure is better.
    Share,
    /// Packets. A lower figure is better.
    Packets,
}

impl RowUnit {
    /// Returns the name of the unit in JSON.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::PacketsPerSec => "packets_per_second",
            Self::Nanos => "ns",
            Self::Bytes => "bytes",
            Self::Share => "share",
            Self::Packets => "packets",
        }
    }

    /// Formats a figure for people.
    pub(crate) fn show(self, value: f64) -> String {
        match self {
            Self::PacketsPerSec => human::packets_per_sec(value),
            Self::Nanos => human::span(Duration::from_nanos(value.max(0.0) as u64)),
            Self::Bytes => human::bytes(value.max(0.0) as u64),
            Self::Share => format!("{:.4} %", value * 100.0),
            Self::Packets => format!("{value:.0} packets"),
        }
    }
}

/// The role of a contender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ContenderRole {
    /// slipring. The first contender with this role is compared with the others.
    Ours,
    /// The least cost that any implementation on this machine can have.
    Floor,
    /// Another program that does the same work as slipring.
    Peer,
}

impl ContenderRole {
    /// Returns the name of the role in JSON.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Floor => "floor",
            Self::Peer => "peer",
        }
    }
}

/// Prepares a contender, so that it can be measured.
pub(crate) type ContenderStart = Box<dyn FnOnce() -> Result<BenchRound, BenchError>>;
/// Runs a contender once, for about the given time; some contenders ignore the time. Dropping the
/// closure cleans up.
pub(crate) type BenchRound = Box<dyn FnMut(Duration) -> Result<BenchReading, BenchError>>;

/// A program or a loop that is measured in a row.
pub(crate) struct Contender {
    pub(crate) role: ContenderRole,
    pub(crate) name: &'static str,
    pub(crate) start: ContenderStart,
}

/// The figure for which a goal is set.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum GoalMetric {
    /// The figure of our first contender.
    Value,
    /// The figure of our first contender, divided by that of the contender with this name.
    RatioTo(&'static str),
}

/// A limit that a figure should keep.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct BenchGoal {
    pub(crate) metric: GoalMetric,
    /// The limit. It is a minimum for rates and for ratios of rates, and a maximum for everything
    /// else.
    pub(crate) bound: f64,
}

/// A row of the table: what is measured, by which contenders, and with which goals.
pub(crate) struct BenchRow {
    /// The name with which users select the row.
    pub(crate) id: String,
    /// A text that says what is measured.
    pub(crate) title: String,
    pub(crate) unit: RowUnit,
    pub(crate) contenders: Vec<Contender>,
    pub(crate) goals: Vec<BenchGoal>,
    /// If set, the row is measured once and for this duration, even if the user has requested
    /// another one. The row for the error of a rate over 10 s needs this.
    pub(crate) once: Option<Duration>,
}

impl BenchRow {
    /// Creates a row without contenders and goals.
    pub(crate) fn new(id: impl Into<String>, title: impl Into<String>, unit: RowUnit) -> Self {
        let (contenders, goals) = (Vec::new(), Vec::new());
        Self { id: id.into(), title: title.into(), unit, contenders, goals, once: None }
    }

    /// Adds a contender to the row.
    pub(crate) fn with(
        mut self,
        role: ContenderRole,
        name: &'static str,
        start: impl FnOnce() -> Result<BenchRound, BenchError> + 'static,
    ) -> Self {
        self.contenders.push(Contender { role, name, start: Box::new(start) });
        self
    }

    /// Adds a goal to the row.
    pub(crate) fn goal(mut self, of: GoalMetric, bound: f64) -> Self {
        self.goals.push(BenchGoal { metric: of, bound });
        self
    }

    /// Makes the bench measure this row only once, and for this long.
    pub(crate) fn once(mut self, time: Duration) -> Self {
        self.once = Some(time);
        self
    }
}
