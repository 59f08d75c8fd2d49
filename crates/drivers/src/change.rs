//! Changes the settings of a chip that is in use: all that a request names, or nothing.

use slipring_port::OpenCause;

use crate::chip::NicChip;
use crate::settings::{CardSettings, SettingRefusal, SettingsRequest};

/// What a card has where the user has set nothing.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CardDefaults {
    /// Whether the program has asked for frames for other hosts when it opened the port.
    pub(crate) promiscuous: bool,
    /// The longest frame of the chip in bytes, without CRC.
    pub(crate) max_packet: u32,
}

/// Executes a request on a chip with the settings `before`. Returns the settings afterwards. Calls
/// `limit_tx` with the length of the longest frame to send, in bytes without CRC, if it changes.
///
/// # Errors
/// If the chip does not have a setting, it is left as it was. If it fails, all that was changed is
/// set back, and the refusal says whether this has succeeded.
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

/// Sets the parts of a chip that a request changes to the values in `settings`. Returns the length
/// of the longest frame, if the request changes it.
///
/// # Errors
/// The cause for which a part could not be set. The parts after it are left as they were.
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
