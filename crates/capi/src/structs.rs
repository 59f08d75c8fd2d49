//! Constants and structures of `include/slipring.h`; a test keeps the two consistent.

use std::ffi::{c_char, c_int};

/// The version of this interface. Every change increments it. No change breaks programs that were
/// compiled with an earlier version.
pub const SLIPRING_API_VERSION: u32 = 3;

/// Status: a name, a value or a file is invalid.
pub const SLIPRING_ERR_USAGE: c_int = -1;
/// Status: the machine lacks a privilege, a kernel feature or an interface.
pub const SLIPRING_ERR_MACHINE: c_int = -2;
/// Status: the port was lost while it was used.
pub const SLIPRING_ERR_PEER: c_int = -3;
/// Status: an argument is invalid.
pub const SLIPRING_ERR_ARGUMENT: c_int = -4;
/// Status: this build of the library does not contain the feature.
pub const SLIPRING_ERR_LEFT_OUT: c_int = -5;
/// Status: the library has a defect.
pub const SLIPRING_ERR_DEFECT: c_int = -6;

/// Stands for all queues of a port.
pub const SLIPRING_ALL_QUEUES: u32 = 0xffff_ffff;
/// Stands for all ports of a switch.
pub const SLIPRING_ALL_PORTS: u32 = 0xffff_ffff;
/// Stands for a time that is never reached.
pub const SLIPRING_NEVER: u64 = 0xffff_ffff_ffff_ffff;

/// Option: the network stack of the host continues to use the interface.
pub const SLIPRING_OPEN_SHARED: u32 = 1;
/// Option: the interface may carry the default route.
pub const SLIPRING_OPEN_TAKE_OVER: u32 = 2;
/// Option: only frames for this host are received.
pub const SLIPRING_OPEN_NO_PROMISC: u32 = 4;
/// Option: the port ends when the interface goes down.
pub const SLIPRING_OPEN_EXIT_ON_LINK_DOWN: u32 = 8;
/// Option: the port only receives. If it is a capture, it is read.
pub const SLIPRING_OPEN_RX_ONLY: u32 = 16;
/// Option: the port only sends. If it is a capture, it is written, even if the file exists.
pub const SLIPRING_OPEN_TX_ONLY: u32 = 32;

/// AF_XDP mode: the best one that the interface supports.
pub const SLIPRING_XDP_BEST: u32 = 0;
/// AF_XDP mode: only zero-copy.
pub const SLIPRING_XDP_ZEROCOPY: u32 = 1;
/// AF_XDP mode: only XDP in the driver.
pub const SLIPRING_XDP_NATIVE: u32 = 2;
/// AF_XDP mode: XDP in the network stack (generic).
pub const SLIPRING_XDP_GENERIC: u32 = 3;

/// Event: there are frames to read.
pub const SLIPRING_WAIT_RX: u32 = 1;
/// Event: there is space for frames to send.
pub const SLIPRING_WAIT_TX: u32 = 2;
/// Event: no frame will ever be received again. It cannot be requested; it is reported if
/// [`SLIPRING_WAIT_RX`] is requested.
pub const SLIPRING_WAIT_END: u32 = 4;

/// Stands for the points at which frames enter a network.
pub const SLIPRING_ENTRIES: u32 = 0;
/// Stands for the points at which frames leave a network.
pub const SLIPRING_EXITS: u32 = 1;
/// Stands for the links of a network.
pub const SLIPRING_LINKS: u32 = 2;

/// Option: frames are delivered as soon as the time of their departure is known.
pub const SLIPRING_NETWORK_EARLY: u32 = 1;
/// Option: lost frames are stored for `slipring_network_take_loss`.
pub const SLIPRING_NETWORK_LOSSES: u32 = 2;

/// Options for opening ports.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct SlipringOptions {
    pub size: u32,
    pub flags: u32,
    pub slots: u32,
    pub buf_size: u32,
    pub xdp_mode: u32,
    pub busy_poll_us: u32,
    pub run_dir: *const c_char,
}

impl Default for SlipringOptions {
    fn default() -> Self {
        let run_dir = std::ptr::null();
        Self { size: 0, flags: 0, slots: 0, buf_size: 0, xdp_mode: 0, busy_poll_us: 0, run_dir }
    }
}

/// Description of an open port.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct SlipringPortInfo {
    pub size: u32,
    pub queues: u32,
    pub can_receive: u32,
    pub can_send: u32,
    pub max_packet: u32,
    pub max_slot: u32,
    pub mtu: u32,
    pub has_mac: u32,
    pub mac: [u8; 6],
    pub reserved: [u8; 2],
}

/// Counters of a queue, or of all queues of a port.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct SlipringStats {
    pub size: u32,
    pub reserved: u32,
    pub rx_packets: u64,
    pub rx_bytes: u64,
    pub tx_packets: u64,
    pub tx_bytes: u64,
    pub in_flight: u64,
    pub dropped: u64,
    pub strays: u64,
    pub uncaptured: u64,
}

/// A port for which the program waits.
#[repr(C)]
#[derive(Debug)]
pub struct SlipringWait {
    pub port: *mut PortHandle,
    pub events: u32,
    pub ready: u32,
}

/// Options of a switch.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct SlipringSwitchOptions {
    pub size: u32,
    pub flags: u32,
    pub ageing_ns: u64,
}

/// The counters of a switch's port. Summed over all ports that the switch has ever had,
/// rx + copied = tx + dropped.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SlipringSwitchStats {
    pub size: u32,
    pub reserved: u32,
    pub rx_packets: u64,
    pub rx_bytes: u64,
    pub tx_packets: u64,
    pub tx_bytes: u64,
    pub flooded_packets: u64,
    pub copied_packets: u64,
    pub dropped_packets: u64,
    pub learned_addresses: u64,
    pub moved_addresses: u64,
}

/// Options of a network.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct SlipringNetworkOptions {
    pub size: u32,
    pub flags: u32,
    pub seed: u64,
    pub start_ns: u64,
    pub max_bytes: u64,
}

/// A frame that leaves a network.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct SlipringDelivery {
    pub size: u32,
    pub exit: u32,
    pub link: u32,
    pub len: u32,
    pub release_ns: u64,
    pub arrival_ns: u64,
    pub tag: u64,
    pub data: *const u8,
    pub data_len: u64,
    pub remaining: u32,
    pub reserved: u32,
}

/// A frame that was lost in a network.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct SlipringLoss {
    pub size: u32,
    pub cause: u32,
    pub link: u32,
    pub len: u32,
    pub at_ns: u64,
    pub tag: u64,
    pub remaining: u32,
    pub reserved: u32,
}

/// The counters of a link. Frames in + copies = frames out + dropped + in flight.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct SlipringLinkStats {
    pub size: u32,
    pub reserved: u32,
    pub input_packets: u64,
    pub input_bytes: u64,
    pub copied_packets: u64,
    pub copied_bytes: u64,
    pub output_packets: u64,
    pub output_bytes: u64,
    pub dropped_packets: u64,
    pub dropped_bytes: u64,
    pub in_flight_packets: u64,
    pub in_flight_bytes: u64,
    pub marked_packets: u64,
    pub corrupted_packets: u64,
}

pub use crate::network::NetworkHandle;
pub use crate::port::PortHandle;
pub use crate::switch::SwitchHandle;
