//! Recognises packets that the programs leave to the kernel because of their header alone. It is
//! used for explanations; tests compare it with the programs.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::layout::{local_bit, local_bit_v6};

/// The parts of an IP header that the programs check.
#[derive(Clone, Copy)]
struct SpecialFields {
    source: IpAddr,
    destination: IpAddr,
    has_options: bool,
}

impl SpecialFields {
    fn of(packet: &[u8]) -> Option<Self> {
        let address = |at: usize, is_v6: bool| match is_v6 {
            true => Some(Ipv6Addr::from(*packet.get(at..)?.first_chunk::<16>()?).into()),
            false => Some(Ipv4Addr::from(*packet.get(at..)?.first_chunk::<4>()?).into()),
        };
        let first = *packet.first()?;
        match first >> 4 {
            4 => Some(Self {
                source: address(12, false)?,
                destination: address(16, false)?,
                has_options: first > 0x45,
            }),
            6 => Some(Self {
                source: address(8, true)?,
                destination: address(24, true)?,
                has_options: *packet.get(6)? == 0,
            }),
            _ => None,
        }
    }
}

/// Whether the forwarding program leaves a valid packet to the kernel because of its addresses. The
/// engine in user space would forward some of these: reserved addresses, and sources that share a
/// bit with an address of this machine. `local` contains the addresses given to
/// `BpfRouter::set_local`.
#[must_use]
pub fn has_address_for_kernel(packet: &[u8], local: &[(IpAddr, u8)]) -> bool {
    let Some(SpecialFields { source, destination, .. }) = SpecialFields::of(packet) else {
        return true;
    };
    let is_local = local.iter().any(|&(own, len)| match (own, source) {
        (own, _) if own.is_loopback() => false,
        (IpAddr::V4(own), IpAddr::V4(source)) => {
            len < 32 || local_bit(own.octets()) == local_bit(source.octets())
        }
        (IpAddr::V6(own), IpAddr::V6(source)) => {
            len < 128 || local_bit_v6(own.to_bits()) == local_bit_v6(source.to_bits())
        }
        _ => false,
    });
    is_local || is_never_forwarded(source) || is_never_forwarded(destination)
}

fn is_never_forwarded(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => matches!(address.octets()[0], 0 | 127 | 224..),
        IpAddr::V6(address) => {
            address.to_bits() >> 64 == 0
                || address.is_multicast()
                || address.is_unicast_link_local()
        }
    }
}

/// Whether the program that hands packets over to the engine in user space leaves a packet to the
/// kernel because of its header. `takes_options` is the field of
/// [`AttachOptions`](crate::AttachOptions).
#[must_use]
pub fn is_kept_from_sockets(packet: &[u8], takes_options: bool) -> bool {
    let Some(fields) = SpecialFields::of(packet) else { return true };
    let is_special = match (fields.source, fields.destination) {
        (IpAddr::V4(source), IpAddr::V4(to)) => source.octets()[0] == 0 || to.octets()[0] >= 224,
        (_, IpAddr::V6(to)) => to.is_multicast() || to.is_unicast_link_local(),
        _ => false,
    };
    is_special || fields.has_options && !takes_options
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PassReason;
    use crate::program::kernel_tests::frames;
    use crate::testing::{LOCAL, Simulation};
    use proptest::prelude::*;
    use std::cell::RefCell;

    /// Runs random frames. `check` gets each frame with the reason for which the program left it to
    /// the kernel.
    fn compare(router: Simulation, check: impl Fn(&[u8], Option<PassReason>)) {
        let router = RefCell::new(router);
        let config =
            ProptestConfig { cases: 6000, failure_persistence: None, ..ProptestConfig::default() };
        proptest!(config, |(frame in frames())| {
            // Only a frame whose EtherType and IP version agree can contain a valid IP packet.
            let version = frame.get(14).map(|first| (frame[12], first >> 4));
            prop_assume!(matches!(version, Some((0x08, 4) | (0x86, 6))));
            let mut router = router.borrow_mut();
            let before = router.counters();
            router.run(&frame);
            let after = router.counters();
            let mut reasons = PassReason::ALL.iter().copied();
            check(&frame, reasons.find(|&one| after.passed(one) > before.passed(one)));
        });
    }

    #[test]
    fn addresses_for_the_kernel_are_those_of_the_program() {
        let local = [(IpAddr::from(LOCAL), 32), (IpAddr::from([127, 0, 0, 0]), 8)];
        compare(Simulation::new(false), |frame, reason| {
            let found = has_address_for_kernel(&frame[14..], &local);
            match reason {
                Some(PassReason::Address) => assert!(found),
                // The program finds these reasons before it checks addresses.
                Some(
                    PassReason::OtherMac
                    | PassReason::NotIp
                    | PassReason::Options
                    | PassReason::Length
                    | PassReason::Checksum
                    | PassReason::Ttl,
                ) => {}
                _ => assert!(!found, "{reason:?}"),
            }
        });
    }

    #[test]
    fn packets_kept_from_sockets_are_those_of_the_program() {
        compare(Simulation::with_socket(), |frame, reason| {
            let kept = is_kept_from_sockets(&frame[14..], false);
            match reason {
                Some(PassReason::Address | PassReason::Options) => assert!(kept),
                None | Some(PassReason::Kernel | PassReason::NoSocket) => assert!(!kept),
                Some(_) => {}
            }
        });
    }
}
