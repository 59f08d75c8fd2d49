//! The wrapper of the exported functions. It prevents panics from reaching C.

use std::any::Any;
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::error::{CallError, remember};
use crate::structs::SLIPRING_ERR_DEFECT;

/// Runs a call that returns a status. If it fails, returns the status of the error.
pub(crate) fn status(call: impl FnOnce() -> Result<c_int, CallError>) -> c_int {
    run(call).unwrap_or_else(|error| error.status)
}

/// Runs a call that returns another value than a status. If it fails, returns `otherwise`.
pub(crate) fn value<T>(otherwise: T, call: impl FnOnce() -> Result<T, CallError>) -> T {
    run(call).unwrap_or(otherwise)
}

fn run<T>(call: impl FnOnce() -> Result<T, CallError>) -> Result<T, CallError> {
    // This is unwind safe: state that a panic leaves inconsistent is in a mutex, which is poisoned
    // by the panic, or in rings that are marked as being synced (`netmap::rings`).
    let result = catch_unwind(AssertUnwindSafe(call));
    let result = result.unwrap_or_else(|panic| Err(defect(panic.as_ref())));
    result.inspect_err(|error| {
        // This can fail if the thread is ending and its last error was already destroyed.
        let _ = catch_unwind(AssertUnwindSafe(|| remember(error)));
    })
}

fn defect(panic: &(dyn Any + Send)) -> CallError {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let mut error = CallError::new(
        SLIPRING_ERR_DEFECT,
        format!("a defect of libslipring: {}", text.unwrap_or("it does not say which")),
    );
    error.help = "close what the call was made for, and report this".into();
    error
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;

    use super::*;
    use crate::exports::slipring_error_message;

    #[test]
    fn a_panic_ends_at_the_entry_and_becomes_the_last_error() {
        let failed = status(|| panic!("the bug number {}", 7));
        assert_eq!(failed, SLIPRING_ERR_DEFECT);
        // SAFETY: the text stays valid until the next error of this thread.
        let message = unsafe { CStr::from_ptr(slipring_error_message()) };
        assert_eq!(message.to_str().unwrap(), "a defect of libslipring: the bug number 7");
        assert_eq!(value(5u32, || panic!("once more")), 5);
    }
}
