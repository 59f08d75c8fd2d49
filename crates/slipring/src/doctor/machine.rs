//! Kernel, processors, memory: facts that every user may read.

use std::fs;

use slipring_core::kinds::Finding;

/// Returns the trimmed text of a file below `/proc` or `/sys`; `None` if it cannot be read.
pub(super) fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

pub(super) fn kernel_release() -> String {
    read("/proc/sys/kernel/osrelease").unwrap_or_else(|| "unknown".into())
}

pub(super) fn cpu_model() -> String {
    let cpuinfo = read("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    model.map_or_else(|| "unknown CPU".into(), |(_, model)| model.to_owned())
}

pub(super) fn examine() -> Vec<Finding> {
    let mut findings = vec![kernel(&kernel_release()), btf(), processors()];
    findings.extend(governor());
    findings.push(clock());
    findings.extend(numa());
    findings.push(huge_pages());
    findings.extend(sysctls());
    findings
}

fn kernel(release: &str) -> Finding {
    let text = |what: &str| format!("{release}: {what}");
    match version(release) {
        (..=4, _) | (5, ..10) => {
            Finding::fail("kernel", text("too old; 5.10 is the oldest that works"))
                .with_fix("install a kernel of this decade, 6.6 or newer for everything")
        }
        (5, _) | (6, ..6) => Finding::warn(
            "kernel",
            text("no tcx (6.6): packet: and host rings cannot hold frames back from the host"),
        )
        .with_fix("install a kernel 6.6 or newer, or open packet: ports with --shared"),
        _ => Finding::ok("kernel", text("has all that slipring uses")),
    }
}

/// Parses major and minor number of a kernel release such as `6.9.1-amd64`.
fn version(release: &str) -> (u32, u32) {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|n| n.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

fn btf() -> Finding {
    match fs::exists("/sys/kernel/btf/vmlinux") {
        Ok(true) => Finding::ok("btf", "/sys/kernel/btf/vmlinux is there"),
        _ => Finding::warn("btf", "none: VLAN tags and checksums of hardware are not seen by xdp:")
            .with_fix("use a kernel with CONFIG_DEBUG_INFO_BTF"),
    }
}

fn processors() -> Finding {
    let count = std::thread::available_parallelism().map_or(1, usize::from);
    let isolated = read("/sys/devices/system/cpu/isolated").filter(|list| !list.is_empty());
    let isolated =
        isolated.map_or_else(|| "none isolated".into(), |list| format!("{list} isolated"));
    let text = format!("{count} for this process, {isolated}");
    match count {
        1 => Finding::warn("processors", format!("{text}: spinning starves everything else"))
            .with_fix("use --sleep"),
        _ => Finding::ok("processors", text),
    }
}

/// Checks the CPU frequency governor; `None` if the kernel does not control the frequency, as in
/// most virtual machines.
fn governor() -> Option<Finding> {
    let governor = read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")?;
    Some(match governor.as_str() {
        "performance" => Finding::ok("frequency", "governor performance"),
        other => {
            Finding::warn("frequency", format!("governor {other}: rates and latencies will vary"))
                .with_fix("cpupower frequency-set -g performance")
        }
    })
}

fn clock() -> Finding {
    let dir = "/sys/devices/system/clocksource/clocksource0";
    let source = read(&format!("{dir}/current_clocksource")).unwrap_or_else(|| "unknown".into());
    // These clocks can be read without a system call.
    if ["tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter"].contains(&&*source) {
        return Finding::ok("clock", source);
    }
    Finding::warn("clock", format!("{source}: slow to read, so pacing is coarse"))
        .with_fix(format!("echo tsc > {dir}/current_clocksource"))
}

fn numa() -> Option<Finding> {
    let nodes = read("/sys/devices/system/node/online")?;
    Some(match nodes.as_str() {
        "0" => Finding::ok("numa", "one node"),
        nodes => Finding::ok(
            "numa",
            format!("nodes {nodes}: keep threads on the node of their NIC (numactl -N)"),
        ),
    })
}

/// Reports the huge pages. Never a warning: without huge pages, slipring is only a little slower.
fn huge_pages() -> Finding {
    let dir = "/sys/kernel/mm/hugepages/hugepages-2048kB";
    let number = |file| read(&format!("{dir}/{file}")).and_then(|n| n.parse::<u64>().ok());
    match (number("free_hugepages"), number("nr_hugepages")) {
        (Some(free @ 1..), Some(all)) => {
            Finding::ok("hugepages", format!("{free} of {all} free, 2 MiB each"))
        }
        _ => Finding::ok("hugepages", "none free; ordinary pages do"),
    }
}

/// Returns findings about unsuitable sysctls; none if all are suitable.
fn sysctls() -> Vec<Finding> {
    let bad = [
        (
            "/proc/sys/net/core/bpf_jit_enable",
            "0",
            "BPF programs are interpreted",
            "net.core.bpf_jit_enable=1",
        ),
        (
            "/proc/sys/net/core/bpf_jit_harden",
            "2",
            "BPF programs are slowed down for root too",
            "net.core.bpf_jit_harden=1",
        ),
        ("/proc/sys/vm/memfd_noexec", "2", "memory for rings may be refused", "vm.memfd_noexec=1"),
    ];
    let found = bad.into_iter().filter(|(path, value, ..)| read(path).as_deref() == Some(value));
    let findings = found.map(|(path, value, what, cure)| {
        Finding::warn("sysctl", format!("{path} is {value}: {what}"))
            .with_fix(format!("sysctl -w {cure}"))
    });
    findings.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use slipring_core::kinds::FindingState;

    #[test]
    fn versions_are_read_with_whatever_follows() {
        assert_eq!(version("6.18.44-fc-v669"), (6, 18));
        assert_eq!(version("5.15"), (5, 15));
        assert_eq!(version("unknown"), (0, 0));
    }

    #[test]
    fn kernels_are_judged_by_what_they_lack() {
        for (release, state) in [
            ("4.19.0", FindingState::Fail),
            ("5.9.1", FindingState::Fail),
            ("5.10.0", FindingState::Warn),
            ("6.5.13", FindingState::Warn),
            ("6.6.0", FindingState::Ok),
            ("7.0-rc1", FindingState::Ok),
        ] {
            assert_eq!(kernel(release).state, state, "{release}");
        }
    }
}
