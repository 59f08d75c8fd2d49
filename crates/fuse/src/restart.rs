//! Keeps the state of a device in a store of descriptors. After the server of the device was
//! killed, the next one continues with the state in the store.
//!
//! ```text
//!   name in the store        contents
//!   fuse                     the connection; it keeps the mount alive
//!   device                   a page: number of restarts so far, and when the last ones were
//!   netns-INODE              a network namespace in which a user opened the device
//!   memory-UID, ledger-UID   a user's domain (slipring-netmap)
//! ```
//!
//! When the server is killed, it may have read requests that it has not answered. The kernel sends
//! them again (`FUSE_NOTIFY_RESEND`). Each of them may already have been performed. Syncs and polls
//! may be performed twice. Opens and ioctls are recognised by their call number. Closing a closed
//! file has no effect.

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::time::ClockId;
use slipring_netmap::{
    FdStore, Netmap, Notify, RecoveredDomain, ResumeError, ledger_name, memory_name,
};

use crate::config::FuseConfig;
use crate::error::FuseError;
use crate::mount::Mount;
use crate::namespaces::STORE_PREFIX;
use crate::reply::FuseConnection;
use crate::server::{FuseServer, PersistentParts};
use crate::uring::{UringMode, UringParameterGuard};
use crate::{handshake, proto};

const FUSE_FD_NAME: &str = "fuse";
const PAGE_FD_NAME: &str = "device";
const MEMORY_FD_PREFIX: &str = "memory-";

/// How a device with a store has started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResumeOutcome {
    /// The device starts empty, because the store had nothing to continue with.
    New,
    /// The device continues with the files that programs had open.
    Resumed {
        /// Number of these files.
        files: usize,
        /// Number of those files whose bound port is lost.
        lost: usize,
        /// Number of slots with frames that programs had queued on interfaces. It is not known
        /// whether these frames were sent.
        unsent: u64,
    },
    /// The device starts empty, although the store had something to continue with. The value is the
    /// reason.
    Refused(String),
}

/// Returns a server that continues with the store or starts empty, and its mount.
pub(crate) fn start(
    config: &FuseConfig,
    netmap: Netmap,
    store: &Arc<dyn FdStore>,
    handed: Vec<(String, OwnedFd)>,
) -> Result<(FuseServer, Mount, ResumeOutcome), FuseError> {
    let names: Vec<_> = handed.iter().map(|(name, _)| name.clone()).collect();
    let mut handed: HashMap<_, _> = handed.into_iter().collect();
    let mut outcome = ResumeOutcome::New;
    if let Some(device) = handed.remove(FUSE_FD_NAME) {
        let netmap = netmap.sibling();
        match resume(config, netmap, store, device, handed) {
            Ok((server, outcome)) => return Ok((server, Mount::adopt(&config.dir), outcome)),
            Err(ResumeError(why)) => outcome = ResumeOutcome::Refused(why),
        }
        Mount::abort(&config.dir);
    }
    names.iter().for_each(|name| store.remove(name));
    let (mount, device) = Mount::new(&config.dir)?;
    let connection = Arc::new(FuseConnection(device));
    // io_uring is not used, because the kernel cancels the requests in an io_uring when its process
    // ends.
    handshake::negotiate(
        &connection,
        UringMode::Off,
        &UringParameterGuard::apply(UringMode::Off)?,
    )?;
    let page = RestartPage::new().map_err(FuseError::step("make a page for what is kept"))?;
    store.store(PAGE_FD_NAME, page.0.as_fd());
    store.store(FUSE_FD_NAME, connection.0.as_fd());
    let server = FuseServer::new_agreed(
        connection,
        config,
        netmap,
        config.readers(),
        0,
        Some(store.clone()),
    );
    Ok((server, mount, outcome))
}

/// Removes everything that the server put into the store.
pub(crate) fn remove_from_store(store: &dyn FdStore, server: &FuseServer) {
    for domain in server.domains() {
        store.remove(&memory_name(domain.uid()));
        store.remove(&ledger_name(domain.uid()));
    }
    server.parts().namespaces.forget_all();
    store.remove(PAGE_FD_NAME);
    store.remove(FUSE_FD_NAME);
}

fn resume(
    config: &FuseConfig,
    netmap: Netmap,
    store: &Arc<dyn FdStore>,
    device: OwnedFd,
    mut handed: HashMap<String, OwnedFd>,
) -> Result<(FuseServer, ResumeOutcome), ResumeError> {
    let page = handed
        .remove(PAGE_FD_NAME)
        .map(RestartPage)
        .ok_or_else(|| resume_error("there is no page"))?;
    let base = page.next()?;
    store.store(PAGE_FD_NAME, page.0.as_fd());
    let (connection, store_too) = (Arc::new(FuseConnection(device)), Some(store.clone()));
    let server =
        FuseServer::new_agreed(connection, config, netmap, config.readers(), base, store_too);
    let parts = server.parts();
    let namespaces: HashMap<_, _> = handed
        .extract_if(|name, _| name.starts_with(STORE_PREFIX))
        .filter_map(|(_, namespace)| parts.namespaces.adopt(namespace, 0))
        .collect();
    let domains = recovered_domains(handed);
    let resumed = resume_domains(domains, config, store, server.parts(), &namespaces)?;
    drop(namespaces);
    parts.namespaces.remove_closed();
    // This message is sent before any worker reads, so that the requests that are sent again come
    // before new ones.
    rustix::io::write(&parts.connection.0, &proto::notify_resend())
        .map_err(|error| resume_error(&format!("the kernel sends no request again: {error}")))?;
    Ok((server, resumed))
}

/// Continues with the domains of all users and their open files. Returns
/// [`ResumeOutcome::Resumed`].
fn resume_domains(
    domains: Vec<RecoveredDomain>,
    config: &FuseConfig,
    store: &Arc<dyn FdStore>,
    parts: PersistentParts<'_>,
    namespaces: &HashMap<u64, Arc<OwnedFd>>,
) -> Result<ResumeOutcome, ResumeError> {
    let notify: Arc<dyn Notify> = parts.connection.clone();
    let (mut files, mut lost, mut unsent) = (0, 0, 0);
    for recovered in domains {
        if recovered.is_blank() {
            // This domain was never used, and no client knows it, so its memory is freed.
            store.remove(&memory_name(recovered.uid));
            store.remove(&ledger_name(recovered.uid));
            continue;
        }
        let namespace = |inode| namespaces.get(&inode).cloned();
        let store = Some(store.clone());
        let resumed =
            parts.netmap.resume(recovered, &config.parameters, store, &namespace, &notify)?;
        let opens = resumed.opens.len();
        files += opens;
        lost += resumed.lost;
        unsent += resumed.unsent;
        for open in resumed.opens {
            let handle = open.open_id().map_or(0, |open_id| open_id.handle);
            parts.files.insert(handle, open);
        }
        parts.nodes.adopt(resumed.domain, opens);
    }
    Ok(ResumeOutcome::Resumed { files, lost, unsent })
}

/// Returns the domains of those users whose memory and ledger are both in the store.
fn recovered_domains(mut handed: HashMap<String, OwnedFd>) -> Vec<RecoveredDomain> {
    let uids: Vec<u32> = handed
        .keys()
        .filter_map(|name| name.strip_prefix(MEMORY_FD_PREFIX)?.parse().ok())
        .collect();
    let mut recovered = |uid| {
        let (memory, ledger) =
            (handed.remove(&memory_name(uid))?, handed.remove(&ledger_name(uid))?);
        Some(RecoveredDomain { uid, memory, ledger })
    };
    uids.into_iter().filter_map(&mut recovered).collect()
}

fn resume_error(what: &str) -> ResumeError {
    ResumeError(what.to_owned())
}

/// The page `device` in the store. It counts the restarts of the device's server.
struct RestartPage(OwnedFd);

/// Maximum number of restarts within [`RESTART_WINDOW_SECS`]. If there are more, the state in the
/// store is assumed to be the cause.
const MAX_RECENT_STARTS: usize = 10;
/// The period in seconds in which more than [`MAX_RECENT_STARTS`] starts are too many.
const RESTART_WINDOW_SECS: u64 = 10;
const MAGIC: u64 = u64::from_le_bytes(*b"device 1");
/// The words of the page: a magic number, the number of restarts, and the times of the last ones.
const PAGE_WORDS: usize = 2 + MAX_RECENT_STARTS;
/// Binary logarithm of how many node and file numbers one server can use.
const NUMBERS_PER_SERVER_LOG2: u32 = 40;

impl RestartPage {
    fn new() -> Result<Self, rustix::io::Errno> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let page = rustix::fs::memfd_create("slipring-device", flags)?;
        rustix::fs::ftruncate(&page, 8 * PAGE_WORDS as u64)?;
        rustix::fs::fcntl_add_seals(&page, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let page = Self(page);
        let mut words = [0; PAGE_WORDS];
        words[0] = MAGIC;
        page.write(&words)?;
        Ok(page)
    }

    /// Records that one more server starts. Returns the number above which its node and file
    /// numbers start.
    fn next(&self) -> Result<u64, ResumeError> {
        let mut words = self.read().ok_or_else(|| resume_error("the page is none"))?;
        let now = boot_seconds();
        let started = &mut words[2..];
        started.rotate_right(1);
        let oldest = std::mem::replace(&mut started[0], now);
        words[1] += 1;
        self.write(&words).map_err(|error| resume_error(&format!("the page: {error}")))?;
        if oldest != 0 && now.saturating_sub(oldest) < RESTART_WINDOW_SECS {
            return Err(resume_error(&format!(
                "{MAX_RECENT_STARTS} servers have ended within {RESTART_WINDOW_SECS} seconds"
            )));
        }
        Ok(words[1] << NUMBERS_PER_SERVER_LOG2)
    }

    fn read(&self) -> Option<[u64; PAGE_WORDS]> {
        let mut bytes = [0; 8 * PAGE_WORDS];
        let read = rustix::io::pread(&self.0, &mut bytes, 0).ok()?;
        let mut words = [0; PAGE_WORDS];
        for (word, bytes) in words.iter_mut().zip(bytes.as_chunks().0) {
            *word = u64::from_ne_bytes(*bytes);
        }
        (read == bytes.len() && words[0] == MAGIC && words[1] < 1 << 20).then_some(words)
    }

    fn write(&self, words: &[u64; PAGE_WORDS]) -> Result<(), rustix::io::Errno> {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        rustix::io::pwrite(&self.0, &bytes, 0).map(|_| ())
    }
}

fn boot_seconds() -> u64 {
    // 1 is added, because 0 means that there was no start.
    rustix::time::clock_gettime(ClockId::Boottime).tv_sec as u64 + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_server_gives_numbers_of_its_own_until_too_many_end_too_soon() {
        let page = RestartPage::new().unwrap();
        let bases: Vec<_> = (0..MAX_RECENT_STARTS).map(|_| page.next().unwrap()).collect();
        assert!(
            bases.windows(2).all(|pair| pair[0] + (1 << NUMBERS_PER_SERVER_LOG2) == pair[1]),
            "{bases:?}"
        );
        let why = page.next().unwrap_err().to_string();
        assert_eq!(why, "10 servers have ended within 10 seconds");
    }

    #[test]
    fn what_is_no_page_is_refused() {
        let flags = MemfdFlags::CLOEXEC;
        let page = RestartPage(rustix::fs::memfd_create("none", flags).unwrap());
        assert!(page.next().is_err());
        page.write(&[7; PAGE_WORDS]).unwrap();
        assert!(page.next().is_err());
    }
}
