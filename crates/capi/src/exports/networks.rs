//! Networks of emulated links.

use std::ffi::{c_char, c_int, c_void};
use std::ptr::{null, null_mut};

use crate::error::{CallError, static_text};
use crate::pointers::{self, OutPointer, non_null};
use crate::structs::{
    NetworkHandle, SLIPRING_NEVER, SlipringDelivery, SlipringLinkStats, SlipringLoss,
    SlipringNetworkOptions,
};
use crate::{entry, network as links};

/// How error messages call the argument if it is a null network.
const NETWORK: &str = "the network";

/// A function that makes a network from a text.
type Maker = fn(&str, &SlipringNetworkOptions) -> Result<NetworkHandle, CallError>;

/// Makes a network with `maker` from a C string.
///
/// # Safety
/// The rules of [`slipring_network_load`] apply.
unsafe fn make(
    maker: Maker,
    text: *const c_char,
    options: *const SlipringNetworkOptions,
    network: OutPointer<'_, *mut NetworkHandle>,
) -> Result<c_int, CallError> {
    let network = network.ok_or_else(|| CallError::null("the place of the network"))?;
    network.write(null_mut());
    // SAFETY: the caller promises this.
    let text = unsafe { pointers::text(text, "the links")? };
    let mut asked = SlipringNetworkOptions::default();
    if !options.is_null() {
        // SAFETY: the caller promises this.
        asked = unsafe { pointers::read_sized(options, "the options")? };
    }
    network.write(Box::into_raw(Box::new(maker(text, &asked)?)));
    Ok(0)
}

/// Makes a network from a file.
///
/// # Safety
/// The caller must follow the rules for pointers in `include/slipring.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slipring_network_load(
    path: *const c_char,
    options: *const SlipringNetworkOptions,
    network: OutPointer<'_, *mut NetworkHandle>,
) -> c_int {
    // SAFETY: promised by the caller.
    entry::status(|| unsafe { make(links::load, path, options, network) })
}

/// Makes a network from a text.
///
/// # Safety
/// The caller must follow the rules for pointers in `include/slipring.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slipring_network_parse(
    toml: *const c_char,
    options: *const SlipringNetworkOptions,
    network: OutPointer<'_, *mut NetworkHandle>,
) -> c_int {
    // SAFETY: promised by the caller.
    entry::status(|| unsafe { make(links::parse, toml, options, network) })
}

/// Frees a network.
#[unsafe(no_mangle)]
pub extern "C" fn slipring_network_free(network: Option<Box<NetworkHandle>>) {
    entry::value((), || {
        drop(network);
        Ok(())
    });
}

/// Returns the number of entries, exits or links.
#[unsafe(no_mangle)]
pub extern "C" fn slipring_network_count(network: Option<&NetworkHandle>, what: u32) -> c_int {
    entry::status(|| links::count(non_null(network, NETWORK)?, what))
}

/// Returns the name of an entry, exit or link.
#[unsafe(no_mangle)]
pub extern "C" fn slipring_network_name(
    network: Option<&NetworkHandle>,
    what: u32,
    number: u32,
) -> *const c_char {
    entry::value(null(), || Ok(links::name(non_null(network, NETWORK)?, what, number)?.as_ptr()))
}

/// Returns the number of the entry, exit or link with a name.
///
/// # Safety
/// The caller must follow the rules for pointers in `include/slipring.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slipring_network_find(
    network: Option<&NetworkHandle>,
    what: u32,
    name: *const c_char,
) -> c_int {
    entry::status(|| {
        // SAFETY: promised by the caller.
        let name = unsafe { pointers::text(name, "the name")? };
        links::find(non_null(network, NETWORK)?, what, name)
    })
}

/// Pushes a frame into the network.
///
/// # Safety
/// The caller must follow the rules for pointers in `include/slipring.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slipring_network_push(
    network: Option<&NetworkHandle>,
    entry: u32,
    arrival_ns: u64,
    frame: *const c_void,
    len: u32,
    tag: u64,
) -> c_int {
    entry::status(|| {
        let known = if frame.is_null() { 0 } else { len as usize };
        // SAFETY: promised by the caller.
        let bytes = unsafe { pointers::row(frame.cast::<u8>(), known, "the frame")? };
        links::push(non_null(network, NETWORK)?, entry, arrival_ns, (bytes, len), tag)
    })
}

/// Processes all due events.
#[unsafe(no_mangle)]
pub extern "C" fn slipring_network_run(network: Option<&NetworkHandle>, now_ns: u64) -> c_int {
    entry::status(|| links::run(non_null(network, NETWORK)?, now_ns))
}

/// Returns the time at which [`slipring_network_run`] must be called next.
#[unsafe(no_mangle)]
pub extern "C" fn slipring_network_next(network: Option<&NetworkHandle>) -> u64 {
    entry::value(SLIPRING_NEVER, || links::next(non_null(network, NETWORK)?))
}

/// Takes the next frame that leaves the network.
///
/// # Safety
/// The caller must follow the rules for pointers in `include/slipring.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slipring_network_take(
    network: Option<&NetworkHandle>,
    delivery: *mut SlipringDelivery,
) -> c_int {
    entry::status(|| {
        // SAFETY: promised by the caller.
        unsafe { pointers::check_sized(delivery, "the delivery")? };
        let Some(taken) = links::take(non_null(network, NETWORK)?)? else { return Ok(0) };
        // SAFETY: promised by the caller.
        unsafe { pointers::write_sized(delivery, &taken, "the delivery") }.map(|()| 1)
    })
}

/// Takes the next frame that was lost in the network.
///
/// # Safety
/// The caller must follow the rules for pointers in `include/slipring.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slipring_network_take_loss(
    network: Option<&NetworkHandle>,
    loss: *mut SlipringLoss,
) -> c_int {
    entry::status(|| {
        // SAFETY: promised by the caller.
        unsafe { pointers::check_sized(loss, "the loss")? };
        let Some(taken) = links::take_loss(non_null(network, NETWORK)?)? else { return Ok(0) };
        // SAFETY: promised by the caller.
        unsafe { pointers::write_sized(loss, &taken, "the loss") }.map(|()| 1)
    })
}

/// Returns the counters of a link.
///
/// # Safety
/// The caller must follow the rules for pointers in `include/slipring.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slipring_link_stats(
    network: Option<&NetworkHandle>,
    link: u32,
    stats: *mut SlipringLinkStats,
) -> c_int {
    entry::status(|| {
        let seen = links::link_stats(non_null(network, NETWORK)?, link)?;
        // SAFETY: promised by the caller.
        unsafe { pointers::write_sized(stats, &seen, "the stats") }.map(|()| 0)
    })
}

/// Returns the number of frames that a link lost for one cause.
#[unsafe(no_mangle)]
pub extern "C" fn slipring_link_dropped(
    network: Option<&NetworkHandle>,
    link: u32,
    cause: u32,
) -> u64 {
    entry::value(0, || links::link_dropped(non_null(network, NETWORK)?, link, cause))
}

/// Returns the name of a cause of losses; null if no cause has this number.
#[unsafe(no_mangle)]
pub extern "C" fn slipring_cause_name(cause: u32) -> *const c_char {
    entry::value(null(), || static_text(links::cause_name(cause)?))
}
