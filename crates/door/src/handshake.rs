//! The first exchange with the kernel: its first request asks what both can do.

use std::sync::Arc;

use slipring_netmap::Errno;

use crate::proto::{self, Message, init::Offer, opcode};
use crate::reply::{Connection, Reply};
use crate::uring::{Held, Uring, Way};
use crate::{DoorError, cannot, lanes};

/// Agrees on how requests come.
///
/// # Errors
/// The kernel lacks what we need or what was asked for.
pub(crate) fn agree(
    connection: &Arc<Connection>,
    wanted: Uring,
    held: &Held,
) -> Result<Way, DoorError> {
    let mut buffer = vec![0; proto::MAX_MESSAGE];
    let read = rustix::io::retry_on_intr(|| rustix::io::read(&**connection, &mut *buffer));
    let len = read.map_err(DoorError::step("talk to the kernel's FUSE"))?;
    let first = Message::new(&buffer[..len]).filter(|first| first.opcode() == opcode::INIT);
    let first = first.ok_or(DoorError::NoPassthrough)?;
    let reply = Reply::by_device(connection, first.unique());
    let offer = Offer(first.body());
    let way = way(connection, wanted, offer, held)?;
    let Some(answer) = offer.answer(matches!(way, Way::Uring { .. })) else {
        reply.refuse(Errno::PROTO);
        return Err(DoorError::NoPassthrough);
    };
    reply.done([&answer, &[]]);
    Ok(way)
}

fn way(
    device: &Connection,
    wanted: Uring,
    offer: Offer<'_>,
    held: &Held,
) -> Result<Way, DoorError> {
    if wanted == Uring::On && !offer.has_uring() {
        return Err(DoorError::NoUring);
    }
    if wanted == Uring::Off || !offer.has_uring() {
        return Ok(Way::Device { refused: None });
    }
    match lanes::are_possible(device) {
        Ok(()) => Ok(Way::Uring { switched: held.has_switched() }),
        Err(error) if wanted == Uring::On => Err(cannot("make an io_uring")(error)),
        Err(error) => Ok(Way::Device { refused: Errno::from_io_error(&error) }),
    }
}
