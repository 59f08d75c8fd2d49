//! Keeps idle CPUs out of deep sleep states while a program spins.
//!
//! A spinning program must not be delayed by the threads and interrupts that it waits for. A CPU in
//! a deep sleep state needs up to hundreds of microseconds to wake. The kernel limits this time for
//! as long as a process that has written the limit to `/dev/cpu_dma_latency` keeps this file open.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::sync::OnceLock;

const DEVICE_PATH: &str = "/dev/cpu_dma_latency";

static LATENCY_REQUEST: OnceLock<Option<File>> = OnceLock::new();

/// Requests that CPUs wake without delay until this process ends. Returns whether the kernel has
/// granted this. Without the permission, CPUs may wake late.
pub fn request_no_latency() -> bool {
    LATENCY_REQUEST.get_or_init(|| request(DEVICE_PATH).ok()).is_some()
}

/// Opens the device and writes the maximum latency to it, which is 0 microseconds.
fn request(device: &str) -> std::io::Result<File> {
    let mut file = OpenOptions::new().write(true).open(device)?;
    file.write_all(&0_i32.to_ne_bytes())?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_request_is_a_binary_zero_that_is_held_open() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("latency");
        std::fs::write(&path, "").unwrap();
        let _held = request(path.to_str().unwrap()).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), [0; 4]);
        assert!(request("/no/such/device").is_err());
    }

    #[test]
    fn a_program_that_spins_keeps_processors_awake_until_it_ends() {
        let open = || {
            let links = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
            links
                .filter_map(|link| std::fs::read_link(link.path()).ok())
                .any(|to| to.ends_with("cpu_dma_latency"))
        };
        if !request_no_latency() {
            slipring_test_support::skip!("{DEVICE_PATH} cannot be written here");
            return;
        }
        assert!(open());
    }
}
