//! The sysctls `net.inet.ip.dummynet.…`: settings and counters.

use alloc::format;
use alloc::string::String;

use super::{Dummynet, ShaperSettings};

/// The prefix of the names of all dummynet sysctls.
pub const SYSCTL_PREFIX: &str = "net.inet.ip.dummynet.";

/// The value of [`ShaperSettings::expire_ns`](super::ShaperSettings::expire_ns) with which idle
/// queues are never removed.
const NEVER_NS: u64 = u64::MAX;

/// Name, minimum and maximum of each sysctl that can be set.
const SETTABLE: &[(&str, u32, u32)] = &[
    ("hash_size", 16, 65_536),
    ("pipe_slot_limit", 1, u32::MAX),
    ("pipe_byte_limit", 1500, u32::MAX),
    ("expire", 0, 1),
    ("io_fast", 0, u32::MAX),
    ("red_lookup_depth", 0, u32::MAX),
    ("red_avg_pkt_size", 1, u32::MAX),
    ("red_max_pkt_size", 1, u32::MAX),
];

/// The names of the sysctls that can only be read.
const READ_ONLY: &[&str] = &[
    "io_pkt",
    "io_pkt_fast",
    "io_pkt_drop",
    "tick_lost",
    "tick_diff",
    "tick_adjustment",
    "tick_delta",
    "tick_delta_sum",
];

/// Why a sysctl could not be read or set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShaperSysctlError {
    /// There is no sysctl with this name.
    #[error("unknown oid '{0}'; `sysctl -a` lists all names")]
    Unknown(String),
    /// The sysctl cannot be set, or cannot have this value.
    #[error("sysctl {name}: {reason}")]
    Value {
        /// The name of the sysctl.
        name: String,
        /// Why the sysctl cannot be set to this value.
        reason: String,
    },
}

/// The sysctls that have a fixed value: name, value and reason. The values are FreeBSD's defaults.
/// Setting such a sysctl to its value is allowed, so that scripts work, but has no effect.
const FIXED_VALUES: &[(&str, u32, &str)] = &[
    ("io_fast", 0, "links have no ticks here: a packet leaves an idle link when its last bit has"),
    (
        "red_lookup_depth",
        256,
        "RED computes how its average decays while a queue is idle and needs no table",
    ),
];

impl<H: Copy> Dummynet<H> {
    /// Sets a sysctl to `value`, or reads it if `value` is `None`. If `name` is empty, reads all
    /// sysctls. Returns the text that sysctl(8) would print.
    ///
    /// # Errors
    /// [`ShaperSysctlError`] if the name or the value is invalid. In this case nothing changes.
    pub fn sysctl(&mut self, name: &str, value: Option<u32>) -> Result<String, ShaperSysctlError> {
        if name.is_empty() {
            let names = SETTABLE.iter().map(|entry| entry.0).chain(READ_ONLY.iter().copied());
            let line =
                |name| Some(format!("{SYSCTL_PREFIX}{name}: {}\n", self.sysctl_value(name)?));
            return Ok(names.filter_map(line).collect());
        }
        let short = name.strip_prefix(SYSCTL_PREFIX).unwrap_or(name);
        let before =
            self.sysctl_value(short).ok_or_else(|| ShaperSysctlError::Unknown(name.into()))?;
        let Some(value) = value else { return Ok(format!("{name}: {before}\n")) };
        let wrong = |reason| ShaperSysctlError::Value { name: name.into(), reason };
        let known = SETTABLE.iter().find(|entry| entry.0 == short);
        let &(_, low, high) = known.ok_or_else(|| wrong("it can only be read".into()))?;
        if !(low..=high).contains(&value) {
            return Err(wrong(format!("{value} is not in {low} to {high}")));
        }
        if let Some((_, only, why)) = FIXED_VALUES.iter().find(|entry| entry.0 == short)
            && value != *only
        {
            return Err(wrong(format!("it stays {only}: {why}")));
        }
        self.settings.set(short, value);
        Ok(format!("{name}: {before} -> {value}\n"))
    }

    fn sysctl_value(&self, name: &str) -> Option<u64> {
        let ShaperSettings { caps, hash_size, expire_ns, red, .. } = &self.settings;
        if let Some((_, only, _)) = FIXED_VALUES.iter().find(|entry| entry.0 == name) {
            return Some((*only).into());
        }
        Some(match name {
            "hash_size" => (*hash_size).into(),
            "pipe_slot_limit" => caps.slots.into(),
            "pipe_byte_limit" => caps.bytes.into(),
            "expire" => (*expire_ns != NEVER_NS).into(),
            "red_avg_pkt_size" => red.mean_len.into(),
            "red_max_pkt_size" => red.max_len.into(),
            "io_pkt" => self.counters.received,
            "io_pkt_drop" => self.counters.drops.total(),
            // Counters of events that cannot happen in this implementation are 0. For example,
            // there are no ticks, so none is missed.
            name => return READ_ONLY.contains(&name).then_some(0),
        })
    }
}

impl ShaperSettings {
    fn set(&mut self, name: &str, value: u32) {
        match name {
            "hash_size" => self.hash_size = value,
            "expire" if value == 0 => self.expire_ns = NEVER_NS,
            "expire" => self.expire_ns = Self::default().expire_ns,
            "red_avg_pkt_size" => self.red.mean_len = value,
            "red_max_pkt_size" => self.red.max_len = value,
            name if FIXED_VALUES.iter().any(|entry| entry.0 == name) => {}
            name => self.caps = self.caps.with_sysctl(name, value),
        }
    }
}
