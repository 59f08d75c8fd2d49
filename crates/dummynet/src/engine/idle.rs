//! Decides which instances new packets use, and removes idle instances and queues.

use alloc::vec::Vec;

use super::Dummynet;
use super::flows::FlowQueue;
use super::instance::{InstanceQueues, NEVER_NS};

/// Value of `SchedInstance::sched` in a slot without an instance.
const NO_SCHED: u32 = u32::MAX;

impl<H: Copy> Dummynet<H> {
    /// Returns the indexes of all instances of a scheduler, including those that get no new
    /// packets.
    pub(super) fn instances_of(&self, sched: u32) -> Vec<u32> {
        let numbered = (0u32..).zip(&self.instances);
        numbered.filter(|(_, one)| one.sched == sched).map(|(at, _)| at).collect()
    }

    /// Hides all instances of a scheduler from new packets, for which new instances are created.
    /// The packets in the old instances still leave.
    pub(super) fn unlist_all(&mut self, sched: u32) {
        for at in self.instances_of(sched) {
            self.unlist(at);
        }
    }

    pub(super) fn unlist(&mut self, at: u32) {
        let instance = &mut self.instances[at as usize];
        instance.is_listed = false;
        let hash = instance.hash;
        let sched = self.objects.sched_mut(instance.sched);
        if sched.single == Some(at) {
            sched.single = None;
        } else if let Ok(entry) = sched.index.find_entry(hash, |&other| other == at) {
            entry.remove();
        }
    }

    /// Frees slot `at`, whose instance must be empty.
    pub(super) fn free_instance(&mut self, at: u32) {
        let instance = &mut self.instances[at as usize];
        instance.due_ns = NEVER_NS;
        instance.sched = NO_SCHED;
        instance.queues = InstanceQueues::Fifo(FlowQueue::default());
        self.free.push(at);
    }

    /// Checks two slots of the instance table, and removes the instances in them that are idle.
    /// This must be called before each creation of an instance. This bounds the number of instances
    /// to about twice the number of those that are not idle.
    pub(super) fn expire_some_instances(&mut self, sched: u32) {
        let number = self.instances.len() as u32;
        for _ in 0..2.min(number) {
            let sched = self.objects.sched_mut(sched);
            sched.sweep_position = (sched.sweep_position + 1) % number;
            let at = sched.sweep_position;
            self.expire_instance(at);
        }
    }

    /// Removes all queues and instances that are idle.
    pub(super) fn expire_all(&mut self) {
        for at in 0..self.instances.len() as u32 {
            self.expire_instance(at);
            if let InstanceQueues::Flows(flows) = &mut self.instances[at as usize].queues {
                flows.expire_all(self.now_ns, self.settings.expire_ns);
            }
        }
    }

    fn expire_instance(&mut self, at: u32) {
        let (now_ns, expire_ns) = (self.now_ns, self.settings.expire_ns);
        let instance = &self.instances[at as usize];
        if instance.sched == NO_SCHED || instance.due_ns != NEVER_NS {
            return;
        }
        let sched = self.objects.sched(instance.sched);
        let is_dynamic = !sched.mask.is_none() && sched.single != Some(at);
        let is_idle = now_ns.saturating_sub(instance.last_ns) >= expire_ns;
        let as_new = is_idle && sched.link.is_as_new(&instance.line, now_ns);
        if !instance.is_listed || is_dynamic && as_new {
            self.unlist(at);
            self.free_instance(at);
        }
    }
}
