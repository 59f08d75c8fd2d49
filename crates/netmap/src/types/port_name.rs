//! Port names: their grammar for switches, and the kind of port that a name denotes.

use rustix::io::Errno;

/// The maximum length of a port name within its switch, in bytes.
pub(crate) const MAX_NAME_LEN: usize = 15;

/// Inode number of a network namespace, and a name in it.
pub(crate) type PortKey = (u64, String);

/// A kind of port, as access rules distinguish them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PortKind {
    /// A network interface, or its host rings. A name that no port has also counts as an interface.
    Interface,
    /// One end of a pipe.
    Pipe,
    /// A port of a switch, or a persistent port, which can be attached to switches.
    Switch,
    /// A null port, which only gives access to a memory.
    Null,
}

impl PortKind {
    /// Returns the kind for a name. Like netmap, it takes every name that begins with `vale` for a
    /// switch port, unless `{` or `}` makes the name that of a pipe end. The name of a persistent
    /// port looks like an interface's name, so the result is `Interface`.
    #[must_use]
    pub fn of_name(name: &str) -> Self {
        match name {
            _ if name.contains(['{', '}']) => Self::Pipe,
            _ if is_vale(name) => Self::Switch,
            _ => Self::Interface,
        }
    }
}

/// Returns whether a name begins as those of switches and switch ports do.
pub(crate) fn is_vale(name: &str) -> bool {
    name.starts_with("vale")
}

/// Splits a name such as `vale0:a` into switch and port.
pub(crate) fn split(name: &str) -> Result<(&str, &str), Errno> {
    let (switch, port) = name.split_once(':').ok_or(Errno::INVAL)?;
    let is_id = switch.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    // The name of a vhost port contains a path, so it may be longer.
    let fits = !port.is_empty() && (port.len() <= MAX_NAME_LEN || port.starts_with("vhost"));
    if is_vale(switch) && is_id && fits { Ok((switch, port)) } else { Err(Errno::INVAL) }
}
