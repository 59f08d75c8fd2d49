//! `pcap:FILE`, a capture: [`slipring_port::pcap`].

use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{Access, access};
use slipring_abi::name::PortName;
use slipring_port::capture::FileReader;
use slipring_port::{OpenCause, OpenError, Port, RegionNeeds, pcap};
use slipring_ring::Region;

use super::finding::FILE_CODE;
use super::{DoctorContext, Finding, NameRow, PortDriver, PortKindInfo, PortRequest};

pub(super) static DRIVER: PcapDriver = PcapDriver;

pub(super) struct PcapDriver;

static FACTS: PortKindInfo = PortKindInfo {
    only_reads_tx: true,
    ..PortKindInfo::new(&[NameRow {
        name: "`pcap:FILE`",
        what: "read or write a capture; one that exists is written over with `--overwrite` only",
        needs: "nothing",
        help: "a capture, read or written; - is the standard input or output",
    }])
};

impl PortDriver for PcapDriver {
    fn facts(&self) -> &'static PortKindInfo {
        &FACTS
    }

    fn needs(&self, request: &PortRequest<'_>) -> Result<RegionNeeds, OpenError> {
        Ok(pcap::needs(request.options()))
    }

    fn open(&self, request: &PortRequest<'_>, region: &Arc<Region>) -> Result<Port, OpenError> {
        pcap::open(request.display_name(), request.bare_name(), region, request.options())
    }

    /// Reads an existing capture to its end, and checks that a missing capture can be created.
    fn examine(&self, port: &PortName, _context: &DoctorContext<'_>) -> Vec<Finding> {
        vec![file(port)]
    }
}

fn file(port: &PortName) -> Finding {
    if port.name == "-" {
        return Finding::port_ok(format!("{port}: the standard input or output"));
    }
    let path = Path::new(&port.name);
    let refused = |cause| Finding::port_refused(&OpenError::new(port, cause));
    match fs::metadata(path) {
        // A named pipe is not opened, because that would wait for its other end.
        Ok(found) if !found.is_file() && !found.is_dir() => special(port, path),
        Ok(_) => match FileReader::open(&port.name) {
            Ok(_) => {
                Finding::port_ok(format!("{port} can be read; written over only by --overwrite"))
            }
            Err(cause) => refused(cause),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => in_directory(port, path),
        Err(source) => refused(OpenCause::File { path: port.name.clone(), source }),
    }
}

/// Returns the finding about a file that is neither regular nor a directory, such as a named pipe.
fn special(port: &PortName, path: &Path) -> Finding {
    if fs::metadata(path).is_ok_and(|found| found.file_type().is_socket()) {
        // Opening a socket by its path fails with this error.
        let source = rustix::io::Errno::NXIO.into();
        let cause = OpenCause::File { path: port.name.clone(), source };
        return Finding::port_refused(&OpenError::new(port, cause));
    }
    let can = |rights| access(path, rights);
    match (can(Access::READ_OK), can(Access::WRITE_OK)) {
        (Ok(()), Ok(())) => Finding::port_ok(format!("{port} can be read and written")),
        (Ok(()), _) => Finding::port_ok(format!("{port} can be read")),
        (_, Ok(())) => Finding::port_ok(format!("{port} can be written")),
        (Err(errno), _) => {
            let cause = OpenCause::File { path: port.name.clone(), source: errno.into() };
            Finding::port_refused(&OpenError::new(port, cause))
        }
    }
}

/// Returns the finding on whether a new file can be created at `path`.
pub(super) fn in_directory(port: &PortName, path: &Path) -> Finding {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    let text = match access(parent, Access::WRITE_OK | Access::EXEC_OK) {
        Ok(()) if parent.is_dir() => return Finding::port_ok(format!("{port} can be made")),
        Ok(()) => format!("{port}: {} is no directory", parent.display()),
        Err(error) => format!("{port}: nothing can be made in {}: {error}", parent.display()),
    };
    let finding = Finding::port_fail(text).with_code(FILE_CODE);
    finding.with_fix("name a path in a directory of yours")
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;
    use crate::kinds::finding::FindingState;

    #[test]
    fn a_socket_is_refused_as_an_open_refuses_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket").to_str().unwrap().to_owned();
        let _socket = UnixListener::bind(&path).unwrap();
        let port: PortName = format!("pcap:{path}").parse().unwrap();
        let finding = file(&port);
        let refused = OpenError::new(&port, FileReader::open(&path).unwrap_err());
        assert_eq!(finding.state, FindingState::Fail);
        assert_eq!(finding.finding, Finding::port_refused(&refused).finding);
    }
}
