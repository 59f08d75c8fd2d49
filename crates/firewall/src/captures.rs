//! Captures as ports: decides which capture files are read and which are written.
//!
//! A capture is read if the map sends no frames to it, or if it is the first port and its file
//! exists. Any other capture is written. An existing file is overwritten only if the user allows
//! it.

use slipring_abi::name::PortName;
use slipring_datapath::opening::{PortOpening, PortRole};

use crate::dataplane::PortMap;

/// Returns each port with its role, source or sink.
pub(crate) fn roles<'p>(ports: &'p [PortName], map: &PortMap) -> Vec<(&'p PortName, PortRole)> {
    PortOpening::roles(ports, |to| (0..ports.len()).any(|from| is_target(map, from, to)))
}

fn is_target(map: &PortMap, from: usize, to: usize) -> bool {
    u16::try_from(from).is_ok_and(|from| map.targets(from).iter().any(|&at| usize::from(at) == to))
}

#[cfg(test)]
mod tests {
    use slipring_cli::Failure;
    use slipring_port::OpenOptions;

    use super::*;

    fn ports(names: &[String]) -> Vec<PortName> {
        names.iter().map(|name| PortName::parse_classic(name).unwrap()).collect()
    }

    /// Returns how many captures would be written.
    fn check(names: &[String], map: &[&str], overwrites: bool) -> Result<usize, String> {
        let ports = ports(names);
        let map = PortMap::read(map.iter().copied(), ports.len()).unwrap();
        let opening = PortOpening::plain(OpenOptions::default()).overwriting(overwrites);
        match opening.with_roles(roles(&ports, &map), Vec::new()) {
            Ok(opening) => Ok(opening.options.captures_to_write.len()),
            Err(Failure::Error(error)) => Err(error.to_text(false)),
            Err(_) => panic!("another failure"),
        }
    }

    #[test]
    fn an_existing_capture_that_frames_go_to_is_refused_with_the_flag_that_overwrites() {
        let dir = tempfile::tempdir().unwrap();
        let name = |file: &str| format!("pcap:{}", dir.path().join(file).display());
        for file in ["a", "b"] {
            std::fs::write(dir.path().join(file), "").unwrap();
        }
        let (a, b, new) = (name("a"), name("b"), name("new"));
        let null = "null:".to_owned();
        let pair = |one: &String, two: &String| [one.clone(), two.clone()];
        assert_eq!(check(&pair(&a, &new), &[], false), Ok(1), "read, and made");
        assert_eq!(check(&pair(&a, &null), &[], false), Ok(0), "read");
        for first in [&a, &null] {
            let refused = check(&pair(first, &b), &[], false).unwrap_err();
            assert!(refused.contains("b exists") && refused.contains("--overwrite"), "{refused}");
            assert_eq!(check(&pair(first, &b), &[], true), Ok(1));
        }
        let three = [a, b, null];
        assert_eq!(check(&three, &["1=3", "2=3"], false), Ok(0), "both are sources alone");
        assert!(check(&three, &["1=2", "3=2"], false).is_err());
    }

    #[test]
    fn a_capture_that_is_read_is_never_written_over_by_whatever_path() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a");
        std::fs::write(&file, "frames").unwrap();
        std::os::unix::fs::symlink(&file, dir.path().join("link")).unwrap();
        let name = |file: &str| format!("pcap:{}", dir.path().join(file).display());
        for output in ["a", "link"] {
            let refused = check(&[name("a"), name(output)], &[], true).unwrap_err();
            assert!(refused.contains("would overwrite what is read"), "{refused}");
        }
        assert_eq!(std::fs::read(&file).unwrap(), b"frames");
    }
}
