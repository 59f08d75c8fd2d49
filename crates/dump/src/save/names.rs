//! When the next file of a capture begins, and its name: tcpdump's `-C`, `-G` and `-W`.

use std::time::Duration;

use jiff::Timestamp;
use jiff::fmt::strtime;
use jiff::tz::TimeZone;
use slipring_cli::codes::SR0002;
use slipring_cli::{Diagnostic, Failure};

/// When the next file begins.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileRotation {
    /// A new file is begun after this many bytes; `None` for no limit.
    pub size: Option<u64>,
    /// A new file is begun when the timestamps of frames have advanced by this much. The file name
    /// is then a pattern for strftime(3). `None` for no limit.
    pub period: Option<Duration>,
    /// Maximum number of files; `None` for no limit. If a size is set, the names repeat after this
    /// number of files, so the oldest file is overwritten (if a period is also set, the oldest file
    /// of that period). If only a period is set, the capture ends after this number of files.
    pub files: Option<u64>,
}

impl FileRotation {
    pub(super) fn is_large(&self, bytes: u64) -> bool {
        self.size.is_some_and(|size| bytes > size)
    }

    pub(super) fn is_late(&self, open_ns: u64) -> bool {
        self.period.is_some_and(|period| u128::from(open_ns) >= period.as_nanos())
    }

    /// Returns whether the capture ends after this many files.
    pub(super) fn ends_after(&self, files: u64) -> bool {
        self.size.is_none() && self.files.is_some_and(|most| files >= most)
    }

    /// Returns the name of the next file, which has index `at` (from 0) in its period.
    pub(super) fn name(&self, path: &str, at: u64, now_ns: u64) -> Result<String, Failure> {
        let mut name = match self.period {
            Some(_) => timed(path, now_ns)?,
            None => path.to_owned(),
        };
        match (self.size, self.files) {
            (Some(_), Some(files)) => {
                let digits = (files.saturating_sub(1)).max(1).ilog10() as usize + 1;
                name += &format!("{:0digits$}", at % files.max(1));
            }
            (Some(_), None) if at > 0 => name += &at.to_string(),
            _ => {}
        }
        Ok(name)
    }
}

fn timed(path: &str, now_ns: u64) -> Result<String, Failure> {
    let time = Timestamp::from_second((now_ns / 1_000_000_000).cast_signed()).unwrap_or_default();
    strtime::format(path, &time.to_zoned(TimeZone::system())).map_err(|error| {
        Diagnostic::new(SR0002, format!("no time can be put into the file name {path}"))
            .with_cause(error.to_string())
            .with_help("with -G, names are forms of strftime(3): trace-%Y%m%d-%H%M%S.pcap")
            .into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Option<Duration> = Some(Duration::from_secs(3600));

    fn name(rotation: &FileRotation, at: u64) -> String {
        rotation.name("t.pcap", at, 0).unwrap()
    }

    #[test]
    fn sizes_number_the_files_and_a_ring_has_as_many_digits_as_it_needs() {
        let size = FileRotation { size: Some(1), ..FileRotation::default() };
        assert_eq!([0, 1, 12].map(|at| name(&size, at)), ["t.pcap", "t.pcap1", "t.pcap12"]);
        let ring = FileRotation { files: Some(11), ..size };
        assert_eq!(
            [0, 9, 10, 11].map(|at| name(&ring, at)),
            ["t.pcap00", "t.pcap09", "t.pcap10", "t.pcap00"]
        );
        let two = FileRotation { files: Some(2), ..ring };
        assert_eq!([0, 1, 2].map(|at| name(&two, at)), ["t.pcap0", "t.pcap1", "t.pcap0"]);
    }

    #[test]
    fn times_stand_in_names_and_a_wrong_form_is_refused() {
        let rotation = FileRotation { period: HOUR, ..FileRotation::default() };
        let name = rotation.name("t-%Y.pcap", 0, 1_700_000_000_000_000_000).unwrap();
        assert_eq!(name, "t-2023.pcap");
        assert!(rotation.name("t-%&.pcap", 0, 0).is_err());
    }

    #[test]
    fn a_period_with_a_number_of_files_ends_and_a_ring_does_not() {
        let timed = FileRotation { period: HOUR, files: Some(2), size: None };
        assert!(!timed.ends_after(1) && timed.ends_after(2));
        assert!(!FileRotation { size: Some(1), ..timed.clone() }.ends_after(2));
        assert!(timed.is_late(3_600_000_000_000) && !timed.is_late(3_599_999_999_999));
    }
}
