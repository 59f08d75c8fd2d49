//! Formats numbers as ipfw does.

use alloc::format;
use alloc::string::{String, ToString};

/// Formats a rate like C's `%7.3f`, followed by a unit; formats 0 as `unlimited`. The result has 14
/// characters, or more if the rounded number is at least 1000.
pub(super) fn rate(bits_per_sec: u64) -> String {
    let (scale, unit) = match bits_per_sec {
        0 => return "unlimited     ".into(),
        1_000_000_000.. => (1e9, "Gbit/s"),
        1_000_000.. => (1e6, "Mbit/s"),
        1_000.. => (1e3, "Kbit/s"),
        _ => (1.0, "bit/s "),
    };
    format!("{:7.3} {unit}", bits_per_sec as f64 / scale)
}

/// Formats a time in ms. A fraction is shown with all its digits; dummynet itself has only whole
/// ms.
pub(super) fn milliseconds(ns: u64) -> String {
    (ns as f64 / 1e6).to_string()
}

/// Formats a number in at most nine digits, followed by a blank and K, M, G, … for powers of 1024.
pub(super) fn humanized(number: u64) -> String {
    const MAX_SHOWN: u64 = 1_000_000_000;
    let (mut value, mut rest, mut prefix) = (number, 0, 0);
    while value >= MAX_SHOWN {
        rest = value % 1024;
        value /= 1024;
        prefix += 1;
    }
    let prefixes = ["", "K", "M", "G", "T", "P", "E"];
    format!("{} {}", value + (rest + 512) / 1024, prefixes[prefix])
}

/// Formats a time in the largest unit in which it is at least 1, such as `15ms`. As in ipfw, the
/// unit of seconds is `fs`: `1.5fs`.
pub(super) fn time(ns: u64) -> String {
    let us = ns / 1000;
    match us {
        0 => "0".into(),
        1..1000 => format!("{us}us"),
        1000..1_000_000 => format!("{}ms", general(us as f64 / 1e3, 6)),
        _ => format!("{}fs", general(us as f64 / 1e6, 6)),
    }
}

/// Formats a number like C's `%g` with `digits` significant digits. Only for numbers that need no
/// exponent.
pub(super) fn general(value: f64, digits: usize) -> String {
    if value == 0.0 {
        return "0".into();
    }
    let exponent = libm::floor(libm::log10(libm::fabs(value))) as i32;
    let decimals = (digits as i32 - 1 - exponent).max(0) as usize;
    let text = format!("{value:.decimals$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').into(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_choose_their_unit() {
        assert_eq!(rate(0), "unlimited     ");
        assert_eq!(rate(240), "240.000 bit/s ");
        assert_eq!(rate(200_000), "200.000 Kbit/s");
        assert_eq!(rate(10_000_000), " 10.000 Mbit/s");
        assert_eq!(rate(400_000_000_000), "400.000 Gbit/s");
    }

    #[test]
    fn bursts_keep_nine_digits() {
        assert_eq!(humanized(0), "0 ");
        assert_eq!(humanized(10_240), "10240 ");
        assert_eq!(humanized(1 << 30), "1048576 K");
        assert_eq!(humanized((1 << 48) - 1), "268435456 M");
    }

    #[test]
    fn delays_below_a_millisecond_show_their_fraction() {
        assert_eq!(milliseconds(20_000_000), "20");
        assert_eq!(milliseconds(500_000), "0.5");
    }

    #[test]
    fn times_and_gains_print_as_percent_g() {
        assert_eq!(time(5_000_000), "5ms");
        assert_eq!(time(500_000), "500us");
        assert_eq!(time(1_500_000), "1.5ms");
        assert_eq!(general(0.125, 6), "0.125");
        assert_eq!(general(819.0 / 8192.0, 3), "0.1");
        assert_eq!(general(10.0, 6), "10");
    }
}
