//! The ports of a switch: names, memory, and the ends of the pipes.

use std::ops::RangeInclusive;
use std::sync::Arc;

use slipring_abi::name::{
    ConfSpec, PipeRole, PortName, PortNameFlags, PortNameKind, RingSelection,
};
use slipring_abi::{NS_NO_LEARN, NS_PORT_MASK, NS_PORT_SHIFT};
use slipring_port::pipe::{self, ProcessPipe};
use slipring_port::{DropCause, OpenError, OpenOptions, Port, QueueCounters};
use slipring_ring::{BUF_SIZE, Geometry, Region, SlotFlags};
use slipring_switch::{SlotMarks, SwitchPortId};

use crate::error::CallError;
use crate::structs::SLIPRING_ERR_USAGE;

/// Allowed numbers of slots of a ring, as for pipes.
const SLOTS: RangeInclusive<u32> = 64..=65_536;
/// Maximum number of ring pairs of a port, as for pipes.
const MAX_QUEUES: u32 = 256;

/// The checked name and options of a port.
pub(super) struct RequestedPort {
    /// The name without options: `vale0:a`.
    pub(super) name: String,
    queues: u32,
    options: OpenOptions,
}

impl RequestedPort {
    /// Parses the name of a port of `switch`: `a`, or with numbers of rings and slots
    /// `a@conf:rings=2,slots=64`.
    pub(super) fn parse(
        switch: &str,
        port: &str,
        options: &OpenOptions,
    ) -> Result<Self, CallError> {
        let display_name = format!("{switch}:{port}");
        let refused = |what: &str, help: &str| {
            let mut error = CallError::new(SLIPRING_ERR_USAGE, format!("`{display_name}`: {what}"));
            error.help = help.into();
            error
        };
        let parsed = slipring_core::parse(&display_name)?;
        let PortName { kind: PortNameKind::Vale { .. }, conf, .. } = &parsed else {
            return Err(refused(
                "this is no port of a switch",
                "name the switch vale0, and the port a",
            ));
        };
        let name = display_name.split('@').next().unwrap_or_default().to_owned();
        let ConfSpec { tx_rings, rx_rings, tx_slots, rx_slots, .. } = *conf;
        let mut plain = parsed.clone();
        (plain.pipe, plain.memory, plain.offsets) = (None, None, None);
        (plain.rings, plain.flags) = (RingSelection::default(), PortNameFlags::NONE);
        plain.conf = ConfSpec { tx_rings, rx_rings, tx_slots, rx_slots, ..ConfSpec::default() };
        if parsed != plain {
            let help = "remove all after the port's name but @conf:rings=N,slots=N";
            return Err(refused(
                "a port of a switch of this process is no pipe, and has no flags",
                help,
            ));
        }
        let queues = tx_rings.max(rx_rings).map_or(1, |rings| rings.get().into());
        let slots = tx_slots.max(rx_slots).map_or(options.slots, std::num::NonZero::get);
        if queues > MAX_QUEUES {
            return Err(refused(&format!("{queues} ring pairs"), "@conf:rings= with 1 to 256"));
        }
        if !SLOTS.contains(&slots) {
            return Err(refused(
                &format!("a ring has 64 to 65536 slots, not {slots}"),
                "@conf:slots= with a number in this range",
            ));
        }
        Ok(Self { name, queues, options: OpenOptions { slots, ..options.clone() } })
    }

    /// Creates the memory and the pipe of the port. Returns the program's end, and the switch's.
    pub(super) fn open(self) -> Result<(Port, AttachedPort), CallError> {
        let Self { name, queues, options } = self;
        let needs = pipe::needs(queues, options.slots);
        let geometry = Geometry {
            ring_bytes: needs.ring_bytes + 4096,
            // Buffers 0 and 1 are reserved.
            bufs: needs.bufs + 2,
            buf_size: options.buf_size.unwrap_or(BUF_SIZE),
        };
        let region =
            Region::create(geometry, options.huge).map_err(|error| OpenError::new(&name, error))?;
        let pipe = ProcessPipe::create([&name, &name], queues, &region, &options)?;
        let [mut port, switch_side] = [PipeRole::Master, PipeRole::Slave]
            .map(|role| pipe.open_end(role).expect("both ends of a new pipe are closed"));
        port.info.kind = "vale";
        let counters = port.queues.iter().map(|queue| queue.counters().clone()).collect();
        Ok((port, AttachedPort { name, pipe, switch_side, counters }))
    }
}

/// A port of a switch, as the switch holds it.
pub(super) struct AttachedPort {
    /// The name without options: `vale0:a`.
    pub(super) name: String,
    pipe: Arc<ProcessPipe>,
    /// The switch's end of the pipe. It receives the frames that the program sends.
    pub(super) switch_side: Port,
    /// The counters of the program's queues.
    counters: Vec<Arc<QueueCounters>>,
}

impl AttachedPort {
    pub(super) fn queues(&self) -> u32 {
        self.counters.len() as u32
    }

    /// Returns whether the program has closed the port.
    pub(super) fn is_closed(&self) -> bool {
        self.pipe.is_closed(PipeRole::Master)
    }

    /// Counts frames for which the program's rx ring had no room. Only the switch writes this
    /// counter.
    pub(super) fn count_full(&self, ring: usize, packets: u64) {
        self.counters[ring].dropped(DropCause::RxRingFull, packets);
    }
}

/// Reads the flags of a frame's first slot: whether the switch must not learn its source address,
/// and to which port it must be sent. As in the daemon's VALE switches, the flags of a frame of
/// several slots name no port.
pub(super) fn marks(flags: SlotFlags, is_single: bool) -> SlotMarks {
    let port = (flags.0 & NS_PORT_MASK) >> NS_PORT_SHIFT;
    let named = port != 0 && is_single;
    SlotMarks { no_learn: flags.0 & NS_NO_LEARN != 0, to: named.then(|| SwitchPortId(port.into())) }
}
