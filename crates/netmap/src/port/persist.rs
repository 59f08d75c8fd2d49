//! Saving ports for a successor process.
//!
//! A visitor saves the ports. A visited port calls the visitor's method for its kind and passes its
//! own part of the state, in which other ports are indices. So the visitor does not depend on the
//! types of ports.

use std::fmt::Debug;
use std::sync::Arc;

use crate::port::adapter::Adapter;
use crate::port::monitor_taps::MonitorTaps;
use crate::types::state::{MonitorState, PipeState, PortRef, PortState, ValePortState};

/// A port that this crate saves and resumes at a restart. A provider resumes its own ports.
pub struct Persistent<'p>(pub(crate) &'p dyn PersistentPort);

/// A port that can be saved.
pub(crate) trait PersistentPort {
    /// Calls the visitor's method for this kind of port; returns the index of the port.
    fn visit(&self, visitor: &mut dyn PortVisitor) -> PortRef;
}

/// Saves the port that calls one of these methods. The visitor reads the data common to all ports
/// itself.
pub(crate) trait PortVisitor {
    /// Saves a port that is connected to nothing.
    fn detached(&mut self) -> PortRef;

    /// Saves the pipe to which the visited end belongs.
    fn pipe_end(&mut self, pipe: Arc<dyn PersistentPipe>, is_slave: bool) -> PortRef;

    /// Saves a monitor. `target` is the monitored port's monitor taps; `None` while that port is
    /// not bound.
    fn monitor(
        &mut self,
        target: Option<&Arc<MonitorTaps>>,
        state: &dyn Fn(PortState) -> MonitorState,
    ) -> PortRef;

    /// Saves a port of a switch, or a persistent port that can be attached to a switch.
    fn switch_port(&mut self, state: &dyn Fn(PortState) -> ValePortState) -> PortRef;
}

/// A pipe, with both ends.
pub(crate) trait PersistentPipe: Send + Sync + Debug {
    /// Returns the saved form; `ports` assigns an index to the parent port.
    fn state(&self, ports: &mut dyn SavedPortIndex) -> PipeState;

    /// Returns the monitor taps of the master end, then of the slave end.
    fn monitor_taps(&self) -> [&Arc<MonitorTaps>; 2];
}

/// Assigns indices to the ports that are saved.
pub(crate) trait SavedPortIndex {
    /// Returns the index of a port. Saves the port first if it is not saved yet.
    fn port_ref(&mut self, port: &Arc<dyn Adapter>) -> PortRef;
}
