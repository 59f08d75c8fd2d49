//! The operations that a helper may perform, fixed when it starts.

use slipring_confine::{CapabilitySet, FORBIDDEN_CALLS, SETUP_ONLY_CALLS};

use crate::message::HelperRequest;

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
}

impl HelperOperation {
    pub(crate) const ALL: [Self; 11] = [
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
}

impl HelperPolicy {
    pub(crate) fn allows(&self, request: &HelperRequest) -> bool {
        self.operations.contains(&request.operation())
            && self.interfaces.contains(&request.ifindex())
    }

    /// Returns the capabilities that the allowed operations need.
    pub(crate) fn capabilities(&self) -> CapabilitySet {
        let of = |operation: &HelperOperation| match operation {
            HelperOperation::OpenPacketSocket => CapabilitySet::NET_RAW,
            HelperOperation::AttachXdp => CapabilitySet::NET_ADMIN | CapabilitySet::BPF,
            _ => CapabilitySet::NET_ADMIN,
        };
        self.operations.iter().map(of).fold(CapabilitySet::empty(), CapabilitySet::union)
    }

    /// Returns the system calls that no allowed operation makes.
    pub(crate) fn forbidden_calls(&self) -> Vec<i64> {
        let uses_bpf = self.operations.contains(&HelperOperation::AttachXdp);
        let all = FORBIDDEN_CALLS.iter().chain(SETUP_ONLY_CALLS).copied();
        all.filter(|call| !uses_bpf || *call != libc::SYS_bpf).collect()
    }

    /// Returns the policy as command-line arguments of the helper: program, operations, interfaces.
    pub(crate) fn to_args(&self) -> [String; 3] {
        let operations = self.operations.iter().map(|one| *one as u32);
        [self.program.to_string(), list(operations), list(self.interfaces.iter().copied())]
    }

    pub(crate) fn from_args(args: &[String]) -> Option<Self> {
        let [program, operations, interfaces] = args else { return None };
        let operation =
            |number: u32| HelperOperation::ALL.into_iter().find(|known| *known as u32 == number);
        Some(Self {
            program: program.parse().ok()?,
            operations: numbers(operations)?.into_iter().map(operation).collect::<Option<_>>()?,
            interfaces: numbers(interfaces)?,
        })
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
    use super::*;

    #[test]
    fn a_policy_is_read_from_its_own_arguments() {
        let policy = HelperPolicy {
            program: 7,
            operations: vec![HelperOperation::SetFeature, HelperOperation::AttachXdp],
            interfaces: vec![3, 4],
        };
        assert_eq!(policy.to_args(), ["7", "1,7", "3,4"]);
        assert_eq!(HelperPolicy::from_args(&policy.to_args()), Some(policy.clone()));
        let none = HelperPolicy { interfaces: Vec::new(), ..policy };
        assert_eq!(HelperPolicy::from_args(&none.to_args()), Some(none));
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
        };
        assert!(policy.allows(&HelperRequest::SetUp { ifindex: 3 }));
        assert!(!policy.allows(&HelperRequest::SetUp { ifindex: 4 }));
        assert!(!policy.allows(&HelperRequest::OpenPacketSocket { ifindex: 3 }));
        assert_eq!(policy.capabilities(), CapabilitySet::NET_ADMIN);
        assert!(policy.forbidden_calls().contains(&libc::SYS_bpf));
    }
}
