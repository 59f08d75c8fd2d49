//! Compares the mirror with a fresh dump of the kernel's routes.

use alloc::vec::Vec;

use slipring_rtnetlink::{RouteFamily, RouteMessage};

use super::Mirror;
use super::write::route_ranges;
use crate::prefix::{AddressBits, RoutePrefix};
use crate::resync::DumpKind;
use crate::routes::RouteCheck;
use crate::tables::{TargetIndex, VrfIndex, VrfTables};

/// The differences between the mirror and the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VerifyReport {
    /// Routes compared.
    pub checked: u64,
    /// Routes of the kernel that are not in the mirror.
    pub missing: u64,
    /// Routes of the mirror that the kernel does not have.
    pub extra: u64,
    /// Routes with different contents, and ranges of addresses for which the lookup structures
    /// disagree with the routes.
    pub different: u64,
}

/// The error if a dump of the routes or another verification is running.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the routes are being read from the kernel; try again")]
pub struct VerifyBusy;

/// Number of routes that one step at the end of a verification processes: some milliseconds of
/// work.
const STEP_ROUTES: usize = 4096;

/// The state of a verification.
#[derive(Debug)]
pub(super) struct Check {
    v4: RouteCheck<u32>,
    v6: RouteCheck<u128>,
    /// The ranges in which lookups are not yet compared.
    ranges: PendingRanges,
    /// Number of ranges for which the lookup structures disagree with the routes.
    wrong: u64,
}

/// The prefixes in which lookups are not yet compared, by VRF.
#[derive(Debug)]
struct PendingRanges {
    v4: Vec<(VrfIndex, RoutePrefix<u32>)>,
    v6: Vec<(VrfIndex, RoutePrefix<u128>)>,
}

impl Mirror {
    /// Begins a verification, before the routes of both families are dumped for it. The dump's
    /// routes go to [`Self::verify`], not to [`Self::receive`]. Notifications that arrive meanwhile
    /// are received as always; routes that they change may count as different.
    ///
    /// # Errors
    /// If the routes are being dumped already, or another verification runs.
    pub fn begin_verify(&mut self) -> Result<(), VerifyBusy> {
        let kinds = [DumpKind::Ipv4Routes, DumpKind::Ipv6Routes];
        if self.check.is_some() || kinds.iter().any(|kind| self.resync.is_running(*kind)) {
            return Err(VerifyBusy);
        }
        let vrfs = || (0..self.vrfs.len() as u16).map(VrfIndex);
        let ranges = PendingRanges {
            v4: vrfs().map(|vrf| (vrf, RoutePrefix::ALL)).collect(),
            v6: vrfs().map(|vrf| (vrf, RoutePrefix::ALL)).collect(),
        };
        let (v4, v6) = (self.v4.begin_check(), self.v6.begin_check());
        self.check = Some(Check { v4, v6, ranges, wrong: 0 });
        Ok(())
    }

    /// Compares a route of the verification's dump with the mirror.
    pub fn verify(&mut self, route: &RouteMessage<'_>) {
        let Some(check) = &mut self.check else { return };
        match route.family {
            RouteFamily::V4 => self.v4.check(&mut check.v4, &self.specs, route),
            RouteFamily::V6 => self.v6.check(&mut check.v6, &self.specs, route),
        }
    }

    /// Performs the next part of the work that follows both dumps. A part takes some milliseconds.
    /// The work is to count routes that the dumps did not contain, and to compare the lookup
    /// structures of the last snapshot with the mirror's routes. Returns the report after the last
    /// part, and `None` before.
    ///
    /// # Errors
    /// If no verification runs, for example because a dump of routes has begun, which ends a
    /// verification.
    pub fn end_verify(&mut self) -> Result<Option<VerifyReport>, VerifyBusy> {
        let mut check = self.check.take().ok_or(VerifyBusy)?;
        if self.verify_part(&mut check) {
            self.check = Some(check);
            return Ok(None);
        }
        Ok(Some(VerifyReport {
            checked: check.v4.checked + check.v6.checked,
            missing: check.v4.missing + check.v6.missing,
            extra: check.v4.extra + check.v6.extra,
            different: check.v4.different + check.v6.different + check.wrong,
        }))
    }

    /// Abandons the running verification.
    pub fn abort_verify(&mut self) {
        self.check = None;
    }

    /// Performs the next part. Returns whether there was one.
    fn verify_part(&self, check: &mut Check) -> bool {
        if self.v4.count_unmentioned(&mut check.v4, STEP_ROUTES)
            || self.v6.count_unmentioned(&mut check.v6, STEP_ROUTES)
        {
            return true;
        }
        if let Some((vrf, prefix)) = check.ranges.v4.pop() {
            let chain = &self.vrfs[usize::from(vrf.0)].config.v4;
            if self.v4.has_more_inside(chain, prefix, STEP_ROUTES) {
                check.ranges.v4.extend(halves(prefix).map(|half| (vrf, half)));
            } else {
                let ranges = route_ranges(RouteFamily::V4, &self.v4, chain, &self.specs, prefix);
                let lookup = |tables: &VrfTables, addresses: &[u32], found: &mut [TargetIndex]| {
                    tables.v4.lookup(addresses, found);
                };
                check.wrong += self.count_wrong(vrf, &ranges, prefix, lookup);
            }
            return true;
        }
        let Some((vrf, prefix)) = check.ranges.v6.pop() else { return false };
        let chain = &self.vrfs[usize::from(vrf.0)].config.v6;
        if self.v6.has_more_inside(chain, prefix, STEP_ROUTES) {
            check.ranges.v6.extend(halves(prefix).map(|half| (vrf, half)));
        } else {
            let ranges = route_ranges(RouteFamily::V6, &self.v6, chain, &self.specs, prefix);
            let lookup = |tables: &VrfTables, addresses: &[u128], found: &mut [TargetIndex]| {
                tables.v6.lookup(addresses, found);
            };
            check.wrong += self.count_wrong(vrf, &ranges, prefix, lookup);
        }
        true
    }

    /// Looks up the first and the last address of each range. Returns for how many ranges a result
    /// is wrong. Addresses that are left to the kernel, for example for lack of space, and known
    /// hosts of the expected subnet count as correct.
    fn count_wrong<A: AddressBits>(
        &self,
        vrf: VrfIndex,
        ranges: &[(A, TargetIndex)],
        within: RoutePrefix<A>,
        lookup: impl Fn(&VrfTables, &[A], &mut [TargetIndex]),
    ) -> u64 {
        let published = self.published.as_ref().and_then(|it| it.vrfs.get(usize::from(vrf.0)));
        let Some(tables) = published else { return 0 };
        let hosts = &self.vrfs[usize::from(vrf.0)].hosts;
        let mut wrong = 0;
        for (at, &(first, expected)) in ranges.iter().enumerate() {
            let last =
                ranges.get(at + 1).and_then(|next| next.0.previous()).unwrap_or(within.last());
            let (addresses, mut found) = ([first, last], [TargetIndex::KERNEL; 2]);
            lookup(tables, &addresses, &mut found);
            let is_right = |(address, found): (A, TargetIndex)| {
                let is_host = hosts.get(&address.address()).is_some_and(|key| key.0 == expected);
                found == expected || found == TargetIndex::KERNEL || is_host
            };
            wrong += u64::from(!addresses.into_iter().zip(found).all(is_right));
        }
        wrong
    }
}

/// Returns the two halves of a prefix, which are one bit longer.
fn halves<A: AddressBits>(prefix: RoutePrefix<A>) -> [RoutePrefix<A>; 2] {
    let len = prefix.len + 1;
    [RoutePrefix::around(prefix.start, len), RoutePrefix::around(prefix.last(), len)]
}
