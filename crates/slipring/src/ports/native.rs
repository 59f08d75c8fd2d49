//! The native driver that an interface could have instead of its kernel driver.

use serde::Serialize;
use slipring_port::iface::Iface;

use super::InterfaceMode;

/// A native driver for an interface's card.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct NativeOption {
    /// The card's PCI address, which `vfio:` takes.
    pub(crate) pci_address: String,
    /// The name of the chip.
    pub(crate) chip: &'static str,
    /// The native driver's name.
    pub(crate) driver: &'static str,
}

impl NativeOption {
    /// Finds the native driver for an interface; `None` if there is none, or the kernel's driver is
    /// as good. sysfs shows the network namespace in which it was mounted, so the interface must
    /// have the same index there.
    pub(crate) fn of(iface: &Iface, modes: &[InterfaceMode]) -> Option<Self> {
        if modes.is_empty() || modes.contains(&InterfaceMode::ZeroCopy) {
            return None;
        }
        let index = std::fs::read_to_string(format!("/sys/class/net/{}/ifindex", iface.name));
        if index.ok()?.trim() != iface.index.to_string() {
            return None;
        }
        let native = slipring_nic::native_driver(&iface.name)?;
        let driver = native.driver.ok()?;
        Some(Self { pci_address: native.pci_address, chip: native.chip, driver })
    }

    /// Returns a text that says how to use the native driver, for `slipring doctor`.
    pub(crate) fn offer(&self, interface: &str) -> String {
        let Self { pci_address, chip, driver } = self;
        format!(
            "slipring nic bind {interface}; then vfio:{pci_address} is the {chip} by the native driver {driver}"
        )
    }

    /// Returns a note that the native driver exists, for the list of ports.
    pub(crate) fn note(&self) -> String {
        format!("native driver {}: slipring nic bind", self.driver)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_without_a_card_has_no_native_driver() {
        let lo = Iface::find("lo").unwrap();
        assert_eq!(NativeOption::of(&lo, &[InterfaceMode::Generic]), None);
        assert_eq!(NativeOption::of(&lo, &[InterfaceMode::ZeroCopy]), None);
    }
}
