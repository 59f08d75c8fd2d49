//! The functions of `include/slipring.h`, which documents them.
//!
//! Each function turns C's arguments into references, and calls a safe function inside
//! [`crate::entry`].

mod networks;
mod ports;
mod switches;

use std::ffi::c_char;

pub use networks::*;
pub use ports::*;
pub use switches::*;

use crate::entry;
use crate::error::{ErrorText, last};
use crate::structs::SLIPRING_API_VERSION;

/// Returns the interface version of this library.
#[unsafe(no_mangle)]
pub extern "C" fn slipring_version() -> u32 {
    entry::value(0, || Ok(SLIPRING_API_VERSION))
}

/// Returns the version of slipring.
#[unsafe(no_mangle)]
pub extern "C" fn slipring_version_string() -> *const c_char {
    const TEXT: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    entry::value(std::ptr::null(), || Ok(TEXT.as_ptr().cast()))
}

/// Returns the code of this thread's last error.
#[unsafe(no_mangle)]
pub extern "C" fn slipring_error_code() -> *const c_char {
    entry::value(c"".as_ptr(), || Ok(last(ErrorText::Code)))
}

/// Returns the message of the last error: what failed, and why.
#[unsafe(no_mangle)]
pub extern "C" fn slipring_error_message() -> *const c_char {
    entry::value(c"".as_ptr(), || Ok(last(ErrorText::Message)))
}

/// Returns the help of the last error: what to try next.
#[unsafe(no_mangle)]
pub extern "C" fn slipring_error_help() -> *const c_char {
    entry::value(c"".as_ptr(), || Ok(last(ErrorText::Help)))
}
