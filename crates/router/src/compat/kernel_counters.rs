//! Counters of the kernel's IPv4 stack since the start of the router.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// The counters of the network namespace. The file is opened before the process gives up its
/// privileges.
pub(crate) struct KernelCounters {
    file: File,
    start: BTreeMap<String, u64>,
}

impl KernelCounters {
    /// Opens the kernel's file, and reads the counters at the start.
    ///
    /// # Errors
    /// If the kernel's file cannot be read.
    pub(crate) fn open() -> io::Result<Self> {
        let file = File::open("/proc/thread-self/net/snmp")?;
        let start = read(&file)?;
        Ok(Self { file, start })
    }

    /// Returns the sum of counters such as `Icmp.InEchos`, counted from the start of the router;
    /// `None` if the kernel lacks one of them, or the file cannot be read.
    pub(crate) fn sum(&self, names: &[&str]) -> Option<u64> {
        let now = read(&self.file).ok()?;
        let start = |name: &str| self.start.get(name).copied().unwrap_or_default();
        names.iter().map(|name| Some(now.get(*name)?.saturating_sub(start(name)))).sum()
    }
}

fn read(file: &File) -> io::Result<BTreeMap<String, u64>> {
    let mut bytes = vec![0; 1 << 14];
    let len = file.read_at(&mut bytes, 0)?;
    Ok(parse(&String::from_utf8_lossy(&bytes[..len])))
}

/// Parses pairs of lines: the names of a protocol's counters, then their values.
fn parse(text: &str) -> BTreeMap<String, u64> {
    let lines: Vec<_> = text.lines().collect();
    let pairs = lines.chunks_exact(2).filter_map(|pair| {
        let ((protocol, names), (_, values)) = (pair[0].split_once(':')?, pair[1].split_once(':')?);
        Some((protocol, names, values))
    });
    let counters = pairs.flat_map(|(protocol, names, values)| {
        let each = names.split_whitespace().zip(values.split_whitespace());
        each.filter_map(move |(name, value)| {
            Some((format!("{protocol}.{name}"), value.parse().ok()?))
        })
    });
    counters.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read_by_protocol() {
        let text = "Ip: Forwarding DefaultTTL\nIp: 1 64\nTcp: MaxConn InSegs\nTcp: -1 7\n";
        let counters = parse(text);
        assert_eq!((counters["Ip.DefaultTTL"], counters["Tcp.InSegs"]), (64, 7));
        assert_eq!(KernelCounters::open().unwrap().sum(&["Icmp.NoSuch"]), None);
        assert!(KernelCounters::open().unwrap().sum(&["Icmp.InEchos", "Ip.InReceives"]).is_some());
    }
}
