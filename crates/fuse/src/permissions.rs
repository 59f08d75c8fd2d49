//! Owner, group and mode of the device, which decide who may open it.

use std::sync::{Mutex, PoisonError};

/// The mode, the owner and the group of the device. They may change at any time.
#[derive(Debug, Default)]
pub struct Permissions(Mutex<PermissionBits>);

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PermissionBits {
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

impl Permissions {
    /// Sets permission bits, owner and group. Files that are already open stay open.
    pub fn set(&self, mode: u32, uid: u32, gid: u32) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) =
            PermissionBits { mode: mode & 0o777, uid, gid };
    }

    /// Returns whether user `uid` with the groups `gids` may open the device, by the kernel's rules
    /// for file permissions.
    pub(crate) fn admit(&self, uid: u32, gids: &[u32]) -> bool {
        const READ_WRITE: u32 = 6;
        let PermissionBits { mode, uid: owner, gid } = self.bits();
        let bits = match () {
            () if uid == owner => mode >> 6,
            () if gids.contains(&gid) => mode >> 3,
            () => mode,
        };
        uid == 0 || bits & READ_WRITE == READ_WRITE
    }

    pub(crate) fn bits(&self) -> PermissionBits {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_open_it_is_who_might_open_a_file() {
        let permissions = Permissions::default();
        let may = |uid, gid| permissions.admit(uid, &[gid]);
        permissions.set(0o600, 5, 6);
        assert_eq!([may(0, 0), may(5, 1), may(1, 6), may(1, 1)], [true, true, false, false]);
        permissions.set(0o660, 5, 6);
        assert_eq!([may(5, 1), may(1, 6), may(1, 1)], [true, true, false]);
        permissions.set(0o606, 5, 6);
        assert_eq!([may(1, 6), may(1, 1)], [false, true], "the group's bits are the group's");
        permissions.set(0o444, 5, 6);
        assert_eq!([may(5, 6), may(1, 1)], [false, false], "to read is not enough");
    }
}
