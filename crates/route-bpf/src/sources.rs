//! For each target and port: whether the route with this target leads back through the port. This
//! serves to check the sources of packets that arrive on the port.
//!
//! ```text
//!   target --> | port 0: 2 bits | port 1 | ... | port 31 |  next word: ports 32 to 63  ...
//! ```
//!
//! A word is read and written as a whole, so a program needs no other record to judge a source.

use slipring_fib::{AdjacencyIndex, ForwardingTables, Target, TargetAction};

/// Number of ports in a word.
pub(crate) const PORTS_PER_WORD: u32 = 32;
/// A word with the code [`SourceCode::Elsewhere`] for all its ports.
const EVERYWHERE: u64 = 0x5555_5555_5555_5555;

/// Whether the route to a packet's source leads through the port on which the packet arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SourceCode {
    /// Only the kernel knows the route. Unused targets also have this code.
    Kernel = 0,
    /// The route leads through other ports.
    Elsewhere = 1,
    /// The route, or one of its next hops, leads through this port.
    Here = 2,
    /// There is no route, or the route refuses packets.
    NoRoute = 3,
}

/// The position of a port's code in its word, in bits.
pub(crate) const fn shift(port: u16) -> u32 {
    2 * (port as u32 % PORTS_PER_WORD)
}

/// Returns a word of a target. It contains the codes of 32 ports, from port `32 * index` on.
pub(crate) fn word(target: &Target, tables: &ForwardingTables, index: u32) -> u64 {
    let one;
    let (code, hops) = match target.action {
        TargetAction::Kernel => (SourceCode::Kernel, &[][..]),
        TargetAction::Forward(hop) => {
            one = [hop];
            (SourceCode::Elsewhere, &one[..])
        }
        TargetAction::Balance(group) => {
            let buckets = tables.buckets.get(usize::from(group));
            (SourceCode::Elsewhere, buckets.map_or(&[][..], |buckets| &buckets[..]))
        }
        _ => (SourceCode::NoRoute, &[][..]),
    };
    let port =
        |hop: &AdjacencyIndex| tables.adjacencies.get(usize::from(hop.0)).map(|to| to.port.0);
    let here =
        hops.iter().filter_map(port).filter(|port| u32::from(*port) / PORTS_PER_WORD == index);
    here.fold(EVERYWHERE * code as u64, |word, port| {
        word & !(3 << shift(port)) | (SourceCode::Here as u64) << shift(port)
    })
}

#[cfg(test)]
mod tests {
    use slipring_fib::FibPortIndex;

    use super::*;
    use crate::testing::snapshot;

    fn code(word: u64, port: u16) -> u64 {
        word >> shift(port) & 3
    }

    #[test]
    fn each_port_has_a_code_of_its_own_in_the_word_of_its_number() {
        let mut tables = snapshot();
        let mut adjacencies = tables.adjacencies.to_vec();
        adjacencies[0].port = FibPortIndex(45);
        tables.adjacencies = adjacencies.into();
        let target = Target { action: TargetAction::Balance(0), mtu: 0 };
        let words = [0, 1].map(|index| word(&target, &tables, index));
        for port in 0..64 {
            let expected = if port == 2 || port == 45 { 2 } else { 1 };
            assert_eq!(code(words[usize::from(port) / 32], port), expected, "port {port}");
        }
    }

    #[test]
    fn a_target_that_is_not_in_use_is_a_word_of_zeros_as_in_a_new_map() {
        let target = Target { action: TargetAction::Kernel, mtu: 0 };
        assert_eq!(word(&target, &snapshot(), 0), 0);
    }
}
