//! The error codes `SR04xx`: errors while a program runs.

use super::entry::codes;

codes! {
    SR0401 PeerLost "the port vanished while in use" {
        cause: "The interface was removed or moved into another namespace, or it went down under a\n\
                program with --exit-on-link-down, or the process at the other end is gone. What had\n\
                passed until then is in the summary.",
        remedy: "Start again when the port is back.",
        example: "ip -s link\ndmesg | tail",
    }
    SR0402 PeerLost "the peer broke the ring protocol" {
        cause: "The other party wrote an index or buffer number into the shared ring that its rules\n\
                forbid. slipring checks each once and uses nothing unchecked, so only that port\n\
                is lost.",
        remedy: "Restart the peer; if it is slipring too, this is a bug: please report it.",
        example: "slipring doctor --json",
    }
    SR0403 PeerLost "nothing moves any more" {
        cause: "A port accepts or delivers no frame although it should. The cause line names what it\n\
                waits for: the link, the queue, a filter or the peer.",
        remedy: "Look at the link and at the counters of both ends.",
        example: "ip -s link show dev eth0\nethtool -S eth0",
    }
    SR0404 Expectation "a stated expectation failed" {
        cause: "The run ended well, but missed a bound given on its command line, such as\n\
                --max-loss or --min-rate. The exit status 1 lets scripts notice.",
        remedy: "Compare the bound with the summary, which names the losses by cause.",
        example: "slipring gen -i netmap:eth0 -f tx --rate 1Mpps --max-loss 0.1%",
    }
    SR0405 PeerLost "the running program does not answer" {
        cause: "The program has ended, or is stopped, or what it said is no answer.",
        remedy: "See whether it still runs.",
        example: "slipring emulate ctl hello",
    }
    SR0499 PeerLost "the system refused something in the middle of a run" {
        cause: "A system call that had worked until then failed. The cause line has the call and the\n\
                system's word for it.",
        remedy: "Start again; if it comes back, report it with the output of `slipring doctor`.",
        example: "slipring doctor --json",
    }
}
