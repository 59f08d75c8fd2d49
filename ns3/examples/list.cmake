# The examples, for both builds. SPDX-License-Identifier: GPL-2.0-only

set(slipring_examples fd-netmap-emu-ping fd-netmap-emu-onoff fd-netmap-emu-send fd-netmap-emu-tc
    slipring-link-replay slipring-link-udp slipring-federation slipring-source)
