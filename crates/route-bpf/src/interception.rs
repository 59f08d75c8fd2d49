//! Diverts the frames of an interface from the kernel to packet sockets of the user-space engine.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use slipring_bpf::{
    BpfAttachType, BpfCode, BpfError, BpfLink, BpfLinkFlags, BpfProgram, BpfProgramKind,
};
use slipring_fib::FibPortIndex;

use crate::program::context::{HeaderAccess, PortConstants};
use crate::program::packet_filter::{self, InterceptionKeys};
use crate::router::{BpfRouter, ResidentError};

/// The interception of an interface's frames, until this is dropped or the process ends.
///
/// Each packet socket of the interface gets one of [`Self::filters`]. A filter decides for each
/// frame whether its socket gets it. The kernel does not process frames that a socket gets. With
/// [`ResidentOptions::direct`](crate::ResidentOptions::direct), frames that need no more than a
/// lookup go to no socket: a program in the kernel forwards them by this router's tables. Without a
/// socket, without a recent [heartbeat](crate::ResidentHeartbeat) of the socket's queue, and until
/// [`BpfRouter::enable`], the kernel gets everything. A socket's ring contains only frames that its
/// reader must handle. Frames that find the ring full are counted as dropped only by the socket
/// (`PACKET_STATISTICS`).
#[derive(Debug)]
pub struct PacketInterception {
    filters: Vec<BpfProgram>,
    injection: BpfProgram,
    ifindex: u32,
    port: FibPortIndex,
    pub(crate) keys: InterceptionKeys,
    /// The program that keeps frames from the kernel's network stack: it drops those that filters
    /// have taken, and forwards those that filters have chosen for it.
    pub(crate) diverting: BpfProgram,
    pub(crate) link: BpfLink,
}

/// The programs of an interception.
pub(crate) struct InterceptionPrograms {
    filters: Vec<BpfProgram>,
    injection: BpfProgram,
    diverting: BpfProgram,
    ifindex: u32,
    port: FibPortIndex,
    keys: InterceptionKeys,
}

impl InterceptionPrograms {
    /// Adds the BPF link, which completes the interception.
    pub(crate) fn linked(self, link: BpfLink) -> PacketInterception {
        let Self { filters, injection, diverting, ifindex, port, keys } = self;
        PacketInterception { filters, injection, ifindex, port, keys, diverting, link }
    }
}

impl BpfRouter {
    /// Prepares an interface of this thread's network namespace, as the router's port `port`, for
    /// packet sockets of `queues` workers. Frames that it leaves to the kernel are counted by
    /// reason, as for programs that [`Self::attach`] attaches.
    ///
    /// # Errors
    /// [`ResidentError::Attach`] with EINVAL before Linux 6.6; [`ResidentError::Bpf`].
    ///
    /// # Panics
    /// If `queues` is above the limit of this router's queues.
    pub fn attach_packet(
        &self,
        ifindex: u32,
        port: FibPortIndex,
        queues: u16,
    ) -> Result<PacketInterception, ResidentError> {
        let keys = InterceptionKeys::random()
            .map_err(|source| BpfError::System { what: "get random bytes", source })?;
        let programs = self.load_interception(ifindex, port, queues, keys)?;
        let at = BpfAttachType::TcxIngress;
        let link = programs.diverting.attach(ifindex, at, BpfLinkFlags::First);
        let link = link.map_err(|source| ResidentError::Attach { ifindex, source })?;
        Ok(programs.linked(link))
    }

    /// Loads the BPF programs of an interface for packet sockets.
    pub(crate) fn load_interception(
        &self,
        ifindex: u32,
        port: FibPortIndex,
        queues: u16,
        keys: InterceptionKeys,
    ) -> Result<InterceptionPrograms, ResidentError> {
        assert!(queues <= self.limits.queues, "{queues} queues of {}", self.limits.queues);
        let constants = self.skb_constants(port);
        let filter = |queue| {
            let code = packet_filter::socket_filter(&constants, queue, keys);
            self.load_for_skb(BpfProgramKind::SocketFilter, &code)
        };
        let filters = (0..queues).map(filter).collect::<Result<_, _>>()?;
        let classifier = |code: &BpfCode| self.load_for_skb(BpfProgramKind::Classifier, code);
        let injection = classifier(&packet_filter::injection(ifindex, keys))?;
        let diverting = classifier(&packet_filter::tcx_program(&constants, keys))?;
        Ok(InterceptionPrograms { filters, injection, diverting, ifindex, port, keys })
    }

    fn skb_constants(&self, port: FibPortIndex) -> PortConstants {
        let (hash, limits) = (self.hash, self.limits);
        PortConstants {
            port,
            is_software: false,
            tag_function: None,
            hash,
            limits,
            has_sockets: true,
            takes_options: false,
            headers: HeaderAccess::Copy,
        }
    }

    fn load_for_skb(&self, kind: BpfProgramKind, code: &BpfCode) -> Result<BpfProgram, BpfError> {
        self.writer.host.load_for_skb(kind, code)
    }
}

impl InterceptionKeys {
    fn random() -> io::Result<Self> {
        let mut bytes = [0; 12];
        let got = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
        if got < bytes.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let [a, b, c, d, mark @ ..] = bytes.map(u64::from);
        let [e, f, g, h, mark @ ..] = mark;
        let token = [a, b, c, d, e, f, g, h].iter().fold(0, |token, byte| token << 8 | byte);
        let mark = mark.iter().fold(0, |mark, byte| mark << 8 | byte);
        // Neither value may be 0, because that is the value of frames without a mark.
        Ok(Self { token: token | 1, returned_mark: mark as u32 | 1 })
    }
}

impl PacketInterception {
    /// The router's port.
    #[must_use]
    pub fn port(&self) -> FibPortIndex {
        self.port
    }

    /// Copies of the filters' descriptors, one for the socket of each queue (`SO_ATTACH_BPF`).
    ///
    /// # Errors
    /// The kernel's error, if there are too many descriptors.
    pub fn filters(&self) -> io::Result<Vec<OwnedFd>> {
        self.filters.iter().map(|filter| filter.as_fd().try_clone_to_owned()).collect()
    }

    /// The kernel's index of the interface.
    pub(crate) fn ifindex(&self) -> u32 {
        self.ifindex
    }

    /// Returns the program that makes the kernel receive frames on the interface although the
    /// filters would take them.
    pub(crate) fn injection(&self) -> io::Result<BpfProgram> {
        Ok(self.injection.as_fd().try_clone_to_owned()?.into())
    }
}
