//! Loss patterns in the format of Link'Em and FlowEmu.

use alloc::vec::Vec;

use super::FormatError;

/// Parses a pattern with one result per packet: `1` means that the packet passes (`false` in the
/// result), `0` that it is lost (`true`). All other characters are ignored.
///
/// # Errors
/// Returns an error if there is neither a `0` nor a `1`.
pub fn loss_bits(text: &str) -> Result<Vec<bool>, FormatError> {
    let bits: Vec<bool> =
        text.bytes().filter(|byte| matches!(byte, b'0' | b'1')).map(|byte| byte == b'0').collect();
    if bits.is_empty() {
        let allowed = "1 for a packet that passes, 0 for one that is lost";
        return Err(FormatError::new(1, 1, "the pattern is empty", allowed));
    }
    Ok(bits)
}
