//! Why a PCI device cannot be driven, and what to do about it.

use std::io;

/// Why a PCI device cannot be driven from this process.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the messages say what each field is")]
pub enum PciError {
    #[error("there is no PCI device {address}")]
    NoDevice { address: String },
    #[error("{address} belongs to {}, not to vfio-pci", driver.as_deref().map_or("no driver".into(), |driver| format!("the driver {driver}")))]
    NotBound { address: String, driver: Option<String> },
    #[error("{address} is in no IOMMU group: this machine has no IOMMU, or it is off")]
    NoIommu { address: String },
    #[error("the kernel's VFIO is not there: {source}")]
    NoVfio { source: io::Error },
    #[error("/dev/vfio/{group} is not open to this user: {source}")]
    Closed { group: String, source: io::Error },
    #[error("IOMMU group {group} is in use by another program")]
    GroupInUse { group: String },
    #[error("IOMMU group {group} also has {}, which the kernel drives", siblings.join(", "))]
    GroupShared { group: String, siblings: Vec<String> },
    #[error("this machine has no interrupt remapping, so a device could forge interrupts")]
    NoInterruptRemapping,
    #[error("the kernel may not lock {bytes} bytes of memory for this process")]
    LockedMemory { bytes: u64 },
    #[error("{address} has no BAR {bar}")]
    NoBar { address: String, bar: u8 },
    #[error("{address} has no interrupt that can be turned on")]
    NoInterrupt { address: String },
    #[error("what serves {path} does not keep to the protocol: {reason}")]
    Protocol { path: String, reason: String },
    #[error("{address} does not answer: it reads as all ones")]
    Gone { address: String },
    #[error("cannot {what}: {source}")]
    System { what: &'static str, source: io::Error },
}

impl PciError {
    /// Creates the error of a failed system call.
    pub fn system(what: &'static str, source: impl Into<io::Error>) -> Self {
        Self::System { what, source: source.into() }
    }

    /// Returns advice on what to try next; `None` if there is none.
    #[must_use]
    pub fn help(&self) -> Option<String> {
        Some(match self {
            Self::NoDevice { .. } => "list the devices there are: slipring nic list".into(),
            Self::NotBound { address, .. } => {
                format!("take it from the kernel first: slipring nic bind {address}")
            }
            Self::NoIommu { .. } => {
                "turn it on in the firmware (VT-d, AMD-Vi) and on the kernel's \
                 command line (intel_iommu=on)"
                    .into()
            }
            Self::NoVfio { .. } => "load the module: modprobe vfio-pci".into(),
            Self::Closed { group, .. } => {
                format!("give it to this user: sudo chown \"$USER\" /dev/vfio/{group}")
            }
            Self::GroupInUse { group } => {
                format!("see which process has it: fuser -v /dev/vfio/{group}")
            }
            Self::GroupShared { siblings, .. } => {
                format!("take these from the kernel, too: slipring nic bind {}", siblings.join(" "))
            }
            Self::NoInterruptRemapping => "turn it on in the firmware; or accept the risk: \
                 echo 1 | sudo tee /sys/module/vfio_iommu_type1/parameters/allow_unsafe_interrupts"
                .into(),
            Self::LockedMemory { .. } => {
                "raise the limit (ulimit -l unlimited), or ask for fewer slots (@conf:slots=N)"
                    .into()
            }
            Self::NoBar { .. }
            | Self::NoInterrupt { .. }
            | Self::Protocol { .. }
            | Self::Gone { .. }
            | Self::System { .. } => return None,
        })
    }
}
