//! The pipes of this process: opening one end creates both. The pipe lives as long as one of its
//! ends is open, and an end that was closed meanwhile can be opened again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use slipring_abi::name::{PipeEndName, PipeRole, PortName};
use slipring_port::pipe::ProcessPipe;
use slipring_port::{OpenCause, OpenError, OpenOptions, Port};
use slipring_ring::Region;

/// The pipes of which an end is open, by the name of the master end.
#[derive(Debug, Default)]
pub(crate) struct PipeRegistry {
    pipes: Mutex<HashMap<String, Weak<ProcessPipe>>>,
}

impl PipeRegistry {
    /// Opens the end `name` of a pipe. If the pipe does not exist, creates it in `region`.
    pub(crate) fn open(
        &self,
        name: &PortName,
        region: &Arc<Region>,
        options: &OpenOptions,
    ) -> Result<Port, OpenError> {
        let Some(ends) = EndNames::of(name) else {
            let help = "write NAME{K for one end and NAME}K for the other".into();
            let cause = OpenCause::Setting { reason: "not a pipe".into(), help };
            return Err(OpenError::new(name, cause));
        };
        let mut pipes = self.pipes.lock().unwrap_or_else(PoisonError::into_inner);
        pipes.retain(|_, pipe| pipe.strong_count() > 0);
        let pipe = match pipes.get(&ends.master).and_then(Weak::upgrade) {
            Some(pipe) => pipe,
            None => {
                let queues = name
                    .conf
                    .tx_rings
                    .max(name.conf.rx_rings)
                    .map_or(1, |rings| rings.get().into());
                let pipe =
                    ProcessPipe::create([&ends.master, &ends.slave], queues, region, options)?;
                pipes.insert(ends.master.clone(), Arc::downgrade(&pipe));
                pipe
            }
        };
        pipe.open_end(ends.role).ok_or_else(|| OpenError::new(name, ends.taken()))
    }

    /// Whether this process has the pipe and one of its ends is not open.
    pub(crate) fn has_closed_end(&self, name: &PortName) -> bool {
        self.find(name).is_some_and(|(pipe, _)| {
            pipe.is_closed(PipeRole::Master) || pipe.is_closed(PipeRole::Slave)
        })
    }

    /// Whether the end `name` exists and is not open. Then opening it needs no memory.
    pub(crate) fn is_closed_end(&self, name: &PortName) -> bool {
        self.find(name).is_some_and(|(pipe, role)| pipe.is_closed(role))
    }

    fn find(&self, name: &PortName) -> Option<(Arc<ProcessPipe>, PipeRole)> {
        let ends = EndNames::of(name)?;
        let pipes = self.pipes.lock().unwrap_or_else(PoisonError::into_inner);
        Some((pipes.get(&ends.master)?.upgrade()?, ends.role))
    }
}

/// Whether two names are the ends of one pipe.
pub(crate) fn are_peers(one: &PortName, other: &PortName) -> bool {
    let ends = EndNames::of(one).zip(EndNames::of(other));
    let is_joined =
        |(one, other): (EndNames, EndNames)| one.master == other.master && one.role != other.role;
    one.kind == other.kind && ends.is_some_and(is_joined)
}

/// The names of both ends of a pipe, without options, and the end that a port name means.
struct EndNames {
    master: String,
    slave: String,
    role: PipeRole,
}

impl EndNames {
    /// Returns `None` if the port is not a pipe.
    fn of(name: &PortName) -> Option<Self> {
        let PipeEndName { id, role } = name.pipe.as_ref()?;
        let parent = &name.name;
        let (master, slave) = (format!("{parent}{{{id}"), format!("{parent}}}{id}"));
        Some(Self { master, slave, role: *role })
    }

    /// Returns the error for an end that is open already.
    fn taken(self) -> OpenCause {
        let (pipe, end) = match self.role {
            PipeRole::Master => (self.master, "master"),
            PipeRole::Slave => (self.slave, "slave"),
        };
        OpenCause::PipeTaken { pipe, end }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Host;

    /// Opens one end, in a region of its own unless the pipe exists.
    fn open(host: &Host, name: &str) -> Result<Port, OpenError> {
        let mut ports = host.open_all(&[name.parse().unwrap()], &OpenOptions::default())?;
        Ok(ports.remove(0))
    }

    fn send(port: &mut Port, frame: &[u8]) {
        assert!(port.queues[0].rings().tx.push(frame));
        port.tx_sync().unwrap();
    }

    /// Receives all frames.
    fn received(port: &mut Port) -> Vec<Vec<u8>> {
        port.rx_sync().unwrap();
        let mut frames = Vec::new();
        let rx = port.queues[0].rings().rx;
        while rx.packet(&mut Vec::new(), |frame| frames.push(frame.to_vec())).is_some() {}
        port.rx_sync().unwrap();
        frames
    }

    #[test]
    fn an_end_that_was_closed_is_opened_again_and_finds_its_peer() {
        let host = Host::new();
        let mut master = open(&host, "x{1").unwrap();
        for round in 0..3 {
            let mut slave = open(&host, "x}1").unwrap();
            send(&mut master, &[round; 60]);
            send(&mut slave, &[round + 100; 60]);
            assert_eq!(received(&mut slave), [[round; 60]]);
            drop(slave);
            assert_eq!(received(&mut master), [[round + 100; 60]]);
        }
    }

    #[test]
    fn an_end_is_opened_again_before_the_other_end_was_opened() {
        let host = Host::new();
        drop(open(&host, "x{1").unwrap());
        let mut master = open(&host, "x{1").unwrap();
        let mut slave = open(&host, "x}1").unwrap();
        send(&mut master, &[7; 60]);
        assert_eq!(received(&mut slave), [[7; 60]]);
    }

    #[test]
    fn frames_that_arrive_at_a_closed_end_wait_for_the_next_opener() {
        let host = Host::new();
        let mut master = open(&host, "x{1").unwrap();
        drop(open(&host, "x}1").unwrap());
        send(&mut master, &[5; 60]);
        assert_eq!(received(&mut open(&host, "x}1").unwrap()), [[5; 60]]);
    }

    #[test]
    fn frames_that_were_queued_and_not_synced_are_lost_with_the_port() {
        let host = Host::new();
        let mut slave = open(&host, "x}1").unwrap();
        let mut master = open(&host, "x{1").unwrap();
        assert!(master.queues[0].rings().tx.push(&[1; 60]));
        drop(master);
        let mut master = open(&host, "x{1").unwrap();
        send(&mut master, &[2; 60]);
        assert_eq!(received(&mut slave), [[2; 60]]);
    }

    #[test]
    fn an_end_is_taken_while_one_of_its_queues_is_in_use() {
        let host = Host::new();
        let _slave = open(&host, "x}1").unwrap();
        let mut master = open(&host, "x{1@conf:rings=1").unwrap();
        let queue = master.queues.remove(0);
        drop(master);
        for taken in ["x{1", "x}1"] {
            let error = open(&host, taken).unwrap_err();
            assert_eq!(error.code(), "SR0112", "{error}");
        }
        drop(queue);
        open(&host, "x{1").unwrap();
    }

    #[test]
    fn a_pipe_whose_ends_are_closed_is_created_again_with_new_settings() {
        let host = Host::new();
        let mut first = open(&host, "x{1@conf:slots=64").unwrap();
        send(&mut first, &[1; 60]);
        drop(first);
        let mut second = open(&host, "x}1@conf:slots=128").unwrap();
        assert_eq!(second.queues[0].rings().tx.num_slots(), 128);
        assert_eq!(received(&mut second), [[0; 60]; 0]);
    }
}
