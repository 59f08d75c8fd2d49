//! BPF programs between interfaces and the host's stack, and the errors of bpf(2).

pub mod host;
mod sys;

use std::io;

use slipring_bpf::BpfError;

use crate::error::OpenCause;

impl From<BpfError> for OpenCause {
    fn from(error: BpfError) -> Self {
        refused(error.what(), error.into_io())
    }
}

/// Translates an error of bpf(2) to the cause of a failed open.
fn refused(what: &'static str, source: io::Error) -> OpenCause {
    match source.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            OpenCause::Privilege { what, capabilities: "cap_net_admin,cap_bpf,cap_net_raw", source }
        }
        Some(libc::ENOSYS) => OpenCause::Unsupported {
            what: "bpf(2)".into(),
            needs: "a kernel with CONFIG_BPF_SYSCALL",
        },
        _ => OpenCause::System { what, source },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_the_verifier_refuses_is_no_lack_of_privilege() {
        let source = || io::Error::from_raw_os_error(libc::EACCES);
        let what = "load a BPF program";
        let rejected = BpfError::Rejected { what, source: source(), log: "R0 !read_ok\n".into() };
        let cause = OpenCause::from(rejected);
        assert!(matches!(cause, OpenCause::System { .. }), "{cause:?}");
        assert!(cause.to_string().ends_with("(os error 13): R0 !read_ok"), "{cause}");
        let cause = OpenCause::from(BpfError::System { what, source: source() });
        assert!(matches!(cause, OpenCause::Privilege { .. }), "{cause:?}");
    }
}
