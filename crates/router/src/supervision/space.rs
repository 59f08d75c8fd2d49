//! The warning about full tables.

use slipring_cli::{Failure, Session};

use super::{SupervisedState, Supervision};
use crate::routing::Routing;

impl Supervision<'_> {
    /// Warns that there was no space for routes or neighbours, and again when the count has more
    /// than doubled.
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
