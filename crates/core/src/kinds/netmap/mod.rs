//! `netmap:IF`, the best kind for an interface: AF_XDP in the driver, else in the stack, else
//! AF_PACKET. If IF is the TAP device of a card that is bound to vfio-pci, the card itself.

use std::sync::Arc;

use slipring_abi::name::{PortName, PortNameKind, RingSelection};
use slipring_confine::CapabilitySet;
use slipring_port::{OpenCause, OpenError, Port, RegionNeeds, XdpMode, taken};
use slipring_ring::Region;

use super::{
    AfterRestart, DoctorContext, Finding, InterfaceUse, NameRow, PortDriver, PortKindInfo,
    PortRequest,
};
use super::{packet, vfio, xdp};

pub(super) static DRIVER: NetmapDriver = NetmapDriver;

pub(super) struct NetmapDriver;

static FACTS: PortKindInfo = PortKindInfo {
    rows: &[
        NameRow {
            name: "`netmap:IF`",
            what: "the best there is for that interface; the first line of output says which",
            needs: "as the kind",
            help: "an interface, by the best way there is; IF-N is its ring pair N",
        },
        NameRow {
            name: "`netmap:IF^`",
            what: "the host stack's side of an interface; `netmap:IF^@conf:host-rings=N` has N ring pairs of it, at most as many as the interface has itself",
            needs: "as `xdp:`, and Linux 6.6",
            help: "the host stack's side of an interface",
        },
        NameRow {
            name: "`NAME{K`, `NAME}K`",
            what: "the two ends of a pipe: of the daemon that serves the run directory, else of this process",
            needs: "nothing, or the right to the device",
            help: "the two ends of a pipe",
        },
    ],
    // The capability is needed to restore the interface's settings at the end.
    keeps: CapabilitySet::NET_ADMIN,
    // The port may use XDP, which redirects all frames to the port, even with `--shared`.
    interface: InterfaceUse::Whole,
    restart: AfterRestart::Reopened,
    // This value is never used: the kind of an open port is the one that was chosen for it, such as
    // `xdp`, `host` or `pipe`.
    only_reads_tx: false,
};

impl PortDriver for NetmapDriver {
    fn facts(&self) -> &'static PortKindInfo {
        &FACTS
    }

    fn needs(&self, request: &PortRequest<'_>) -> Result<RegionNeeds, OpenError> {
        if let Some(card) = card(request) {
            return vfio::DRIVER.needs(&PortRequest::new(&card, request.options())?);
        }
        if let Err(error) = xdp::DRIVER.needs(request)
            && !may_fall_back(request, &error)
        {
            return Err(error);
        }
        let (xdp, packet) = (xdp::needs(request)?, packet::DRIVER.needs(request)?);
        Ok(RegionNeeds {
            ring_bytes: xdp.ring_bytes.max(packet.ring_bytes),
            bufs: xdp.bufs.max(packet.bufs),
        })
    }

    fn open(&self, request: &PortRequest<'_>, region: &Arc<Region>) -> Result<Port, OpenError> {
        if let Some(card) = card(request) {
            return vfio::DRIVER.open(&PortRequest::new(&card, request.options())?, region);
        }
        match xdp::DRIVER.open(request, region) {
            Err(error) if may_fall_back(request, &error) => packet::DRIVER.open(request, region),
            result => result,
        }
    }

    fn examine(&self, port: &PortName, context: &DoctorContext<'_>) -> Vec<Finding> {
        (context.interface)(port)
    }
}

/// If the interface is the TAP device of a card that is bound to vfio-pci, returns the name
/// `vfio:PCI` of the card.
fn card(request: &PortRequest<'_>) -> Option<PortName> {
    let name = taken::card_of(request.bare_name())?;
    let rings = match request.queue() {
        None | Some(0) => RingSelection::All,
        Some(_) => request.name().rings,
    };
    let mut card = request.name().clone();
    (card.kind, card.name, card.rings) = (PortNameKind::Vfio, name, rings);
    Some(card)
}

/// Whether to try AF_PACKET after AF_XDP has failed. Never if a mode was requested, and not for
/// causes such as a missing interface or a busy queue. Yes for an interface that is down: AF_PACKET
/// starts when it comes up. But not if the options say that a link that is down ends the port.
fn may_fall_back(request: &PortRequest<'_>, error: &OpenError) -> bool {
    let options = request.options();
    let cannot = matches!(
        *error.cause,
        OpenCause::ModeRefused { .. }
            | OpenCause::Unsupported { .. }
            | OpenCause::Privilege { .. }
            | OpenCause::LockedMemory { .. }
            | OpenCause::Mtu { .. }
    );
    let waits = matches!(*error.cause, OpenCause::Down { .. }) && !options.exit_on_link_down;
    (cannot || waits) && options.xdp == XdpMode::Best
}
