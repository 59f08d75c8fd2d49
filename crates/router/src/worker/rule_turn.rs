//! What rules and pipes do besides deciding about the frames of a batch. Frames that have left a pipe
//! are among the engine's outputs.

use slipring_port::Nanos;

use super::RouteWorker;

impl RouteWorker {
    /// Lets frames out of pipes, and states expire, if it is time.
    pub(super) fn run_rules(&mut self, now_ns: Nanos) {
        let Some(rules) = &mut self.rules else { return };
        if rules.next_ns().is_some_and(|due| due <= now_ns) {
            rules.run(&mut self.engine, now_ns);
            self.punt_delayed(now_ns);
        }
    }

    /// The last stage of a batch.
    pub(super) fn finish_rules(&mut self, now_ns: Nanos) {
        let Some(rules) = &mut self.rules else { return };
        rules.finish(&mut self.engine, now_ns);
        self.punt_delayed(now_ns);
    }

    /// Gives the kernel the frames that have waited in the stage and are the kernel's.
    fn punt_delayed(&mut self, now_ns: Nanos) {
        let punted = self.rules.as_mut().map(|rules| rules.take_punted()).unwrap_or_default();
        for frame in punted {
            if let Some(interface) = self.interface(frame.ingress) {
                let ifindex = self.ports.ifindexes[interface];
                self.punts.punt(&frame.bytes, ifindex, Some(frame.class), now_ns);
            }
        }
    }
}
