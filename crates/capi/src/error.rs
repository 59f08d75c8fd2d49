//! Errors of calls, and the last error of each thread.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::{CString, c_char, c_int};
use std::sync::{Mutex, PoisonError};

use slipring_port::{ErrorClass, OpenError, RunError};

use crate::structs::{
    SLIPRING_ERR_ARGUMENT, SLIPRING_ERR_MACHINE, SLIPRING_ERR_PEER, SLIPRING_ERR_USAGE,
};

/// Why a call failed. It becomes the status of the call and the last error of the thread.
#[derive(Debug)]
pub(crate) struct CallError {
    pub(crate) status: c_int,
    pub(crate) code: String,
    pub(crate) message: String,
    pub(crate) help: String,
}

impl CallError {
    pub(crate) fn new(status: c_int, message: impl Into<String>) -> Self {
        Self { status, code: String::new(), message: message.into(), help: String::new() }
    }

    /// Returns the error for an invalid argument.
    pub(crate) fn argument(message: impl Into<String>) -> Self {
        Self::new(SLIPRING_ERR_ARGUMENT, message)
    }

    /// Returns the error for a pointer that is null but must not be.
    pub(crate) fn null(what: &str) -> Self {
        Self::argument(format!("{what} is a null pointer"))
    }
}

fn status_of(class: ErrorClass) -> c_int {
    match class {
        ErrorClass::Usage => SLIPRING_ERR_USAGE,
        ErrorClass::Machine => SLIPRING_ERR_MACHINE,
        ErrorClass::Peer => SLIPRING_ERR_PEER,
    }
}

impl From<OpenError> for CallError {
    fn from(error: OpenError) -> Self {
        Self {
            status: status_of(error.class()),
            code: error.code().to_owned(),
            message: error.to_string(),
            help: error.help().unwrap_or_default(),
        }
    }
}

impl From<RunError> for CallError {
    fn from(error: RunError) -> Self {
        Self {
            status: status_of(error.class()),
            code: error.code().to_owned(),
            message: error.to_string(),
            help: error.help().unwrap_or_default(),
        }
    }
}

/// The last error of a thread, as the texts that C reads.
#[derive(Default)]
struct LastError {
    code: CString,
    message: CString,
    help: CString,
}

thread_local! {
    static LAST: RefCell<LastError> = RefCell::default();
}

/// Stores `error` as the last error of this thread.
pub(crate) fn remember(error: &CallError) {
    LAST.with_borrow_mut(|last| {
        *last = LastError {
            code: c_text(&error.code),
            message: c_text(&error.message),
            help: c_text(&error.help),
        };
    });
}

/// Returns the text up to its first zero byte, for C.
pub(crate) fn c_text(text: &str) -> CString {
    let end = text.find('\0').unwrap_or(text.len());
    CString::new(&text[..end]).unwrap_or_default()
}

/// One of the texts of the last error.
#[derive(Clone, Copy)]
pub(crate) enum ErrorText {
    Code,
    Message,
    Help,
}

/// Returns a text of this thread's last error. It stays valid until the thread's next error.
pub(crate) fn last(part: ErrorText) -> *const c_char {
    LAST.with_borrow(|last| match part {
        ErrorText::Code => last.code.as_ptr(),
        ErrorText::Message => last.message.as_ptr(),
        ErrorText::Help => last.help.as_ptr(),
    })
}

/// Returns a static text for C. Each text is converted only once.
pub(crate) fn static_text(text: &'static str) -> Result<*const c_char, CallError> {
    static TEXTS: Mutex<BTreeMap<&str, CString>> = Mutex::new(BTreeMap::new());
    let mut texts = TEXTS.lock().unwrap_or_else(PoisonError::into_inner);
    // Moving a `CString` within the map does not move its bytes, so the pointer stays valid.
    Ok(texts.entry(text).or_insert_with(|| c_text(text)).as_ptr())
}
