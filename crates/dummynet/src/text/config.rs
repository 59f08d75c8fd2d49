//! Parses the parameters after `config`, which may be in any order, except that those of CoDel, PIE
//! and flow queueing come last.

use alloc::format;
use alloc::string::String;

use slipring_model::aqm::{CoDelSpec, FairSpec};

use super::caps::QueueCaps;
use super::cursor::{ShaperCursor, ShaperWord};
use super::error::ShaperTextError;
use super::number::{self, ParsedSize};
use super::{DummynetCommand, aqm, values};
use crate::flow::FlowMask;
use crate::spec::{
    AqmSpec, ObjectNumber, PipeLinkSpec, PipeSpec, PolicySpec, QueueLimit, SchedKind, SchedSpec,
    ShaperLoss, ShaperQueueSpec, ShaperRedSpec, ShareSpec,
};
use crate::{ObjectKind, ShaperConfig};

const MAX_DELAY_NS: u64 = 10_000_000_000;
const MIN_QUEUE_BYTES: u64 = 1500;
const PARAMETERS: &str = "a parameter: bw, delay, burst, profile, profile-values, queue, plr, \
                          mask, buckets, red, gred, codel, pie, ecn, droptail, noerror, weight, \
                          lmax, pri, pipe, sched or type";

/// Collects the parameters of a `config` command, for any kind of object.
#[derive(Default)]
struct ParameterReader {
    link: PipeLinkSpec,
    profile: Option<String>,
    policy: PolicySpec,
    mask: FlowMask,
    buckets: Option<u32>,
    share: ShareSpec,
    parent: Option<ObjectNumber>,
    kind: Option<SchedKind>,
    red: Option<UnresolvedRed>,
    ecn: bool,
}

/// RED's parameters, before it is known whether the command has the word `ecn`, which may come
/// later. With `ecn`, the two thresholds may be equal. `column` is the column that an error names.
struct UnresolvedRed {
    spec: ShaperRedSpec,
    column: usize,
}

pub(super) fn parse(
    cursor: &mut ShaperCursor<'_>,
    kind: ObjectKind,
    number: ObjectNumber,
    caps: &QueueCaps,
) -> Result<DummynetCommand, ShaperTextError> {
    let mut reading = ParameterReader::default();
    let mut last = None;
    while let Some(word) = cursor.take() {
        reading.parameter(word, cursor, (kind, number), caps)?;
        last = Some(word);
    }
    if let Some(last) = last {
        reading.resolve(last)?;
    }
    let ParameterReader {
        link, profile, policy, mask, buckets, share, parent, kind: sched, ..
    } = reading;
    let config = match kind {
        ObjectKind::Pipe => {
            ShaperConfig::Pipe(number, PipeSpec { link, policy, mask, buckets, kind: sched })
        }
        ObjectKind::Queue => {
            ShaperConfig::Queue(number, ShaperQueueSpec { parent, share, policy, mask, buckets })
        }
        ObjectKind::Sched => {
            ShaperConfig::Sched(number, SchedSpec { kind: sched, mask, buckets, policy })
        }
    };
    Ok(match profile {
        Some(file) => DummynetCommand::ConfigWithProfile(config, file),
        None => DummynetCommand::Config(config),
    })
}

impl ParameterReader {
    fn parameter(
        &mut self,
        word: ShaperWord<'_>,
        cursor: &mut ShaperCursor<'_>,
        (kind, number): (ObjectKind, ObjectNumber),
        caps: &QueueCaps,
    ) -> Result<(), ShaperTextError> {
        check_applicable(word, kind)?;
        match word.text {
            "bw" | "bandwidth" => self.link.bits_per_sec = number::rate(cursor.next("a rate")?)?,
            "delay" => self.link.delay_ns = number::time(cursor.next("a time")?, MAX_DELAY_NS)?,
            "burst" => self.link.burst_bytes = number::bytes(cursor.next("bytes")?)?,
            "profile" => self.profile = Some(cursor.next("the name of a file")?.text.into()),
            "profile-values" => {
                self.link.profile = Some(values::read(cursor.next("the values of a profile")?)?);
                self.profile = None;
            }
            "queue" => self.policy.limit = limit(cursor.next("a size")?, caps)?,
            "plr" => self.policy.loss = loss(cursor.next("a probability")?)?,
            "mask" | "flow_mask" | "sched_mask" => self.mask = mask(cursor)?,
            "buckets" => {
                let buckets = cursor.next("a number of buckets")?;
                let buckets = number::within(buckets, 0..=u32::MAX.into(), "buckets")? as u32;
                self.buckets = (buckets > 0).then(|| buckets.clamp(16, 65536));
            }
            "red" | "gred" => self.red(word, cursor.next("w_q/min_th/max_th/max_p")?)?,
            "codel" => self.aqm(AqmSpec::CoDel(aqm::codel(cursor)?)),
            "pie" => self.aqm(AqmSpec::Pie(aqm::pie(cursor)?)),
            "ecn" => self.ecn = true,
            "droptail" => self.aqm(AqmSpec::DropTail),
            "noerror" => self.policy.noerror = true,
            "weight" => self.share.weight = Some(count(cursor, word, 1 << 16)?),
            "lmax" | "maxlen" => self.share.lmax = Some(count(cursor, word, 65535)?),
            "pri" | "priority" => self.share.priority = Some(count(cursor, word, 63)?),
            "pipe" | "link" if kind == ObjectKind::Sched => own_pipe(cursor, number)?,
            "pipe" | "sched" | "link" => {
                self.parent = Some(number::object(cursor.next("a number")?)?);
            }
            "type" => self.kind = Some(sched_kind(cursor)?),
            _ => return Err(word.wrong(PARAMETERS)),
        }
        Ok(())
    }

    fn aqm(&mut self, aqm: AqmSpec) {
        self.policy.aqm = aqm;
        self.red = None;
    }

    fn red(&mut self, word: ShaperWord<'_>, value: ShaperWord<'_>) -> Result<(), ShaperTextError> {
        let wrong = || value.wrong("w_q/min_th/max_th/max_p, as in 0.002/5/15/0.1");
        let mut parts = value.text.split('/');
        let mut part = || parts.next().ok_or_else(wrong);
        let share = |text: &str| number::share(text, 0.0..=1.0).ok_or_else(wrong);
        let fixed = |share: f64| (share * f64::from(ShaperRedSpec::SCALE)) as u32;
        let weight = fixed(share(part()?)?);
        let min = threshold(part()?).ok_or_else(wrong)?;
        let max = threshold(part()?).ok_or_else(wrong)?;
        let max_p = fixed(share(part()?)?);
        if parts.next().is_some() {
            return Err(wrong());
        }
        if weight == 0 {
            return Err(value.error("w_q is below 1/65536", "0 < w_q <= 1"));
        }
        let gentle = word.text == "gred";
        let spec = ShaperRedSpec { weight, min, max, max_p, gentle, ecn: false };
        self.red = Some(UnresolvedRed { spec, column: value.column });
        Ok(())
    }

    /// Resolves the parameters that depend on each other. `last` is the last word of the command,
    /// for the position in errors.
    fn resolve(&mut self, last: ShaperWord<'_>) -> Result<(), ShaperTextError> {
        if let Some(UnresolvedRed { mut spec, column }) = self.red.take() {
            spec.ecn = self.ecn;
            let is_ordered = if spec.ecn { spec.min <= spec.max } else { spec.min < spec.max };
            if !is_ordered || spec.max == 0 {
                let (min, max) = (spec.min, spec.max);
                let what = format!("min_th {min} is not below max_th {max}");
                let expected = "min_th < max_th (with `ecn` they may be equal)".into();
                return Err(ShaperTextError { column, what, expected });
            }
            self.policy.aqm = AqmSpec::Red(spec);
        } else if self.ecn {
            match &mut self.policy.aqm {
                AqmSpec::CoDel(codel) => codel.ecn = true,
                AqmSpec::Pie(pie) => pie.ecn = true,
                AqmSpec::DropTail | AqmSpec::Red(_) => {
                    return Err(last.error("ecn without an algorithm", "red, gred, codel or pie"));
                }
            }
        }
        Ok(())
    }
}

/// Returns an error if a parameter belongs only to other kinds of objects.
fn check_applicable(word: ShaperWord<'_>, kind: ObjectKind) -> Result<(), ShaperTextError> {
    let only = match word.text {
        "bw" | "bandwidth" | "delay" | "burst" | "profile" | "profile-values"
            if kind != ObjectKind::Pipe =>
        {
            "pipes"
        }
        "pipe" | "link" if kind == ObjectKind::Sched => return Ok(()),
        "weight" | "lmax" | "maxlen" | "pri" | "priority" | "pipe" | "link" | "sched"
            if kind != ObjectKind::Queue =>
        {
            "queues"
        }
        "type" if kind == ObjectKind::Queue => "schedulers",
        _ => return Ok(()),
    };
    let what = format!("`{}` is only for {only}", word.text);
    Err(word.error(what, format!("a parameter of a {}", kind.name())))
}

/// Parses `pipe N` in the command of a scheduler. N must be the scheduler's own number, because a
/// scheduler always uses the link with its own number.
fn own_pipe(cursor: &mut ShaperCursor<'_>, number: ObjectNumber) -> Result<(), ShaperTextError> {
    let word = cursor.next("a number")?;
    let pipe = number::object(word)?;
    if pipe == number {
        return Ok(());
    }
    let what = format!("scheduler {number} has the link of pipe {number}, not of pipe {pipe}");
    Err(word.error(what, format!("`pipe {number}`, or `sched {pipe} config …`")))
}

fn count(
    cursor: &mut ShaperCursor<'_>,
    word: ShaperWord<'_>,
    most: u64,
) -> Result<u32, ShaperTextError> {
    let value = cursor.next("a number")?;
    Ok(number::within(value, 0..=most, word.text)? as u32)
}

fn limit(word: ShaperWord<'_>, caps: &QueueCaps) -> Result<QueueLimit, ShaperTextError> {
    match number::size(word)? {
        ParsedSize::Slots(0) => Ok(QueueLimit::default()),
        ParsedSize::Slots(slots) if slots <= caps.slots.into() => {
            Ok(QueueLimit::Slots(slots as u32))
        }
        ParsedSize::Bytes(bytes) if bytes <= caps.bytes.into() => {
            Ok(QueueLimit::Bytes(bytes.max(MIN_QUEUE_BYTES) as u32))
        }
        ParsedSize::Slots(_) => {
            let expected = format!("1 to {} slots (pipe_slot_limit)", caps.slots);
            Err(word.error(format!("a queue of {} slots is too large", word.text), expected))
        }
        ParsedSize::Bytes(_) => {
            let expected = format!("up to {} bytes (pipe_byte_limit)", caps.bytes);
            Err(word.error(format!("a queue of {} is too large", word.text), expected))
        }
    }
}

fn loss(word: ShaperWord<'_>) -> Result<ShaperLoss, ShaperTextError> {
    let wrong = || word.wrong("a probability from 0 to 1, or four: K,p,H,r");
    let mut parts = [0; 4];
    let mut given = 0;
    for text in word.text.split(',') {
        let p = number::share(text, 0.0..=1.0).ok_or_else(wrong)?;
        *parts.get_mut(given).ok_or_else(wrong)? = (p * f64::from(ShaperLoss::SCALE)) as u32;
        given += 1;
    }
    let [good, to_bad, bad, to_good] = parts;
    match given {
        1 if good == 0 => Ok(ShaperLoss::None),
        1 => Ok(ShaperLoss::Uniform(good)),
        4 => Ok(ShaperLoss::GilbertElliott { good, to_bad, bad, to_good }),
        _ => Err(wrong()),
    }
}

/// Parses a threshold of RED. A `K` at its end stands for 1024.
fn threshold(text: &str) -> Option<u32> {
    let (digits, scale) = match text.strip_suffix(['K', 'k']) {
        Some(digits) => (digits, 1024),
        None => (text, 1),
    };
    number::whole(digits)?.checked_mul(scale)?.try_into().ok()
}

fn sched_kind(cursor: &mut ShaperCursor<'_>) -> Result<SchedKind, ShaperTextError> {
    const KINDS: &str = "fifo, wf2q+, rr, qfq, prio, fq_codel or fq_pie";
    let word = cursor.next(KINDS)?;
    let is = |name: &str| word.text.eq_ignore_ascii_case(name);
    // dummynet's flow queueing drops only one packet at a time.
    let mut fair = FairSpec { drop_batch: 1, ..FairSpec::default() };
    if is("fq_codel") {
        let codel = aqm::codel_of(cursor, CoDelSpec::default(), Some(&mut fair))?;
        return Ok(SchedKind::FqCodel(fair, codel));
    }
    if is("fq_pie") {
        let pie = aqm::pie_of(cursor, aqm::default_pie(), Some(&mut fair))?;
        return Ok(SchedKind::FqPie(fair, pie));
    }
    let kinds = [
        ("fifo", SchedKind::Fifo),
        ("wf2q+", SchedKind::Wf2q),
        ("rr", SchedKind::Rr),
        ("drr", SchedKind::Rr),
        ("qfq", SchedKind::Qfq),
        ("prio", SchedKind::Prio),
    ];
    let found = kinds.into_iter().find(|(name, _)| is(name));
    found.map(|(_, kind)| kind).ok_or_else(|| word.wrong(KINDS))
}

fn mask(cursor: &mut ShaperCursor<'_>) -> Result<FlowMask, ShaperTextError> {
    const FIELDS: &str = "all, queue, or a field and its mask, as in src-ip 0x000000ff";
    let mut mask = FlowMask::NONE;
    let mut is_empty = true;
    while let Some(word) = cursor.peek() {
        match word.text {
            "all" => {
                cursor.take();
                return Ok(FlowMask { queue: mask.queue, ..FlowMask::ALL });
            }
            // If `queue` is followed by a size, this is the size of the queue. Otherwise `queue`
            // belongs to the mask.
            "queue" if !followed_by_size(cursor) => {
                cursor.take();
                mask.queue = true;
                return Ok(mask);
            }
            "dst-ip" | "src-ip" | "dst-port" | "src-port" | "proto" | "dst-ip6" | "src-ip6"
            | "dst-ipv6" | "src-ipv6" | "flow-id" => {
                cursor.take();
                field(&mut mask, word, cursor.next("a mask")?)?;
            }
            _ if is_empty => return Err(word.wrong(FIELDS)),
            _ => return Ok(mask),
        }
        is_empty = false;
    }
    if is_empty {
        cursor.next(FIELDS)?;
    }
    Ok(mask)
}

fn followed_by_size(cursor: &ShaperCursor<'_>) -> bool {
    let mut ahead = cursor.clone();
    ahead.take();
    ahead.peek().is_some_and(|word| number::size(word).is_ok())
}

fn field(
    mask: &mut FlowMask,
    name: ShaperWord<'_>,
    value: ShaperWord<'_>,
) -> Result<(), ShaperTextError> {
    let bits = match name.text {
        "dst-ip" | "src-ip" => 32,
        "dst-port" | "src-port" => 16,
        "proto" => 8,
        "flow-id" => 20,
        _ => return field6(mask, name, value),
    };
    let most = (1u64 << bits) - 1;
    let length = value.text.strip_prefix('/').map(number::whole);
    let found = match length {
        // As in dummynet, `/N` means the N lowest bits.
        Some(length) => length.filter(|&length| length <= bits).map(|n| (1u64 << n) - 1),
        None => number::whole(value.text).filter(|&value| value <= most),
    };
    let found = found.ok_or_else(|| value.wrong(format!("a mask of {bits} bits, 0x… or /N")))?;
    match name.text {
        "dst-ip" => mask.dst4 = found as u32,
        "src-ip" => mask.src4 = found as u32,
        "dst-port" => mask.dst_port = found as u16,
        "src-port" => mask.src_port = found as u16,
        "proto" => mask.proto = found as u8,
        _ => mask.flow_label = found as u32,
    }
    match name.text {
        "dst-ip" | "src-ip" => mask.shown_as_v6 = false,
        "flow-id" => mask.shown_as_v6 = true,
        _ => {}
    }
    Ok(())
}

/// Parses the mask of an IPv6 address, which is a prefix length.
fn field6(
    mask: &mut FlowMask,
    name: ShaperWord<'_>,
    value: ShaperWord<'_>,
) -> Result<(), ShaperTextError> {
    let text = value.text.strip_prefix('/').unwrap_or(value.text);
    let length = number::whole(text).filter(|&length| length <= 128);
    let length = length.ok_or_else(|| value.wrong("a length of a prefix from 0 to 128"))? as u32;
    let bits = u128::MAX.checked_shl(128 - length).unwrap_or(0);
    if name.text.starts_with("dst") {
        mask.dst6 = bits
    } else {
        mask.src6 = bits
    }
    mask.shown_as_v6 = true;
    Ok(())
}
