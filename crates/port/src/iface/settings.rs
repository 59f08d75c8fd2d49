//! Restoring settings of interfaces for a program that has dropped its privileges.

use std::fmt::Debug;
use std::io;
use std::sync::{Arc, OnceLock};

use super::Feature;

/// Changes settings of interfaces that this process may no longer change itself, for example
/// through a helper process with the necessary capabilities. Called the keeper in this module.
pub trait SettingsRestorer: Debug + Send + Sync {
    /// Switches an offload.
    ///
    /// # Errors
    /// The kernel's error. EPERM if the interface was not announced to the keeper.
    fn set_feature(&self, ifindex: u32, feature: Feature, on: bool) -> io::Result<()>;

    /// Removes the hidden link of the interface's host rings.
    ///
    /// # Errors
    /// The kernel's error. EPERM if the interface was not announced to the keeper.
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

/// Sets the keeper, which from now on restores the settings that this process may not restore
/// itself. Only the first call in a process has an effect; returns whether this was the first.
pub fn set_settings_keeper(keeper: Box<dyn SettingsRestorer>) -> bool {
    KEEPER.set(keeper).is_ok()
}

/// Returns `done`, with one exception: if `done` is an error because of missing rights, and there
/// is a keeper, calls `instead` and returns the result of that call.
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
