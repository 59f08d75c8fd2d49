//! Models as text and as JSON figures.

use serde_json::{Value, json};
use slipring_cli::units::human;
use slipring_link::{Discipline, LossModel, MarkovState, MeterSpec, RateSpec, TraceEnd};
use slipring_model::{Chance, FourState, aqm};

use super::{bps, chance_text, probability, span};

pub(super) fn rate_model(rate: &RateSpec) -> (String, Value) {
    match rate {
        RateSpec::Unlimited => ("no limit".into(), json!({ "model": "none" })),
        RateSpec::Constant { bps: rate } => {
            (bps(*rate), json!({ "model": "const", "bits_per_sec": rate }))
        }
        RateSpec::Ramp { .. } | RateSpec::Sine { .. } | RateSpec::Markov { .. } => formula(rate),
        RateSpec::OrnsteinUhlenbeck { .. } | RateSpec::User(_) => formula(rate),
        RateSpec::Opportunities { at_ns, mtu, end } => {
            let period = at_ns.last().copied().unwrap_or(1).max(1);
            let mean = at_ns.len() as f64 * f64::from(*mtu) * 8e9 / period as f64;
            let text = format!(
                "trace of {} opportunities of {mtu} bytes in {}, {}, then {}",
                at_ns.len(),
                span(period),
                human::bits_per_sec(mean),
                trace_end_text(*end)
            );
            (text, json!({ "model": "trace", "mean_bits_per_sec": mean, "period_ns": period }))
        }
        RateSpec::Steps { steps, period_ns, end } => {
            // The first step applies from the start of the trace, regardless of its time.
            let begins = [0].into_iter().chain(steps.iter().skip(1).map(|step| step.at_ns));
            let ends = steps.iter().skip(1).map(|step| step.at_ns).chain([*period_ns]);
            let spans = steps.iter().zip(begins.zip(ends));
            let bits: f64 =
                spans.map(|(step, (begin, end))| step.bps as f64 * (end - begin) as f64).sum();
            let mean = bits / (*period_ns).max(1) as f64;
            let text = format!(
                "{} steps in {}, mean {}, then {}",
                steps.len(),
                span(*period_ns),
                human::bits_per_sec(mean),
                trace_end_text(*end)
            );
            (text, json!({ "model": "steps", "mean_bits_per_sec": mean, "period_ns": period_ns }))
        }
        RateSpec::Slots { bps: rate, period_ns, slots, .. } => {
            let open: u64 = slots.iter().map(|slot| slot.len_ns).sum();
            let mean = *rate as f64 * open as f64 / *period_ns as f64;
            let text = format!(
                "{} in {} slots of {}, mean {}",
                bps(*rate),
                slots.len(),
                span(*period_ns),
                human::bits_per_sec(mean)
            );
            (text, json!({ "model": "tdm", "mean_bits_per_sec": mean, "period_ns": period_ns }))
        }
    }
}

/// Describes what follows the end of a trace.
const fn trace_end_text(end: TraceEnd) -> &'static str {
    match end {
        TraceEnd::Loop => "from the start again",
        TraceEnd::Hold => "as it is at its end",
        TraceEnd::Once => "nothing more",
    }
}

/// Explains rates that follow a formula, a random process or a user's model.
fn formula(rate: &RateSpec) -> (String, Value) {
    match rate {
        RateSpec::Ramp { from_bps, to_bps, duration_ns, end, .. } => {
            let (from, to, time) = (bps(*from_bps), bps(*to_bps), span(*duration_ns));
            let value = json!({ "model": "ramp", "from": from_bps, "to": to_bps });
            (format!("from {from} to {to} in {time}, then {}", trace_end_text(*end)), value)
        }
        RateSpec::Sine { mean_bps, amplitude_bps, period_ns, .. } => {
            let (mean, amplitude) = (bps(*mean_bps), bps(*amplitude_bps));
            let text = format!("{mean} and up to {amplitude} off, every {}", span(*period_ns));
            (text, json!({ "model": "sine", "mean_bits_per_sec": mean_bps }))
        }
        RateSpec::Markov { states } => {
            let state =
                |state: &MarkovState| format!("{} for {}", bps(state.bps), span(state.mean_ns));
            let words: Vec<_> = states.iter().map(state).collect();
            (words.join(", "), json!({ "model": "markov", "states": states.len() }))
        }
        RateSpec::OrnsteinUhlenbeck {
            mean_bps, sd_bps, half_life_ns, min_bps, max_bps, ..
        } => {
            let text = format!(
                "mean {}, sd {}, half-life {}, from {} to {}",
                bps(*mean_bps),
                bps(*sd_bps),
                span(*half_life_ns),
                bps(*min_bps),
                bps(*max_bps)
            );
            (text, json!({ "model": "ou", "mean_bits_per_sec": mean_bps }))
        }
        _ => ("a model of the user's".into(), json!({ "model": "user" })),
    }
}

pub(super) fn meter(meter: &MeterSpec) -> (String, Value) {
    match meter {
        MeterSpec::Bucket { bps: rate, burst } => (
            format!("{} with bursts of {burst} bytes", bps(*rate)),
            json!({ "bits_per_sec": rate, "burst_bytes": burst }),
        ),
        MeterSpec::Rfc2698 { committed_bps, committed_burst, peak_bps, peak_burst } => {
            let text = format!(
                "{} with bursts of {committed_burst} bytes, at most {} with {peak_burst} (RFC 2698)",
                bps(*committed_bps),
                bps(*peak_bps)
            );
            (
                text,
                json!({ "committed_bits_per_sec": committed_bps, "peak_bits_per_sec": peak_bps }),
            )
        }
        MeterSpec::Rfc4115 { committed_bps, committed_burst, excess_bps, excess_burst } => {
            let text = format!(
                "{} with bursts of {committed_burst} bytes, and {} with {excess_burst} (RFC 4115)",
                bps(*committed_bps),
                bps(*excess_bps)
            );
            let value = json!({
                "committed_bits_per_sec": committed_bps, "excess_bits_per_sec": excess_bps,
            });
            (text, value)
        }
    }
}

pub(super) fn loss_model(model: &LossModel) -> (String, Value) {
    match model {
        LossModel::Bernoulli(chance) => {
            let p = probability(*chance);
            (chance_text(*chance), json!({ "model": "plr", "probability": p, "mean_loss": p }))
        }
        LossModel::Ber(ber) => {
            let of_1500 = -f64::exp_m1(1500.0 * 8.0 * f64::ln_1p(-ber));
            let text = format!("each bit with {ber:e}: {of_1500:.3e} of frames of 1500 bytes");
            (text, json!({ "model": "ber", "ber": ber, "mean_loss_of_1500": of_1500 }))
        }
        LossModel::GilbertElliott { p, r, bad, good } => {
            let in_bad = if p + r > 0.0 { p / (p + r) } else { 0.0 };
            let mean = in_bad * bad + (1.0 - in_bad) * good;
            let burst = 1.0 / r;
            let text = format!(
                "bursts of {burst:.3} frames in the bad state, mean loss {mean:.6}, {}",
                bad_words(in_bad)
            );
            let value = json!({ "mean_loss": mean, "mean_burst": burst, "bad_share": in_bad });
            (text, with_model_name("ge", value))
        }
        LossModel::TimedGilbertElliott { good_ns, bad_ns, bad, good } => {
            let in_bad = *bad_ns as f64 / (*bad_ns as f64 + *good_ns as f64);
            let mean = in_bad * bad + (1.0 - in_bad) * good;
            let (time, share) = (span(*bad_ns), bad_words(in_bad));
            let text = format!("bad for {time} at a time, mean loss {mean:.6}, {share}");
            (text, with_model_name("timed-ge", json!({ "mean_loss": mean, "bad_share": in_bad })))
        }
        LossModel::Pattern(bits) => {
            let lost = bits.iter().filter(|lost| **lost).count();
            let text = format!("{lost} of every {} frames", bits.len());
            let mean = lost as f64 / bits.len() as f64;
            (text, json!({ "model": "pattern", "mean_loss": mean, "period": bits.len() }))
        }
        LossModel::Nth { every, nth } => {
            let text = format!("number {nth} of every {every} frames");
            (text, json!({ "model": "nth", "mean_loss": 1.0 / *every as f64 }))
        }
        LossModel::FourState { p13, p31, p32, p23, p14 } => {
            let mut text =
                format!("four states: p13 {p13}, p31 {p31}, p32 {p32}, p23 {p23}, p14 {p14}");
            let [a, b, c, d, e] = [p13, p31, p32, p23, p14].map(|p| Chance::from_f64(*p));
            let chain = a.zip(b).zip(c).zip(d).zip(e);
            let chain = chain.and_then(|((((a, b), c), d), e)| FourState::new(a, b, c, d, e).ok());
            let Some(chain) = chain else { return (text, json!({ "model": "state4" })) };
            let (mean, burst) = (chain.expected_loss(), chain.mean_burst());
            text += &format!(", mean loss {mean:.6}, {burst:.3} in a row");
            (text, with_model_name("state4", json!({ "mean_loss": mean, "mean_burst": burst })))
        }
        LossModel::Numbers(numbers) => {
            let text = format!("{} frames by their number", numbers.len());
            (text, json!({ "model": "numbers", "frames": numbers.len() }))
        }
        LossModel::ByTime { windows, period_ns } => {
            let again = period_ns.map_or(String::new(), |ns| format!(", again every {}", span(ns)));
            let text = format!("in {} spans of time{again}", windows.len());
            (text, json!({ "model": "time", "windows": windows.len(), "period_ns": period_ns }))
        }
        LossModel::User(_) => ("a model of the user's".into(), json!({ "model": "user" })),
    }
}

/// Describes the share of frames, or of time, in the bad state.
fn bad_words(share: f64) -> String {
    format!("{:.4} % of all in the bad state", share * 100.0)
}

/// Adds the name of the model to its figures.
fn with_model_name(model: &str, mut value: Value) -> Value {
    value["model"] = json!(model);
    value
}

pub(super) fn discipline(discipline: &Discipline) -> String {
    let codel = |codel: &aqm::CoDelSpec| {
        format!("target {}, interval {}", span(codel.target_ns), span(codel.interval_ns))
    };
    let pie = |pie: &aqm::PieSpec| {
        format!("target {}, update {}", span(pie.target_ns), span(pie.update_ns))
    };
    match discipline {
        Discipline::DropTail => "droptail".into(),
        Discipline::DropHead => "drophead".into(),
        Discipline::Red(red) => {
            let unit = if red.unit == aqm::RedUnit::Bytes { "bytes" } else { "packets" };
            format!("red from {} to {} {unit}, at most {}", red.min, red.max, red.max_p)
        }
        Discipline::CoDel(spec) => format!("codel, {}", codel(spec)),
        Discipline::Pie(spec) => format!("pie, {}", pie(spec)),
        Discipline::FqCoDel(fair, spec) => {
            format!("fq_codel, {} flows, {}", fair.flows, codel(spec))
        }
        Discipline::FqPie(fair, spec) => format!("fq_pie, {} flows, {}", fair.flows, pie(spec)),
        Discipline::DualPi2(dual) => {
            let (target, step) = (span(dual.target_ns), span(dual.ramp_start_ns));
            format!("dualpi2, target {target}, L4S marks from {step}")
        }
    }
}
