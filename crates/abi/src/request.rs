//! The requests of `NIOCCTRL`. Each has a header with the name of the port and the type of the
//! request, and a body that depends on the type.

use crate::layout::abi_structs;

/// Number of bytes for the name of a port in a request, including the final NUL.
pub const NETMAP_REQ_IFNAMSIZ: usize = 64;
/// Maximum size of a request's body and options together, in bytes.
pub const NETMAP_REQ_MAXSIZE: usize = 4096;

/// `nr_reqtype`: bind the descriptor to a port; body [`NmreqRegister`].
pub const NETMAP_REQ_REGISTER: u16 = 1;
/// `nr_reqtype`: get properties of a port without binding it; body [`NmreqPortInfoGet`].
pub const NETMAP_REQ_PORT_INFO_GET: u16 = 2;
/// `nr_reqtype`: attach an interface to a switch; body [`NmreqValeAttach`].
pub const NETMAP_REQ_VALE_ATTACH: u16 = 3;
/// `nr_reqtype`: detach an interface from a switch; body [`NmreqValeDetach`].
pub const NETMAP_REQ_VALE_DETACH: u16 = 4;
/// `nr_reqtype`: list switches and ports; body [`NmreqValeList`].
pub const NETMAP_REQ_VALE_LIST: u16 = 5;
/// `nr_reqtype`: set the length of the virtio-net header; body [`NmreqPortHdr`].
pub const NETMAP_REQ_PORT_HDR_SET: u16 = 6;
/// `nr_reqtype`: get the length of the virtio-net header; body [`NmreqPortHdr`].
pub const NETMAP_REQ_PORT_HDR_GET: u16 = 7;
/// `nr_reqtype`: create a persistent switch port; body [`NmreqValeNewif`].
pub const NETMAP_REQ_VALE_NEWIF: u16 = 8;
/// `nr_reqtype`: destroy a persistent port; no body.
pub const NETMAP_REQ_VALE_DELIF: u16 = 9;
/// `nr_reqtype`: poll an attached NIC from threads; body [`NmreqValePolling`].
pub const NETMAP_REQ_VALE_POLLING_ENABLE: u16 = 10;
/// `nr_reqtype`: stop polling an attached interface; body [`NmreqValePolling`].
pub const NETMAP_REQ_VALE_POLLING_DISABLE: u16 = 11;
/// `nr_reqtype`: get the layout of a memory region; body [`NmreqPoolsInfo`].
pub const NETMAP_REQ_POOLS_INFO_GET: u16 = 12;
/// `nr_reqtype`: run the sync loop within this call; body [`crate::NmreqSyncKloopStart`].
pub const NETMAP_REQ_SYNC_KLOOP_START: u16 = 13;
/// `nr_reqtype`: stop the sync loop that was started on this descriptor; no body.
pub const NETMAP_REQ_SYNC_KLOOP_STOP: u16 = 14;
/// `nr_reqtype`: use shared control blocks (CSB) for the bound rings. There is no body; the
/// addresses are in the option [`crate::NmreqOptCsb`].
pub const NETMAP_REQ_CSB_ENABLE: u16 = 15;

/// `nr_mode` of old requests: the mode is in `nr_ringid`. Invalid in `NIOCCTRL`.
pub const NR_REG_DEFAULT: u32 = 0;
/// `nr_mode`: all NIC rings.
pub const NR_REG_ALL_NIC: u32 = 1;
/// `nr_mode`: all host rings.
pub const NR_REG_SW: u32 = 2;
/// `nr_mode`: all NIC rings and all host rings.
pub const NR_REG_NIC_SW: u32 = 3;
/// `nr_mode`: the NIC ring pair of `nr_ringid`.
pub const NR_REG_ONE_NIC: u32 = 4;
/// `nr_mode` of old requests: master end of a pipe. Invalid in `NIOCCTRL`.
pub const NR_REG_PIPE_MASTER: u32 = 5;
/// `nr_mode` of old requests: slave end of a pipe. Invalid in `NIOCCTRL`.
pub const NR_REG_PIPE_SLAVE: u32 = 6;
/// `nr_mode`: only memory, without any rings.
pub const NR_REG_NULL: u32 = 7;
/// `nr_mode`: the host ring pair of `nr_ringid`.
pub const NR_REG_ONE_SW: u32 = 8;
/// The bits of `nr_flags` in [`crate::Nmreq`] that contain the mode.
pub const NR_REG_MASK: u32 = 0xf;

/// `nr_flags`: monitor the frames that the port transmits.
pub const NR_MONITOR_TX: u64 = 0x100;
/// `nr_flags`: monitor the frames that the port receives.
pub const NR_MONITOR_RX: u64 = 0x200;
/// `nr_flags`: monitor without copying, in the memory of the monitored port. It applies to both
/// directions, unless another flag selects one.
pub const NR_ZCOPY_MON: u64 = 0x400;
/// `nr_flags`: no other client may bind these rings.
pub const NR_EXCLUSIVE: u64 = 0x800;
/// `nr_flags`: bind only receive rings.
pub const NR_RX_RINGS_ONLY: u64 = 0x2000;
/// `nr_flags`: bind only transmit rings.
pub const NR_TX_RINGS_ONLY: u64 = 0x4000;
/// `nr_flags`: the program can handle a virtio-net header.
pub const NR_ACCEPT_VNET_HDR: u64 = 0x8000;
/// `nr_flags`: a poll receives even if it waits only for `POLLOUT`.
pub const NR_DO_RX_POLL: u64 = 0x10000;
/// `nr_flags`: a poll transmits only if it waits for `POLLOUT`.
pub const NR_NO_TX_POLL: u64 = 0x20000;

/// [`NmreqValePolling::nr_mode`]: one thread for all rings.
pub const NETMAP_POLLING_MODE_SINGLE_CPU: u32 = 1;
/// [`NmreqValePolling::nr_mode`]: one thread per ring.
pub const NETMAP_POLLING_MODE_MULTI_CPU: u32 = 2;

abi_structs! {
    /// The argument of [`crate::NIOCCTRL`], which starts a request.
    struct NmreqHeader: 88 {
        /// Version of netmap's API for which the program was built.
        0: nr_version: u16,
        /// Type of the request, one of `NETMAP_REQ_*`.
        2: nr_reqtype: u16,
        /// Reserved; must be 0.
        4: nr_reserved: u32,
        /// Name of the port, NUL-terminated.
        8: nr_name: [u8; NETMAP_REQ_IFNAMSIZ],
        /// Address of the first [`crate::NmreqOption`]; 0 for none.
        72: nr_options: u64,
        /// Address of the request's body; 0 for none.
        80: nr_body: u64,
    }

    /// Binds a descriptor to a port. If a number is 0, the default is requested. On output, the
    /// fields contain the actual values.
    struct NmreqRegister: 56 {
        /// Offset of the [`crate::NetmapIf`] in the mapping, in bytes.
        0: nr_offset: u64,
        /// Size of the mapping, in bytes.
        8: nr_memsize: u64,
        /// Number of slots of a transmit ring.
        16: nr_tx_slots: u32,
        /// Number of slots of a receive ring.
        20: nr_rx_slots: u32,
        /// Number of transmit rings of the NIC.
        24: nr_tx_rings: u16,
        /// Number of receive rings of the NIC.
        26: nr_rx_rings: u16,
        /// Number of transmit rings towards the host.
        28: nr_host_tx_rings: u16,
        /// Number of receive rings from the host.
        30: nr_host_rx_rings: u16,
        /// Id of the memory region.
        32: nr_mem_id: u16,
        /// Number of the ring pair, for modes that bind one pair.
        34: nr_ringid: u16,
        /// Which rings to bind, one of `NR_REG_*`.
        36: nr_mode: u32,
        /// Number of extra buffers: on input the requested number, on output the granted one.
        40: nr_extra_bufs: u32,
        /// Aligns `nr_flags` to 8 bytes.
        44: pad1: u32,
        /// Options of the bind: `NR_*` flags such as [`NR_EXCLUSIVE`].
        48: nr_flags: u64,
    }

    /// Returns properties of a port. All fields are output.
    struct NmreqPortInfoGet: 32 {
        /// Size of the port's memory region, in bytes.
        0: nr_memsize: u64,
        /// Number of slots of a transmit ring.
        8: nr_tx_slots: u32,
        /// Number of slots of a receive ring.
        12: nr_rx_slots: u32,
        /// Number of transmit rings of the NIC.
        16: nr_tx_rings: u16,
        /// Number of receive rings of the NIC.
        18: nr_rx_rings: u16,
        /// Number of transmit rings towards the host.
        20: nr_host_tx_rings: u16,
        /// Number of receive rings from the host.
        22: nr_host_rx_rings: u16,
        /// Id of the memory region.
        24: nr_mem_id: u16,
        /// Pads the structure to a multiple of 8 bytes.
        26: pad: [u16; 3],
    }

    /// Attaches an interface to a switch.
    struct NmreqValeAttach: 64 {
        /// How to bind the attached interface: [`NR_REG_ALL_NIC`] or [`NR_REG_NIC_SW`].
        0: reg: NmreqRegister,
        /// Output: index of the interface's port in the switch.
        56: port_index: u32,
        /// Pads the structure to a multiple of 8 bytes.
        60: pad1: u32,
    }

    /// Detaches an interface from its switch.
    struct NmreqValeDetach: 8 {
        /// Output: index that the interface's port had in the switch.
        0: port_index: u32,
        /// Pads the structure to 8 bytes.
        4: pad1: u32,
    }

    /// A position in the list of switches and their ports.
    struct NmreqValeList: 8 {
        /// Index of the switch.
        0: nr_bridge_idx: u16,
        /// Aligns `nr_port_idx` to 4 bytes.
        2: pad1: u16,
        /// Index of the port in the switch.
        4: nr_port_idx: u32,
    }

    /// Length of a port's virtio-net header.
    struct NmreqPortHdr: 8 {
        /// Length of the header in bytes. It must be 0, 10 or 12.
        0: nr_hdr_len: u32,
        /// Pads the structure to 8 bytes.
        4: pad1: u32,
    }

    /// Creates a persistent switch port.
    struct NmreqValeNewif: 16 {
        /// Number of slots of a transmit ring.
        0: nr_tx_slots: u32,
        /// Number of slots of a receive ring.
        4: nr_rx_slots: u32,
        /// Number of transmit rings.
        8: nr_tx_rings: u16,
        /// Number of receive rings.
        10: nr_rx_rings: u16,
        /// Id of the memory region.
        12: nr_mem_id: u16,
        /// Pads the structure to a multiple of 4 bytes.
        14: pad1: u16,
    }

    /// Selects the processors that poll an attached NIC.
    struct NmreqValePolling: 16 {
        /// The mode, one of `NETMAP_POLLING_MODE_*`.
        0: nr_mode: u32,
        /// First processor to use.
        4: nr_first_cpu_id: u32,
        /// Number of processors to use.
        8: nr_num_polling_cpus: u32,
        /// Pads the structure to 16 bytes.
        12: pad1: u32,
    }

    /// The layout of a memory region, which consists of three pools of objects. All offsets and
    /// sizes are in bytes.
    struct NmreqPoolsInfo: 64 {
        /// Size of the region.
        0: nr_memsize: u64,
        /// Id of the region.
        8: nr_mem_id: u16,
        /// Aligns `nr_if_pool_offset` to 8 bytes.
        10: pad1: [u16; 3],
        /// Offset of the pool of interface records (`netmap_if`).
        16: nr_if_pool_offset: u64,
        /// Maximum number of interface records.
        24: nr_if_pool_objtotal: u32,
        /// Size of an interface record.
        28: nr_if_pool_objsize: u32,
        /// Offset of the pool of rings.
        32: nr_ring_pool_offset: u64,
        /// Maximum number of rings.
        40: nr_ring_pool_objtotal: u32,
        /// Size of a ring.
        44: nr_ring_pool_objsize: u32,
        /// Offset of the pool of buffers.
        48: nr_buf_pool_offset: u64,
        /// Number of buffers.
        56: nr_buf_pool_objtotal: u32,
        /// Size of a buffer.
        60: nr_buf_pool_objsize: u32,
    }
}
