//! Changes the settings of a chip that is in use: all that a request names, or nothing.

use slipring_port::OpenCause;

use crate::chip::NicChip;
use crate::settings::{CardSettings, SettingRefusal, SettingsRequest};

/// The values of settings that the user has not set.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CardDefaults {
    /// Whether the program asked for frames to other hosts when it opened the port.
    pub(crate) promiscuous: bool,
    /// The longest frame of the chip in bytes, without CRC.
    pub(crate) max_packet: u32,
}

/// Executes a request on a chip with the settings `before`. Returns the settings afterwards. If the
/// request changes the length of the longest frame, calls `limit_tx` with it, in bytes without CRC.
///
/// # Errors
/// If the chip does not have a requested setting, nothing is changed. If a change fails, all
/// requested changes are undone, and the refusal says whether this has succeeded.
pub(crate) fn execute(
    chip: &mut impl NicChip,
    defaults: &CardDefaults,
    before: CardSettings,
    request: &SettingsRequest,
    mut limit_tx: impl FnMut(u32),
) -> Result<CardSettings, SettingRefusal> {
    let settings = request.applied_to(before);
    settings.check(&chip.abilities())?;
    let changed = set(chip, defaults, &settings, request).map_err(|cause| {
        let is_as_before = set(chip, defaults, &before, request).is_ok();
        failed(&cause, is_as_before)
    });
    if let Some(bytes) = changed? {
        limit_tx(bytes);
    }
    Ok(settings)
}

/// Applies those values of `settings` that the request changes: first to the link, then to the
/// filter, then to the longest frame. Returns the length of the longest frame, if the request
/// changes it.
///
/// # Errors
/// Why one of these could not be set. Those after it are left as they were.
fn set(
    chip: &mut impl NicChip,
    defaults: &CardDefaults,
    settings: &CardSettings,
    SettingsRequest { reset, change }: &SettingsRequest,
) -> Result<Option<u32>, OpenCause> {
    // A chip without a PHY has no plan.
    let plan = settings.plan(&chip.abilities()).ok().flatten();
    if let Some(plan) = plan.filter(|_| *reset || change.has_link()) {
        chip.set_link(&plan)?;
    }
    if *reset || change.promiscuous.is_some() {
        chip.set_promiscuous(settings.promiscuous.unwrap_or(defaults.promiscuous))?;
    }
    if !*reset && change.mtu.is_none() {
        return Ok(None);
    }
    let bytes = settings.max_packet().unwrap_or(defaults.max_packet);
    chip.set_max_packet(bytes);
    Ok(Some(bytes))
}

/// The answer to a request that the chip has not executed.
fn failed(cause: &OpenCause, is_as_before: bool) -> SettingRefusal {
    let state = match is_as_before {
        true => "its settings are as before",
        false => "its link, or what it receives, may have changed; the MTU is as before",
    };
    let help = "end the program and open the card again, which resets it";
    SettingRefusal::new(format!("{cause}; {state}"), help)
}

#[cfg(test)]
mod tests;
