//! Measured figures for people: at most four significant digits and a fitting prefix.
//!
//! These functions round, so their output must not be parsed again. Output for programs has plain
//! integers instead.

use std::time::Duration;

const SI_PREFIXES: [&str; 5] = ["", "k", "M", "G", "T"];

/// Formats a rate in packets per second, such as `14.88 Mpps`.
#[must_use]
pub fn packets_per_sec(rate: f64) -> String {
    scaled(rate, 1000.0, &SI_PREFIXES, "pps")
}

/// Formats a rate in bits per second, such as `9.416 Gbit/s`.
#[must_use]
pub fn bits_per_sec(rate: f64) -> String {
    scaled(rate, 1000.0, &SI_PREFIXES, "bit/s")
}

/// Formats a count of packets or other objects, such as `12.35 M`.
#[must_use]
pub fn count(number: u64) -> String {
    if number < 10_000 {
        return number.to_string();
    }
    scaled(number as f64, 1000.0, &SI_PREFIXES, "").trim_end().to_owned()
}

/// Formats a number of bytes, such as `16 MiB` or `1.5 KiB`.
#[must_use]
pub fn bytes(number: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    scaled(number as f64, 1024.0, &units, "")
}

/// Formats a span of time with at most four digits, such as `37.2 us` or `1.5 s`.
#[must_use]
pub fn span(time: Duration) -> String {
    if time < Duration::from_micros(1) {
        return format!("{} ns", time.as_nanos());
    }
    scaled(time.as_secs_f64() * 1e6, 1000.0, &["us", "ms", "s"], "")
}

/// Formats a part of a whole, such as `0.012 %`; `0 %` only if the part is 0.
#[must_use]
pub fn share(part: u64, whole: u64) -> String {
    let percent = match whole {
        0 => 0.0,
        _ => part as f64 / whole as f64 * 100.0,
    };
    if part != 0 && percent < 0.0001 {
        return "<0.0001 %".to_owned();
    }
    format!("{} %", trimmed(format!("{percent:.4}")))
}

/// Divides by `base` until the printed value is below `base`, and adds the matching unit.
fn scaled(value: f64, base: f64, prefixes: &[&str], unit: &str) -> String {
    let mut value = value;
    let mut power = 0;
    // 999.95 would print as 1000.0, so the threshold is the rounded value.
    while value >= base * 0.999_95 && power + 1 < prefixes.len() {
        value /= base;
        power += 1;
    }
    format!("{} {}{unit}", four_digits(value), prefixes[power])
}

fn four_digits(value: f64) -> String {
    let decimals = match value {
        v if v >= 999.95 => 0,
        v if v >= 99.995 => 1,
        v if v >= 9.9995 => 2,
        _ => 3,
    };
    trimmed(format!("{value:.decimals$}"))
}

fn trimmed(text: String) -> String {
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_have_at_most_four_digits_and_the_fitting_prefix() {
        for (rate, text) in [
            (0.0, "0 pps"),
            (12.0, "12 pps"),
            (999.96, "1 kpps"),
            (14_880_952.4, "14.88 Mpps"),
            (999_949.0, "999.9 kpps"),
            (123_456.0, "123.5 kpps"),
            (2.5e15, "2500 Tpps"),
        ] {
            assert_eq!(packets_per_sec(rate), text);
        }
        assert_eq!(bits_per_sec(9.4159e9), "9.416 Gbit/s");
    }

    #[test]
    fn spans_run_from_ns_to_s() {
        for (nanos, text) in [
            (0, "0 ns"),
            (999, "999 ns"),
            (1_000, "1 us"),
            (37_250, "37.25 us"),
            (1_500_000, "1.5 ms"),
            (999_999_999, "1 s"),
            (3_600_000_000_000, "3600 s"),
        ] {
            assert_eq!(span(Duration::from_nanos(nanos)), text);
        }
    }

    #[test]
    fn small_counts_and_whole_sizes_are_exact() {
        assert_eq!(count(9_999), "9999");
        assert_eq!(count(12_345_678), "12.35 M");
        assert_eq!(bytes(16 << 20), "16 MiB");
        assert_eq!(bytes(1_536), "1.5 KiB");
        assert_eq!(bytes(1_000), "1000 B");
    }

    #[test]
    fn a_loss_is_never_shown_as_zero() {
        assert_eq!(share(0, 0), "0 %");
        assert_eq!(share(0, 10), "0 %");
        assert_eq!(share(1, 1_000_000_000), "<0.0001 %");
        assert_eq!(share(12, 100_000), "0.012 %");
        assert_eq!(share(7, 7), "100 %");
    }
}
