//! Compares the mirror with a fresh dump of the kernel's routes.

use slipring_rtnetlink::{RouteFamily, RouteMessage};

use super::Mirror;
use super::write::route_ranges;
use crate::prefix::{AddressBits, RoutePrefix};
use crate::resync::DumpKind;
use crate::routes::RouteCheck;
use crate::tables::{TargetIndex, VrfIndex};

/// How the mirror differs from the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VerifyReport {
    /// Routes compared.
    pub checked: u64,
    /// Routes of the kernel that are not in the mirror.
    pub missing: u64,
    /// Routes of the mirror that the kernel does not have.
    pub extra: u64,
    /// Routes that say something else, and ranges of addresses for which the lookup structures
    /// answer something else than the routes say.
    pub different: u64,
}

/// A dump of the routes is running, or another verification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the routes are being read from the kernel; try again")]
pub struct VerifyBusy;

/// The state of a verification.
#[derive(Debug, Default)]
pub(super) struct Check {
    v4: RouteCheck,
    v6: RouteCheck,
}

impl Mirror {
    /// Begins a verification, before the routes of both families are dumped for it. The dump's
    /// routes go to [`Self::verify`], not to [`Self::receive`]. Notifications that arrive meanwhile
    /// are received as always; routes that they change can be counted as different.
    ///
    /// # Errors
    /// If the routes are being dumped already.
    pub fn begin_verify(&mut self) -> Result<(), VerifyBusy> {
        let kinds = [DumpKind::Ipv4Routes, DumpKind::Ipv6Routes];
        if self.check.is_some() || kinds.iter().any(|kind| self.resync.is_running(*kind)) {
            return Err(VerifyBusy);
        }
        self.check = Some(Check { v4: self.v4.begin_check(), v6: self.v6.begin_check() });
        Ok(())
    }

    /// Compares a route of the dump.
    pub fn verify(&mut self, route: &RouteMessage<'_>) {
        let Some(check) = &mut self.check else { return };
        match route.family {
            RouteFamily::V4 => self.v4.check(&mut check.v4, &self.specs, route),
            RouteFamily::V6 => self.v6.check(&mut check.v6, &self.specs, route),
        }
    }

    /// Ends the verification, after both dumps. Also compares the lookup structures with the
    /// routes, as of the last publication.
    ///
    /// # Errors
    /// If the mirror has begun to dump routes meanwhile, which ends a verification.
    pub fn end_verify(&mut self) -> Result<VerifyReport, VerifyBusy> {
        let check = self.check.take().ok_or(VerifyBusy)?;
        let mut report = VerifyReport::default();
        for (check, extra) in [
            (&check.v4, self.v4.unmentioned(&check.v4)),
            (&check.v6, self.v6.unmentioned(&check.v6)),
        ] {
            report.checked += check.checked;
            report.missing += check.missing;
            report.different += check.different;
            report.extra += extra;
        }
        report.different += self.wrong_ranges();
        Ok(report)
    }

    /// AddressRanges of addresses whose lookup does not return what the routes say.
    fn wrong_ranges(&self) -> u64 {
        let Some(published) = &self.published else { return 0 };
        let mut wrong = 0;
        for (at, (vrf, tables)) in self.vrfs.iter().zip(published.vrfs.iter()).enumerate() {
            let lookup = |addresses: &[u32], targets: &mut [TargetIndex]| {
                tables.v4.lookup(addresses, targets)
            };
            for chunk in 0..=u8::MAX {
                let prefix = RoutePrefix::around(u32::from(chunk) << 24, 8);
                let ranges =
                    route_ranges(RouteFamily::V4, &self.v4, &vrf.config.v4, &self.specs, prefix);
                wrong += self.count_wrong(VrfIndex(at as u16), &ranges, prefix, lookup);
            }
            let ranges = route_ranges(
                RouteFamily::V6,
                &self.v6,
                &vrf.config.v6,
                &self.specs,
                RoutePrefix::ALL,
            );
            let lookup = |addresses: &[u128], targets: &mut [TargetIndex]| {
                tables.v6.lookup(addresses, targets)
            };
            wrong += self.count_wrong(VrfIndex(at as u16), &ranges, RoutePrefix::ALL, lookup);
        }
        wrong
    }

    /// Looks up the first and the last address of each range. What is left to the kernel for lack
    /// of space, and hosts of the subnet, are as they should be.
    fn count_wrong<A: AddressBits>(
        &self,
        vrf: VrfIndex,
        ranges: &[(A, TargetIndex)],
        within: RoutePrefix<A>,
        lookup: impl Fn(&[A], &mut [TargetIndex]),
    ) -> u64 {
        let hosts = &self.vrfs[usize::from(vrf.0)].hosts;
        let mut wrong = 0;
        for (at, &(first, expected)) in ranges.iter().enumerate() {
            let last =
                ranges.get(at + 1).and_then(|next| next.0.previous()).unwrap_or(within.last());
            let (addresses, mut found) = ([first, last], [TargetIndex::KERNEL; 2]);
            lookup(&addresses, &mut found);
            let is_right = |(address, found): (A, TargetIndex)| {
                let is_host = hosts.get(&address.address()).is_some_and(|key| key.0 == expected);
                found == expected || found == TargetIndex::KERNEL || is_host
            };
            wrong += u64::from(!addresses.into_iter().zip(found).all(is_right));
        }
        wrong
    }
}
