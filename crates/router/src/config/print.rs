//! Writes the settings of a plan as a file.

use std::fmt::Display;
use std::path::absolute;

use slipring_cli::config::quoted;
use slipring_port::WaitStrategy;
use slipring_route::PuntClass;

use crate::named_vrfs::NamedVrf;
use crate::plan::RoutePlan;
use crate::policers::InterfacePolicer;
use crate::source_checks::{self, SourceCheck};

/// Returns the text of a file from which [`RouterConfig::read`](super::RouterConfig::read) reads
/// this plan.
pub(crate) fn print(plan: &RoutePlan) -> String {
    let (engine, live) = (&plan.engine, &plan.live);
    let wait = match engine.wait {
        WaitStrategy::Spin => "always",
        WaitStrategy::Sleep => "never",
        WaitStrategy::Adaptive(_) => "adaptive",
    };
    let interfaces: Vec<_> = plan.interfaces.iter().map(|name| quoted(name)).collect();
    let rules = plan.rules.as_ref().map(|path| absolute(path).unwrap_or_else(|_| path.clone()));
    let rules = rules.map(|path| quoted(&path.display().to_string()));
    let rates = PuntClass::ALL.iter().zip(live.punt_rates);
    let sections = [
        section(
            "",
            [
                key("interfaces", format!("[{}]", interfaces.join(", "))),
                key("io", quoted(plan.io.name())),
                key("fallback", !plan.no_fallback),
                key("bypass_netfilter", plan.bypass),
                rules.map_or_else(String::new, |path| key("rules", path)),
            ],
        ),
        section("threads", [optional("workers", plan.threads), key("busy_poll", quoted(wait))]),
        section(
            "fib",
            [
                key("max_routes", plan.max_routes),
                key("coalesce_ms", live.coalesce_ns / 1_000_000),
                key("vrfs", plan.min_vrfs),
            ],
        ),
        section(
            "neigh",
            [
                key("hold_packets", engine.hold_packets),
                key("max_entries", engine.max_entries),
                key("max_incomplete", engine.max_incomplete),
            ],
        ),
        section(
            "icmp",
            [
                key("errors_per_s", live.icmp_limits.per_second),
                key("per_source_per_s", live.icmp_limits.destination_per_second),
                key("redirects", live.sends_redirects),
            ],
        ),
        section("punt", rates.map(|(class, rate)| key(class.name(), rate))),
        section("vlan", [key("priorities", format!("{:?}", plan.priorities))]),
        section("control", [optional("name", plan.name.as_deref().map(quoted))]),
        section("metrics", [optional("listen", plan.metrics.as_deref().map(quoted))]),
        section("sandbox", [optional("user", plan.user.as_ref().map(|user| quoted(&user.name)))]),
    ];
    let checks = plan.source_checks.iter().map(SourceCheck::print);
    let checks = section(
        source_checks::SECTION,
        checks.map(|(interface, word)| key(&quoted(interface), quoted(word))),
    );
    let policers = plan.policers.iter().map(InterfacePolicer::print);
    let vrfs = plan.vrfs.iter().map(NamedVrf::print);
    sections.into_iter().chain([checks]).chain(vrfs).chain(policers).collect()
}

/// Returns a section with these keys; empty if there are none.
fn section(name: &str, keys: impl IntoIterator<Item = String>) -> String {
    let keys: String = keys.into_iter().collect();
    match (name, &*keys) {
        (_, "") => keys,
        ("", _) => keys,
        _ => format!("\n[{name}]\n{keys}"),
    }
}

fn key(name: &str, value: impl Display) -> String {
    format!("{name} = {value}\n")
}

fn optional(name: &str, value: Option<impl Display>) -> String {
    value.map_or_else(String::new, |value| key(name, value))
}
