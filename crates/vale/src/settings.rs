//! Settings of switches and ports in text form: `isolated=on`, `vlan=5`, `storm=1000`.

use serde_json::{Value, json};
use slipring_cli::units::TimeSpan;
use slipring_netmap::switch::{
    StormLimit, StormLimits, Switch, SwitchPortConfig, UnknownUnicast, VlanId, VlanMembership,
    VlanSet,
};
use std::time::Duration;

/// A setting to change, as typed: `KEY=VALUE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SettingChange {
    pub(crate) key: String,
    pub(crate) value: String,
}

/// The keys of a switch and of a port, with their values.
pub(crate) const KEYS: &str = "of a switch: ageing=TIME|off vlans=on|off unknown=flood|drop; \
                    of a port: isolated=on|off learning=on|off vlan=ID|trunk[:ID,..] storm=PPS|off";

impl SettingChange {
    pub(crate) fn parse(word: &str) -> Result<Self, String> {
        let pair = word.split_once('=').filter(|(key, value)| !key.is_empty() && !value.is_empty());
        let (key, value) = pair.ok_or_else(|| format!("`{word}` is no KEY=VALUE: {KEYS}"))?;
        Ok(Self { key: key.to_owned(), value: value.to_owned() })
    }

    /// Applies the change to a switch.
    pub(crate) fn apply_to_switch(&self, switch: &mut Switch) -> Result<(), String> {
        match self.key.as_str() {
            "ageing" if self.value == "off" => switch.set_ageing(None),
            "ageing" => {
                let span = TimeSpan::parse(&self.value, Duration::from_secs(1));
                switch.set_ageing(Some(span.map_err(|error| error.to_string())?.nanos()));
            }
            "vlans" => switch.set_vlan_aware(self.parse_switch()?),
            "unknown" => switch.set_unknown_unicast(match self.value.as_str() {
                "flood" => UnknownUnicast::Flood,
                "drop" => UnknownUnicast::Drop,
                _ => return Err(self.wrong("flood or drop")),
            }),
            _ => return Err(format!("a switch has no setting {}: {KEYS}", self.key)),
        }
        Ok(())
    }

    /// Applies the change to a port's configuration.
    pub(crate) fn apply_to_port(&self, config: &mut SwitchPortConfig) -> Result<(), String> {
        match self.key.as_str() {
            "isolated" => config.is_isolated = self.parse_switch()?,
            "learning" => config.learns = self.parse_switch()?,
            "vlan" => config.vlan = self.vlan()?,
            "storm" => config.storm = self.storm()?,
            _ => return Err(format!("a port has no setting {}: {KEYS}", self.key)),
        }
        Ok(())
    }

    fn parse_switch(&self) -> Result<bool, String> {
        match self.value.as_str() {
            "on" => Ok(true),
            "off" => Ok(false),
            _ => Err(self.wrong("on or off")),
        }
    }

    /// Parses `5`, `trunk` or `trunk:5,6`.
    fn vlan(&self) -> Result<VlanMembership, String> {
        let id = |text: &str| {
            let id = text.parse().map_err(|_| self.wrong("a number, trunk or trunk:ID,.."))?;
            VlanId::new(id).map_err(|error| error.to_string())
        };
        match self.value.strip_prefix("trunk") {
            None => Ok(VlanMembership::Access(id(&self.value)?)),
            Some("") => Ok(VlanMembership::Trunk { native: None, allowed: VlanSet::all() }),
            Some(list) => {
                let list = list.strip_prefix(':').ok_or_else(|| self.wrong("trunk:ID,.."))?;
                let allowed = list.split(',').map(id).collect::<Result<VlanSet, _>>()?;
                Ok(VlanMembership::Trunk { native: None, allowed })
            }
        }
    }

    /// Parses a limit in frames per second, which applies to broadcasts, multicasts and unknown
    /// addresses separately. The burst is the number of frames in 0.1 s, but at least 1.
    fn storm(&self) -> Result<StormLimits, String> {
        if self.value == "off" {
            return Ok(StormLimits::default());
        }
        let per_sec: u64 =
            self.value.parse().map_err(|_| self.wrong("packets a second, or off"))?;
        let limit = Some(StormLimit::Packets { per_sec, burst: (per_sec / 10).max(1) });
        Ok(StormLimits { broadcast: limit, multicast: limit, unknown: limit })
    }

    fn wrong(&self, takes: &str) -> String {
        format!("{} takes {takes}, not {}", self.key, self.value)
    }
}

/// Describes a port's settings as JSON.
pub(crate) fn port_json(config: &SwitchPortConfig) -> Value {
    let vlan = match &config.vlan {
        VlanMembership::Access(id) => json!(id.get()),
        VlanMembership::Trunk { allowed, .. } => json!(trunk(allowed)),
    };
    json!({
        "rings": config.rings,
        "isolated": config.is_isolated,
        "learning": config.learns,
        "vlan": vlan,
        "storm_limits": config.storm != StormLimits::default(),
        "changed": changed(config),
    })
}

/// Lists the settings that differ from their defaults, in the form that [`SettingChange::parse`]
/// reads.
fn changed(config: &SwitchPortConfig) -> Vec<String> {
    let usual = SwitchPortConfig::default();
    let vlan = match &config.vlan {
        VlanMembership::Access(id) => id.get().to_string(),
        VlanMembership::Trunk { allowed, .. } => trunk(allowed),
    };
    let storm = match config.storm.broadcast {
        Some(StormLimit::Packets { per_sec, .. }) => per_sec.to_string(),
        _ => "off".to_owned(),
    };
    let all = [
        (config.is_isolated != usual.is_isolated, "isolated", "on".to_owned()),
        (config.learns != usual.learns, "learning", "off".to_owned()),
        (config.vlan != usual.vlan, "vlan", vlan),
        (config.storm != usual.storm, "storm", storm),
    ];
    let changed = all.into_iter().filter(|(differs, ..)| *differs);
    changed.map(|(_, key, value)| format!("{key}={value}")).collect()
}

/// Formats `trunk`, or `trunk:5,6`.
fn trunk(allowed: &VlanSet) -> String {
    if *allowed == VlanSet::all() {
        return "trunk".to_owned();
    }
    let ids = (0..4096).filter_map(|id| VlanId::new(id).ok()).filter(|&id| allowed.contains(id));
    let ids: Vec<_> = ids.map(|id| id.get().to_string()).collect();
    format!("trunk:{}", ids.join(","))
}
