//! Captures as ports: which of them are read, and which are written.
//!
//! A capture that exists is read where it may be meant so: as the first port, or as one that the map
//! sends no frames to. Any other one is there to be written, and what it holds is not thrown away
//! unless that is said.

use std::path::Path;

use slipring_abi::name::{Kind, PortName};
use slipring_cli::codes::SR0009;
use slipring_cli::{Diagnostic, Failure};
use slipring_program::opening::is_same_file;

use crate::join::Map;

/// The captures that are to be written although the files exist.
///
/// # Errors
/// If there is one, and `overwrites` is not said.
pub(crate) fn written(
    ports: &[PortName],
    map: &Map,
    overwrites: bool,
) -> Result<Vec<String>, Failure> {
    let is_output = |at: usize| at > 0 && (0..ports.len()).any(|from| goes(map, from, at));
    let outputs = ports.iter().enumerate().filter(|(at, port)| {
        port.kind == Kind::Pcap && is_output(*at) && Path::new(&port.name).exists()
    });
    let outputs: Vec<_> = outputs.map(|(_, port)| port.name.clone()).collect();
    if let Some(path) =
        outputs.iter().find(|path| ports.iter().filter(|port| is_file(port, path)).count() > 1)
    {
        return Err(also_elsewhere(path).into());
    }
    match outputs.first() {
        Some(path) if !overwrites => Err(exists(path).into()),
        _ => Ok(outputs),
    }
}

/// Whether a port is the capture at `path`, by whatever path of its own.
fn is_file(port: &PortName, path: &str) -> bool {
    port.kind == Kind::Pcap && is_same_file(&port.name, path)
}

fn also_elsewhere(path: &str) -> Diagnostic {
    Diagnostic::new(SR0009, format!("{path} is also another port of this firewall"))
        .with_cause("what is read would be written over, or one file would be written twice")
        .with_help("name another capture for the frames to go to")
}

fn goes(map: &Map, from: usize, to: usize) -> bool {
    u16::try_from(from).is_ok_and(|from| map.targets(from).iter().any(|&at| usize::from(at) == to))
}

fn exists(path: &str) -> Diagnostic {
    Diagnostic::new(SR0009, format!("{path} exists, and frames are to be written to it"))
        .with_cause("a capture that frames go to is written anew")
        .with_help("add --overwrite, or name a capture that is to be read first")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ports(names: &[String]) -> Vec<PortName> {
        names.iter().map(|name| PortName::parse_classic(name).unwrap()).collect()
    }

    fn told(names: &[String], map: &[&str], overwrites: bool) -> Result<usize, String> {
        let ports = ports(names);
        let map = Map::read(map.iter().copied(), ports.len()).unwrap();
        match written(&ports, &map, overwrites) {
            Ok(written) => Ok(written.len()),
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
        assert_eq!(told(&pair(&a, &new), &[], false), Ok(0), "read, and made");
        assert_eq!(told(&pair(&a, &null), &[], false), Ok(0), "read");
        for first in [&a, &null] {
            let refused = told(&pair(first, &b), &[], false).unwrap_err();
            assert!(refused.contains("b exists") && refused.contains("--overwrite"), "{refused}");
            assert_eq!(told(&pair(first, &b), &[], true), Ok(1));
        }
        let three = [a, b, null];
        assert_eq!(told(&three, &["1=3", "2=3"], false), Ok(0), "both are sources alone");
        assert!(told(&three, &["1=2", "3=2"], false).is_err());
    }

    #[test]
    fn a_capture_that_is_read_is_never_written_over_by_whatever_path() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a");
        std::fs::write(&file, "frames").unwrap();
        std::os::unix::fs::symlink(&file, dir.path().join("link")).unwrap();
        let name = |file: &str| format!("pcap:{}", dir.path().join(file).display());
        for output in ["a", "link"] {
            let refused = told(&[name("a"), name(output)], &[], true).unwrap_err();
            assert!(refused.contains("is also another port"), "{refused}");
        }
        assert_eq!(std::fs::read(&file).unwrap(), b"frames");
    }
}
