//! The bytes that change from frame to frame: headers and stamp.

use slipring_wire::assigned::IpProto;
use slipring_wire::checksum::nonzero;
use slipring_wire::frame::FrameLayout;
use slipring_wire::view::IpVersion;

use super::shape::FrameShape;
use super::sum::PartialSum;
use crate::endpoints::TrafficEndpoint;
use crate::stamp::{Stamp, StampForm};

/// Length of the longest head. It has Ethernet, two tags, IPv6, TCP, and a timed stamp.
const MAX_HEAD_LEN: usize = 14 + 2 * 4 + 40 + 20 + StampForm::Timed.bytes();

/// The head of the next frame. It is kept up to date in place.
#[derive(Clone, Debug)]
pub(super) struct FrameHead {
    bytes: [u8; MAX_HEAD_LEN],
    len: usize,
    layout: FrameLayout,
    form: Option<StampForm>,
    addresses: (u128, u128),
    /// The addresses' part of the checksum of the IPv4 header and of the transport checksum.
    address_sum: PartialSum,
    identity_sum: PartialSum,
    /// The part of the transport checksum from fields that only change with the flow: the
    /// addresses, the ports, and the constant part of the stamp.
    flow_sum: PartialSum,
}

impl FrameHead {
    /// Creates the head from a template. The fields of the template that change must be zero.
    pub(super) fn new(template: &[u8], layout: FrameLayout, form: Option<StampForm>) -> Self {
        let len = Self::len_of(&layout, form);
        let mut bytes = [0; MAX_HEAD_LEN];
        bytes[..len].copy_from_slice(&template[..len]);
        Self {
            bytes,
            len,
            layout,
            form,
            addresses: (0, 0),
            address_sum: PartialSum::default(),
            identity_sum: PartialSum::default(),
            flow_sum: PartialSum::default(),
        }
    }

    /// Returns the length of the head of frames whose stamp has this form.
    pub(super) fn len_of(layout: &FrameLayout, form: Option<StampForm>) -> usize {
        layout.payload + form.map_or(0, StampForm::bytes)
    }

    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    pub(super) fn form(&self) -> Option<StampForm> {
        self.form
    }

    /// Writes the part of the stamp that is the same in all frames. Afterwards, the caller must
    /// call [`Self::put_flow`] again.
    pub(super) fn put_identity(&mut self, stream_id: u16) {
        let Some(form) = self.form else { return };
        let identity = u32::from(form.mark()) << 16 | u32::from(stream_id);
        self.put(self.layout.payload + 4, identity.to_be_bytes());
        self.identity_sum = PartialSum::default().plus_u32(identity);
    }

    /// Writes the addresses and ports. Returns whether the addresses have changed. If so, the
    /// caller must call [`Self::put_shape`] again.
    #[inline]
    pub(super) fn put_flow(&mut self, src: TrafficEndpoint, dst: TrafficEndpoint) -> bool {
        let addresses = (src.address, dst.address);
        let moved = addresses != self.addresses;
        if moved {
            self.put_addresses(addresses);
        }
        let ports = u32::from(src.port) << 16 | u32::from(dst.port);
        let at = self.layout.echo_id().unwrap_or(self.layout.l4);
        self.put(at, ports.to_be_bytes());
        self.flow_sum = self.identity_sum.plus_u32(ports);
        // Of all protocols here, only ICMPv4 has a checksum that does not cover the addresses.
        if self.layout.proto != IpProto::ICMP {
            self.flow_sum = self.flow_sum.plus(self.address_sum);
        }
        moved
    }

    fn put_addresses(&mut self, (src, dst): (u128, u128)) {
        let (at_src, at_dst) = (self.layout.ip_src(), self.layout.ip_dst());
        match self.layout.version {
            IpVersion::V4 => {
                self.put(at_src, (src as u32).to_be_bytes());
                self.put(at_dst, (dst as u32).to_be_bytes());
            }
            IpVersion::V6 => {
                self.put(at_src, src.to_be_bytes());
                self.put(at_dst, dst.to_be_bytes());
            }
        }
        self.addresses = (src, dst);
        self.address_sum = PartialSum::default().plus_u128(src).plus_u128(dst);
    }

    /// Writes the length fields, and the checksum of the IPv4 header, which covers the addresses.
    #[inline]
    pub(super) fn put_shape(&mut self, shape: &FrameShape) {
        let FrameLayout { l3, l4, .. } = self.layout;
        let len = usize::from(shape.len);
        if self.layout.proto == IpProto::UDP {
            self.put(l4 + 4, ((len - l4) as u16).to_be_bytes());
        }
        let Some(ip_check) = self.layout.ip_check() else {
            return self.put(l3 + 4, ((len - l4) as u16).to_be_bytes());
        };
        self.put(l3 + 2, ((len - l3) as u16).to_be_bytes());
        let checksum = shape.ip_sum.plus(self.address_sum).checksum();
        self.put(ip_check, checksum.to_be_bytes());
    }

    /// Writes the number, the time and the transport checksum. This completes the head.
    #[inline]
    pub(super) fn put_stamp(&mut self, number: u64, now_ns: u64, shape: &FrameShape) {
        let number = number & ((1 << Stamp::NUMBER_BITS) - 1);
        let (low, high) = (number as u32, (number >> 32) as u16);
        let mut sum = shape.l4_sum.plus(self.flow_sum);
        let at = self.layout.payload;
        if self.form.is_some() {
            self.put(at, low.to_be_bytes());
            self.put(at + 8, high.to_be_bytes());
            sum = sum.plus_u32(low).plus_u32(u32::from(high));
        }
        if self.form == Some(StampForm::Timed) {
            self.put(at + 10, now_ns.to_be_bytes());
            sum = sum.plus_u64(now_ns);
        }
        let checksum = match self.layout.proto {
            IpProto::UDP => nonzero(sum.checksum()),
            _ => sum.checksum(),
        };
        self.put(self.layout.l4_check, checksum.to_be_bytes());
    }

    #[inline]
    fn put<const N: usize>(&mut self, at: usize, field: [u8; N]) {
        self.bytes[at..at + N].copy_from_slice(&field);
    }
}
