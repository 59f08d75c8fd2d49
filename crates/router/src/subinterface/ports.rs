//! The ports with which workers serve subinterfaces: sockets that receive tagged frames, and
//! devices with a queue for each worker.

use std::sync::Arc;

use slipring_cli::Failure;
use slipring_fib::FibPortIndex;
use slipring_port::Port;
use slipring_port::iface::Iface;
use slipring_route::PortPolicy;

use super::gates::SubinterfaceGate;
use super::offer::SubinterfaceOffer;
use super::opening::{OpenedPort, device_of, link_of, open_tap, open_wire, parents};
use super::own::OwnSubinterface;
use super::processor::QueueRole;
use super::shared::{SharedSubinterface, SharedSubinterfaces};
use super::{SubinterfaceHandle, port_of};
use crate::config::EngineSettings;
use crate::resident::policy;

/// Subinterfaces with their ports, for workers.
pub(crate) struct SubinterfacePorts {
    pub(crate) handle: SubinterfaceHandle,
    pub(crate) shared: Arc<SharedSubinterfaces>,
    /// The sockets that receive the tagged frames of each parent: one for each receive queue of the
    /// parent.
    pub(crate) wires: Vec<SubinterfaceWire>,
    /// The device of each subinterface. It has at least one queue for each worker.
    pub(crate) taps: Vec<Port>,
    /// The policies of the subinterfaces' ports.
    pub(crate) policies: Vec<PortPolicy>,
    /// The PCP with which the router tags frames, by DSCP class selector.
    pub(crate) priorities: [u8; 8],
}

/// The sockets that receive the tagged frames of an interface.
pub(crate) struct SubinterfaceWire {
    /// The kernel's index of the interface.
    pub(crate) ifindex: u32,
    /// The port of the first of its subinterfaces.
    pub(crate) any_port: FibPortIndex,
    pub(crate) port: Port,
}

impl SubinterfacePorts {
    /// Creates the devices of subinterfaces, and opens sockets on the interfaces that carry their
    /// frames, unless `offer` contains them. `kernel` contains the router's other interfaces.
    ///
    /// # Errors
    /// If a privilege is missing, or an interface refuses.
    pub(crate) fn open(
        own: &[OwnSubinterface],
        kernel: &[Iface],
        workers: usize,
        priorities: [u8; 8],
        (settings, offer): (&EngineSettings, &mut SubinterfaceOffer),
    ) -> Result<Self, Failure> {
        let (mut wires, mut gates) = (Vec::new(), Vec::new());
        for iface in parents(own) {
            let first = own.iter().position(|it| it.parent.index == iface.index);
            let any_port = port_of(kernel.len(), first.unwrap_or_default());
            let OpenedPort { port, is_inherited } = open_wire(iface, own, offer)?;
            let role = QueueRole::Wire(iface.index);
            gates.extend(SubinterfaceGate::of_port(role, &port.queues, is_inherited)?);
            wires.push(SubinterfaceWire { ifindex: iface.index, any_port, port });
        }
        let (mut taps, mut devices, mut shared) = (Vec::new(), Vec::new(), Vec::new());
        for (number, it) in own.iter().enumerate() {
            let OpenedPort { port: tap, is_inherited } = open_tap(it, workers as u32, offer)?;
            let role = QueueRole::Tap(number);
            gates.extend(SubinterfaceGate::of_port(role, &tap.queues, is_inherited)?);
            let device = device_of(it, &tap)?;
            taps.push(tap);
            let (port, wire) = (port_of(kernel.len(), number), (it.parent.index, it.tags));
            let link = link_of(it, device.ifindex, settings);
            shared.push(SharedSubinterface::new(port, wire, link));
            devices.push(device);
        }
        let of = |it: &OwnSubinterface| PortPolicy { priorities, ..policy(&it.name) };
        let shared = Arc::new(SharedSubinterfaces::new(shared, workers));
        let workers = Some(shared.clone());
        Ok(Self {
            handle: SubinterfaceHandle { thread: None, workers, gates, devices },
            shared,
            wires,
            taps,
            policies: own.iter().map(of).collect(),
            priorities,
        })
    }
}
