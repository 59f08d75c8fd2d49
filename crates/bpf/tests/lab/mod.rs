//! Loads programs into the kernel, for tests that compare it with the interpreter.
#![allow(clippy::unwrap_used, dead_code)]

use slipring_bpf::{
    BpfCode, BpfError, BpfMap, BpfMapKind, BpfMapSpec, BpfProgram, BpfProgramFlags, BpfProgramKind,
};
use slipring_test_support::skip;

/// Returns whether this process may use bpf(2); prints why if not.
pub(crate) fn has_bpf() -> bool {
    match BpfMap::create("lab", BpfMapSpec::new(BpfMapKind::Array, 4, 4, 1)) {
        Ok(_) => true,
        Err(error) if matches!(error.raw_os_error(), Some(libc::EPERM | libc::ENOSYS)) => {
            skip!("{error}");
            false
        }
        Err(error) => panic!("{error}"),
    }
}

/// Loads an XDP program with these maps.
pub(crate) fn load(code: &BpfCode, maps: &[(&str, &BpfMap)]) -> Result<BpfProgram, BpfError> {
    let descriptor =
        |wanted: &str| maps.iter().find(|(name, _)| *name == wanted).map(|(_, map)| map.raw_fd());
    let insns = code.bind(descriptor).unwrap();
    BpfProgram::load(BpfProgramKind::Xdp, "lab", &insns, BpfProgramFlags::default())
}
