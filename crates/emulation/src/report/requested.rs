//! The requested behaviour of a link after rounding, for comparison with the measured behaviour.

use serde::Serialize;
use slipring_cli::units::human;
use slipring_link::{
    BitErrorSpec, CorruptSpec, DelayModel, DelaySpec, Discipline, DuplicateSpec, Framing,
    LineCells, LinkQueueSpec, LinkSpec, LossModel, LossPosition, LossSpec, MangleEdit, MangleSpec,
    MeterSpec, OrderPolicy, PoliceAction, PoliceSpec, RateSpec,
};

use std::time::Duration;

/// The settings of a link as text, and as a number where a setting is a single number.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct RequestedLink {
    /// The rate of the line.
    pub rate: String,
    /// The rate in bits per second including framing; `None` if it is not constant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_bps: Option<u64>,
    /// The queue: limits and discipline.
    pub queue: String,
    /// The propagation delay.
    pub delay: String,
    /// Mean, standard deviation and quantiles of the delay, in ns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_ns: Option<DelayQuantiles>,
    /// The order policy.
    pub order: &'static str,
    /// Losses before and after the queue.
    pub loss: String,
    /// The policer's rates and actions and, if it has only one bucket, the burst; `None` if there
    /// is no policer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub police: Option<String>,
    /// Which frames are held back so that other frames overtake them; `None` if none are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hold: Option<String>,
    /// Which bytes of frames are overwritten, and how; `None` if none are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mangle: Option<String>,
    /// How often bits are inverted; `None` if they are not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub corrupt: Option<String>,
    /// How often frames are duplicated; `None` if they are not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duplicate: Option<String>,
    /// The dummynet profile, which gives the extra time that frames occupy the line; `None` if
    /// there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// Time that is subtracted from every delay; `None` if nothing is subtracted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offset: Option<String>,
    /// The mean share of frames (0 to 1) that all loss models together drop; `None` if it is not
    /// computed for one of the models, for example because it depends on the frames.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss_share: Option<f64>,
}

/// Figures of a requested distribution of delays, in ns.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct DelayQuantiles {
    pub mean: f64,
    pub sd: f64,
    pub p50: f64,
    pub p99: f64,
    pub p999: f64,
}

impl RequestedLink {
    /// Describes a link.
    pub fn of(link: &LinkSpec) -> Self {
        Self {
            rate: rate(&link.rate) + framing(&link.framing).as_str(),
            rate_bps: match link.rate {
                RateSpec::Constant { bps } => Some(bps),
                _ => None,
            },
            queue: queue(&link.queue),
            delay: delay(&link.delay),
            delay_ns: quantiles(&link.delay.model),
            order: order(link.order),
            loss: losses(&link.loss),
            police: link.police.as_ref().map(police),
            hold: link.hold.map(|hold| {
                format!("{} for {}", percent(hold.chance.to_f64()), time(hold.hold_ns))
            }),
            mangle: link
                .mangle
                .as_ref()
                .map(|mangle| mangled(mangle) + " in " + &percent(mangle.chance.to_f64())),
            corrupt: link.corrupt.as_ref().map(corrupt),
            duplicate: link.duplicate.as_ref().map(duplicate),
            profile: link.profile.as_ref().map(|profile| {
                let kept = percent(profile.loss_level);
                format!("{} times on the line, {kept} arrive", profile.samples_ns.len())
            }),
            offset: offset(link),
            loss_share: share(&link.loss),
        }
    }
}

fn police(police: &PoliceSpec) -> String {
    let bps = |bps: u64| human::bits_per_sec(bps as f64);
    let action = |action: PoliceAction| match action {
        PoliceAction::Pass => "passed",
        PoliceAction::Mark => "marked",
        PoliceAction::Drop => "dropped",
    };
    let (exceed, violate) = (action(police.exceed), action(police.violate));
    match police.meter {
        MeterSpec::Bucket { bps: rate, burst } => {
            format!("{}, bursts of {burst} B, above {exceed}", bps(rate))
        }
        MeterSpec::Rfc2698 { committed_bps, peak_bps, .. } => {
            format!("{}, above {exceed}, from {} {violate}", bps(committed_bps), bps(peak_bps))
        }
        MeterSpec::Rfc4115 { committed_bps, excess_bps, .. } => {
            let top = committed_bps.saturating_add(excess_bps);
            format!("{}, above {exceed}, from {} {violate}", bps(committed_bps), bps(top))
        }
    }
}

/// Describes which bytes are overwritten, and how.
pub(crate) fn mangled(mangle: &MangleSpec) -> String {
    let at = mangle.at;
    let text = match &mangle.edit {
        MangleEdit::Set(bytes) => format!("{} bytes from {at} set", bytes.len()),
        MangleEdit::Invert(mask) => format!("bits of {} bytes from {at} inverted", mask.len()),
        MangleEdit::Random(count) => format!("{count} bytes from {at} random"),
    };
    if mangle.fix_checksum { text + ", checksums mended" } else { text }
}

fn corrupt(corrupt: &CorruptSpec) -> String {
    let text = match corrupt.errors {
        BitErrorSpec::Ber(ber) => format!("bit error rate {ber:e}"),
        BitErrorSpec::Burst { chance, bits: 1 } => format!("{}, one bit", percent(chance.to_f64())),
        BitErrorSpec::Burst { chance, bits } => {
            format!("{}, {bits} bits", percent(chance.to_f64()))
        }
    };
    if corrupt.fix_checksum { text + ", checksums mended" } else { text }
}

fn duplicate(duplicate: &DuplicateSpec) -> String {
    let mut text = percent(duplicate.chance.to_f64());
    if duplicate.copies > 1 {
        text += &format!(", {} copies", duplicate.copies);
    }
    match duplicate.after_ns {
        0 => text,
        after_ns => text + &format!(", {} later", time(after_ns)),
    }
}

/// Describes the times that are subtracted from the delay: the fixed cost of the emulator, and the
/// time that the outgoing wire takes for the frame.
fn offset(link: &LinkSpec) -> Option<String> {
    let fixed = (link.offset_ns > 0).then(|| time(link.offset_ns));
    let wire = link
        .output_bps
        .map(|bps| format!("the time on a wire of {}", human::bits_per_sec(bps as f64)));
    let parts: Vec<_> = [fixed, wire].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(" and ") + " less")
}

fn rate(rate: &RateSpec) -> String {
    let bps = |bps: u64| human::bits_per_sec(bps as f64);
    match rate {
        RateSpec::Unlimited => "unlimited".to_owned(),
        RateSpec::Constant { bps: rate } => bps(*rate),
        RateSpec::Opportunities { at_ns, mtu, .. } => {
            let (count, round_ns) = (at_ns.len() as f64, at_ns.last().copied().unwrap_or(1));
            let mean = count * f64::from(*mtu) * 8e9 / round_ns.max(1) as f64;
            format!("trace of {} opportunities, {} mean", at_ns.len(), human::bits_per_sec(mean))
        }
        RateSpec::Steps { steps, period_ns, .. } => {
            format!("{} steps in {}", steps.len(), time(*period_ns))
        }
        RateSpec::Slots { bps: rate, period_ns, slots, .. } => {
            format!("{} in {} slots of {}", bps(*rate), slots.len(), time(*period_ns))
        }
        RateSpec::Ramp { from_bps, to_bps, duration_ns, .. } => {
            format!("{} to {} in {}", bps(*from_bps), bps(*to_bps), time(*duration_ns))
        }
        RateSpec::Sine { mean_bps, amplitude_bps, period_ns, .. } => {
            format!("{} +- {} each {}", bps(*mean_bps), bps(*amplitude_bps), time(*period_ns))
        }
        RateSpec::Markov { states } => format!("{} states at random", states.len()),
        RateSpec::OrnsteinUhlenbeck { mean_bps, sd_bps, .. } => {
            format!("wanders, {} sd {}", bps(*mean_bps), bps(*sd_bps))
        }
        RateSpec::User(_) => "a model of yours".to_owned(),
    }
}

fn framing(framing: &Framing) -> String {
    let mut text = String::new();
    match framing.overhead_bytes {
        0 => {}
        24 => text += ", ether",
        bytes => text += &format!(", {bytes:+} B a frame"),
    }
    if framing.min_frame > 0 {
        text += &format!(", at least {} B", framing.min_frame);
    }
    match framing.cells {
        LineCells::None => {}
        LineCells::Atm => text += ", ATM cells",
        LineCells::Docsis { minislot } => text += &format!(", minislots of {minislot} B"),
    }
    text
}

fn queue(queue: &LinkQueueSpec) -> String {
    let discipline = match queue.discipline {
        Discipline::DropTail => "drop tail",
        Discipline::DropHead => "drop head",
        Discipline::Red(_) => "RED",
        Discipline::CoDel(_) => "CoDel",
        Discipline::Pie(_) => "PIE",
        Discipline::FqCoDel(..) => "FQ-CoDel",
        Discipline::FqPie(..) => "FQ-PIE",
        Discipline::DualPi2(_) => "DualPI2",
    };
    let bytes = queue.bytes.map(|bytes| format!("{bytes} B"));
    let packets = queue.packets.map(|packets| format!("{packets} packets"));
    let delay = queue.delay_ns.map(time);
    let limits: Vec<_> = [bytes, packets, delay].into_iter().flatten().collect();
    let limits = if limits.is_empty() { "no limit".to_owned() } else { limits.join(", ") };
    let ecn = if queue.ecn || queue.mark_above_ns.is_some() { ", ECN" } else { "" };
    format!("{discipline}, {limits}{ecn}")
}

fn delay(delay: &DelaySpec) -> String {
    let text = match &delay.model {
        DelayModel::Constant(ns) => time(*ns),
        DelayModel::Random(dist) => dist.describe(),
        DelayModel::InTurn(delays) => format!("{} delays in turn", delays.len()),
        DelayModel::Trace { steps, period_ns, .. } => {
            format!("{} steps in {}", steps.len(), time(*period_ns))
        }
        DelayModel::InterPacket { min_gap_ns, max_gap_ns, delay_ns } => {
            let (min, max) = (time(*min_gap_ns), time(*max_gap_ns));
            format!("{} and gaps of {min} to {max}", time(*delay_ns))
        }
        DelayModel::User(_) => "a model of yours".to_owned(),
    };
    match delay.half_life_ns {
        Some(half_life_ns) => format!("{text}, half-life {}", time(half_life_ns)),
        None => text,
    }
}

fn quantiles(model: &DelayModel) -> Option<DelayQuantiles> {
    let flat = |ns: u64| {
        let ns = ns as f64;
        DelayQuantiles { mean: ns, sd: 0.0, p50: ns, p99: ns, p999: ns }
    };
    match model {
        DelayModel::Constant(ns) => Some(flat(*ns)),
        DelayModel::Random(dist) => Some(DelayQuantiles {
            mean: dist.mean_ns(),
            sd: dist.sd_ns(),
            p50: dist.quantile_ns(0.5),
            p99: dist.quantile_ns(0.99),
            p999: dist.quantile_ns(0.999),
        }),
        _ => None,
    }
}

fn order(order: OrderPolicy) -> &'static str {
    match order {
        OrderPolicy::Strict => "strict",
        OrderPolicy::Correlated => "correlated",
        OrderPolicy::Free => "free",
        OrderPolicy::Drop => "drop",
        OrderPolicy::Path => "path",
    }
}

fn losses(losses: &[LossSpec]) -> String {
    if losses.is_empty() {
        return "none".to_owned();
    }
    let texts: Vec<_> = losses.iter().map(loss).collect();
    texts.join(" and ")
}

fn loss(loss: &LossSpec) -> String {
    let text = match &loss.model {
        LossModel::Bernoulli(chance) => percent(chance.to_f64()),
        LossModel::Ber(ber) => format!("bit error rate {ber:e}"),
        LossModel::Pattern(pattern) => format!("pattern of {}", pattern.len()),
        LossModel::Nth { every, nth } => format!("number {nth} of {every}"),
        LossModel::Numbers(numbers) => format!("{} by number", numbers.len()),
        LossModel::ByTime { windows, .. } => format!("{} windows of time", windows.len()),
        LossModel::User(_) => "a model of yours".to_owned(),
        model => {
            let mean = model_share(model).map_or(String::new(), |share| percent(share) + " ");
            format!("{mean}in bursts")
        }
    };
    match loss.position {
        LossPosition::Pre => text,
        LossPosition::Post => text + " after the line",
    }
}

/// Returns the share of frames (0 to 1) that the models lose together, if they act independently
/// and one after the other; `None` if [`model_share`] returns `None` for any of them.
fn share(losses: &[LossSpec]) -> Option<f64> {
    let kept = |kept: f64, loss: &LossSpec| Some(kept * (1.0 - model_share(&loss.model)?));
    losses.iter().try_fold(1.0, kept).map(|kept| 1.0 - kept)
}

/// Returns the mean share of frames (0 to 1) that a model drops; `None` if it is not computed: for
/// models whose share depends on the frames, the time or the user's code, and for the model with
/// four states.
fn model_share(model: &LossModel) -> Option<f64> {
    match model {
        LossModel::Bernoulli(chance) => Some(chance.to_f64()),
        LossModel::GilbertElliott { p, r, bad, good } if p + r > 0.0 => {
            Some((r * good + p * bad) / (p + r))
        }
        LossModel::TimedGilbertElliott { good_ns, bad_ns, bad, good } => {
            let (good_ns, bad_ns) = (*good_ns as f64, *bad_ns as f64);
            Some((good_ns * good + bad_ns * bad) / (good_ns + bad_ns))
        }
        LossModel::Pattern(pattern) => {
            let lost = pattern.iter().filter(|lost| **lost).count();
            Some(lost as f64 / pattern.len().max(1) as f64)
        }
        LossModel::Nth { every, .. } => Some(1.0 / *every as f64),
        _ => None,
    }
}

/// Formats a share (0 to 1) as `0.1 %`, with as many digits as necessary.
pub(super) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    match percent {
        0.0 => "0 %".to_owned(),
        p if p < 1e-4 => format!("{p:.3e} %"),
        p => format!("{} %", (p * 1e6).round() / 1e6),
    }
}

/// Formats a time as `20 ms`.
pub(super) fn time(ns: u64) -> String {
    human::span(Duration::from_nanos(ns))
}

#[cfg(test)]
mod tests {
    use slipring_model::Chance;

    use super::*;

    #[test]
    fn a_link_is_told_in_few_words() {
        let link = LinkSpec {
            rate: RateSpec::Constant { bps: 10_000_000_000 },
            framing: Framing::ETHER,
            queue: LinkQueueSpec { bytes: Some(50_000), ..LinkQueueSpec::default() },
            delay: DelaySpec::constant(20_000_000),
            loss: vec![LossSpec::bernoulli(Chance::from_ratio(1, 100).unwrap())],
            ..LinkSpec::wire("up")
        };
        let asked = RequestedLink::of(&link);
        assert_eq!(asked.rate, "10 Gbit/s, ether");
        assert_eq!(asked.queue, "drop tail, 50000 B");
        assert_eq!(
            (asked.delay.as_str(), asked.order, asked.loss.as_str()),
            ("20 ms", "strict", "1 %")
        );
    }

    #[test]
    fn losses_one_behind_the_other_multiply_what_they_leave() {
        let half = LossSpec::bernoulli(Chance::from_ratio(1, 2).unwrap());
        let bursts = LossSpec {
            model: LossModel::GilbertElliott { p: 0.01, r: 0.25, bad: 1.0, good: 0.0 },
            position: LossPosition::Post,
        };
        let share = share(&[half, bursts]).unwrap();
        assert!((share - (1.0 - 0.5 * (1.0 - 0.01 / 0.26))).abs() < 1e-12, "{share}");
    }

    #[test]
    fn a_tiny_chance_is_not_told_as_none() {
        assert_eq!(percent(1e-15), "1.000e-13 %");
        assert_eq!(percent(0.001), "0.1 %");
    }
}
