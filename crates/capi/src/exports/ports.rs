//! Ports: opening, description, rings, syncs, waiting, counters.

use std::ffi::{c_char, c_int, c_void};
use std::ptr::{null, null_mut};
use std::time::Duration;

use slipring_abi::NetmapRing;
use slipring_port::{DropCause, OpenOptions};

use crate::error::CallError;
use crate::options::open_options;
use crate::pointers::{self, OutPointer, non_null, put};
use crate::structs::{
    PortHandle, SLIPRING_NEVER, SlipringOptions, SlipringPortInfo, SlipringStats, SlipringWait,
};
use crate::wait::Waiting;
use crate::{counters, entry, rings, wait};

/// How error messages call the argument if it is a null port.
const PORT: &str = "the port";

/// Opens a port.
///
/// # Safety
/// The caller must follow the rules for pointers in `include/slipring.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slipring_open(
    name: *const c_char,
    options: *const SlipringOptions,
    port: OutPointer<'_, *mut PortHandle>,
) -> c_int {
    entry::status(|| {
        let port = port.ok_or_else(|| CallError::null("the place of the port"))?;
        port.write(null_mut());
        // SAFETY: promised by the caller.
        let opened = unsafe { open_all(&[name], options)? };
        opened.into_iter().for_each(|one| {
            port.write(Box::into_raw(Box::new(one)));
        });
        Ok(0)
    })
}

/// Opens ports, which share buffers if their kinds allow that.
///
/// # Safety
/// The caller must follow the rules for pointers in `include/slipring.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slipring_open_all(
    names: *const *const c_char,
    count: usize,
    options: *const SlipringOptions,
    ports: *mut *mut PortHandle,
) -> c_int {
    entry::status(|| {
        // SAFETY: promised by the caller.
        let names = unsafe { pointers::row(names, count, "the list of names")? };
        // SAFETY: promised by the caller.
        let ports = unsafe { pointers::row_mut(ports, count, "the list of ports")? };
        for port in &mut *ports {
            port.write(null_mut());
        }
        // SAFETY: promised by the caller.
        let opened = unsafe { open_all(names, options)? };
        for (port, one) in ports.iter_mut().zip(opened) {
            port.write(Box::into_raw(Box::new(one)));
        }
        Ok(0)
    })
}

/// # Safety
/// The rules of [`slipring_open`] apply.
unsafe fn open_all(
    names: &[*const c_char],
    options: *const SlipringOptions,
) -> Result<Vec<PortHandle>, CallError> {
    // SAFETY: promised by the caller.
    let text = |name: &*const c_char| unsafe { pointers::text(*name, "the name of a port") };
    let names: Vec<&str> = names.iter().map(text).collect::<Result<_, _>>()?;
    // SAFETY: promised by the caller.
    PortHandle::open_all(&names, &unsafe { open_options_at(options)? })
}

/// Converts the options at an address, or returns the defaults if it is null.
///
/// # Safety
/// The rules of [`slipring_open`] apply.
pub(super) unsafe fn open_options_at(
    options: *const SlipringOptions,
) -> Result<OpenOptions, CallError> {
    let mut asked = SlipringOptions::default();
    if !options.is_null() {
        // SAFETY: promised by the caller.
        asked = unsafe { pointers::read_sized(options, "the options")? };
    }
    let mut run_dir = None;
    if !asked.run_dir.is_null() {
        // SAFETY: promised by the caller.
        run_dir = Some(unsafe { pointers::text(asked.run_dir, "run_dir")? });
    }
    open_options(&asked, run_dir)
}

/// Closes a port and frees its handle.
#[unsafe(no_mangle)]
pub extern "C" fn slipring_close(port: Option<Box<PortHandle>>) {
    entry::value((), || {
        drop(port);
        Ok(())
    });
}

/// Returns the name with which the port was opened.
#[unsafe(no_mangle)]
pub extern "C" fn slipring_port_name(port: Option<&PortHandle>) -> *const c_char {
    entry::value(null(), || Ok(non_null(port, PORT)?.name.as_ptr()))
}

/// Returns the port's kind.
#[unsafe(no_mangle)]
pub extern "C" fn slipring_port_kind(port: Option<&PortHandle>) -> *const c_char {
    entry::value(null(), || Ok(non_null(port, PORT)?.kind.as_ptr()))
}

/// Returns the mode in which the port is used.
#[unsafe(no_mangle)]
pub extern "C" fn slipring_port_mode(port: Option<&PortHandle>) -> *const c_char {
    entry::value(null(), || Ok(non_null(port, PORT)?.mode.as_ptr()))
}

/// Returns the port's description.
///
/// # Safety
/// The caller must follow the rules for pointers in `include/slipring.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slipring_port_info(
    port: Option<&PortHandle>,
    info: *mut SlipringPortInfo,
) -> c_int {
    entry::status(|| {
        let facts = non_null(port, PORT)?.facts();
        // SAFETY: promised by the caller.
        unsafe { pointers::write_sized(info, &facts, "the info") }.map(|()| 0)
    })
}

/// Returns the number of queues.
#[unsafe(no_mangle)]
pub extern "C" fn slipring_queues(port: Option<&PortHandle>) -> c_int {
    entry::status(|| Ok(non_null(port, PORT)?.queue_count() as c_int))
}

/// Returns the tx ring of a queue.
#[unsafe(no_mangle)]
pub extern "C" fn slipring_tx_ring(port: Option<&PortHandle>, queue: u32) -> *mut NetmapRing {
    entry::value(null_mut(), || rings::tx_ring(non_null(port, PORT)?, queue))
}

/// Returns the rx ring of a queue.
#[unsafe(no_mangle)]
pub extern "C" fn slipring_rx_ring(port: Option<&PortHandle>, queue: u32) -> *mut NetmapRing {
    entry::value(null_mut(), || rings::rx_ring(non_null(port, PORT)?, queue))
}

/// Returns whether buffers may be exchanged between the rings of two ports.
#[unsafe(no_mangle)]
pub extern "C" fn slipring_share_buffers(
    one: Option<&PortHandle>,
    other: Option<&PortHandle>,
) -> c_int {
    entry::status(|| rings::share_buffers(non_null(one, PORT)?, non_null(other, PORT)?))
}

/// Sends queued frames and frees the slots of frames that have been sent.
#[unsafe(no_mangle)]
pub extern "C" fn slipring_tx_sync(port: Option<&PortHandle>, queue: u32) -> c_int {
    entry::status(|| rings::tx_sync(non_null(port, PORT)?, queue))
}

/// Gives back to the port the slots that the program has read, and makes received frames visible in
/// the ring.
#[unsafe(no_mangle)]
pub extern "C" fn slipring_rx_sync(port: Option<&PortHandle>, queue: u32) -> c_int {
    entry::status(|| rings::rx_sync(non_null(port, PORT)?, queue))
}

/// Returns whether no frame will ever be received again.
#[unsafe(no_mangle)]
pub extern "C" fn slipring_has_ended(port: Option<&PortHandle>) -> c_int {
    entry::status(|| rings::has_ended(non_null(port, PORT)?))
}

/// Queues a copy of a frame for sending.
///
/// # Safety
/// The caller must follow the rules for pointers in `include/slipring.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slipring_send(
    port: Option<&PortHandle>,
    queue: u32,
    frame: *const c_void,
    len: usize,
) -> c_int {
    entry::status(|| {
        // SAFETY: promised by the caller.
        let frame = unsafe { pointers::row(frame.cast::<u8>(), len, "the frame")? };
        rings::send(non_null(port, PORT)?, queue, frame)
    })
}

/// Takes a received frame from the ring and copies it to the caller's buffer.
///
/// # Safety
/// The caller must follow the rules for pointers in `include/slipring.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slipring_receive(
    port: Option<&PortHandle>,
    queue: u32,
    buffer: *mut c_void,
    size: usize,
    len: OutPointer<'_, usize>,
) -> c_int {
    entry::status(|| {
        // SAFETY: promised by the caller.
        let buffer = unsafe { pointers::bytes_mut(buffer, size, "the buffer")? };
        let received = rings::receive(non_null(port, PORT)?, queue, buffer)?;
        put(len, received.unwrap_or(0), "the place of the length")?;
        Ok(received.is_some().into())
    })
}

/// Moves frames from the rx rings of one port to the tx rings of another.
#[unsafe(no_mangle)]
pub extern "C" fn slipring_forward(
    from: Option<&PortHandle>,
    to: Option<&PortHandle>,
    max: u32,
) -> c_int {
    entry::status(|| rings::forward_all(non_null(from, PORT)?, non_null(to, PORT)?, max))
}

/// Converts a timeout in ns; `None`, which means no limit, if it is negative.
fn timeout(ns: i64) -> Option<Duration> {
    u64::try_from(ns).ok().map(Duration::from_nanos)
}

/// Waits until all queued frames have been sent, or the timeout has expired.
#[unsafe(no_mangle)]
pub extern "C" fn slipring_drain(port: Option<&PortHandle>, timeout_ns: i64) -> c_int {
    entry::status(|| rings::drain(non_null(port, PORT)?, timeout(timeout_ns)))
}

/// Returns the descriptor that a program polls to wait for the port.
#[unsafe(no_mangle)]
pub extern "C" fn slipring_port_fd(port: Option<&PortHandle>) -> c_int {
    use std::os::fd::AsRawFd;
    entry::status(|| Ok(non_null(port, PORT)?.wait_fd().as_raw_fd()))
}

/// Prepares the port for a poll of its descriptor.
#[unsafe(no_mangle)]
pub extern "C" fn slipring_arm(
    port: Option<&PortHandle>,
    events: u32,
    until_ns: OutPointer<'_, u64>,
) -> c_int {
    entry::status(|| {
        let (ready, until) = wait::arm(non_null(port, PORT)?, events)?;
        put(until_ns, until.unwrap_or(SLIPRING_NEVER), "the place of the time")?;
        Ok(ready as c_int)
    })
}

/// Syncs the port after a poll of its descriptor.
#[unsafe(no_mangle)]
pub extern "C" fn slipring_disarm(port: Option<&PortHandle>, events: u32) -> c_int {
    entry::status(|| wait::disarm(non_null(port, PORT)?, events).map(|ready| ready as c_int))
}

/// Waits until a port is ready, the timeout has expired, or a signal arrives.
///
/// # Safety
/// The caller must follow the rules for pointers in `include/slipring.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slipring_wait(
    waits: *mut SlipringWait,
    count: usize,
    timeout_ns: i64,
) -> c_int {
    entry::status(|| {
        // SAFETY: promised by the caller.
        let asked = unsafe { pointers::row(waits, count, "the list of ports")? };
        let mut waiting = Vec::with_capacity(count);
        for one in asked {
            // SAFETY: promised by the caller: null, or an open port.
            let port = non_null(unsafe { one.port.as_ref() }, PORT)?;
            waiting.push(Waiting { port, events: one.events, ready: 0 });
        }
        let result = wait::wait(&mut waiting, timeout(timeout_ns));
        for (i, one) in waiting.iter().enumerate() {
            let ready = waits.wrapping_add(i);
            // SAFETY: this is within the `count` structures, which are no longer borrowed.
            unsafe { (*ready).ready = one.ready };
        }
        result
    })
}

/// Returns the counters of a port or queue.
///
/// # Safety
/// The caller must follow the rules for pointers in `include/slipring.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slipring_stats(
    port: Option<&PortHandle>,
    queue: u32,
    stats: *mut SlipringStats,
) -> c_int {
    entry::status(|| {
        let seen = counters::stats(non_null(port, PORT)?, queue)?;
        // SAFETY: promised by the caller.
        unsafe { pointers::write_sized(stats, &seen, "the stats") }.map(|()| 0)
    })
}

/// Returns the number of drop reasons of ports.
#[unsafe(no_mangle)]
pub extern "C" fn slipring_drop_reasons() -> u32 {
    entry::value(0, || Ok(DropCause::ALL.len() as u32))
}

/// Returns the name of a drop reason.
#[unsafe(no_mangle)]
pub extern "C" fn slipring_drop_name(reason: u32) -> *const c_char {
    entry::value(null(), || crate::error::static_text(counters::drop_name(reason)?))
}

/// Returns the number of frames dropped for a reason.
#[unsafe(no_mangle)]
pub extern "C" fn slipring_dropped(port: Option<&PortHandle>, queue: u32, reason: u32) -> u64 {
    entry::value(0, || counters::dropped(non_null(port, PORT)?, queue, reason))
}
