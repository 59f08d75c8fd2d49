//! `-M delay[,bps[,hold]]`: limits that no setting may exceed. They apply to the settings at the
//! start and to every change during the run, from flags, a file, `[[at]]`, a script, the control
//! socket, or an undo.

use clap::ArgMatches;
use slipring_cli::codes::SR0002;
use slipring_cli::units::human;
use slipring_cli::{Diagnostic, Failure};
use slipring_link::{DelayModel, LinkSpec, NetworkSpec, RateSpec, TraceEnd};

use super::classic;
use super::config::greatest_delay_ns;
use super::config::quantity as units;
use super::config::tree::ConfigNode;

const NANOS_PER_MS: u64 = 1_000_000;

/// Upper bounds for the delay, the rate and the time for which frames are held back; `None` is
/// unbounded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ChangeBounds {
    pub delay_ns: Option<u64>,
    pub bps: Option<u64>,
    pub hold_ns: Option<u64>,
}

impl ChangeBounds {
    /// Parses the value of `-M`. Without the flag, nothing is bounded.
    ///
    /// # Errors
    /// [`Failure`] if the value is not valid for `-M`.
    pub fn of(matches: &ArgMatches) -> Result<Self, Failure> {
        let mut bounds = Self::default();
        let Some(text) = matches.get_one::<String>("bounds") else { return Ok(bounds) };
        let mut at = 0;
        for (position, word) in text.split(',').enumerate() {
            let node = ConfigNode::text(word, classic::flag(matches, "-M").advanced_by(at));
            at += word.chars().count() + 1;
            match position {
                0 => bounds.delay_ns = Some(units::time_ns("the greatest delay", &node)?),
                1 => bounds.bps = Some(units::rate_bps("the greatest rate", &node)?),
                2 => bounds.hold_ns = Some(units::time_ns("the longest hold", &node)?),
                _ => {
                    let error = Diagnostic::new(SR0002, format!("`{text}` does not fit -M"));
                    return Err(error.with_help("write it as delay[,bps[,hold]]").into());
                }
            }
        }
        Ok(bounds)
    }

    /// Returns an error if a change exceeds a bound. If the rate is bounded, a link that has no
    /// rate limit may stay unlimited, but a change must not remove a rate limit.
    ///
    /// # Errors
    /// [`Failure`] that names the first link that exceeds a bound.
    pub fn allow_change(&self, from: &NetworkSpec, to: &NetworkSpec) -> Result<(), Failure> {
        let opened = from.links.iter().zip(&to.links).find(|(from, to)| {
            from.spec.rate != RateSpec::Unlimited && to.spec.rate == RateSpec::Unlimited
        });
        match opened.filter(|_| self.bps.is_some()) {
            Some((_, link)) => Err(refusal(&link.spec, "rate", "it would have none")),
            None => self.allow(to),
        }
    }

    /// Returns an error if a network exceeds a bound. The bound of the rate does not apply to links
    /// without a rate limit.
    ///
    /// # Errors
    /// [`Failure`] that names the first link that exceeds a bound.
    pub fn allow(&self, network: &NetworkSpec) -> Result<(), Failure> {
        let refused = network.links.iter().find_map(|link| Some((link, self.excess(&link.spec)?)));
        let Some((link, (what, cause))) = refused else { return Ok(()) };
        Err(refusal(&link.spec, what, &cause))
    }

    /// Returns which value of a link exceeds a bound, and the cause for the error.
    fn excess(&self, link: &LinkSpec) -> Option<(&'static str, String)> {
        let beyond = |most: Option<u64>, asked: Option<u64>| {
            most.is_some_and(|most| asked.is_none_or(|asked| asked > most))
        };
        let (delay, rate) = (longest_delay_ns(link), fastest_bps(&link.rate));
        let bps = self.bps.filter(|_| link.rate != RateSpec::Unlimited);
        let hold = link.hold.as_ref().map_or(0, |hold| hold.hold_ns);
        if beyond(self.delay_ns, delay) {
            Some(("delay", bound_text(delay.map(span), "nobody knows how long it may be")))
        } else if beyond(bps, rate) {
            Some((
                "rate",
                bound_text(
                    rate.map(|bps| human::bits_per_sec(bps as f64)),
                    "nobody knows how great it may be",
                ),
            ))
        } else if beyond(self.hold_ns, Some(hold)) {
            Some(("hold", bound_text(Some(span(hold)), "")))
        } else {
            None
        }
    }
}

fn refusal(link: &LinkSpec, what: &str, cause: &str) -> Failure {
    let error = Diagnostic::new(SR0002, format!("the {what} of {} is beyond its bound", link.name));
    let error = error.with_cause(format!("{cause}; -M bounds what may be asked for"));
    error.with_help("start with a greater -M delay[,bps[,hold]], or ask for less").into()
}

fn bound_text(figure: Option<String>, none: &str) -> String {
    figure.map_or_else(|| none.to_owned(), |figure| format!("it may be {figure}"))
}

fn span(ns: u64) -> String {
    human::span(std::time::Duration::from_nanos(ns))
}

/// Returns the result of `greatest_delay_ns` for a link; `None` if its delay model is a user's
/// model.
fn longest_delay_ns(link: &LinkSpec) -> Option<u64> {
    match link.delay.model {
        DelayModel::User(_) => None,
        _ => Some(greatest_delay_ns(link)),
    }
}

/// Returns the highest rate that a line can have at any time, in bits per second; `None` if the
/// rate is unlimited or a user's model determines it.
fn fastest_bps(rate: &RateSpec) -> Option<u64> {
    match rate {
        RateSpec::Unlimited | RateSpec::User(_) => None,
        RateSpec::Constant { bps } | RateSpec::Slots { bps, .. } => Some(*bps),
        RateSpec::Opportunities { at_ns, mtu, end } => {
            Some(fullest_millisecond_bps(at_ns, *mtu, *end))
        }
        RateSpec::Steps { steps, .. } => steps.iter().map(|step| step.bps).max(),
        RateSpec::Ramp { from_bps, to_bps, .. } => Some(*from_bps.max(to_bps)),
        RateSpec::Sine { mean_bps, amplitude_bps, .. } => {
            Some(mean_bps.saturating_add(*amplitude_bps))
        }
        RateSpec::Markov { states } => states.iter().map(|state| state.bps).max(),
        RateSpec::OrnsteinUhlenbeck { max_bps, .. } => Some(*max_bps),
    }
}

/// Returns the rate in bits per second of a trace of delivery opportunities, in the millisecond
/// that has the most opportunities. If the trace repeats, this may be across its end.
fn fullest_millisecond_bps(at_ns: &[u64], mtu: u32, end: TraceEnd) -> u64 {
    let period_ns = at_ns.last().copied().unwrap_or(0);
    let again = at_ns.iter().take_while(|&&at| end == TraceEnd::Loop && at < NANOS_PER_MS);
    let again = again.map(|at| period_ns.saturating_add(*at));
    let at_ns: Vec<u64> = at_ns.iter().copied().chain(again).collect();
    let mut first = 0;
    let counts = at_ns.iter().enumerate().map(|(last, at)| {
        while at - at_ns[first] >= NANOS_PER_MS {
            first += 1;
        }
        (last - first + 1) as u64
    });
    counts.max().unwrap_or(0).saturating_mul(u64::from(mtu) * 8 * 1000)
}

#[cfg(test)]
mod tests {
    use slipring_cli::Diagnose;

    use super::super::config::EmulationConfig;
    use super::*;

    fn network(up: &str) -> NetworkSpec {
        let text = format!(
            "[ports.left]\n[ports.right]\n[link.up]\nfrom = \"left\"\nto = \"right\"\n{up}\n"
        );
        EmulationConfig::parse("link.toml", &text).unwrap().network().unwrap()
    }

    fn refused(bounds: ChangeBounds, up: &str) -> Option<String> {
        match bounds.allow(&network(up)) {
            Ok(()) => None,
            Err(Failure::Error(error)) => Some(error.summary()),
            Err(Failure::ReaderLeft) => panic!("nothing is written"),
        }
    }

    #[test]
    fn every_kind_of_rate_is_held_to_its_bound() {
        let dir = tempfile::tempdir().unwrap();
        let (dense, steps) = (dir.path().join("a.mm"), dir.path().join("b.csv"));
        std::fs::write(&dense, "1\n1\n5\n").unwrap();
        std::fs::write(&steps, "time_s,rate_mbit\n0,1\n1,30\n").unwrap();
        let seam = dir.path().join("c.mm");
        std::fs::write(&seam, "0\n5\n").unwrap();
        let (dense, seam, steps) = (dense.display(), seam.display(), steps.display());
        let bounds = ChangeBounds { bps: Some(20_000_000), ..ChangeBounds::default() };
        let too_fast = "the rate of up is beyond its bound";
        for (rate, allowed) in [
            ("\"20Mbit\"".to_owned(), true),
            ("\"20001kbit\"".to_owned(), false),
            ("\"none\"".to_owned(), true),
            ("\"sine(15Mbit, 5Mbit, 10s)\"".to_owned(), true),
            ("\"sine(15Mbit, 6Mbit, 10s)\"".to_owned(), false),
            ("\"ramp(1Mbit, 21Mbit, 10s)\"".to_owned(), false),
            ("\"ramp(21Mbit, 1Mbit, 10s)\"".to_owned(), false),
            ("\"markov(1Mbit:1s, 30Mbit:1s)\"".to_owned(), false),
            ("\"ou(15Mbit, 1Mbit, 1s)\"".to_owned(), false),
            ("\"ou(15Mbit, 1Mbit, 1s, max=20Mbit)\"".to_owned(), true),
            ("\"tdm(30Mbit, 10ms, 1ms)\"".to_owned(), false),
            // Two delivery opportunities of 1500 bytes within a millisecond are 24 Mbit/s, whatever
            // the mean rate of the trace.
            (format!("{{ trace = \"{dense}\", mtu = 1500 }}"), false),
            (format!("{{ trace = \"{dense}\", mtu = 1250 }}"), true),
            // The end of a trace and its next beginning can be in one millisecond.
            (format!("{{ trace = \"{seam}\", mtu = 1500 }}"), false),
            (format!("{{ trace = \"{seam}\", mtu = 1500, end = \"hold\" }}"), true),
            (format!("\"steps({steps})\""), false),
        ] {
            let message = refused(bounds, &format!("rate = {rate}"));
            assert_eq!(message.as_deref(), (!allowed).then_some(too_fast), "{rate}");
        }
    }

    #[test]
    fn a_line_without_a_rate_may_stay_so_but_none_comes_to_have_none() {
        let bounds = ChangeBounds { bps: Some(20_000_000), ..ChangeBounds::default() };
        let (open, shut) = (network(""), network("rate = \"10Mbit\""));
        assert!(bounds.allow(&open).is_ok());
        assert!(bounds.allow_change(&open, &open).is_ok());
        assert!(bounds.allow_change(&open, &shut).is_ok());
        assert!(bounds.allow_change(&shut, &open).is_err());
        assert!(ChangeBounds::default().allow_change(&shut, &open).is_ok());
    }

    #[test]
    fn every_kind_of_delay_and_hold_is_held_to_its_bound() {
        let bounds = ChangeBounds {
            delay_ns: Some(50_000_000),
            hold_ns: Some(5_000_000),
            ..ChangeBounds::default()
        };
        for (settings, what) in [
            ("delay = \"50ms\"", None),
            ("delay = \"51ms\"", Some("delay")),
            ("delay = \"uniform(1ms, 51ms)\"", Some("delay")),
            ("delay = \"uniform(1ms, 49ms)\"", None),
            ("delay = \"exp(1ms, 10ms)\"", Some("delay")),
            ("delay = \"normal(20ms, 3ms, max=50ms)\"", None),
            ("delay = \"inter-packet(1ms, 40ms, 20ms)\"", Some("delay")),
            ("hold = \"const(0.1, 5ms)\"", None),
            ("hold = \"const(0.1, 6ms)\"", Some("hold")),
        ] {
            let message = refused(bounds, settings);
            let want = what.map(|what| format!("the {what} of up is beyond its bound"));
            assert_eq!(message, want, "{settings}");
        }
    }
}
