//! The settings of `queue`.

use slipring_link::{AdmitPolicy, Discipline, LinkQueueSpec, RateSpec};
use slipring_model::aqm::{CoDelSpec, DualPi2Spec, FairSpec, PieSpec, RedSpec, RedUnit};

use super::error::EmulationConfigError;
use super::files::ConfigFiles;
use super::quantity;
use super::section::ConfigSection;
use super::theaterq::TheaterqTrace;
use super::tree::{ConfigNode, ConfigTable, ConfigValue};

#[derive(Clone, Copy)]
enum QueueSetting {
    DropTail,
    DropHead,
    Red,
    CoDel,
    Pie,
    FqCoDel,
    FqPie,
    DualPi2,
}

const QUEUE_KINDS: [(&str, QueueSetting); 10] = [
    ("droptail", QueueSetting::DropTail),
    ("fifo", QueueSetting::DropTail),
    ("drophead", QueueSetting::DropHead),
    ("red", QueueSetting::Red),
    ("codel", QueueSetting::CoDel),
    ("pie", QueueSetting::Pie),
    ("fq_codel", QueueSetting::FqCoDel),
    ("fq_pie", QueueSetting::FqPie),
    ("dualpi2", QueueSetting::DualPi2),
    // Unlike a queue without this setting, an explicit `none` gets no default limit.
    ("none", QueueSetting::DropTail),
];

const ADMIT_MODES: [(&str, AdmitPolicy); 2] =
    [("strict", AdmitPolicy::Strict), ("tlem", AdmitPolicy::Tlem)];

/// Default queue limit, in bytes, of a line whose setting `rate` is constant. TLEM has the same
/// default.
pub(crate) const DEFAULT_QUEUE_BYTES: u64 = 50_000;

/// Returns the default limit in bytes; `None` if the user gives a kind of queue or a limit, or the
/// rate is not constant.
pub(super) fn usual_bytes(queue: Option<&ConfigNode>, rate: &RateSpec) -> Option<u64> {
    let says = |table: &ConfigTable| {
        ["kind", "bytes", "packets", "time", "trace"].iter().any(|key| table.get(key).is_some())
    };
    let given =
        matches!(queue, Some(ConfigNode { value: ConfigValue::Table(table), .. }) if says(table));
    (!given && matches!(rate, RateSpec::Constant { .. })).then_some(DEFAULT_QUEUE_BYTES)
}

/// Reads a queue.
pub(super) fn read(
    path: &str,
    node: &ConfigNode,
    files: &ConfigFiles,
) -> Result<LinkQueueSpec, EmulationConfigError> {
    let mut section = ConfigSection::new(path, node)?;
    let traced = match section.has("trace") {
        true => Some(TheaterqTrace::read(&mut section, "trace", files)?.limit()?),
        false => None,
    };
    let kind = section.one_of("kind", &QUEUE_KINDS)?.unwrap_or(QueueSetting::DropTail);
    let admit = section.one_of("admit", &ADMIT_MODES)?.unwrap_or_default();
    let bytes = section.read("bytes", |path, node| limit(path, node, admit))?;
    let queue = LinkQueueSpec {
        // As in TLEM, 0 means no limit.
        bytes: bytes.filter(|bytes| *bytes > 0),
        packets: section.count("packets")?.or(traced).filter(|packets| *packets > 0),
        delay_ns: section.time("time")?.filter(|time| *time > 0),
        admit,
        discipline: discipline(&mut section, kind)?,
        ecn: section.flag("ecn")?.unwrap_or(matches!(kind, QueueSetting::DualPi2)),
        mark_above_ns: section.read("mark_above", quantity::full_time_ns)?,
    };
    section.finish()?;
    let limited = ["bytes", "packets", "time", "trace"].iter().any(|key| section.has(key));
    let packets = queue.packets.or(usual_packets(kind).filter(|_| !limited));
    Ok(LinkQueueSpec { packets, ..queue })
}

/// Reads a limit in bytes. A limit below the length of the shortest frame, other than 0, is an
/// error, since the user probably meant packets. With TLEM's rule of admission, any limit is
/// allowed.
fn limit(path: &str, node: &ConfigNode, admit: AdmitPolicy) -> Result<u64, EmulationConfigError> {
    let bytes = quantity::size_bytes(path, node)?;
    if matches!((bytes, admit), (0 | MIN_FRAME_BYTES.., _) | (_, AdmitPolicy::Tlem)) {
        return Ok(bytes);
    }
    let error = EmulationConfigError::value(path, &node.shown(), "no frame fits into so few bytes");
    let help = format!("write {MIN_FRAME_BYTES}B or more; for packets: droptail(packets={bytes})");
    Err(error.at(&node.location).help(help))
}

/// Bytes of the shortest frame.
const MIN_FRAME_BYTES: u64 = slipring_link::MIN_FRAME_LEN as u64;

/// Returns Linux's default limit in packets for the disciplines that need one, because they cannot
/// bound the queue if senders do not slow down. `None` for other disciplines.
fn usual_packets(kind: QueueSetting) -> Option<u64> {
    match kind {
        QueueSetting::CoDel | QueueSetting::Pie => Some(1000),
        QueueSetting::FqCoDel | QueueSetting::FqPie => Some(10_240),
        QueueSetting::DualPi2 => Some(10_000),
        QueueSetting::DropTail | QueueSetting::DropHead | QueueSetting::Red => None,
    }
}

fn discipline(
    section: &mut ConfigSection<'_>,
    kind: QueueSetting,
) -> Result<Discipline, EmulationConfigError> {
    Ok(match kind {
        QueueSetting::DropTail => Discipline::DropTail,
        QueueSetting::DropHead => Discipline::DropHead,
        QueueSetting::Red => Discipline::Red(read_red(section)?),
        QueueSetting::CoDel => Discipline::CoDel(codel(section)?),
        QueueSetting::Pie => Discipline::Pie(pie(section)?),
        QueueSetting::FqCoDel => Discipline::FqCoDel(fair(section)?, codel(section)?),
        QueueSetting::FqPie => Discipline::FqPie(fair(section)?, pie(section)?),
        QueueSetting::DualPi2 => Discipline::DualPi2(dualpi2(section)?),
    })
}

/// Reads the settings of RED, whose thresholds are in bytes or in packets.
fn read_red(section: &mut ConfigSection<'_>) -> Result<RedSpec, EmulationConfigError> {
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

fn codel(section: &mut ConfigSection<'_>) -> Result<CoDelSpec, EmulationConfigError> {
    let usual = CoDelSpec::default();
    Ok(CoDelSpec {
        target_ns: section.time("target")?.unwrap_or(usual.target_ns),
        interval_ns: section.time("interval")?.unwrap_or(usual.interval_ns),
        ..usual
    })
}

fn pie(section: &mut ConfigSection<'_>) -> Result<PieSpec, EmulationConfigError> {
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

fn fair(section: &mut ConfigSection<'_>) -> Result<FairSpec, EmulationConfigError> {
    let usual = FairSpec::default();
    Ok(FairSpec {
        flows: section.count_u32("flows")?.unwrap_or(usual.flows),
        quantum: section.count_u32("quantum")?.unwrap_or(usual.quantum),
        ..usual
    })
}

fn dualpi2(section: &mut ConfigSection<'_>) -> Result<DualPi2Spec, EmulationConfigError> {
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
