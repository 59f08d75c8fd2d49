//! The programs during a takeover, in the successor and in the predecessor.
//!
//! An offer contains these descriptors for each interface: the link and, with packet sockets, the
//! socket of each queue. The successor's answer contains for each interface the program and, with
//! packet sockets, the filter of each queue.

use std::io;
use std::os::fd::OwnedFd;

use serde_json::{Value, json};
use slipring_cli::Failure;
use slipring_fib::FibPortIndex;
use slipring_port::iface::{Feature, FeatureGuard, Iface};
use slipring_port::{InheritedSocket, SocketRing};
use slipring_route_bpf::{AttachOptions, BpfRouter, ResidentMode};

use super::ResidentEngine;
use super::attach::{
    AttachedInterface, Attachments, InterfacePrograms, InterfaceSockets, is_software, xdp_interface,
};
use super::refusal::refused;

/// The part of the engine that a running router offers to a successor.
pub(crate) struct EngineOffer {
    /// Seed of the hash by which flows choose among several next hops.
    pub(crate) seed: u64,
    pub(crate) interfaces: Vec<InterfaceOffer>,
}

/// The part of an interface that a running router offers to a successor.
pub(crate) struct InterfaceOffer {
    link: OwnedFd,
    programs: OfferedPrograms,
    /// Whether the driver must remove VLAN tags from frames again after the successor's end.
    restores_rx_vlan: bool,
}

enum OfferedPrograms {
    Xdp(ResidentMode),
    Packet { keys: [u64; 2], sockets: Vec<InheritedSocket> },
}

impl ResidentEngine {
    /// Returns the document and the descriptors of an offer. `sockets` contains the sockets of each
    /// interface.
    ///
    /// # Errors
    /// The system's error, if there are too many descriptors.
    pub(crate) fn offer(
        &self,
        sockets: &[Vec<(OwnedFd, SocketRing)>],
    ) -> io::Result<(Value, Vec<OwnedFd>)> {
        let mut fds = Vec::new();
        let mut interfaces = Vec::new();
        for (of, sockets) in self.attachments.iter().zip(sockets) {
            let (link, mode, keys) = match &of.link {
                InterfacePrograms::Xdp { link } => (link.link(), of.mode, None),
                InterfacePrograms::Packet(programs) => {
                    (programs.link(), of.mode, Some(programs.keys()))
                }
            };
            fds.push(link.try_clone_to_owned()?);
            let mut rings = Vec::new();
            for (socket, ring) in sockets {
                fds.push(socket.try_clone()?);
                rings.push([ring.frame_size, ring.frames_per_block, ring.blocks]);
            }
            let restores = of.settings.as_ref().is_some_and(|guard| !guard.changed().is_empty());
            interfaces.push(json!({
                "mode": mode, "keys": keys, "rings": rings, "restores_rx_vlan": restores,
            }));
        }
        Ok((json!({ "seed": self.hash.seed, "interfaces": interfaces }), fds))
    }

    /// The programs of this engine, which the predecessor installs.
    pub(crate) fn programs(&self) -> io::Result<Vec<OwnedFd>> {
        let mut programs = Vec::new();
        for of in &self.attachments {
            match &of.link {
                InterfacePrograms::Xdp { link } => {
                    programs.push(link.program().try_clone_to_owned()?)
                }
                InterfacePrograms::Packet(packet) => {
                    programs.push(packet.program().try_clone_to_owned()?);
                    programs.extend(packet.filters()?);
                }
            }
        }
        Ok(programs)
    }

    /// Makes the links and sockets run these programs, in the order of [`Self::programs`]. `None`
    /// restores this engine's own programs. `set_filter` sets the filter of the socket of an
    /// interface and a queue.
    ///
    /// # Errors
    /// The kernel's error. Some links may already run the other programs.
    pub(crate) fn run_programs(
        &self,
        programs: Option<Vec<OwnedFd>>,
        set_filter: impl Fn(usize, usize, OwnedFd) -> io::Result<()>,
    ) -> io::Result<()> {
        let is_other = programs.is_some();
        let mut others = programs.unwrap_or_default().into_iter();
        let mut next = || match is_other {
            true => others.next().map(Some).ok_or(io::ErrorKind::InvalidData),
            false => Ok(None),
        };
        for (interface, of) in self.attachments.iter().enumerate() {
            match &of.link {
                InterfacePrograms::Xdp { link } => link.run(next()?)?,
                InterfacePrograms::Packet(packet) => {
                    packet.run(next()?)?;
                    for (queue, own) in packet.filters()?.into_iter().enumerate() {
                        set_filter(interface, queue, next()?.unwrap_or(own))?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Counts the drivers' drops from now on. Earlier drops are those of another router.
    pub(crate) fn begin_counting(&mut self) {
        for (of, port) in self.attachments.iter_mut().zip((0..).map(FibPortIndex)) {
            let dropped = self.drops.as_ref().map_or(0, |drops| drops.dropped(port));
            of.dropped_before = dropped;
        }
    }

    /// Makes this engine restore, at its end, the settings that the predecessor had changed. Call
    /// this only after the predecessor has handed over. Before that, the predecessor restores them.
    pub(crate) fn inherit_settings(&mut self) {
        for of in self.attachments.iter_mut().filter(|of| of.inherits_rx_vlan) {
            of.settings.iter_mut().for_each(|guard| guard.also_restore(Feature::RxVlan, true));
        }
    }

    /// Leaves the interfaces' settings unchanged at the end, because a successor restores them.
    pub(crate) fn keep_settings(&mut self) {
        self.attachments
            .iter_mut()
            .filter_map(|of| of.settings.as_mut())
            .for_each(FeatureGuard::keep);
    }

    /// Lets programs forward again after [`Self::stop`].
    pub(crate) fn go_on(&mut self) {
        self.is_stopped = false;
        self.router.enable();
    }
}

impl EngineOffer {
    /// The number of the router's programs at tcx ingress of each interface.
    pub(crate) fn tcx_programs(&self) -> u32 {
        let is_packet = |of: &InterfaceOffer| matches!(of.programs, OfferedPrograms::Packet { .. });
        self.interfaces.iter().any(is_packet).into()
    }

    /// Whether the offer has as many interfaces as `ifaces` and, with packet sockets, a socket for
    /// each receive queue of an interface.
    pub(crate) fn fits(&self, ifaces: &[Iface]) -> bool {
        let fits = |(of, iface): (&InterfaceOffer, &Iface)| match &of.programs {
            OfferedPrograms::Xdp(_) => true,
            OfferedPrograms::Packet { sockets, .. } => sockets.len() == iface.rx_queues as usize,
        };
        self.interfaces.len() == ifaces.len() && self.interfaces.iter().zip(ifaces).all(fits)
    }

    /// Reads an offer; `None` if the document is not a valid offer.
    pub(crate) fn read(document: &Value, fds: &mut impl Iterator<Item = OwnedFd>) -> Option<Self> {
        let interfaces = document["interfaces"].as_array()?.iter();
        let interfaces = interfaces.map(|of| InterfaceOffer::read(of, fds));
        Some(Self {
            seed: document["seed"].as_u64()?,
            interfaces: interfaces.collect::<Option<_>>()?,
        })
    }
}

impl InterfaceOffer {
    fn read(document: &Value, fds: &mut impl Iterator<Item = OwnedFd>) -> Option<Self> {
        let link = fds.next()?;
        let number = |value: &Value| u32::try_from(value.as_u64()?).ok();
        let mut socket = |ring: &Value| {
            let ring = SocketRing {
                frame_size: number(&ring[0])?,
                frames_per_block: number(&ring[1])?,
                blocks: number(&ring[2])?,
                position: 0,
            };
            Some(InheritedSocket { socket: fds.next()?, ring })
        };
        let programs = match document["mode"].as_str()? {
            "xdp native" => OfferedPrograms::Xdp(ResidentMode::Native),
            "xdp generic" => OfferedPrograms::Xdp(ResidentMode::Generic),
            "packet" => OfferedPrograms::Packet {
                keys: [document["keys"][0].as_u64()?, document["keys"][1].as_u64()?],
                sockets: document["rings"]
                    .as_array()?
                    .iter()
                    .map(&mut socket)
                    .collect::<Option<_>>()?,
            },
            _ => return None,
        };
        let restores_rx_vlan = document["restores_rx_vlan"].as_bool()?;
        Some(Self { link, programs, restores_rx_vlan })
    }
}

/// Loads the programs of all interfaces, in the modes of the offer.
///
/// # Errors
/// If the kernel refuses a program.
pub(super) fn succeed_all(
    router: &BpfRouter,
    ifaces: &[Iface],
    offer: EngineOffer,
) -> Result<Attachments, Failure> {
    let ports = ifaces.iter().zip((0..).map(FibPortIndex)).zip(offer.interfaces);
    let interfaces = ports.map(|((iface, port), offer)| succeed(router, (iface, port), offer));
    Ok(Attachments { interfaces: interfaces.collect::<Result<_, _>>()?, fallback: None })
}

fn succeed(
    router: &BpfRouter,
    (iface, port): (&Iface, FibPortIndex),
    InterfaceOffer { link, programs, restores_rx_vlan }: InterfaceOffer,
) -> Result<AttachedInterface, Failure> {
    let failed = |error| Failure::from(refused(&error, Some(&iface.name)));
    match programs {
        OfferedPrograms::Xdp(mode) => {
            let settings = iface.with_features(&[(Feature::RxVlan, false)]);
            let options = AttachOptions {
                mode,
                is_software: is_software(iface),
                checks_stripped_tags: !settings.refused().is_empty(),
                socket_queues: 0,
                takes_options: false,
            };
            let link = router.succeed(iface.index, port, options, link).map_err(failed)?;
            let attached = xdp_interface(router, (iface, port), mode, link, settings);
            let attached = attached.map_err(|it| it.failure)?;
            Ok(AttachedInterface { inherits_rx_vlan: restores_rx_vlan, ..attached })
        }
        OfferedPrograms::Packet { keys, sockets } => {
            let queues = sockets.len() as u16;
            let programs = router.succeed_packet(iface.index, port, queues, keys, link);
            let programs = programs.map_err(failed)?;
            Ok(AttachedInterface::of_packet(iface, InterfaceSockets::Inherited(sockets), programs))
        }
    }
}
