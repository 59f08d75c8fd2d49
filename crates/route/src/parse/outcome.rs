//! The result of parsing a frame with all checks.

use crate::cause::RouteDropCause;
use crate::packet::RoutedPacket;
use crate::punt::{PuntClass, PuntReason};

/// Why a frame is not forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ParseRefusal {
    Drop(RouteDropCause),
    Kernel(PuntClass, PuntReason),
}

/// A packet that may be forwarded, and its destination.
pub(super) type Accepted = (RoutedPacket, u128);
