//! Formats the parameters of active queue management as ipfw does.

use alloc::format;
use alloc::string::String;

use slipring_model::aqm::{CoDelSpec, DelaySource, FairSpec, PieSpec};

use super::number::{general, time};

pub(super) fn times(codel: &CoDelSpec) -> String {
    format!("target {} interval {}", time(codel.target_ns), time(codel.interval_ns))
}

pub(super) fn codel(codel: &CoDelSpec) -> String {
    format!("{} {}", times(codel), ecn(codel.ecn))
}

pub(super) const fn ecn(ecn: bool) -> &'static str {
    if ecn { "ECN" } else { "NoECN" }
}

/// Formats the parameters of flow queueing.
pub(super) fn fair(fair: &FairSpec) -> String {
    let FairSpec { quantum, limit_packets, flows, .. } = fair;
    format!(" quantum {quantum} limit {limit_packets} flows {flows}")
}

/// Formats PIE's parameters. `fair` is the text of flow queueing; it is inserted before the flags.
pub(super) fn pie(pie: &PieSpec, fair: &str) -> String {
    let times = format!("target {} tupdate {}", time(pie.target_ns), time(pie.update_ns));
    let gains = format!("alpha {} beta {}", general(pie.alpha, 6), general(pie.beta, 6));
    let burst = time(pie.max_burst_ns);
    let limits = format!("max_burst {burst} max_ecnth {}", general(pie.max_ecn_p, 3));
    let cap = if pie.cap { " CapDrop" } else { " NoCapDrop" };
    let on_off = if pie.wake_bytes > 0 { " OnOff" } else { "" };
    let from = if pie.delay_from == DelaySource::DepartureRate { " DRE" } else { " TS" };
    let derand = if pie.derandomize { " Derand" } else { " NoDerand" };
    let flags = format!("{}{cap}{on_off}{from}{derand}", ecn(pie.ecn));
    format!("{times} {gains} {limits}{fair} {flags}")
}
