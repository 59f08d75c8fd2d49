use alloc::format;
use alloc::string::String;

use crate::state::StateTable;

/// The values of ipfw's sysctls, except those that the state table has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpfwSettings {
    /// Whether packets are checked. If not, all packets pass.
    pub enable: bool,
    /// Whether packets are accepted after a pipe, queue, translation or reassembly; otherwise they
    /// continue at the next rule.
    pub one_pass: bool,
    /// Step between the numbers of rules that are added without a number, 1..=1000.
    pub autoinc_step: u32,
    /// Whether log lines of rules without `logdst` go to the system log. If not, they go to
    /// captures of logged packets.
    pub verbose: bool,
    /// Maximum number of log lines of a rule that is added without a limit of its own; 0 means no
    /// limit.
    pub verbose_limit: u32,
    /// Maximum number of tables.
    pub tables_max: u32,
    /// Whether sets have their own tables.
    pub tables_sets: bool,
    /// Whether states outlive the rule that created them.
    pub dyn_keep_states: bool,
    /// Has no effect. It is accepted so that existing scripts run.
    pub debug: u32,
    /// Whether ARP and RARP are checked. The caller must evaluate this before each check, because a
    /// check applies the rules to any frame.
    pub arp_meets_rules: bool,
    /// What happens to frames other than IP, ARP and RARP. The caller also evaluates this setting.
    pub non_ip: NonIpPolicy,
}

/// What happens to frames other than IP, ARP and RARP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NonIpPolicy {
    /// Frames pass unchecked: FreeBSD's `net.link.bridge.pfil_onlyip=0`.
    Pass,
    /// Frames are dropped unchecked: FreeBSD's `net.link.bridge.pfil_onlyip=1`.
    Drop,
    /// The rules check the frames.
    #[default]
    Rules,
}

impl NonIpPolicy {
    const fn from_sysctl(value: u32) -> Self {
        match value {
            0 => Self::Pass,
            1 => Self::Drop,
            _ => Self::Rules,
        }
    }
}

impl Default for IpfwSettings {
    fn default() -> Self {
        Self {
            enable: true,
            one_pass: true,
            autoinc_step: 100,
            verbose: false,
            verbose_limit: 0,
            tables_max: 128,
            tables_sets: false,
            dyn_keep_states: false,
            debug: 0,
            arp_meets_rules: false,
            non_ip: NonIpPolicy::Rules,
        }
    }
}

/// Name, minimum and maximum of each sysctl that can be set.
const SYSCTLS: &[(&str, u32, u32)] = &[
    ("net.inet.ip.fw.enable", 0, 1),
    ("net.inet6.ip6.fw.enable", 0, 1),
    ("net.link.ether.ipfw", 0, 1),
    ("net.link.bridge.ipfw_arp", 0, 1),
    ("net.link.bridge.pfil_onlyip", 0, 2),
    ("net.inet.ip.fw.one_pass", 0, 1),
    ("net.inet.ip.fw.autoinc_step", 1, 1000),
    ("net.inet.ip.fw.verbose", 0, 1),
    ("net.inet.ip.fw.verbose_limit", 0, u32::MAX),
    ("net.inet.ip.fw.tables_max", 1, 65535),
    ("net.inet.ip.fw.tables_sets", 0, 1),
    ("net.inet.ip.fw.debug", 0, u32::MAX),
    ("net.inet.ip.fw.dyn_keep_states", 0, 1),
    ("net.inet.ip.fw.dyn_keepalive", 0, 1),
    ("net.inet.ip.fw.dyn_max", 0, 100_000_000),
    ("net.inet.ip.fw.dyn_ack_lifetime", 1, u32::MAX),
    ("net.inet.ip.fw.dyn_syn_lifetime", 1, u32::MAX),
    ("net.inet.ip.fw.dyn_fin_lifetime", 1, 4),
    ("net.inet.ip.fw.dyn_rst_lifetime", 1, 4),
    ("net.inet.ip.fw.dyn_udp_lifetime", 1, u32::MAX),
    ("net.inet.ip.fw.dyn_short_lifetime", 1, u32::MAX),
];

/// Names of read-only sysctls; the engine computes their values.
pub(super) const READ_ONLY: &[&str] =
    &["net.inet.ip.fw.default_rule", "net.inet.ip.fw.static_count", "net.inet.ip.fw.dyn_count"];

/// Why a name that no sysctl has cannot be set.
const UNKNOWN: &str = "the name is unknown; `sysctl -a` lists all names";

/// Why a sysctl cannot be set: it does not exist, is read-only, or does not accept the value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("sysctl {name}: {reason}")]
pub struct IpfwSysctlError {
    name: String,
    reason: String,
}

/// Iterates over the names of all sysctls that can be set.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    SYSCTLS.iter().map(|entry| entry.0)
}

impl IpfwSettings {
    /// Returns the value of a sysctl that can be set; `None` if there is none. Only the part of
    /// `name` after the last dot is compared.
    #[must_use]
    pub fn get(&self, states: &StateTable, name: &str) -> Option<u32> {
        let life = &states.lifetimes;
        Some(match name.rsplit('.').next()? {
            "enable" | "ipfw" => self.enable.into(),
            "one_pass" => self.one_pass.into(),
            "autoinc_step" => self.autoinc_step,
            "verbose" => self.verbose.into(),
            "verbose_limit" => self.verbose_limit,
            "tables_max" => self.tables_max,
            "tables_sets" => self.tables_sets.into(),
            "debug" => self.debug,
            "ipfw_arp" => self.arp_meets_rules.into(),
            "pfil_onlyip" => self.non_ip as u32,
            "dyn_keep_states" => self.dyn_keep_states.into(),
            "dyn_keepalive" => states.keepalive.into(),
            "dyn_max" => states.max,
            "dyn_ack_lifetime" => life.ack,
            "dyn_syn_lifetime" => life.syn,
            "dyn_fin_lifetime" => life.fin,
            "dyn_rst_lifetime" => life.rst,
            "dyn_udp_lifetime" => life.udp,
            "dyn_short_lifetime" => life.short,
            _ => return None,
        })
    }

    /// Sets a sysctl.
    ///
    /// # Errors
    /// [`IpfwSysctlError`] if no such sysctl can be set, or the value is out of range.
    pub fn set(
        &mut self,
        states: &mut StateTable,
        name: &str,
        value: u32,
    ) -> Result<(), IpfwSysctlError> {
        let wrong = |reason: String| IpfwSysctlError { name: name.into(), reason };
        let known = SYSCTLS.iter().find(|entry| entry.0 == name);
        let &(_, low, high) = known.ok_or_else(|| {
            wrong(if READ_ONLY.contains(&name) { "it can only be read" } else { UNKNOWN }.into())
        })?;
        if !(low..=high).contains(&value) {
            return Err(wrong(format!("{value} is not in {low} to {high}")));
        }
        let on = value != 0;
        let life = &mut states.lifetimes;
        match name.rsplit('.').next().unwrap_or("") {
            "enable" | "ipfw" => self.enable = on,
            "one_pass" => self.one_pass = on,
            "autoinc_step" => self.autoinc_step = value,
            "verbose" => self.verbose = on,
            "verbose_limit" => self.verbose_limit = value,
            "tables_max" => self.tables_max = value,
            "tables_sets" => self.tables_sets = on,
            "debug" => self.debug = value,
            "ipfw_arp" => self.arp_meets_rules = on,
            "pfil_onlyip" => self.non_ip = NonIpPolicy::from_sysctl(value),
            "dyn_keep_states" => self.dyn_keep_states = on,
            "dyn_keepalive" => states.keepalive = on,
            "dyn_max" => states.max = value,
            "dyn_ack_lifetime" => life.ack = value,
            "dyn_syn_lifetime" => life.syn = value,
            "dyn_fin_lifetime" => life.fin = value,
            "dyn_rst_lifetime" => life.rst = value,
            "dyn_udp_lifetime" => life.udp = value,
            _ => life.short = value,
        }
        Ok(())
    }
}
