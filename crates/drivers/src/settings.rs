//! The settings that a user makes for a card: speed, duplex, negotiation, pause, MTU, and which
//! frames it receives.
//!
//! ```text
//!   "speed=100" --> CardSettings --merged()--> CardSettings --plan()--> LinkPlan --> PHY, MAC
//!                     a change                  all settings   refuses what the chip
//!                                                              does not have, by name
//! ```
//! The names are those of ethtool. A setting that is left out keeps its value; a setting that was
//! never made has the driver's default.

use std::fmt;
use std::str::FromStr;

/// Bytes of a frame besides its payload: the header, and a VLAN tag.
pub(crate) const FRAME_OVERHEAD: u32 = 14 + 4;
/// The smallest MTU, that of IPv4 (RFC 791).
const MIN_MTU: u32 = 68;
/// From this speed on, IEEE 802.3 requires negotiation on copper (40.5.1).
const NEGOTIATED_FROM_MBIT: u32 = 1000;

/// Whether both ends of a link send at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Duplex {
    /// One end at a time.
    Half,
    /// Both ends at the same time.
    Full,
}

/// Settings of a card. `None`: the setting is left as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CardSettings {
    /// Speed in Mbit/s.
    pub speed_mbit: Option<u32>,
    /// Whether both ends send at the same time.
    pub duplex: Option<Duplex>,
    /// Whether speed and duplex are negotiated. If not, the link has the values that are set here.
    pub autonegotiation: Option<bool>,
    /// Whether the card sends and obeys pause frames; with negotiation, whether it offers to do so.
    pub pause: Option<bool>,
    /// MTU in bytes.
    pub mtu: Option<u32>,
    /// Whether the card receives frames for other hosts.
    pub promiscuous: Option<bool>,
}

/// What a chip can be set to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkAbilities {
    /// Name of the chip, for refusals.
    pub chip: &'static str,
    /// Supported speeds in Mbit/s; empty if the chip has no PHY that can be set.
    pub speeds: &'static [u32],
    /// Whether pause frames are on only if both ends have negotiated them.
    pub negotiates_pause: bool,
    /// The largest MTU in bytes.
    pub max_mtu: u32,
    /// Whether the driver can set which frames the chip receives.
    pub has_filter: bool,
}

impl LinkAbilities {
    /// The abilities of a chip with a copper PHY whose frames have at most `max_packet` bytes.
    pub(crate) const fn copper(
        chip: &'static str,
        speeds: &'static [u32],
        max_packet: u32,
    ) -> Self {
        let max_mtu = max_packet - FRAME_OVERHEAD;
        Self { chip, speeds, negotiates_pause: false, max_mtu, has_filter: true }
    }
}

/// The settings of a link that the driver makes in the PHY and the MAC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkPlan {
    /// Speed and duplex.
    pub mode: LinkMode,
    /// With negotiation, whether pause frames are offered; otherwise, whether they are on.
    pub pause: bool,
}

impl LinkPlan {
    pub(crate) fn is_negotiated(&self) -> bool {
        matches!(self.mode, LinkMode::Negotiated(_))
    }
}

/// How the speed and the duplex mode of a link are determined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkMode {
    /// Both ends choose the best of what both offer.
    Negotiated(LinkOffers),
    /// Speed and duplex mode are set, without negotiation.
    Forced {
        /// Speed in Mbit/s.
        speed_mbit: u32,
        /// Whether both ends send at the same time.
        duplex: Duplex,
    },
}

/// The modes that an end offers when it negotiates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkOffers {
    speeds: &'static [u32],
    only_speed: Option<u32>,
    only_duplex: Option<Duplex>,
}

impl LinkOffers {
    /// Returns whether a speed with a duplex mode is offered. No chip has half duplex from 1 Gbit/s
    /// on.
    #[must_use]
    pub fn has(&self, speed_mbit: u32, duplex: Duplex) -> bool {
        self.speeds.contains(&speed_mbit)
            && self.only_speed.is_none_or(|only| only == speed_mbit)
            && self.only_duplex.is_none_or(|only| only == duplex)
            && (duplex == Duplex::Full || speed_mbit < NEGOTIATED_FROM_MBIT)
    }
}

/// Why a setting is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingRefusal {
    /// The reason, as text for the user.
    pub reason: String,
    /// What to try next.
    pub help: String,
}

impl SettingRefusal {
    pub(crate) fn new(reason: String, help: impl Into<String>) -> Self {
        Self { reason, help: help.into() }
    }
}

impl CardSettings {
    /// Returns whether nothing is set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns whether speed, duplex mode, negotiation or pause is set.
    pub(crate) fn has_link(&self) -> bool {
        let Self { speed_mbit, duplex, autonegotiation, pause, .. } = self;
        speed_mbit.is_some() || duplex.is_some() || autonegotiation.is_some() || pause.is_some()
    }

    /// Returns these settings after a change. A change that turns negotiation on, without a speed
    /// or a duplex mode, makes the card offer all speeds and modes again, as with ethtool.
    #[must_use]
    pub fn merged(self, change: Self) -> Self {
        let offers_all = change.autonegotiation == Some(true)
            && change.speed_mbit.is_none()
            && change.duplex.is_none();
        let kept = match offers_all {
            true => Self { speed_mbit: None, duplex: None, ..self },
            false => self,
        };
        Self {
            speed_mbit: change.speed_mbit.or(kept.speed_mbit),
            duplex: change.duplex.or(kept.duplex),
            autonegotiation: change.autonegotiation.or(kept.autonegotiation),
            pause: change.pause.or(kept.pause),
            mtu: change.mtu.or(kept.mtu),
            promiscuous: change.promiscuous.or(kept.promiscuous),
        }
    }

    /// Checks whether a chip can have these settings.
    ///
    /// # Errors
    /// [`SettingRefusal`] for a setting that the chip does not have, and for settings that
    /// contradict each other or are incomplete.
    pub fn check(&self, can: &LinkAbilities) -> Result<(), SettingRefusal> {
        self.plan(can).map(drop)
    }

    /// The longest frame in bytes, without CRC, at the MTU that is set.
    pub(crate) fn max_packet(&self) -> Option<u32> {
        self.mtu.map(|mtu| mtu.saturating_add(FRAME_OVERHEAD))
    }

    /// Returns what PHY and MAC are to be set to; `None` for a chip without a PHY.
    pub(crate) fn plan(&self, can: &LinkAbilities) -> Result<Option<LinkPlan>, SettingRefusal> {
        self.check_frames(can)?;
        if can.speeds.is_empty() {
            return self.refuse_link(can).map(|()| None);
        }
        self.check_speed(can)?;
        let pause = self.pause.unwrap_or(false);
        if pause && self.duplex == Some(Duplex::Half) {
            let reason = "a link pauses only at full duplex (IEEE 802.3, annex 31B)".into();
            return Err(SettingRefusal::new(reason, "--pause off, or --duplex full"));
        }
        if self.autonegotiation != Some(false) {
            let offers = LinkOffers {
                speeds: can.speeds,
                only_speed: self.speed_mbit,
                only_duplex: self.duplex,
            };
            return Ok(Some(LinkPlan { mode: LinkMode::Negotiated(offers), pause }));
        }
        let mode = self.forced(can)?;
        if pause && can.negotiates_pause {
            let reason = format!("{} pauses only if both ends have negotiated it", can.chip);
            return Err(SettingRefusal::new(reason, "--pause off, or --autoneg on"));
        }
        Ok(Some(LinkPlan { mode, pause }))
    }

    fn check_frames(&self, can: &LinkAbilities) -> Result<(), SettingRefusal> {
        let (chip, max) = (can.chip, can.max_mtu);
        if let Some(mtu) = self.mtu.filter(|mtu| !(MIN_MTU..=max).contains(mtu)) {
            let reason = format!("{chip} has an MTU of {MIN_MTU} to {max} bytes, not {mtu}");
            return Err(SettingRefusal::new(reason, format!("--mtu {}", mtu.clamp(MIN_MTU, max))));
        }
        if self.promiscuous.is_some() && !can.has_filter {
            let reason = format!("{chip} cannot be told which frames to receive");
            return Err(SettingRefusal::new(reason, "leave --promisc out"));
        }
        Ok(())
    }

    /// Refuses settings of the link, for a chip without a PHY: the host controls its link.
    fn refuse_link(&self, can: &LinkAbilities) -> Result<(), SettingRefusal> {
        let Self { speed_mbit, duplex, autonegotiation, pause, .. } = self;
        let named = [
            ("speed", speed_mbit.is_some()),
            ("duplex", duplex.is_some()),
            ("autonegotiation", autonegotiation.is_some()),
            ("pause", pause.is_some()),
        ];
        let named: Vec<_> =
            named.iter().filter(|(_, is_set)| *is_set).map(|(name, _)| *name).collect();
        if named.is_empty() {
            return Ok(());
        }
        let reason = format!("{} has no PHY, so no {}", can.chip, named.join(", "));
        Err(SettingRefusal::new(reason, "set the link on the host: ethtool"))
    }

    fn check_speed(&self, can: &LinkAbilities) -> Result<(), SettingRefusal> {
        let Some(speed) = self.speed_mbit else { return Ok(()) };
        if !can.speeds.contains(&speed) {
            let speeds: Vec<_> = can.speeds.iter().map(u32::to_string).collect();
            let reason = format!("{} has no speed of {speed} Mbit/s", can.chip);
            return Err(SettingRefusal::new(reason, format!("its speeds: {}", speeds.join(", "))));
        }
        if self.duplex == Some(Duplex::Half) && speed >= NEGOTIATED_FROM_MBIT {
            let reason = format!("{} has {speed} Mbit/s with full duplex only", can.chip);
            return Err(SettingRefusal::new(reason, "--duplex full, or --speed 100"));
        }
        Ok(())
    }

    fn forced(&self, can: &LinkAbilities) -> Result<LinkMode, SettingRefusal> {
        let Some(speed_mbit) = self.speed_mbit else {
            let reason = format!("without autonegotiation, {} must be given a speed", can.chip);
            return Err(SettingRefusal::new(reason, "--autoneg off --speed 100"));
        };
        if speed_mbit >= NEGOTIATED_FROM_MBIT {
            let reason = format!("{} has {speed_mbit} Mbit/s by autonegotiation only", can.chip);
            let help = format!("--autoneg on --speed {speed_mbit} offers no other speed");
            return Err(SettingRefusal::new(reason, help));
        }
        Ok(LinkMode::Forced { speed_mbit, duplex: self.duplex.unwrap_or(Duplex::Full) })
    }
}

/// A request to change the settings of a card. An empty request changes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SettingsRequest {
    /// Whether all settings that were made before are discarded.
    pub reset: bool,
    /// The settings to make. A setting that is `None` is left as it is, or as the reset has made
    /// it; but if negotiation is switched on, speed and duplex mode may be discarded
    /// ([`CardSettings::merged`]).
    pub change: CardSettings,
}

impl SettingsRequest {
    /// Returns whether nothing is requested.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the settings after this request.
    #[must_use]
    pub fn applied_to(&self, settings: CardSettings) -> CardSettings {
        let before = if self.reset { CardSettings::default() } else { settings };
        before.merged(self.change)
    }
}

impl From<CardSettings> for SettingsRequest {
    fn from(change: CardSettings) -> Self {
        Self { reset: false, change }
    }
}

/// The word of a request that discards all settings.
const RESET: &str = "reset";

impl fmt::Display for SettingsRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.reset, self.change.is_empty()) {
            (true, true) => f.write_str(RESET),
            (true, false) => write!(f, "{RESET} {}", self.change),
            (false, _) => self.change.fmt(f),
        }
    }
}

impl FromStr for SettingsRequest {
    type Err = MalformedSettings;

    fn from_str(text: &str) -> Result<Self, MalformedSettings> {
        let (reset, change) = match text.strip_prefix(RESET) {
            Some(change) if change.is_empty() || change.starts_with(' ') => (true, change),
            _ => (false, text),
        };
        Ok(Self { reset, change: change.parse()? })
    }
}

impl fmt::Display for CardSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let on = |is_on| if is_on { "on" } else { "off" }.to_owned();
        let duplex = self.duplex.map(|duplex| match duplex {
            Duplex::Half => "half".to_owned(),
            Duplex::Full => "full".to_owned(),
        });
        let words = [
            ("speed", self.speed_mbit.map(|speed| speed.to_string())),
            ("duplex", duplex),
            ("autoneg", self.autonegotiation.map(on)),
            ("pause", self.pause.map(on)),
            ("mtu", self.mtu.map(|mtu| mtu.to_string())),
            ("promisc", self.promiscuous.map(on)),
        ];
        let words =
            words.iter().filter_map(|(name, value)| Some(format!("{name}={}", value.as_ref()?)));
        f.write_str(&words.collect::<Vec<_>>().join(" "))
    }
}

/// The error for a text that does not describe [`CardSettings`]. Contains the word that is not a
/// setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MalformedSettings(pub String);

impl fmt::Display for MalformedSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is no setting of a card", self.0)
    }
}

impl std::error::Error for MalformedSettings {}

impl FromStr for CardSettings {
    type Err = MalformedSettings;

    fn from_str(text: &str) -> Result<Self, MalformedSettings> {
        let mut settings = Self::default();
        for word in text.split_whitespace() {
            let malformed = || MalformedSettings(word.to_owned());
            let (name, value) = word.split_once('=').ok_or_else(malformed)?;
            let number = || value.parse::<u32>().map_err(|_| malformed());
            let switch = || match value {
                "on" => Ok(true),
                "off" => Ok(false),
                _ => Err(malformed()),
            };
            match name {
                "speed" => settings.speed_mbit = Some(number()?),
                "duplex" => {
                    settings.duplex = Some(match value {
                        "half" => Duplex::Half,
                        "full" => Duplex::Full,
                        _ => return Err(malformed()),
                    });
                }
                "autoneg" => settings.autonegotiation = Some(switch()?),
                "pause" => settings.pause = Some(switch()?),
                "mtu" => settings.mtu = Some(number()?),
                "promisc" => settings.promiscuous = Some(switch()?),
                _ => return Err(malformed()),
            }
        }
        Ok(settings)
    }
}

#[cfg(test)]
mod tests;
