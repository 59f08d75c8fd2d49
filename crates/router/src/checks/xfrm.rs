//! Checks for IPsec policies. XDP forwards packets before the kernel looks for a policy, so
//! policies would have no effect.

use std::io;

use super::obstacle::{Obstacle, ObstacleKind};
use crate::dump::dump;

/// The netlink family `NETLINK_XFRM`.
const FAMILY: isize = 6;
/// `XFRM_MSG_GETPOLICY` of linux/xfrm.h.
const GET_POLICIES: u16 = 0x15;
/// `struct xfrm_userpolicy_id`.
const POLICY_ID_LEN: usize = 64;

/// Finds out whether there are IPsec policies.
///
/// # Errors
/// The kernel's error.
pub(super) fn find() -> io::Result<Vec<Obstacle>> {
    let policies = match dump(FAMILY, GET_POLICIES, &[0; POLICY_ID_LEN]) {
        Ok(policies) => policies.len(),
        Err(error) if is_absent(&error) => 0,
        Err(error) => return Err(error),
    };
    let obstacle = (policies > 0).then(|| Obstacle {
        kind: ObstacleKind::Bypass,
        interface: None,
        what: format!("{policies} IPsec policies may apply to forwarded packets"),
        show: "ip xfrm policy".into(),
    });
    Ok(obstacle.into_iter().collect())
}

/// Whether the error means that the kernel has no IPsec, and therefore does not have the netlink
/// family.
fn is_absent(error: &io::Error) -> bool {
    use rustix::io::Errno;
    [Errno::PROTONOSUPPORT, Errno::OPNOTSUPP]
        .iter()
        .any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}
