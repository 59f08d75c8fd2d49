//! Programs make arbitrary calls of `/dev/netmap` with arbitrary structures, and write arbitrary
//! values into the memory that they share with the host. No call may panic or hang.
#![no_main]

use std::sync::Arc;
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use slipring_netmap::{
    Adapter, AdapterRequest, CallerMemory, Cancel, Domain, Errno, MemoryParams, Netmap, Notify,
    OpenHandle, Opener, PollEvents, Provider,
};

const NIOCCTRL: u32 = 0xc058_6997;
const NIOCREGIF: u32 = 0xc03c_6992;
const NIOCGINFO: u32 = 0xc03c_6991;
const NIOCTXSYNC: u32 = 0x6994;
const NIOCRXSYNC: u32 = 0x6995;
const NIOCLEND: u32 = 0xc510_69a0;
const NIOCKICK: u32 = 0x69a1;
const NAMES: [&[u8]; 8] = [b"x{1", b"x}1", b"x", b"vale0:a", b"vale0:b", b"vale1:x", b"", b"y{2"];
/// Start of the caller's memory in its address space.
const BASE: u64 = 0x1000;

fuzz_target!(|data: &[u8]| {
    let params = MemoryParams {
        buf_num: 3000,
        ring_num: 40,
        domain_bytes: 128 << 20,
        ..MemoryParams::default()
    };
    let domain = Domain::new(0, params).expect("a small domain");
    let netmap = Netmap::new(Box::new(Nothing));
    let new = || {
        let opener = Opener { netns: 1, netns_fd: None, gids: Vec::new() };
        netmap.open(domain.clone(), opener, Arc::new(Deaf))
    };
    let mut opens: Vec<_> = (0..3).map(|_| new()).collect();
    let mut left = data;
    while let Some((&[op, which], rest)) = left.split_first_chunk() {
        let (words, rest) = rest.split_at(rest.len().min(160));
        left = rest;
        let i = usize::from(which) % opens.len();
        match op % 8 {
            0..=2 => control(&netmap, &opens[i], which, words),
            3 => old(&netmap, &opens[i], which, words),
            4 if which & 1 == 0 => {
                let mut argument = vec![0; 1296];
                argument[0] = 1;
                for cmd in [NIOCLEND, NIOCKICK] {
                    let _ = netmap.ioctl(&opens[i], cmd, &mut argument, &mut Memory(Vec::new()));
                }
            }
            4 => scribble(&domain, words),
            5 => opens[i] = new(),
            6 => {
                let _ = opens[i].poll(PollEvents(which.into()), Some(1), Duration::ZERO);
            }
            _ => {
                let cmd = [NIOCTXSYNC, NIOCRXSYNC, u32::from(which)][i];
                let _ = netmap.ioctl(&opens[i], cmd, &mut words.to_vec(), &mut Memory(Vec::new()));
            }
        }
    }
});

/// Performs a request with a header and a body. The version and the name are set to known values,
/// and in half of the cases the type is, too, because random bytes would hardly ever be valid.
fn control(netmap: &Netmap, open: &OpenHandle, which: u8, words: &[u8]) {
    let mut header = [0; 88];
    let given = words.len().min(24);
    header[64..64 + given].copy_from_slice(&words[..given]);
    header[..2].copy_from_slice(&14u16.to_le_bytes());
    header[2] = if which & 8 == 0 { 1 } else { which >> 4 };
    let name = NAMES[usize::from(words.first().copied().unwrap_or(0)) % NAMES.len()];
    header[8..8 + name.len()].copy_from_slice(name);
    header[72..80].fill(0);
    if which & 4 != 0 {
        header[72..80].copy_from_slice(&(BASE + 64).to_le_bytes());
    }
    header[80..88].copy_from_slice(&BASE.to_le_bytes());
    let mut memory = words.to_vec();
    memory.resize(512, 0);
    if which & 3 != 3 {
        // A bind that is likely to succeed: all rings, no flags.
        memory[36..40].copy_from_slice(&1u32.to_le_bytes());
        memory[48..56].fill(0);
        memory[32..34].fill(0);
    }
    let _ = netmap.ioctl(open, NIOCCTRL, &mut header, &mut Memory(memory));
}

fn old(netmap: &Netmap, open: &OpenHandle, which: u8, words: &[u8]) {
    let mut request = words.to_vec();
    request.resize(60, 0);
    if which & 1 != 0 {
        let name = NAMES[usize::from(which >> 4) % NAMES.len()];
        request[..16].fill(0);
        request[..name.len()].copy_from_slice(name);
        request[16..20].copy_from_slice(&14u32.to_le_bytes());
    }
    let cmd = if which & 2 == 0 { NIOCREGIF } else { NIOCGINFO };
    let _ = netmap.ioctl(open, cmd, &mut request, &mut Memory(Vec::new()));
}

/// Writes to a random position in the rings, which are near the start of a memory.
fn scribble(domain: &Domain, words: &[u8]) {
    let Some((at, bytes)) = words.split_first_chunk() else { return };
    let at = u64::from(u32::from_le_bytes(*at) % (4 << 20));
    let _ = rustix::io::pwrite(domain.file(), &bytes[..bytes.len().min(16)], at);
}

struct Memory(Vec<u8>);

impl Memory {
    fn range(&self, addr: u64, len: usize) -> Result<std::ops::Range<usize>, Errno> {
        let start = addr.checked_sub(BASE).ok_or(Errno::FAULT)? as usize;
        let end = start.checked_add(len).filter(|end| *end <= self.0.len());
        Ok(start..end.ok_or(Errno::FAULT)?)
    }
}

impl CallerMemory for Memory {
    fn read(&mut self, addr: u64, out: &mut [u8]) -> Result<(), Errno> {
        out.copy_from_slice(&self.0[self.range(addr, out.len())?]);
        Ok(())
    }

    fn write(&mut self, addr: u64, bytes: &[u8]) -> Result<(), Errno> {
        let range = self.range(addr, bytes.len())?;
        self.0[range].copy_from_slice(bytes);
        Ok(())
    }

    /// Returns a handle that is cancelled already, so that a sync loop ends after its first round.
    fn cancel(&self) -> Option<Arc<Cancel>> {
        let cancel = Arc::<Cancel>::default();
        cancel.cancel();
        Some(cancel)
    }
}

#[derive(Debug)]
struct Nothing;

impl Provider for Nothing {
    fn find(&self, _: &AdapterRequest<'_>) -> Result<Arc<dyn Adapter>, Errno> {
        Err(Errno::NXIO)
    }
}

struct Deaf;

impl Notify for Deaf {
    fn notify(&self, _: u64) {}
}
