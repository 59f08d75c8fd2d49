//! Converts the C options to those of `slipring-port`.

use std::path::Path;

use slipring_port::{Interest, OpenOptions, XdpMode, native};

use crate::error::CallError;
use crate::structs::{
    SLIPRING_OPEN_EXIT_ON_LINK_DOWN, SLIPRING_OPEN_NO_PROMISC, SLIPRING_OPEN_RX_ONLY,
    SLIPRING_OPEN_SHARED, SLIPRING_OPEN_TAKE_OVER, SLIPRING_OPEN_TX_ONLY, SLIPRING_XDP_BEST,
    SLIPRING_XDP_GENERIC, SLIPRING_XDP_NATIVE, SLIPRING_XDP_ZEROCOPY, SlipringOptions,
};

const KNOWN_FLAGS: u32 = SLIPRING_OPEN_SHARED
    | SLIPRING_OPEN_TAKE_OVER
    | SLIPRING_OPEN_NO_PROMISC
    | SLIPRING_OPEN_EXIT_ON_LINK_DOWN
    | SLIPRING_OPEN_RX_ONLY
    | SLIPRING_OPEN_TX_ONLY;

/// Converts the options of the caller. `run_dir` is the text of the field with this name.
pub(crate) fn open_options(
    asked: &SlipringOptions,
    run_dir: Option<&str>,
) -> Result<OpenOptions, CallError> {
    if asked.flags & !KNOWN_FLAGS != 0 {
        return Err(CallError::argument(format!("flags {:#x} of the options", asked.flags)));
    }
    let has = |flag| asked.flags & flag != 0;
    let defaults = OpenOptions::default();
    Ok(OpenOptions {
        slots: if asked.slots == 0 { defaults.slots } else { asked.slots },
        buf_size: buf_size(asked.buf_size)?,
        direction: direction(has(SLIPRING_OPEN_RX_ONLY), has(SLIPRING_OPEN_TX_ONLY))?,
        xdp: xdp_mode(asked.xdp_mode)?,
        shared: has(SLIPRING_OPEN_SHARED),
        take_over: has(SLIPRING_OPEN_TAKE_OVER),
        promiscuous: !has(SLIPRING_OPEN_NO_PROMISC),
        exit_on_link_down: has(SLIPRING_OPEN_EXIT_ON_LINK_DOWN),
        busy_poll_us: asked.busy_poll_us,
        daemon: run_dir.map(|dir| native::socket_path(Path::new(dir))),
        ..defaults
    })
}

fn buf_size(bytes: u32) -> Result<Option<u32>, CallError> {
    match bytes {
        0 => Ok(None),
        _ if slipring_ring::is_buf_size(bytes) => Ok(Some(bytes)),
        _ => Err(CallError::argument(format!(
            "buffers have a multiple of 64 bytes from 2048 to 4096, not {bytes}"
        ))),
    }
}

fn direction(rx_only: bool, tx_only: bool) -> Result<Interest, CallError> {
    match (rx_only, tx_only) {
        (false, false) => Ok(Interest::BOTH),
        (true, false) => Ok(Interest::RX),
        (false, true) => Ok(Interest::TX),
        (true, true) => Err(CallError::argument("RX_ONLY and TX_ONLY exclude each other")),
    }
}

fn xdp_mode(mode: u32) -> Result<XdpMode, CallError> {
    match mode {
        SLIPRING_XDP_BEST => Ok(XdpMode::Best),
        SLIPRING_XDP_ZEROCOPY => Ok(XdpMode::ZeroCopy),
        SLIPRING_XDP_NATIVE => Ok(XdpMode::Native),
        SLIPRING_XDP_GENERIC => Ok(XdpMode::Generic),
        _ => Err(CallError::argument(format!("there is no xdp_mode {mode}"))),
    }
}
