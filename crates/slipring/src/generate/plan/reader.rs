//! Flags in pkt-gen's form: option bits, ring sizes, and flags that have no effect in this program.

use std::num::{NonZeroU16, NonZeroU32};
use std::time::Duration;

use clap::ArgMatches;
use clap::parser::ValueSource;
use slipring_abi::name::PortName;
use slipring_cli::Failure;
use slipring_cli::units::{Count, TimeSpan};

use super::{pinning, wrong};
use crate::generate::function::GenFunction;

/// pkt-gen's option bits. All others have no meaning and are refused.
pub(super) mod bits {
    pub(in crate::generate::plan) const LATENCY: u32 = 16;
    pub(in crate::generate::plan) const INDIRECT: u32 = 32;
    pub(in crate::generate::plan) const DUMP: u32 = 64;
    pub(in crate::generate::plan) const UNINITIALISED: u32 = 256;
    pub(in crate::generate::plan) const RANDOM_SRC: u32 = 512;
    pub(in crate::generate::plan) const RANDOM_DST: u32 = 1024;
    pub(in crate::generate::plan) const STATISTICS: u32 = 2048;
    /// The bits for prefetch, access, copy and memcpy. They are hints, and have no effect in this
    /// program.
    pub(in crate::generate::plan) const TOUCH: u32 = 1 | 2 | 4 | 8;
    /// The bit for checksums. It has no effect in this program, because checksums are always
    /// correct.
    pub(in crate::generate::plan) const CHECKSUM: u32 = 4096;
    pub(in crate::generate::plan) const KNOWN: u32 = LATENCY
        | INDIRECT
        | DUMP
        | UNINITIALISED
        | RANDOM_SRC
        | RANDOM_DST
        | STATISTICS
        | TOUCH
        | CHECKSUM;
}

/// Flags about the frames to send. They have no effect if no frames are generated.
const FRAME_FLAGS: [&str; 21] = [
    "size",
    "dst",
    "src",
    "dst-mac",
    "src-mac",
    "ipv4",
    "ipv6",
    "random-src",
    "random-dst",
    "proto",
    "vlan",
    "ttl",
    "tos",
    "seed",
    "stream",
    "fragments",
    "fragment-size",
    "uninitialised",
    "rate",
    "pcap",
    "timed",
];

/// The flags, combined with pkt-gen's option bits.
pub(super) struct FlagReader<'m> {
    pub(super) matches: &'m ArgMatches,
    bits: u32,
}

impl<'m> FlagReader<'m> {
    /// Parses the option bits first, because they can replace other flags.
    pub(super) fn new(matches: &'m ArgMatches) -> Result<Self, Failure> {
        Ok(Self { matches, bits: option_bits(matches)? })
    }

    pub(super) fn flag(&self, id: &str, bit: u32) -> bool {
        self.matches.get_flag(id) || self.bits & bit != 0
    }

    pub(super) fn typed(&self, id: &str) -> bool {
        self.matches.value_source(id) == Some(ValueSource::CommandLine)
    }

    pub(super) fn get<T: Clone + Send + Sync + 'static>(&self, id: &str) -> Option<T> {
        self.matches.get_one::<T>(id).cloned()
    }

    pub(super) fn text(&self, id: &str) -> Option<&str> {
        self.matches.get_one::<String>(id).map(String::as_str)
    }

    pub(super) fn count(&self, id: &str) -> Option<u64> {
        self.get::<Count>(id).map(|count| count.0)
    }

    pub(super) fn span(&self, id: &str) -> Option<Duration> {
        self.get::<TimeSpan>(id).map(TimeSpan::duration)
    }
}

fn option_bits(matches: &ArgMatches) -> Result<u32, Failure> {
    let bits = matches.get_one::<u32>("options").copied().unwrap_or(0);
    let unknown = bits & !bits::KNOWN;
    if unknown == 0 {
        return Ok(bits);
    }
    let cause = format!("pkt-gen had no meaning for the bits of {unknown}");
    let summary = format!("`{bits}` does not fit --options");
    Err(wrong(summary, cause, "use the long flags instead; see --help"))
}

/// Returns the length in bytes of the virtio-net header before each frame.
pub(super) fn vnet_header(reader: &FlagReader<'_>) -> u32 {
    match reader.text("vnet-header") {
        Some("10") => 10,
        Some("12") => 12,
        _ => 0,
    }
}

/// Adds the numbers of pkt-gen's `-C` to the name, as `@conf:` options, except those that the name
/// already has.
pub(super) fn add_conf(port: &mut PortName, text: &str) -> Result<(), Failure> {
    let unfit = || {
        wrong(
            format!("`{text}` does not fit --config-rings"),
            "it is up to four numbers, none of them 0, with commas between",
            "write -C 512,512,2,2, or @conf:slots=512,rings=2 behind the port's name",
        )
    };
    let parts: Vec<_> = text.split(',').collect();
    if parts.len() > 4 {
        return Err(unfit());
    }
    for (i, part) in parts.into_iter().enumerate() {
        let number: NonZeroU32 = part.parse().map_err(|_| unfit())?;
        let rings = NonZeroU16::try_from(number);
        match i {
            0 => port.conf.tx_slots = port.conf.tx_slots.or(Some(number)),
            1 => port.conf.rx_slots = port.conf.rx_slots.or(Some(number)),
            2 => port.conf.tx_rings = port.conf.tx_rings.or(Some(rings.map_err(|_| unfit())?)),
            _ => port.conf.rx_rings = port.conf.rx_rings.or(Some(rings.map_err(|_| unfit())?)),
        }
    }
    Ok(())
}

/// Returns a warning for each flag without effect.
pub(super) fn warnings(reader: &FlagReader<'_>, function: GenFunction) -> Vec<String> {
    let mut warnings = Vec::new();
    if reader.flag("indirect", bits::INDIRECT) {
        warnings.push("-I has no effect: frames are written in place, which costs less".to_owned());
    }
    if reader.bits & bits::TOUCH != 0 {
        warnings
            .push("-o 1, 2, 4 and 8 have no effect: frames are always written whole".to_owned());
    }
    if reader.typed("cpus") && pinning(reader).is_none() {
        warnings.push("-c has no effect without -a".to_owned());
    }
    if function == GenFunction::Pong && reader.flag("latency", bits::LATENCY) {
        warnings.push("--latency has no effect on pong: the ping measures it".to_owned());
    }
    if !function.only_receives() && reader.matches.get_flag("exit-when-idle") {
        warnings.push(format!("--exit-when-idle has no effect on {}", function.name()));
    }
    if !function.sends() {
        let idle = FRAME_FLAGS.into_iter().filter(|id| reader.typed(id));
        warnings.extend(idle.map(|id| format!("--{id} has no effect on {}", function.name())));
    }
    warnings
}
