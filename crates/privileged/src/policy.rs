//! The operations that a helper may perform, fixed when it starts.

use std::io;

use rustix::process::geteuid;
use slipring_confine::{CapabilitySet, FORBIDDEN_CALLS, SETUP_ONLY_CALLS, effective};

use crate::message::HelperRequest;
use crate::run_files::RunFiles;

/// The kinds of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the requests of these names say what they are")]
pub enum HelperOperation {
    SetFeature = 1,
    RemoveHiddenLink = 2,
    SetUp = 3,
    AddAddress = 4,
    RemoveAddress = 5,
    OpenPacketSocket = 6,
    AttachXdp = 7,
    UseNeighbour = 8,
    AddRoute = 9,
    RemoveRoute = 10,
    RemoveNeighbour = 11,
    TakeName = 12,
    RemoveRunFiles = 13,
    OpenLegacyTables = 14,
    OpenLegacyTables6 = 15,
}

impl HelperOperation {
    pub(crate) const ALL: [Self; 15] = [
        Self::SetFeature,
        Self::RemoveHiddenLink,
        Self::SetUp,
        Self::AddAddress,
        Self::RemoveAddress,
        Self::OpenPacketSocket,
        Self::AttachXdp,
        Self::UseNeighbour,
        Self::AddRoute,
        Self::RemoveRoute,
        Self::RemoveNeighbour,
        Self::TakeName,
        Self::RemoveRunFiles,
        Self::OpenLegacyTables,
        Self::OpenLegacyTables6,
    ];
}

/// The operations and interfaces that a helper allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HelperPolicy {
    /// Process id of the program that the helper serves, which is part of the names of hidden
    /// links.
    pub program: u32,
    /// The allowed operations. Each is allowed on all allowed interfaces.
    pub operations: Vec<HelperOperation>,
    /// Indices of the allowed interfaces.
    pub interfaces: Vec<u32>,
    /// The files that the helper moves and removes because the program cannot; `None` if there are
    /// none.
    pub run_files: Option<RunFiles>,
}

impl HelperPolicy {
    pub(crate) fn allows(&self, request: &HelperRequest) -> bool {
        let is_known = match request {
            HelperRequest::TakeName | HelperRequest::RemoveRunFiles => self.run_files.is_some(),
            HelperRequest::OpenLegacyTables | HelperRequest::OpenLegacyTables6 => true,
            _ => self.interfaces.contains(&request.ifindex()),
        };
        is_known && self.operations.contains(&request.operation())
    }

    /// Returns the capabilities that the allowed operations need.
    pub(crate) fn capabilities(&self) -> CapabilitySet {
        let of = |operation: &HelperOperation| match operation {
            HelperOperation::OpenPacketSocket => CapabilitySet::NET_RAW,
            HelperOperation::AttachXdp => CapabilitySet::NET_ADMIN | CapabilitySet::BPF,
            HelperOperation::TakeName | HelperOperation::RemoveRunFiles => self.for_files(),
            HelperOperation::OpenLegacyTables | HelperOperation::OpenLegacyTables6 => for_tables(),
            _ => CapabilitySet::NET_ADMIN,
        };
        self.operations.iter().map(of).fold(CapabilitySet::empty(), CapabilitySet::union)
    }

    /// The capability that the helper needs to change the run directory.
    fn for_files(&self) -> CapabilitySet {
        match self.run_files.as_ref().is_some_and(RunFiles::is_foreign) {
            true => CapabilitySet::DAC_OVERRIDE,
            false => CapabilitySet::empty(),
        }
    }

    /// Returns the system calls to forbid. No allowed operation makes any of them.
    pub(crate) fn forbidden_calls(&self) -> Vec<i64> {
        let uses_bpf = self.operations.contains(&HelperOperation::AttachXdp);
        let all = FORBIDDEN_CALLS.iter().chain(SETUP_ONLY_CALLS).copied();
        all.filter(|call| !uses_bpf || *call != libc::SYS_bpf).collect()
    }

    /// Returns the policy as command-line arguments of the helper: program, operations, interfaces,
    /// files.
    ///
    /// # Errors
    /// `InvalidInput` if the name of a file is not text.
    pub(crate) fn to_args(&self) -> io::Result<Vec<String>> {
        let operations = self.operations.iter().map(|one| *one as u32);
        let interfaces = self.interfaces.iter().copied();
        let files = self.run_files.as_ref().map_or(Some(Vec::new()), RunFiles::to_args);
        let mut args = vec![self.program.to_string(), list(operations), list(interfaces)];
        args.extend(files.ok_or(io::ErrorKind::InvalidInput)?);
        Ok(args)
    }

    pub(crate) fn from_args(args: &[String]) -> Option<Self> {
        let [program, operations, interfaces, files @ ..] = args else { return None };
        let run_files = match files.is_empty() {
            true => None,
            false => Some(RunFiles::from_args(files)?),
        };
        let operation =
            |number: u32| HelperOperation::ALL.into_iter().find(|known| *known as u32 == number);
        Some(Self {
            program: program.parse().ok()?,
            operations: numbers(operations)?.into_iter().map(operation).collect::<Option<_>>()?,
            interfaces: numbers(interfaces)?,
            run_files,
        })
    }
}

/// Returns the capability that the helper needs to open the files in which the kernel lists the
/// tables of iptables-legacy; empty if the helper does not have it. The files belong to root, which
/// needs no capability for them.
fn for_tables() -> CapabilitySet {
    match geteuid().is_root() {
        true => CapabilitySet::empty(),
        false => effective().intersection(CapabilitySet::DAC_READ_SEARCH),
    }
}

fn list(numbers: impl Iterator<Item = u32>) -> String {
    numbers.map(|number| number.to_string()).collect::<Vec<_>>().join(",")
}

fn numbers(list: &str) -> Option<Vec<u32>> {
    list.split(',').filter(|one| !one.is_empty()).map(|one| one.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn a_policy_is_read_from_its_own_arguments() {
        let policy = HelperPolicy {
            program: 7,
            operations: vec![HelperOperation::SetFeature, HelperOperation::AttachXdp],
            interfaces: vec![3, 4],
            run_files: None,
        };
        assert_eq!(policy.to_args().unwrap(), ["7", "1,7", "3,4"]);
        let read_again =
            |policy: &HelperPolicy| HelperPolicy::from_args(&policy.to_args().unwrap());
        assert_eq!(read_again(&policy), Some(policy.clone()));
        let dir = "/run/slipring".into();
        for (name, others) in
            [(None, vec![]), (Some("edge".to_owned()), vec!["/run/fwd.pid".into()])]
        {
            let files = RunFiles { dir: PathBuf::clone(&dir), name, others };
            let with_files = HelperPolicy { run_files: Some(files), ..policy.clone() };
            assert_eq!(read_again(&with_files), Some(with_files));
        }
        let none = HelperPolicy { interfaces: Vec::new(), ..policy };
        assert_eq!(read_again(&none), Some(none));
        let args = |words: [&str; 3]| HelperPolicy::from_args(&words.map(str::to_owned));
        assert_eq!(args(["7", "99", "3"]), None);
        assert_eq!(args(["7", "1", "x"]), None);
    }

    #[test]
    fn a_request_needs_its_operation_and_its_interface() {
        let policy = HelperPolicy {
            program: 7,
            operations: vec![HelperOperation::SetUp],
            interfaces: vec![3],
            run_files: None,
        };
        assert!(policy.allows(&HelperRequest::SetUp { ifindex: 3 }));
        assert!(!policy.allows(&HelperRequest::SetUp { ifindex: 4 }));
        assert!(!policy.allows(&HelperRequest::OpenPacketSocket { ifindex: 3 }));
        assert!(!policy.allows(&HelperRequest::TakeName));
        let operations = vec![HelperOperation::TakeName];
        let without_files = HelperPolicy { operations, ..policy.clone() };
        assert!(!without_files.allows(&HelperRequest::TakeName));
        assert!(!policy.allows(&HelperRequest::OpenLegacyTables));
        let operations = vec![HelperOperation::OpenLegacyTables];
        let of_tables = HelperPolicy { operations, interfaces: Vec::new(), ..policy.clone() };
        assert!(of_tables.allows(&HelperRequest::OpenLegacyTables), "it concerns no interface");
        assert!(!of_tables.allows(&HelperRequest::OpenLegacyTables6));
        assert_eq!(policy.capabilities(), CapabilitySet::NET_ADMIN);
        assert!(policy.forbidden_calls().contains(&libc::SYS_bpf));
    }
}
