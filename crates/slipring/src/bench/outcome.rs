//! Measures a row and sums it up: contenders take turns, so that all of them see the same machine.

use std::time::Duration;

use super::measure::{Reading, Why};
use super::row::{Bout, Contender, Goal, Of, Role, Row, Unit};

/// How a row is measured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Effort {
    /// Turns of each contender.
    pub(crate) runs: u32,
    /// Time of each turn.
    pub(crate) time: Duration,
    /// Only ours.
    pub(crate) alone: bool,
}

/// All readings of one contender, or why there are none.
#[derive(Debug, Clone)]
pub(crate) struct Measured {
    pub(crate) role: Role,
    pub(crate) name: &'static str,
    pub(crate) readings: Result<Vec<Reading>, Why>,
}

/// A measured row.
#[derive(Debug, Clone)]
pub(crate) struct Outcome {
    pub(crate) id: String,
    pub(crate) title: String,
    pub(crate) unit: Unit,
    pub(crate) results: Vec<Measured>,
    pub(crate) goals: Vec<Goal>,
}

/// How a goal was kept.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Verdict {
    pub(crate) goal: Goal,
    /// What was reached; `None` where it could not be measured.
    pub(crate) reached: Option<f64>,
    pub(crate) met: bool,
}

/// One in the ring.
struct Fighter {
    bout: Option<Bout>,
    measured: Measured,
}

/// Measures a row; ends early once `stopped` says so.
pub(crate) fn measure(row: Row, effort: Effort, stopped: impl Fn() -> bool) -> Outcome {
    let (runs, time) = row.once.map_or((effort.runs, effort.time), |time| (1, time));
    let wanted = |contender: &Contender| !effort.alone || contender.role == Role::Ours;
    let contenders = row.contenders.into_iter().filter(wanted);
    let mut fighters: Vec<_> = contenders.map(Fighter::start).collect();
    if row.once.is_none() {
        // Caches, clocks and branch predictors settle.
        fighters.iter_mut().for_each(|fighter| fighter.warm_up(time / 4));
    }
    for _ in 0..runs {
        for fighter in &mut fighters {
            if !stopped() {
                fighter.take_turn(time);
            }
        }
    }
    let results = fighters.into_iter().map(|fighter| fighter.measured).collect();
    Outcome { id: row.id, title: row.title, unit: row.unit, results, goals: row.goals }
}

impl Fighter {
    fn start(contender: Contender) -> Self {
        let Contender { role, name, start } = contender;
        let (bout, readings) = match start() {
            Ok(bout) => (Some(bout), Ok(Vec::new())),
            Err(why) => (None, Err(why)),
        };
        Self { bout, measured: Measured { role, name, readings } }
    }

    fn warm_up(&mut self, time: Duration) {
        self.run(time);
    }

    fn take_turn(&mut self, time: Duration) {
        if let Some(reading) = self.run(time)
            && let Ok(readings) = &mut self.measured.readings
        {
            readings.push(reading);
        }
    }

    /// One that fails is out.
    fn run(&mut self, time: Duration) -> Option<Reading> {
        match self.bout.as_mut()?(time) {
            Ok(reading) => Some(reading),
            Err(why) => {
                self.measured.readings = Err(why);
                self.bout = None;
                None
            }
        }
    }
}

impl Measured {
    fn readings(&self) -> &[Reading] {
        self.readings.as_deref().unwrap_or_default()
    }

    /// The median of a figure over all runs.
    pub(crate) fn median(&self, figure: impl Fn(&Reading) -> Option<f64>) -> Option<f64> {
        median(self.readings().iter().filter_map(figure).collect())
    }

    /// The median of the main figure.
    pub(crate) fn value(&self) -> Option<f64> {
        self.median(|reading| Some(reading.value))
    }

    /// The least and the greatest value.
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

impl Outcome {
    /// Ours, which the others are compared with.
    fn ours(&self) -> Option<&Measured> {
        self.results.iter().find(|measured| measured.role == Role::Ours)
    }

    /// The median over the rounds of our figure by `other`'s.
    pub(crate) fn ratio_to(&self, other: &Measured) -> Option<f64> {
        let rounds = self.ours()?.readings().iter().zip(other.readings());
        median(rounds.map(|(ours, other)| ours.value / other.value).collect())
    }

    /// Each goal with what was reached.
    pub(crate) fn verdicts(&self) -> impl Iterator<Item = Verdict> {
        self.goals.iter().map(|&goal| {
            let reached = self.reached(goal.of);
            let met = reached.is_some_and(|reached| match self.unit {
                Unit::PacketsPerSec => reached >= goal.bound,
                Unit::Nanos | Unit::Bytes | Unit::Share | Unit::Packets => reached <= goal.bound,
            });
            Verdict { goal, reached, met }
        })
    }

    fn reached(&self, of: Of) -> Option<f64> {
        match of {
            Of::Value => self.ours()?.value(),
            Of::RatioTo(name) => {
                self.ratio_to(self.results.iter().find(|measured| measured.name == name)?)
            }
        }
    }

    /// Whether anything went wrong, or a goal that could be measured was missed.
    pub(crate) fn falls_short(&self) -> bool {
        let failed = |measured: &Measured| matches!(measured.readings, Err(Why::Failed(_)));
        let missed = |verdict: Verdict| verdict.reached.is_some() && !verdict.met;
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

    const EFFORT: Effort = Effort { runs: 3, time: Duration::ZERO, alone: false };

    fn steady(value: f64) -> impl FnOnce() -> Result<Bout, Why> {
        move || Ok(Box::new(move |_| Ok(Reading::of(value))))
    }

    #[test]
    fn contenders_take_turns() {
        let order = Rc::new(RefCell::new(String::new()));
        let noted = |letter: char| {
            let order = order.clone();
            move || -> Result<Bout, Why> {
                Ok(Box::new(move |_| {
                    order.borrow_mut().push(letter);
                    Ok(Reading::of(1.0))
                }))
            }
        };
        let row = Row::new("r", "", Unit::Nanos).with(Role::Ours, "o", noted('o'));
        measure(row.with(Role::Peer, "p", noted('p')), EFFORT, || false);
        assert_eq!(*order.borrow(), "opopopop", "one of each to warm up, then three");
    }

    #[test]
    fn a_contender_that_is_not_there_leaves_the_others_alone() {
        let missing = || Err(Why::Skipped("no such program".into()));
        let row = Row::new("r", "", Unit::PacketsPerSec)
            .with(Role::Ours, "o", steady(2.0))
            .with(Role::Peer, "p", missing)
            .goal(Of::RatioTo("p"), 1.0)
            .goal(Of::Value, 2.0);
        let outcome = measure(row, EFFORT, || false);
        let verdicts: Vec<_> = outcome.verdicts().map(|v| (v.reached, v.met)).collect();
        assert_eq!(verdicts, [(None, false), (Some(2.0), true)]);
        assert!(!outcome.falls_short(), "what cannot be measured is not missed");
    }

    #[test]
    fn a_rate_must_reach_its_goal_and_a_time_must_stay_below() {
        for (unit, bound, met) in [
            (Unit::PacketsPerSec, 4.0, true),
            (Unit::PacketsPerSec, 4.1, false),
            (Unit::Nanos, 4.0, true),
            (Unit::Nanos, 3.9, false),
        ] {
            let row = Row::new("r", "", unit).with(Role::Ours, "o", steady(8.0));
            let row = row.with(Role::Floor, "f", steady(2.0)).goal(Of::RatioTo("f"), bound);
            let outcome = measure(row, EFFORT, || false);
            assert_eq!(outcome.verdicts().next().unwrap().met, met, "{unit:?} {bound}");
            assert_eq!(outcome.falls_short(), !met);
        }
    }

    #[test]
    fn a_failure_falls_short_even_without_a_goal() {
        let broken = || -> Result<Bout, Why> { Ok(Box::new(|_| Err(Why::Failed("lost".into())))) };
        let row = Row::new("r", "", Unit::Nanos).with(Role::Ours, "o", broken);
        assert!(measure(row, EFFORT, || false).falls_short());
    }

    #[test]
    fn an_even_number_of_runs_has_its_median_between_two() {
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(vec![]), None);
    }
}
