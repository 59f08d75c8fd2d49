//! The sources of frames.

use std::io;
use std::ops::ControlFlow;
use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use slipring_abi::NS_TXMON;
use slipring_cli::report::PortReport;
use slipring_cli::{Failure, Signals};
use slipring_core::listen::InterfaceListener;
use slipring_datapath::meter::PortMeter;
use slipring_pcap::PcapDirection;
use slipring_port::capture::{FileReader, wall_clock};
use slipring_port::iface::{Iface, Promisc, promiscuous};
use slipring_port::netlink::LinkEvents;
use slipring_port::{Interest, OpenError, Port, Queue, RunCause, RunError, WaitStrategy, Waiter};
use slipring_ring::{RxRing, SlotFlags};

/// Maximum number of frames that [`DumpSource::take`] processes in one call, per queue. A capture
/// file has no such limit.
const MAX_BATCH: u32 = 256;

/// A frame as seen by a capture.
#[derive(Debug, Clone, Copy)]
pub struct DumpFrame<'f> {
    /// When the frame was captured, in nanoseconds since 1970.
    pub ts_ns: u64,
    /// Whether the frame was sent, not received, where it was captured; `None` if this is not
    /// known.
    pub outgoing: Option<bool>,
    /// The frame's length in bytes on the wire.
    pub wire_len: u32,
    /// The frame's captured bytes.
    pub bytes: &'f [u8],
}

/// Processes a frame and returns whether to continue.
pub type FrameVisitor<'l> = &'l mut dyn FnMut(&DumpFrame<'_>) -> Result<ControlFlow<()>, Failure>;

/// A source of frames.
pub enum DumpSource {
    /// An interface to listen on.
    Listening(ListenSource),
    /// A capture file, whose frames have their own times.
    Reading {
        /// The port's name.
        name: String,
        /// Reads the packets of the capture file.
        reader: FileReader,
    },
    /// A port that this program opens. Unless it is a monitor, its frames no longer reach the host.
    Opened(Box<PortSource>),
}

/// An interface to listen on.
pub struct ListenSource {
    name: String,
    iface: Iface,
    listener: InterfaceListener,
    /// Reports changes of interfaces. They are needed because a socket does not report that its
    /// interface was removed while the interface was down.
    changes: LinkEvents,
    /// Whether the capture ends when the interface goes down.
    ends_on_link_down: bool,
    _promisc: Option<Promisc>,
    dropped: u64,
}

/// A port that this program opens. Unless it is a monitor, its frames no longer reach the host.
pub struct PortSource {
    port: Port,
    /// Whether the port shows the frames that another port sends and receives.
    is_monitor: bool,
    waiter: Waiter,
    scratch: Vec<u8>,
    meter: PortMeter,
}

impl DumpSource {
    /// Creates a source that listens on an interface. If `promisc` is set, it also captures frames
    /// for other hosts. The interface may go down and come up again.
    ///
    /// # Errors
    /// Same as for [`InterfaceListener::open`].
    pub fn listen(shown: &str, ifname: &str, promisc: bool) -> Result<Self, Failure> {
        let failed = |cause| OpenError::new(shown, cause);
        let iface = Iface::find(ifname).map_err(failed)?;
        let changes = LinkEvents::open()?;
        let listener = InterfaceListener::open(ifname)?;
        let promisc = promisc && !iface.loopback;
        let promisc = promisc.then(|| promiscuous(iface.index)).transpose().map_err(failed)?;
        let name = shown.to_owned();
        Ok(Self::Listening(ListenSource {
            name,
            iface,
            listener,
            changes,
            ends_on_link_down: false,
            _promisc: promisc,
            dropped: 0,
        }))
    }

    /// Sets whether the capture ends when an interface to listen on goes down.
    ///
    /// # Errors
    /// [`Failure`] if `ends` is true and the interface is already down.
    pub fn exit_on_link_down(mut self, ends: bool) -> Result<Self, Failure> {
        if let Self::Listening(listening) = &mut self
            && ends
        {
            let down = |cause| OpenError::new(&listening.name, cause);
            listening.iface.require_up().map_err(down)?;
            listening.ends_on_link_down = true;
        }
        Ok(self)
    }

    /// Returns the opened port as a slice of one port; an empty slice for other sources.
    #[must_use]
    pub fn port(&self) -> &[Port] {
        match self {
            Self::Opened(opened) => std::slice::from_ref(&opened.port),
            Self::Listening(_) | Self::Reading { .. } => &[],
        }
    }

    /// Creates a source that reads a capture file.
    ///
    /// # Errors
    /// Same as for [`FileReader::open`].
    pub fn read(shown: &str, path: &str) -> Result<Self, Failure> {
        let reader = FileReader::open(path).map_err(|cause| OpenError::new(shown, cause))?;
        Ok(Self::Reading { name: shown.to_owned(), reader })
    }

    /// Creates a source that receives the frames of an opened port, which may be a monitor.
    ///
    /// # Errors
    /// The system's error, if the waiter cannot be created.
    pub fn take_from(port: Port, is_monitor: bool, signals: &Signals) -> Result<Self, Failure> {
        let mut waiter = Waiter::for_ports([&port], WaitStrategy::Sleep)?;
        waiter.add_fd(signals.wake_fd())?;
        let meter = PortMeter::new([&port]);
        let scratch = Vec::new();
        Ok(Self::Opened(Box::new(PortSource { port, is_monitor, waiter, scratch, meter })))
    }

    /// Returns the interface on which the source listens; `None` for other sources.
    #[must_use]
    pub fn listens_on(&self) -> Option<&str> {
        match self {
            Self::Listening(listening) => Some(&listening.iface.name),
            _ => None,
        }
    }

    /// Returns whether the source is an opened port.
    #[must_use]
    pub fn takes(&self) -> bool {
        matches!(self, Self::Opened(_))
    }

    /// Returns the report of the source as a port, with losses by cause.
    #[must_use]
    pub fn report(&self) -> PortReport {
        let report = |name: &String, kind: &str, mode: &str| PortReport {
            name: name.clone(),
            kind: kind.to_owned(),
            mode: mode.to_owned(),
            ..PortReport::default()
        };
        match self {
            Self::Listening(ListenSource { name, iface, dropped, .. }) => {
                let mut report = report(name, "packet", "listening");
                report.driver = Some(iface.driver.clone()).filter(|driver| !driver.is_empty());
                let down = ("link".to_owned(), "down".to_owned());
                report.settings.extend((!iface.up).then_some(down));
                report.drops.extend((*dropped > 0).then(|| ("rx_kernel".to_owned(), *dropped)));
                report
            }
            Self::Reading { name, .. } => report(name, "pcap", "file"),
            Self::Opened(opened) => opened.meter.reports().pop().unwrap_or_default(),
        }
    }

    /// Passes available frames to `visit`; returns false if no more frames will come.
    ///
    /// # Errors
    /// [`Failure`] if the port is lost; also the error of `visit`.
    pub fn take(&mut self, visit: FrameVisitor<'_>) -> Result<bool, Failure> {
        match self {
            Self::Listening(listening) => listening.take(visit),
            Self::Reading { name, reader } => read(name, reader, visit),
            Self::Opened(opened) => opened.receive(visit),
        }
    }

    /// Waits for more frames, or for a signal.
    ///
    /// # Errors
    /// [`Failure`] if the port is lost.
    pub fn wait(&mut self, signals: &Signals) -> Result<(), Failure> {
        match self {
            Self::Listening(ListenSource { listener, changes, .. }) => {
                let mut fds = [listener.as_fd(), signals.wake_fd(), changes.as_fd()]
                    .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
                // An interrupted poll is no error: the caller checks all conditions again.
                let _ = poll(&mut fds, None);
            }
            Self::Reading { .. } => {}
            Self::Opened(opened) => {
                opened.waiter.wait_ports(&mut [&mut opened.port], Interest::RX, None)?;
            }
        }
        signals.acknowledge();
        Ok(())
    }

    /// Reads the drop counts that only the kernel has.
    pub fn update_stats(&mut self) {
        if let Self::Opened(opened) = self {
            opened.port.queues.iter_mut().for_each(|queue| queue.update_stats());
        }
    }
}

/// Processes received frames. The outer result contains an error of the system, the inner one an
/// error of the visitor.
fn listen(
    listener: &mut InterfaceListener,
    visit: FrameVisitor<'_>,
) -> io::Result<Result<(), Failure>> {
    for _ in 0..MAX_BATCH {
        let Some(received) = listener.recv()? else { break };
        let frame = DumpFrame {
            ts_ns: received.ts_ns,
            outgoing: Some(received.outgoing),
            wire_len: received.wire_len,
            bytes: received.frame,
        };
        match visit(&frame) {
            Ok(ControlFlow::Continue(())) => {}
            Ok(ControlFlow::Break(())) => break,
            Err(failure) => return Ok(Err(failure)),
        }
    }
    Ok(Ok(()))
}

impl ListenSource {
    fn take(&mut self, visit: FrameVisitor<'_>) -> Result<bool, Failure> {
        let frame = listen(&mut self.listener, visit)
            .or_else(|error| self.tolerate_link_down(error).map(Ok));
        frame.map_err(|cause| RunError::new(&self.name, cause))??;
        if self.changes.clear() {
            self.check_link().map_err(|cause| RunError::new(&self.name, cause))?;
        }
        self.dropped = self.listener.dropped().unwrap_or(self.dropped);
        Ok(true)
    }

    /// Ignores the error if the interface is down, because the socket receives frames again once
    /// the interface is up.
    fn tolerate_link_down(&self, error: io::Error) -> Result<(), RunCause> {
        self.check_link()?;
        match Errno::from_io_error(&error) {
            Some(Errno::NETDOWN) => Ok(()),
            _ => Err(RunCause::System { what: "listen", source: error }),
        }
    }

    fn check_link(&self) -> Result<(), RunCause> {
        match self.iface.is_up_now() {
            None => Err(RunCause::Vanished),
            Some(false) if self.ends_on_link_down => Err(RunCause::WentDown),
            Some(_) => Ok(()),
        }
    }
}

fn read(name: &str, reader: &mut FileReader, visit: FrameVisitor<'_>) -> Result<bool, Failure> {
    loop {
        let path = reader.path().to_owned();
        let packet =
            reader.next().map_err(|error| RunError::new(name, error.to_run_cause(&path)))?;
        let Some(packet) = packet else { return Ok(false) };
        let frame = DumpFrame {
            ts_ns: packet.ts_ns,
            outgoing: packet.direction.map(|direction| direction == PcapDirection::Outbound),
            wire_len: packet.orig_len,
            bytes: packet.data,
        };
        if visit(&frame)?.is_break() {
            return Ok(false);
        }
    }
}

impl PortSource {
    fn receive(&mut self, visit: FrameVisitor<'_>) -> Result<bool, Failure> {
        for queue in &mut self.port.queues {
            queue.rx_sync()?;
            let ts_ns = wall_clock();
            for _ in 0..MAX_BATCH {
                let rx = queue.rings().rx;
                let outgoing = self.is_monitor && rx.avail() > 0 && was_sent(rx);
                let seen = rx.packet(&mut self.scratch, |bytes| {
                    let wire_len = bytes.len() as u32;
                    visit(&DumpFrame { ts_ns, outgoing: Some(outgoing), wire_len, bytes })
                });
                let Some(seen) = seen else { break };
                if seen?.is_break() {
                    return Ok(true);
                }
            }
        }
        // A queue that has ended may still hold frames that it received earlier.
        let is_over = |queue: &mut Box<dyn Queue>| queue.ended() && queue.rings().rx.avail() == 0;
        Ok(!self.port.queues.iter_mut().all(is_over))
    }
}

/// For the next frame of a monitor, returns whether the monitored port has sent the frame;
/// otherwise the port has received it.
fn was_sent(rx: &RxRing) -> bool {
    rx.first_flags().is_some_and(|flags| flags.has(SlotFlags(NS_TXMON)))
}
