//! Where frames come from.

use std::io;
use std::ops::ControlFlow;
use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, poll};
use slipring_abi::name::{Kind, PortName, Rings};
use slipring_cli::report::PortReport;
use slipring_cli::{Failure, Signals};
use slipring_core::Host;
use slipring_core::listen::Listener;
use slipring_port::capture::{FileReader, wall_clock};
use slipring_port::iface::Iface;
use slipring_port::{Interest, OpenError, OpenOptions, Patience, Port, RunCause, RunError, Waiter};

use crate::ports;
use slipring_program::meter::Meter;

/// Frames taken at a time, after which signals are looked at.
const BATCH: u32 = 256;

/// A frame that passes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Frame<'f> {
    /// Nanoseconds since 1970.
    pub(super) ts_ns: u64,
    /// Whether this machine sent it, where that is known.
    pub(super) outgoing: Option<bool>,
    /// Its length in bytes on the wire.
    pub(super) wire_len: u32,
    pub(super) bytes: &'f [u8],
}

/// Looks at a frame and says whether to go on.
pub(super) type Look<'l> = &'l mut dyn FnMut(&Frame<'_>) -> Result<ControlFlow<()>, Failure>;

pub(super) enum Source {
    /// An interface that is listened to.
    Listening { name: String, iface: Iface, listener: Listener, dropped: u64 },
    /// A capture with its own times.
    Reading { name: String, reader: FileReader },
    /// A port whose frames are taken.
    Opened { port: Port, waiter: Waiter, scratch: Vec<u8>, meter: Meter },
}

impl Source {
    pub(super) fn open(name: &PortName, signals: &Signals) -> Result<Self, Failure> {
        let shown = name.to_string();
        let plain = name.pipe.is_none() && name.rings == Rings::All;
        match name.kind {
            Kind::Netmap | Kind::Packet if plain => {
                let failed = |cause| OpenError::new(&shown, cause);
                let iface = Iface::find(&name.name).map_err(failed)?;
                let listener = Listener::open(&name.name)?;
                Ok(Self::Listening { name: shown, iface, listener, dropped: 0 })
            }
            Kind::Pcap => {
                let failed = |cause| OpenError::new(&shown, cause);
                let reader = FileReader::open(&name.name).map_err(failed)?;
                Ok(Self::Reading { name: shown, reader })
            }
            _ => Self::open_port(name, signals),
        }
    }

    fn open_port(name: &PortName, signals: &Signals) -> Result<Self, Failure> {
        let options =
            OpenOptions { shared: true, direction: Interest::RX, ..OpenOptions::default() };
        let mut ports = Host::global().open_all(std::slice::from_ref(name), &options)?;
        let port = ports.pop().expect("one port per name");
        let mut waiter = Waiter::for_ports([&port], Patience::Sleep)?;
        waiter.also(signals.wake_fd())?;
        let meter = Meter::new([&port]);
        Ok(Self::Opened { port, waiter, scratch: Vec::new(), meter })
    }

    /// What the reader of the trace must know to understand it.
    pub(super) fn notes(&self) -> Vec<String> {
        match self {
            Self::Listening { iface, .. } => hidden_from(iface),
            Self::Reading { .. } => Vec::new(),
            Self::Opened { port, .. } => {
                vec![format!(
                    "# {} is taken for this trace: its frames go no further",
                    port.info.name
                )]
            }
        }
    }

    pub(super) fn report(&self) -> PortReport {
        let report = |name: &String, kind: &str, mode: &str| PortReport {
            name: name.clone(),
            kind: kind.to_owned(),
            mode: mode.to_owned(),
            ..PortReport::default()
        };
        match self {
            Self::Listening { name, iface, dropped, .. } => {
                let mut report = report(name, "packet", "listening");
                report.driver = Some(iface.driver.clone()).filter(|driver| !driver.is_empty());
                report.drops.extend((*dropped > 0).then(|| ("rx_kernel".to_owned(), *dropped)));
                report
            }
            Self::Reading { name, .. } => report(name, "pcap", "file"),
            Self::Opened { meter, .. } => meter.reports().pop().unwrap_or_default(),
        }
    }

    /// Shows what is there; false when nothing will ever follow.
    pub(super) fn take(&mut self, look: Look<'_>) -> Result<bool, Failure> {
        match self {
            Self::Listening { listener, iface, dropped, name } => {
                listen(listener, look).map_err(|error| gone(name, iface, error))??;
                *dropped = listener.dropped().unwrap_or(*dropped);
                Ok(true)
            }
            Self::Reading { name, reader } => read(name, reader, look),
            Self::Opened { port, scratch, .. } => receive(port, scratch, look),
        }
    }

    /// Waits for more, or for a signal.
    pub(super) fn wait(&mut self, signals: &Signals) -> Result<(), Failure> {
        match self {
            Self::Listening { listener, .. } => {
                let mut fds = [listener.as_fd(), signals.wake_fd()]
                    .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
                // Interrupted or not: the caller looks at everything again.
                let _ = poll(&mut fds, None);
            }
            Self::Reading { .. } => {}
            Self::Opened { port, waiter, .. } => {
                waiter.wait_ports(&mut [port], Interest::RX, None)?;
            }
        }
        signals.acknowledge();
        Ok(())
    }
}

/// Programs that take frames before they can be heard.
fn hidden_from(iface: &Iface) -> Vec<String> {
    let rows = ports::list().unwrap_or_default();
    let row = rows.into_iter().find(|row| row.interface == iface.name);
    let owners = row.into_iter().flat_map(|row| row.owners);
    let note = |owner: ports::Owner| {
        let ports::Owner { process, pid, .. } = owner;
        format!("# frames that {process} ({pid}) takes by XDP are not seen here")
    };
    owners.map(note).collect()
}

/// The outer error is the system's, the inner one that of `look`.
fn listen(listener: &mut Listener, look: Look<'_>) -> io::Result<Result<(), Failure>> {
    for _ in 0..BATCH {
        let Some(heard) = listener.hear()? else { break };
        let frame = Frame {
            ts_ns: heard.ts_ns,
            outgoing: Some(heard.outgoing),
            wire_len: heard.wire_len,
            bytes: heard.frame,
        };
        match look(&frame) {
            Ok(ControlFlow::Continue(())) => {}
            Ok(ControlFlow::Break(())) => break,
            Err(failure) => return Ok(Err(failure)),
        }
    }
    Ok(Ok(()))
}

fn gone(name: &str, iface: &Iface, error: io::Error) -> Failure {
    let cause = match iface.is_up_now() {
        None => RunCause::Vanished,
        Some(false) => RunCause::WentDown,
        Some(true) => return RunError::system(name, "listen", error).into(),
    };
    RunError::new(name, cause).into()
}

fn read(name: &str, reader: &mut FileReader, look: Look<'_>) -> Result<bool, Failure> {
    loop {
        let path = reader.path().to_owned();
        let packet = reader.next().map_err(|error| RunError::new(name, error.at_run(&path)))?;
        let Some(packet) = packet else { return Ok(false) };
        let frame = Frame {
            ts_ns: packet.ts_ns,
            outgoing: None,
            wire_len: packet.orig_len,
            bytes: packet.data,
        };
        if look(&frame)?.is_break() {
            return Ok(false);
        }
    }
}

fn receive(port: &mut Port, scratch: &mut Vec<u8>, look: Look<'_>) -> Result<bool, Failure> {
    for queue in &mut port.queues {
        queue.rx_sync()?;
        let ts_ns = wall_clock();
        for _ in 0..BATCH {
            let seen = queue.rings().rx.packet(scratch, |bytes| {
                let wire_len = bytes.len() as u32;
                look(&Frame { ts_ns, outgoing: Some(false), wire_len, bytes })
            });
            let Some(seen) = seen else { break };
            if seen?.is_break() {
                return Ok(true);
            }
        }
    }
    // A queue that has ended may still hold frames that were received before.
    Ok(!port.queues.iter_mut().all(|queue| queue.ended() && queue.rings().rx.avail() == 0))
}
