//! Prints a [`PortName`] as a string that is parsed to an equal [`PortName`].

use core::fmt::{self, Display, Formatter, Write};

use super::options::VALUE_ENDS;
use super::parse::NAME_ENDS;
use super::{
    ConfSpec, Extmem, MemId, MemorySource, NameForm, OffsetSpec, PipeEndName, PortName,
    PortNameFlags, RingSelection,
};

impl Display for PortName {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.kind)?;
        match self.kind.grammar().form {
            NameForm::Rest(_) => return f.write_str(&self.name),
            NameForm::PciAddress => f.write_str(&self.name)?,
            NameForm::Text(_) => doubled(f, &self.name, "@")?,
            _ => doubled(f, &self.name, NAME_ENDS)?,
        }
        if let Some(pipe) = &self.pipe {
            write!(f, "{pipe}")?;
        }
        write!(f, "{}{}", self.rings, self.flags)?;
        if let Some(memory) = &self.memory {
            write!(f, "{memory}")?;
        }
        write!(f, "{}", self.conf)?;
        if let Some(device) = &self.device {
            f.write_char('@')?;
            doubled(f, device, "@")?;
        }
        match &self.offsets {
            Some(offsets) => write!(f, "{offsets}"),
            None => Ok(()),
        }
    }
}

/// Writes `text`, doubling each character that is in `ends`.
fn doubled(f: &mut Formatter<'_>, text: &str, ends: &str) -> fmt::Result {
    for c in text.chars() {
        if ends.contains(c) {
            f.write_char(c)?;
        }
        f.write_char(c)?;
    }
    Ok(())
}

impl Display for PipeEndName {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.role.sign(), self.id)
    }
}

impl Display for RingSelection {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => Ok(()),
            Self::One(ring) => write!(f, "-{ring}"),
            Self::NicAndHost => f.write_str("*"),
            Self::Host => f.write_str("^"),
            Self::OneHost(ring) => write!(f, "^{ring}"),
        }
    }
}

impl Display for PortNameFlags {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if *self != Self::NONE {
            f.write_char('/')?;
        }
        self.letters().try_for_each(|letter| f.write_char(letter))
    }
}

impl Display for MemId {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl Display for MemorySource {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Region(id) => write!(f, "@{id}"),
            Self::SharedWith(port) => {
                f.write_str("@share:port=")?;
                doubled(f, port, VALUE_ENDS)
            }
            Self::External(extmem) => write!(f, "{extmem}"),
        }
    }
}

impl Display for Extmem {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("@extmem:file=")?;
        doubled(f, &self.file, VALUE_ENDS)?;
        let pools = [("if", self.interfaces), ("ring", self.rings), ("buf", self.buffers)];
        for (word, pool) in pools {
            for (what, number) in [("num", pool.num), ("size", pool.size)] {
                if let Some(number) = number {
                    write!(f, ",{word}-{what}={number}")?;
                }
            }
        }
        Ok(())
    }
}

impl Display for ConfSpec {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut list = KeyValueList { f, sign: "@conf:" };
        list.pair("", "rings", self.tx_rings, self.rx_rings)?;
        list.pair("host-", "rings", self.host_tx_rings, self.host_rx_rings)?;
        list.pair("", "slots", self.tx_slots, self.rx_slots)
    }
}

/// Writes a list of `key=number`. `sign` is written before the next element; it is `,` for all
/// elements except the first.
struct KeyValueList<'a, 'f> {
    f: &'a mut Formatter<'f>,
    sign: &'static str,
}

impl KeyValueList<'_, '_> {
    /// Writes the values of the keys for tx and rx. If they are equal, writes them once, with the
    /// key for both directions.
    fn pair<N: Display + PartialEq>(
        &mut self,
        side: &str,
        what: &str,
        tx: Option<N>,
        rx: Option<N>,
    ) -> fmt::Result {
        if tx == rx {
            return self.one(side, "", what, tx);
        }
        self.one(side, "tx-", what, tx)?;
        self.one(side, "rx-", what, rx)
    }

    fn one<N: Display>(&mut self, side: &str, dir: &str, what: &str, n: Option<N>) -> fmt::Result {
        let Some(n) = n else { return Ok(()) };
        let sign = core::mem::replace(&mut self.sign, ",");
        write!(self.f, "{sign}{side}{dir}{what}={n}")
    }
}

impl Display for OffsetSpec {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "@offset:initial={}", self.initial)?;
        match self.bits {
            Some(bits) => write!(f, ",bits={bits}"),
            None => Ok(()),
        }
    }
}
