//! Subinterfaces during a takeover, in the predecessor and in the successor.
//!
//! ```text
//!   predecessor                                            successor
//!     offer: sockets of parents, queues of devices   -->   keeps those of its own subinterfaces
//!     closes all gates, drains
//!     state: positions, neighbours, waiting packets  -->   learns the neighbours
//!                                                    <--   (taken)
//!     ends: what only it has, ends with it                 opens the gates, forwards what waited
//! ```
//!
//! A device lasts as long as a process has a descriptor of one of its queues. From the offer on,
//! both routers have one. So whichever of them goes on, the device stays, with its addresses and
//! routes. The sockets of a parent keep it promiscuous in the same way.
//!
//! A packet that waits for a neighbour moves as the frame that arrived. Waiting packets that the
//! router itself has made, such as ICMP errors, do not move. The predecessor keeps its copies until
//! its end, in case that the takeover fails.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use slipring_fib::FibPortIndex;
use slipring_port::{now, packet};

use super::SubinterfaceHandle;
use super::gates::SubinterfaceGate;
use super::handed_packet::HandedPacket;
use super::link::{KnownNeighbour, SubinterfaceLink};
use super::offer::{OfferDocument, entry};
use super::own::vlan_ids;
use super::processor::QueueRole;
use crate::drain::DrainGoal;
use crate::queue_gate::QueueGate;

/// The state of the subinterfaces with which a successor continues.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct SubinterfaceState {
    /// Where the queues of each parent were left: index of the parent, number of the queue,
    /// position.
    wires: Vec<(u32, usize, u32)>,
    /// Where the queues of each device were left: name of the subinterface, number of the queue,
    /// position.
    devices: Vec<(String, usize, u32)>,
    /// The neighbours of each subinterface.
    neighbours: Vec<(String, Vec<KnownNeighbour>)>,
    /// Packets that wait for a neighbour.
    waiting: Vec<HandedPacket>,
}

impl SubinterfaceHandle {
    /// The gate of a queue; `None` if there is no such queue.
    pub(crate) fn gate(&self, role: QueueRole, number: usize) -> Option<Arc<QueueGate>> {
        let mut gates = self.gates.iter().filter(|of| of.role == role);
        gates.find(|of| of.gate.number == number).map(|of| of.gate.clone())
    }

    /// Returns the document and the descriptors of an offer.
    ///
    /// # Errors
    /// The system's error, if there are too many descriptors.
    pub(crate) fn offer(&self) -> io::Result<(Value, Vec<OwnedFd>)> {
        let (mut sockets, mut queues) = (Vec::new(), Vec::new());
        let mut document = OfferDocument { wires: Vec::new(), devices: Vec::new() };
        for SubinterfaceGate { role, gate, .. } in &self.gates {
            match *role {
                // A socket of another interface only sends, and is not promiscuous.
                QueueRole::Wire(ifindex) if !self.devices.iter().any(|it| it.parent == ifindex) => {
                }
                QueueRole::Wire(ifindex) => {
                    let Some((socket, ring)) = gate.socket() else { continue };
                    let rings = entry(&mut document.wires, ifindex);
                    rings.push([ring.frame_size, ring.frames_per_block, ring.blocks]);
                    sockets.push(socket.try_clone()?);
                }
                QueueRole::Tap(number) => {
                    let Some(queue) = gate.descriptor() else { continue };
                    *entry(&mut document.devices, self.devices[number].name.clone()) += 1;
                    queues.push(queue.try_clone()?);
                }
            }
        }
        sockets.append(&mut queues);
        Ok((serde_json::to_value(document)?, sockets))
    }

    /// Closes all gates, so that this router takes no more frames.
    pub(crate) fn close_gates(&self) {
        self.gates.iter().for_each(|of| of.gate.close());
        self.wake();
    }

    /// Opens the gates again after [`Self::close_gates`].
    pub(crate) fn reopen_gates(&self) {
        self.gates.iter().for_each(|of| of.gate.reopen());
        self.wake();
    }

    /// Returns the state after the last frame. `ifindexes` contains the interface of each port.
    ///
    /// # Errors
    /// If a thread still reads a queue, as text.
    pub(crate) fn state(&self, ifindexes: &[u32]) -> Result<SubinterfaceState, String> {
        let mut state = SubinterfaceState::default();
        for SubinterfaceGate { role, gate, .. } in &self.gates {
            let position = gate.position().ok_or("a thread does not leave its VLANs")?;
            match *role {
                QueueRole::Wire(ifindex) => state.wires.push((ifindex, gate.number, position)),
                QueueRole::Tap(of) => {
                    state.devices.push((self.devices[of].name.clone(), gate.number, position));
                }
            }
        }
        let links = self.ask_links(|link| (link.known(now()), link.waiting()));
        let ifindex = |port: FibPortIndex| ifindexes.get(usize::from(port.0)).copied();
        for (device, (known, waiting)) in self.devices.iter().zip(links) {
            state.neighbours.push((device.name.clone(), known));
            state.waiting.extend(waiting.into_iter().filter_map(|(port, thread, frame)| {
                Some(HandedPacket { ifindex: ifindex(port)?, thread, frame })
            }));
        }
        Ok(state)
    }

    /// Learns the neighbours that the predecessor knew.
    pub(crate) fn learn(&self, state: &SubinterfaceState) {
        for (name, known) in &state.neighbours {
            let Some(number) = self.devices.iter().position(|it| it.name == *name) else {
                continue;
            };
            let known = known.clone();
            self.with_link(number, move |link| link.learn(&known, now()));
        }
    }

    /// Whether the state has a position for each inherited queue.
    pub(crate) fn fits(&self, state: &SubinterfaceState) -> bool {
        let mut inherited = self.gates.iter().filter(|of| of.is_inherited);
        inherited.all(|of| self.position_of(of, state).is_some())
    }

    /// Goes on where the predecessor has stopped. `ifindexes` contains the interface of each port.
    /// `hand` gives a packet to the worker of a number, if there are workers.
    ///
    /// # Errors
    /// If the kernel refuses the filter of a socket. The frames of some subinterfaces then do not
    /// arrive.
    pub(crate) fn begin(
        &self,
        state: SubinterfaceState,
        ifindexes: &[u32],
        hand: impl Fn(usize, (FibPortIndex, Vec<u8>)),
    ) -> io::Result<()> {
        let filtered = self.set_filters();
        let gates = self.gates.iter().filter(|of| of.is_inherited);
        let gates = gates.map(|of| (&of.gate, self.position_of(of, &state).unwrap_or_default()));
        let gates: Vec<_> = gates.collect();
        // These come first, so that no packet that waits in a queue overtakes them.
        for HandedPacket { ifindex, thread, frame } in state.waiting {
            // Packets from interfaces that this router does not have are dropped.
            if let Some(port) = ifindexes.iter().position(|of| *of == ifindex) {
                let packet = (FibPortIndex(port as u16), frame);
                match self.thread {
                    Some(_) => self.tell(move |processor| processor.handed.push(packet)),
                    None => hand(thread, packet),
                }
            }
        }
        gates.into_iter().for_each(|(gate, position)| gate.open_at(position));
        if let Some(thread) = &self.thread {
            thread.has_begun.store(true, Ordering::Release);
        }
        self.wake();
        filtered
    }

    /// Waits until the thread, if there is one, has reached the goal. Returns whether it has.
    pub(crate) fn reach(&self, goal: DrainGoal, limit: Duration) -> bool {
        if self.thread.is_none() {
            return true;
        }
        let (sender, reached) = mpsc::sync_channel(1);
        let waits = Arc::new(());
        let waits_here = Arc::downgrade(&waits);
        self.tell(move |processor| processor.drain.wait(goal, sender, waits_here));
        reached.recv_timeout(limit).is_ok()
    }

    fn wake(&self) {
        self.thread.iter().for_each(|thread| thread.tasks.wake());
    }

    /// Makes each inherited socket receive the VLANs of this router, which may differ from those of
    /// the predecessor.
    fn set_filters(&self) -> io::Result<()> {
        let mut set = Ok(());
        for SubinterfaceGate { role, gate, .. } in self.gates.iter().filter(|of| of.is_inherited) {
            let (QueueRole::Wire(ifindex), Some((socket, _))) = (*role, gate.socket()) else {
                continue;
            };
            let of = self.gates.iter().filter(|of| of.role == *role).count();
            let on_it = self.devices.iter().filter(|it| it.parent == ifindex);
            let ids = vlan_ids(on_it.map(|it| it.tags));
            let queue = (gate.number as u32, of as u32);
            set = set.and(packet::set_vlan_ids(socket.as_fd(), queue, &ids));
        }
        set
    }

    fn position_of(&self, of: &SubinterfaceGate, state: &SubinterfaceState) -> Option<u32> {
        let number = of.gate.number;
        match of.role {
            QueueRole::Wire(ifindex) => {
                let mut wires = state.wires.iter().filter(|it| (it.0, it.1) == (ifindex, number));
                wires.next().map(|it| it.2)
            }
            QueueRole::Tap(at) => {
                let name = &self.devices[at].name;
                let mut devices = state.devices.iter().filter(|it| it.0 == *name && it.1 == number);
                devices.next().map(|it| it.2)
            }
        }
    }

    /// Asks each link a question.
    fn ask_links<T: Send + 'static>(
        &self,
        question: impl Fn(&mut SubinterfaceLink) -> T + Send + 'static,
    ) -> Vec<T> {
        if let Some(shared) = &self.workers {
            return shared.all().iter().map(|it| it.with(&question)).collect();
        }
        let (sender, answers) = mpsc::sync_channel(1);
        self.tell(move |processor| {
            let links = processor.subinterfaces.iter_mut().map(|it| question(&mut it.link));
            // If the asking thread has ended, the answer is not needed.
            let _ = sender.send(links.collect());
        });
        answers.recv().unwrap_or_default()
    }

    fn with_link(
        &self,
        number: usize,
        use_link: impl FnOnce(&mut SubinterfaceLink) + Send + 'static,
    ) {
        match &self.workers {
            Some(shared) => shared.all()[number].with(use_link),
            None => self.tell(move |processor| use_link(&mut processor.subinterfaces[number].link)),
        }
    }
}
