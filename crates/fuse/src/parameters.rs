//! `parameters/` next to the device. It has one file per module parameter, with netmap's names.
//!
//! All users may read the files, and root may write those that are not read-only. The node numbers
//! are fixed. The directory has the first number, and the parameters have the numbers after it.

use std::sync::Arc;

use slipring_netmap::{Errno, PARAMETERS, ParameterEffect, Parameters};

use crate::proto::{self, DIRENT_DIR, DIRENT_REG, FuseAttr, FuseRequest, S_IFDIR, S_IFREG, opcode};

/// The directory's name.
pub(crate) const DIRECTORY_NAME: &str = "parameters";
/// The directory's node number.
pub(crate) const DIRECTORY_NODE: u64 = proto::ROOT_NODE + 1;
/// The first node number after the node numbers of the parameters.
pub(crate) const FIRST_FREE_NODE: u64 = DIRECTORY_NODE + 1 + PARAMETERS.len() as u64;

/// The size in bytes that the files have in listings. It is more than any value needs.
const MAX_VALUE_LEN: u64 = 32;

/// Returns whether a node is the directory or a file in it.
pub(crate) fn is_parameter_node(node: u64) -> bool {
    (DIRECTORY_NODE..FIRST_FREE_NODE).contains(&node)
}

/// The directory and its files.
#[derive(Debug)]
pub(crate) struct ParameterTree(Arc<Parameters>);

impl ParameterTree {
    pub(crate) fn new(parameters: Arc<Parameters>) -> Self {
        Self(parameters)
    }

    pub(crate) fn directory(&self) -> FuseAttr {
        FuseAttr { node: DIRECTORY_NODE, size: 0, mode: S_IFDIR | 0o755, uid: 0, gid: 0 }
    }

    /// Performs a request for the directory or one of its files. Returns the body of the reply.
    pub(crate) fn answer(&self, message: FuseRequest<'_>) -> Result<Vec<u8>, Errno> {
        let body = message.body();
        match message.opcode() {
            opcode::GETATTR => Ok(self.attr(message.node()).answer()),
            // A program may truncate a file when it opens it for writing. This has no effect,
            // because a parameter has no length of its own.
            opcode::SETATTR if body.u32(0) & !proto::SET_HARMLESS == 0 => {
                Ok(self.attr(message.node()).answer())
            }
            opcode::SETATTR => Err(Errno::PERM),
            opcode::LOOKUP => self.look_up(body.name()),
            opcode::OPENDIR => Ok(proto::open_out(0, None)),
            opcode::READDIR => Ok(list(body.u64(8))),
            opcode::OPEN => Ok(proto::open_direct()),
            opcode::READ => self.read(message.node(), body.u64(8), body.u32(16)),
            opcode::WRITE => self.write(message.node(), body.bytes_from(40), body.u32(16)),
            opcode::RELEASEDIR => Ok(Vec::new()),
            _ => Err(Errno::NOSYS),
        }
    }

    fn attr(&self, node: u64) -> FuseAttr {
        let Some(i) = index(node) else { return self.directory() };
        let writable = PARAMETERS[i].effect != ParameterEffect::ReadOnly;
        let mode = S_IFREG | if writable { 0o644 } else { 0o444 };
        FuseAttr { node, size: MAX_VALUE_LEN, mode, uid: 0, gid: 0 }
    }

    fn look_up(&self, name: &[u8]) -> Result<Vec<u8>, Errno> {
        let at = PARAMETERS.iter().position(|one| one.name.as_bytes() == name);
        Ok(self.attr(node(at.ok_or(Errno::NOENT)?)).entry())
    }

    fn read(&self, node: u64, from: u64, len: u32) -> Result<Vec<u8>, Errno> {
        let one = &PARAMETERS[index(node).ok_or(Errno::ISDIR)?];
        let text = format!("{}\n", self.0.get(one.name).unwrap_or_default());
        let from = text.len().min(from as usize);
        Ok(text.as_bytes()[from..].iter().copied().take(len as usize).collect())
    }

    fn write(&self, node: u64, bytes: &[u8], len: u32) -> Result<Vec<u8>, Errno> {
        let one = &PARAMETERS[index(node).ok_or(Errno::ISDIR)?];
        let text = bytes.get(..len as usize).ok_or(Errno::INVAL)?;
        let text = str::from_utf8(text).map_err(|_| Errno::INVAL)?.trim();
        // The value is parsed like the kernel's own parameters. So a boolean may be a letter.
        let value = match text {
            "Y" | "y" => 1,
            "N" | "n" => 0,
            number => number.parse().map_err(|_| Errno::INVAL)?,
        };
        self.0.set(one.name, value)?;
        Ok(proto::write_out(len))
    }
}

fn node(index: usize) -> u64 {
    DIRECTORY_NODE + 1 + index as u64
}

/// Returns the index of the parameter whose file has this node number.
fn index(node: u64) -> Option<usize> {
    node.checked_sub(DIRECTORY_NODE + 1).map(|i| i as usize).filter(|&i| i < PARAMETERS.len())
}

/// Lists the directory from entry `from` on. Returns as many entries as fit in one reply.
fn list(from: u64) -> Vec<u8> {
    let dots = [(DIRECTORY_NODE, DIRENT_DIR, "."), (proto::ROOT_NODE, DIRENT_DIR, "..")];
    let files = PARAMETERS.iter().enumerate().map(|(i, one)| (node(i), DIRENT_REG, one.name));
    let entries = dots.into_iter().chain(files).zip(1u64..).skip(from as usize);
    let mut bytes = Vec::new();
    for ((node, kind, name), next) in entries {
        let entry = proto::dirent(node, next, kind, name);
        if bytes.len() + entry.len() > proto::MIN_READDIR_BYTES {
            break;
        }
        bytes.extend(entry);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use slipring_netmap::MemoryParams;

    use super::*;

    fn tree() -> ParameterTree {
        ParameterTree::new(Parameters::new(&MemoryParams::default()))
    }

    fn node_of(name: &str) -> u64 {
        node(PARAMETERS.iter().position(|one| one.name == name).unwrap())
    }

    #[test]
    fn a_value_is_read_and_written_as_text() {
        let (tree, node) = (tree(), node_of("generic_ringsize"));
        assert_eq!(tree.read(node, 0, 100).unwrap(), b"1024\n");
        assert_eq!(tree.read(node, 2, 2).unwrap(), b"24");
        assert_eq!(tree.read(node, 900, 2).unwrap(), b"");
        tree.write(node, b"256\n", 4).unwrap();
        assert_eq!(tree.read(node, 0, 100).unwrap(), b"256\n");
        tree.write(node_of("no_timestamp"), b"Y", 1).unwrap();
        assert_eq!(tree.read(node_of("no_timestamp"), 0, 100).unwrap(), b"1\n");
    }

    #[test]
    fn what_is_no_value_is_refused() {
        let (tree, node) = (tree(), node_of("buf_size"));
        for text in ["", "many", "2047", "-1", "99999999999999999999", "\u{e9}"] {
            let len = text.len() as u32;
            assert_eq!(tree.write(node, text.as_bytes(), len), Err(Errno::INVAL), "{text}");
        }
        assert_eq!(tree.write(node, b"2048", 100), Err(Errno::INVAL));
        assert_eq!(tree.write(node_of("buf_curr_num"), b"5", 1), Err(Errno::PERM));
        assert_eq!(tree.write(DIRECTORY_NODE, b"5", 1), Err(Errno::ISDIR));
    }

    #[test]
    fn the_list_can_be_read_in_parts() {
        let all = list(0);
        assert!(all.len() <= proto::MIN_READDIR_BYTES);
        assert!(list(PARAMETERS.len() as u64 + 2).is_empty());
        assert!(list(u64::MAX).is_empty());
    }
}
