//! The options after `@`: source of the memory, numbers of rings and slots, offsets of payloads.

use alloc::borrow::ToOwned;
use alloc::string::String;
use core::num::{NonZeroU8, NonZeroU16, NonZeroU32};

use super::cursor::NameCursor;
use super::error::{PortNameError, PortNameFault};
use super::{MemId, PortName, kind};

/// Where a port's memory comes from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum MemorySource {
    /// `@N`: the region with this number.
    Region(MemId),
    /// `@share:port=P`: the region of the port whose name is P.
    SharedWith(String),
    /// `@extmem:…`: memory that the program provides.
    External(Extmem),
}

/// A file that is used as memory, and how the memory is divided into objects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Extmem {
    /// Path of the file.
    pub file: String,
    /// Size and number of the interface records (`netmap_if`).
    pub interfaces: PoolSpec,
    /// Size and number of the rings' memory blocks.
    pub rings: PoolSpec,
    /// Size and number of the buffers.
    pub buffers: PoolSpec,
}

/// How many objects of one kind are requested, and of which size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PoolSpec {
    /// Number of objects; `None` means netmap's default.
    pub num: Option<NonZeroU32>,
    /// Size of an object in bytes; `None` means netmap's default.
    pub size: Option<NonZeroU32>,
}

/// `@conf:…`: the requested numbers of rings and slots. `None` requests no change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ConfSpec {
    /// Number of transmit rings of the NIC.
    pub tx_rings: Option<NonZeroU16>,
    /// Number of receive rings of the NIC.
    pub rx_rings: Option<NonZeroU16>,
    /// Number of transmit rings towards the host.
    pub host_tx_rings: Option<NonZeroU16>,
    /// Number of receive rings from the host.
    pub host_rx_rings: Option<NonZeroU16>,
    /// Number of slots of a transmit ring.
    pub tx_slots: Option<NonZeroU32>,
    /// Number of slots of a receive ring.
    pub rx_slots: Option<NonZeroU32>,
}

/// `@offset:…`: where payloads start in their buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OffsetSpec {
    /// The offset in bytes that every slot has at first.
    pub initial: u64,
    /// How many bits of a slot's `ptr` contain the offset, at most 64; `None` means all bits.
    pub bits: Option<NonZeroU8>,
}

/// The characters that end the value of a key. A doubled character is part of the value.
pub(super) const VALUE_ENDS: &str = ",@";
/// Like [`VALUE_ENDS`], but for the value of a short form. It extends to the end of the option.
const SHORT_ENDS: &str = "@";

// The first key in each list is the one that a short form omits.
const SHARE_KEYS: &[&str] = &["port"];
const EXTMEM_KEYS: &[&str] =
    &["file", "if-num", "if-size", "ring-num", "ring-size", "buf-num", "buf-size"];
const CONF_KEYS: &[&str] = &[
    "rings",
    "host-rings",
    "tx-rings",
    "rx-rings",
    "host-tx-rings",
    "host-rx-rings",
    "slots",
    "tx-slots",
    "rx-slots",
];
/// How many entries at the start of [`CONF_KEYS`] are numbers of rings.
const CONF_RING_KEYS: usize = 6;
const OFFSET_KEYS: &[&str] = &["initial", "bits"];
const MAX_OFFSET_BITS: NonZeroU8 = NonZeroU8::new(64).expect("64 is not 0");

/// Parses an option with its `@`, and stores it in `port`.
pub(super) fn option(at: &mut NameCursor<'_>, port: &mut PortName) -> Result<(), PortNameError> {
    let start = *at;
    at.bump();
    if at.peek().is_some_and(|c| c.is_ascii_digit()) {
        let id = MemId(at.positive("the number of a region", NonZeroU16::MAX)?);
        return set_memory(start, port, MemorySource::Region(id));
    }
    if at.peek() == Some('/') && port.kind.has(kind::DEVICE_PATH) && port.device.is_none() {
        port.device = Some(text(at, "the path of a device", SHORT_ENDS)?);
        return Ok(());
    }
    let word_at = *at;
    match at.take_while(is_key_char) {
        "share" => set_memory(start, port, MemorySource::SharedWith(share(at)?))?,
        "extmem" => set_memory(start, port, MemorySource::External(extmem(at)?))?,
        "conf" if port.conf == ConfSpec::default() => port.conf = conf(at)?,
        "offset" if port.offsets.is_none() => port.offsets = Some(offsets(at)?),
        word @ ("conf" | "offset") => {
            return word_at.fail(PortNameFault::Repeated(word.to_owned()));
        }
        "" => return at.expected("the number of a memory region or an option"),
        word => return word_at.fail(PortNameFault::UnknownOption(word.to_owned())),
    }
    Ok(())
}

/// Returns whether a key may contain the character. As in netmap, `_` in a key means `-`.
fn is_key_char(c: char) -> bool {
    c.is_ascii_lowercase() || matches!(c, '-' | '_')
}

fn set_memory(
    start: NameCursor<'_>,
    port: &mut PortName,
    memory: MemorySource,
) -> Result<(), PortNameError> {
    match &port.memory {
        Some(other) if *other != memory => start.fail(PortNameFault::SecondMemory),
        _ => {
            port.memory = Some(memory);
            Ok(())
        }
    }
}

fn share(at: &mut NameCursor<'_>) -> Result<String, PortNameError> {
    let mut port = String::new();
    pairs(at, SHARE_KEYS, ShortForm::Yes, |at, _, ends| {
        port = text(at, "the name of a port", ends)?;
        Ok(())
    })?;
    Ok(port)
}

fn extmem(at: &mut NameCursor<'_>) -> Result<Extmem, PortNameError> {
    let mut file = None;
    let mut sizes = [None; EXTMEM_KEYS.len()];
    pairs(at, EXTMEM_KEYS, ShortForm::Yes, |at, key, ends| {
        if key == 0 {
            file = Some(text(at, "the name of a file", ends)?);
        } else {
            sizes[key] = Some(at.positive("a number", NonZeroU32::MAX)?);
        }
        Ok(())
    })?;
    let Some(file) = file else {
        return at.expected("`,file=`");
    };
    let [_, if_num, if_size, ring_num, ring_size, buf_num, buf_size] = sizes;
    let pool = |num, size| PoolSpec { num, size };
    Ok(Extmem {
        file,
        interfaces: pool(if_num, if_size),
        rings: pool(ring_num, ring_size),
        buffers: pool(buf_num, buf_size),
    })
}

fn conf(at: &mut NameCursor<'_>) -> Result<ConfSpec, PortNameError> {
    let mut rings = [None; CONF_RING_KEYS];
    let mut slots = [None; CONF_KEYS.len() - CONF_RING_KEYS];
    pairs(at, CONF_KEYS, ShortForm::No, |at, key, _| {
        match key.checked_sub(CONF_RING_KEYS) {
            None => rings[key] = Some(at.positive("a number", NonZeroU16::MAX)?),
            Some(key) => slots[key] = Some(at.positive("a number", NonZeroU32::MAX)?),
        }
        Ok(())
    })?;
    let [rings, host_rings, tx, rx, host_tx, host_rx] = rings;
    let [slots, tx_slots, rx_slots] = slots;
    // A specific key, such as `tx-rings`, has precedence over the general key `rings`. Their order
    // does not matter.
    Ok(ConfSpec {
        tx_rings: tx.or(rings),
        rx_rings: rx.or(rings),
        host_tx_rings: host_tx.or(host_rings),
        host_rx_rings: host_rx.or(host_rings),
        tx_slots: tx_slots.or(slots),
        rx_slots: rx_slots.or(slots),
    })
}

fn offsets(at: &mut NameCursor<'_>) -> Result<OffsetSpec, PortNameError> {
    let (mut initial, mut bits) = (None, None);
    pairs(at, OFFSET_KEYS, ShortForm::Yes, |at, key, _| {
        if key == 0 {
            initial = Some(at.number("a number of bytes", u64::MAX)?);
        } else {
            bits = Some(at.positive("a number of bits", MAX_OFFSET_BITS)?);
        }
        Ok(())
    })?;
    match initial {
        Some(initial) => Ok(OffsetSpec { initial, bits }),
        None => at.expected("`,initial=`"),
    }
}

/// Whether an option has a short form. In a short form, `=` replaces `:`, the first key and its
/// `=`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ShortForm {
    Yes,
    No,
}

/// Parses `:key=value,…` or the short form. `value` parses a value; it gets the index of the
/// value's key, and the characters that end the value.
fn pairs<'a>(
    at: &mut NameCursor<'a>,
    keys: &'static [&'static str],
    short_form: ShortForm,
    mut value: impl FnMut(&mut NameCursor<'a>, usize, &'static str) -> Result<(), PortNameError>,
) -> Result<(), PortNameError> {
    if short_form == ShortForm::Yes && at.eat('=') {
        return value(at, 0, SHORT_ENDS);
    }
    if !at.eat(':') {
        return at.expected("`:`");
    }
    let mut seen = 0_u32;
    loop {
        let key = key(at, keys, &mut seen)?;
        value(at, key, VALUE_ENDS)?;
        if !at.eat(',') {
            return Ok(());
        }
    }
}

/// Parses `key=` and returns the index of the key. `seen` has a bit for each key that was parsed
/// before.
fn key(
    at: &mut NameCursor<'_>,
    keys: &'static [&'static str],
    seen: &mut u32,
) -> Result<usize, PortNameError> {
    let start = *at;
    let key = at.take_while(is_key_char);
    if key.is_empty() {
        return at.expected("a key");
    }
    let Some(index) = keys.iter().position(|known| *known == key.replace('_', "-")) else {
        let key = key.to_owned();
        return start.fail(PortNameFault::UnknownKey { key, known: keys });
    };
    if *seen & 1 << index != 0 {
        return start.fail(PortNameFault::Repeated(keys[index].to_owned()));
    }
    *seen |= 1 << index;
    if !at.eat('=') {
        return at.expected("`=`");
    }
    Ok(index)
}

fn text(at: &mut NameCursor<'_>, what: &'static str, ends: &str) -> Result<String, PortNameError> {
    let start = *at;
    let mut text = String::new();
    while let Some(c) = at.literal(ends) {
        text.push(c);
    }
    if text.is_empty() {
        return start.expected(what);
    }
    Ok(text)
}
