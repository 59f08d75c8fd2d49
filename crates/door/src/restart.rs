//! What a store has of a device whose server was killed, and the server that goes on with it.
//!
//! ```text
//!   name in the store        what
//!   fuse                     the connection; the mount lives by it
//!   device                   a page: how many servers there were, and when the last ones started
//!   netns-INODE              a network namespace that somebody opened the device in
//!   memory-UID, ledger-UID   a user's domain (slipring-netmap)
//! ```
//!
//! Requests that the killed server had read and not answered come again (`FUSE_NOTIFY_RESEND`). Each
//! may have been performed already: syncs and polls may be performed twice, opens and requests are
//! known by the number of their call, a close of what is closed is one.

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::time::ClockId;
use slipring_netmap::{Left, Netmap, Notify, Refused, Store, ledger_name, memory_name};

use crate::mount::Mount;
use crate::namespaces::KEPT;
use crate::reply::Connection;
use crate::server::Server;
use crate::uring::{Held, Uring};
use crate::{Config, DoorError, handshake, proto};

const FUSE: &str = "fuse";
const DEVICE: &str = "device";
const MEMORY: &str = "memory-";

/// How a device with a store began.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Anew: there was nothing to go on with.
    New,
    /// With the files that programs had open.
    Resumed {
        /// How many.
        files: usize,
        /// How many of them have a port bound that did not outlive the restart.
        lost: usize,
        /// Slots of frames that programs had queued on interfaces, and of which nobody knows whether
        /// they were sent.
        unsent: u64,
    },
    /// Anew, though there was something to go on with.
    Refused(String),
}

/// A server, old or new, and its mount.
pub(crate) fn start(
    config: &Config,
    netmap: Netmap,
    store: &Arc<dyn Store>,
    handed: Vec<(String, OwnedFd)>,
) -> Result<(Server, Mount, Outcome), DoorError> {
    let names: Vec<_> = handed.iter().map(|(name, _)| name.clone()).collect();
    let mut handed: HashMap<_, _> = handed.into_iter().collect();
    let mut outcome = Outcome::New;
    if let Some(device) = handed.remove(FUSE) {
        let netmap = netmap.sibling();
        match resume(config, netmap, store, device, handed) {
            Ok((server, outcome)) => return Ok((server, Mount::adopt(&config.dir), outcome)),
            Err(Refused(why)) => outcome = Outcome::Refused(why),
        }
        Mount::abort(&config.dir);
    }
    names.iter().for_each(|name| store.forget(name));
    let (mount, device) = Mount::new(&config.dir)?;
    let connection = Arc::new(Connection(device));
    // The kernel gives up what a ring has under way when its process ends.
    handshake::agree(&connection, Uring::Off, &Held::as_wanted(Uring::Off)?)?;
    let page = Page::new().map_err(DoorError::step("make a page for what is kept"))?;
    store.keep(DEVICE, page.0.as_fd());
    store.keep(FUSE, connection.0.as_fd());
    let server = Server::over(connection, config, netmap, config.readers(), 0, Some(store.clone()));
    Ok((server, mount, outcome))
}

/// Takes what is kept out of the store.
pub(crate) fn forget(store: &dyn Store, server: &Server) {
    for domain in server.domains() {
        store.forget(&memory_name(domain.uid()));
        store.forget(&ledger_name(domain.uid()));
    }
    server.parts().namespaces.forget_all();
    store.forget(DEVICE);
    store.forget(FUSE);
}

fn resume(
    config: &Config,
    netmap: Netmap,
    store: &Arc<dyn Store>,
    device: OwnedFd,
    mut handed: HashMap<String, OwnedFd>,
) -> Result<(Server, Outcome), Refused> {
    let page = handed.remove(DEVICE).map(Page).ok_or_else(|| refused("there is no page"))?;
    let base = page.next()?;
    store.keep(DEVICE, page.0.as_fd());
    let (connection, store_too) = (Arc::new(Connection(device)), Some(store.clone()));
    let server = Server::over(connection, config, netmap, config.readers(), base, store_too);
    let parts = server.parts();
    let namespaces: HashMap<_, _> = handed
        .extract_if(|name, _| name.starts_with(KEPT))
        .filter_map(|(_, namespace)| parts.namespaces.adopt(namespace, 0))
        .collect();
    let notify: Arc<dyn Notify> = parts.connection.clone();
    let (mut files, mut lost, mut unsent) = (0, 0, 0);
    for left in domains(handed) {
        if left.is_blank() {
            // Nobody was ever told of it.
            store.forget(&memory_name(left.uid));
            store.forget(&ledger_name(left.uid));
            continue;
        }
        let namespace = |inode| namespaces.get(&inode).cloned();
        let store = Some(store.clone());
        let resumed = parts.netmap.resume(left, &config.parameters, store, &namespace, &notify)?;
        let opens = resumed.opens.len();
        files += opens;
        lost += resumed.lost;
        unsent += resumed.unsent;
        for open in resumed.opens {
            let handle = open.ticket().map_or(0, |ticket| ticket.handle);
            parts.files.put(handle, open);
        }
        parts.nodes.adopt(resumed.domain, opens);
    }
    drop(namespaces);
    parts.namespaces.sweep();
    // Before anybody reads, so that these come before what is new.
    rustix::io::write(&parts.connection.0, &proto::notify_resend())
        .map_err(|error| refused(&format!("the kernel sends no request again: {error}")))?;
    Ok((server, Outcome::Resumed { files, lost, unsent }))
}

/// Users of whom there is both.
fn domains(mut handed: HashMap<String, OwnedFd>) -> Vec<Left> {
    let uids: Vec<u32> =
        handed.keys().filter_map(|name| name.strip_prefix(MEMORY)?.parse().ok()).collect();
    let mut left = |uid| {
        let (memory, ledger) =
            (handed.remove(&memory_name(uid))?, handed.remove(&ledger_name(uid))?);
        Some(Left { uid, memory, ledger })
    };
    uids.into_iter().filter_map(&mut left).collect()
}

fn refused(what: &str) -> Refused {
    Refused(what.to_owned())
}

/// What is known of the servers of one device.
struct Page(OwnedFd);

/// Servers in a row that may end within [`SOON`] before what they had is taken for the reason.
const STARTS: usize = 10;
/// In seconds.
const SOON: u64 = 10;
const MAGIC: u64 = u64::from_le_bytes(*b"device 1");
/// The magic, how many servers there were, and when the last of them started.
const WORDS: usize = 2 + STARTS;
/// Numbers of nodes and files that one server may give.
const SPAN: u32 = 40;

impl Page {
    fn new() -> Result<Self, rustix::io::Errno> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let page = rustix::fs::memfd_create("slipring-device", flags)?;
        rustix::fs::ftruncate(&page, 8 * WORDS as u64)?;
        rustix::fs::fcntl_add_seals(&page, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let page = Self(page);
        let mut words = [0; WORDS];
        words[0] = MAGIC;
        page.write(&words)?;
        Ok(page)
    }

    /// One more server: where the numbers that it gives begin.
    fn next(&self) -> Result<u64, Refused> {
        let mut words = self.read().ok_or_else(|| refused("the page is none"))?;
        let now = boot_seconds();
        let started = &mut words[2..];
        started.rotate_right(1);
        let oldest = std::mem::replace(&mut started[0], now);
        words[1] += 1;
        self.write(&words).map_err(|error| refused(&format!("the page: {error}")))?;
        if oldest != 0 && now.saturating_sub(oldest) < SOON {
            return Err(refused(&format!("{STARTS} servers have ended within {SOON} seconds")));
        }
        Ok(words[1] << SPAN)
    }

    fn read(&self) -> Option<[u64; WORDS]> {
        let mut bytes = [0; 8 * WORDS];
        let read = rustix::io::pread(&self.0, &mut bytes, 0).ok()?;
        let mut words = [0; WORDS];
        for (word, bytes) in words.iter_mut().zip(bytes.as_chunks().0) {
            *word = u64::from_ne_bytes(*bytes);
        }
        (read == bytes.len() && words[0] == MAGIC && words[1] < 1 << 20).then_some(words)
    }

    fn write(&self, words: &[u64; WORDS]) -> Result<(), rustix::io::Errno> {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        rustix::io::pwrite(&self.0, &bytes, 0).map(|_| ())
    }
}

fn boot_seconds() -> u64 {
    // Never 0, which stands for none.
    rustix::time::clock_gettime(ClockId::Boottime).tv_sec as u64 + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_server_gives_numbers_of_its_own_until_too_many_end_too_soon() {
        let page = Page::new().unwrap();
        let bases: Vec<_> = (0..STARTS).map(|_| page.next().unwrap()).collect();
        assert!(bases.windows(2).all(|pair| pair[0] + (1 << SPAN) == pair[1]), "{bases:?}");
        let why = page.next().unwrap_err().to_string();
        assert_eq!(why, "10 servers have ended within 10 seconds");
    }

    #[test]
    fn what_is_no_page_is_refused() {
        let flags = MemfdFlags::CLOEXEC;
        let page = Page(rustix::fs::memfd_create("none", flags).unwrap());
        assert!(page.next().is_err());
        page.write(&[7; WORDS]).unwrap();
        assert!(page.next().is_err());
    }
}
