//! Offloads of an interface (`ethtool -K`), restored when their guard is dropped.

use std::io;

use super::{or_by_keeper, sys};

/// An offload that can be read and switched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Feature {
    /// The device checks the checksums of received frames.
    RxChecksum,
    /// The device fills in the checksums of sent frames.
    TxChecksum,
    /// The device cuts TCP super-frames into segments (TSO).
    Tso,
    /// The kernel itself cuts super-frames into segments, just before the driver (GSO).
    Gso,
    /// The kernel joins received segments into super-frames (GRO).
    Gro,
    /// The device joins received segments into super-frames (LRO). They cannot be separated again.
    Lro,
    /// The device takes the VLAN tags out of received frames.
    RxVlan,
    /// The device inserts the VLAN tags of sent frames.
    TxVlan,
}

/// How the ethtool ioctl addresses a feature.
enum FeatureIoctl {
    /// The commands that read the feature and set it.
    Commands(u32, u32),
    /// A bit of `ETHTOOL_GFLAGS`.
    Flag(u32),
}

const GET_FLAGS: u32 = 0x25;
const SET_FLAGS: u32 = 0x26;

impl Feature {
    fn ioctl(self) -> FeatureIoctl {
        match self {
            Self::RxChecksum => FeatureIoctl::Commands(0x14, 0x15),
            Self::TxChecksum => FeatureIoctl::Commands(0x16, 0x17),
            Self::Tso => FeatureIoctl::Commands(0x1e, 0x1f),
            Self::Gso => FeatureIoctl::Commands(0x23, 0x24),
            Self::Gro => FeatureIoctl::Commands(0x2b, 0x2c),
            Self::Lro => FeatureIoctl::Flag(1 << 15),
            Self::RxVlan => FeatureIoctl::Flag(1 << 8),
            Self::TxVlan => FeatureIoctl::Flag(1 << 7),
        }
    }
}

fn set_feature(ifname: &str, feature: Feature, on: bool) -> io::Result<()> {
    match feature.ioctl() {
        FeatureIoctl::Commands(_, set) => command(ifname, set, on.into())?,
        FeatureIoctl::Flag(bit) => {
            let flags = command(ifname, GET_FLAGS, 0)?;
            command(ifname, SET_FLAGS, if on { flags | bit } else { flags & !bit })?
        }
    };
    Ok(())
}

/// Switches an offload of the interface with this index.
///
/// # Errors
/// The kernel's error, if the interface does not exist or the offload cannot be switched.
pub fn set_feature_by_index(ifindex: u32, feature: Feature, on: bool) -> io::Result<()> {
    let name = rustix::net::netdevice::index_to_name(sys::control_socket()?, ifindex)?;
    set_feature(&name, feature, on)
}

fn command(ifname: &str, command: u32, data: u32) -> io::Result<u32> {
    let mut value = sys::EthtoolValue { command, data };
    sys::ethtool(&sys::control_socket()?, ifname, &mut value)?;
    Ok(value.data)
}

impl super::Iface {
    /// Returns whether an offload is on.
    ///
    /// # Errors
    /// The kernel's error, for example ENODEV if the interface no longer exists. An offload that
    /// the device does not have counts as off.
    pub fn feature(&self, feature: Feature) -> io::Result<bool> {
        Ok(match feature.ioctl() {
            FeatureIoctl::Commands(get, _) => command(&self.name, get, 0)? != 0,
            FeatureIoctl::Flag(bit) => command(&self.name, GET_FLAGS, 0)? & bit != 0,
        })
    }

    /// Switches offloads until the guard is dropped. Offloads that already have the requested state
    /// are left alone. Offloads that cannot be switched are also left alone, and
    /// [`FeatureGuard::refused`] lists them. If the process is killed, the offloads are not
    /// restored.
    #[must_use]
    pub fn with_features(&self, wanted: &[(Feature, bool)]) -> FeatureGuard {
        let mut guard =
            FeatureGuard { iface: self.clone(), changed: Vec::new(), refused: Vec::new() };
        for &(feature, on) in wanted {
            match self.feature(feature) {
                Ok(is) if is == on => {}
                Ok(is) if set_feature(&self.name, feature, on).is_ok() => {
                    guard.changed.push((feature, is));
                }
                // An offload whose state cannot be read counts as off, which is the requested
                // state.
                Err(_) if !on => {}
                _ => guard.refused.push(feature),
            }
        }
        guard
    }
}

/// Restores offloads when dropped.
#[derive(Debug)]
pub struct FeatureGuard {
    iface: super::Iface,
    changed: Vec<(Feature, bool)>,
    refused: Vec<Feature>,
}

impl FeatureGuard {
    /// Returns the offloads that could not be switched.
    #[must_use]
    pub fn refused(&self) -> &[Feature] {
        &self.refused
    }

    /// Returns the offloads that were switched, each with its state before that.
    #[must_use]
    pub fn changed(&self) -> &[(Feature, bool)] {
        &self.changed
    }

    /// Makes the guard also restore an offload that another process has switched. `was` is the
    /// state before that.
    pub fn also_restore(&mut self, feature: Feature, was: bool) {
        if !self.changed.iter().any(|(known, _)| *known == feature) {
            self.changed.push((feature, was));
        }
    }

    /// Makes this guard restore nothing, because another guard restores the offloads.
    pub fn keep(&mut self) {
        self.changed.clear();
    }
}

impl Drop for FeatureGuard {
    fn drop(&mut self) {
        for &(feature, was) in self.changed.iter().rev() {
            // If the interface no longer exists, there is nothing to restore, so an error is
            // ignored.
            let index = self.iface.index;
            let _ = or_by_keeper(set_feature_by_index(index, feature, was), |keeper| {
                keeper.set_feature(index, feature, was)
            });
        }
    }
}
