//! What waits for the line: the settings of `queue`.

use slipring_link::{Admit, Discipline, QueueSpec, RateSpec};
use slipring_model::aqm::{CoDelSpec, DualPi2Spec, FairSpec, PieSpec, RedSpec, RedUnit};

use super::error::ConfigError;
use super::files::Files;
use super::quantity;
use super::section::Section;
use super::theaterq::Trace;
use super::tree::{Node, Table, Value};

#[derive(Clone, Copy)]
enum Kind {
    DropTail,
    DropHead,
    Red,
    CoDel,
    Pie,
    FqCoDel,
    FqPie,
    DualPi2,
}

const KINDS: [(&str, Kind); 10] = [
    ("droptail", Kind::DropTail),
    ("fifo", Kind::DropTail),
    ("drophead", Kind::DropHead),
    ("red", Kind::Red),
    ("codel", Kind::CoDel),
    ("pie", Kind::Pie),
    ("fq_codel", Kind::FqCoDel),
    ("fq_pie", Kind::FqPie),
    ("dualpi2", Kind::DualPi2),
    // Said, unlike nothing at all: as many as come.
    ("none", Kind::DropTail),
];

const ADMIT: [(&str, Admit); 2] = [("strict", Admit::Strict), ("tlem", Admit::Tlem)];

/// Bytes that wait for a line of a constant rate at most, where nothing is said of them: TLEM's.
pub(crate) const USUAL_BYTES: u64 = 50_000;

/// That limit, if it is the one of a line: where neither a kind of queue nor a limit is given.
pub(super) fn usual_bytes(queue: Option<&Node>, rate: &RateSpec) -> Option<u64> {
    let says = |table: &Table| {
        ["kind", "bytes", "packets", "time", "trace"].iter().any(|key| table.get(key).is_some())
    };
    let said = matches!(queue, Some(Node { value: Value::Table(table), .. }) if says(table));
    (!said && matches!(rate, RateSpec::Constant { .. })).then_some(USUAL_BYTES)
}

/// Reads a queue.
pub(super) fn read(path: &str, node: &Node, files: &Files) -> Result<QueueSpec, ConfigError> {
    let mut section = Section::new(path, node)?;
    let traced = match section.has("trace") {
        true => Some(Trace::read(&mut section, "trace", files)?.limit()?),
        false => None,
    };
    let kind = section.word("kind", &KINDS)?.unwrap_or(Kind::DropTail);
    let admit = section.word("admit", &ADMIT)?.unwrap_or_default();
    let bytes = section.read("bytes", |path, node| limit(path, node, admit))?;
    let queue = QueueSpec {
        // As for TLEM, 0 is no limit.
        bytes: bytes.filter(|bytes| *bytes > 0),
        packets: section.count("packets")?.or(traced).filter(|packets| *packets > 0),
        delay_ns: section.time("time")?.filter(|time| *time > 0),
        admit,
        discipline: discipline(&mut section, kind)?,
        ecn: section.flag("ecn")?.unwrap_or(matches!(kind, Kind::DualPi2)),
        mark_above_ns: section.read("mark_above", quantity::full_time_ns)?,
    };
    section.finish()?;
    let limited = ["bytes", "packets", "time", "trace"].iter().any(|key| section.has(key));
    let packets = queue.packets.or(usual_packets(kind).filter(|_| !limited));
    Ok(QueueSpec { packets, ..queue })
}

/// Bytes that some frame fits into; a few are meant as packets.
fn limit(path: &str, node: &Node, admit: Admit) -> Result<u64, ConfigError> {
    let bytes = quantity::size_bytes(path, node)?;
    if matches!((bytes, admit), (0 | SHORTEST.., _) | (_, Admit::Tlem)) {
        return Ok(bytes);
    }
    let error = ConfigError::value(path, &node.shown(), "no frame fits into so few bytes");
    let help = format!("write {SHORTEST}B or more; for packets: droptail(packets={bytes})");
    Err(error.at(&node.place).help(help))
}

/// Bytes of the shortest frame.
const SHORTEST: u64 = slipring_link::SHORTEST_FRAME as u64;

/// The limit of those disciplines that do not keep a queue short by themselves where traffic does
/// not yield, if none is given: the defaults of Linux.
fn usual_packets(kind: Kind) -> Option<u64> {
    match kind {
        Kind::CoDel | Kind::Pie => Some(1000),
        Kind::FqCoDel | Kind::FqPie => Some(10_240),
        Kind::DualPi2 => Some(10_000),
        Kind::DropTail | Kind::DropHead | Kind::Red => None,
    }
}

fn discipline(section: &mut Section<'_>, kind: Kind) -> Result<Discipline, ConfigError> {
    Ok(match kind {
        Kind::DropTail => Discipline::DropTail,
        Kind::DropHead => Discipline::DropHead,
        Kind::Red => Discipline::Red(red(section)?),
        Kind::CoDel => Discipline::CoDel(codel(section)?),
        Kind::Pie => Discipline::Pie(pie(section)?),
        Kind::FqCoDel => Discipline::FqCoDel(fair(section)?, codel(section)?),
        Kind::FqPie => Discipline::FqPie(fair(section)?, pie(section)?),
        Kind::DualPi2 => Discipline::DualPi2(dualpi2(section)?),
    })
}

/// Thresholds in bytes, or in packets.
fn red(section: &mut Section<'_>) -> Result<RedSpec, ConfigError> {
    let usual = RedSpec::default();
    let sizes = (section.size("min")?, section.size("max")?);
    let packets = (section.real("min_packets")?, section.real("max_packets")?);
    let (unit, min, max) = match sizes {
        (None, None) => {
            let min = packets.0.unwrap_or(usual.min);
            (RedUnit::Packets, min, packets.1.unwrap_or(3.0 * min))
        }
        (Some(min), max) => {
            let max = max.unwrap_or(min.saturating_mul(3));
            (RedUnit::Bytes, min as f64, max as f64)
        }
        (None, Some(_)) => return Err(section.missing("min")),
    };
    Ok(RedSpec {
        unit,
        min,
        max,
        max_p: section.probability("max_p")?.unwrap_or(usual.max_p),
        weight: section.real("weight")?.unwrap_or(usual.weight),
        gentle: section.flag("gentle")?.unwrap_or(usual.gentle),
        ..usual
    })
}

fn codel(section: &mut Section<'_>) -> Result<CoDelSpec, ConfigError> {
    let usual = CoDelSpec::default();
    Ok(CoDelSpec {
        target_ns: section.time("target")?.unwrap_or(usual.target_ns),
        interval_ns: section.time("interval")?.unwrap_or(usual.interval_ns),
        ..usual
    })
}

fn pie(section: &mut Section<'_>) -> Result<PieSpec, ConfigError> {
    let usual = PieSpec::default();
    Ok(PieSpec {
        target_ns: section.time("target")?.unwrap_or(usual.target_ns),
        update_ns: section.time("update")?.unwrap_or(usual.update_ns),
        alpha: section.real("alpha")?.unwrap_or(usual.alpha),
        beta: section.real("beta")?.unwrap_or(usual.beta),
        max_burst_ns: section.time("max_burst")?.unwrap_or(usual.max_burst_ns),
        ..usual
    })
}

fn fair(section: &mut Section<'_>) -> Result<FairSpec, ConfigError> {
    let usual = FairSpec::default();
    Ok(FairSpec {
        flows: section.small("flows")?.unwrap_or(usual.flows),
        quantum: section.small("quantum")?.unwrap_or(usual.quantum),
        ..usual
    })
}

fn dualpi2(section: &mut Section<'_>) -> Result<DualPi2Spec, ConfigError> {
    let usual = DualPi2Spec::default();
    Ok(DualPi2Spec {
        target_ns: section.time("target")?.unwrap_or(usual.target_ns),
        update_ns: section.time("update")?.unwrap_or(usual.update_ns),
        alpha: section.real("alpha")?.unwrap_or(usual.alpha),
        beta: section.real("beta")?.unwrap_or(usual.beta),
        ramp_start_ns: section.time("step")?.unwrap_or(usual.ramp_start_ns),
        ramp_ns: section.time("ramp")?.unwrap_or(usual.ramp_ns),
        k: section.real("coupling")?.unwrap_or(usual.k),
        ..usual
    })
}
