//! CPU time of the kernel's softirq threads (`ksoftirqd/N`), which process received packets if
//! there are too many for the interrupted thread.

use std::io;
use std::path::PathBuf;

use slipring_port::Nanos;

use crate::measure::BenchError;

/// Returns the CPU time of all softirq threads; 0 if they are not visible.
pub(super) fn threads_cpu() -> Result<Nanos, BenchError> {
    let mut sum = 0;
    for thread in threads()? {
        let text = std::fs::read_to_string(thread.join("schedstat"))?;
        let nanos = nanos_of(&text);
        sum += nanos.ok_or_else(|| BenchError::Failed(format!("schedstat is {text:?}")))?;
    }
    Ok(sum)
}

fn threads() -> io::Result<Vec<PathBuf>> {
    thread_local! {
        static FOUND: std::cell::OnceCell<Vec<PathBuf>> = const { std::cell::OnceCell::new() };
    }
    FOUND.with(|found| {
        if let Some(threads) = found.get() {
            return Ok(threads.clone());
        }
        let is_softirq = |path: &PathBuf| {
            let name = std::fs::read_to_string(path.join("comm"));
            name.is_ok_and(|name| name.starts_with("ksoftirqd/"))
        };
        let processes = std::fs::read_dir("/proc")?.flatten().map(|entry| entry.path());
        let threads: Vec<_> = processes.filter(is_softirq).collect();
        Ok(found.get_or_init(|| threads).clone())
    })
}

/// Returns the first number of `schedstat`: the time that the thread has run on a CPU, in
/// nanoseconds.
fn nanos_of(schedstat: &str) -> Option<Nanos> {
    schedstat.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_on_a_cpu_is_the_first_number() {
        assert_eq!(nanos_of("1234 5 6\n"), Some(1234));
        assert_eq!(nanos_of("\n"), None);
    }
}
