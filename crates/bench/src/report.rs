//! The table: either as text while rows are measured, or as JSON at the end.

use serde_json::{Value, json};

use super::measure::BenchReading;
use super::outcome::{BenchEffort, ContenderResult, GoalVerdict, RowResult};
use super::row::{GoalMetric, RowUnit};

/// The machine on which the rows are measured, and how they are measured.
pub(crate) struct BenchHeader {
    pub(crate) command: String,
    pub(crate) cpu: String,
    pub(crate) cpus: usize,
    pub(crate) kernel: String,
    pub(crate) load: String,
    pub(crate) priority: &'static str,
    pub(crate) effort: BenchEffort,
}

impl BenchHeader {
    /// Reads what is known about the machine from `/proc`.
    pub(crate) fn current(command: String, effort: BenchEffort, priority: &'static str) -> Self {
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        let (cpuinfo, load) = (read("/proc/cpuinfo"), read("/proc/loadavg"));
        let model = cpuinfo.lines().find(|line| line.starts_with("model name"));
        let model =
            model.and_then(|line| line.split_once(": ")).map_or("unknown", |(_, name)| name);
        Self {
            command,
            cpu: model.to_owned(),
            cpus: cpuinfo.lines().filter(|line| line.starts_with("processor")).count(),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            load: load.split(' ').next().unwrap_or_default().to_owned(),
            priority,
            effort,
        }
    }

    /// The lines above the table.
    pub(crate) fn text(&self) -> String {
        let Self { command, cpu, cpus, kernel, load, priority, effort } = self;
        format!(
            "# {command}\n# slipring {}, {cpu}, {cpus} CPUs, Linux {kernel}, load {load}\n\
             # median of {} runs of {:?}, contenders in turn; {priority}; feeder on CPU 0, program on CPU 1\n\
             {:<48} {:<6} {:<22} {:>12} {:>12} {:>25} {:>7}\n",
            env!("CARGO_PKG_VERSION"),
            effort.runs,
            effort.time,
            "ROW",
            "",
            "WHO",
            "MEDIAN",
            "PER CPU-S",
            "LEAST..GREATEST",
            "OURS/IT",
        )
    }

    /// The machine and the method as JSON.
    pub(crate) fn json(&self) -> Value {
        json!({
            "cpu": self.cpu, "cpus": self.cpus, "kernel": self.kernel, "load": self.load,
            "priority": self.priority, "runs": self.effort.runs,
            "run_ns": self.effort.time.as_nanos() as u64,
        })
    }
}

/// Returns the lines of a row: one per contender, and one per goal.
pub(crate) fn text(outcome: &RowResult) -> String {
    let mut text = String::new();
    for (i, measured) in outcome.results.iter().enumerate() {
        let title = if i == 0 { outcome.title.as_str() } else { "" };
        text += &format!("{title:<48} {:<6} {:<22} ", measured.role.name(), measured.name);
        text += &figures(outcome, measured, i == 0);
        text.push('\n');
    }
    for verdict in outcome.verdicts() {
        text += &format!("{:<48} {}\n", "", goal(outcome.unit, verdict));
    }
    text
}

fn figures(outcome: &RowResult, measured: &ContenderResult, first: bool) -> String {
    let unit = outcome.unit;
    let (Some(value), Some((least, greatest))) = (measured.value(), measured.spread()) else {
        return measured
            .readings
            .as_ref()
            .err()
            .map_or_else(|| "stopped".into(), ToString::to_string);
    };
    let per_cpu = measured.median(|reading| reading.per_cpu_second);
    let per_cpu = per_cpu.map_or_else(|| "-".to_owned(), |rate| unit.show(rate));
    let spread = format!("{}..{}", unit.show(least), unit.show(greatest));
    let ratio = outcome.ratio_to(measured).filter(|_| !first);
    let ratio = ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}"));
    let mut line = format!("{:>12} {per_cpu:>12} {spread:>25} {ratio:>7}", unit.show(value));
    for name in measured.extras() {
        if let Some(extra) = measured.extra(name) {
            line += &format!("  {name} {}", show_extra(unit, name, extra));
        }
    }
    line.trim_end().to_owned()
}

/// Formats a further figure in the unit of its row. In every row, figures whose names end with
/// `cpu` are formatted as shares, and those whose names end with `per batch` as numbers.
fn show_extra(unit: RowUnit, name: &str, value: f64) -> String {
    if name.ends_with("per batch") {
        return format!("{value:.3}");
    }
    if name.ends_with("cpu") { RowUnit::Share.show(value) } else { unit.show(value) }
}

fn goal(unit: RowUnit, GoalVerdict { goal, reached, met }: GoalVerdict) -> String {
    let (sign, shown) = match (unit, goal.metric) {
        (RowUnit::PacketsPerSec, GoalMetric::RatioTo(name)) => {
            (">=", format!("{:.2} x {name}", goal.bound))
        }
        (_, GoalMetric::RatioTo(name)) => ("<=", format!("{:.2} x {name}", goal.bound)),
        (RowUnit::PacketsPerSec, GoalMetric::Value) => (">=", unit.show(goal.bound)),
        (_, GoalMetric::Value) => ("<=", unit.show(goal.bound)),
    };
    let word = match (reached, met) {
        (None, _) => "not measured",
        (_, true) => "met",
        (_, false) => "MISSED",
    };
    format!("goal {sign} {shown}: {word}")
}

/// Returns a row as JSON, with the main figure of every reading.
pub(crate) fn json(outcome: &RowResult) -> Value {
    let contenders: Vec<_> = outcome.results.iter().map(|m| contender(outcome, m)).collect();
    let goals: Vec<_> =
        outcome.verdicts().map(|verdict| goal_json(outcome.unit, verdict)).collect();
    json!({
        "row": outcome.id, "title": outcome.title, "unit": outcome.unit.name(),
        "contenders": contenders, "goals": goals,
    })
}

fn contender(outcome: &RowResult, measured: &ContenderResult) -> Value {
    let readings = match &measured.readings {
        Ok(readings) => readings,
        Err(why) => {
            return json!({
                "name": measured.name, "role": measured.role.name(), "absent": why.to_string(),
            });
        }
    };
    let values: Vec<_> = readings.iter().map(|reading| reading.value).collect();
    let extra: serde_json::Map<_, _> = measured
        .extras()
        .map(|name| (name.replace(' ', "_"), json!(measured.extra(name))))
        .collect();
    json!({
        "name": measured.name, "role": measured.role.name(), "median": measured.value(),
        "per_cpu_second": measured.median(per_cpu), "runs": values,
        "ours_by_it": outcome.ratio_to(measured), "also": extra,
    })
}

fn per_cpu(reading: &BenchReading) -> Option<f64> {
    reading.per_cpu_second
}

fn goal_json(unit: RowUnit, GoalVerdict { goal, reached, met }: GoalVerdict) -> Value {
    let (of, against) = match goal.metric {
        GoalMetric::Value => ("value".to_owned(), None),
        GoalMetric::RatioTo(name) => ("ratio".to_owned(), Some(name)),
    };
    let bound = if unit == RowUnit::PacketsPerSec { "at_least" } else { "at_most" };
    json!({ "of": of, "against": against, bound: goal.bound, "reached": reached, "met": met })
}
