//! The binary form of the requests from the program to its privileged helper.
//!
//! ```text
//!   0       2           4         8         9      10       16         32
//!   | version | operation | ifindex | detail | on/len | zero | address |
//! ```
//! Numbers are in host byte order, because program and helper are the same executable.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use slipring_port::iface::Feature;

use crate::policy::HelperOperation;

/// Bytes of a request.
pub const REQUEST_LEN: usize = 32;
/// Maximum number of requests. Requests that a program may have to make at any time do not count
/// ([`HelperRequest::is_unlimited`]). After more requests, the helper assumes that its program is
/// compromised, and ends.
pub const MAX_REQUESTS: u32 = 4096;

pub(crate) const VERSION: u16 = 1;

/// An operation on an interface, or on the files of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HelperRequest {
    /// Switches an offload.
    SetFeature {
        /// The interface.
        ifindex: u32,
        /// The offload.
        feature: Feature,
        /// Whether to switch the offload on.
        on: bool,
    },
    /// Removes the hidden veth pair that the program created for the host rings of this interface.
    RemoveHiddenLink {
        /// The interface with the host rings.
        ifindex: u32,
    },
    /// Brings the interface up.
    SetUp {
        /// The interface.
        ifindex: u32,
    },
    /// Adds an IP address to the interface.
    AddAddress {
        /// The interface.
        ifindex: u32,
        /// The address.
        address: IpAddr,
        /// The length of the address's prefix.
        prefix_len: u8,
    },
    /// Removes an IP address from the interface.
    RemoveAddress {
        /// The interface.
        ifindex: u32,
        /// The address.
        address: IpAddr,
        /// The length of the address's prefix.
        prefix_len: u8,
    },
    /// Opens a packet socket that is bound to the interface; the answer contains the socket.
    OpenPacketSocket {
        /// The interface.
        ifindex: u32,
    },
    /// Attaches the XDP program whose descriptor is sent with the request; the answer contains the
    /// BPF link.
    AttachXdp {
        /// The interface.
        ifindex: u32,
        /// Whether to attach in the driver (native mode) instead of the network stack (generic
        /// mode).
        native: bool,
    },
    /// Makes the kernel resolve a neighbour of the interface, or confirm that it is still
    /// reachable.
    UseNeighbour {
        /// The interface.
        ifindex: u32,
        /// The neighbour's address.
        address: IpAddr,
    },
    /// Adds a static IPv4 route through the interface to the main table.
    AddRoute {
        /// The interface.
        ifindex: u32,
        /// The route's first address.
        destination: Ipv4Addr,
        /// The length of the route's prefix.
        prefix_len: u8,
        /// The next hop; unspecified (0.0.0.0) if the destinations are neighbours.
        gateway: Ipv4Addr,
    },
    /// Removes an IPv4 route through the interface from the main table.
    RemoveRoute {
        /// The interface.
        ifindex: u32,
        /// The route's first address.
        destination: Ipv4Addr,
        /// The length of the route's prefix.
        prefix_len: u8,
        /// The next hop; unspecified (0.0.0.0) if the destinations are neighbours.
        gateway: Ipv4Addr,
    },
    /// Removes an IPv4 neighbour of the interface.
    RemoveNeighbour {
        /// The interface.
        ifindex: u32,
        /// The neighbour's address.
        address: Ipv4Addr,
    },
    /// Gives the run the name in [`crate::RunFiles::name`], and takes that name away from any other
    /// run.
    TakeName,
    /// Removes the files of the run, because the program ends.
    RemoveRunFiles,
    /// Opens the list of the tables of iptables-legacy, which only root may do; the answer contains
    /// the file.
    OpenLegacyTables,
    /// Opens the list of the tables of ip6tables-legacy.
    OpenLegacyTables6,
}

/// Why a message is not a valid request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestFault {
    /// The message has this length instead of [`REQUEST_LEN`].
    Length(usize),
    /// The message has this version instead of the helper's.
    Version(u16),
    /// The message has this unknown operation.
    Operation(u16),
    /// A field is out of range, or a field that the operation does not use is not zero.
    Field,
}

/// The fields of a request whose meaning depends on the operation. In the picture above, these are
/// `detail`, `on/len` and `address`.
#[derive(Default)]
struct Fields {
    detail: u8,
    number: u8,
    address: [u8; 16],
}

impl Fields {
    /// Returns the fields of a request with an IPv4 route.
    fn of_route(destination: Ipv4Addr, prefix_len: u8, gateway: Ipv4Addr) -> Self {
        let mut address = [0; 16];
        address[..4].copy_from_slice(&destination.octets());
        address[4..8].copy_from_slice(&gateway.octets());
        Self { detail: IPV4, number: prefix_len, address }
    }

    /// Returns the fields of a request with an address.
    fn of(address: IpAddr) -> Self {
        let mut octets = [0; 16];
        let detail = match address {
            IpAddr::V4(address) => {
                octets[..4].copy_from_slice(&address.octets());
                IPV4
            }
            IpAddr::V6(address) => {
                octets = address.octets();
                IPV6
            }
        };
        Self { detail, number: 0, address: octets }
    }
}

const FEATURES: [Feature; 8] = [
    Feature::RxChecksum,
    Feature::TxChecksum,
    Feature::Tso,
    Feature::Gso,
    Feature::Gro,
    Feature::Lro,
    Feature::RxVlan,
    Feature::TxVlan,
];
const IPV4: u8 = 4;
const IPV6: u8 = 6;

impl HelperRequest {
    /// Returns the operation, without its parameters.
    #[must_use]
    pub fn operation(&self) -> HelperOperation {
        match self {
            Self::SetFeature { .. } => HelperOperation::SetFeature,
            Self::RemoveHiddenLink { .. } => HelperOperation::RemoveHiddenLink,
            Self::SetUp { .. } => HelperOperation::SetUp,
            Self::AddAddress { .. } => HelperOperation::AddAddress,
            Self::RemoveAddress { .. } => HelperOperation::RemoveAddress,
            Self::OpenPacketSocket { .. } => HelperOperation::OpenPacketSocket,
            Self::AttachXdp { .. } => HelperOperation::AttachXdp,
            Self::UseNeighbour { .. } => HelperOperation::UseNeighbour,
            Self::AddRoute { .. } => HelperOperation::AddRoute,
            Self::RemoveRoute { .. } => HelperOperation::RemoveRoute,
            Self::RemoveNeighbour { .. } => HelperOperation::RemoveNeighbour,
            Self::TakeName => HelperOperation::TakeName,
            Self::RemoveRunFiles => HelperOperation::RemoveRunFiles,
            Self::OpenLegacyTables => HelperOperation::OpenLegacyTables,
            Self::OpenLegacyTables6 => HelperOperation::OpenLegacyTables6,
        }
    }

    /// Returns the index of the interface that the request concerns; 0 for a request about files.
    #[must_use]
    pub fn ifindex(&self) -> u32 {
        match *self {
            Self::SetFeature { ifindex, .. }
            | Self::RemoveHiddenLink { ifindex }
            | Self::SetUp { ifindex }
            | Self::AddAddress { ifindex, .. }
            | Self::RemoveAddress { ifindex, .. }
            | Self::OpenPacketSocket { ifindex }
            | Self::AttachXdp { ifindex, .. }
            | Self::UseNeighbour { ifindex, .. }
            | Self::AddRoute { ifindex, .. }
            | Self::RemoveRoute { ifindex, .. }
            | Self::RemoveNeighbour { ifindex, .. } => ifindex,
            Self::TakeName
            | Self::RemoveRunFiles
            | Self::OpenLegacyTables
            | Self::OpenLegacyTables6 => 0,
        }
    }

    /// Whether the request does not count towards [`MAX_REQUESTS`], because a program may make any
    /// number of such requests: for each neighbour, for each route that a user changes, or once a
    /// second.
    #[must_use]
    pub fn is_unlimited(&self) -> bool {
        matches!(
            self,
            Self::UseNeighbour { .. }
                | Self::AddRoute { .. }
                | Self::RemoveRoute { .. }
                | Self::RemoveNeighbour { .. }
                | Self::OpenLegacyTables
                | Self::OpenLegacyTables6
        )
    }

    /// Returns the request in binary form.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; REQUEST_LEN] {
        let fields = self.fields();
        let mut bytes = [0; REQUEST_LEN];
        bytes[..2].copy_from_slice(&VERSION.to_ne_bytes());
        bytes[2..4].copy_from_slice(&(self.operation() as u16).to_ne_bytes());
        bytes[4..8].copy_from_slice(&self.ifindex().to_ne_bytes());
        (bytes[8], bytes[9]) = (fields.detail, fields.number);
        bytes[16..].copy_from_slice(&fields.address);
        bytes
    }

    fn fields(&self) -> Fields {
        match *self {
            Self::SetFeature { feature, on, .. } => {
                let detail = FEATURES.iter().position(|known| *known == feature).unwrap_or(0);
                Fields { detail: detail as u8, number: on.into(), ..Fields::default() }
            }
            Self::AddAddress { address, prefix_len, .. }
            | Self::RemoveAddress { address, prefix_len, .. } => {
                Fields { number: prefix_len, ..Fields::of(address) }
            }
            Self::UseNeighbour { address, .. } => Fields::of(address),
            Self::RemoveNeighbour { address, .. } => Fields::of(address.into()),
            Self::AddRoute { destination, prefix_len, gateway, .. }
            | Self::RemoveRoute { destination, prefix_len, gateway, .. } => {
                Fields::of_route(destination, prefix_len, gateway)
            }
            Self::AttachXdp { native, .. } => Fields { number: native.into(), ..Fields::default() },
            _ => Fields::default(),
        }
    }

    /// Parses a request. Only bytes that [`Self::to_bytes`] produces are accepted.
    ///
    /// # Errors
    /// [`RequestFault`] with the reason why the bytes are not a request.
    pub fn parse(bytes: &[u8]) -> Result<Self, RequestFault> {
        let bytes: &[u8; REQUEST_LEN] =
            bytes.try_into().map_err(|_| RequestFault::Length(bytes.len()))?;
        let version = u16::from_ne_bytes([bytes[0], bytes[1]]);
        if version != VERSION {
            return Err(RequestFault::Version(version));
        }
        let number = u16::from_ne_bytes([bytes[2], bytes[3]]);
        let operation = HelperOperation::ALL.into_iter().find(|known| *known as u16 == number);
        let operation = operation.ok_or(RequestFault::Operation(number))?;
        let request = Self::read(operation, bytes).ok_or(RequestFault::Field)?;
        // Unused bytes must be zero, so that each request has exactly one form.
        if request.to_bytes() == *bytes { Ok(request) } else { Err(RequestFault::Field) }
    }

    fn read(operation: HelperOperation, bytes: &[u8; REQUEST_LEN]) -> Option<Self> {
        let ifindex = u32::from_ne_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
        let (detail, number) = (bytes[8], bytes[9]);
        let address = || address_of(detail, number, &bytes[16..]);
        Some(match operation {
            HelperOperation::SetFeature => {
                let feature = *FEATURES.get(usize::from(detail))?;
                Self::SetFeature { ifindex, feature, on: number != 0 }
            }
            HelperOperation::RemoveHiddenLink => Self::RemoveHiddenLink { ifindex },
            HelperOperation::SetUp => Self::SetUp { ifindex },
            HelperOperation::AddAddress => {
                Self::AddAddress { ifindex, address: address()?, prefix_len: number }
            }
            HelperOperation::RemoveAddress => {
                Self::RemoveAddress { ifindex, address: address()?, prefix_len: number }
            }
            HelperOperation::OpenPacketSocket => Self::OpenPacketSocket { ifindex },
            HelperOperation::AttachXdp => Self::AttachXdp { ifindex, native: number != 0 },
            HelperOperation::UseNeighbour => Self::UseNeighbour { ifindex, address: address()? },
            HelperOperation::AddRoute => {
                let (destination, prefix_len, gateway) = route_of(detail, number, &bytes[16..])?;
                Self::AddRoute { ifindex, destination, prefix_len, gateway }
            }
            HelperOperation::RemoveRoute => {
                let (destination, prefix_len, gateway) = route_of(detail, number, &bytes[16..])?;
                Self::RemoveRoute { ifindex, destination, prefix_len, gateway }
            }
            HelperOperation::RemoveNeighbour => match address()? {
                IpAddr::V4(address) => Self::RemoveNeighbour { ifindex, address },
                IpAddr::V6(_) => return None,
            },
            HelperOperation::TakeName => Self::TakeName,
            HelperOperation::RemoveRunFiles => Self::RemoveRunFiles,
            HelperOperation::OpenLegacyTables => Self::OpenLegacyTables,
            HelperOperation::OpenLegacyTables6 => Self::OpenLegacyTables6,
        })
    }
}

/// Parses the destination, the prefix length and the gateway of a route; `None` if they are not
/// valid.
fn route_of(family: u8, prefix_len: u8, octets: &[u8]) -> Option<(Ipv4Addr, u8, Ipv4Addr)> {
    if family != IPV4 || prefix_len > 32 {
        return None;
    }
    let (destination, rest) = octets.split_first_chunk::<4>()?;
    Some(((*destination).into(), prefix_len, (*rest.first_chunk::<4>()?).into()))
}

fn address_of(family: u8, prefix_len: u8, octets: &[u8]) -> Option<IpAddr> {
    match family {
        IPV4 if prefix_len <= 32 => Some(IpAddr::V4(Ipv4Addr::from(*octets.first_chunk::<4>()?))),
        IPV6 if prefix_len <= 128 => Some(IpAddr::V6(Ipv6Addr::from(*octets.first_chunk::<16>()?))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn requests() -> impl Strategy<Value = HelperRequest> {
        let address = prop_oneof![
            (any::<[u8; 4]>(), 0..=32_u8).prop_map(|(octets, len)| (IpAddr::from(octets), len)),
            (any::<[u8; 16]>(), 0..=128_u8).prop_map(|(octets, len)| (IpAddr::from(octets), len)),
        ];
        let route = (any::<[u8; 4]>(), 0..=32_u8, any::<[u8; 4]>())
            .prop_map(|(to, len, via)| (Ipv4Addr::from(to), len, Ipv4Addr::from(via)));
        (any::<u32>(), 0..15, 0..8_usize, any::<bool>(), address, route).prop_map(
            |(ifindex, kind, feature, on, (address, prefix_len), route)| match kind {
                0 => HelperRequest::SetFeature { ifindex, feature: FEATURES[feature], on },
                1 => HelperRequest::RemoveHiddenLink { ifindex },
                2 => HelperRequest::SetUp { ifindex },
                3 => HelperRequest::AddAddress { ifindex, address, prefix_len },
                4 => HelperRequest::RemoveAddress { ifindex, address, prefix_len },
                5 => HelperRequest::OpenPacketSocket { ifindex },
                6 => HelperRequest::AttachXdp { ifindex, native: on },
                7 => HelperRequest::RemoveNeighbour { ifindex, address: route.0 },
                11 => HelperRequest::TakeName,
                12 => HelperRequest::RemoveRunFiles,
                13 => HelperRequest::OpenLegacyTables,
                14 => HelperRequest::OpenLegacyTables6,
                8 | 9 => {
                    let (destination, prefix_len, gateway) = route;
                    match kind {
                        8 => HelperRequest::AddRoute { ifindex, destination, prefix_len, gateway },
                        _ => {
                            HelperRequest::RemoveRoute { ifindex, destination, prefix_len, gateway }
                        }
                    }
                }
                _ => HelperRequest::UseNeighbour { ifindex, address },
            },
        )
    }

    proptest! {
        #[test]
        fn a_request_is_read_as_it_was_written(request in requests()) {
            prop_assert_eq!(HelperRequest::parse(&request.to_bytes()), Ok(request));
        }

        #[test]
        fn whatever_bytes_are_a_request_are_its_only_form(
            request in requests(),
            changes in prop::collection::vec((0..REQUEST_LEN, any::<u8>()), 0..4),
            len in 0..2 * REQUEST_LEN,
        ) {
            let mut bytes = request.to_bytes().to_vec();
            for (at, byte) in changes {
                bytes[at] = byte;
            }
            if let Ok(parsed) = HelperRequest::parse(&bytes) {
                prop_assert_eq!(&parsed.to_bytes()[..], &bytes[..]);
            }
            bytes.resize(len, 0);
            if len != REQUEST_LEN {
                prop_assert_eq!(HelperRequest::parse(&bytes), Err(RequestFault::Length(len)));
            }
        }
    }

    #[test]
    fn unknown_versions_operations_and_fields_are_told_apart() {
        let with = |at: usize, byte| {
            let mut bytes = HelperRequest::SetUp { ifindex: 1 }.to_bytes();
            bytes[at] = byte;
            HelperRequest::parse(&bytes).unwrap_err()
        };
        assert_eq!(with(0, 2), RequestFault::Version(2));
        assert_eq!(with(2, 99), RequestFault::Operation(99));
        assert_eq!(with(9, 1), RequestFault::Field);
        assert_eq!(with(31, 1), RequestFault::Field);
    }
}
