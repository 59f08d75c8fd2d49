//! Port names: their grammar for switches, and the kind of port that a name denotes.

use rustix::io::Errno;

/// The longest name of a port within its switch.
pub(crate) const MAX_NAME_LEN: usize = 15;

/// A network namespace, and a name in it.
pub(crate) type PortKey = (u64, String);

/// A kind of port, as rules about them know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PortKind {
    /// A network interface, or its host rings; also a name that nothing has.
    Interface,
    /// One end of a pipe.
    Pipe,
    /// A port of a switch, or one that can be attached to switches: a persistent one.
    Switch,
    /// A way to memory only.
    Null,
}

impl PortKind {
    /// That of a port that has this name; netmap, too, takes what begins with `vale` for a
    /// switch's. Persistent ports look like interfaces.
    #[must_use]
    pub fn of_name(name: &str) -> Self {
        match name {
            _ if name.contains(['{', '}']) => Self::Pipe,
            _ if is_vale(name) => Self::Switch,
            _ => Self::Interface,
        }
    }
}

/// Whether a name is for a switch's port.
pub(crate) fn is_vale(name: &str) -> bool {
    name.starts_with("vale")
}

/// Switch and port of a name such as `vale0:a`.
pub(crate) fn split(name: &str) -> Result<(&str, &str), Errno> {
    let (switch, port) = name.split_once(':').ok_or(Errno::INVAL)?;
    let is_id = switch.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    // What is named by a path is as long as that is.
    let fits = !port.is_empty() && (port.len() <= MAX_NAME_LEN || port.starts_with("vhost"));
    if is_vale(switch) && is_id && fits { Ok((switch, port)) } else { Err(Errno::INVAL) }
}
