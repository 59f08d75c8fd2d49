//! Changes of a running network: atomic, at a given time.

use alloc::collections::VecDeque;
use alloc::string::{String, ToString};

use super::{Network, keys};
use crate::carrier::Carrier;
use crate::spec::{NetworkSpec, SpecError};

/// Why a change was refused. A refused change has no effect.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    /// The new plan cannot be built.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The new plan has other entries, exits, nodes or links.
    #[error("{what} cannot change while the network runs")]
    Shape {
        /// The part that cannot be changed.
        what: String,
    },
}

/// Accepted changes that have not taken effect, in order of time.
pub(super) struct PendingChanges {
    changes: VecDeque<(u64, NetworkSpec)>,
}

impl PendingChanges {
    pub(super) const fn new() -> Self {
        Self { changes: VecDeque::new() }
    }

    /// Returns the time at which the next change takes effect, in ns; `None` if there is none.
    #[inline]
    pub(super) fn next_ns(&self) -> Option<u64> {
        self.changes.front().map(|(at_ns, _)| *at_ns)
    }
}

impl Network {
    /// Schedules another plan for the same links. The plan takes effect at `at_ns` on all links
    /// together: after the events that are due by then, and before arrivals at `at_ns` or later. A
    /// plan with a time in the past takes effect at the next push or run. Plans take effect in
    /// order of time; plans with equal times take effect in order of submission.
    ///
    /// Frames inside the network stay: waiting frames continue under the new rules, frames in
    /// flight arrive at their old times. A stage that does not change keeps its state, and every
    /// stage keeps its random stream (loss stages of one kind are told apart by their order).
    ///
    /// # Errors
    /// [`ChangeError`] if the plan is refused; nothing changes then.
    pub fn change(&mut self, at_ns: u64, plan: &NetworkSpec) -> Result<(), ChangeError> {
        plan.check()?;
        same_shape(&self.plan, plan)?;
        let index = self.pending.changes.partition_point(|(accepted_ns, _)| *accepted_ns <= at_ns);
        self.pending.changes.insert(index, (at_ns, plan.clone()));
        Ok(())
    }

    /// Cancels all changes that have not taken effect.
    pub fn cancel_changes(&mut self) {
        self.pending.changes.clear();
    }

    pub(super) fn apply_next_change(&mut self, carrier: &mut impl Carrier) {
        let Some((at_ns, plan)) = self.pending.changes.pop_front() else { return };
        let entered = keys::entered(&self.keys, &self.links, &self.plan);
        for (index, link) in self.links.iter_mut().enumerate() {
            let (old, new) = (&self.plan.links[index].spec, &plan.links[index].spec);
            if old != new {
                link.change((old, new), self.seed, &entered, at_ns, carrier);
            }
        }
        self.routes.choose(&plan);
        self.plan = plan;
        for component in 0..self.components.len() {
            self.components[component].arm_all(&self.links);
            self.arm(component as u32);
        }
    }
}

fn same_shape(old: &NetworkSpec, new: &NetworkSpec) -> Result<(), ChangeError> {
    let shape = |what: &str| Err(ChangeError::Shape { what: what.to_string() });
    if old.entries != new.entries || old.exits != new.exits || old.nodes != new.nodes {
        return shape("ports and nodes");
    }
    let same = |(old, new): (&crate::spec::NetworkLink, &crate::spec::NetworkLink)| {
        old.spec.name == new.spec.name && old.from == new.from && old.to == new.to
    };
    if old.links.len() != new.links.len() || !old.links.iter().zip(&new.links).all(same) {
        return shape("links and their ends");
    }
    Ok(())
}
