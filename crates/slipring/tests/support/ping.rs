//! Pings one echo at a time. If ping sends several echoes and has got an answer, it ignores -W: it
//! waits for the last answer only about two round-trip times.

use std::ops::Range;

use slipring_test_support::{Namespace, eventually};

/// Sends one echo with additional arguments of `ping`. Returns its round trip in milliseconds.
///
/// # Panics
/// If the echo is not answered.
pub(crate) fn echo(from: &Namespace, to: &str, words: &str) -> f64 {
    let said = from.command("ping", &format!("-n -c 1 -W 60 {words} {to}"));
    let time = said.split("time=").nth(1).and_then(|rest| rest.split(' ').next()?.parse().ok());
    time.unwrap_or_else(|| panic!("no time in {said}"))
}

/// Returns the shortest of `count` round trips in milliseconds.
pub(crate) fn shortest(from: &Namespace, to: &str, count: u32) -> f64 {
    (0..count).map(|_| echo(from, to, "")).fold(f64::INFINITY, f64::min)
}

/// Sends echoes until a round trip is in `range`, in milliseconds. On a busy machine any round trip
/// may be late, but none may be early.
pub(crate) fn takes(from: &Namespace, to: &str, range: &Range<f64>) {
    eventually("an echo that is not late", || {
        let ms = echo(from, to, "");
        assert!(ms >= range.start, "{ms} ms, not {range:?}");
        range.contains(&ms).then_some(())
    });
}
