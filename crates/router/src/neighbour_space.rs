//! Reads how many neighbours the kernel can store (`gc_thresh3` of ip-sysctl). The kernel cannot
//! resolve more neighbours than that at a time.

use std::io;

use crate::dump::{attribute, dump};

/// The netlink family `NETLINK_ROUTE`.
const FAMILY: isize = 0;
/// `RTM_GETNEIGHTBL` of linux/rtnetlink.h.
const GET_TABLES: u16 = 66;
/// `struct ndtmsg`: family, padding.
const NDTMSG_LEN: usize = 4;
/// `NDTA_THRESH3` of linux/neighbour.h.
const THRESHOLD_3: u16 = 4;
/// `AF_INET` and `AF_INET6`.
const FAMILIES: [u8; 2] = [2, 10];

/// The sizes of the kernel's neighbour tables for IPv4 and IPv6; 0 for a table that it does not
/// have. The tables are those of all network namespaces.
///
/// # Errors
/// The kernel's error.
pub(crate) fn sizes() -> io::Result<[u32; 2]> {
    let answers = dump(FAMILY, GET_TABLES, &[0; NDTMSG_LEN])?;
    // The kernel also answers with a table's settings for each interface. These answers contain no
    // size, so they are skipped.
    let size_of = |family| answers.iter().find_map(|answer| size(answer, family));
    Ok(FAMILIES.map(|family| size_of(family).unwrap_or(0)))
}

fn size(answer: &[u8], family: u8) -> Option<u32> {
    let attributes = answer.get(NDTMSG_LEN..).filter(|_| answer.first() == Some(&family))?;
    attribute(attributes, THRESHOLD_3)?.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use slipring_test_support::Namespace;

    use super::*;

    #[test]
    fn the_sizes_are_those_of_sysctl() {
        let setting = std::fs::read_to_string("/proc/sys/net/ipv4/neigh/default/gc_thresh3");
        let known = setting.ok().and_then(|text| text.trim().parse::<u32>().ok());
        assert!(known.is_none_or(|known| sizes().unwrap()[0] == known));
        // A network namespace has no such setting of its own. In it, the kernel reports that of the
        // machine.
        let Some(namespace) = Namespace::new() else { return };
        let inside = namespace.run(|| sizes().unwrap());
        assert_eq!(inside, sizes().unwrap());
        assert!(inside[0] > 0);
    }
}
