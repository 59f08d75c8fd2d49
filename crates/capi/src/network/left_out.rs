//! Stands for `engine.rs` in a library that is built without links. All its functions fail; those
//! that take a network cannot be called.

use std::ffi::{CString, c_int};

use crate::error::CallError;
use crate::structs::{
    SLIPRING_ERR_LEFT_OUT, SlipringDelivery, SlipringLinkStats, SlipringLoss,
    SlipringNetworkOptions,
};

/// A type without values, because no network can be created.
pub enum NetworkHandle {}

fn left_out<T>() -> Result<T, CallError> {
    let mut error =
        CallError::new(SLIPRING_ERR_LEFT_OUT, "this libslipring was built without links");
    error.help = "build it with the feature `links`".into();
    Err(error)
}

pub(crate) fn load(_: &str, _: &SlipringNetworkOptions) -> Result<NetworkHandle, CallError> {
    left_out()
}

pub(crate) fn parse(_: &str, _: &SlipringNetworkOptions) -> Result<NetworkHandle, CallError> {
    left_out()
}

pub(crate) fn count(network: &NetworkHandle, _: u32) -> Result<c_int, CallError> {
    match *network {}
}

pub(crate) fn name(network: &NetworkHandle, _: u32, _: u32) -> Result<&CString, CallError> {
    match *network {}
}

pub(crate) fn find(network: &NetworkHandle, _: u32, _: &str) -> Result<c_int, CallError> {
    match *network {}
}

pub(crate) fn push(
    network: &NetworkHandle,
    _: u32,
    _: u64,
    _: (&[u8], u32),
    _: u64,
) -> Result<c_int, CallError> {
    match *network {}
}

pub(crate) fn run(network: &NetworkHandle, _: u64) -> Result<c_int, CallError> {
    match *network {}
}

pub(crate) fn next(network: &NetworkHandle) -> Result<u64, CallError> {
    match *network {}
}

pub(crate) fn take(network: &NetworkHandle) -> Result<Option<SlipringDelivery>, CallError> {
    match *network {}
}

pub(crate) fn take_loss(network: &NetworkHandle) -> Result<Option<SlipringLoss>, CallError> {
    match *network {}
}

pub(crate) fn link_stats(network: &NetworkHandle, _: u32) -> Result<SlipringLinkStats, CallError> {
    match *network {}
}

pub(crate) fn link_dropped(network: &NetworkHandle, _: u32, _: u32) -> Result<u64, CallError> {
    match *network {}
}

pub(crate) fn cause_name(_: u32) -> Result<&'static str, CallError> {
    left_out()
}
