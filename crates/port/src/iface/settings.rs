//! Restoring settings of interfaces for a program that has dropped its privileges.

use std::fmt::Debug;
use std::io;
use std::sync::{Arc, OnceLock};

use super::Feature;

/// A process, or a part of this one, that may still change settings of interfaces.
pub trait SettingsRestorer: Debug + Send + Sync {
    /// Switches an offload.
    ///
    /// # Errors
    /// The kernel's error, or the keeper's: EPERM for an interface that was not announced to the
    /// keeper.
    fn set_feature(&self, ifindex: u32, feature: Feature, on: bool) -> io::Result<()>;

    /// Removes the hidden link of the interface's host rings.
    ///
    /// # Errors
    /// As [`Self::set_feature`].
    fn remove_hidden_link(&self, ifindex: u32) -> io::Result<()>;
}

impl<T: SettingsRestorer + ?Sized> SettingsRestorer for Arc<T> {
    fn set_feature(&self, ifindex: u32, feature: Feature, on: bool) -> io::Result<()> {
        (**self).set_feature(ifindex, feature, on)
    }

    fn remove_hidden_link(&self, ifindex: u32) -> io::Result<()> {
        (**self).remove_hidden_link(ifindex)
    }
}

static KEEPER: OnceLock<Box<dyn SettingsRestorer>> = OnceLock::new();

/// From now on, `keeper` restores settings that this process may not restore itself. Only the first
/// call in a process has an effect; returns whether this was the first.
pub fn set_settings_keeper(keeper: Box<dyn SettingsRestorer>) -> bool {
    KEEPER.set(keeper).is_ok()
}

/// Lets the keeper repeat an operation that the kernel refused this process.
pub(crate) fn or_by_keeper(
    done: io::Result<()>,
    instead: impl FnOnce(&dyn SettingsRestorer) -> io::Result<()>,
) -> io::Result<()> {
    match (done, KEEPER.get()) {
        (Err(error), Some(keeper)) if error.kind() == io::ErrorKind::PermissionDenied => {
            instead(keeper.as_ref())
        }
        (done, _) => done,
    }
}
