//! Checks for rules of netfilter that apply to forwarded packets. XDP forwards a packet before
//! netfilter sees it, so the rules would have no effect.

use std::fs::{self, File};
use std::io::{self, Read};

use slipring_privileged::{HelperRequest, PrivilegedHelper};

use super::obstacle::{Obstacle, ObstacleKind};
use crate::dump::{attribute, be32, dump, text};

/// The netlink family `NETLINK_NETFILTER`.
pub(super) const FAMILY: isize = 12;
/// `NFNL_SUBSYS_NFTABLES << 8`, and `NFT_MSG_GETCHAIN`, `NFT_MSG_GETRULE` of
/// linux/netfilter/nf_tables.h.
const GET_CHAINS: u16 = 10 << 8 | 4;
const GET_RULES: u16 = 10 << 8 | 7;
/// `struct nfgenmsg`: family, version, resource.
pub(super) const NFGEN_LEN: usize = 4;
const CHAIN_TABLE: u16 = 1;
const CHAIN_NAME: u16 = 3;
const CHAIN_HOOK: u16 = 4;
const CHAIN_POLICY: u16 = 5;
const RULE_TABLE: u16 = 1;
const RULE_CHAIN: u16 = 2;
const HOOK_NUMBER: u16 = 1;
/// `NFPROTO_*` of families whose packets are routed: inet, ip, netdev, ip6.
const FAMILIES: [(u8, &str); 4] = [(1, "inet"), (2, "ip"), (5, "netdev"), (10, "ip6")];
const NETDEV: u8 = 5;
/// `NF_INET_LOCAL_IN` and `NF_INET_LOCAL_OUT`: hooks that forwarded packets do not pass.
const LOCAL_HOOKS: [u32; 2] = [1, 3];
const NF_DROP: u32 = 0;

/// A base chain, or the chain of a rule: family, table and name.
type ChainKey = (u8, String, String);

/// Finds base chains that forwarded packets would pass and that have rules or the policy drop.
///
/// # Errors
/// The kernel's error.
pub(super) fn nft_chains() -> io::Result<Vec<Obstacle>> {
    let Some(chains) = nft_dump(GET_CHAINS)? else { return Ok(Vec::new()) };
    let rules = nft_dump(GET_RULES)?.unwrap_or_default();
    let with_rules: Vec<_> =
        rules.iter().filter_map(|rule| key(rule, RULE_TABLE, RULE_CHAIN)).collect();
    // Rules of other chains matter only if a rule of a base chain jumps to them.
    let has_effect = |chain: &[u8]| {
        drops(chain)
            || key(chain, CHAIN_TABLE, CHAIN_NAME).is_some_and(|key| with_rules.contains(&key))
    };
    let passed = chains.iter().filter(|chain| sees_forwarded(chain) && has_effect(chain));
    Ok(passed.filter_map(|chain| obstacle(chain)).collect())
}

/// Returns the answers to a dump of nf_tables; `None` if the kernel does not have nf_tables.
fn nft_dump(request: u16) -> io::Result<Option<Vec<Vec<u8>>>> {
    match dump(FAMILY, request, &[0; NFGEN_LEN]) {
        Ok(answers) => Ok(Some(answers)),
        Err(error) if is_absent(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns whether an error means that the kernel does not have the requested object.
pub(super) fn is_absent(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let absent = [Errno::PROTONOSUPPORT, Errno::INVAL, Errno::OPNOTSUPP, Errno::NOENT];
    absent.iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

fn key(message: &[u8], table: u16, chain: u16) -> Option<ChainKey> {
    let attributes = message.get(NFGEN_LEN..)?;
    Some((
        *message.first()?,
        text(attribute(attributes, table)?),
        text(attribute(attributes, chain)?),
    ))
}

/// Whether forwarded packets pass this chain. They do if it is a base chain (it has a hook) of a
/// routed family, at a hook other than the local ones.
fn sees_forwarded(chain: &[u8]) -> bool {
    let family = chain.first().copied().unwrap_or_default();
    let hook = chain.get(NFGEN_LEN..).and_then(|attributes| attribute(attributes, CHAIN_HOOK));
    let number = hook.and_then(|hook| attribute(hook, HOOK_NUMBER)).and_then(be32);
    let is_routed = FAMILIES.iter().any(|(number, _)| *number == family);
    is_routed && number.is_some_and(|hook| family == NETDEV || !LOCAL_HOOKS.contains(&hook))
}

fn drops(chain: &[u8]) -> bool {
    let policy = chain.get(NFGEN_LEN..).and_then(|attributes| attribute(attributes, CHAIN_POLICY));
    policy.and_then(be32) == Some(NF_DROP)
}

fn obstacle(chain: &[u8]) -> Option<Obstacle> {
    let (family, table, name) = key(chain, CHAIN_TABLE, CHAIN_NAME)?;
    let family = FAMILIES.iter().find(|(number, _)| *number == family)?.1;
    Some(Obstacle {
        kind: ObstacleKind::Bypass,
        interface: None,
        what: format!("nftables chain {family} {table} {name} applies to forwarded packets"),
        show: format!("nft list chain {family} {table} {name}"),
    })
}

/// Finds tables of iptables-legacy, which netlink does not list. A table that was ever used is
/// listed, even if it is empty. If the file of tables exists but cannot be read, a table is
/// assumed. Only root may open the file, so `helper` opens it for a process of another user.
pub(super) fn legacy_tables(helper: Option<&PrivilegedHelper>) -> impl Iterator<Item = Obstacle> {
    let files = [
        ("iptables-legacy", "ip_tables_names", HelperRequest::OpenLegacyTables),
        ("ip6tables-legacy", "ip6_tables_names", HelperRequest::OpenLegacyTables6),
    ];
    files.into_iter().flat_map(move |(command, file, request)| {
        let found = |what: String, show: String| Obstacle {
            kind: ObstacleKind::Bypass,
            interface: None,
            what,
            show,
        };
        let names = match helper {
            Some(helper) => read_opened(helper, &request),
            None => fs::read_to_string(format!("/proc/thread-self/net/{file}")),
        };
        match names {
            Ok(names) => names
                .lines()
                .map(|table| {
                    let what = format!("{command} table {table} may apply to forwarded packets");
                    found(what, format!("{command}-save -t {table}"))
                })
                .collect(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => vec![found(
                format!("the tables of {command} cannot be listed: {error}"),
                format!("sudo {command}-save"),
            )],
        }
    })
}

/// Reads a file that the helper opens.
fn read_opened(helper: &PrivilegedHelper, request: &HelperRequest) -> io::Result<String> {
    let file = helper.request(request, None)?.ok_or(io::ErrorKind::InvalidData)?;
    let mut text = String::new();
    File::from(file).read_to_string(&mut text)?;
    Ok(text)
}
