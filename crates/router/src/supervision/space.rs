//! The alarm for tables without space.

use slipring_cli::{Failure, Session};

use super::{SupervisedState, Supervision};
use crate::routing::Routing;

impl Supervision<'_> {
    /// Tells that routes or neighbours have found no space: once, and when they have become twice as many.
    pub(super) fn tell_of_space(
        &self,
        session: &mut Session<'_>,
        state: &mut SupervisedState,
    ) -> Result<(), Failure> {
        let unplaced =
            self.handle.ask(|routing: &mut Routing| routing.mirror.counters().unplaced());
        let Some(unplaced) = unplaced.filter(|unplaced| *unplaced > 2 * state.unplaced) else {
            return Ok(());
        };
        state.unplaced = unplaced;
        session.reporter.warn(format_args!(
            "a route or neighbour has found no space in the tables ({unplaced} times so far): the \
             kernel forwards what it matches; raise --max-routes, or restart, which sizes the tables \
             for the present routes"
        ))
    }
}
