//! The end of a dump, and the result of a request.

use crate::HeaderFlags;
use crate::attributes::{Attributes, Malformed, aligned, read_u32};
use crate::message::HEADER_LEN;

/// `NLMSGERR_ATTR_MSG` of `linux/netlink.h`.
const NLMSGERR_ATTR_MSG: u16 = 1;
const NLMSG_ERROR: u16 = 2;

/// The end of a dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DoneMessage<'a> {
    /// 0, or the number of the error (`errno`, positive) that ended the dump early.
    pub errno: u32,
    /// The kernel's explanation of the error, or empty.
    pub text: &'a str,
}

impl<'a> DoneMessage<'a> {
    pub(crate) fn parse(flags: HeaderFlags, payload: &'a [u8]) -> Result<Self, Malformed> {
        // Old kernels send no value. Then the result is 0.
        let result = read_u32(payload, 0).unwrap_or_default() as i32;
        Ok(Self {
            errno: positive(result),
            text: text(flags, payload.get(4..).unwrap_or_default())?,
        })
    }
}

/// The result of a request: the kernel's answer to `NLM_F_ACK`, or an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorMessage<'a> {
    /// 0 for success, or the number of the error (`errno`, positive).
    pub errno: u32,
    /// The sequence number of the request.
    pub request: u32,
    /// The kernel's explanation of the error, or empty; only with `NETLINK_EXT_ACK` set.
    pub text: &'a str,
}

impl<'a> ErrorMessage<'a> {
    pub(crate) fn parse(flags: HeaderFlags, payload: &'a [u8]) -> Result<Self, Malformed> {
        let truncated = Malformed::Truncated { kind: NLMSG_ERROR };
        let result = read_u32(payload, 0).ok_or(truncated)? as i32;
        let quoted = payload.get(4..4 + HEADER_LEN).ok_or(truncated)?;
        let is_capped = flags.has(HeaderFlags::CAPPED);
        let claimed = read_u32(quoted, 0).unwrap_or_default() as usize;
        let len = if is_capped { HEADER_LEN } else { claimed.max(HEADER_LEN) };
        let attributes = payload.get(4_usize.saturating_add(aligned(len))..).unwrap_or_default();
        let request = read_u32(quoted, 8).unwrap_or_default();
        Ok(Self { errno: positive(result), request, text: text(flags, attributes)? })
    }
}

/// Returns the positive error number, given the negative one that the kernel sends.
const fn positive(result: i32) -> u32 {
    result.unsigned_abs()
}

fn text(flags: HeaderFlags, attributes: &[u8]) -> Result<&str, Malformed> {
    if !flags.has(HeaderFlags::ACK_ATTRIBUTES) {
        return Ok("");
    }
    for attribute in Attributes(attributes) {
        let attribute = attribute?;
        if attribute.kind == NLMSGERR_ATTR_MSG {
            return Ok(attribute.text());
        }
    }
    Ok("")
}
