//! Measures a row and summarizes it. The contenders take turns, so that all have the same
//! conditions.

use std::time::Duration;

use super::measure::{BenchError, BenchReading};
use super::row::{BenchGoal, BenchRound, BenchRow, Contender, ContenderRole, GoalMetric, RowUnit};

/// How long and how often each contender is measured. The field `once` of a row takes precedence.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BenchEffort {
    /// Number of turns of each contender.
    pub(crate) runs: u32,
    /// Duration of each turn.
    pub(crate) time: Duration,
    /// Whether only our contenders are measured.
    pub(crate) alone: bool,
}

/// All readings of a contender, or why there are none.
#[derive(Debug, Clone)]
pub(crate) struct ContenderResult {
    pub(crate) role: ContenderRole,
    pub(crate) name: &'static str,
    pub(crate) readings: Result<Vec<BenchReading>, BenchError>,
}

/// A measured row.
#[derive(Debug, Clone)]
pub(crate) struct RowResult {
    pub(crate) id: String,
    pub(crate) title: String,
    pub(crate) unit: RowUnit,
    pub(crate) results: Vec<ContenderResult>,
    pub(crate) goals: Vec<BenchGoal>,
}

/// A goal, and whether it was met.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct GoalVerdict {
    pub(crate) goal: BenchGoal,
    /// The value that was reached; `None` if it was not measured.
    pub(crate) reached: Option<f64>,
    pub(crate) met: bool,
}

/// A contender that is being measured.
struct ContenderRun {
    round: Option<BenchRound>,
    measured: ContenderResult,
}

/// Measures a row. Once `stopped` returns true, no further turn begins.
pub(crate) fn measure(row: BenchRow, effort: BenchEffort, stopped: impl Fn() -> bool) -> RowResult {
    let (runs, time) = row.once.map_or((effort.runs, effort.time), |time| (1, time));
    let wanted = |contender: &Contender| !effort.alone || contender.role == ContenderRole::Ours;
    let contenders = row.contenders.into_iter().filter(wanted);
    let mut fighters: Vec<_> = contenders.map(ContenderRun::start).collect();
    if row.once.is_none() {
        // The warm-up lets caches, clocks and branch predictors settle.
        fighters.iter_mut().for_each(|fighter| fighter.warm_up(time / 4));
    }
    for _ in 0..runs {
        for fighter in &mut fighters {
            if !stopped() {
                fighter.run_round(time);
            }
        }
    }
    let results = fighters.into_iter().map(|fighter| fighter.measured).collect();
    RowResult { id: row.id, title: row.title, unit: row.unit, results, goals: row.goals }
}

impl ContenderRun {
    fn start(contender: Contender) -> Self {
        let Contender { role, name, start } = contender;
        let (round, readings) = match start() {
            Ok(bout) => (Some(bout), Ok(Vec::new())),
            Err(why) => (None, Err(why)),
        };
        Self { round, measured: ContenderResult { role, name, readings } }
    }

    fn warm_up(&mut self, time: Duration) {
        self.run(time);
    }

    fn run_round(&mut self, time: Duration) {
        if let Some(reading) = self.run(time)
            && let Ok(readings) = &mut self.measured.readings
        {
            readings.push(reading);
        }
    }

    /// Runs the contender once. If it fails, it is not run again.
    fn run(&mut self, time: Duration) -> Option<BenchReading> {
        match self.round.as_mut()?(time) {
            Ok(reading) => Some(reading),
            Err(why) => {
                self.measured.readings = Err(why);
                self.round = None;
                None
            }
        }
    }
}

impl ContenderResult {
    fn readings(&self) -> &[BenchReading] {
        self.readings.as_deref().unwrap_or_default()
    }

    /// Returns the median of a figure over all runs.
    pub(crate) fn median(&self, figure: impl Fn(&BenchReading) -> Option<f64>) -> Option<f64> {
        median(self.readings().iter().filter_map(figure).collect())
    }

    /// The median of the main figure.
    pub(crate) fn value(&self) -> Option<f64> {
        self.median(|reading| Some(reading.value))
    }

    /// Returns the minimum and the maximum of the main figure; `None` if there are no readings.
    pub(crate) fn spread(&self) -> Option<(f64, f64)> {
        let values = self.readings().iter().map(|reading| reading.value);
        let least = values.clone().min_by(f64::total_cmp)?;
        Some((least, values.max_by(f64::total_cmp)?))
    }

    /// The median of a further figure.
    pub(crate) fn extra(&self, name: &str) -> Option<f64> {
        self.median(|reading| reading.extra.iter().find(|(n, _)| *n == name).map(|(_, v)| *v))
    }

    /// The names of all further figures.
    pub(crate) fn extras(&self) -> impl Iterator<Item = &'static str> {
        self.readings().first().into_iter().flat_map(|first| first.extra.iter().map(|(n, _)| *n))
    }
}

impl RowResult {
    /// Returns our contender, with which the others are compared.
    fn ours(&self) -> Option<&ContenderResult> {
        self.results.iter().find(|measured| measured.role == ContenderRole::Ours)
    }

    /// Returns our figure divided by that of `other`: the median of this quotient over all rounds.
    pub(crate) fn ratio_to(&self, other: &ContenderResult) -> Option<f64> {
        let rounds = self.ours()?.readings().iter().zip(other.readings());
        median(rounds.map(|(ours, other)| ours.value / other.value).collect())
    }

    /// Returns the verdict on each goal.
    pub(crate) fn verdicts(&self) -> impl Iterator<Item = GoalVerdict> {
        self.goals.iter().map(|&goal| {
            let reached = self.reached(goal.metric);
            let met = reached.is_some_and(|reached| match self.unit {
                RowUnit::PacketsPerSec => reached >= goal.bound,
                RowUnit::Nanos | RowUnit::Bytes | RowUnit::Share | RowUnit::Packets => {
                    reached <= goal.bound
                }
            });
            GoalVerdict { goal, reached, met }
        })
    }

    fn reached(&self, of: GoalMetric) -> Option<f64> {
        match of {
            GoalMetric::Value => self.ours()?.value(),
            GoalMetric::RatioTo(name) => {
                self.ratio_to(self.results.iter().find(|measured| measured.name == name)?)
            }
        }
    }

    /// Returns whether a contender has failed, or a goal that was measured was missed.
    pub(crate) fn falls_short(&self) -> bool {
        let failed =
            |measured: &ContenderResult| matches!(measured.readings, Err(BenchError::Failed(_)));
        let missed = |verdict: GoalVerdict| verdict.reached.is_some() && !verdict.met;
        self.results.iter().any(failed) || self.verdicts().any(missed)
    }
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        n if n % 2 == 1 => Some(values[middle]),
        _ => Some(f64::midpoint(values[middle - 1], values[middle])),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use super::*;

    const EFFORT: BenchEffort = BenchEffort { runs: 3, time: Duration::ZERO, alone: false };

    fn steady(value: f64) -> impl FnOnce() -> Result<BenchRound, BenchError> {
        move || Ok(Box::new(move |_| Ok(BenchReading::of(value))))
    }

    #[test]
    fn contenders_take_turns() {
        let order = Rc::new(RefCell::new(String::new()));
        let noted = |letter: char| {
            let order = order.clone();
            move || -> Result<BenchRound, BenchError> {
                Ok(Box::new(move |_| {
                    order.borrow_mut().push(letter);
                    Ok(BenchReading::of(1.0))
                }))
            }
        };
        let row = BenchRow::new("r", "", RowUnit::Nanos).with(ContenderRole::Ours, "o", noted('o'));
        measure(row.with(ContenderRole::Peer, "p", noted('p')), EFFORT, || false);
        assert_eq!(*order.borrow(), "opopopop", "one of each to warm up, then three");
    }

    #[test]
    fn a_contender_that_is_not_there_leaves_the_others_alone() {
        let missing = || Err(BenchError::Skipped("no such program".into()));
        let row = BenchRow::new("r", "", RowUnit::PacketsPerSec)
            .with(ContenderRole::Ours, "o", steady(2.0))
            .with(ContenderRole::Peer, "p", missing)
            .goal(GoalMetric::RatioTo("p"), 1.0)
            .goal(GoalMetric::Value, 2.0);
        let outcome = measure(row, EFFORT, || false);
        let verdicts: Vec<_> = outcome.verdicts().map(|v| (v.reached, v.met)).collect();
        assert_eq!(verdicts, [(None, false), (Some(2.0), true)]);
        assert!(!outcome.falls_short(), "what cannot be measured is not missed");
    }

    #[test]
    fn a_rate_must_reach_its_goal_and_a_time_must_stay_below() {
        for (unit, bound, met) in [
            (RowUnit::PacketsPerSec, 4.0, true),
            (RowUnit::PacketsPerSec, 4.1, false),
            (RowUnit::Nanos, 4.0, true),
            (RowUnit::Nanos, 3.9, false),
        ] {
            let row = BenchRow::new("r", "", unit).with(ContenderRole::Ours, "o", steady(8.0));
            let row = row
                .with(ContenderRole::Floor, "f", steady(2.0))
                .goal(GoalMetric::RatioTo("f"), bound);
            let outcome = measure(row, EFFORT, || false);
            assert_eq!(outcome.verdicts().next().unwrap().met, met, "{unit:?} {bound}");
            assert_eq!(outcome.falls_short(), !met);
        }
    }

    #[test]
    fn a_failure_falls_short_even_without_a_goal() {
        let broken = || -> Result<BenchRound, BenchError> {
            Ok(Box::new(|_| Err(BenchError::Failed("lost".into()))))
        };
        let row = BenchRow::new("r", "", RowUnit::Nanos).with(ContenderRole::Ours, "o", broken);
        assert!(measure(row, EFFORT, || false).falls_short());
    }

    #[test]
    fn an_even_number_of_runs_has_its_median_between_two() {
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(vec![]), None);
    }
}
