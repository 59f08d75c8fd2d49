//! The privileges of this process.

use rustix::process::{Resource, getrlimit};
use slipring_core::netns;
use slipring_port::GRANT_COMMANDS;

use super::machine::read;
use slipring_core::kinds::{Finding, FindingState, grant_help};

/// Capabilities that slipring uses: name, number, purpose.
const REQUIRED_CAPABILITIES: [(&str, u32, &str); 4] = [
    ("cap_net_raw", 13, "sockets on interfaces"),
    ("cap_net_admin", 12, "XDP, TAP and addresses"),
    ("cap_bpf", 39, "BPF programs"),
    ("cap_ipc_lock", 14, "more locked memory than the limit"),
];
/// The number of the capability CAP_SYS_ADMIN. A process that has it has the rights of CAP_BPF as
/// well, which is a separate capability since Linux 5.8.
const CAP_SYS_ADMIN: u32 = 21;
/// How many of [`REQUIRED_CAPABILITIES`], counted from the first, are needed to open interfaces;
/// the others are optional.
const NUM_REQUIRED: usize = 3;
/// Limit of locked memory, in bytes, that suffices for several ports with default rings.
const RECOMMENDED_MEMLOCK_BYTES: u64 = 64 << 20;

/// Effective capabilities and limits of this process.
#[derive(Debug, Clone, Copy)]
pub(super) struct Privileges {
    effective: u64,
    /// Limit of locked memory in bytes; `None` means no limit.
    memory_lock: Option<u64>,
    root: bool,
    /// Whether the process is in a user namespace of its own. Then its privileges have no effect
    /// outside that namespace.
    pub(super) confined: bool,
}

impl Privileges {
    pub(super) fn of_this_process() -> Self {
        let status = read("/proc/self/status").unwrap_or_default();
        Self {
            effective: effective(&status),
            memory_lock: getrlimit(Resource::Memlock).current,
            root: rustix::process::geteuid().is_root(),
            confined: slipring_port::in_user_namespace(),
        }
    }

    fn has(&self, number: u32) -> bool {
        let own = self.effective >> number & 1 == 1;
        own || number == 39 && self.effective >> CAP_SYS_ADMIN & 1 == 1
    }

    /// Returns whether the process may create and configure network devices in its namespace.
    pub(super) fn may_make_devices(&self) -> bool {
        self.has(12)
    }

    /// Returns the capabilities that are missing to open interfaces.
    pub(super) fn missing(&self) -> Vec<&'static str> {
        let missing = REQUIRED_CAPABILITIES[..NUM_REQUIRED]
            .iter()
            .filter(|(_, number, _)| !self.has(*number));
        missing.map(|(name, ..)| *name).collect()
    }

    pub(super) fn examine(&self) -> Vec<Finding> {
        vec![self.capabilities(), self.locked_memory(), unprivileged_bpf()]
    }

    fn capabilities(&self) -> Finding {
        let held = REQUIRED_CAPABILITIES.iter().filter(|(_, number, _)| self.has(*number));
        let held: Vec<_> = held.map(|(name, ..)| *name).collect();
        let held = if held.is_empty() { "none that matter".into() } else { held.join(" ") };
        let missing = self.missing();
        if missing.is_empty() && self.confined {
            let text = format!("{held}, in a user namespace: no BPF, so no xdp: and no host rings");
            return Finding::warn("capabilities", text)
                .with_fix("take packet:IF with --shared, or run it outside of the container");
        }
        if missing.is_empty() {
            return Finding::ok("capabilities", held);
        }
        let text = format!("{held}; no {}: interfaces cannot be opened", missing.join(", "));
        Finding::warn("capabilities", text).with_fix(grant_help(GRANT_COMMANDS))
    }

    fn locked_memory(&self) -> Finding {
        match self.memory_lock {
            None => Finding::ok("locked memory", "no limit"),
            Some(_) if self.has(14) => Finding::ok("locked memory", "no limit by cap_ipc_lock"),
            Some(bytes) if bytes >= RECOMMENDED_MEMLOCK_BYTES => {
                Finding::ok("locked memory", format!("up to {} MiB", bytes >> 20))
            }
            Some(bytes) => {
                let text = format!("up to {} MiB: xdp: ports need about 16 each", bytes >> 20);
                Finding::warn("locked memory", text)
                    .with_fix("ulimit -l unlimited, or LimitMEMLOCK=infinity in the unit")
            }
        }
    }
}

/// Parses the `CapEff` line, a mask in hex.
fn effective(status: &str) -> u64 {
    let mask = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

fn unprivileged_bpf() -> Finding {
    let text = match read("/proc/sys/kernel/unprivileged_bpf_disabled").as_deref() {
        Some("0") => "open to every user",
        Some("1") => "for cap_bpf only, until the next boot",
        Some("2") => "for cap_bpf only",
        _ => "the kernel does not say who may load programs",
    };
    Finding::ok("bpf policy", text)
}

/// Checks whether an ordinary user can have a private network here. If this process does not run as
/// root, the function tries to create one. Success moves the process into other namespaces, so this
/// must be the last check.
pub(super) fn user_namespaces(privileges: &Privileges) -> Finding {
    let check = "user namespaces";
    if privileges.root {
        return match forbidden() {
            None => Finding::ok(check, "allowed: `slipring demo` needs no root"),
            Some(cure) => {
                Finding::warn(check, "not for ordinary users, who then cannot run the demo")
                    .with_fix(cure)
            }
        };
    }
    match netns::become_private_user() {
        Ok(()) => Finding::ok(check, "allowed: `slipring demo` works without root"),
        Err(error) => {
            // Without user namespaces and without capabilities, no network access is possible.
            let state = if privileges.missing().is_empty() {
                FindingState::Warn
            } else {
                FindingState::Fail
            };
            let text = format!("not allowed ({error}): the demo needs root");
            let cure = forbidden().unwrap_or_else(|| "run as root".into());
            Finding { state, ..Finding::ok(check, text) }.with_fix(cure)
        }
    }
}

/// If a setting keeps ordinary users from creating namespaces, returns the command that changes the
/// setting.
fn forbidden() -> Option<String> {
    [
        ("user/max_user_namespaces", "0", "user.max_user_namespaces=10000"),
        ("kernel/unprivileged_userns_clone", "0", "kernel.unprivileged_userns_clone=1"),
        (
            "kernel/apparmor_restrict_unprivileged_userns",
            "1",
            "kernel.apparmor_restrict_unprivileged_userns=0",
        ),
    ]
    .into_iter()
    .find(|(file, bad, _)| read(&format!("/proc/sys/{file}")).as_deref() == Some(bad))
    .map(|(.., cure)| format!("sysctl -w {cure}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(effective: u64) -> Privileges {
        Privileges { effective, memory_lock: Some(8 << 20), root: false, confined: false }
    }

    #[test]
    fn the_mask_of_effective_capabilities_is_found() {
        assert_eq!(effective("Name:\tx\nCapEff:\t000001fffeffffff\n"), 0x01ff_feff_ffff);
        assert_eq!(effective("Name:\tx\n"), 0);
    }

    #[test]
    fn what_is_missing_is_named_and_sys_admin_stands_in_for_bpf() {
        assert_eq!(with(0).missing(), ["cap_net_raw", "cap_net_admin", "cap_bpf"]);
        assert_eq!(with(1 << 13).missing(), ["cap_net_admin", "cap_bpf"]);
        assert!(with(1 << 12 | 1 << 13 | 1 << CAP_SYS_ADMIN).missing().is_empty());
        assert_eq!(with(0).capabilities().mend, Some(grant_help(GRANT_COMMANDS)));
    }

    #[test]
    fn all_capabilities_of_a_user_namespace_are_no_bpf() {
        let finding = Privileges { confined: true, ..with(u64::MAX) }.capabilities();
        assert_eq!(finding.state, FindingState::Warn);
        assert!(finding.finding.contains("no BPF") && finding.mend.unwrap().contains("--shared"));
    }

    #[test]
    fn a_small_limit_matters_only_without_the_capability() {
        assert_eq!(with(0).locked_memory().state, FindingState::Warn);
        assert_eq!(with(1 << 14).locked_memory().state, FindingState::Ok);
    }
}
