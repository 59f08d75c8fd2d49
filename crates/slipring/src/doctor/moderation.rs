//! Interrupt moderation: how long an interface delays frames before any program can see them.
//!
//! The hardware collects frames for one interrupt (`ethtool -C`), and the kernel may delay that
//! interrupt again (`napi_defer_hard_irqs` replaces interrupts by polls, one every
//! `gro_flush_timeout`). Both raise the throughput of a machine, but add microseconds of latency.
//! An emulator cannot subtract this latency from the delay of its link.

use slipring_port::iface::{Coalescing, Iface};

use super::port::sysfs;
use slipring_core::kinds::Finding;

/// The settings that delay frames.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct InterruptModeration {
    coalescing: Option<Coalescing>,
    defer_hard_irqs: u64,
    flush_timeout_ns: u64,
}

/// Examines an interface.
pub(super) fn examine(interface: &str) -> Vec<Finding> {
    let number =
        |file: &str| sysfs(interface, file).and_then(|text| text.parse().ok()).unwrap_or(0);
    let coalescing = Iface::find(interface).ok().and_then(|iface| iface.coalescing().ok());
    let moderation = InterruptModeration {
        coalescing,
        defer_hard_irqs: number("napi_defer_hard_irqs"),
        flush_timeout_ns: number("gro_flush_timeout"),
    };
    judge(interface, &moderation)
}

fn judge(interface: &str, moderation: &InterruptModeration) -> Vec<Finding> {
    let of_hardware = moderation.coalescing.map(|coalescing| hardware(interface, &coalescing));
    of_hardware.into_iter().chain(kernel(interface, moderation)).collect()
}

/// Describes the hardware's moderation, which the driver has reported.
fn hardware(interface: &str, coalescing: &Coalescing) -> Finding {
    const CHECK_NAME: &str = "moderation";
    let Coalescing { rx_usecs, rx_frames, adaptive_rx } = *coalescing;
    if rx_usecs == 0 && !adaptive_rx {
        return Finding::ok(CHECK_NAME, "an interrupt for each frame: none is late by it");
    }
    let frames = if rx_frames > 1 { format!(" or {rx_frames} frames") } else { String::new() };
    let text = match adaptive_rx {
        true => format!("interrupts wait as the load is (adaptive-rx), now {rx_usecs} us{frames}"),
        false => format!("interrupts wait {rx_usecs} us{frames}: a frame alone is late by that"),
    };
    let off = if adaptive_rx { "adaptive-rx off " } else { "" };
    Finding::warn(CHECK_NAME, text).with_fix(format!(
        "for emulated links and latencies: ethtool -C {interface} {off}rx-usecs 0"
    ))
}

/// Describes the kernel's delay of interrupts; `None` if it is switched off.
fn kernel(interface: &str, moderation: &InterruptModeration) -> Option<Finding> {
    let InterruptModeration { defer_hard_irqs, flush_timeout_ns, .. } = *moderation;
    if defer_hard_irqs == 0 || flush_timeout_ns == 0 {
        return None;
    }
    let us = flush_timeout_ns / 1000;
    let text = format!(
        "interrupts stay off for {defer_hard_irqs} empty polls, {us} us apart: frames wait for the \
         next poll, unless a program polls busily (--busy-poll)"
    );
    let file = format!("/sys/class/net/{interface}/napi_defer_hard_irqs");
    Some(Finding::warn("deferral", text).with_fix(format!("echo 0 > {file}, or use --busy-poll")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use slipring_core::kinds::FindingState;

    fn of(rx_usecs: u32, rx_frames: u32, adaptive_rx: bool) -> InterruptModeration {
        let coalescing = Some(Coalescing { rx_usecs, rx_frames, adaptive_rx });
        InterruptModeration { coalescing, ..InterruptModeration::default() }
    }

    #[test]
    fn interrupts_that_wait_are_told_with_the_command_that_has_them_come_at_once() {
        let [at_once] = &judge("eth0", &of(0, 1, false))[..] else { panic!("one") };
        assert_eq!(at_once.state, FindingState::Ok);
        let [fixed] = &judge("eth0", &of(50, 64, false))[..] else { panic!("one") };
        assert!(fixed.finding.contains("wait 50 us or 64 frames"), "{}", fixed.finding);
        assert!(fixed.mend.as_deref().unwrap().ends_with("ethtool -C eth0 rx-usecs 0"));
        let [adaptive] = &judge("eth0", &of(8, 0, true))[..] else { panic!("one") };
        let mend = adaptive.mend.as_deref().unwrap();
        assert!(mend.ends_with("ethtool -C eth0 adaptive-rx off rx-usecs 0"), "{mend}");
    }

    #[test]
    fn the_kernels_deferral_needs_both_of_its_settings() {
        let of = |defer_hard_irqs, flush_timeout_ns| {
            judge(
                "eth0",
                &InterruptModeration { defer_hard_irqs, flush_timeout_ns, coalescing: None },
            )
        };
        assert!(of(0, 20_000).is_empty() && of(2, 0).is_empty());
        let [deferred] = &of(2, 20_000)[..] else { panic!("one") };
        assert_eq!((deferred.check, deferred.state), ("deferral", FindingState::Warn));
        assert!(deferred.finding.contains("2 empty polls, 20 us apart"), "{}", deferred.finding);
    }

    #[test]
    fn an_interface_without_interrupts_has_nothing_to_say() {
        assert!(examine("lo").iter().all(|finding| finding.state == FindingState::Ok));
    }
}
