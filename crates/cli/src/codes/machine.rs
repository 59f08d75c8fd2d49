//! `SR03xx`: machine and privileges.

use super::entry::codes;

codes! {
    SR0301 Machine "user namespaces are not allowed" {
        cause: "Without root, slipring builds its private network in a user namespace, and this\n\
                system forbids ordinary users to make one.",
        remedy: "Run as root, or allow them.",
        example: "sysctl -e kernel.unprivileged_userns_clone user.max_user_namespaces\n\
                  sysctl -e kernel.apparmor_restrict_unprivileged_userns",
    }
    SR0302 Machine "a program that the command runs is missing" {
        cause: "The command runs another program, which is not installed or not in PATH.",
        remedy: "Install its package; the help line names it.",
        example: "apt-get install iproute2 iputils-ping iperf3",
    }
    SR0303 Machine "the device cannot be served" {
        cause: "slipringd could not mount /dev/netmap: it is not root, the kernel is older than\n\
                6.9 or has no FUSE, or another slipringd has the run directory.",
        remedy: "Run it as root on Linux 6.9 or newer, once for each run directory.",
        example: "modprobe fuse\n\
                  slipring daemon --run-dir /run/slipring",
    }
    SR0304 Machine "the machine cannot give the card to a program" {
        cause: "A card is given to a program by VFIO, which needs an IOMMU with interrupt remapping, the\n\
                module vfio-pci, and a group of devices none of which the kernel drives. The cause lines\n\
                say what is missing. Nothing was changed.",
        remedy: "The help lines have the commands. All checks together, with what is fine:",
        example: "slipring nic doctor eth1\nmodprobe -a vfio-pci vfio_iommu_type1\ndmesg | grep -i -e dmar -e iommu",
    }
    SR0305 Usage "this machine uses the card" {
        cause: "The card carries a default route, addresses, a connection or another interface, or a\n\
                program has it open. Taking it, or giving it back, would cut that off.",
        remedy: "Remove what the cause lines name, or say --force. For the card of a default route, --force\n\
                 also needs a time after which the card is given back unless you confirm that you can\n\
                 still reach the machine.",
        example: "slipring nic bind eth0 --force --confirm-within 60\nslipring nic confirm eth0",
    }
    SR0306 Usage "not a card that a native driver can have" {
        cause: "The name is that of no interface or PCI address, the device is no PCI card, no native\n\
                driver knows its chip, or slipring has not taken it.",
        remedy: "List the cards. docs/hardware.md says which chips are refused, and why.",
        example: "slipring nic list\nslipring doctor netmap:eth0",
    }
    SR0307 Machine "taking or giving back a card failed" {
        cause: "The kernel refused a step. If a card was being taken, the steps before it were undone, and\n\
                the cause line says so. If one was being given back, the saved state stays.",
        remedy: "Look at the kernel's messages, and repeat the command. A restart of the machine gives every\n\
                 card back to its kernel driver.",
        example: "dmesg | tail\nslipring nic restore --all",
    }
    SR0308 Usage "no way back if this machine can no longer be reached" {
        cause: "The card carries a default route or a connection, or is a member of a bridge or a bond.\n\
                Taking it may cut the machine off, and --force alone leaves no way to give it back.\n\
                Nothing was changed.",
        remedy: "Say after what time the card is given back, and confirm within that time if you can still\n\
                 reach the machine.",
        example: "slipring nic bind eth0 --force --confirm-within 60\nslipring nic confirm eth0",
    }
    SR0309 Usage "the card was taken by root" {
        cause: "What is needed to give the card back is saved in the run directory of the command that took\n\
                it. This command has another one: that of a user, or the one that --run-dir names.",
        remedy: "Run the command as root, with the run directory of root.",
        example: "slipring nic list\nsudo slipring nic restore --all --run-dir /run/slipring",
    }
}
