//! The settings that a plan contains for interfaces, by port.

use slipring_cli::codes::SR0003;
use slipring_cli::{Diagnostic, Failure};

use crate::config::RouterConfig;
use crate::named_vrfs;
use crate::plan::RoutePlan;
use crate::port_settings::PortSettings;

/// Refuses source checks and VRFs of interfaces that the router does not have. For policers,
/// [`for_policers`](crate::policers::for_policers) does this.
///
/// # Errors
/// The first such setting.
pub(crate) fn check_interfaces(file: &RouterConfig, interfaces: &[String]) -> Result<(), Failure> {
    let checks = file.source_checks.iter().map(|check| (&check.interface, "[urpf]"));
    let vrfs = file.vrfs.iter().flat_map(|vrf| &vrf.interfaces).map(|name| (name, "[[vrf]]"));
    match checks.chain(vrfs).find(|(name, _)| !interfaces.contains(name)) {
        None => Ok(()),
        Some((name, section)) => Err(Diagnostic::new(SR0003, format!("{section} names {name}"))
            .with_cause("the router does not have this interface")
            .with_help(format!("name one of {}", interfaces.join(", ")))
            .into()),
    }
}

impl RoutePlan {
    /// The settings of the ports with these names.
    pub(crate) fn port_settings<'n>(&self, names: impl Iterator<Item = &'n str>) -> PortSettings {
        let mut settings = PortSettings::default();
        for name in names {
            let check = self.source_checks.iter().find(|check| check.interface == name);
            settings.source_checks.push(check.map(|check| check.mode).unwrap_or_default());
            let policer = self.policers.iter().find(|policer| policer.interface == name);
            settings.policers.push(policer.map(|policer| policer.spec));
            settings.vrfs.push(named_vrfs::of_interface(&self.vrfs, name));
        }
        settings
    }
}
