//! Frames that one join has another one shape: pipes and queues are in one place, flows are not.

use slipring_dummynet::Object;
use slipring_ipfw::run::Crossing;

use super::hops::Told;
use super::waiting::Waiting;
use super::{Join, Loss, Nanos, Outlet};

/// Number of a join among those that share ports.
pub type Place = u16;
/// The join that shapes for all.
const SHAPER: Place = 0;

/// A frame on its way between two joins.
#[derive(Debug)]
pub struct Parcel {
    bytes: Vec<u8>,
    crossing: Crossing,
    /// Where its flow is known.
    home: Place,
    /// Where it wants to be shaped; `None` on its way back.
    object: Option<Object>,
}

impl Parcel {
    /// The join that it belongs to.
    #[must_use]
    pub const fn home(&self) -> Place {
        self.home
    }
}

/// What a join has to do with others. Nothing, mostly.
#[derive(Debug, Default)]
pub(super) struct Abroad {
    own: Place,
    /// There are others.
    is_shared: bool,
    /// The one that shapes has too much to do.
    pub(super) is_crowded: bool,
    parcels: Vec<Parcel>,
    news: Vec<Told>,
    /// Frames of others that were lost in pipes.
    lost: u64,
}

impl Abroad {
    pub(super) const fn own(&self) -> Place {
        self.own
    }

    pub(super) const fn shapes_elsewhere(&self) -> bool {
        self.own != SHAPER
    }

    /// Others shall know, too, where a neighbour is.
    pub(super) fn tell(&mut self, told: Told) {
        if self.is_shared {
            self.news.push(told);
        }
    }
}

impl Join {
    /// The same as one of several, to which flows are dealt out.
    #[must_use]
    pub fn at_place(mut self, own: Place) -> Self {
        self.abroad = Abroad { own, is_shared: true, ..Abroad::default() };
        self
    }

    /// What is to go to other joins: for the one that shapes, or from it to their homes.
    pub fn parcels(&mut self) -> Vec<Parcel> {
        std::mem::take(&mut self.abroad.parcels)
    }

    /// What other joins should [hear](Self::hear).
    pub fn news(&mut self) -> Vec<Told> {
        std::mem::take(&mut self.abroad.news)
    }

    /// Frames of others that were lost here since this was asked last.
    pub fn guests_lost(&mut self) -> u64 {
        std::mem::take(&mut self.abroad.lost)
    }

    /// Says whether the join that shapes is behind: frames for pipes are lost then.
    pub fn set_crowded(&mut self, is_crowded: bool) {
        self.abroad.is_crowded = is_crowded;
    }

    /// Takes over what others have learned.
    pub fn hear(&mut self, news: Vec<Told>) {
        for told in news {
            self.hops.know(told);
        }
    }

    /// Takes frames that others want to be shaped, or that come home.
    pub fn take_parcels(&mut self, parcels: Vec<Parcel>, now: Nanos, outlet: &mut impl Outlet) {
        for Parcel { mut bytes, crossing, home, object } in parcels {
            self.tally.guests += 1;
            if let Some(object) = object {
                let handle = self.hall.keep(&bytes, (crossing, home));
                self.submit(object, handle, now);
            } else {
                self.go_on(&mut bytes, crossing, now, outlet);
            }
            self.settle(now, outlet);
        }
    }

    pub(super) fn send_away(&mut self, object: Object, frame: &[u8], crossing: Crossing) {
        if self.abroad.is_crowded {
            return self.tally.lose(Loss::Crowded);
        }
        self.tally.away += 1;
        let (bytes, home) = (frame.to_vec(), self.abroad.own);
        self.abroad.parcels.push(Parcel { bytes, crossing, home, object: Some(object) });
    }

    pub(super) fn send_home(&mut self, waiting: Waiting) {
        self.tally.away += 1;
        let Waiting { bytes, crossing, home } = waiting;
        self.abroad.parcels.push(Parcel { bytes, crossing, home, object: None });
    }

    /// The shaper has dropped a frame.
    pub(super) fn gave_up(&mut self, handle: u32) {
        let home = self.hall.get_mut(handle).home;
        self.abroad.lost += u64::from(home != self.abroad.own);
        self.hall.free(handle, None);
    }
}
