//! Watches whether a port's interface is up.
//!
//! A port survives its interface being set down, as a netmap port does, unless it was opened with
//! `exit_on_link_down`: until the interface is up again, nothing arrives, and frames to send wait
//! in the ring. A sync learns from the kernel that the interface is down. The kernel announces that
//! the interface is up again only to listeners of rtnetlink. So each port listens there, and
//! nothing has to poll.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketFlags, SocketType, bind, netdevice, netlink::SocketAddrNetlink,
    socket_with,
};

use crate::error::{OpenCause, RunCause};
use crate::iface::{self, Iface};

/// The state of one interface, as a queue has last observed it.
#[derive(Debug)]
pub(crate) struct LinkWatch {
    /// Receives link changes in the namespace in which the port was opened.
    events: OwnedFd,
    index: u32,
    down: bool,
    /// Whether the port fails when its interface is down. Otherwise it waits until the interface is
    /// up.
    ends_when_down: bool,
    /// Whether this interface or another one has changed since the last call of
    /// [`Self::take_changed`]; true before the first call.
    changed: bool,
}

impl LinkWatch {
    /// Listens for changes of `iface`. If `ends` is true, an interface that is down is an error.
    ///
    /// # Errors
    /// [`OpenCause::Down`] if `ends` is true and the interface is down; [`OpenCause::System`] if
    /// there is no netlink socket.
    pub(crate) fn watch(iface: &Iface, ends: bool) -> Result<Self, OpenCause> {
        if ends {
            iface.require_up()?;
        }
        let events = open_link_events();
        let events = events.map_err(|source| OpenCause::System {
            what: "listen for changes of the interface",
            source,
        })?;
        // `changed` is true, so that the state is queried once more: a change before the
        // subscription caused no event.
        Ok(Self {
            events,
            index: iface.index,
            down: !iface.up,
            ends_when_down: ends,
            changed: true,
        })
    }

    /// Returns whether the interface was down at the last query.
    #[inline(always)]
    pub(crate) fn is_down(&self) -> bool {
        self.down
    }

    /// Returns whether the port fails when its interface is down.
    pub(crate) fn ends_when_down(&self) -> bool {
        self.ends_when_down
    }

    /// Returns a descriptor that is readable when an interface has changed.
    pub(crate) fn events(&self) -> BorrowedFd<'_> {
        self.events.as_fd()
    }

    /// Reads all pending events; returns whether there were any.
    pub(crate) fn read_events(&mut self) -> bool {
        let (mut bytes, mut any) = ([0; 4096], false);
        loop {
            match rustix::io::read(&self.events, &mut bytes) {
                // `NOBUFS`: the kernel has discarded events, so there may have been changes.
                Ok(_) | Err(Errno::NOBUFS) => any = true,
                Err(Errno::INTR) => {}
                Err(_) => break,
            }
        }
        self.changed |= any;
        any
    }

    /// Returns whether anything has changed since the last call; true at the first call.
    pub(crate) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// Records that the kernel reported the interface as down.
    ///
    /// # Errors
    /// [`RunCause::WentDown`] if an interface that is down ends the port.
    pub(crate) fn mark_down(&mut self) -> Result<(), RunCause> {
        self.down = true;
        if self.ends_when_down { Err(RunCause::WentDown) } else { Ok(()) }
    }

    /// Records that the interface is up. Returns whether it was last known to be down.
    #[inline(always)]
    pub(crate) fn mark_up(&mut self) -> bool {
        std::mem::take(&mut self.down)
    }

    /// Asks the kernel for the state. Returns whether the interface has come up since it was last
    /// known to be down.
    ///
    /// # Errors
    /// [`RunCause::Vanished`] if the interface no longer exists; also the errors of
    /// [`Self::mark_down`].
    pub(crate) fn query(&mut self) -> Result<bool, RunCause> {
        let asked = netdevice::index_to_name(&self.events, self.index).map_err(io::Error::from);
        match asked.and_then(|name| iface::flags(&self.events, &name)) {
            Ok(flags) if flags & libc::IFF_UP != 0 => Ok(self.mark_up()),
            Ok(_) => self.mark_down().map(|()| false),
            Err(error) if error.raw_os_error() == Some(libc::ENODEV) => Err(RunCause::Vanished),
            Err(error) if error.raw_os_error() == Some(libc::ENXIO) => Err(RunCause::Vanished),
            Err(source) => Err(RunCause::System { what: "ask for the interface", source }),
        }
    }
}

fn open_link_events() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
    bind(&socket, &SocketAddrNetlink::new(0, libc::RTMGRP_LINK as u32))?;
    Ok(socket)
}
