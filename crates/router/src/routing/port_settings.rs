//! Settings of ports, at the start and after a reload.

use slipring_fib::FibPortIndex;
use slipring_port::now;
use slipring_route::PortPolicer;

use super::Routing;
use crate::port_settings::PortSettings;

impl Routing {
    /// Applies settings, also in the threads that forward. If packets are being forwarded, the
    /// programs already use the settings when this function returns.
    pub(crate) fn set_ports(&mut self, settings: PortSettings) {
        let PortSettings { source_checks, policers, vrfs } = settings;
        self.mirror.set_source_checks(source_checks);
        self.named_vrfs = vrfs;
        for at in 0..self.engine.interfaces().len() {
            let is_policed = policers.get(at).is_some_and(Option::is_some);
            self.engine.set_policed(FibPortIndex(at as u16), is_policed);
        }
        self.policers = PortPolicer::renewed(&self.policers, &policers);
        for worker in &self.workers {
            let policers = self.policers.clone();
            worker.tell(move |worker| worker.engine.set_policers(policers));
        }
        if self.counters.published > 0 {
            self.publish(now());
        }
    }

    /// Names of all ports at the start of the router.
    pub(crate) fn port_names(&self) -> impl Iterator<Item = &str> {
        let own = self.subinterfaces.iter().flat_map(|own| &own.devices);
        let kernel = self.engine.interfaces().iter().map(|of| &*of.iface.name);
        kernel.chain(own.map(|device| &*device.name))
    }
}
