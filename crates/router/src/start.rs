//! The conditions that must hold before a packet is forwarded, and their errors.

use std::io;

use rustix::io::Errno;
use slipring_cli::codes::{SR0108, SR0114, SR0115, SR0499};
use slipring_cli::{Diagnostic, Failure};
use slipring_fib::VrfConfig;
use slipring_port::OpenError;
use slipring_port::iface::Iface;

use crate::checks::{self, CheckedInterface, Obstacle, ObstacleKind};
use crate::lookup_tables;
use crate::named_vrfs;
use crate::plan::RoutePlan;
use crate::resident;
use crate::subinterface::{OwnSubinterface, SubinterfaceName};

/// The interfaces of a plan.
pub(crate) struct PlannedInterfaces {
    /// Interfaces of the kernel.
    pub(crate) kernel: Vec<Iface>,
    /// Subinterfaces that the kernel does not have.
    pub(crate) own: Vec<OwnSubinterface>,
}

/// Finds the interfaces of the plan. A name such as `eth1.100` means the kernel's device of this
/// name if it exists, and otherwise a new subinterface. `running` contains the subinterfaces of the
/// router from which this one takes over: their devices are not the kernel's.
///
/// # Errors
/// If an interface does not exist, or does not carry Ethernet frames.
pub(crate) fn interfaces(
    plan: &RoutePlan,
    running: &[String],
) -> Result<PlannedInterfaces, Failure> {
    let mut found = PlannedInterfaces { kernel: Vec::new(), own: Vec::new() };
    for name in &plan.interfaces {
        let is_own = || running.contains(name) || Iface::find(name).is_err();
        match SubinterfaceName::parse(name).filter(|_| is_own()) {
            Some(SubinterfaceName { parent, tags }) => {
                let parent = interface(&parent)?;
                found.own.push(OwnSubinterface { name: name.clone(), parent, tags });
            }
            None => found.kernel.push(interface(name)?),
        }
    }
    Ok(found)
}

fn interface(name: &str) -> Result<Iface, Failure> {
    let iface = Iface::find(name).map_err(|cause| Failure::from(OpenError::new(name, cause)))?;
    if iface.ethernet {
        return Ok(iface);
    }
    Err(Diagnostic::new(SR0108, format!("{name} carries no Ethernet frames"))
        .with_cause("the router sends to MAC addresses of neighbours")
        .with_help("list the interfaces that can be used: slipring ports")
        .into())
}

/// The VRFs that the kernel's routing rules need, and further ones up to the minimum of the plan.
///
/// # Errors
/// If the kernel does not list its rules.
pub(crate) fn vrfs(plan: &RoutePlan) -> Result<Vec<VrfConfig>, Failure> {
    lookup_tables::first_vrfs(&plan.interfaces, plan.min_vrfs).map_err(unlisted_rules)
}

fn unlisted_rules(error: io::Error) -> Failure {
    Diagnostic::new(SR0499, "the kernel's routing rules cannot be read")
        .with_cause(error.to_string())
        .with_help("see what there is: ip rule")
        .into()
}

/// Refuses to start if the kernel could not forward in place of the router, or if it processes
/// packets in stages that the router does not have, unless the plan permits this; also if the
/// kernel lacks rules for sections `[[vrf]]`. Returns the obstacles that were found and do not
/// prevent the start. `own_programs` is the number of the router's own programs at tcx ingress of
/// each interface.
///
/// # Errors
/// The reason, and the command that removes it.
pub(crate) fn check(
    plan: &RoutePlan,
    interfaces: &[Iface],
    own_programs: u32,
) -> Result<Vec<Obstacle>, Failure> {
    let missing = checks::missing_forwarding();
    if !missing.is_empty() && !plan.no_fallback {
        return Err(no_fallback(&missing).into());
    }
    check_vrfs(plan)?;
    let checked = interfaces.iter().map(|iface| CheckedInterface::new(iface, own_programs));
    let checked: Vec<_> = checked.collect();
    let found = match checks::obstacles(&checked) {
        Err(error) if plan.bypass => vec![checks::unlisted(&error)],
        found => found.map_err(unknown)?,
    };
    let bypassed: Vec<_> =
        found.iter().filter(|found| found.kind == ObstacleKind::Bypass).collect();
    if !bypassed.is_empty() && !plan.bypass {
        return Err(would_bypass(&bypassed).into());
    }
    Ok(found)
}

/// Checks that the kernel has a rule for each interface and table that the sections `[[vrf]]` name.
///
/// # Errors
/// If rules of the kernel are missing, with the commands that add them, or if the rules cannot be
/// listed.
pub(crate) fn check_vrfs(plan: &RoutePlan) -> Result<(), Failure> {
    let missing = named_vrfs::missing_rules(&plan.vrfs).map_err(unlisted_rules)?;
    if missing.is_empty() { Ok(()) } else { Err(named_vrfs::refusal(&missing).into()) }
}

fn no_fallback(missing: &[String]) -> Diagnostic {
    Diagnostic::new(SR0114, "the kernel would not forward in the router's place")
        .with_cause("its forwarding is off, so packets that the router leaves to it are dropped")
        .with_help(missing.join("\n"))
        .with_note("--no-fallback starts without it")
}

fn would_bypass(found: &[&Obstacle]) -> Diagnostic {
    let list: Vec<_> = found.iter().map(|obstacle| obstacle.what.as_str()).collect();
    let show: Vec<_> = found.iter().map(|obstacle| obstacle.show.as_str()).collect();
    Diagnostic::new(SR0115, "packets would bypass what the kernel does to them")
        .with_cause(list.join("; "))
        .with_help(show.join("\n"))
        .with_note("--bypass-netfilter forwards past it")
}

fn unknown(error: io::Error) -> Failure {
    if let Some(errno @ (Errno::PERM | Errno::ACCESS)) = Errno::from_io_error(&error) {
        let cause = resident::no_privilege("list the rules that packets would bypass", errno);
        return OpenError::new("route", cause).into();
    }
    Diagnostic::new(SR0115, "it is not known what packets would bypass")
        .with_cause(format!("the kernel does not list its rules: {error}"))
        .with_help("see what there is: nft list ruleset")
        .with_note("--bypass-netfilter starts without knowing it")
        .into()
}
