//! Converts between a [`PortName`] and the request that binds the port.

use alloc::format;
use alloc::string::{String, ToString};
use core::num::{NonZeroU16, NonZeroU32};

use super::{
    ConfSpec, MemId, MemorySource, NameForm, PipeEndName, PipeRole, PortName, PortNameFlags,
    PortNameKind, RingSelection,
};
use crate::request::{
    NETMAP_REQ_IFNAMSIZ, NETMAP_REQ_REGISTER, NR_REG_ALL_NIC, NR_REG_NIC_SW, NR_REG_ONE_NIC,
    NR_REG_ONE_SW, NR_REG_SW, NmreqHeader, NmreqRegister,
};
use crate::ring::NETMAP_API;

/// Why a request does not name a port.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// `nr_name`, up to its NUL, is empty or is not UTF-8.
    #[error("the request has no readable name")]
    Unreadable,
    /// `nr_name`, given here, is not a valid port name.
    #[error("the request names no port: {0:?}")]
    NoPort(String),
    /// This value of `nr_mode` selects a set of rings that no name can express.
    #[error("mode {0} has no name")]
    Mode(u32),
}

impl RingSelection {
    /// Returns the values of `nr_mode` and `nr_ringid` for this selection.
    #[must_use]
    pub const fn mode(self) -> (u32, u16) {
        match self {
            Self::All => (NR_REG_ALL_NIC, 0),
            Self::One(ring) => (NR_REG_ONE_NIC, ring),
            Self::NicAndHost => (NR_REG_NIC_SW, 0),
            Self::Host => (NR_REG_SW, 0),
            Self::OneHost(ring) => (NR_REG_ONE_SW, ring),
        }
    }

    /// Returns the rings that `nr_mode` and `nr_ringid` select; `None` for modes that no name can
    /// express (the default, the null and the old pipe modes).
    #[must_use]
    pub const fn from_mode(nr_mode: u32, nr_ringid: u16) -> Option<Self> {
        match nr_mode {
            NR_REG_ALL_NIC => Some(Self::All),
            NR_REG_ONE_NIC => Some(Self::One(nr_ringid)),
            NR_REG_NIC_SW => Some(Self::NicAndHost),
            NR_REG_SW => Some(Self::Host),
            NR_REG_ONE_SW => Some(Self::OneHost(nr_ringid)),
            _ => None,
        }
    }
}

impl PortNameKind {
    /// Returns how many bytes the switch's name and its colon take in the name of a request.
    pub(super) fn request_prefix_len(&self) -> usize {
        match self {
            Self::Vale { switch } => "vale:".len() + switch.len(),
            _ => 0,
        }
    }
}

impl PortName {
    /// Returns the name for `nr_name`, such as `eth0{1` or `vale0:a`; `None` for kinds that no
    /// request can name, and for paths that are too long.
    #[must_use]
    pub fn request_name(&self) -> Option<String> {
        let pipe = self.pipe.as_ref().map(PipeEndName::to_string).unwrap_or_default();
        match &self.kind {
            PortNameKind::Netmap | PortNameKind::Kernel => Some(format!("{}{pipe}", self.name)),
            kind @ PortNameKind::Vale { .. } => Some(format!("{kind}{}{pipe}", self.name)),
            // The name is a path. If it is too long for a request, no request can name the port.
            kind if matches!(kind.grammar().form, NameForm::Text(_)) => {
                Some(format!("{kind}{}", self.name)).filter(|name| name.len() < NETMAP_REQ_IFNAMSIZ)
            }
            _ => None,
        }
    }

    /// Returns the header of the request that binds this port, without addresses; `None` if
    /// [`Self::request_name`] is `None`.
    #[must_use]
    pub fn to_header(&self) -> Option<NmreqHeader> {
        let name = self.request_name()?;
        let mut nr_name = [0; NETMAP_REQ_IFNAMSIZ];
        // The parser rejects longer names. Should it accept them one day, the name is truncated
        // here, so that it still ends with a NUL.
        let len = name.len().min(NETMAP_REQ_IFNAMSIZ - 1);
        nr_name[..len].copy_from_slice(&name.as_bytes()[..len]);
        Some(NmreqHeader {
            nr_version: NETMAP_API,
            nr_reqtype: NETMAP_REQ_REGISTER,
            nr_name,
            ..NmreqHeader::default()
        })
    }

    /// Returns the body of the request that binds this port.
    ///
    /// The fields for external memory, for offsets and for the region of another port are 0 here.
    /// External memory and offsets are separate options of the request. To get the region of
    /// another port, the caller must first query that port.
    #[must_use]
    pub fn to_register(&self) -> NmreqRegister {
        let (nr_mode, nr_ringid) = self.rings.mode();
        let rings = |wish: Option<NonZeroU16>| wish.map_or(0, NonZeroU16::get);
        let slots = |wish: Option<NonZeroU32>| wish.map_or(0, NonZeroU32::get);
        NmreqRegister {
            nr_tx_slots: slots(self.conf.tx_slots),
            nr_rx_slots: slots(self.conf.rx_slots),
            nr_tx_rings: rings(self.conf.tx_rings),
            nr_rx_rings: rings(self.conf.rx_rings),
            nr_host_tx_rings: rings(self.conf.host_tx_rings),
            nr_host_rx_rings: rings(self.conf.host_rx_rings),
            nr_mem_id: match self.memory {
                Some(MemorySource::Region(MemId(id))) => id.get(),
                _ => 0,
            },
            nr_ringid,
            nr_mode,
            nr_flags: self.flags.nr_flags(),
            ..NmreqRegister::default()
        }
    }

    /// Returns the port name that means the same as a bind request.
    ///
    /// The name in the request is taken literally: a `-` in it belongs to the name. Flags that a
    /// name cannot express are omitted.
    ///
    /// # Errors
    /// [`RequestError`] if `nr_name` is empty, is not UTF-8 or is not a valid port name, or if the
    /// request selects rings that no name can express.
    pub fn from_request(nr_name: &[u8], register: &NmreqRegister) -> Result<Self, RequestError> {
        let mut port = Self::from_request_name(nr_name)?;
        port.rings = RingSelection::from_mode(register.nr_mode, register.nr_ringid)
            .ok_or(RequestError::Mode(register.nr_mode))?;
        port.flags = PortNameFlags::from_nr_flags(register.nr_flags);
        port.memory = NonZeroU16::new(register.nr_mem_id).map(|id| MemorySource::Region(MemId(id)));
        port.conf = ConfSpec {
            tx_rings: NonZeroU16::new(register.nr_tx_rings),
            rx_rings: NonZeroU16::new(register.nr_rx_rings),
            host_tx_rings: NonZeroU16::new(register.nr_host_tx_rings),
            host_rx_rings: NonZeroU16::new(register.nr_host_rx_rings),
            tx_slots: NonZeroU32::new(register.nr_tx_slots),
            rx_slots: NonZeroU32::new(register.nr_rx_slots),
        };
        Ok(port)
    }

    /// Returns the port that the name in a request stands for, with all rings and without options.
    ///
    /// # Errors
    /// [`RequestError`] if `nr_name` is empty, is not UTF-8, or is not a valid port name.
    pub fn from_request_name(nr_name: &[u8]) -> Result<Self, RequestError> {
        let name = nr_name.split(|b| *b == 0).next().unwrap_or_default();
        let name = core::str::from_utf8(name).map_err(|_| RequestError::Unreadable)?;
        if name.is_empty() {
            return Err(RequestError::Unreadable);
        }
        let port = socket_of(name).unwrap_or_else(|| split_request_name(name));
        // The name is not trusted. It is accepted only if the port is printed as text that is
        // parsed to the same port.
        match Self::parse(&port.to_string()) {
            Ok(parsed) if parsed == port => Ok(port),
            _ => Err(RequestError::NoPort(name.to_string())),
        }
    }
}

/// Returns the port if the name has the prefix `vhost:` or `vhostclient:`; otherwise `None`.
fn socket_of(name: &str) -> Option<PortName> {
    let (word, path) = name.split_once(':')?;
    let is_text = |kind: &PortNameKind| matches!(kind.grammar().form, NameForm::Text(_));
    let kind = PortNameKind::from_word(word).filter(is_text)?;
    Some(PortName::new(kind, path.to_string()))
}

/// Splits the name in a request into its parts, without checking them.
fn split_request_name(name: &str) -> PortName {
    let (kind, name) = match name.strip_prefix("vale").and_then(|rest| rest.split_once(':')) {
        Some((switch, name)) => (PortNameKind::Vale { switch: switch.to_string() }, name),
        None => (PortNameKind::Netmap, name),
    };
    let Some(sign) = name.rfind(|c| PipeRole::from_sign(c).is_some()) else {
        return PortName::new(kind, name.to_string());
    };
    let (parent, end) = name.split_at(sign);
    let mut chars = end.chars();
    let role = chars.next().and_then(PipeRole::from_sign);
    let id = chars.as_str().to_string();
    let mut port = PortName::new(kind, parent.to_string());
    port.pipe = role.map(|role| PipeEndName { role, id });
    port
}
