//! netmap's module parameters: names, limits, values that change while programs run.
//!
//! A size applies to memories and rings created after it was set.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use rustix::io::Errno;
use slipring_ring::{Geometry, is_buf_size};

use crate::types::params::MemoryParams;
use crate::types::params::ObjectPools;

/// A parameter: its name, default and limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parameter {
    /// The name in netmap.
    pub name: &'static str,
    /// The initial value.
    pub default: i64,
    /// The minimum value.
    pub min: i64,
    /// The maximum value; less than [`Self::min`] if the parameter is read-only.
    pub max: i64,
    /// The effect of setting the parameter.
    pub effect: ParameterEffect,
}

/// What happens when the parameter is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParameterEffect {
    /// The parameter has the same effect as in netmap.
    Works,
    /// The parameter has no effect: the value is only stored, for programs that read it.
    Kept,
    /// The parameter cannot be set.
    ReadOnly,
}

impl Parameter {
    /// Describes the allowed values, for messages.
    #[must_use]
    pub fn allowed(&self) -> String {
        match (self.effect, self.name) {
            (ParameterEffect::ReadOnly, _) => "it can only be read".to_owned(),
            (_, "buf_size" | "priv_buf_size") => "a multiple of 64 from 2048 to 4096".to_owned(),
            _ => format!("{} to {}", self.min, self.max),
        }
    }

    fn accepts(&self, value: i64) -> bool {
        let is_right = |size: i64| u32::try_from(size).is_ok_and(is_buf_size);
        let sized = !self.name.ends_with("buf_size") || is_right(value);
        sized && (self.min..=self.max).contains(&value)
    }
}

macro_rules! parameters {
    ($($index:ident $name:literal $default:literal $least:literal $most:literal $effect:ident)*) => {
        /// Index of each parameter in the table.
        #[allow(dead_code, non_camel_case_types)]
        enum Index { $($index),* }

        /// Every parameter, in the order in which lists show them.
        pub const PARAMETERS: &[Parameter] = &[$(Parameter {
            name: $name, default: $default, min: $least, max: $most,
            effect: ParameterEffect::$effect,
        }),*];
    };
}

parameters! {
    If_num "if_num" 100 1 9999 Works
    If_size "if_size" 1024 256 4096 Works
    Ring_num "ring_num" 200 2 100000 Works
    Ring_size "ring_size" 36864 1024 4194304 Works
    Buf_num "buf_num" 163840 4 1000000 Works
    Buf_size "buf_size" 2112 2048 4096 Works
    If_curr_num "if_curr_num" 0 1 0 ReadOnly
    If_curr_size "if_curr_size" 0 1 0 ReadOnly
    Ring_curr_num "ring_curr_num" 0 1 0 ReadOnly
    Ring_curr_size "ring_curr_size" 0 1 0 ReadOnly
    Buf_curr_num "buf_curr_num" 0 1 0 ReadOnly
    Buf_curr_size "buf_curr_size" 0 1 0 ReadOnly
    Priv_if_num "priv_if_num" 2 1 9999 Works
    Priv_if_size "priv_if_size" 1024 256 4096 Works
    Priv_ring_num "priv_ring_num" 4 2 100000 Works
    Priv_ring_size "priv_ring_size" 20480 1024 4194304 Works
    Priv_buf_num "priv_buf_num" 4098 4 1000000 Works
    Priv_buf_size "priv_buf_size" 2112 2048 4096 Works
    Generic_ringsize "generic_ringsize" 1024 2 4096 Works
    No_timestamp "no_timestamp" 0 0 1 Works
    Default_pipes "default_pipes" 0 0 65535 Kept
    Admode "admode" 0 0 2 Kept
    Generic_mit "generic_mit" 100000 0 1000000000 Kept
    Generic_rings "generic_rings" 1 1 64 Kept
    Generic_txqdisc "generic_txqdisc" 1 0 1 Kept
    Generic_hwcsum "generic_hwcsum" 0 0 1 Kept
    Fwd "fwd" 0 0 1 Works
    No_pendintr "no_pendintr" 1 0 1 Kept
    Txsync_retry "txsync_retry" 2 0 1000 Kept
    Verbose "verbose" 0 0 255 Kept
    Bridge_batch "bridge_batch" 1024 1 4096 Kept
    Max_bridges "max_bridges" 8 1 65535 Kept
    Ptnet_vnet_hdr "ptnet_vnet_hdr" 1 0 1 Kept
}

/// The values of all parameters, shared by all users.
#[derive(Debug)]
pub struct Parameters {
    values: [AtomicI64; PARAMETERS.len()],
    domain_bytes: AtomicU64,
}

/// The reason why a parameter was not set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetParameterError {
    /// No parameter has this name.
    Unknown,
    /// The value is not allowed.
    Invalid(&'static Parameter),
}

impl Parameters {
    /// Creates the values: those of `params`, and the defaults in [`PARAMETERS`] for all others.
    #[must_use]
    pub fn new(params: &MemoryParams) -> Arc<Self> {
        let values = std::array::from_fn(|i| AtomicI64::new(PARAMETERS[i].default));
        let all = Self { values, domain_bytes: params.domain_bytes.into() };
        for (index, value) in [
            (Index::If_num, params.if_num),
            (Index::If_size, params.if_size),
            (Index::Ring_num, params.ring_num),
            (Index::Ring_size, params.ring_size),
            (Index::Buf_num, params.buf_num),
            (Index::Buf_size, params.buf_size),
            (Index::Generic_ringsize, params.ring_slots),
            (Index::No_timestamp, params.no_timestamp.into()),
        ] {
            all.at(index).store(value.into(), Ordering::Relaxed);
        }
        Arc::new(all)
    }

    /// Returns the current values.
    #[must_use]
    pub fn current(&self) -> MemoryParams {
        MemoryParams {
            if_num: self.of(Index::If_num),
            if_size: self.of(Index::If_size),
            ring_num: self.of(Index::Ring_num),
            ring_size: self.of(Index::Ring_size),
            buf_num: self.of(Index::Buf_num),
            buf_size: self.of(Index::Buf_size),
            ring_slots: self.of(Index::Generic_ringsize),
            no_timestamp: self.of(Index::No_timestamp) != 0,
            domain_bytes: self.domain_bytes.load(Ordering::Relaxed),
        }
    }

    /// Returns the numbers and sizes of interface records and rings that a private memory reports.
    /// It has at least this much space for them.
    pub(crate) fn private_pools(&self) -> ObjectPools {
        ObjectPools {
            if_num: self.of(Index::Priv_if_num),
            if_size: self.of(Index::Priv_if_size),
            ring_num: self.of(Index::Priv_ring_num),
            ring_size: self.of(Index::Priv_ring_size),
        }
    }

    /// Returns the buffer size of a private memory, and the minimum sizes of its ring area and of
    /// its buffer area.
    pub(crate) fn private_geometry(&self) -> Geometry {
        let (bufs, buf_size) = (self.of(Index::Priv_buf_num), self.of(Index::Priv_buf_size));
        Geometry { ring_bytes: self.private_pools().bytes(), bufs, buf_size }
    }

    /// Returns whether every frame that a program gives back is forwarded between an interface and
    /// its host (the parameter `fwd`).
    pub(crate) fn forwards_between_nic_and_host(&self) -> bool {
        self.of(Index::Fwd) != 0
    }

    /// Records the sizes with which a global memory was created.
    pub(crate) fn set_current_sizes(&self, params: &MemoryParams) {
        for (index, value) in [
            (Index::If_curr_num, params.if_num),
            (Index::If_curr_size, params.if_size),
            (Index::Ring_curr_num, params.ring_num),
            (Index::Ring_curr_size, params.ring_size),
            (Index::Buf_curr_num, params.buf_num),
            (Index::Buf_curr_size, params.buf_size),
        ] {
            self.at(index).store(value.into(), Ordering::Relaxed);
        }
    }

    /// Returns the value of a parameter; `None` if the name is unknown.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<i64> {
        let at = PARAMETERS.iter().position(|one| one.name == name)?;
        Some(self.values[at].load(Ordering::Relaxed))
    }

    /// Sets a parameter.
    ///
    /// # Errors
    /// [`SetParameterError`] if no parameter has this name or the value is not allowed; the old
    /// value stays.
    pub fn set(&self, name: &str, value: i64) -> Result<(), SetParameterError> {
        let at =
            PARAMETERS.iter().position(|one| one.name == name).ok_or(SetParameterError::Unknown)?;
        if !PARAMETERS[at].accepts(value) {
            return Err(SetParameterError::Invalid(&PARAMETERS[at]));
        }
        self.values[at].store(value, Ordering::Relaxed);
        Ok(())
    }

    /// Sets the amount of address space for the memory of each new user.
    pub fn set_domain_bytes(&self, bytes: u64) {
        self.domain_bytes.store(bytes, Ordering::Relaxed);
    }

    fn at(&self, index: Index) -> &AtomicI64 {
        &self.values[index as usize]
    }

    /// Returns the value of a parameter. Only for parameters whose values fit in 32 bits.
    fn of(&self, index: Index) -> u32 {
        self.at(index).load(Ordering::Relaxed) as u32
    }
}

impl From<SetParameterError> for Errno {
    fn from(error: SetParameterError) -> Self {
        match error {
            SetParameterError::Unknown => Self::NOENT,
            SetParameterError::Invalid(Parameter { effect: ParameterEffect::ReadOnly, .. }) => {
                Self::PERM
            }
            SetParameterError::Invalid(_) => Self::INVAL,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_said_is_as_in_netmap() {
        let parameters = Parameters::new(&MemoryParams::default());
        assert_eq!(parameters.current(), MemoryParams::default());
        for one in PARAMETERS {
            assert_eq!(parameters.get(one.name), Some(one.default), "{}", one.name);
            let fits = one.effect == ParameterEffect::ReadOnly || one.accepts(one.default);
            assert!(fits, "{}", one.name);
        }
    }

    #[test]
    fn values_beyond_the_limits_change_nothing() {
        let parameters = Parameters::new(&MemoryParams::default());
        for (name, value) in
            [("buf_num", 3), ("buf_num", 1_000_001), ("buf_size", 3000), ("buf_curr_num", 5)]
        {
            let before = parameters.get(name);
            assert!(
                matches!(parameters.set(name, value), Err(SetParameterError::Invalid(_))),
                "{name}"
            );
            assert_eq!(parameters.get(name), before);
        }
        assert_eq!(parameters.set("bufnum", 3), Err(SetParameterError::Unknown));
    }

    #[test]
    fn a_value_that_was_set_holds_from_then_on() {
        let parameters = Parameters::new(&MemoryParams::default());
        parameters.set("generic_ringsize", 256).unwrap();
        parameters.set("no_timestamp", 1).unwrap();
        assert_eq!(
            (parameters.current().ring_slots, parameters.current().no_timestamp),
            (256, true)
        );
    }
}
