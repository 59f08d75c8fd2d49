//! Data common to all kinds of ports.

use std::sync::Arc;

use crate::memory::netmap_memory::NetmapMemory;
use crate::port::claims::Claims;
use crate::port::monitor_taps::MonitorTaps;
use crate::types::shape::AdapterShape;

/// The name of a port, the record of bound rings, its monitors, and its memory. In a port, this
/// must be the last field, so that the memory is dropped after the rings in it.
#[derive(Debug)]
pub struct AdapterBase {
    name: String,
    claims: Arc<Claims>,
    monitor_taps: Option<Arc<MonitorTaps>>,
    memory: Arc<NetmapMemory>,
}

impl AdapterBase {
    /// Creates the base of a port that is not bound and cannot be monitored.
    #[must_use]
    pub fn new(name: String, shape: &AdapterShape, memory: Arc<NetmapMemory>) -> Self {
        Self { name, claims: Claims::new(shape), monitor_taps: None, memory }
    }

    /// Adds the list of monitors, for a port that can be monitored.
    #[must_use]
    pub fn with_monitor_taps(self, monitor_taps: &Arc<MonitorTaps>) -> Self {
        self.claims.set_monitor_taps(monitor_taps);
        Self { monitor_taps: Some(monitor_taps.clone()), ..self }
    }

    /// Returns the name of the port in requests.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the memory that contains the port's rings and buffers.
    #[must_use]
    pub fn memory(&self) -> &Arc<NetmapMemory> {
        &self.memory
    }

    /// Returns the record of which rings are bound.
    #[must_use]
    pub fn claims(&self) -> &Arc<Claims> {
        &self.claims
    }

    /// Returns the port's monitors; `None` if the port cannot have any.
    #[must_use]
    pub fn monitor_taps(&self) -> Option<&Arc<MonitorTaps>> {
        self.monitor_taps.as_ref()
    }
}
