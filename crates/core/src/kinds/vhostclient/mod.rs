//! `vhostclient:PATH`, a guest whose VMM creates the socket: [`super::vhost`] with swapped roles.

use slipring_vhost::VhostRole;

use super::vhost::{GUEST, VhostDriver};
use super::{NameRow, PortKindInfo};

pub(super) static DRIVER: VhostDriver = VhostDriver { facts: &FACTS, role: VhostRole::Client };

static FACTS: PortKindInfo = PortKindInfo {
    rows: &[NameRow {
        name: "`vhostclient:PATH`",
        what: "the same where QEMU makes the socket",
        needs: "the right to the socket",
        help: "a QEMU/KVM guest that makes that socket",
    }],
    ..GUEST
};
