//! Switches of this process.

use std::ffi::{c_char, c_int};
use std::ptr::null_mut;

use super::ports::open_options_at;
use crate::error::{CallError, static_text};
use crate::pointers::{self, OutPointer, non_null};
use crate::structs::{
    PortHandle, SlipringOptions, SlipringSwitchOptions, SlipringSwitchStats, SwitchHandle,
};
use crate::{entry, switch as switches};

/// What error messages call a switch argument that is null.
const SWITCH: &str = "the switch";

/// Creates a switch.
///
/// # Safety
/// The caller must follow the rules for pointers in `include/slipring.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slipring_switch_create(
    name: *const c_char,
    options: *const SlipringSwitchOptions,
    vale: OutPointer<'_, *mut SwitchHandle>,
) -> c_int {
    entry::status(|| {
        let vale = vale.ok_or_else(|| CallError::null("the place of the switch"))?;
        vale.write(null_mut());
        // SAFETY: promised by the caller.
        let name = unsafe { pointers::text(name, "the name of the switch")? };
        let mut asked = SlipringSwitchOptions::default();
        if !options.is_null() {
            // SAFETY: promised by the caller.
            asked = unsafe { pointers::read_sized(options, "the options")? };
        }
        vale.write(Box::into_raw(Box::new(switches::create(name, &asked)?)));
        Ok(0)
    })
}

/// Frees a switch.
#[unsafe(no_mangle)]
pub extern "C" fn slipring_switch_free(vale: Option<Box<SwitchHandle>>) {
    entry::value((), || {
        drop(vale);
        Ok(())
    });
}

/// Opens a port of a switch. Writes its handle to `port`, and returns the port's number.
///
/// # Safety
/// The caller must follow the rules for pointers in `include/slipring.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slipring_switch_open(
    vale: Option<&SwitchHandle>,
    name: *const c_char,
    options: *const SlipringOptions,
    port: OutPointer<'_, *mut PortHandle>,
) -> c_int {
    entry::status(|| {
        let port = port.ok_or_else(|| CallError::null("the place of the port"))?;
        port.write(null_mut());
        // SAFETY: promised by the caller.
        let name = unsafe { pointers::text(name, "the name of the port")? };
        // SAFETY: promised by the caller.
        let options = unsafe { open_options_at(options)? };
        let (opened, number) = switches::open(non_null(vale, SWITCH)?, name, &options)?;
        port.write(Box::into_raw(Box::new(opened)));
        Ok(number as c_int)
    })
}

/// Forwards the frames that all ports have sent. Returns their number.
#[unsafe(no_mangle)]
pub extern "C" fn slipring_switch_forward(vale: Option<&SwitchHandle>, now_ns: u64) -> c_int {
    entry::status(|| switches::forward(non_null(vale, SWITCH)?, now_ns))
}

/// Takes the events that [`slipring_switch_forward`] has recorded for one port. Returns 1, or 0 if
/// no port has any.
#[unsafe(no_mangle)]
pub extern "C" fn slipring_switch_take_ready(
    vale: Option<&SwitchHandle>,
    port: OutPointer<'_, u32>,
    events: OutPointer<'_, u32>,
) -> c_int {
    entry::status(|| {
        let (port, events) = (
            port.ok_or_else(|| CallError::null("the place of the number"))?,
            events.ok_or_else(|| CallError::null("the place of the events"))?,
        );
        let Some((number, ready)) = switches::take_ready(non_null(vale, SWITCH)?)? else {
            return Ok(0);
        };
        port.write(number);
        events.write(ready);
        Ok(1)
    })
}

/// Returns the counters of a port, or of the whole switch.
///
/// # Safety
/// The caller must follow the rules for pointers in `include/slipring.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slipring_switch_stats(
    vale: Option<&SwitchHandle>,
    port: u32,
    stats: *mut SlipringSwitchStats,
) -> c_int {
    entry::status(|| {
        let seen = switches::stats(non_null(vale, SWITCH)?, port)?;
        // SAFETY: promised by the caller.
        unsafe { pointers::write_sized(stats, &seen, "the stats") }.map(|()| 0)
    })
}

/// Returns the number of frames dropped for a reason.
#[unsafe(no_mangle)]
pub extern "C" fn slipring_switch_dropped(
    vale: Option<&SwitchHandle>,
    port: u32,
    reason: u32,
) -> u64 {
    entry::value(0, || switches::dropped(non_null(vale, SWITCH)?, port, reason))
}

/// Returns the name of a drop reason.
#[unsafe(no_mangle)]
pub extern "C" fn slipring_switch_drop_name(reason: u32) -> *const c_char {
    entry::value(std::ptr::null(), || static_text(switches::drop_name(reason)?))
}
