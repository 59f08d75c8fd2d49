//! The pipes of this process: opening one end creates both, and the other end is kept until it is
//! opened.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use slipring_abi::name::{PipeEndName, PipeRole, PortName};
use slipring_port::{OpenCause, OpenError, OpenOptions, Port, pipe};
use slipring_ring::Region;

/// Ends of pipes that exist but have not been opened yet, by name.
#[derive(Debug, Default)]
pub(crate) struct PipeRegistry {
    waiting: Mutex<HashMap<String, Port>>,
}

impl PipeRegistry {
    /// Opens the end `name` of a pipe. If the pipe does not exist, creates it in `region` and keeps
    /// its other end.
    pub(crate) fn open(
        &self,
        name: &PortName,
        region: &Arc<Region>,
        options: &OpenOptions,
    ) -> Result<Port, OpenError> {
        let Some((mine, other)) = end_names(name) else {
            let help = "write NAME{K for one end and NAME}K for the other".into();
            let cause = OpenCause::Setting { reason: "not a pipe".into(), help };
            return Err(OpenError::new(name, cause));
        };
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(port) = waiting.remove(&mine) {
            return Ok(port);
        }
        if waiting.contains_key(&other) {
            let end = if is_master(name) { "master" } else { "slave" };
            return Err(OpenError::new(name, OpenCause::PipeTaken { pipe: mine, end }));
        }
        let queues =
            name.conf.tx_rings.max(name.conf.rx_rings).map_or(1, |rings| rings.get().into());
        let (first, second) = if is_master(name) { (&mine, &other) } else { (&other, &mine) };
        let [master, slave] = pipe::open([first, second], queues, region, options)?;
        let (port, rest) = if is_master(name) { (master, slave) } else { (slave, master) };
        waiting.insert(other, rest);
        Ok(port)
    }

    /// Whether this process has created the pipe and one of its ends has not been opened yet.
    pub(crate) fn has_waiting_end(&self, name: &PortName) -> bool {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let ends = end_names(name);
        ends.is_some_and(|(mine, other)| {
            waiting.contains_key(&mine) || waiting.contains_key(&other)
        })
    }

    /// Whether the end `name` already exists because the other end has been opened. Then opening
    /// `name` needs no memory.
    pub(crate) fn has_waiting_peer(&self, name: &PortName) -> bool {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        end_names(name).is_some_and(|(mine, _)| waiting.contains_key(&mine))
    }
}

fn is_master(name: &PortName) -> bool {
    name.pipe.as_ref().is_some_and(|end| end.role == PipeRole::Master)
}

/// Whether two names are the ends of one pipe.
pub(crate) fn are_peers(one: &PortName, other: &PortName) -> bool {
    let joins = |(_, far)| end_names(other).is_some_and(|(near, _)| far == near);
    one.kind == other.kind && end_names(one).is_some_and(joins)
}

/// Returns the names of this end and of the other end, without the options in `name`.
fn end_names(name: &PortName) -> Option<(String, String)> {
    let PipeEndName { id, .. } = name.pipe.as_ref()?;
    let parent = &name.name;
    let (master, slave) = (format!("{parent}{{{id}"), format!("{parent}}}{id}"));
    Some(if is_master(name) { (master, slave) } else { (slave, master) })
}
