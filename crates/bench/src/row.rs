//! A row of the table: contenders measured in turn, and the goals for their figures.

use std::time::Duration;

use slipring_cli::units::human;

use super::measure::{BenchError, BenchReading};

/// The unit of a row's figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RowUnit {
    /// Packets per second; more is better.
    PacketsPerSec,
    /// Time; less is better.
    Nanos,
    /// Memory; less is better.
    Bytes,
    /// A fraction of 1; less is better.
    Share,
    /// Packets; less is better.
    Packets,
}

impl RowUnit {
    /// Returns the name of the role in JSON.
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
    /// slipring; the first contender of this role is compared with the others.
    Ours,
    /// The best that the machine allows.
    Floor,
    /// Another program doing the same.
    Peer,
}

impl ContenderRole {
    /// Returns the name of the unit.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Floor => "floor",
            Self::Peer => "peer",
        }
    }
}

/// Prepares a contender.
pub(crate) type ContenderStart = Box<dyn FnOnce() -> Result<BenchRound, BenchError>>;
/// Runs a contender once, for about this long. Dropping the closure cleans up.
pub(crate) type BenchRound = Box<dyn FnMut(Duration) -> Result<BenchReading, BenchError>>;

/// A contender.
pub(crate) struct Contender {
    pub(crate) role: ContenderRole,
    pub(crate) name: &'static str,
    pub(crate) start: ContenderStart,
}

/// The figure that a goal bounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum GoalMetric {
    /// Our figure.
    Value,
    /// Our figure divided by that of the contender with this name.
    RatioTo(&'static str),
}

/// A goal.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct BenchGoal {
    pub(crate) metric: GoalMetric,
    /// The bound: the minimum for rates and ratios of rates, the maximum for everything else.
    pub(crate) bound: f64,
}

/// One row.
pub(crate) struct BenchRow {
    /// The name by which users select the row.
    pub(crate) id: String,
    /// What is measured, for human readers.
    pub(crate) title: String,
    pub(crate) unit: RowUnit,
    pub(crate) contenders: Vec<Contender>,
    pub(crate) goals: Vec<BenchGoal>,
    /// The row is measured once, for this duration, whatever the user requested: for a rate over 10
    /// s.
    pub(crate) once: Option<Duration>,
}

impl BenchRow {
    /// Creates a row without contenders and goals.
    pub(crate) fn new(id: impl Into<String>, title: impl Into<String>, unit: RowUnit) -> Self {
        let (contenders, goals) = (Vec::new(), Vec::new());
        Self { id: id.into(), title: title.into(), unit, contenders, goals, once: None }
    }

    /// Adds a contender.
    pub(crate) fn with(
        mut self,
        role: ContenderRole,
        name: &'static str,
        start: impl FnOnce() -> Result<BenchRound, BenchError> + 'static,
    ) -> Self {
        self.contenders.push(Contender { role, name, start: Box::new(start) });
        self
    }

    /// Adds a goal.
    pub(crate) fn goal(mut self, of: GoalMetric, bound: f64) -> Self {
        self.goals.push(BenchGoal { metric: of, bound });
        self
    }

    /// Makes the row measured only once, for this long.
    pub(crate) fn once(mut self, time: Duration) -> Self {
        self.once = Some(time);
        self
    }
}
