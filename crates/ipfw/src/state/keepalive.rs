use alloc::vec::Vec;

use slipring_wire::MacAddr;
use slipring_wire::assigned::{IpProto, VlanTag};
use slipring_wire::checksum::{self, Sum};

use crate::packet::{IpFamily, PacketHeaders};
use crate::table::IpfwFlowKey;

/// The Ethernet addresses and tags of a flow's first packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowEthernet {
    /// The sender's Ethernet address.
    pub src_mac: MacAddr,
    /// The receiver's Ethernet address.
    pub dst_mac: MacAddr,
    /// VLAN tags, outermost first.
    pub tags: [Option<VlanTag>; 2],
}

impl FlowEthernet {
    /// Returns the Ethernet addresses and tags of `packet`.
    #[must_use]
    pub const fn of(packet: &PacketHeaders) -> Self {
        Self { src_mac: packet.src_mac(), dst_mac: packet.dst_mac(), tags: packet.tags }
    }

    /// Swaps sender and receiver.
    #[must_use]
    pub const fn reversed(self) -> Self {
        Self { src_mac: self.dst_mac, dst_mac: self.src_mac, tags: self.tags }
    }

    /// Builds the Ethernet header of an IP frame.
    #[must_use]
    pub fn header(&self, version: IpFamily) -> Vec<u8> {
        let mut frame = Vec::with_capacity(128);
        frame.extend_from_slice(&self.dst_mac.0);
        frame.extend_from_slice(&self.src_mac.0);
        let types: [u16; 2] = if self.tags[1].is_some() { [0x88a8, 0x8100] } else { [0x8100; 2] };
        for (tag, kind) in self.tags.iter().flatten().zip(types) {
            frame.extend_from_slice(&kind.to_be_bytes());
            frame.extend_from_slice(&tag.0.to_be_bytes());
        }
        let ethertype: u16 = if version == IpFamily::V6 { 0x86dd } else { 0x0800 };
        frame.extend_from_slice(&ethertype.to_be_bytes());
        frame
    }
}

/// A TCP segment without payload that probes whether one end is still alive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keepalive {
    /// Whether the segment goes to the end that opened the connection.
    pub to_source: bool,
    /// The frame to send.
    pub frame: Vec<u8>,
}

/// Builds a frame with a bare TCP header.
#[must_use]
pub fn tcp_frame(
    link: &FlowEthernet,
    flow: &IpfwFlowKey,
    seq: u32,
    ack: u32,
    flags: u8,
) -> Vec<u8> {
    let mut tcp = [0; 20];
    tcp[..2].copy_from_slice(&flow.src_port.to_be_bytes());
    tcp[2..4].copy_from_slice(&flow.dst_port.to_be_bytes());
    tcp[4..8].copy_from_slice(&seq.to_be_bytes());
    tcp[8..12].copy_from_slice(&ack.to_be_bytes());
    (tcp[12], tcp[13]) = (0x50, flags);
    let check = pseudo(flow, IpProto::TCP, 20).bytes(&tcp).checksum();
    tcp[16..18].copy_from_slice(&check.to_be_bytes());
    ip_frame(link, flow, 6, &tcp)
}

/// Builds a frame with `payload` in an IP packet of protocol `proto`.
#[must_use]
pub fn ip_frame(link: &FlowEthernet, flow: &IpfwFlowKey, proto: u8, payload: &[u8]) -> Vec<u8> {
    let version = if flow.is_v6 { IpFamily::V6 } else { IpFamily::V4 };
    let mut frame = link.header(version);
    if flow.is_v6 {
        frame.extend_from_slice(&[0x60, 0, 0, 0]);
        frame.extend_from_slice(&(payload.len() as u16).to_be_bytes());
        frame.extend_from_slice(&[proto, 64]);
        frame.extend_from_slice(&flow.src.to_be_bytes());
        frame.extend_from_slice(&flow.dst.to_be_bytes());
    } else {
        let mut header = [0; 20];
        (header[0], header[8], header[9]) = (0x45, 64, proto);
        header[2..4].copy_from_slice(&(20 + payload.len() as u16).to_be_bytes());
        header[12..16].copy_from_slice(&(flow.src as u32).to_be_bytes());
        header[16..20].copy_from_slice(&(flow.dst as u32).to_be_bytes());
        let check = checksum::of(&header);
        header[10..12].copy_from_slice(&check.to_be_bytes());
        frame.extend_from_slice(&header);
    }
    frame.extend_from_slice(payload);
    frame
}

/// Computes the pseudo-header part of a transport checksum.
#[must_use]
pub fn pseudo(flow: &IpfwFlowKey, proto: IpProto, len: u32) -> Sum {
    if flow.is_v6 {
        Sum::pseudo_v6(flow.src.into(), flow.dst.into(), proto, len)
    } else {
        Sum::pseudo_v4((flow.src as u32).into(), (flow.dst as u32).into(), proto, len)
    }
}

/// Returns the flow of the opposite direction.
#[must_use]
pub const fn reversed(flow: IpfwFlowKey) -> IpfwFlowKey {
    IpfwFlowKey {
        src: flow.dst,
        src_port: flow.dst_port,
        dst: flow.src,
        dst_port: flow.src_port,
        ..flow
    }
}
