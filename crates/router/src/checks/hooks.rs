//! BPF programs that BPF links have attached to hooks of netfilter; nft(8) does not list them.

use std::io;

use rustix::io::Errno;

use super::netfilter;
use super::obstacle::{Obstacle, ObstacleKind};
use crate::dump::{DumpSocket, attribute, be32, text};

/// `NFNL_SUBSYS_HOOK << 8 | NFNL_MSG_HOOK_GET` of linux/netfilter/nfnetlink_hook.h.
const GET_HOOKS: u16 = 12 << 8;
const HOOK_NUMBER: u16 = 1;
const FUNCTION_NAME: u16 = 4;
const CHAIN_INFO: u16 = 6;
const INFO_TYPE: u16 = 2;
/// `NFNL_HOOK_TYPE_BPF`.
const BPF: u32 = 2;
/// `NFPROTO_*` of the families that are routed.
const FAMILIES: [(u8, &str); 2] = [(2, "ip"), (10, "ip6")];
/// The hooks that forwarded packets pass: `NF_INET_PRE_ROUTING`, `NF_INET_FORWARD` and
/// `NF_INET_POST_ROUTING`.
const HOOKS: [(u32, &str); 3] = [(0, "prerouting"), (2, "forward"), (4, "postrouting")];

/// Polls for BPF programs at the netfilter hooks that forwarded packets pass. The kernel does not
/// announce changes of these programs. With an open socket, listing a hook costs only a few system
/// calls.
#[derive(Default)]
pub(crate) struct HookLister {
    socket: Option<DumpSocket>,
}

impl HookLister {
    /// Finds the programs that are attached now.
    ///
    /// # Errors
    /// The kernel's error. A kernel without `CONFIG_NETFILTER_NETLINK_HOOK` lists none.
    pub(super) fn find(&mut self) -> io::Result<Vec<Obstacle>> {
        // After an error, a new socket is opened, because the old one may still contain answers.
        let mut socket = match self.socket.take().map_or_else(open, |socket| Ok(Some(socket)))? {
            Some(socket) => socket,
            None => return Ok(Vec::new()),
        };
        let mut found = Vec::new();
        for family in FAMILIES {
            for hook in HOOKS {
                match socket.dump(GET_HOOKS, &request(family.0, hook.0)) {
                    Ok(entries) if entries.iter().any(|entry| is_bpf(entry)) => {
                        found.push(obstacle(family.1, hook.1));
                    }
                    // The kernel does not support this request. It has just tried to load a module
                    // that does.
                    Err(error) if is_unknown(&error) => break,
                    Err(error) if !netfilter::is_absent(&error) => return Err(error),
                    Ok(_) | Err(_) => {}
                }
            }
        }
        self.socket = Some(socket);
        Ok(found)
    }
}

/// Opens the socket; `None` if the kernel does not have netfilter.
fn open() -> io::Result<Option<DumpSocket>> {
    match DumpSocket::open(netfilter::FAMILY) {
        Ok(socket) => Ok(Some(socket)),
        Err(error) if netfilter::is_absent(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether the error means that the kernel does not support requests of this kind.
fn is_unknown(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::INVAL)
}

/// `struct nfgenmsg` and the number of the hook.
fn request(family: u8, hook: u32) -> Vec<u8> {
    let mut body = vec![family, 0, 0, 0];
    body.extend(8_u16.to_ne_bytes());
    body.extend(HOOK_NUMBER.to_ne_bytes());
    body.extend(hook.to_be_bytes());
    body
}

/// Whether an entry is a BPF program, by its type or by the name of its function.
fn is_bpf(entry: &[u8]) -> bool {
    let Some(attributes) = entry.get(netfilter::NFGEN_LEN..) else { return false };
    let info = attribute(attributes, CHAIN_INFO);
    let kind = info.and_then(|info| attribute(info, INFO_TYPE)).and_then(be32);
    let function = attribute(attributes, FUNCTION_NAME).map(text);
    kind == Some(BPF) || function.is_some_and(|name| name == "nf_hook_run_bpf")
}

fn obstacle(family: &str, hook: &str) -> Obstacle {
    Obstacle {
        kind: ObstacleKind::Bypass,
        interface: None,
        what: format!("a BPF program at the netfilter hook {family} {hook} sees forwarded packets"),
        show: "bpftool net show".into(),
    }
}

#[cfg(test)]
mod tests {
    use slipring_test_support::Namespace;

    use super::*;

    /// An attribute with its padding.
    fn with(kind: u16, value: &[u8]) -> Vec<u8> {
        let mut bytes = (4 + value.len() as u16).to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn entry(attributes: &[Vec<u8>]) -> Vec<u8> {
        [vec![2, 0, 0, 0], attributes.concat()].concat()
    }

    #[test]
    fn a_hook_is_a_program_by_its_type_or_its_function() {
        let info = |kind: u32| with(CHAIN_INFO, &with(INFO_TYPE, &kind.to_be_bytes()));
        let function = |name: &[u8]| with(FUNCTION_NAME, name);
        assert!(is_bpf(&entry(&[function(b"nf_hook_run_bpf\0")])));
        assert!(is_bpf(&entry(&[function(b"other\0"), info(BPF)])));
        assert!(!is_bpf(&entry(&[function(b"nft_do_chain\0"), info(1)])), "nft lists its chains");
        assert!(!is_bpf(&entry(&[function(b"nf_conntrack_in\0")])));
        assert!(!is_bpf(&[2]));
    }

    #[test]
    fn looks_share_one_socket() {
        let Some(namespace) = Namespace::new() else { return };
        namespace.run(|| {
            let mut hooks = HookLister::default();
            assert_eq!(hooks.find().unwrap(), []);
            let first = hooks.socket.as_ref().map(DumpSocket::descriptor);
            assert_eq!(hooks.find().unwrap(), []);
            assert_eq!(hooks.socket.as_ref().map(DumpSocket::descriptor), first);
        });
    }
}
