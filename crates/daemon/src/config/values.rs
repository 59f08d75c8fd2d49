//! Parsers of values. Their errors list the allowed values.

use slipring_fuse::UringMode;
use slipring_netmap::PortKind;

use crate::rules::KIND_NAMES;

/// Parses the mode of a file, which is at most three octal digits: owner, group and others.
#[allow(clippy::ptr_arg)] // Called with what the file holds.
pub(crate) fn permissions(text: &String) -> Result<u32, String> {
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777);
    mode.ok_or_else(|| "a mode is an octal number up to 777".to_owned())
}

/// Parses the number of workers. There are at least two, so that one can run while the other waits.
pub(super) fn workers(count: &i64) -> Result<usize, String> {
    let fits = usize::try_from(*count).ok().filter(|count| (2..=64).contains(count));
    fits.ok_or_else(|| "2 to 64".to_owned())
}

/// Parses whether requests arrive by io_uring.
#[allow(clippy::ptr_arg)] // Called with what the file holds.
pub(crate) fn uring(text: &String) -> Result<UringMode, String> {
    match text.as_str() {
        "auto" => Ok(UringMode::Auto),
        "on" => Ok(UringMode::On),
        "off" => Ok(UringMode::Off),
        _ => Err("auto, on, off".to_owned()),
    }
}

/// Parses a size of memory, which is a whole number of MiB, GiB or TiB. Returns it in bytes.
#[allow(clippy::ptr_arg)] // Called with what the file holds.
pub(super) fn memory(text: &String) -> Result<u64, String> {
    const MIB: u64 = 1 << 20;
    let units = [("MiB", MIB), ("GiB", MIB << 10), ("TiB", MIB << 20)];
    let read = units.iter().find_map(|(unit, bytes)| {
        let count: u64 = text.strip_suffix(unit)?.trim_end().parse().ok()?;
        count.checked_mul(*bytes)
    });
    let fits = read.filter(|bytes| (512 * MIB..=16 * (MIB << 20)).contains(bytes));
    fits.ok_or_else(|| "512MiB to 16TiB".to_owned())
}

/// Parses the word for a kind of port.
#[allow(clippy::ptr_arg)] // Called with what the file holds.
pub(super) fn kind(text: &String) -> Result<PortKind, String> {
    let found = KIND_NAMES.iter().find(|(word, _)| word == text);
    found.map(|(_, kind)| *kind).ok_or_else(|| KIND_NAMES.map(|(word, _)| word).join(", "))
}
