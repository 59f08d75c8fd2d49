//! The INIT exchange, in which the kernel and the server agree on features.

use std::sync::Arc;

use slipring_netmap::Errno;

use crate::error::{FuseError, step_error};
use crate::proto::{self, FuseRequest, init::FuseInitOffer, opcode};
use crate::reply::{FuseConnection, FuseReply};
use crate::uring::{RequestTransport, UringMode, UringParameterGuard};
use crate::uring_workers;

/// Answers INIT. Returns whether requests arrive through the device or by io_uring.
///
/// # Errors
/// [`FuseError`] if the kernel lacks a feature that the server or `wanted` requires.
pub(crate) fn negotiate(
    connection: &Arc<FuseConnection>,
    wanted: UringMode,
    guard: &UringParameterGuard,
) -> Result<RequestTransport, FuseError> {
    let mut buffer = vec![0; proto::MAX_MESSAGE];
    let read = rustix::io::retry_on_intr(|| rustix::io::read(&**connection, &mut *buffer));
    let len = read.map_err(FuseError::step("talk to the kernel's FUSE"))?;
    let first = FuseRequest::new(&buffer[..len]).filter(|first| first.opcode() == opcode::INIT);
    let first = first.ok_or(FuseError::NoPassthrough)?;
    let reply = FuseReply::to_device(connection, first.unique());
    let offer = FuseInitOffer(first.body());
    let transport = choose_transport(connection, wanted, offer, guard)?;
    let Some(answer) = offer.answer(matches!(transport, RequestTransport::Uring { .. })) else {
        reply.refuse(Errno::PROTO);
        return Err(FuseError::NoPassthrough);
    };
    reply.done([&answer, &[]]);
    Ok(transport)
}

fn choose_transport(
    device: &FuseConnection,
    wanted: UringMode,
    offer: FuseInitOffer<'_>,
    guard: &UringParameterGuard,
) -> Result<RequestTransport, FuseError> {
    if wanted == UringMode::On && !offer.has_uring() {
        return Err(FuseError::NoUring);
    }
    if wanted == UringMode::Off || !offer.has_uring() {
        return Ok(RequestTransport::Device { refused: None });
    }
    match uring_workers::is_supported(device) {
        Ok(()) => Ok(RequestTransport::Uring { switched: guard.has_switched() }),
        Err(error) if wanted == UringMode::On => Err(step_error("make an io_uring")(error)),
        Err(error) => Ok(RequestTransport::Device { refused: Errno::from_io_error(&error) }),
    }
}
