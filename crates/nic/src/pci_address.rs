//! PCI addresses.

use std::fmt;

/// The address of a PCI device. It is written in one way: `0000:0a:00.0`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PciAddress {
    domain: u32,
    bus: u8,
    device: u8,
    function: u8,
}

impl PciAddress {
    /// Reads an address in either case, with its domain or without: `0000:0A:00.0`, `0a:00.0`.
    /// `None` if the text is anything else.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (rest, function) = text.split_once('.')?;
        let mut parts = rest.rsplit(':');
        let device = hex(parts.next()?, 2..=2).filter(|device| *device < 32)?;
        let bus = hex(parts.next()?, 2..=2)?;
        // Most machines have one domain. Domains behind a controller of Intel have five digits.
        let domain = parts.next().map_or(Some(0), |domain| hex(domain, 4..=8))?;
        if parts.next().is_some() {
            return None;
        }
        let function = hex(function, 1..=1).filter(|function| *function < 8)?;
        Some(Self { domain, bus: bus as u8, device: device as u8, function: function as u8 })
    }
}

/// Reads a hexadecimal number with a number of digits in this range.
fn hex(text: &str, digits: std::ops::RangeInclusive<usize>) -> Option<u32> {
    // The library's function accepts a sign, too.
    let is_number =
        digits.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_number { u32::from_str_radix(text, 16).ok() } else { None }
}

impl fmt::Display for PciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { domain, bus, device, function } = self;
        write!(f, "{domain:04x}:{bus:02x}:{device:02x}.{function}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_written_in_one_way_however_it_was_typed() {
        for text in ["0000:0A:1f.3", "0a:1F.3", "0000:0a:1f.3"] {
            assert_eq!(PciAddress::parse(text).unwrap().to_string(), "0000:0a:1f.3", "{text}");
        }
        assert_eq!(PciAddress::parse("10000:e1:00.0").unwrap().to_string(), "10000:e1:00.0");
    }

    #[test]
    fn what_is_no_address_is_none() {
        for text in [
            "",
            "eth0",
            "0000:00:08.0/",
            "../devices/0000:00:08.0",
            "0000:00:08",
            "00:08.00",
            "0:8.0",
            "0000:00:20.0",
            "0000:00:08.8",
            "0000:0000:00:08.0",
            "+0000:00:08.0",
            "0000:+0:08.0",
            ":::",
        ] {
            assert_eq!(PciAddress::parse(text), None, "{text}");
        }
    }
}
