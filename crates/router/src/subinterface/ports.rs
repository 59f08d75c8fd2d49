//! The ports with which workers serve subinterfaces: sockets that receive tagged frames, and
//! devices with a queue for each worker.

use std::sync::Arc;

use slipring_cli::Failure;
use slipring_fib::FibPortIndex;
use slipring_port::Port;
use slipring_port::iface::Iface;
use slipring_route::PortPolicy;

use super::opening::{device_of, link_of, open_tap, open_wire, parents};
use super::shared::{SharedSubinterface, SharedSubinterfaces};
use super::{OwnSubinterface, SubinterfaceHandle, port_of};
use crate::config::EngineSettings;
use crate::resident::policy;

/// Subinterfaces with their ports, for workers.
pub(crate) struct SubinterfacePorts {
    pub(crate) handle: SubinterfaceHandle,
    pub(crate) shared: Arc<SharedSubinterfaces>,
    /// Sockets that receive the tagged frames of each parent. They have one queue for each receive
    /// queue of the parent.
    pub(crate) wires: Vec<SubinterfaceWire>,
    /// The device of each subinterface. It has one queue for each worker.
    pub(crate) taps: Vec<Port>,
    /// The policies of the subinterfaces' ports.
    pub(crate) policies: Vec<PortPolicy>,
    /// The PCP with which the router tags frames, by DSCP class selector.
    pub(crate) priorities: [u8; 8],
}

/// A socket that receives the tagged frames of an interface.
pub(crate) struct SubinterfaceWire {
    /// The kernel's index of the interface.
    pub(crate) ifindex: u32,
    /// The port of the first of its subinterfaces.
    pub(crate) any_port: FibPortIndex,
    pub(crate) port: Port,
}

impl SubinterfacePorts {
    /// Creates the devices of subinterfaces, and opens sockets on the interfaces that carry their
    /// frames. `kernel` contains the router's other interfaces.
    ///
    /// # Errors
    /// If a privilege is missing, or an interface refuses.
    pub(crate) fn open(
        own: &[OwnSubinterface],
        kernel: &[Iface],
        workers: usize,
        priorities: [u8; 8],
        settings: &EngineSettings,
    ) -> Result<Self, Failure> {
        let mut wires = Vec::new();
        for iface in parents(own) {
            let first = own.iter().position(|it| it.parent.index == iface.index);
            let any_port = port_of(kernel.len(), first.unwrap_or_default());
            let port = open_wire(iface, own)?;
            wires.push(SubinterfaceWire { ifindex: iface.index, any_port, port });
        }
        let (mut taps, mut devices, mut shared) = (Vec::new(), Vec::new(), Vec::new());
        for (number, it) in own.iter().enumerate() {
            taps.push(open_tap(it, workers as u32)?);
            let device = device_of(it)?;
            let (port, wire) = (port_of(kernel.len(), number), (it.parent.index, it.tags));
            let link = link_of(it, device.ifindex, settings);
            shared.push(SharedSubinterface::new(port, wire, link));
            devices.push(device);
        }
        let of = |it: &OwnSubinterface| PortPolicy { priorities, ..policy(&it.name) };
        Ok(Self {
            handle: SubinterfaceHandle { thread: None, devices },
            shared: Arc::new(SharedSubinterfaces::new(shared, workers)),
            wires,
            taps,
            policies: own.iter().map(of).collect(),
            priorities,
        })
    }
}
