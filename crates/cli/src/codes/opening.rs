//! The error codes `SR01xx`: errors of opening ports.

use super::entry::codes;

codes! {
    SR0101 Usage "not a port name" {
        cause: "Port names follow netmap's grammar, and every kind can be named outright:\n\
                \n  netmap:eth0     the best kind there is for eth0\n  \
                netmap:eth0-2   its queue 2 only\n  \
                netmap:eth0^    its host rings: the kernel's own traffic\n  \
                xdp:eth0        AF_XDP\n  \
                packet:eth0     AF_PACKET, on every interface\n  \
                tap:tap0        a TAP device\n  \
                x{1  x}1        the two ends of a pipe\n  \
                pcap:file       a capture, read or written\n  \
                null:           sink and source, for measuring",
        remedy: "The error names the column at which reading stopped.",
        example: "slipring ports",
    }
    SR0102 Machine "no such interface" {
        cause: "This network namespace has no interface of that name. Another namespace may.",
        remedy: "List what can be opened here, or enter the namespace first.",
        example: "slipring ports\nip netns exec NAME slipring ports",
    }
    SR0103 Machine "the interface is down" {
        cause: "Frames neither enter nor leave an interface that is down. A port waits for it, but not\n\
                with --exit-on-link-down, nor where the driver has no AF_XDP queues until it is up.",
        remedy: "Bring it up.",
        example: "ip link set dev eth0 up",
    }
    SR0104 Machine "a capability is missing" {
        cause: "Opening this kind of port needs a privilege: packet: CAP_NET_RAW; tap: CAP_NET_ADMIN,\n\
                and /dev/net/tun open to you; xdp: CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF.",
        remedy: "Run it as root, or make a copy with these capabilities that only a group may execute.\n\
                 Members of that group can read and change all traffic of this machine. In a user\n\
                 namespace, as in a rootless container or under `unshare -rn`, the kernel loads BPF\n\
                 for nobody: xdp:, netmap: with host rings and packet: do not open there, but packet:\n\
                 with --shared and tap: do.",
        example: "sudo slipring ports\n\
                  sudo groupadd -f slipring\n\
                  sudo install -g slipring -m 750 \"$(command -v slipring)\" /usr/local/bin/slipring-net\n\
                  sudo setcap cap_net_raw,cap_net_admin,cap_bpf,cap_ipc_lock+ep /usr/local/bin/slipring-net\n\
                  sudo usermod -aG slipring \"$USER\"   # then log in again, and run slipring-net\n\
                  sudo chmod 0666 /dev/net/tun   # as udev does, where it is closed\n\
                  unshare -rn slipring doctor",
    }
    SR0105 Machine "the interface has no such queue" {
        cause: "Queues count from 0. The name asks for one that the interface does not have.",
        remedy: "See how many there are, or raise the number where the driver allows it.",
        example: "slipring ports\nethtool -l eth0",
    }
    SR0106 Machine "frames of the interface do not fit the buffers" {
        cause: "The MTU of the interface is larger than this kind of port can carry.",
        remedy: "Lower the MTU, or use a kind of port that carries it.",
        example: "ip link set dev eth0 mtu 1500",
    }
    SR0107 Machine "the queue is held by another program" {
        cause: "The kernel gives a queue of an interface to one AF_XDP socket, and an interface to\n\
                one XDP program. Another process holds it. \"perhaps by\" means that the kernel does not\n\
                say which one: these have such sockets.",
        remedy: "Take a free queue, or end the other program. All such sockets and programs vanish\n\
                 with the process that made them.",
        example: "slipring ports\nbpftool net",
    }
    SR0108 Machine "the mode asked for cannot be had" {
        cause: "A mode given by name is strict: slipring refuses rather than fall back unseen.",
        remedy: "Leave the mode out: the best one is taken, and named in the first line of output.",
        example: "slipring doctor netmap:eth0",
    }
    SR0109 Usage "the interface carries the default route" {
        cause: "Taking it over would cut this machine, perhaps your own session, from the network.",
        remedy: "If that is what you want, say so by --take-over.",
        example: "slipring bridge -i xdp:eth0 -i xdp:eth1 --take-over",
    }
    SR0110 Machine "no memory for the region" {
        cause: "The buffers of a port lie in one region of shared memory, which the kernel pins for\n\
                a NIC. The pool of the region, the locked-memory limit or the memory cgroup is\n\
                exhausted; the cause line says which, and by how much.",
        remedy: "Raise that limit, or ask for fewer or shorter rings.",
        example: "ulimit -l\nslipring doctor",
    }
    SR0111 Machine "this kernel lacks the kind of port" {
        cause: "The kernel is too old for this kind of port, or was built without it.",
        remedy: "netmap:IF takes the best kind that the kernel has; packet:IF works on every Linux.",
        example: "slipring doctor",
    }
    SR0112 Machine "the end of the pipe cannot be had" {
        cause: "A pipe has two ends, NAME{K and NAME}K. This one is taken, or the name is used by a\n\
                port of another kind.",
        remedy: "Open the other end, or take another name or number.",
        example: "slipring bridge -i x{1 -i x}2",
    }
    SR0113 Machine "the link has no carrier" {
        cause: "The interface is down, or the other end of its link is down or no cable is plugged in,\n\
                so that no frame can leave. `slipring gen` and `slipring replay` wait for that as long\n\
                as -w says. Without -w, gen waits 2 s and replay not at all. Both wait 10 s for a card\n\
                with a native driver, which negotiates its link after its port was opened.",
        remedy: "Plug the cable in, or bring the other end up. The two ends of a veth pair are links\n\
                 like any other.",
        example: "ip link set dev PEER up\nslipring gen -i netmap:eth0 -f tx -w 10",
    }
    SR0114 Machine "the kernel would not forward in the router's place" {
        cause: "`slipring route` leaves packets to the kernel that it does not handle itself, and all\n\
                packets if it dies or hangs. The kernel's forwarding is off, which is the default, or\n\
                its rules choose other tables than a [[vrf]] in the file.",
        remedy: "Switch it on, or start with --no-fallback if only the router is to forward. Add the\n\
                 rules that the message names.",
        example: "sysctl -w net.ipv4.ip_forward=1\nsysctl -w net.ipv6.conf.all.forwarding=1",
    }
    SR0115 Machine "packets would bypass what the kernel does to them" {
        cause: "XDP forwards before netfilter, IPsec policies and tc see a packet.\n\
                Some of them are set on this machine, so packets would pass that they stop or change.",
        remedy: "Look at what was found, and remove it if it is not needed; or start with\n\
                 --bypass-netfilter if packets may pass without it.",
        example: "nft list ruleset\nslipring route eth0 eth1 --bypass-netfilter",
    }
    SR0116 Machine "the card cannot be driven from here" {
        cause: "A vfio: port drives a network card itself. The card must be bound to vfio-pci, behind an\n\
                IOMMU with interrupt remapping, alone in its group or with devices that are bound\n\
                likewise; /dev/vfio/GROUP must be open to this user; and there must be a driver for\n\
                the chip. The message says which of these does not hold.",
        remedy: "`slipring doctor vfio:ADDRESS` names what is missing, and the command for it.",
        example: "slipring doctor vfio:0000:03:00.0\nls -l /dev/vfio",
    }
    SR0199 Machine "the system refused" {
        cause: "A system call failed in a way that has no code of its own. The cause line names the\n\
                call and the error.",
        remedy: "Run the preflight; its output is what a bug report needs.",
        example: "slipring doctor --json",
    }
}
