//! Access to pointers from C, checked as far as possible.

use std::ffi::{CStr, c_char, c_void};
use std::mem::MaybeUninit;

use crate::error::CallError;
use crate::structs::{
    SlipringDelivery, SlipringLinkStats, SlipringLoss, SlipringNetworkOptions, SlipringOptions,
    SlipringPortInfo, SlipringStats, SlipringSwitchOptions, SlipringSwitchStats,
};

/// Memory of the caller for a result; `None` if the caller has passed null.
pub(crate) type OutPointer<'a, T> = Option<&'a mut MaybeUninit<T>>;

/// Writes a result to memory of the caller. Fails if the caller has passed null. `what` names the
/// result in the error.
pub(crate) fn put<T>(to: OutPointer<'_, T>, value: T, what: &str) -> Result<(), CallError> {
    to.ok_or_else(|| CallError::null(what))?.write(value);
    Ok(())
}

/// Returns the object of a handle. Fails if the handle is null. `what` names the handle in the
/// error.
pub(crate) fn non_null<'a, T>(handle: Option<&'a T>, what: &str) -> Result<&'a T, CallError> {
    handle.ok_or_else(|| CallError::null(what))
}

/// Reads a text that ends with a zero byte.
///
/// # Safety
/// `text` must be null, or point to bytes that end with a zero and do not change during `'a`.
pub(crate) unsafe fn text<'a>(text: *const c_char, what: &str) -> Result<&'a str, CallError> {
    if text.is_null() {
        return Err(CallError::null(what));
    }
    // SAFETY: `text` is not null; the caller promises the other conditions.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map_err(|_| CallError::argument(format!("{what} is not UTF-8")))
}

/// Returns a slice of `count` consecutive values.
///
/// # Safety
/// `first` must be null, or point to `count` initialised values that do not change during `'a`.
pub(crate) unsafe fn row<'a, T>(
    first: *const T,
    count: usize,
    what: &str,
) -> Result<&'a [T], CallError> {
    if count == 0 {
        return Ok(&[]);
    }
    if first.is_null() || count > isize::MAX as usize / size_of::<T>().max(1) {
        return Err(CallError::null(what));
    }
    // SAFETY: `first` is not null, and the slice is not longer than memory can be; the caller
    // promises the other conditions.
    Ok(unsafe { std::slice::from_raw_parts(first, count) })
}

/// Like [`row`], but the values can be written.
///
/// # Safety
/// `first` must be null, or point to `count` values that are not used in other ways during `'a`.
pub(crate) unsafe fn row_mut<'a, T>(
    first: *mut T,
    count: usize,
    what: &str,
) -> Result<&'a mut [MaybeUninit<T>], CallError> {
    if count == 0 {
        return Ok(&mut []);
    }
    if first.is_null() || count > isize::MAX as usize / size_of::<T>().max(1) {
        return Err(CallError::null(what));
    }
    // SAFETY: `first` is not null, and the slice is not longer than memory can be; the caller
    // promises the other conditions.
    Ok(unsafe { std::slice::from_raw_parts_mut(first.cast(), count) })
}

/// Like [`row_mut`], but for bytes.
///
/// # Safety
/// The rules of [`row_mut`] apply.
pub(crate) unsafe fn bytes_mut<'a>(
    first: *mut c_void,
    count: usize,
    what: &str,
) -> Result<&'a mut [MaybeUninit<u8>], CallError> {
    // SAFETY: promised by the caller.
    unsafe { row_mut(first.cast(), count, what) }
}

/// A structure whose first field, a `u32`, is its size in the caller's version.
///
/// # Safety
/// The type must be `repr(C)` and begin with this field. All-zero bytes, and all bytes that a
/// caller may write, must be valid values.
pub(crate) unsafe trait Sized32: Copy {}

// SAFETY: integers and pointers after `size`.
unsafe impl Sized32 for SlipringOptions {}
// SAFETY: integers after `size`.
unsafe impl Sized32 for SlipringPortInfo {}
// SAFETY: integers after `size`.
unsafe impl Sized32 for SlipringStats {}
// SAFETY: integers after `size`.
unsafe impl Sized32 for SlipringSwitchOptions {}
// SAFETY: integers after `size`.
unsafe impl Sized32 for SlipringSwitchStats {}
// SAFETY: integers after `size`.
unsafe impl Sized32 for SlipringNetworkOptions {}
// SAFETY: integers and pointers after `size`.
unsafe impl Sized32 for SlipringDelivery {}
// SAFETY: integers after `size`.
unsafe impl Sized32 for SlipringLoss {}
// SAFETY: integers after `size`.
unsafe impl Sized32 for SlipringLinkStats {}

/// Maximum size that a caller may give for a [`Sized32`] structure. Later versions of the library
/// must not make such a structure larger than this, because this version would refuse it.
const MAX_STRUCT: u32 = 4096;

/// Reads the size from the structure at `at`.
///
/// # Safety
/// `at` must be null, or point to at least the first field.
unsafe fn size_at<T: Sized32>(at: *const T, what: &str) -> Result<usize, CallError> {
    if at.is_null() {
        return Err(CallError::null(what));
    }
    // SAFETY: `at` is not null; the caller promises that the first field, which is the size
    // (`Sized32`), can be read.
    let size = unsafe { at.cast::<u32>().read_unaligned() };
    if !(size_of::<u32>() as u32..=MAX_STRUCT).contains(&size) {
        let why = format!("the size of {what} is {size}: set it to sizeof before the call");
        return Err(CallError::argument(why));
    }
    Ok(size as usize)
}

/// Checks that [`write_sized`] will succeed.
///
/// # Safety
/// The rules of [`write_sized`] apply.
pub(crate) unsafe fn check_sized<T: Sized32>(at: *const T, what: &str) -> Result<(), CallError> {
    // SAFETY: promised by the caller.
    unsafe { size_at(at, what) }.map(|_| ())
}

/// Copies a structure from the caller. Fields that the caller's version does not have become zero.
///
/// # Safety
/// `from` must be null, or point to a structure with the size that is in its first field.
pub(crate) unsafe fn read_sized<T: Sized32>(from: *const T, what: &str) -> Result<T, CallError> {
    // SAFETY: promised by the caller.
    let size = unsafe { size_at(from, what)? };
    let mut value = MaybeUninit::<T>::zeroed();
    let known = size.min(size_of::<T>());
    // SAFETY: both structures have at least `known` bytes, and `value` is a local variable.
    unsafe { std::ptr::copy_nonoverlapping(from.cast::<u8>(), value.as_mut_ptr().cast(), known) };
    let behind = from.cast::<u8>().wrapping_add(known);
    // SAFETY: the caller promises that the structure is `size` bytes long.
    let rest = unsafe { row(behind, size - known, what)? };
    if rest.iter().any(|byte| *byte != 0) {
        let why = format!("{what} says something that this version of libslipring does not know");
        return Err(CallError::argument(why));
    }
    // SAFETY: `value` was zeroed and then overwritten with the caller's bytes; any bytes are valid
    // (`Sized32`).
    Ok(unsafe { value.assume_init() })
}

/// Copies `value` to a structure of the caller, except the size field. Copies no more bytes than
/// the caller's structure has; fills its bytes that this library does not know with zeros.
///
/// # Safety
/// `to` must be null, or point to a structure with the size that is in its first field. The
/// structure must not be used in other ways during the call.
pub(crate) unsafe fn write_sized<T: Sized32>(
    to: *mut T,
    value: &T,
    what: &str,
) -> Result<(), CallError> {
    // SAFETY: promised by the caller.
    let size = unsafe { size_at(to, what)? };
    let first = size_of::<u32>();
    let known = size.min(size_of::<T>()) - first;
    let from = std::ptr::from_ref(value).cast::<u8>().wrapping_add(first);
    let target = to.cast::<u8>().wrapping_add(first);
    // SAFETY: both structures have at least `first + known` bytes, and `value` is not in the
    // caller's memory.
    unsafe { std::ptr::copy_nonoverlapping(from, target, known) };
    let rest = to.cast::<u8>().wrapping_add(first + known);
    // SAFETY: the caller promises that the structure is `size` bytes long.
    unsafe { std::ptr::write_bytes(rest, 0, size - first - known) };
    Ok(())
}
