//! The timestamp of a line, in tcpdump's six forms.

use std::fmt::Write;

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// Nanoseconds in a second.
const NANOS_PER_SEC: u64 = 1_000_000_000;

/// The form of timestamps, selected by how often `-t` is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum TimestampForm {
    /// The time of day: `12:34:56.123456`.
    #[default]
    Clock,
    /// Lines have no timestamp.
    None,
    /// Seconds since 1970: `1700000000.123456`.
    Unix,
    /// The time since the previous line: ` 00:00:00.000123`.
    SincePrevious,
    /// Date and time: `2023-11-14 22:13:20.123456`.
    Date,
    /// The time since the first line: ` 00:00:00.000123`.
    SinceFirst,
}

impl TimestampForm {
    /// Returns the form for `count` times `-t`.
    pub(crate) fn of(count: u8) -> Self {
        match count {
            0 => Self::Clock,
            1 => Self::None,
            2 => Self::Unix,
            3 => Self::SincePrevious,
            4 => Self::Date,
            _ => Self::SinceFirst,
        }
    }
}

/// Prints timestamps. For relative timestamps, remembers the time to which they are relative.
#[derive(Debug)]
pub(crate) struct TimestampPrinter {
    form: TimestampForm,
    /// Whether to print nine digits after the decimal point instead of six.
    nanos: bool,
    zone: TimeZone,
    reference: Option<u64>,
}

impl TimestampPrinter {
    /// Creates a printer that prints times in the system's time zone.
    pub(crate) fn new(form: TimestampForm, nanos: bool) -> Self {
        Self::in_zone(form, nanos, TimeZone::system())
    }

    fn in_zone(form: TimestampForm, nanos: bool, zone: TimeZone) -> Self {
        Self { form, nanos, zone, reference: None }
    }

    /// Appends a timestamp, given in nanoseconds since 1970, and a space.
    pub(crate) fn write(&mut self, out: &mut String, ts_ns: u64) {
        match self.form {
            TimestampForm::None => return,
            TimestampForm::Unix => {
                let _ = write!(out, "{}", ts_ns / NANOS_PER_SEC);
            }
            TimestampForm::Clock | TimestampForm::Date => self.local(out, ts_ns / NANOS_PER_SEC),
            TimestampForm::SincePrevious => return self.delta(out, ts_ns, true),
            TimestampForm::SinceFirst => return self.delta(out, ts_ns, false),
        }
        self.fraction(out, ts_ns);
    }

    fn fraction(&self, out: &mut String, ts_ns: u64) {
        let ns = ts_ns % NANOS_PER_SEC;
        let _ = match self.nanos {
            true => write!(out, ".{ns:09} "),
            false => write!(out, ".{:06} ", ns / 1000),
        };
    }

    fn local(&self, out: &mut String, seconds: u64) {
        let time = Timestamp::from_second(seconds.cast_signed()).unwrap_or_default();
        let local = self.zone.to_datetime(time);
        if self.form == TimestampForm::Date {
            let _ = write!(out, "{} ", local.date());
        }
        let _ = write!(out, "{:02}:{:02}:{:02}", local.hour(), local.minute(), local.second());
    }

    /// Appends the time since the reference. It may be negative, because frames of several sources
    /// need not be in order of time.
    fn delta(&mut self, out: &mut String, ts_ns: u64, previous: bool) {
        let reference = *self.reference.get_or_insert(ts_ns);
        let sign = if ts_ns < reference { '-' } else { ' ' };
        let apart = ts_ns.abs_diff(reference);
        let seconds = apart / NANOS_PER_SEC;
        let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
        let _ = write!(out, "{sign}{hours:02}:{minutes:02}:{:02}", seconds % 60);
        self.fraction(out, apart);
        if previous {
            self.reference = Some(ts_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIME: u64 = 1_700_000_000_123_456_789;

    fn stamps(form: TimestampForm, nanos: bool, hours: i8) -> TimestampPrinter {
        let zone = TimeZone::fixed(jiff::tz::offset(hours));
        TimestampPrinter::in_zone(form, nanos, zone)
    }

    fn text(stamps: &mut TimestampPrinter, ts_ns: u64) -> String {
        let mut out = String::new();
        stamps.write(&mut out, ts_ns);
        out
    }

    #[test]
    fn each_form_is_tcpdumps() {
        let of = |count| text(&mut stamps(TimestampForm::of(count), false, 0), TIME);
        assert_eq!(of(0), "22:13:20.123456 ");
        assert_eq!(of(1), "");
        assert_eq!(of(2), "1700000000.123456 ");
        assert_eq!(of(3), " 00:00:00.000000 ");
        assert_eq!(of(4), "2023-11-14 22:13:20.123456 ");
        assert_eq!(text(&mut stamps(TimestampForm::Clock, true, 2), TIME), "00:13:20.123456789 ");
        assert_eq!(
            text(&mut stamps(TimestampForm::Date, true, 2), TIME),
            "2023-11-15 00:13:20.123456789 "
        );
    }

    #[test]
    fn distances_count_from_the_line_before_or_from_the_first() {
        let times = [TIME, TIME + 1_500_000_000, TIME + 3_723_000_000_000];
        let of = |count| {
            let mut stamps = stamps(TimestampForm::of(count), false, 0);
            times.map(|time| text(&mut stamps, time))
        };
        assert_eq!(of(3), [" 00:00:00.000000 ", " 00:00:01.500000 ", " 01:02:01.500000 "]);
        assert_eq!(of(5), [" 00:00:00.000000 ", " 00:00:01.500000 ", " 01:02:03.000000 "]);
        let mut back = stamps(TimestampForm::SincePrevious, false, 0);
        text(&mut back, TIME);
        assert_eq!(text(&mut back, TIME - 1000), "-00:00:00.000001 ");
    }
}
